//! Time to the first batch after opening datasets of 10 and 100 million samples, at the beginning and in mid-epoch; and the
//! longest wait of a consumer when a mix changes from one epoch to the next.
//!
//! ```text
//! cargo run --release -p shardpack-loader --example first_batch [-- FOLDER SHARDS]
//! ```
//! With FOLDER and SHARDS it only creates a dataset of SHARDS shards in FOLDER.
//!
//! The shards are one file of 10,000 samples under many names: the program reads few bytes, and everything that grows with the
//! number of samples has its real size. Prints the fastest, median and slowest of 11 runs, and the memory of the process.
//! A mix is either half of the samples, different in each epoch, or two classes of ratio 5 to 1 in equal shares.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use shardpack_format::manifest::{self, Manifest};
use shardpack_loader::{Dataset, Loader, MixPart, Options, State, Subset, Times};

const SHARD_SAMPLES: u64 = 10_000;
const RUNS: usize = 11;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [folder, shards] = &arguments[..] {
        return make(Path::new(folder), shards.parse().unwrap());
    }
    for shards in [1_000, 10_000] {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), shards);
        let samples = shards * SHARD_SAMPLES;
        for (name, position) in [("from the beginning", 0), ("in mid-epoch", samples / 2 / 64 * 64)] {
            let mut elapsed_ms: Vec<f64> = (0..RUNS).map(|_| first_batch(folder.path(), position)).collect();
            elapsed_ms.sort_by(f64::total_cmp);
            println!(
                "{samples} samples in {shards} shards, {name}: {:.1} ms ({:.1} to {:.1})",
                elapsed_ms[RUNS / 2],
                elapsed_ms[0],
                elapsed_ms[RUNS - 1]
            );
        }
        turn(folder.path(), "half of them", |_| (Subset::All, Times::Total(samples / 2)));
        turn(folder.path(), "classes", |samples| {
            let uneven = (0..samples).filter(|number| number % 2 == 0 || number % 10 == 1);
            (Subset::Samples(uneven.collect()), Times::Classes(0.0))
        });
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
}

/// Milliseconds from opening the dataset to the first batch of 64.
fn first_batch(folder: &Path, position: u64) -> f64 {
    let start = Instant::now();
    let dataset = Dataset::open(folder).unwrap();
    let loader = Loader::new(dataset, Options { seed: 3, ..Options::default() }).unwrap();
    let mut state: State = loader.beginning();
    state.position = position;
    let mut batches = loader.batches(&state).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().len(), 64);
    start.elapsed().as_secs_f64() * 1e3
}

/// Prints a mix's time to its first batch, and the longest wait for another batch, in milliseconds, if training takes 2 ms a
/// batch.
fn turn(folder: &Path, name: &str, how: impl Fn(u64) -> (Subset, Times)) {
    const BEFORE: u64 = 4_000;
    let dataset = Dataset::open(folder).unwrap();
    let (subset, times) = how(dataset.len());
    let since = Instant::now();
    let parts = vec![MixPart { dataset, subset, times }];
    let loader = Loader::mix(parts, Options { seed: 3, epochs: 2, ..Options::default() }).unwrap();
    let mut state = loader.beginning();
    state.position = loader.epoch(0).unwrap().len().saturating_sub(BEFORE * 64);
    let mut batches = loader.batches(&state).unwrap();
    let mut waits = Vec::new();
    for _ in 0..BEFORE + 100 {
        let asked = Instant::now();
        // `None` once, at the end of the epoch.
        drop(batches.next().unwrap());
        waits.push(asked.elapsed().as_secs_f64() * 1e3);
        if waits.len() == 1 {
            println!("{name}: {:.0} ms from the datasets to the first batch", since.elapsed().as_secs_f64() * 1e3);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let longest = waits[1..].iter().copied().fold(0.0, f64::max);
    println!("{name}: {longest:.1} ms at most for another, the turn of the epoch among them");
}

/// Creates one shard of small samples, and `shards` names for it.
fn make(folder: &Path, shards: u64) {
    let payloads: Vec<Vec<u8>> = (0..SHARD_SAMPLES as u32).map(|number| number.to_le_bytes().repeat(25)).collect();
    shardpack_testing::Packing {
        shard_samples: SHARD_SAMPLES as usize,
        block_samples: 350,
        ..shardpack_testing::Packing::default()
    }
    .pack(folder, &payloads);
    let path = folder.join(manifest::FILE);
    let mut all = Manifest::read(&std::fs::read(&path).unwrap()).unwrap();
    let one = all.shards[0].clone();
    for number in 1..shards {
        let mut shard = one.clone();
        shard.file = format!("shard-{number:06}.tar");
        shard.index.file = format!("index/shard-{number:06}.index");
        std::fs::hard_link(folder.join(&one.file), folder.join(&shard.file)).unwrap();
        std::fs::hard_link(folder.join(&one.index.file), folder.join(&shard.index.file)).unwrap();
        all.shards.push(shard);
    }
    let times = |count: &mut u64| *count *= shards;
    [&mut all.samples, &mut all.payload_bytes, &mut all.shard_bytes].into_iter().for_each(times);
    all.kinds.values_mut().for_each(times);
    let ledger = std::iter::once(&mut all.ledger.counts);
    for counts in ledger.chain(all.classes.iter_mut().map(|class| &mut class.counts)) {
        [&mut counts.discovered, &mut counts.packed].into_iter().for_each(times);
    }
    std::fs::write(&path, all.to_bytes().unwrap().0).unwrap();
}
