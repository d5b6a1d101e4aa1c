//! Tests parts: for any number and order of parts, repeated, concurrent or killed, `merge` makes the bytes of one process.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use shardpack_testing::{Bench, Ran, Rng, bad, binary, contents, jpeg, run, sweep};

const WORK: &str = ".shardpack";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn spawn(bench: &Bench, line: &str) -> Child {
    let mut command = Command::new(binary());
    command.args(bench.words(line)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Numbers 1 to `of` in a random order from `rng`.
fn shuffled(of: u64, rng: &mut Rng) -> Vec<u64> {
    let mut numbers: Vec<u64> = (1..=of).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, rng.below(at as u64 + 1) as usize);
    }
    numbers
}

/// A source with splits, a list, and foreign shards.
fn sources() -> Bench {
    let bench = Bench::with_source(90, 4000);
    for file in contents(&bench.src()).into_iter().filter(|(_, hash)| !hash.is_empty()).map(|(path, _)| path) {
        let bytes = fs::read(bench.src().join(&file)).unwrap();
        fs::write(bench.src().join(&file).with_extension("txt"), format!("a caption of {}", bytes.len())).unwrap();
    }
    for (split, number) in [("train", 60), ("val", 13)] {
        for at in 0..number {
            let path = bench.at("splits").join(split).join(format!("c{}", at % 3));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(format!("{at}.jpg")), jpeg(at, 5000 + 31 * at as usize)).unwrap();
        }
    }
    let rows = (0..40).map(|number| format!("train/c{}/{number}.jpg,label {}", number % 3, number % 5));
    let list = ["path,label".to_owned()].into_iter().chain(rows).collect::<Vec<_>>().join("\n");
    fs::write(bench.at("splits/list.csv"), list).unwrap();
    bench.shardpack("pack SRC @tar --shards 3 --sidecars none --with txt").code(0);
    fs::create_dir(bench.at("foreign")).unwrap();
    for number in 0..3 {
        let name = format!("shard-{number:06}.tar");
        fs::rename(bench.at("tar").join(&name), bench.at("foreign").join(&name)).unwrap();
    }
    bench
}

#[test]
fn parts_of_every_kind_of_source_and_format_make_the_bytes_of_one_process() {
    let bench = sources();
    let mut rng = Rng::new(15);
    let rows: [(&str, &[u64]); 12] = [
        ("pack SRC", sweep::points(&[1, 2, 7, 90, 200], &[1, 2, 7, 40])),
        ("pack SRC --shards 20 --order source --meta json", &[3]),
        ("pack SRC --shards 9 --compress zstd:1 --with txt", &[4]),
        ("pack SRC --format tfrecord --shards 5 --sidecars none", &[3]),
        ("pack SRC --format recordio --shards 11", &[5]),
        ("pack SRC --format mds --shard-size 100KiB", &[3]),
        ("pack SRC --shard-samples 1 --no-labels --check full", &[4]),
        ("pack @splits --shard-size 100KiB --exclude *.csv", &[1, 5]),
        ("pack @splits/list.csv --shards 7 --order source", &[3]),
        ("pack SRC --split-fraction val=0.3 --shard-samples 10", &[3]),
        ("convert @foreign --shards 8 --order source", &[3]),
        ("convert @tar-again --shards 8 --format tfrecord", &[2]),
    ];
    bench.shardpack("pack SRC @tar-again --shards 2").code(0);
    for (row, (line, counts)) in rows.iter().enumerate() {
        let (command, rest) = line.split_once(' ').unwrap();
        let (source, options) = rest.split_once(' ').unwrap_or((rest, ""));
        let whole = format!("whole-{row}");
        bench.shardpack(&format!("{command} {source} @{whole} {options}")).code(0);
        let whole = contents(&bench.at(&whole));
        for of in *counts {
            for by_plan in [false, true] {
                if by_plan && command == "convert" {
                    continue;
                }
                let name = format!("parts-{row}-{of}-{by_plan}");
                let packed = match by_plan {
                    false => format!("{command} {source} @{name} {options} --quiet"),
                    true => {
                        let sidecars = if options.contains("--sidecars none") { "--sidecars none" } else { "" };
                        bench
                            .shardpack(&format!(
                                "plan {source} @{name} -o @{name}.plan {}",
                                options.replace(sidecars, "")
                            ))
                            .code(0);
                        format!("pack --plan @{name}.plan @{name} --quiet {sidecars}")
                    }
                };
                for number in shuffled(*of, &mut rng).into_iter().take(40.max(*of as usize)) {
                    bench.shardpack(&format!("{packed} --part {number}/{of}")).code(0);
                }
                // Runs a finished part again.
                bench.shardpack(&format!("{packed} --part 1/{of}")).code(0);
                bench.shardpack(&format!("status @{name}")).code(0).says(&format!("parts   {of} of {of} are done"));
                bench.shardpack(&format!("merge @{name}")).code(0);
                assert_eq!(contents(&bench.at(&name)), whole, "{line}, {of} parts, by a plan file: {by_plan}");
                bench.shardpack(&format!("verify @{name}")).code(0);
                bench.shardpack(&format!("merge @{name}")).code(0).says("nothing to do");
                bench.shardpack(&format!("{packed} --part 1/{of}")).code(0);
                assert_eq!(contents(&bench.at(&name)), whole, "{line}: a part of what is sealed");
            }
        }
    }
}

