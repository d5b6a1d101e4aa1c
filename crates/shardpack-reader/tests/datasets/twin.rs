//! Compares the reader with its twin: the whole shard in memory, unpacked, and cut by the index.

use std::path::Path;

use proptest::prelude::*;
use shardpack_reader::{Dataset, Index, Manifest};
use shardpack_testing::Packing;

/// Record and image of every sample, read in the slow and obvious way.
fn slow(folder: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let manifest = Manifest::read(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let mut samples = Vec::new();
    for shard in manifest.shards {
        let file = std::fs::read(folder.join(shard.file)).unwrap();
        let content = if manifest.format.compression == "none" { file } else { unpack(&file) };
        let index = Index::open(std::fs::read(folder.join(shard.index.file)).unwrap()).unwrap();
        for row in index.iter() {
            let row = row.unwrap();
            let record = content[row.offset as usize..][..row.record_bytes as usize].to_vec();
            let (start, bytes) = row.payload();
            samples.push((record, content[start as usize..][..bytes as usize].to_vec()));
        }
    }
    samples
}

#[cfg(feature = "zstd")]
fn unpack(file: &[u8]) -> Vec<u8> {
    zstd::stream::decode_all(file).unwrap()
}

#[cfg(not(feature = "zstd"))]
fn unpack(_file: &[u8]) -> Vec<u8> {
    panic!("no compressed shards without zstd")
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0usize..2000, 2 => 2000usize..40_000, 1 => 100_000usize..300_000]
}

/// Small buffers, buffers around the length of a record, and one that holds everything.
fn buffer() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0),
        Just(1),
        2000usize..10_000,
        (1usize..100).prop_map(|n| n * 512),
        Just(1 << 20),
        Just(usize::MAX)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_reader_reads_what_its_twin_does(
        lengths in prop::collection::vec(length(), 1..40),
        shard_samples in 1usize..15,
        block_samples in 1usize..6,
        buffer_bytes in buffer(),
        packed: bool,
        bounds: (prop::sample::Index, prop::sample::Index),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let images: Vec<Vec<u8>> = lengths.iter().map(|length| (0..*length).map(|i| (i * length / 3) as u8).collect()).collect();
        let zstd = (packed && cfg!(feature = "zstd")).then_some(1);
        Packing { shard_samples, block_samples, zstd, ..Packing::default() }.pack(folder.path(), &images);
        let twin = slow(folder.path());
        prop_assert_eq!(twin.len(), images.len());
        let dataset = Dataset::open(folder.path()).unwrap();
        let (a, b) = (bounds.0.index(images.len() + 1), bounds.1.index(images.len() + 1));
        for (start, end) in [(0, images.len()), (a.min(b), a.max(b))] {
            let mut reader = dataset.reader(start as u64..end as u64).unwrap().buffer_bytes(buffer_bytes).check_content(true);
            for (number, (record, image)) in twin.iter().enumerate().take(end).skip(start) {
                let sample = reader.next().unwrap().unwrap();
                prop_assert_eq!(sample.number(), number as u64);
                prop_assert!(sample.record() == record && sample.bytes() == image && image == &images[number]);
                let same = dataset.sample(number as u64).unwrap();
                prop_assert!(same.record() == record && same.bytes() == image);
            }
            prop_assert!(reader.next().unwrap().is_none());
        }
    }
}

/// Buffers one byte shorter than a run of records, equally long, and one byte longer.
#[test]
fn runs_end_right_at_every_boundary_of_the_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let images: Vec<Vec<u8>> = (0..30u8).map(|n| vec![n; usize::from(n % 3) * 600]).collect();
    Packing::default().pack(folder.path(), &images);
    let dataset = Dataset::open(folder.path()).unwrap();
    let records: Vec<_> = (0..30).map(|number| dataset.row(number).unwrap()).collect();
    for row in &records {
        let end = row.offset as usize + row.record_bytes as usize;
        for buffer_bytes in [end.saturating_sub(1), end, end + 1] {
            let mut reader = dataset.reader(..).unwrap().buffer_bytes(buffer_bytes);
            for image in &images {
                assert_eq!(reader.next().unwrap().unwrap().bytes(), image, "{buffer_bytes}");
            }
        }
    }
}
