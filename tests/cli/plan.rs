//! Tests `shardpack plan`: the expected numbers of a pack, and the plan file.

use std::fs;

use shardpack_testing::{Bench, Dataset, Ran, contents, jpeg, photo, photos, run};

/// Runs `shardpack plan src dst` with these options.
fn plan(bench: &Bench, options: &[&str]) -> Ran {
    let (src, dst) = (bench.src(), bench.dst());
    run(&[&["plan", src.to_str().unwrap(), dst.to_str().unwrap()][..], options].concat())
}

#[test]
fn a_plan_shows_counts_classes_the_largest_files_and_the_space() {
    let bench = Bench::with(&["b/1.jpg", "b/2.jpg", "a/deep/3.jpg"]);
    bench.file("b/large.jpg", &jpeg(1, 150_000));
    bench.file("b/notes.txt", b"x");
    bench.folder("c");
    let ran = plan(&bench, &["--shards", "2"]).code(0);
    let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let has = |line: &[&str]| assert!(lines.iter().any(|l| l == line), "{line:?} is not in\n{}", ran.stdout);
    has(&["label", "class", "images", "bytes"]);
    has(&["0", "a", "1", "4.90", "KiB"]);
    has(&["1", "b", "3", "156.3", "KiB"]);
    has(&["2", "c", "0", "0", "B"]);
    has(&["146.5", "KiB", "b/large.jpg"]);
    has(&["largest", "files"]);
    let ran =
        ran.says("found   4 images in 3 classes, 161.2 KiB (1 other file skipped: 1 .txt)").says("plan    2 shards of");
    ran.says("shuffled with seed 0").says("free: enough").says("note    1 class without images");
    assert!(!bench.dst().exists(), "a plan writes nothing");
}

#[test]
fn a_plan_as_json_has_the_numbers_that_pack_comes_to() {
    for options in
        [&["--shards", "3"][..], &["--shard-size", "300KiB", "--meta", "json"], &["--order", "source", "--cls", "none"]]
    {
        let bench = Bench::with_source(100, 9000);
        let json = plan(&bench, &[options, &["--json"]].concat()).code(0).json();
        bench.pack(options).code(0);
        let manifest = Dataset::read(&bench.dst()).manifest;
        let planned = &json["datasets"][0];
        assert_eq!(planned["images"], manifest.samples);
        assert_eq!(planned["payload_bytes"], manifest.payload_bytes);
        assert_eq!(planned["shard_bytes"], manifest.shard_bytes);
        assert_eq!(planned["shards"], manifest.shards.len());
        assert_eq!(planned["block_samples"], manifest.block_samples);
        assert_eq!(planned["components"], serde_json::json!(manifest.components));
        assert_eq!(planned["smallest_shard_bytes"], manifest.shards.iter().map(|shard| shard.bytes).min().unwrap());
        assert_eq!(planned["largest_shard_bytes"], manifest.shards.iter().map(|shard| shard.bytes).max().unwrap());
        let classes: Vec<u64> =
            planned["classes"].as_array().unwrap().iter().map(|c| c["images"].as_u64().unwrap()).collect();
        assert_eq!(classes, manifest.classes.iter().map(|class| class.counts.packed).collect::<Vec<_>>());
        assert_eq!(planned["largest"].as_array().unwrap().len(), 10);
        // The promised size of the indexes may be off by 0.5 % and 256 bytes a shard.
        let index: u64 = manifest.shards.iter().map(|shard| shard.index.bytes).sum();
        let promised = planned["index_bytes"].as_u64().unwrap();
        assert!(
            promised.abs_diff(index) <= index / 200 + 256 * manifest.shards.len() as u64,
            "{promised} promised, {index} written"
        );
        let needed = json["needed_bytes"].as_u64().unwrap();
        assert_eq!(needed, manifest.shard_bytes + promised);
        assert!(json["free_bytes"].as_u64().unwrap() > needed);
    }
}

