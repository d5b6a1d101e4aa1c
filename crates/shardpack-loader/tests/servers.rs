//! Training from servers: how many answers the first batch waits for, and what a cache leaves to be asked for.

#![cfg(feature = "cloud")]
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../shardpack-reader/tests/support/server.rs"]
mod server;
#[path = "../../shardpack-reader/tests/support/mod.rs"]
mod support;

use std::{path::Path, time::Duration};

use server::{Nginx, Proxy};
use shardpack_loader::{Dataset, Loader, Options, Stats};
use shardpack_reader::StoreSettings;
use support::Packing;

/// Packs 10,000 samples into 20 shards; the blocks of compressed ones are small.
fn pack(folder: &Path, zstd: Option<i32>) {
    let payloads: Vec<_> = (0..10_000_u32).map(|number| number.to_le_bytes().repeat(50)).collect();
    Packing { shard_samples: 500, zstd, ..Packing::default() }.pack(folder, &payloads);
}

#[test]
fn the_first_batch_waits_for_few_answers_one_after_the_other() {
    let Some(nginx) = Nginx::start() else { return };
    for zstd in [None, cfg!(feature = "zstd").then_some(1)] {
        let name = format!("{zstd:?}");
        pack(&nginx.data().join(&name), zstd);
        let proxy = Proxy::start(nginx.port());
        proxy.hold(Duration::from_millis(500));
        let dataset = Dataset::open(proxy.url(&name)).unwrap();
        let loader = Loader::new(dataset, Options { batch: 64, epochs: 1, ..Options::default() }).unwrap();
        let mut batches = loader.batches(&loader.beginning()).unwrap();
        assert_eq!(batches.next().unwrap().unwrap().len(), 64);
        // Manifest, indexes, the ends of compressed shards, runs; more only where this machine was too busy to send all at once.
        let rounds = proxy.rounds();
        assert!((3..=10).contains(&rounds), "{name}: {rounds}");
    }
}

#[test]
fn an_epoch_that_a_cache_has_asks_for_the_manifest_alone() {
    let Some(nginx) = Nginx::start() else { return };
    pack(&nginx.data().join("x"), None);
    let cache = tempfile::tempdir().unwrap();
    let epoch = |limit_bytes: u64, seed: u64| -> Stats {
        let settings = StoreSettings::default().with_cache(cache.path(), limit_bytes);
        let dataset = Dataset::open_with(nginx.url("x"), &settings).unwrap();
        let loader = Loader::new(dataset, Options { seed, epochs: 1, ..Options::default() }).unwrap();
        let mut batches = loader.batches(&loader.beginning()).unwrap();
        let mut samples = 0;
        while let Some(batch) = batches.next().unwrap() {
            samples += batch.len();
        }
        assert_eq!(samples, 10_000);
        batches.stats()
    };
    let first = epoch(1 << 28, 1);
    assert!(first.cache_added_bytes >= Some(first.read_bytes) && first.cache_left_out_bytes == Some(0), "{first:?}");
    let second = epoch(1 << 28, 2);
    assert_eq!((second.requests, second.cache_added_bytes, second.cache_left_out_bytes), (Some(1), Some(0), Some(0)));
    assert!(second.cache_reads >= Some(second.reads) && second.cache_bytes >= Some(second.read_bytes), "{second:?}");
    assert_eq!((second.cache_damaged_blocks, second.cache_trouble), (Some(0), None));
    let small = epoch(1 << 21, 3);
    assert!(small.cache_evicted_bytes > Some(1 << 20) && small.cache_held_bytes <= Some(1 << 21), "{small:?}");
    assert!(small.cache_left_out_bytes > Some(1 << 20), "{small:?}");
}