#[test]
fn what_cannot_be_packed_is_in_the_ledger_as_one_process_writes_it() {
    let (bench, _) = bad();
    for number in 4..60 {
        bench.file(format!("b/{number}.jpg"), &jpeg(number, 5000 + number as usize));
    }
    // Only a read detects this damage, so only the part that holds the image knows about it.
    for name in ["a/torn.jpg", "b/9.jpg"] {
        let bytes = jpeg(7, 9000);
        bench.file(name, &bytes[..bytes.len() / 2]);
    }
    let options = "--shards 13 --check full";
    bench.shardpack(&format!("pack SRC @whole {options} --on-bad skip")).code(0);
    let first =
        bench.shardpack(&format!("pack SRC DST {options} --part 1/4")).code(1).says("4 images could not be packed");
    first.says("empty file").says("--on-bad skip leaves them out");
    assert!(!bench.dst().exists(), "nothing was begun");
    for number in [3, 1, 4, 2] {
        bench.shardpack(&format!("pack SRC DST {options} --part {number}/4 --on-bad skip")).code(0);
    }
    let merged = bench.shardpack("merge DST --json").code(0).json();
    assert_eq!(merged["unpacked"].as_array().unwrap().len(), 6);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
    // Damage that only a read detects fails the part that holds the image, and no other part.
    for name in ["a/empty.jpg", "a/dangling.jpg", "b/device.png", "b/pipe.jpg"] {
        fs::remove_file(bench.src().join(name)).unwrap();
    }
    let codes: Vec<i32> =
        (1..=13).map(|number| bench.shardpack(&format!("pack SRC @b {options} --part {number}/13")).code).collect();
    assert!((1..=2).contains(&codes.iter().filter(|code| **code == 1).count()), "{codes:?}");
    assert!(codes.iter().all(|code| [0, 1].contains(code)), "{codes:?}");
    let missing = bench.shardpack("merge @b --json").code(1).json();
    let parts: Vec<_> =
        missing["missing"]["parts"].as_array().unwrap().iter().map(|part| part.as_str().unwrap().to_owned()).collect();
    let expected = codes.iter().zip(1..).filter(|(code, _)| **code == 1).map(|(_, number)| format!("{number}/13"));
    assert_eq!(parts, expected.collect::<Vec<_>>());
}

