//! `shardpack bench`: what it says is of what was really delivered.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Bench, photos, run};

fn bench(dst: &std::path::Path, options: &[&str]) -> support::Ran {
    run(&[&["bench", dst.to_str().unwrap(), "--seconds", "1"][..], options].concat())
}

#[test]
fn rates_waits_and_order_are_told_for_photographs() {
    let bench_folder = Bench::new();
    let dst = bench_folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet"]).code(0);
    let said = bench(&dst, &["--crop", "24", "--batch", "4"]).code(0);
    for word in ["plain", "raw", "decode", "crops", "waits", "order", "memory"] {
        assert!(said.stdout.lines().any(|line| line.starts_with(word)), "{word}: {}", said.stdout);
    }
    let json = bench(&dst, &["--crop", "24", "--batch", "4", "--json", "--quiet"]).code(0).json();
    let found = &json["datasets"][0];
    assert_eq!(found["crops"]["samples"], found["samples"]);
    assert_eq!(found["waits"]["batches"], 8);
    assert_eq!((&found["ordered"], &found["whole_epochs"]), (&found["samples"], &true.into()));
    assert!(found["raw"]["bytes"].as_u64().unwrap() >= found["crops"]["bytes"].as_u64().unwrap());
}

#[test]
fn samples_that_are_no_images_and_splits_are_measured_as_they_are() {
    let folder = Bench::new();
    let src = folder.at("texts");
    for split in ["train", "val"] {
        for number in 0..40 {
            let path = src.join(format!("{split}/{}/{number}.txt", number % 2));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("text {number} of {split}")).unwrap();
        }
    }
    let dst = folder.at("packed");
    run(&["pack", src.to_str().unwrap(), dst.to_str().unwrap(), "--files", "txt", "--quiet"]).code(0);
    let said = bench(&dst, &["--batch", "4"]).code(0);
    assert_eq!(said.stdout.matches("no images").count(), 2, "{}", said.stdout);
    let json = bench(&dst, &["--json"]).code(0).json();
    assert_eq!(json["datasets"].as_array().unwrap().len(), 2);
    assert!(json["datasets"][0]["decode"].is_null() && json["datasets"][1]["waits"]["batches"] == 1);
}

#[test]
fn damaged_images_are_counted_and_a_missing_shard_is_an_error() {
    let folder = Bench::new();
    let dst = folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--shards", "2"]).code(0);
    let shard = dst.join("shard-000001.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    // The heads of all images of that shard.
    let heads: Vec<usize> =
        bytes.windows(3).enumerate().filter(|(_, window)| *window == [0xff, 0xd8, 0xff]).map(|(at, _)| at).collect();
    heads.iter().for_each(|at| bytes[*at] = 0);
    std::fs::write(&shard, bytes).unwrap();
    let json = bench(&dst, &["--crop", "24", "--json"]).code(0).json();
    let found = &json["datasets"][0];
    assert!(found["skipped"].as_u64().unwrap() > 0);
    assert_eq!(
        found["crops"]["samples"].as_u64().unwrap() + found["skipped"].as_u64().unwrap(),
        found["samples"].as_u64().unwrap()
    );
    std::fs::remove_file(shard).unwrap();
    bench(&dst, &[]).code(1).says("shard-000001.tar");
}
