//! Measures the time to open a dataset of 10,000 shards and 100 million samples.
//!
//! ```text
//! cargo run --release -p shardpack-reader --example open_time
//! ```
//! Creates only the manifest, because opening reads nothing else. Prints the fastest, median and slowest of 21 runs.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{collections::BTreeMap, time::Instant};

use shardpack_format::manifest::{Blake3, Class, Counts, FILE, File, Format, Ledger, Manifest, Order, SCHEMA, Shard};
use shardpack_reader::{Dataset, Error, Result};

const SHARDS: u64 = 10_000;
const SAMPLES: u64 = 100_000_000;
const CLASSES: u64 = 1_000;
const RUNS: usize = 21;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| Error::io("cannot make a folder", error))?;
    let (bytes, _) = manifest().to_bytes()?;
    std::fs::write(folder.path().join(FILE), &bytes).map_err(|error| Error::io("cannot write", error))?;
    let mut elapsed_ms = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        let dataset = Dataset::open(folder.path())?;
        elapsed_ms.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!((dataset.len(), dataset.shards().len()), (SAMPLES, SHARDS as usize));
    }
    elapsed_ms.sort_by(f64::total_cmp);
    println!(
        "{SHARDS} shards, {SAMPLES} samples, manifest of {} bytes: opened in {:.1} ms ({:.1} to {:.1})",
        bytes.len(),
        elapsed_ms[RUNS / 2],
        elapsed_ms[0],
        elapsed_ms[RUNS - 1]
    );
    Ok(())
}

fn manifest() -> Manifest {
    let counts = |samples| Counts { discovered: samples, packed: samples, ..Counts::default() };
    // Hashes differ, so parsing is not faster than for a real manifest.
    let hash = |number: u64| Blake3(std::array::from_fn(|at| (number * 31 + at as u64 * 7) as u8));
    let shard = |number| Shard {
        file: format!("train-{number:06}.tar"),
        samples: SAMPLES / SHARDS,
        bytes: 1_200_000_000 + number * 512,
        blake3: hash(number),
        index: File {
            file: format!("index/train-{number:06}.index"),
            bytes: 1_280_000 + number,
            blake3: hash(number + 1),
        },
    };
    let shards: Vec<_> = (0..SHARDS).map(shard).collect();
    Manifest {
        schema: SCHEMA.to_owned(),
        id: Blake3::default(),
        name: "train".to_owned(),
        format: Format { name: "webdataset".to_owned(), compression: "none".to_owned(), settings: BTreeMap::new() },
        order: Order { algorithm: "source".to_owned(), seed: 0 },
        recipe: None,
        samples: SAMPLES,
        payload_bytes: 11_500_000_000_000,
        shard_bytes: shards.iter().map(|shard| shard.bytes).sum(),
        block_samples: 4,
        components: vec!["jpg".to_owned(), "cls".to_owned()],
        kinds: BTreeMap::from([("jpeg".to_owned(), SAMPLES)]),
        ledger: Ledger { counts: counts(SAMPLES), unclassified: Counts::default(), file: None },
        ignored_files: BTreeMap::new(),
        plan: hash(7),
        classes: (0..CLASSES)
            .map(|number| Class::new(format!("n{number:08}").as_bytes(), counts(SAMPLES / CLASSES)))
            .collect(),
        shards,
        sidecars: Vec::new(),
    }
}