#[test]
fn parts_of_any_number_that_are_killed_at_any_moment_and_run_at_once_make_the_same_bytes() {
    let bench = Bench::with_source(1500, 8000);
    bench.shardpack("pack SRC @whole --shards 40").code(0);
    bench.shardpack("plan SRC -o @x.plan --shards 40").code(0);
    let whole = contents(&bench.at("whole"));
    let mut rng = Rng::new(8);
    let (mut killed, mut merges_killed) = (0, 0);
    for round in 0..sweep::points(10, 4) {
        let name = format!("round-{round}");
        let dst = bench.at(&name);
        let how =
            if round % 3 == 0 { "pack SRC @DIR --shards 40" } else { "pack --plan @x.plan @DIR" }.replace("DIR", &name);
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(240), "round {round} does not end");
            // Two parts at once, with another number of parts each time; each part is killed at a random moment.
            let of = [1, 3, 8, 50][rng.below(4) as usize];
            let mut children: Vec<_> =
                (0..2).map(|_| spawn(&bench, &format!("{how} --part {}/{of} --jobs 2", 1 + rng.below(of)))).collect();
            thread::sleep(Duration::from_millis(rng.below(120)));
            for child in &mut children {
                let is_over = child.try_wait().unwrap().is_some();
                if rng.below(3) > 0 {
                    child.kill().unwrap();
                    killed += usize::from(!is_over);
                }
                child.wait().unwrap();
            }
            nothing_looks_finished(&dst, &whole);
            if rng.below(12) == 0 {
                break;
            }
        }
        let of = [2, 5][round % 2];
        for number in 1..=of {
            bench.shardpack(&format!("{how} --part {number}/{of}")).code(0);
        }
        let runs: Vec<_> = fs::read_dir(dst.join(WORK).join("runs")).unwrap().collect();
        assert!(runs.is_empty(), "processes that were killed have left {runs:?}");
        for _ in 0..rng.below(4) {
            let mut merge = spawn(&bench, &format!("merge @{name}"));
            thread::sleep(Duration::from_micros(rng.below(30_000)));
            let is_over = merge.try_wait().unwrap().is_some();
            merge.kill().unwrap();
            merge.wait().unwrap();
            merges_killed += usize::from(!is_over);
            nothing_looks_finished(&dst, &whole);
        }
        bench.shardpack(&format!("merge @{name}")).code(0);
        assert_eq!(contents(&dst), whole, "round {round}");
    }
    println!("killed {killed} parts and {merges_killed} merges");
    assert!(killed >= sweep::points(10, 4), "only {killed} parts were killed in their midst");
}

