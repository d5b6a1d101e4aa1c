//! Splits, several formats in one run, and interrupted runs: each output equals the output of a run on its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use shardpack_format::manifest::WORK_FOLDER;
use shardpack_testing::{
    Bench, binary, contents, jpeg, pack,
    shards::{self, check_sealed, classes, convert, make_foreign, manifest, names, samples, skipped, sorted},
};

/// A tree with two splits; one split lacks a class.
fn with_splits() -> Bench {
    Bench::with(&[
        "train/cat/1.jpg",
        "train/cat/2.jpg",
        "train/dog/3.jpg",
        "train/emu/4.jpg",
        "val/cat/5.jpg",
        "val/emu/6.jpg",
        "val/emu/7.jpg",
    ])
}

/// Packs the tree of [`with_splits`] and makes foreign shards from it. Returns the folder and the one shard of each split.
fn foreign_splits(bench: &Bench, format: &str) -> (PathBuf, Vec<PathBuf>) {
    let foreign = bench.at(&format!("foreign-{format}"));
    pack(&bench.src(), &foreign, &["--format", format, "--shards", "1"]).code(0);
    let shards = ["train", "val"].iter().flat_map(|split| make_foreign(&foreign.join(split))).collect();
    (foreign, shards)
}

/// Labels of all samples, sorted.
fn labels(dst: &Path) -> Vec<i64> {
    let mut labels: Vec<i64> = samples(dst).into_iter().map(|(label, _)| label).collect();
    labels.sort_unstable();
    labels
}

#[test]
fn folders_and_files_that_are_splits_become_splits_with_one_list_of_classes() {
    let bench = with_splits();
    for (format, other) in
        [("webdataset", "mds"), ("tfrecord", "webdataset"), ("recordio", "tfrecord"), ("mds", "recordio")]
    {
        let (foreign, shards) = foreign_splits(&bench, format);
        let (folder, dst) = (bench.at(&format!("files-{format}")), bench.at(&format!("to-{other}")));
        // All shards in one folder, named after their splits: `train-000000.tar`, `val-000000.tar`.
        fs::create_dir(&folder).unwrap();
        for (split, shard) in ["train", "val"].iter().zip(shards) {
            let name = shard.file_name().unwrap().to_str().unwrap();
            let name = if name.starts_with(split) { name.to_owned() } else { format!("{split}-{name}") };
            fs::copy(&shard, folder.join(name)).unwrap();
        }
        let mut found = None;
        for source in [&foreign, &folder] {
            let what = format!("{} to {other}", source.display());
            convert(&[source], &dst, &["--format", other]).code(0).says("splits train, val");
            for (split, expected) in [("train", vec![0, 0, 1, 2]), ("val", vec![0, 2, 2])] {
                check_sealed(&dst.join(split), &what);
                assert_eq!(labels(&dst.join(split)), expected, "{what}");
                assert_eq!(manifest(&dst.join(split)).name, split);
            }
            assert_eq!(classes(&dst.join("train")), classes(&dst.join("val")), "{what}");
            assert_eq!(classes(&dst.join("val")).len(), 3, "{what}");
            let now = ["train", "val"].map(|split| sorted(samples(&dst.join(split))));
            assert_eq!(found.get_or_insert_with(|| now.clone()), &now, "{what}");
            fs::remove_dir_all(&dst).unwrap();
        }
        // With `--splits none` all shards form one dataset.
        let (train, val) = (foreign.join("train"), foreign.join("val"));
        for sources in [vec![folder.as_path()], vec![&train, &val]] {
            convert(&sources, &dst, &["--format", other, "--splits", "none"]).code(0).says_not("splits");
            check_sealed(&dst, format);
            assert_eq!(labels(&dst), [0, 0, 0, 1, 2, 2, 2], "{format}");
            fs::remove_dir_all(&dst).unwrap();
        }
        // A single split is converted as a plain dataset.
        convert(&[&train], &dst, &["--format", other]).code(0).says_not("splits");
        assert_eq!(labels(&dst), [0, 0, 1, 2], "{format}");
        fs::remove_dir_all(&dst).unwrap();
        // Only the named splits.
        convert(&[&foreign], &dst, &["--format", other, "--splits", "val"]).code(0).says("splits val");
        assert!(!dst.join("train").exists());
        assert_eq!(manifest(&dst.join("val")).samples, 3);
        fs::remove_dir_all(&dst).unwrap();
        convert(&[&folder], &dst, &["--splits", "train,other"]).code(2).clean_error().says("\"other\"");
    }
}

#[test]
fn splits_of_a_sealed_dataset_become_those_that_packing_its_tree_makes() {
    let bench = with_splits();
    let (direct, sealed) = (bench.at("direct"), bench.at("sealed"));
    pack(&bench.src(), &direct, &["--format", "mds"]).code(0);
    pack(&bench.src(), &sealed, &["--format", "recordio", "--seed", "3"]).code(0);
    convert(&[&sealed], &bench.dst(), &["--format", "mds"]).code(0).says("splits train, val");
    assert_eq!(contents(&bench.dst()), contents(&direct));
    let one = bench.at("one");
    convert(&[&sealed], &one, &["--format", "mds", "--splits", "val"]).code(0);
    assert_eq!(contents(&one.join("val")), contents(&direct.join("val")));
    assert!(!one.join("train").exists());
    convert(&[&sealed.join("train")], &bench.at("train"), &[]).code(0);
    assert_eq!(manifest(&bench.at("train")).samples, 4);
}

