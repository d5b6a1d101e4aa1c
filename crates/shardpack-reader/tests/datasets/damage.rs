//! Errors name damaged data, and undamaged data is still read.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use shardpack_format::index;
use shardpack_reader::{Dataset, Error, ErrorKind, Manifest, Result};
use shardpack_testing::Packing;

fn images() -> Vec<Vec<u8>> {
    (0..20).map(|n: usize| (0..1000 + n * 100).map(|i| (i * n) as u8).collect()).collect()
}

struct Packed {
    _folder: tempfile::TempDir,
    path: PathBuf,
    /// The first shard.
    shard: PathBuf,
}

impl Packed {
    /// Two shards of ten samples.
    fn new(zstd: Option<i32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        Packing { shard_samples: 10, block_samples: 4, zstd, ..Packing::default() }.pack(&path, &images());
        let shard = path.join(if zstd.is_some() { "shard-000000.tar.zst" } else { "shard-000000.tar" });
        Self { _folder: folder, path, shard }
    }

    fn index(&self) -> PathBuf {
        self.path.join("index/shard-000000.index")
    }

    fn open(&self) -> Dataset {
        Dataset::open(&self.path).unwrap()
    }

    /// Changes the manifest and updates its id.
    fn edit(&self, change: impl FnOnce(&mut Manifest)) {
        let path = self.path.join("manifest.json");
        let mut manifest = Manifest::read(&fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        fs::write(path, manifest.to_bytes().unwrap().0).unwrap();
    }

    /// Replaces the rows of the first index, and updates the manifest to match.
    fn edit_rows(&self, change: impl FnOnce(&mut index::Summary, &mut Vec<shardpack_format::sample::Row>)) {
        let old = index::Index::open(fs::read(self.index()).unwrap()).unwrap();
        let mut summary = old.summary().clone();
        let mut rows: Vec<_> = old.iter().map(|row| row.unwrap().to_row()).collect();
        change(&mut summary, &mut rows);
        let bytes = index::write(&summary, &rows).unwrap();
        fs::write(self.index(), &bytes).unwrap();
        self.edit(|manifest| manifest.shards[0].index.bytes = bytes.len() as u64);
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// Sample numbers and errors that the reader returns.
fn read_all(dataset: &Dataset, check: bool) -> (Vec<u64>, Vec<Error>) {
    let (mut numbers, mut errors) = (Vec::new(), Vec::new());
    let images = images();
    let mut reader = dataset.reader(..).unwrap().check_content(check);
    loop {
        match reader.next() {
            Ok(Some(sample)) => {
                if check {
                    assert_eq!(sample.bytes(), images[sample.number() as usize]);
                }
                numbers.push(sample.number());
            }
            Ok(None) => return (numbers, errors),
            Err(error) => errors.push(error),
        }
        assert!(numbers.len() + errors.len() <= images.len(), "the reader does not end");
    }
}

fn but(missing: impl Fn(u64) -> bool) -> Vec<u64> {
    (0..20).filter(|number| !missing(*number)).collect()
}

#[test]
fn a_flipped_byte_of_an_image_is_found_when_content_is_checked_and_names_its_place() {
    let packed = Packed::new(None);
    let sample = packed.open();
    let range = sample.sample(3).unwrap().image_range();
    drop(sample);
    flip(&packed.shard, range.start as usize + 5);
    let dataset = packed.open();
    assert_eq!(read_all(&dataset, false).0, but(|_| false));
    let (numbers, mut errors) = read_all(&dataset, true);
    assert_eq!(numbers, but(|number| number == 3));
    assert!(dataset.sample(3).is_ok() && dataset.read(3, &mut Vec::new()).is_ok());
    let dataset = dataset.check_content(true);
    errors.push(dataset.sample(3).map(drop).unwrap_err());
    errors.push(dataset.read(3, &mut Vec::new()).map(drop).unwrap_err());
    assert_eq!(errors.len(), 3);
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Data);
        let place = format!(
            "{}: sample 00000003 (dogs/3.jpg), byte {}: content hash of bytes {}–{} is ",
            packed.shard.display(),
            range.start,
            range.start,
            range.end
        );
        assert!(error.to_string().starts_with(&place), "{error}");
        assert!(error.help_text().unwrap().contains("--repair"));
    }
    dataset.sample(2).unwrap();
}

#[test]
fn a_flipped_byte_of_a_header_is_found_by_the_frame_hash() {
    let packed = Packed::new(None);
    let offset = packed.open().row(3).unwrap().offset as usize;
    flip(&packed.shard, offset + 1);
    let dataset = packed.open().check_content(true);
    let sample = dataset.sample(3).unwrap();
    assert!(sample.check_frame().unwrap_err().to_string().contains("frame hash"));
    dataset.sample(2).unwrap().check_frame().unwrap();
}

#[cfg(feature = "zstd")]
#[test]
fn a_damaged_frame_costs_the_samples_in_it_and_no_others() {
    let packed = Packed::new(Some(1));
    let bytes = fs::read(&packed.shard).unwrap();
    // Offset of the second frame, samples 4 to 7: its magic equals the first 4 bytes of the file.
    let second = (1..bytes.len()).find(|at| bytes[*at..].starts_with(&bytes[..4])).unwrap();
    flip(&packed.shard, second);
    let dataset = packed.open();
    let (numbers, errors) = read_all(&dataset, true);
    assert_eq!(numbers, but(|number| (4..8).contains(&number)));
    assert_eq!(errors.len(), 4);
    for (error, number) in errors.iter().zip(4..) {
        assert_eq!(error.location().byte, Some(second as u64), "{error}");
        assert!(error.location().sample.as_deref().unwrap().starts_with(&format!("{number:08}")), "{error}");
        assert_eq!(error.location().file.as_deref(), packed.shard.to_str());
    }
    assert!(dataset.sample(5).is_err() && dataset.sample(8).is_ok());
}

#[test]
fn a_shard_that_is_cut_long_or_missing_costs_its_samples_and_says_so_once() {
    type Action = fn(&Path);
    let actions: [(&str, Action); 4] = [
        ("cut", |path| cut(path, fs::metadata(path).unwrap().len() - 1)),
        ("empty", |path| cut(path, 0)),
        ("longer", |path| cut(path, fs::metadata(path).unwrap().len() + 1)),
        ("missing", |path| fs::remove_file(path).unwrap()),
    ];
    let all = if cfg!(feature = "zstd") { vec![None, Some(1)] } else { vec![None] };
    for zstd in all {
        for (name, action) in actions {
            let packed = Packed::new(zstd);
            action(&packed.shard);
            let dataset = packed.open();
            let (numbers, errors) = read_all(&dataset, true);
            assert_eq!((numbers, errors.len()), (but(|number| number < 10), 1), "{name}");
            let sample = dataset.sample(0).map(drop).unwrap_err();
            let read = dataset.read(0, &mut Vec::new()).map(drop).unwrap_err();
            for error in errors.iter().chain([&sample, &read]) {
                assert_eq!(error.kind(), ErrorKind::Data, "{name}: {error}");
                assert_eq!(error.location().file.as_deref(), packed.shard.to_str(), "{name}");
            }
        }
    }
}

#[test]
fn a_shard_that_is_cut_while_it_is_read_is_an_error_and_no_signal() {
    let packed = Packed::new(None);
    let dataset = packed.open();
    let mut reader = dataset.reader(..).unwrap().buffer_bytes(1);
    reader.next().unwrap().unwrap();
    let mut out = Vec::new();
    dataset.read(0, &mut out).unwrap();
    let third = dataset.row(2).unwrap().offset;
    cut(&packed.shard, third + 5);
    assert_eq!(reader.next().unwrap().unwrap().number(), 1);
    for number in 2..10 {
        let error = reader.next().map(drop).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
        assert!(dataset.read(number, &mut out).is_err());
    }
    assert_eq!(reader.next().unwrap().unwrap().number(), 10);
}

#[test]
fn of_a_run_only_the_records_that_cannot_be_read_are_lost() {
    let packed = Packed::new(None);
    let dataset = packed.open();
    let mut reader = dataset.shard(0).unwrap().reader().buffer_bytes(1);
    reader.next().unwrap().unwrap();
    let sixth = dataset.row(5).unwrap().offset;
    cut(&packed.shard, sixth + 5);
    // The next run would hold all remaining records.
    let mut reader = reader.buffer_bytes(usize::MAX);
    for number in 1..5 {
        assert_eq!(reader.next().unwrap().unwrap().number(), number);
    }
    for number in 5..10 {
        let error = reader.next().map(drop).unwrap_err();
        assert!(error.location().sample.as_deref().unwrap().starts_with(&format!("{number:08}")), "{error}");
    }
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn a_damaged_index_costs_what_its_block_covers_and_every_flip_is_found() {
    let length = fs::metadata(Packed::new(None).index()).unwrap().len() as usize;
    let packed = Packed::new(None);
    let good = fs::read(packed.index()).unwrap();
    for at in (0..length).step_by(7) {
        fs::write(packed.index(), &good).unwrap();
        flip(&packed.index(), at);
        let dataset = packed.open();
        let (numbers, errors) = read_all(&dataset, true);
        assert_eq!(numbers, but(|number| number < 10), "byte {at}");
        assert!([1, 10].contains(&errors.len()), "byte {at}");
        for error in &errors {
            assert_eq!(error.kind(), ErrorKind::Data, "byte {at}: {error}");
            assert_eq!(error.location().file.as_deref(), packed.index().to_str(), "byte {at}");
        }
        assert!(dataset.sample(0).is_err() && dataset.row(0).is_err() && dataset.find("00000000").is_err());
        assert!(dataset.sample(10).is_ok());
    }
    for bytes in [0, 1, length as u64 - 1, length as u64 + 1] {
        fs::write(packed.index(), &good).unwrap();
        cut(&packed.index(), bytes);
        assert!(packed.open().row(0).unwrap_err().to_string().contains("in the manifest"), "{bytes}");
    }
    fs::remove_file(packed.index()).unwrap();
    assert_eq!(packed.open().row(0).unwrap_err().kind(), ErrorKind::Data);
}

#[test]
fn an_index_that_contradicts_the_manifest_is_refused_before_the_shard_is_touched() {
    type Change = fn(&mut index::Summary, &mut Vec<shardpack_format::sample::Row>);
    let changes: [(&str, Change); 5] = [
        ("fewer samples", |_, rows| drop(rows.pop())),
        ("length of the shard", |summary, _| summary.shard_bytes += 512),
        ("hash of the shard", |summary, _| summary.shard_blake3[0] ^= 1),
        ("names of components", |summary, _| summary.components[0] = "png".to_owned()),
        ("content longer than the file", |summary, _| summary.content_bytes += 1 << 40),
    ];
    for (name, change) in changes {
        let packed = Packed::new(None);
        packed.edit_rows(change);
        let error = packed.open().sample(0).map(drop).unwrap_err();
        assert_eq!(error.location().file.as_deref(), packed.index().to_str(), "{name}: {error}");
        assert_eq!(read_all(&packed.open(), true).0, but(|number| number < 10), "{name}");
    }
}

#[test]
fn records_in_any_order_and_over_each_other_are_read_as_the_index_says() {
    let packed = Packed::new(None);
    let rows = |_: &mut index::Summary, rows: &mut Vec<shardpack_format::sample::Row>| {
        rows.reverse();
        rows[3] = rows[7].clone();
        rows[5].record_bytes = 0;
        rows[5].components.fill(shardpack_format::sample::Extent::ABSENT);
    };
    packed.edit_rows(rows);
    let (dataset, images) = (packed.open(), images());
    let mut reader = dataset.shard(0).unwrap().reader();
    for expected in [Some(9), Some(8), Some(7), Some(2), Some(5), None, Some(3), Some(2), Some(1), Some(0)] {
        let sample = reader.next().unwrap().unwrap();
        assert_eq!(sample.bytes(), expected.map_or(&[][..], |number: usize| images[number].as_slice()));
        assert_eq!(sample.bytes(), dataset.sample(sample.number()).unwrap().bytes());
    }
}

#[cfg(feature = "zstd")]
#[test]
fn records_across_frames_and_in_any_order_are_read_as_the_index_says() {
    let packed = Packed::new(Some(1));
    packed.edit_rows(|_, rows| {
        rows.reverse();
        // From the middle of one frame to the middle of the third.
        rows[9].record_bytes = (rows[1].offset - rows[9].offset) as u32 + 100;
        rows[4].offset -= 700;
    });
    let dataset = packed.open();
    let twin = zstd::stream::decode_all(fs::read(&packed.shard).unwrap().as_slice()).unwrap();
    let mut reader = dataset.shard(0).unwrap().reader();
    while let Some(sample) = reader.next().unwrap() {
        let row = sample.row();
        assert!(sample.record() == &twin[row.offset as usize..][..row.record_bytes as usize], "{}", sample.number());
        assert!(sample.record() == dataset.sample(sample.number()).unwrap().record());
    }
}

#[test]
fn a_damaged_manifest_is_not_opened() {
    let packed = Packed::new(None);
    let path = packed.path.join("manifest.json");
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(13) {
        fs::write(&path, &good).unwrap();
        flip(&path, at);
        let error = Dataset::open(&packed.path).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.location().file.as_deref()), (ErrorKind::Data, path.to_str()), "{at}: {error}");
    }
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert!(Dataset::open(&packed.path).is_err());
}