#[test]
fn the_largest_files_are_the_ten_largest_in_order() {
    let bench = Bench::with_source(60, 50_000);
    let json = plan(&bench, &["--json"]).code(0).json();
    let listed: Vec<u64> =
        json["datasets"][0]["largest"].as_array().unwrap().iter().map(|file| file["bytes"].as_u64().unwrap()).collect();
    let files = contents(&bench.src()).into_iter().filter(|(_, hash)| !hash.is_empty());
    let mut sizes: Vec<u64> = files.map(|(path, _)| fs::metadata(bench.src().join(path)).unwrap().len()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(listed, sizes[..10]);
}

#[test]
fn a_plan_file_gives_the_same_bytes_as_the_source_itself() {
    let odd = shardpack_testing::name(b"b/\xff.jpg");
    for options in [
        &["--shards", "3"][..],
        &["--shard-size", "200KiB", "--seed", "9", "--meta", "json", "--name", "x"],
        &["--order", "source", "--ext", "content", "--compress", "zstd"],
        &["--exclude", "class-1/**", "--on-bad", "skip"],
    ] {
        let bench = Bench::with_source(60, 9000);
        bench.file(&odd, &photo());
        let on_bad: &[&str] = if options.contains(&"--on-bad") { &["--on-bad", "skip"] } else { &[] };
        let of_plan: Vec<&str> = options.iter().copied().filter(|o| !on_bad.contains(o)).collect();
        if !on_bad.is_empty() {
            bench.file("b/empty.jpg", b"");
        }
        let file = bench.at("tree.plan");
        let file = file.to_str().unwrap();
        plan(&bench, &[&of_plan[..], &["-o", file]].concat()).code(0).says(&format!("shardpack pack --plan {file}"));
        let by_plan = bench.at("by-plan");
        run(&[&["pack", "--plan", file, by_plan.to_str().unwrap()][..], on_bad].concat()).code(0);
        bench.pack(options).code(0);
        Dataset::read(&by_plan).check_source(&bench.src());
        assert_eq!(contents(&by_plan), contents(&bench.dst()), "{options:?}");
        // Each run accepts the dataset that the other run sealed.
        run(&[&["pack", "--plan", file, bench.dst().to_str().unwrap()][..], on_bad].concat())
            .code(0)
            .says("nothing to do");
        bench.pack_to(&by_plan, options).code(0).says("nothing to do");
    }
}

#[test]
fn a_plan_file_of_splits_packs_them_all() {
    let bench = Bench::with(&["train/a/1.jpg", "train/b/2.jpg", "val/b/3.jpg"]);
    let file = bench.at("tree.plan");
    plan(&bench, &["--output", file.to_str().unwrap()]).code(0).says("train   2 images").says("val     1 image");
    let by_plan = bench.at("by-plan");
    run(&["pack", "--plan", file.to_str().unwrap(), by_plan.to_str().unwrap()]).code(0);
    bench.pack(&[]).code(0);
    assert_eq!(contents(&by_plan), contents(&bench.dst()));
}

#[test]
fn planning_twice_gives_the_same_plan_file() {
    let bench = Bench::with_source(30, 500);
    let (one, two) = (bench.at("one.plan"), bench.at("two.plan"));
    plan(&bench, &["-o", one.to_str().unwrap(), "--jobs", "1"]).code(0);
    plan(&bench, &["-o", two.to_str().unwrap(), "--jobs", "7"]).code(0);
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    // Again, over an existing file, from another folder, with a relative path.
    let mut command = assert_cmd::Command::new(shardpack_testing::binary());
    let ran: Ran =
        command.current_dir(bench.at("")).args(["plan", "src", "dst", "-o", "one.plan"]).output().unwrap().into();
    ran.code(0);
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    assert_eq!(contents(&bench.at("")).keys().filter(|path| path.to_string_lossy().contains("part")).count(), 0);
}

#[test]
fn a_damaged_plan_file_is_refused_by_name() {
    let bench = Bench::with_source(10, 500);
    let file = bench.at("tree.plan");
    plan(&bench, &["-o", file.to_str().unwrap()]).code(0);
    let bytes = fs::read(&file).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    for (row, damaged) in [
        ("flipped", flipped),
        ("cut", bytes[..bytes.len() - 1].to_vec()),
        ("empty", Vec::new()),
        ("other", vec![b'x'; 1000]),
    ] {
        fs::write(&file, damaged).unwrap();
        let ran = run(&["pack", "--plan", file.to_str().unwrap(), bench.dst().to_str().unwrap()]);
        ran.code(1).clean_error().says("tree.plan").says("plan file");
        assert!(!bench.dst().exists(), "{row}");
    }
}

#[test]
fn a_plan_file_whose_source_is_gone_is_refused_by_name() {
    let bench = Bench::with_source(10, 500);
    let file = bench.at("tree.plan");
    plan(&bench, &["-o", file.to_str().unwrap()]).code(0);
    fs::rename(bench.src(), bench.at("moved")).unwrap();
    let ran = run(&["pack", "--plan", file.to_str().unwrap(), bench.dst().to_str().unwrap()]);
    ran.code(2).clean_error().says("cannot open folder").says(bench.src().to_str().unwrap());
}

#[test]
fn the_plan_of_the_photographs_reads_well() {
    let bench = Bench::new();
    let src = photos();
    let dst = bench.dst();
    let ran = run(&["plan", src.to_str().unwrap(), dst.to_str().unwrap(), "--shards", "4"]).code(0);
    let ran = ran.says("found   32 images in 5 classes, 758.6 KiB").says("57.2 KiB  space/deep-field.jpg");
    ran.says_not("note").says_not("error");
}

#[test]
fn a_plan_advises_options_that_make_training_faster() {
    let bench = Bench::new();
    (0..12).for_each(|number| bench.file(format!("a/{number}.pgm"), b"P5 1 1 255\n\0"));
    plan(&bench, &[])
        .code(0)
        .says("advice  samples of ")
        .says(" bytes in a tar, where each takes a header: --format mds");
    plan(&bench, &["--format", "mds"]).code(0).says_not("--format mds, about");
    let json = plan(&bench, &["--json"]).code(0).json();
    assert_eq!((&json["advice"][0]["command"], &json["advice"][0]["gain"]), (&"--format mds".into(), &3.0.into()));
    let (src, dst) = (photos(), bench.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    run(&["plan", src, dst]).code(0).says("--crops, about × 1.3").says_not("--resize");
    run(&["pack", src, dst, "--dry-run", "--crops"]).code(0).says_not("crop tables");
}