/// A file with a reported size of 4,096 bytes and less content: it can be listed but not packed.
fn short_file() -> Option<PathBuf> {
    let names = ["/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/uevent_seqnum", "/sys/power/state"];
    let is_short = |path: &PathBuf| {
        let bytes = path.metadata().map_or(0, |meta| meta.len());
        fs::read(path).is_ok_and(|content| (content.len() as u64) < bytes)
    };
    names.iter().map(PathBuf::from).find(is_short)
}

#[test]
fn a_dataset_of_nothing_is_not_sealed() {
    let Some(short) = short_file() else { return println!("no file here is shorter than it says: not run") };
    let bench = Bench::new();
    bench.link("a/1.jpg", short);
    bench.pack(&["--on-bad", "skip"]).code(1).clean_error().says("none of 1 image could be packed: ");
    assert!(!bench.dst().join("manifest.json").exists());
}

#[test]
fn several_formats_of_one_run_are_each_what_a_run_of_its_own_makes() {
    let bench = Bench::with_source(60, 2000);
    let split = with_splits();
    let (foreign, sealed) = (bench.at("foreign"), bench.at("sealed"));
    bench.pack_to(&foreign, &["--format", "recordio", "--shards", "3"]).code(0);
    make_foreign(&foreign);
    bench.pack_to(&sealed, &["--format", "mds", "--shards", "3"]).code(0);
    let cases = [
        ("pack", bench.src()),
        ("convert", foreign),
        ("convert", sealed),
        ("pack", split.src()),
        ("convert", foreign_splits(&split, "tfrecord").0),
    ];
    for (number, (command, source)) in cases.iter().enumerate() {
        let what = format!("{command} {}", source.display());
        let (dst, options) = (bench.at(&format!("all-{number}")), ["--shards", "2", "--seed", "5"]);
        let go = |dst: &Path, more: &[&str]| match *command {
            "pack" => pack(source, dst, &[&options, more].concat()),
            _ => convert(&[source], dst, &[&options, more].concat()),
        };
        let all: Vec<&str> = names().flat_map(|format| ["--format", format]).collect();
        go(&dst, &all).code(0);
        for format in names() {
            let alone = bench.at(&format!("alone-{number}-{format}"));
            go(&alone, &["--format", format]).code(0);
            assert_eq!(contents(&dst.join(format)), contents(&alone), "{what} {format}");
        }
        let before = contents(&dst);
        let ran = go(&dst, &all).code(0);
        assert_eq!(ran.stdout.matches("nothing to do").count(), names().count(), "{what}: {}", ran.stdout);
        assert_eq!(contents(&dst), before, "{what}");
    }
}

#[test]
fn a_bad_image_is_in_the_ledger_of_every_format_of_a_run() {
    let bench = Bench::with_source(20, 1000);
    bench.file("class-0/empty.jpg", b"");
    let mut bad = vec!["class-0/empty.jpg"];
    match short_file() {
        Some(path) => {
            // The first format detects the short file when it reads it; the second takes the fault from the first.
            bench.link("class-1/short.jpg", path);
            bad.push("class-1/short.jpg");
        }
        None => println!("no file here that gives fewer bytes than it has: only an empty one was tried"),
    }
    let formats = ["--format", "webdataset", "--format", "tfrecord"];
    let ran = bench.pack(&formats).code(1);
    bad.iter().fold(ran, |ran, path| ran.says(path));
    for format in ["webdataset", "tfrecord"] {
        assert!(!bench.dst().join(format).join("manifest.json").exists());
    }
    bench.pack(&[&formats[..], &["--on-bad", "skip"]].concat()).code(0);
    for format in ["webdataset", "tfrecord"] {
        let (dst, alone) = (bench.dst().join(format), bench.at(format));
        check_sealed(&dst, format);
        assert_eq!(skipped(&dst).into_iter().map(|(path, _)| path).collect::<Vec<_>>(), bad, "{format}");
        bench.pack_to(&alone, &["--format", format, "--on-bad", "skip"]).code(0);
        assert_eq!(contents(&dst), contents(&alone), "{format}");
    }
}