#[test]
fn a_compression_of_the_future_is_refused() {
    let packed = Packed::new(None);
    packed.edit(|manifest| manifest.format.compression = "lz4:1".to_owned());
    let error = Dataset::open(&packed.path).map(drop).unwrap_err();
    assert!(error.to_string().contains("\"lz4:1\""), "{error}");
}

#[cfg(not(feature = "zstd"))]
#[test]
fn without_zstd_a_compressed_shard_says_what_to_do() -> Result<()> {
    let packed = Packed::new(Some(1));
    packed.edit(|_| {});
    let dataset = packed.open();
    assert_eq!(dataset.row(0)?.label, Some(0));
    for error in [dataset.sample(0).map(drop), dataset.reader(..)?.next().map(drop)] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.help_text().unwrap().contains("feature `zstd`"), "{error}");
    }
    Ok(())
}

#[test]
fn a_shard_that_is_no_file_is_not_waited_for() -> Result<()> {
    let packed = Packed::new(None);
    fs::remove_file(&packed.shard).unwrap();
    fs::create_dir(&packed.shard).unwrap();
    let dataset = packed.open();
    assert!(dataset.sample(0).map(drop).unwrap_err().to_string().contains("not a regular file"));
    dataset.sample(10).map(drop)
}

#[test]
fn of_a_dataset_that_is_copied_a_file_may_be_cut_while_it_is_open() {
    for zstd in [None, Some(1)] {
        let packed = Packed::new(zstd);
        let dataset = packed.open().copied();
        let labels =
            |dataset: &Dataset| (0..dataset.len()).map(|number| dataset.row(number).unwrap().label).collect::<Vec<_>>();
        let (before, first) = (labels(&dataset), dataset.sample(0).unwrap().bytes().to_vec());
        assert_eq!(dataset.reopen().unwrap().sample(0).unwrap().bytes(), first);
        cut(&packed.index(), 10);
        cut(&packed.shard, 100);
        // Samples read before the cut stay valid; a read behind the cut fails.
        assert_eq!(labels(&dataset), before);
        for number in 0..10 {
            let error = dataset.sample(number).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{error}");
        }
        dataset.sample(10).unwrap();
        let error = dataset.reopen().unwrap().row(0).map(drop).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("10 bytes, ") && told.contains(" in the manifest"), "{told}");
    }
}
