//! Kills a pack of several sources as splits: at each moment, the same command resumes to the same bytes.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use shardpack_testing::{Bench, Dataset, Ran, binary, contents, jpeg, run};

const WORK: &str = ".shardpack";

/// A tree of classes for `train`, images with a list for `val`, and the options that name both.
struct Sources {
    bench: Bench,
    options: Vec<String>,
}

impl Sources {
    fn new(train: u64, val: u64, image_bytes: usize) -> Self {
        let bench = Bench::new();
        for number in 0..train {
            bench.file(format!("train/class-{}/{number:04}.jpg", number % 7), &jpeg(number, image_bytes));
        }
        let mut list = "path,label\n".to_owned();
        for number in 0..val {
            bench.file(format!("val/{number:04}.jpg"), &jpeg(10_000 + number, image_bytes));
            list += &format!("{number:04}.jpg,class-{}\n", number % 6);
        }
        let at = |path: &Path| path.to_str().unwrap().to_owned();
        fs::write(bench.at("val.csv"), list).unwrap();
        let options = vec![
            "--split".to_owned(),
            format!("train={}", at(&bench.src().join("train"))),
            "--split".to_owned(),
            format!("val={}", at(&bench.at("val.csv"))),
            "--root".to_owned(),
            at(&bench.src().join("val")),
        ];
        Self { bench, options }
    }

    fn args<'a>(&'a self, dst: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
        let own = ["pack", dst.to_str().unwrap()].into_iter().chain(self.options.iter().map(String::as_str));
        own.chain(more.iter().copied()).collect()
    }

    fn pack(&self, dst: &Path, more: &[&str]) -> Ran {
        run(&self.args(dst, more))
    }

    /// Packs and kills the pack once `there` holds; returns whether the pack was still running.
    fn killed_when(&self, dst: &Path, more: &[&str], there: impl Fn(&Path) -> bool) -> bool {
        let mut command = Command::new(binary());
        command.args(self.args(dst, more)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let start = Instant::now();
        while !there(dst) {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "nothing happened for a minute");
            thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        !child.wait().unwrap().success()
    }
}

/// Number of finished shards of a split.
fn finished(dst: &Path, split: &str) -> usize {
    fs::read_dir(dst.join(split).join("index")).map_or(0, Iterator::count)
}

fn spool_bytes(dst: &Path) -> u64 {
    fs::metadata(dst.join(WORK).join("made")).map_or(0, |spool| spool.len())
}

/// Fails the test if an unfinished pack looks finished.
fn does_not_look_finished(dst: &Path, row: &str) {
    if dst.join(WORK).exists() {
        run(&["verify", dst.to_str().unwrap()]).code(1).clean_error().says("unfinished");
        run(&["inspect", dst.to_str().unwrap()]).code(2).clean_error().says("unfinished");
    } else {
        assert!(!dst.exists() || dst.join("splits.json").exists(), "{row}");
    }
}

type Moment<'a> = (&'a str, &'a dyn Fn(&Path) -> bool);

#[test]
fn a_pack_of_several_sources_that_is_killed_goes_on_to_the_same_bytes() {
    let sources = Sources::new(900, 500, 8000);
    let options = ["--shards", "9", "--jobs", "2"];
    let whole_dst = sources.bench.at("whole");
    sources.pack(&whole_dst, &options).code(0);
    let whole = contents(&whole_dst);
    assert_eq!(Dataset::read(&whole_dst.join("train")).classes(), Dataset::read(&whole_dst.join("val")).classes());
    let moments: [Moment<'_>; 8] = [
        ("the work folder is there", &|dst| dst.join(WORK).exists()),
        ("the plan is there", &|dst| dst.join(WORK).join("plan").exists()),
        ("one shard of train", &|dst| finished(dst, "train") >= 1),
        ("most shards of train", &|dst| finished(dst, "train") >= 7),
        ("one shard of val", &|dst| finished(dst, "val") >= 1),
        ("most shards of val", &|dst| finished(dst, "val") >= 7),
        ("train is sealed", &|dst| dst.join("train/manifest.json").exists()),
        ("val is sealed", &|dst| dst.join("val/manifest.json").exists()),
    ];
    let (mut killed, mut resumed) = (0, 0);
    for (number, (row, there)) in moments.into_iter().enumerate() {
        let dst = sources.bench.at(&format!("dst-{number}"));
        killed += usize::from(sources.killed_when(&dst, &options, there));
        does_not_look_finished(&dst, row);
        // Every second run is killed once more on the way.
        if number % 2 == 0 {
            sources.killed_when(&dst, &options, |dst| finished(dst, "val") >= 4);
        }
        // Options that change no byte may differ from the first run.
        let ran = sources.pack(&dst, &["--shards", "9", "--jobs", "1", "--read-order", "physical"]).code(0);
        resumed += usize::from(ran.stdout.contains("finished before"));
        assert_eq!(contents(&dst), whole, "{row}");
    }
    println!("{killed} killed, {resumed} resumed");
    assert!(killed >= 5 && resumed >= 4, "{killed} killed, {resumed} resumed");
}