fn spawn(command: &str, source: &Path, dst: &Path, options: &[&str]) -> Child {
    let mut process = Command::new(binary());
    process.arg(command).arg(source).arg(dst).args(options);
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills `child` as soon as `there` holds; fails the test if `child` ended before.
fn kill_when(mut child: Child, there: impl Fn() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing happened for a minute");
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        thread::sleep(Duration::from_micros(200));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Number of finished shards in `dst`, counted from the indexes with their final names.
fn finished(dst: &Path) -> usize {
    fs::read_dir(dst.join("index")).map_or(0, Iterator::count)
}

const SHARDS: [&str; 4] = ["--shards", "40", "--jobs", "2"];

#[test]
fn a_run_of_several_formats_that_is_killed_at_any_of_them_goes_on() {
    let bench = Bench::with_source(800, 3000);
    let foreign = bench.at("foreign");
    bench.pack_to(&foreign, &["--format", "mds", "--shards", "3"]).code(0);
    make_foreign(&foreign);
    let formats = ["webdataset", "tfrecord"];
    let options = [&SHARDS[..], &["--format", formats[0], "--format", formats[1]]].concat();
    for (command, source) in [("pack", bench.src()), ("convert", foreign)] {
        let go = |dst: &Path, options: &[&str]| match command {
            "pack" => pack(&source, dst, options),
            _ => convert(&[&source], dst, options),
        };
        let (whole, dst) = (bench.at(&format!("whole-{command}")), bench.at(command));
        go(&whole, &options).code(0);
        let whole = contents(&whole);
        // First kill in the first format, then in the second.
        kill_when(spawn(command, &source, &dst, &options), || finished(&dst.join(formats[0])) > 2);
        assert!(!dst.join(formats[0]).join("manifest.json").exists(), "{command}");
        // The second folder exists from the start and is marked unfinished, so that the first does not look like the whole.
        assert!(dst.join(formats[1]).join(WORK_FOLDER).exists() && finished(&dst.join(formats[1])) == 0, "{command}");
        kill_when(spawn(command, &source, &dst, &options), || finished(&dst.join(formats[1])) > 2);
        assert!(dst.join(formats[0]).join("manifest.json").exists(), "{command}");
        assert!(!dst.join(formats[1]).join("manifest.json").exists(), "{command}");
        go(&dst, &options).code(0).says("nothing to do").says("were finished before");
        assert_eq!(contents(&dst), whole, "{command}");
    }
}

#[test]
fn a_convert_that_is_killed_goes_on_to_the_same_bytes() {
    let bench = Bench::with_source(800, 3000);
    let sources = [("tfrecord", &[][..]), ("webdataset", &["--compress", "zstd"]), ("sealed", &[])];
    for (format, options) in sources {
        let source = bench.at(&format!("source-{format}"));
        let packed_as = if format == "sealed" { "recordio" } else { format };
        bench.pack_to(&source, &[&["--format", packed_as, "--shards", "3"], options].concat()).code(0);
        if format != "sealed" {
            make_foreign(&source);
        }
        let (whole, dst) = (bench.at(&format!("whole-{format}")), bench.at(&format!("dst-{format}")));
        convert(&[&source], &whole, &SHARDS).code(0);
        for wanted in [1, 12] {
            kill_when(spawn("convert", &source, &dst, &SHARDS), || finished(&dst) >= wanted);
            assert!(!dst.join("manifest.json").exists() && dst.join(WORK_FOLDER).exists(), "{format}");
        }
        convert(&[&source], &dst, &SHARDS).code(0).says("were finished before");
        assert_eq!(contents(&dst), contents(&whole), "{format}");
    }
}

#[test]
fn a_source_that_was_changed_in_between_is_refused_by_name() {
    let bench = Bench::with_source(800, 3000);
    let source = bench.at("source");
    bench.pack_to(&source, &["--format", "recordio", "--shards", "3"]).code(0);
    let files = make_foreign(&source);
    let dst = bench.dst();
    kill_when(spawn("convert", &source, &dst, &SHARDS), || finished(&dst) > 1);
    let name = files[1].file_name().unwrap().to_str().unwrap();
    let (whole, time) = (fs::read(&files[1]).unwrap(), files[1].metadata().unwrap().modified().unwrap());
    // Other bytes of the same length: only the modification time differs.
    let mut other = whole.clone();
    *other.last_mut().unwrap() ^= 1;
    thread::sleep(Duration::from_millis(20));
    fs::write(&files[1], other).unwrap();
    let before = contents(&dst);
    let ran = convert(&[&source], &dst, &SHARDS).code(2).clean_error();
    ran.says("unfinished pack of something else").says(name).says("was changed").says("--force");
    fs::remove_file(&files[1]).unwrap();
    convert(&[&source], &dst, &SHARDS).code(2).clean_error().says(name);
    assert_eq!(contents(&dst), before, "a refusal changes nothing");
    // The original file again, and one more shard.
    fs::write(&files[1], &whole).unwrap();
    fs::File::options().write(true).open(&files[1]).unwrap().set_modified(time).unwrap();
    fs::write(source.join("zzz.rec"), shards::rec_record(7, &[0.0], &jpeg(1, 5000))).unwrap();
    convert(&[&source], &dst, &SHARDS).code(2).clean_error().says("3 shards, now 4");
    convert(&[&source], &dst, &[&SHARDS[..], &["--force"]].concat()).code(0).says_not("finished before");
    check_sealed(&dst, "by force");
    assert_eq!(manifest(&dst).samples, 801);
}
