//! The loader on real datasets: batches follow the order for any number of ranks, and after any interruption.

#![allow(clippy::disallowed_methods, clippy::excessive_nesting, clippy::unwrap_used, clippy::panic)]

mod bad_samples;
mod batches;
mod buckets;
mod choosing;
mod ranks;
mod ranks_and_resuming;
mod reading;
#[cfg(feature = "cloud")]
mod servers;
mod subsets_and_mixes;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use shardpack_loader::{
    Bad, Batch, Bucket, Dataset, Error, Loader, Memory, MixPart, NO_LABEL, OnBad, Options, Output, Own, Receipt,
    Result, Sample, State, Subset, Times,
    order::{Last, Shuffle},
    training::{self, Cut, Dtype, Size, Transform},
};
use shardpack_reader::storage::{self, Call, Faulty};
use shardpack_testing::Packing;

/// Payloads that begin with their number, 4 to 200 bytes long.
fn payloads(samples: u32) -> Vec<Vec<u8>> {
    (0..samples).map(|n| [&n.to_le_bytes()[..], &vec![n as u8; (n * 37 % 197) as usize]].concat()).collect()
}

fn packed(folder: &Path, samples: u32, zstd: Option<i32>) -> Vec<Vec<u8>> {
    let payloads = payloads(samples);
    Packing { shard_samples: 61, block_samples: 3, zstd, ..Packing::default() }.pack(folder, &payloads);
    payloads
}

fn loader(folder: &Path, options: Options) -> Loader {
    Loader::new(Dataset::open(folder).unwrap(), options).unwrap()
}

/// Reads an epoch and compares its payloads; returns the samples of each batch, and the receipt.
fn epoch_of(loader: &Loader, from: &State, payloads: &[Vec<u8>]) -> (Vec<Vec<u64>>, Receipt) {
    let mut batches = loader.batches(from).unwrap();
    let mut seen = Vec::new();
    while let Some(batch) = batches.next().unwrap() {
        assert_eq!((batch.payloads().len(), batch.labels().len()), (batch.len(), batch.len()));
        for (at, sample) in batch.samples().iter().enumerate() {
            assert_eq!(batch.payloads()[at][..], payloads[*sample as usize], "sample {sample}");
            assert_eq!(batch.labels()[at], (*sample % 2) as i64);
        }
        seen.push(batch.samples().to_vec());
    }
    (seen, batches.receipt().clone())
}

const PHOTOS: [&[u8]; 4] = [
    include_bytes!("../../../../fixtures/photos/animals/cat-ear.jpg"),
    include_bytes!("../../../../fixtures/photos/animals/cat-eye.jpg"),
    include_bytes!("../../../../fixtures/photos/textures/fur.jpg"),
    include_bytes!("../../../../fixtures/photos/textures/lawn.jpg"),
];

fn photos(folder: &Path, copies: usize) {
    let images: Vec<_> = PHOTOS.iter().cycle().take(4 * copies).map(|photo| photo.to_vec()).collect();
    Packing { shard_samples: 9, ..Packing::default() }.pack(folder, &images);
}

fn images(size: u32, dtype: Dtype) -> Output {
    let options =
        training::Options { flip: 0.5, dtype, ..training::Options::new(Cut::random_resized(Size::square(size))) };
    Output::images(Transform::new(options).unwrap())
}
