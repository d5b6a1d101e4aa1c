//! Tests `--force`: files that it replaces and refuses. The old dataset stays whole until the new dataset is sealed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use shardpack_testing::{Bench, Dataset, Ran, bad, binary, contents, mounts_work, pack, run, sweep};

const WORK: &str = ".shardpack";

/// A sealed dataset of another source at DST, and a source to replace it.
fn replacing(options: &[&str]) -> (Bench, Bench) {
    let (old, new) = (Bench::with(&["x/1.jpg", "y/2.jpg", "z/3.jpg"]), Bench::with(&["a/1.jpg", "b/2.jpg"]));
    pack(&old.src(), &new.dst(), options).code(0);
    (old, new)
}

#[test]
fn what_force_is_refused_leaves_the_dataset_of_before() {
    let (_, bench) = replacing(&["--shards", "3"]);
    let before = contents(&bench.dst());
    let hole = bench.at("hole");
    fs::File::create(&hole).unwrap().set_len(3 << 30).unwrap();
    let free = rustix::fs::statvfs(bench.src()).map(|stat| stat.f_bavail * stat.f_frsize).unwrap();
    let large = Bench::new();
    for number in 0..free / (3 << 30) + 2 {
        large.link(&format!("a/{number:06}.jpg"), &hole);
    }
    let (broken, _) = bad();
    let none = Bench::new();
    let rows: [(&str, &Path, &[&str], &str); 8] = [
        ("memory", &bench.src(), &["--memory", "1KiB"], "--memory"),
        (
            "memory, of images that are changed",
            &bench.src(),
            &["--memory", "256KiB", "--resize", "8"],
            "any sample takes",
        ),
        ("memory of windows", &bench.src(), &["--memory", "1KiB", "--read-order", "physical"], "--memory"),
        ("space", &large.src(), &[], " are free, and "),
        ("a sidecar that there is not", &bench.src(), &["--sidecars", "index"], "--sidecars index"),
        ("more shards than images", &bench.src(), &["--shards", "9"], "--shards 9, and there are 2 samples"),
        ("no images", &none.src(), &[], "no class folders"),
        ("a source that is not there", &bench.at("gone"), &[], "gone"),
    ];
    for (row, source, options, says) in rows {
        let ran = pack(source, &bench.dst(), &[&["--force"][..], options].concat());
        ran.code(2).clean_error().says(says);
        assert_eq!(contents(&bench.dst()), before, "{row}");
    }
    // A pack with bad images seals nothing. The old dataset is kept until a new dataset is sealed.
    let ran = pack(&broken.src(), &bench.dst(), &["--force"]).code(1).says("nothing is sealed");
    ran.says("the previous dataset is kept in ").says("replaced");
    let kept = contents(&bench.dst().join(WORK).join("replaced"));
    assert_eq!(kept, before);
    // A pack without the bad images replaces the old dataset and deletes it.
    pack(&broken.src(), &bench.dst(), &["--on-bad", "skip"]).code(0);
    Dataset::read(&bench.dst()).check_source(&broken.src());
}

#[test]
fn force_replaces_datasets_and_refuses_to_pack_beside_anything_else() {
    let (old, bench) = replacing(&[]);
    let dst = bench.dst();
    let rows: [(&str, &dyn Fn(&Path)); 4] = [
        ("thesis.tex", &|path| fs::write(path, b"x").unwrap()),
        ("other", &|path| drop(pack(&old.src(), path, &[]).code(0))),
        ("folder", &|path| fs::create_dir(path).unwrap()),
        ("index/notes", &|path| fs::write(path, b"x").unwrap()),
    ];
    for (name, make) in rows {
        make(&dst.join(name));
        let before = contents(&dst);
        let says = format!("holds {name:?}, which is no part of a dataset");
        for options in [&["--force"][..], &[]] {
            bench.pack(options).code(2).clean_error().says(&says).says("move it away");
            assert_eq!(contents(&dst), before, "{name} {options:?}");
        }
        fs::rename(dst.join(name), bench.at("away")).unwrap();
        // `--force` refuses exactly the files that `verify` reports as foreign.
        run(&["verify", dst.to_str().unwrap(), "--quiet"]).code(0);
        let _ = fs::remove_dir_all(bench.at("away"));
        let _ = fs::remove_file(bench.at("away"));
    }
    bench.pack(&["--force"]).code(0);
    Dataset::read(&dst).check_source(&bench.src());
}

