//! `shardpack bench`: what it says is of what was really delivered.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{collections::BTreeMap, path::Path};

use shardpack_loader::{
    Dataset, Loader, Options, Output, Stats,
    training::{self, Cut, Size, Transform},
};
use support::{Bench, photos, run};

fn bench(dst: &Path, options: &[&str]) -> support::Ran {
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

/// Two epochs of crops: what was made of each sample in each, and the statistics.
fn crops(dst: &Path) -> (BTreeMap<(u64, u64), Vec<u8>>, Stats) {
    let transform = Transform::new(training::Options::new(Cut::random_resized(Size::square(48)))).unwrap();
    let output = Output::Images(Box::new(transform));
    let loader =
        Loader::new(Dataset::open(dst).unwrap(), Options { batch: 8, output, epochs: 2, ..Options::default() })
            .unwrap();
    let mut batches = loader.batches(&loader.beginning()).unwrap();
    let mut made = BTreeMap::new();
    for _ in 0..2 {
        while let Some(batch) = batches.next().unwrap() {
            for (sample, slot) in batch.samples().iter().zip(batch.slots().chunks(3 * 48 * 48)) {
                made.insert((batch.epoch(), *sample), slot.to_vec());
            }
        }
    }
    (made, batches.stats())
}

#[test]
fn crop_tables_change_no_pixel_and_wrong_ones_are_counted_and_not_used() {
    let folder = Bench::new();
    let dst = folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--shards", "2"]).code(0);
    let (without, stats) = crops(&dst);
    assert_eq!((stats.decoded_by_table, stats.wrong_tables), (0, 0));
    run(&["crops", dst.to_str().unwrap(), "--quiet"]).code(0);
    let (with, stats) = crops(&dst);
    assert!(with == without, "the same pixels");
    assert!(stats.decoded_by_table > 10, "{stats:?}");
    let file = dst.join("index/shard-000000.crops");
    let mut bytes = std::fs::read(&file).unwrap();
    // In the tables, behind head and rows.
    let at = bytes.len() * 2 / 3;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (damaged, stats) = crops(&dst);
    assert!(damaged == without && stats.wrong_tables > 0, "{stats:?}");
    std::fs::copy(dst.join("index/shard-000001.crops"), &file).unwrap();
    let (others, stats) = crops(&dst);
    assert!(others == without && stats.wrong_tables > 0, "{stats:?}");
}
