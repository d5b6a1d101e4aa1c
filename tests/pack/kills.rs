//! Commands in a folder that are killed before a call that creates, changes or removes a name in it, at a sweep of such calls: the same
//! command then gives the files of a run without a kill.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use shardpack_testing::{
    Bench, contents,
    faults::{self, KILL, fault},
    run, sweep,
};

/// Exit code of [`shardpack_testing::Ran`] after SIGKILL.
const KILLED: i32 = -9;

/// Images in two classes, which `--fix` changes.
fn source() -> Bench {
    let bench = Bench::new();
    for number in 0..6u8 {
        let image = [&b"P6 2 2 255\n"[..], &[number; 12]].concat();
        bench.file(format!("c{}/{number}.ppm", number % 2), &image);
    }
    bench
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() { copy(&path, &to) } else { assert!(fs::copy(path, to).is_ok()) }
    }
}

/// Files of the dataset in `dst`, and whether its work folder is there: its files have random names.
fn files(dst: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = contents(dst);
    files.retain(|path, _| path.as_os_str() == ".shardpack" || !path.starts_with(".shardpack"));
    files
}

/// Runs `line`, in which DST is a copy of the folder `before`, with a kill at each call of a sweep; every third time with a second kill.
fn killed_at_each(bench: &Bench, before: Option<&str>, line: &str) {
    let fresh = |name: String| {
        let dst = bench.at(&name);
        before.iter().for_each(|before| copy(&bench.at(before), &dst));
        let text = dst.to_str().unwrap().to_owned();
        let words = line.replace("DST", &text).replace("SRC", bench.src().to_str().unwrap());
        (dst, text, words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    };
    let (dst, _, words) = fresh("whole".to_owned());
    run(&words).code(0);
    let whole = files(&dst);
    for at in (1..).filter(|at| sweep::takes(*at as usize, 2)) {
        let (dst, text, words) = fresh(format!("killed-{at}"));
        let Some(ran) = faults::run(&[fault("change", KILL, at, &text)], &words) else { return };
        let mut what = format!("{line}, killed before change {at}");
        let is_killed = ran.code == KILLED;
        if !is_killed {
            assert!(at > 5, "{line}: only {at} changes");
            ran.code(0);
        } else if at % 3 == 0 {
            let second = at * 7 % 20 + 1;
            what += &format!(", then before change {second}");
            let ran = faults::run(&[fault("change", KILL, second, &text)], &words).unwrap();
            assert!([0, KILLED].contains(&ran.code), "{what}: {}", ran.stderr);
        }
        if is_killed {
            let again = run(&words);
            assert_eq!(again.code, 0, "{what}: {}\n{:?}", again.stderr, contents(&dst).keys());
        }
        assert_eq!(files(&dst), whole, "{what}");
        fs::remove_dir_all(&dst).unwrap();
        if !is_killed {
            return;
        }
    }
}

#[test]
fn changed_images_go_on_after_a_kill_at_any_change() {
    killed_at_each(&source(), None, "pack SRC DST --fix --shards 2 --jobs 1 --format mds");
}

#[test]
fn a_replacement_by_changed_images_goes_on_after_a_kill_at_any_change() {
    let bench = source();
    bench.pack_to(&bench.at("before"), &["--shards", "3", "--include", "c0/*"]).code(0);
    killed_at_each(&bench, Some("before"), "pack SRC DST --fix --force --shards 2 --jobs 1");
}

#[test]
fn parts_and_merge_go_on_after_a_kill_at_any_change() {
    let bench = source();
    killed_at_each(&bench, None, "pack SRC DST --fix --shards 2 --jobs 1 --part 1/1");
    let part = ["--fix", "--shards", "2", "--part", "1/1"];
    bench.pack_to(&bench.at("part"), &part).code(0);
    let merged = bench.at("whole");
    fs::remove_dir_all(merged).unwrap();
    killed_at_each(&bench, Some("part"), "merge DST");
}

#[test]
fn a_merge_of_splits_goes_on_after_a_kill_at_any_change() {
    let bench = source();
    let part = ["--split-fraction", "val=0.4", "--part", "1/1"];
    bench.pack_to(&bench.at("part"), &part).code(0);
    killed_at_each(&bench, Some("part"), "merge DST");
    // A part does not need the record of splits to see that all is merged.
    let whole = bench.at("whole");
    fs::remove_file(whole.join("splits.json")).unwrap();
    bench.pack_to(&whole, &part).code(0).says("all parts are merged here already");
}

#[test]
fn an_adoption_goes_on_after_a_kill_at_any_change() {
    let bench = source();
    bench.pack_to(&bench.at("packed"), &["--shards", "2", "--sidecars", "none"]).code(0);
    let shards = bench.at("shards");
    fs::create_dir(&shards).unwrap();
    for name in ["shard-000000.tar", "shard-000001.tar"] {
        fs::copy(bench.at("packed").join(name), shards.join(name)).unwrap();
    }
    killed_at_each(&bench, Some("shards"), "adopt DST --quiet");
}

#[test]
fn a_repair_goes_on_after_a_kill_at_any_change() {
    let bench = source();
    let dst = bench.at("damaged");
    bench.pack_to(&dst, &["--shards", "2"]).code(0);
    fs::remove_file(dst.join("shard-000000.tar")).unwrap();
    let damaged = dst.join("shard-000001.tar");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[700] ^= 1;
    fs::write(damaged, bytes).unwrap();
    killed_at_each(&bench, Some("damaged"), "verify DST --repair SRC");
}

/// Only --force goes on without the plan: with that of the header, or with names of its own.
#[test]
fn a_damaged_plan_is_replaced_by_force() {
    let bench = source();
    let line = |force: &str| format!("pack SRC DST --shards 3 --jobs 1 --seed 1{force}");
    let words = |dst: &Path, force| {
        let words = line(force).replace("DST", dst.to_str().unwrap()).replace("SRC", bench.src().to_str().unwrap());
        words.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = bench.at("whole");
    run(&words(&whole, "")).code(0);
    let begun = bench.at("begun");
    let kill = fault("change", KILL, 1, "begun/.shardpack/manifest.json");
    let Some(ran) = faults::run(&[kill], &words(&begun, "")) else { return };
    assert_eq!(ran.code, KILLED, "{}", ran.stderr);
    let plan = fs::read(begun.join(".shardpack/plan")).unwrap();
    // Beside a sealed dataset nobody needs it.
    let sealed = bench.at("sealed");
    copy(&whole, &sealed);
    fs::create_dir(sealed.join(".shardpack")).unwrap();
    fs::write(sealed.join(".shardpack/plan"), &plan[..plan.len() / 2]).unwrap();
    run(&words(&sealed, "")).code(0).says("sealed");
    assert_eq!(contents(&sealed), contents(&whole));
    for at in [5, 70, plan.len() / 2, plan.len() - 20] {
        let dst = bench.at(&format!("damaged-{at}"));
        copy(&begun, &dst);
        let mut plan = plan.clone();
        plan[at] ^= 255;
        fs::write(dst.join(".shardpack/plan"), plan).unwrap();
        run(&words(&dst, "")).code(1).says("plan").says("--force starts anew");
        run(&words(&dst, " --force")).code(0);
        assert_eq!(contents(&dst), contents(&whole), "{at}");
    }
}

#[test]
fn an_empty_folder_of_indexes_is_no_other_dataset() {
    let bench = source();
    for part in [None, Some(["--part", "1/1"])] {
        let dst = bench.at(if part.is_some() { "part" } else { "whole" });
        fs::create_dir_all(dst.join("index")).unwrap();
        bench.pack_to(&dst, part.as_ref().map_or(&[][..], |part| part)).code(0);
    }
}