#[test]
fn force_replaces_a_dataset_that_lost_its_manifest_or_has_a_damaged_one() {
    for damage in ["lost", "damaged", "other name", "other shard"] {
        let (_, bench) = replacing(&["--shards", "3"]);
        let manifest = bench.dst().join("manifest.json");
        match damage {
            "lost" => fs::remove_file(&manifest).unwrap(),
            "damaged" => fs::write(&manifest, b"{").unwrap(),
            damage => {
                let (from, to) =
                    if damage == "other name" { ("\"shard\"", "\"sharp\"") } else { ("-000001.tar", "-000009.tar") };
                let text = fs::read_to_string(&manifest).unwrap();
                assert!(text.contains(from));
                fs::write(&manifest, text.replacen(from, to, 1)).unwrap();
            }
        }
        let ran = bench.pack(&[]).code(2).clean_error().says("holds another dataset").says("--force to replace it");
        if damage == "lost" {
            ran.says("its manifest.json is missing, so its source is unknown");
        }
        bench.pack(&["--force"]).code(0);
        Dataset::read(&bench.dst()).check_source(&bench.src());
    }
    // The same for other splits, and for a split that lost its manifest.
    let (old, bench) = (Bench::with(&["train/x/1.jpg", "val/x/2.jpg"]), Bench::with(&["a/1.jpg"]));
    old.pack(&[]).code(0);
    bench.pack_to(&old.dst(), &[]).code(2).says("splits: was train, val, is now none");
    fs::rename(old.src().join("val"), old.src().join("test")).unwrap();
    old.pack(&[]).code(2).says("splits: was train, val, is now test, train");
    fs::rename(old.src().join("test"), old.src().join("val")).unwrap();
    fs::remove_file(old.dst().join("val/manifest.json")).unwrap();
    old.pack(&[]).code(2).clean_error().says("its val/manifest.json is missing");
}

/// The files in `dst` outside the work folder.
fn beside_work(dst: &Path) -> BTreeMap<PathBuf, String> {
    contents(dst).into_iter().filter(|(path, _)| !path.starts_with(WORK)).collect()
}

#[test]
fn until_the_images_of_a_replacement_are_made_the_dataset_of_before_is_whole() {
    let one = &["x/1.jpg", "y/2.jpg", "z/3.jpg"][..];
    let splits = &["train/x/1.jpg", "train/y/2.jpg", "val/x/3.jpg"][..];
    let recipes: [&[&str]; 3] = [&["--resize", "16"], &["--encode", "webp"], &["--fix"]];
    for (files, of_old) in [
        (one, &[][..]),
        (one, &["--resize", "8"][..]),
        (splits, &[][..]),
        (one, &["--format", "mds", "--format", "webdataset"]),
    ] {
        let (old, new) = (Bench::with(files), Bench::with(&["a/1.jpg", "b/2.jpg"]));
        let dst = old.dst();
        old.pack(of_old).code(0);
        let before = contents(&dst);
        let twice = of_old.len() == 4;
        for recipe in recipes {
            let row = format!("{files:?} {of_old:?} {recipe:?}");
            let options = [recipe, if twice { of_old } else { &[] }].concat();
            let refused = [&options[..], &["--force", "--memory", "257KiB"]].concat();
            // A late refusal, while images are changed: by the memory for decoding, or by the longest result.
            let ran = new.pack_to(&dst, &refused).code(2);
            ran.clean_error().says("--memory").says("257.0 KiB");
            // Of two formats, the last has the changed images.
            let of_images = if twice { dst.join("webdataset") } else { dst.clone() };
            assert!(of_images.join(WORK).exists(), "{row}");
            let verified = run(&["verify", dst.to_str().unwrap()]).code(0);
            verified.says("a pack to replace this dataset was begun").says("has changed none of its files");
            let json = run(&["verify", dst.to_str().unwrap(), "--json"]).code(0).json();
            assert!(json["notes"].to_string().contains("to replace this"), "{row}: {json}");
            run(&["inspect", of_images.to_str().unwrap()]).code(0).says("3 samples");
            run(&["convert", of_images.to_str().unwrap(), new.at("converted").to_str().unwrap(), "--force"]).code(0);
            // `verify` still finds damage in the old dataset.
            let damaged = contents(&dst).into_keys().find(|path| path.to_string_lossy().ends_with(".tar")).unwrap();
            let whole = fs::read(dst.join(&damaged)).unwrap();
            fs::write(dst.join(&damaged), &whole[1..]).unwrap();
            run(&["verify", dst.to_str().unwrap(), "--quiet"]).code(1).says(damaged.to_str().unwrap());
            fs::write(dst.join(&damaged), &whole).unwrap();
            // Without --force the pack is refused, as before.
            new.pack_to(&dst, &options).code(2).says("holds another dataset");
            // The old command has nothing to do, and ends the replacement.
            old.pack(of_old).code(0).says("nothing to do");
            assert_eq!(contents(&dst), before, "{row}");
            assert_ne!(new.pack_to(&dst, &refused).code, 0, "{row}");
            let whole = new.at("whole");
            new.pack_to(&whole, &options).code(0);
            new.pack_to(&dst, &[&options[..], &["--force"]].concat()).code(0);
            assert_eq!(contents(&dst), contents(&whole), "{row}");
            fs::remove_dir_all(&whole).unwrap();
            fs::remove_dir_all(&dst).unwrap();
            old.pack(of_old).code(0);
        }
    }
}

