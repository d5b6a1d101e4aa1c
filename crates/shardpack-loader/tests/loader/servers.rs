//! Training from servers: samples despite network faults, round trips before the first batch, and requests with a cache.

use std::{fs, path::Path, time::Duration};

use shardpack_loader::{Dataset, Loader, Options, Stats};
use shardpack_reader::StoreSettings;
use shardpack_testing::{
    Packing,
    server::{Fault, Nginx, Proxy},
};

/// Packs 10,000 samples into 20 shards; compressed shards have small blocks.
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
        // Manifest, indexes, the ends of compressed shards, runs; more rounds only if this machine was too busy to send all at once.
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

/// The samples of an epoch in order: numbers, with bytes or the error.
fn epoch(dataset: Dataset, memory_bytes: u64) -> (Vec<(u64, Result<Vec<u8>, String>)>, Stats) {
    let options = Options { seed: 5, epochs: 1, memory_bytes: Some(memory_bytes), ..Options::default() };
    let loader = Loader::new(dataset, options).unwrap();
    let mut samples = loader.samples(&loader.beginning()).unwrap();
    let mut all = Vec::new();
    while let Some(fetched) = samples.next().unwrap() {
        let bytes = fetched.sample().map(|sample| sample.bytes().to_vec()).map_err(|error| error.to_string());
        all.push((fetched.number(), bytes));
    }
    (all, samples.stats())
}

/// Memory for a small part of an epoch.
const LITTLE: u64 = 8 << 20;

#[test]
fn an_epoch_in_which_every_fifth_request_fails_is_that_of_the_folder() {
    let Some(nginx) = Nginx::start() else { return };
    for zstd in [None, cfg!(feature = "zstd").then_some(1)] {
        let name = format!("{zstd:?}");
        let folder = nginx.data().join(&name);
        pack(&folder, zstd);
        let (expected, _) = epoch(Dataset::open(&folder).unwrap(), LITTLE);
        assert_eq!(expected.len(), 10_000);
        let proxy = Proxy::start(nginx.port());
        let of_all = [
            // A byte of a run; a sample that is fetched again is shorter.
            (3, Fault::Flip(3500)),
            (5, Fault::Cut(2000)),
            (5, Fault::Drop),
            (5, Fault::Status(503, false)),
            (5, Fault::Status(500, false)),
            (5, Fault::Lost),
            (5, Fault::Cut(0)),
            (5, Fault::Delay(Duration::from_millis(20))),
        ];
        for (every, fault) in of_all.into_iter().take(if zstd.is_some() { 2 } else { 8 }) {
            let dataset = Dataset::open(proxy.url(&name)).unwrap();
            // An index with two flipped responses would count as damaged.
            assert!(dataset.shards().all(|shard| shard.index().is_ok()));
            proxy.fail(every, fault);
            let (found, stats) = epoch(dataset, LITTLE);
            assert!(proxy.faults() > 3, "{name} {fault:?}: {}", proxy.faults());
            let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            assert!(found.len() == expected.len() && differs.is_none(), "{name} {fault:?}: {differs:?}");
            let is_told = !matches!(fault, Fault::Delay(_) | Fault::Flip(_));
            assert_eq!(stats.requests_again > Some(0), is_told, "{name} {fault:?}: {stats:?}");
            if zstd.is_some() && matches!(fault, Fault::Flip(_)) {
                // The samples of a frame are not fetched one by one.
                assert!(proxy.requests() < 2_000, "{}", proxy.requests());
            }
            proxy.fail(u64::MAX, Fault::Drop);
        }
    }
}

#[test]
fn a_sample_that_is_damaged_on_the_server_is_named_and_all_others_are_handed_out() {
    let Some(nginx) = Nginx::start() else { return };
    let folder = nginx.data().join("damaged");
    pack(&folder, None);
    let (mut expected, _) = epoch(Dataset::open(&folder).unwrap(), LITTLE);
    let dataset = Dataset::open(&folder).unwrap();
    let shard = dataset.shards().nth(7).unwrap();
    // One flip in the image of a sample, and one beside the image of another.
    let damaged = [(shard.samples().start + 11, 100), (shard.samples().start + 300, 0)];
    let mut bytes = fs::read(shard.path()).unwrap();
    for (number, at) in damaged {
        let row = shard.row(number - shard.samples().start).unwrap();
        let place = if at == 0 { row.offset } else { row.payload().0 + at };
        bytes[place as usize] ^= 4;
    }
    fs::write(shard.path(), bytes).unwrap();
    let (found, _) = epoch(Dataset::open(nginx.url("damaged")).unwrap(), LITTLE);
    for ((number, found), (also, expected)) in found.iter().zip(&mut expected) {
        assert_eq!(number, also);
        match damaged.iter().find(|(damaged, _)| damaged == number) {
            Some((_, 0)) => assert!(found.as_ref().unwrap_err().contains("frame hash"), "{found:?}"),
            Some(_) => assert!(found.as_ref().unwrap_err().contains("content hash"), "{found:?}"),
            None => assert_eq!(found, expected, "{number}"),
        }
    }
}

#[test]
fn what_many_threads_want_is_asked_for_once() {
    let Some(nginx) = Nginx::start() else { return };
    pack(&nginx.data().join("x"), None);
    assert_eq!(epoch(Dataset::open(nginx.url("x")).unwrap(), LITTLE).0.len(), 10_000);
    let asked = nginx.asked();
    let of = |part: &str| asked.iter().filter(|request| request.contains(part)).count();
    assert_eq!((of("manifest.json"), of(".index")), (1, 20), "{asked:?}");
}