#[test]
fn another_option_between_the_kill_and_the_same_command_is_refused_and_costs_nothing() {
    let sources = Sources::new(900, 300, 8000);
    let options = ["--shards", "9", "--jobs", "2"];
    let whole_dst = sources.bench.at("whole");
    sources.pack(&whole_dst, &options).code(0);
    let dst = sources.bench.dst();
    let mut tries = 0;
    while !sources.killed_when(&dst, &options, |dst| finished(dst, "train") >= 3) || finished(&dst, "train") < 3 {
        fs::remove_dir_all(&dst).unwrap();
        tries += 1;
        assert!(tries < 10, "it was never killed");
    }
    let before = contents(&dst);
    let rows: [(&[&str], &str); 4] = [
        (&["--shards", "9", "--seed", "5"], "--seed: was 0, is now 5"),
        (&["--shards", "8"], "shards: was --shards 9, is now --shards 8"),
        (&["--shards", "9", "--format", "mds"], "format: was webdataset"),
        (&["--shards", "9", "--resize", "16"], "was as they are"),
    ];
    for (more, says) in rows {
        let ran = sources.pack(&dst, more).code(2).clean_error();
        ran.says("holds an unfinished pack of something else").says(says);
        assert_eq!(contents(&dst), before, "{more:?}");
    }
    // One split fewer.
    let args = ["pack", dst.to_str().unwrap(), "--split", &sources.options[1], "--shards", "9"];
    run(&args).code(2).clean_error().says("holds an unfinished pack of something else");
    assert_eq!(contents(&dst), before);

    sources.pack(&dst, &options).code(0).says("finished before");
    assert_eq!(contents(&dst), contents(&whole_dst));
    sources.pack(&dst, &options).code(0).says("nothing to do");
}

#[test]
fn several_sources_whose_images_are_changed_go_on_after_a_kill() {
    let sources = Sources::new(60, 40, 8000);
    let options = ["--resize", "200", "--jobs", "1", "--shards", "4"];
    let whole_dst = sources.bench.at("whole");
    sources.pack(&whole_dst, &options).code(0);
    let payload = |split: &str| Dataset::read(&whole_dst.join(split)).manifest.payload_bytes;
    let (train, val) = (payload("train"), payload("val"));
    let moments: [Moment<'_>; 5] = [
        ("an image is made", &|dst| spool_bytes(dst) > 100),
        ("half of train is made", &|dst| spool_bytes(dst) > train / 2),
        ("half of val is made", &|dst| spool_bytes(dst) > train + val / 2),
        ("a shard of train", &|dst| finished(dst, "train") >= 1),
        ("a shard of val", &|dst| finished(dst, "val") >= 1),
    ];
    let mut killed = 0;
    for (number, (row, there)) in moments.into_iter().enumerate() {
        let dst = sources.bench.at(&format!("dst-{number}"));
        killed += usize::from(sources.killed_when(&dst, &options, there));
        does_not_look_finished(&dst, row);
        sources.pack(&dst, &options).code(0);
        assert_eq!(contents(&dst), contents(&whole_dst), "{row}");
    }
    assert!(killed >= 3, "{killed} killed");

    // A run with another size in between, killed too: its images are not used for the first size, nor the reverse.
    let small = ["--resize", "150", "--jobs", "1", "--shards", "4"];
    let whole_small = sources.bench.at("whole-small");
    sources.pack(&whole_small, &small).code(0);
    let dst = sources.bench.at("dst-other");
    sources.killed_when(&dst, &options, |dst| spool_bytes(dst) > train / 2);
    sources.killed_when(&dst, &small, |dst| spool_bytes(dst) > 100);
    sources.killed_when(&dst, &options, |dst| spool_bytes(dst) > train / 3);
    if !dst.join("splits.json").exists() {
        sources.pack(&dst, &small).code(0);
        assert_eq!(contents(&dst), contents(&whole_small));
    }
    // Replaces an existing dataset with --force.
    let forced = [&options[..], &["--force"]].concat();
    sources.killed_when(&dst, &forced, |dst| spool_bytes(dst) > train / 3);
    sources.pack(&dst, &forced).code(0);
    assert_eq!(contents(&dst), contents(&whole_dst));
}