#[test]
fn a_replacement_that_is_stopped_while_its_images_are_made_leaves_the_dataset_of_before() {
    let new = Bench::with_source(400, 20_000);
    let options = ["--encode", "png", "--force", "--jobs", "1"];
    let whole = new.at("whole");
    new.pack_to(&whole, &options).code(0);
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let old = Bench::with(&["x/1.jpg", "y/2.jpg", "z/3.jpg"]);
        old.pack(&[]).code(0);
        let (dst, before) = (old.dst(), contents(&old.dst()));
        let spool = dst.join(WORK).join("made");
        let mut child = Command::new(binary())
            .arg("pack")
            .args([&new.src(), &dst])
            .args(options)
            .args(["--quiet"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !fs::metadata(&spool).is_ok_and(|spool| spool.len() > 20_000) {
            assert!(child.try_wait().unwrap().is_none(), "it was too fast");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Also while the pack runs.
        run(&["verify", dst.to_str().unwrap(), "--quick"]).code(0).says("to replace this");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(beside_work(&dst), before);
        run(&["verify", dst.to_str().unwrap()]).code(0).says("3 samples").says("to replace this");
        new.pack_to(&dst, &options).code(0);
        assert_eq!(contents(&dst), contents(&whole));
    }
}

/// Files of a dataset, relative to its folder, in the order in which they are set aside.
fn files(dst: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        contents(dst).into_iter().filter(|(_, hash)| !hash.is_empty()).map(|(path, _)| path).collect();
    files.sort_by_key(|path| path.file_name() != Some("manifest.json".as_ref()));
    files
}

#[test]
fn a_crash_while_the_dataset_of_before_is_set_aside_gives_it_back() {
    let splits = ["train/x/1.jpg", "train/y/2.jpg", "val/x/3.jpg"];
    for (of_before, count) in [(Bench::with(&["x/1.jpg", "y/2.jpg", "z/3.jpg"]), 0), (Bench::with(&splits), 2)] {
        let new = Bench::with(&["a/1.jpg", "b/2.jpg"]);
        let whole = new.at("whole");
        new.pack_to(&whole, &[]).code(0);
        let old_set = of_before.dst();
        of_before.pack(&[]).code(0);
        let (before, files) = (contents(&old_set), files(&old_set));
        assert!(files.len() > 5 + count);
        for moved in (0..=files.len()).filter(|moved| sweep::takes(moved + 1, 3) || *moved == files.len()) {
            for force in [false, true] {
                let dst = new.at(&format!("dst-{count}-{moved}-{force}"));
                of_before.pack_to(&dst, &[]).code(0);
                let aside = dst.join(WORK).join("replaced.part");
                for file in &files[..moved] {
                    fs::create_dir_all(aside.join(file).parent().unwrap()).unwrap();
                    fs::rename(dst.join(file), aside.join(file)).unwrap();
                }
                fs::create_dir_all(&aside).unwrap();
                // The folder does not look finished.
                run(&["verify", dst.to_str().unwrap()]).code(1).says("unfinished");
                if force {
                    new.pack_to(&dst, &["--force"]).code(0);
                    assert_eq!(contents(&dst), contents(&whole), "{moved} moved");
                } else {
                    new.pack_to(&dst, &[]).code(2).says("holds another dataset");
                    of_before.pack_to(&dst, &[]).code(0).says("nothing to do");
                    assert_eq!(contents(&dst), before, "{moved} moved");
                }
                fs::remove_dir_all(&dst).unwrap();
            }
        }
        // All files are set aside, and the plan is not written yet.
        for force in [&["--force"][..], &[]] {
            let dst = new.at("dst-moved");
            of_before.pack_to(&dst, &[]).code(0);
            let kept = new.at("kept");
            fs::rename(&dst, &kept).unwrap();
            fs::create_dir_all(dst.join(WORK)).unwrap();
            fs::rename(&kept, dst.join(WORK).join("replaced")).unwrap();
            run(&["verify", dst.to_str().unwrap()]).code(1).says("unfinished");
            new.pack_to(&dst, force).code(0);
            assert_eq!(contents(&dst), contents(&whole));
            fs::remove_dir_all(&dst).unwrap();
        }
    }
}

#[test]
fn a_file_that_cannot_be_moved_away_stops_force_and_all_others_come_back() {
    if !mounts_work() {
        println!("no mounts here: a file that cannot be moved was not tried");
        return;
    }
    for file in ["shard-000001.tar", "manifest.json", "index/shard-000002.index"] {
        let (_, bench) = replacing(&["--shards", "3"]);
        let before = contents(&bench.dst());
        // A mount point cannot be renamed.
        let script = "mount --bind \"$6/$0\" \"$6/$0\" && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, file, binary().to_str().unwrap(), "pack"]);
        let ran: Ran = command.arg(bench.src()).args(["--force", "--quiet"]).arg(bench.dst()).output().unwrap().into();
        ran.code(2).clean_error().says("cannot move").says(file);
        assert_eq!(contents(&bench.dst()), before, "{file}");
        bench.pack(&["--force"]).code(0);
        Dataset::read(&bench.dst()).check_source(&bench.src());
    }
}

#[test]
fn where_space_is_short_the_dataset_of_before_makes_room_and_else_it_stays() {
    if !mounts_work() {
        println!("no mounts here: a small disk was not tried");
        return;
    }
    let bench = Bench::with_source(300, 5000);
    let dst = bench.at("mounted");
    fs::create_dir(&dst).unwrap();
    let whole = bench.at("whole");
    bench.pack_to(&whole, &["--seed", "1"]).code(0);
    let bytes: u64 = fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    for (size, fits) in [(bytes / 1024 + 1500, true), (bytes / 1024 - 200, false)] {
        let script = format!(
            "mount -t tmpfs -o size={size}k none \"$4\" && \"$@\" --on-bad skip --shards 3 --include 'class-0/*'; \"$@\" --seed 1 --force; code=$?; \
             cp -r \"$4\" \"$4/../kept-{fits}\"; exit $code"
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, "sh"]).arg(binary()).arg("pack").arg(bench.src()).arg(&dst);
        let ran: Ran = command.output().unwrap().into();
        let kept = bench.at(&format!("kept-{fits}"));
        if fits {
            ran.code(0);
            assert_eq!(contents(&kept), contents(&whole));
        } else {
            ran.code(2).says(" are free, and ").says("in files to be replaced");
            assert_eq!(Dataset::read(&kept).manifest.shards.len(), 3);
        }
    }
}
