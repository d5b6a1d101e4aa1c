use super::{cuts::MAX_SHARDS, *};
use crate::listing::{Folder, FolderSamples};
use proptest::prelude::*;
use shardpack_format::formats::Choice;
use std::sync::Arc;

pub(crate) fn options(cut: Cut) -> Options {
    Options {
        name: "shard".into(),
        order: Order::Shuffled,
        seed: 0,
        cut,
        format: Choice { extension: Some("jpg".into()), ..Choice::new("webdataset") },
        compression: Compression::None,
        check: Check::Header,
        recipe: None,
    }
}

pub(crate) fn found(sizes: &[u32]) -> SourceListing {
    let mut samples = FolderSamples::default();
    for (number, bytes) in sizes.iter().enumerate() {
        samples.push(format!("{number:06}.jpg").as_bytes(), *bytes, number as u64, 0);
    }
    let folder = Folder { path: b"class".as_slice().into(), class: Some(0) };
    SourceListing {
        listing: Arc::new(Listing::new(Arc::new(vec![b"class".as_slice().into()]), vec![(folder, samples)])),
        ..SourceListing::default()
    }
}

fn record(bytes: u32) -> u64 {
    1024 + 512 + u64::from(bytes).next_multiple_of(512)
}

#[test]
fn counts_are_even() {
    for (cut, expected) in [
        (Cut::Shards(4), vec![2, 3, 2, 3]),
        (Cut::ShardSamples(4), vec![3, 3, 4]),
        (Cut::ShardSamples(100), vec![10]),
        (Cut::Shards(10), vec![1; 10]),
    ] {
        let plan = Plan::new(found(&[1000; 10]), options(cut)).unwrap();
        assert_eq!(plan.shards.iter().map(|shard| shard.samples).collect::<Vec<_>>(), expected, "{cut:?}");
    }
}

#[test]
fn what_cannot_be_cut_is_refused() {
    for cut in [Cut::Shards(0), Cut::ShardSamples(0), Cut::ShardSize(0), Cut::Shards(11)] {
        assert!(Plan::new(found(&[1000; 10]), options(cut)).is_err(), "{cut:?}");
    }
    assert!(Plan::new(found(&[]), options(Cut::Shards(1))).is_err());
}

#[test]
fn keys_are_positions_of_one_width() {
    let plan = Plan::new(found(&[10; 3]), options(Cut::Shards(1))).unwrap();
    let mut scratch = Scratch::default();
    assert_eq!(plan.sample(2, &mut scratch).key, "00000002");
    let number = plan.sample_at(2);
    assert_eq!(plan.sample(2, &mut scratch).path, format!("class/{number:06}.jpg").as_bytes());
}

#[test]
fn the_hash_sees_options_names_and_sizes() {
    let hash = |sizes: &[u32], seed| {
        let options = Options { seed, ..options(Cut::Shards(1)) };
        Plan::new(found(sizes), options).unwrap().hash().unwrap()
    };
    assert_eq!(hash(&[1, 2], 0), hash(&[1, 2], 0));
    assert_ne!(hash(&[1, 2], 0), hash(&[2, 1], 0));
    assert_ne!(hash(&[1, 2], 0), hash(&[1, 2], 1));
    assert_ne!(hash(&[1, 2], 0), hash(&[1, 2, 3], 0));
}

#[test]
fn a_size_that_makes_absurdly_many_shards_is_refused_with_one_that_fits() {
    let sizes = vec![10; MAX_SHARDS as usize + 1];
    let with = |cut| Plan::new(found(&sizes), options(cut)).map(|plan| plan.shards.len() as u64);
    let help = |cut| with(cut).unwrap_err().help_text().unwrap().to_owned();
    assert!(help(Cut::ShardSamples(1)).starts_with("--shard-samples 2 makes 100000 at most; --shards 100001 where"));
    assert_eq!(with(Cut::ShardSamples(2)).unwrap(), MAX_SHARDS / 2 + 1);
    assert!(help(Cut::ShardSize(2000)).starts_with("--shard-size 1MiB makes"));
    assert!(with(Cut::ShardSize(1 << 20)).unwrap() < MAX_SHARDS);
    assert_eq!(with(Cut::Shards(MAX_SHARDS + 1)).unwrap(), MAX_SHARDS + 1);
}

proptest! {
    #[test]
    fn every_sample_has_one_place_and_no_shard_is_far_from_the_mean(
        sizes in prop::collection::vec(1u32..20_000, 1..300), shard_size in 1u64..400_000, seed: u64,
    ) {
        let plan = Plan::new(found(&sizes), Options { seed, ..options(Cut::ShardSize(shard_size)) }).unwrap();
        let total: u64 = sizes.iter().map(|bytes| record(*bytes)).sum();
        let longest = sizes.iter().map(|bytes| record(*bytes)).max().unwrap();
        let mut seen = vec![false; sizes.len()];
        let mut at = 0;
        for shard in &plan.shards {
            prop_assert_eq!(shard.first, at);
            prop_assert!(shard.samples > 0);
            at += shard.samples;
            let numbers: Vec<u64> = shard.positions().map(|position| plan.sample_at(position)).collect();
            numbers.iter().for_each(|n| assert!(!std::mem::replace(&mut seen[*n as usize], true)));
            let bytes: u64 = numbers.iter().map(|n| record(sizes[*n as usize])).sum();
            prop_assert_eq!(bytes, shard.records_bytes);
            let mean = total as f64 / plan.shards.len() as f64;
            if plan.shards.len() < sizes.len() / 2 {
                prop_assert!((bytes as f64 - mean).abs() <= longest as f64 + 1.0, "{bytes} of mean {mean}, longest {longest}");
            }
            if longest * 4 <= shard_size && shard_size > 100_000 {
                prop_assert!(plan.content_bytes(shard) <= shard_size, "{} over {}", plan.content_bytes(shard), shard_size);
            }
        }
        prop_assert_eq!(at, sizes.len() as u64);
    }

    #[test]
    fn counts_differ_by_one_at_most(samples in 1usize..500, shards in 1u64..60) {
        prop_assume!(shards <= samples as u64);
        let plan = Plan::new(found(&vec![10; samples]), options(Cut::Shards(shards))).unwrap();
        let counts: Vec<u64> = plan.shards.iter().map(|shard| shard.samples).collect();
        prop_assert_eq!(counts.len() as u64, shards);
        prop_assert_eq!(counts.iter().sum::<u64>(), samples as u64);
        prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
    }
}