#[test]
fn what_a_merge_that_was_stopped_has_left_is_cleared_up_by_the_next() {
    let bench = Bench::with_source(60, 3000);
    bench.shardpack("pack SRC @whole --shards 3").code(0);
    let whole = contents(&bench.at("whole"));
    // States of the work folder after `merge` has removed the plan.
    for left in [&["lock", "merge.lock", "parts/1-of-1.json"][..], &["merge.lock"], &["runs/1-of-1-00.lock"], &[]] {
        bench.shardpack("pack SRC DST --shards 3 --part 1/1").code(0);
        bench.shardpack("merge DST").code(0);
        fs::create_dir(bench.dst().join(WORK)).unwrap();
        for name in left {
            let path = bench.dst().join(WORK).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        bench.shardpack("merge DST").code(0).says("merged here already");
        assert_eq!(contents(&bench.dst()), whole, "{left:?}");
        assert!(!bench.dst().join(WORK).exists(), "{left:?}");
        fs::remove_dir_all(bench.dst()).unwrap();
    }
}

/// Fails the test if a file in `dst` under its final name differs from `whole`, or if a manifest exists in an incomplete dataset.
fn nothing_looks_finished(dst: &Path, whole: &BTreeMap<PathBuf, String>) {
    if !dst.exists() {
        return;
    }
    let found = contents(dst);
    let of_ours: BTreeMap<_, _> = found.into_iter().filter(|(path, _)| !path.starts_with(WORK)).collect();
    for (path, hash) in &of_ours {
        assert_eq!(whole.get(path), Some(hash), "{} after a kill", path.display());
    }
    if of_ours.contains_key(Path::new("manifest.json")) {
        assert_eq!(&of_ours, whole, "a manifest beside less than all");
    }
}

#[test]
fn parts_that_run_all_at_once_and_twice_do_no_harm() {
    let bench = Bench::with_source(600, 6000);
    bench.shardpack("pack SRC @whole --shards 24").code(0);
    let lines = (1..=8).chain(1..=8).map(|number| format!("{number}/8\n")).collect::<String>();
    let script = format!(
        "printf '{}' | xargs -P 8 -I{{}} {} pack {} {} --shards 24 --quiet --part {{}}",
        lines.replace('\n', "\\n"),
        binary().display(),
        bench.src().display(),
        bench.dst().display()
    );
    let ran: Ran = Command::new("bash").args(["-ec", &script]).output().unwrap().into();
    ran.code(0);
    bench.shardpack("merge DST --verify").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
}

#[test]
fn a_part_that_is_told_to_end_ends_cleanly_and_goes_on() {
    let bench = Bench::with_source(3000, 8000);
    bench.shardpack("pack SRC @whole --shards 60").code(0);
    let mut ended = 0;
    for signal in [Signal::TERM, Signal::INT] {
        let finished = || fs::read_dir(bench.dst().join("index")).map_or(0, Iterator::count);
        let before = finished();
        let mut child = spawn(&bench, "pack SRC DST --shards 60 --part 1/1");
        while finished() < before + 3 && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_micros(200));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let code = child.wait().unwrap().code();
        ended += usize::from(code == Some(130));
        assert!([Some(130), Some(0)].contains(&code), "{code:?}");
        let runs = fs::read_dir(bench.dst().join(WORK).join("runs")).unwrap().count();
        assert_eq!(runs, 0, "it clears up after itself");
    }
    assert!(ended > 0, "none was under way");
    bench.shardpack("pack SRC DST --shards 60 --part 1/1").code(0).says("finished before");
    bench.shardpack("merge DST").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
}

#[test]
fn status_tells_what_is_done_what_runs_and_what_is_missing() {
    let bench = Bench::with_source(400, 3000);
    bench.shardpack("status DST").code(2).says("not found");
    fs::create_dir(bench.dst()).unwrap();
    bench.shardpack("status DST").code(0).says("nothing is unfinished");
    for number in [2, 4] {
        bench.shardpack(&format!("pack SRC DST --shards 8 --part {number}/4")).code(0);
    }
    let status = bench.shardpack("status DST --json").code(0).json();
    assert_eq!(status["parts"], serde_json::json!({"done": ["2/4", "4/4"], "running": [], "missing": ["1/4", "3/4"]}));
    assert_eq!((&status["finished_shards"], &status["shards"]), (&4.into(), &8.into()));
    assert_eq!((&status["complete"], &status["samples"]), (&false.into(), &400.into()));
    bench.shardpack("pack SRC DST --shards 8 --part 1/4").code(0);
    // A process under SIGSTOP stays running until the test ends it.
    let start = Instant::now();
    let mut child = loop {
        let mut child = spawn(&bench, "pack SRC DST --shards 8 --part 3/4");
        let is_at_it = || {
            let runs = fs::read_dir(bench.dst().join(WORK).join("runs"));
            runs.is_ok_and(|mut runs| runs.any(|run| run.unwrap().file_name().to_string_lossy().starts_with("3-of-4")))
        };
        while !is_at_it() && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        let status = bench.shardpack("status DST --json").code(0).json();
        if status["parts"]["running"] == serde_json::json!(["3/4"]) {
            break child;
        }
        // The part was done before SIGSTOP: try again.
        assert!(start.elapsed() < Duration::from_secs(60), "{status}");
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        child.wait().unwrap();
        let shards = [4, 5].map(|number| bench.dst().join(format!("index/shard-{number:06}.idx")));
        let receipt = bench.dst().join(WORK).join("parts/3-of-4.json");
        shards.iter().chain([&receipt]).for_each(|path| drop(fs::remove_file(path)));
    };
    bench.shardpack("status DST").code(0).says("1 running");
    bench.shardpack("pack SRC DST --shards 8").code(2).says("another shardpack is packing into this folder");
    bench.shardpack("merge DST").code(1).says("missing 2 of 8 shards");
    child.kill().unwrap();
    child.wait().unwrap();
    bench.shardpack("pack SRC DST --shards 8 --part 3/4").code(0);
    bench.shardpack("status DST").code(0).says("next    shardpack merge");
    bench.shardpack("merge DST").code(0);
    bench.shardpack("pack SRC @whole --shards 8").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
}

