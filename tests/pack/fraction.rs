//! `--split-fraction`: divides a source without splits; the path of each sample decides its split.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use shardpack_testing::{
    Bench, contents, jpeg,
    lists::{self, list, pack, samples},
    run,
};

/// Paths of the samples in each split.
fn splits(dst: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let folders = fs::read_dir(dst).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.join("manifest.json").exists());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    folders.map(|path| (name(&path), samples(&path).into_keys().collect())).collect()
}

#[test]
fn each_sample_is_of_a_split_and_more_samples_move_none() {
    let bench = Bench::with_source(60, 500);
    let options = ["--split-fraction", "val=0.2,test=0.1", "--seed", "3"];
    bench.pack(&options).code(0).says("60 images in 7 classes").says("splits train, val, test");
    let first = splits(&bench.dst());
    assert_eq!(first.keys().collect::<Vec<_>>(), ["test", "train", "val"]);
    assert_eq!(first.values().map(BTreeSet::len).sum::<usize>(), 60);
    assert!(bench.dst().join("splits.json").exists());
    let (dst, src) = (bench.dst(), bench.src());
    let (dst, src) = (dst.to_str().unwrap(), src.to_str().unwrap());
    run(&["verify", "--quiet", dst, "--against", src]).code(0);
    // The same for a single split.
    let val = bench.dst().join("val");
    run(&["verify", "--quiet", val.to_str().unwrap(), "--against", src]).code(0);
    lists::mend(&val, &bench.src());
    bench.pack(&options).code(0).says("packed here already");
    bench.pack_to(&bench.at("again"), &[&options[..], &["--jobs", "1", "--quiet"]].concat()).code(0);
    assert_eq!(contents(&bench.at("again")), contents(&bench.dst()));
    // The same through a plan, and in another format.
    let (plan, planned) = (bench.at("x.plan"), bench.at("planned"));
    let (plan, planned_at) = (plan.to_str().unwrap(), planned.to_str().unwrap());
    run(&[&["plan", src, planned_at, "-o", plan], &options[..]].concat()).code(0).says("val");
    run(&["pack", "--quiet", "--plan", plan, planned_at]).code(0);
    assert_eq!(contents(&planned), contents(&bench.dst()));
    let mds = bench.at("mds");
    bench.pack_to(&mds, &[&options[..], &["--quiet", "--format", "mds"]].concat()).code(0);
    assert_eq!(splits(&mds), first);
    // With more samples, in an old class and a new one, the earlier samples stay in their splits.
    for number in 0..20 {
        bench.file(format!("class-{}/new-{number}.jpg", number % 9), &jpeg(number, 5000));
    }
    run(&["verify", dst, "--against", src]).code(1).says("new-");
    let more = bench.at("more");
    bench.pack_to(&more, &[&options[..], &["--quiet"]].concat()).code(0);
    let grown = splits(&more);
    assert!(first.iter().all(|(name, paths)| grown[name].is_superset(paths)));
    // Another seed makes another choice. Without `--force`, `pack` refuses to replace a dataset with another fraction.
    bench.pack_to(&bench.at("other"), &["--quiet", "--split-fraction", "val=0.2,test=0.1", "--seed", "4"]).code(0);
    assert_ne!(splits(&bench.at("other")), grown);
    bench.pack(&["--split-fraction", "val=0.3", "--seed", "3"]).code(2).clean_error().says("--force");
}

#[test]
fn shards_and_lists_are_parted_as_trees_are() {
    let bench = Bench::with_source(40, 500);
    let fraction = ["--quiet", "--split-fraction", "val=0.25"];
    bench.pack(&fraction).code(0);
    let expected = splits(&bench.dst());
    // A sealed dataset records the paths of its samples.
    let (whole, dst) = (bench.at("whole"), bench.at("converted"));
    bench.pack_to(&whole, &["--quiet"]).code(0);
    let (whole, dst_at) = (whole.to_str().unwrap(), dst.to_str().unwrap());
    run(&[&["convert", whole, dst_at], &fraction[..]].concat()).code(0);
    assert_eq!(splits(&dst), expected);
    run(&["verify", "--quiet", dst_at, "--against", whole]).code(0);
    // A changed image stays in the split of its path.
    let small = bench.at("small");
    bench.pack_to(&small, &[&fraction[..], &["--resize", "32"]].concat()).code(0);
    assert_eq!(splits(&small), expected);
    // Rows of one file are in the same split.
    let names: Vec<String> = expected.values().flatten().cloned().collect();
    let rows: String = names.iter().flat_map(|name| [format!("{name},a\n"), format!("{name},b\n")]).collect();
    let list = list(&bench, "list.csv", &format!("path,caption\n{rows}"));
    let listed = bench.at("listed");
    pack(&list, &listed, &fraction).code(0);
    assert_eq!(splits(&listed), expected);
    run(&["verify", "--quiet", listed.to_str().unwrap(), "--against", list.to_str().unwrap()]).code(0);
}

#[test]
fn bad_images_are_in_the_ledger_of_their_split() {
    let bench = Bench::with_source(40, 500);
    (0..20).for_each(|number| bench.file(format!("class-0/empty-{number}.jpg"), b""));
    bench.pack(&["--split-fraction", "val=0.3", "--on-bad", "skip"]).code(0).says("20 not packed");
    let lines = |split: &str| fs::read_to_string(bench.dst().join(split).join("ledger.jsonl")).unwrap().lines().count();
    assert!(lines("train") > 0 && lines("val") > 0);
    assert_eq!(lines("train") + lines("val"), 20);
    run(&["verify", "--quiet", bench.dst().to_str().unwrap()]).code(0);
}

#[test]
fn what_cannot_be_parted_is_refused() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg"]);
    for (fraction, said) in [
        ("0.1", "write val=0.05,test=0.05"),
        ("val=2", "is no fraction"),
        ("train=0.1", "split train is the remainder"),
        ("val=0.5,test=0.5", "nothing is left for train"),
        ("val=0.1,val=0.1", "there twice"),
        ("v/l=0.1", "a split is called with"),
    ] {
        bench.pack(&["--split-fraction", fraction]).code(2).clean_error().says(said);
    }
    let ran = bench.pack(&["--split-fraction", "val=0.000001"]).code(2).clean_error();
    ran.says("no sample falls into val").says("another --seed");
    let parted = Bench::with(&["train/a/1.jpg", "val/a/2.jpg"]);
    let ran = parted.pack(&["--split-fraction", "val=0.5"]).code(2).clean_error();
    ran.says("the source has splits of its own, train, val").says("leave out --split-fraction");
    let part = format!("x={}", bench.src().display());
    run(&["pack", "--split", &part, parted.dst().to_str().unwrap(), "--split-fraction", "val=0.5"])
        .code(2)
        .clean_error()
        .says("splits of its own, x");
}
