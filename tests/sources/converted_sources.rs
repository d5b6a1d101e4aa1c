//! A dataset that `convert` makes keeps how its source was listed: it can be compared with the source.

use std::{collections::BTreeMap, path::Path};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, jpeg, run};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn settings(dst: &Path) -> BTreeMap<String, String> {
    Dataset::open(dst).unwrap().manifest().format.settings.clone()
}

/// Packs the source with `options` and converts the dataset twice; returns the last one.
fn converted(bench: &Bench, options: &[&str]) -> std::path::PathBuf {
    bench.pack(options).code(0);
    let (first, second) = (bench.at("first"), bench.at("second"));
    run(&["convert", path(&bench.dst()), path(&first), "--format", "mds"]).code(0);
    run(&["convert", path(&first), path(&second)]).code(0);
    for other in [&first, &second] {
        run(&["verify", path(other), "--against", path(&bench.src())]).code(0);
        run(&["verify", path(other), "--against", path(&bench.dst())]).code(0);
    }
    second
}

#[test]
fn labels_in_file_names_are_found_again() {
    let bench = Bench::new();
    for (number, name) in ["cat_1", "cat_2", "dog_1"].iter().enumerate() {
        bench.file(format!("x/{name}.jpg"), &jpeg(number as u64, 5000));
    }
    let second = converted(&bench, &["--label-pattern", "{label}_{n}"]);
    assert_eq!(settings(&second)["label_pattern"], "{label}_{n}");
    bench.file("x/dog_2.jpg", &jpeg(9, 5000));
    run(&["verify", path(&second), "--against", path(&bench.src())]).code(1).says("x/dog_2.jpg");
    let unlabelled = bench.at("unlabelled");
    run(&["convert", path(&bench.dst()), path(&unlabelled), "--no-labels"]).code(0);
    assert!(!settings(&unlabelled).contains_key("label_pattern"));
}

#[test]
fn splits_of_a_pattern_are_found_again() {
    let bench = Bench::new();
    for (number, name) in ["train/1", "train/2", "val/3"].iter().enumerate() {
        bench.file(format!("images/{name}.jpg"), &jpeg(number as u64, 5000));
    }
    let second = converted(&bench, &["--no-labels", "--splits", "images/{split}"]);
    assert_eq!(settings(&second.join("val"))["split_folders"], "images/{split}");
    // One split under its own name is compared with this split.
    let val = bench.at("alone/val");
    run(&["convert", path(&second.join("val")), path(&val), "--name", "val"]).code(0);
    run(&["verify", path(&val), "--against", path(&bench.src())]).code(0);
    // Splits of other names are others than those of the source.
    let renamed = bench.at("renamed");
    let parts = ["train", "val"].map(|split| format!("x{split}={}", path(&second.join(split))));
    run(&["convert", "--split", &parts[0], "--split", &parts[1], path(&renamed)]).code(0);
    assert!(!settings(&renamed.join("xval")).contains_key("split_folders"));
}

#[test]
fn splits_by_fraction_are_found_again() {
    let bench = Bench::with_source(30, 3000);
    let second = converted(&bench, &["--split-fraction", "val=0.3"]);
    assert_eq!(settings(&second.join("train"))["split_fraction"], "val=0.3;seed=0");
    // As one dataset, the splits are the whole source.
    let whole = bench.at("whole");
    run(&["convert", path(&second), path(&whole), "--splits", "none"]).code(0);
    assert!(!settings(&whole).contains_key("split_fraction"));
    run(&["verify", path(&whole), "--against", path(&bench.src())]).code(0);
}