#[test]
fn one_process_goes_on_with_what_parts_have_begun() {
    let bench = Bench::with_source(120, 3000);
    for part in ["2/3", "1/3"] {
        bench.shardpack(&format!("pack SRC DST --shards 9 --part {part}")).code(0);
    }
    bench.shardpack("verify DST").code(1).says("an unfinished pack");
    bench.shardpack("pack SRC DST --shards 9").code(0).says("6 of 9 shards were finished before");
    bench.shardpack("pack SRC @whole --shards 9").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
    // With `--force`, one process discards the parts.
    bench.shardpack("pack SRC @again --shards 9 --part 1/3").code(0);
    bench.shardpack("pack SRC @again --shards 9 --force --seed 3").code(0);
    bench.shardpack("verify @again").code(0);
}

#[test]
fn verify_and_crops_in_parts_do_all_that_they_do_at_once() {
    let bench = Bench::with_source(90, 3000);
    bench.shardpack("pack SRC DST --shards 12").code(0);
    bench.shardpack("pack SRC @whole --shards 12 --crops").code(0);
    let counts: Vec<u64> = (1..=5)
        .map(|number| {
            let made = bench.shardpack(&format!("crops DST --part {number}/5 --json")).code(0).json();
            made["samples"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 90);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
    let all = |bench: &Bench| -> Vec<serde_json::Value> {
        (1..=5).map(|number| bench.shardpack(&format!("verify DST --part {number}/5 --json")).json()).collect()
    };
    let samples: u64 = all(&bench).iter().map(|report| report["samples"].as_u64().unwrap()).sum();
    assert_eq!(samples, 90);
    // Exactly one part detects damage to a file. Several parts may detect damage to the manifest.
    let files: BTreeSet<PathBuf> =
        contents(&bench.dst()).into_iter().filter(|(_, hash)| !hash.is_empty()).map(|(path, _)| path).collect();
    for file in files {
        let path = bench.dst().join(&file);
        let right = fs::read(&path).unwrap();
        let mut wrong = right.clone();
        let at = wrong.len() / 2;
        wrong[at] ^= 2;
        fs::write(&path, wrong).unwrap();
        let wrongs = (1..=5)
            .filter(|number| run(&["verify", text(&bench.dst()), "--part", &format!("{number}/5")]).code == 1)
            .count();
        let is_manifest = file == Path::new("manifest.json");
        assert!(if is_manifest { wrongs >= 1 } else { wrongs == 1 }, "{}: {wrongs} parts", file.display());
        fs::write(&path, right).unwrap();
    }
    bench.shardpack("verify DST --part 1/2 --against SRC").code(2);
    let shard = text(&bench.dst().join("shard-000000.tar")).to_owned();
    run(&["verify", &shard, "--part", "1/2"]).code(2).says("only a whole dataset can be verified in parts");
}
