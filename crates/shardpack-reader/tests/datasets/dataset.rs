//! Opening a dataset, and its samples by number and by key.

use std::path::Path;

use shardpack_format::{hash, manifest};
use shardpack_reader::{Dataset, ErrorKind, splits};
use shardpack_testing::Packing;

fn images(number: usize) -> Vec<Vec<u8>> {
    (0..number).map(|n| (0..n * 37 % 5000).map(|i| (i * n + n) as u8).collect()).collect()
}

/// Plain, and compressed if zstd is built in.
fn packings() -> Vec<Packing> {
    let plain = Packing { shard_samples: 7, block_samples: 3, ..Packing::default() };
    let packed = Packing { zstd: Some(1), ..plain.clone() };
    if cfg!(feature = "zstd") { vec![plain, packed] } else { vec![plain] }
}

fn pack(packing: &Packing, images: &[Vec<u8>]) -> (tempfile::TempDir, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    packing.pack(folder.path(), images);
    let dataset = Dataset::open(folder.path()).unwrap().check_content(true);
    (folder, dataset)
}

#[test]
fn all_ways_to_a_sample_lead_to_the_same_bytes() {
    let images = images(40);
    for packing in packings() {
        let (_folder, dataset) = pack(&packing, &images);
        assert_eq!((dataset.len(), dataset.shards().len(), dataset.name()), (40, 6, "shard"));
        let mut reader = dataset.reader(..).unwrap();
        let mut out = Vec::new();
        for (number, image) in images.iter().enumerate() {
            let label = (number % 2) as i64;
            let sample = reader.next().unwrap().unwrap();
            let same = dataset.sample(number as u64).unwrap();
            for sample in [&sample, &same] {
                assert_eq!((sample.number(), sample.bytes()), (number as u64, image.as_slice()));
                assert_eq!(sample.key(), format!("{number:08}").as_bytes());
                assert_eq!((sample.label(), sample.class_name()), (Some(label), Some(["cats", "dogs"][number % 2])));
                assert_eq!(sample.path(), format!("{}/{number}.jpg", ["cats", "dogs"][number % 2]).as_bytes());
                assert_eq!(sample.component("jpg"), Some(image.as_slice()));
                assert_eq!(sample.component("cls"), Some(label.to_string().as_bytes()));
                assert!(sample.component("json").unwrap().starts_with(b"{\"class\""));
                assert_eq!(sample.component("txt"), None);
                assert_eq!(sample.components().map(|(name, _)| name).collect::<Vec<_>>(), ["jpg", "cls", "json"]);
                assert_eq!(sample.row().content_hash, hash::content(image));
                assert_eq!(sample.shard().number(), number / 7);
                sample.check_content().unwrap();
                sample.check_frame().unwrap();
            }
            assert_eq!(sample.record(), same.record());
            let row = dataset.read(number as u64, &mut out).unwrap();
            assert_eq!((out.as_slice(), row.label), (image.as_slice(), Some(label)));
            assert_eq!(dataset.row(number as u64).unwrap().key, row.key);
            let shard = same.shard();
            shard.read(same.image_range(), &mut out).unwrap();
            assert_eq!(&out, image);
        }
        assert!(reader.next().unwrap().is_none() && reader.next().unwrap().is_none());
    }
}

#[test]
fn any_range_is_read_and_nothing_beyond_it() {
    let images = images(40);
    for packing in packings() {
        let (_folder, dataset) = pack(&packing, &images);
        for (start, end) in [(0, 40), (0, 0), (40, 40), (6, 8), (7, 7), (13, 14), (39, 40), (20, 35)] {
            let mut reader = dataset.reader(start..end).unwrap();
            for number in start..end {
                assert_eq!(reader.position(), number);
                assert_eq!(reader.next().unwrap().unwrap().bytes(), images[number as usize], "{start}..{end}");
            }
            assert!(reader.next().unwrap().is_none());
        }
        let first = |mut reader: shardpack_reader::Reader<'_>| reader.next().unwrap().map(|sample| sample.number());
        assert_eq!(first(dataset.reader(5..=5).unwrap()), Some(5));
        assert_eq!(first(dataset.reader(38..).unwrap()), Some(38));
        assert_eq!(first(dataset.shard(2).unwrap().reader()), Some(14));
        #[expect(clippy::reversed_empty_ranges)]
        for range in [0..41, 41..41, 5..4] {
            assert_eq!(dataset.reader(range).unwrap_err().kind(), ErrorKind::Usage);
        }
        assert_eq!(dataset.reader(0..=u64::MAX).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(dataset.sample(40).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(dataset.row(u64::MAX).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(dataset.shard(6).unwrap_err().kind(), ErrorKind::Usage);
    }
}

#[test]
fn keys_are_found_whether_they_ascend_or_not() {
    type Key = fn(usize) -> String;
    let orders: [(&str, Key); 3] = [
        ("ascending", |n| format!("{n:08}")),
        ("descending", |n| format!("{:08}", 1000 - n)),
        ("neither", |n| format!("{:08}", n * 7919 % 1000)),
    ];
    for (name, key) in orders {
        let (_folder, dataset) = pack(&Packing { shard_samples: 7, key, ..Packing::default() }, &images(40));
        for number in 0..40 {
            assert_eq!(dataset.find(key(number)).unwrap(), Some(number as u64), "{name}");
        }
        for missing in ["", "0", "00000000x", "zzz", "99999999"] {
            assert_eq!(dataset.find(missing).unwrap(), None, "{name}: {missing:?}");
        }
    }
}

#[test]
fn shards_without_samples_are_passed_over() {
    let images = images(6);
    for packing in packings() {
        let folder = tempfile::tempdir().unwrap();
        let shards: [&[Vec<u8>]; 7] = [&[], &images[..2], &[], &[], &images[2..3], &images[3..], &[]];
        packing.pack_shards(folder.path(), &shards);
        let dataset = Dataset::open(folder.path()).unwrap();
        let starts: Vec<_> = dataset.shards().map(|shard| shard.samples()).collect();
        assert_eq!(starts, [0..0, 0..2, 2..2, 2..2, 2..3, 3..6, 6..6]);
        let mut reader = dataset.reader(..).unwrap();
        for (number, image) in images.iter().enumerate() {
            assert_eq!(reader.next().unwrap().unwrap().bytes(), image);
            assert_eq!(dataset.sample(number as u64).unwrap().bytes(), image);
            assert_eq!(dataset.find(format!("{number:08}")).unwrap(), Some(number as u64));
        }
        assert!(reader.next().unwrap().is_none());
        assert!(dataset.shard(0).unwrap().reader().next().unwrap().is_none());
        assert_eq!(dataset.find("x").unwrap(), None);
    }
}

#[test]
fn a_dataset_without_samples_or_shards_is_one() {
    for shards in [&[][..], &[&[][..]]] {
        let folder = tempfile::tempdir().unwrap();
        Packing::default().pack_shards(folder.path(), shards);
        let dataset = Dataset::open(folder.path()).unwrap();
        assert!(dataset.is_empty());
        assert!(dataset.reader(..).unwrap().next().unwrap().is_none());
        assert_eq!(dataset.find("00000000").unwrap(), None);
        assert!(dataset.sample(0).is_err());
    }
}

#[test]
fn an_unfinished_pack_is_refused_with_and_without_a_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let split = folder.path().join("train");
    Packing::default().pack(&split, &images(3));
    Dataset::open(&split).unwrap();
    for unfinished in [&split, folder.path()] as [&Path; 2] {
        std::fs::create_dir_all(unfinished.join(".shardpack/replaced")).unwrap();
        let errors = [Dataset::open(&split).map(drop).unwrap_err(), Dataset::open_all(&split).map(drop).unwrap_err()];
        for error in errors {
            assert!(error.to_string().contains("unfinished pack"), "{error}");
            let named = error.location().file.clone().unwrap();
            assert_eq!(Path::new(&named), unfinished.canonicalize().unwrap());
            assert!(error.help_text().unwrap().contains("again"));
        }
        // The pack that will replace the dataset has not touched it yet.
        std::fs::remove_dir(unfinished.join(".shardpack/replaced")).unwrap();
        std::fs::write(unfinished.join(".shardpack/made"), "").unwrap();
        assert_eq!(Dataset::open(&split).unwrap().len(), 3);
        std::fs::remove_dir_all(unfinished.join(".shardpack")).unwrap();
    }
    std::fs::create_dir_all(folder.path().join(".shardpack")).unwrap();
    assert_eq!(splits(folder.path()).unwrap().len(), 1);
    std::fs::write(folder.path().join(".shardpack/plan"), "").unwrap();
    assert!(splits(folder.path()).unwrap_err().to_string().contains("unfinished pack"));
}

#[test]
fn splits_are_listed_and_named_where_one_dataset_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (name, samples) in [("val", 2), ("train", 5)] {
        let packing = Packing { name: name.to_owned(), ..Packing::default() };
        packing.pack(&folder.path().join(name), &images(samples));
    }
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    std::fs::write(folder.path().join("README"), "").unwrap();
    let found = splits(folder.path()).unwrap();
    assert_eq!(found.iter().map(|split| split.name.as_str()).collect::<Vec<_>>(), ["train", "val"]);
    assert_eq!(splits(&found[0].path).unwrap(), []);
    let error = Dataset::open(folder.path()).unwrap_err();
    assert!(error.to_string().ends_with("holds several datasets: train, val"), "{error}");
    assert_eq!(error.help_text(), Some(format!("open one dataset: {}", found[0].path.display()).as_str()));
    let all = Dataset::open_all(folder.path()).unwrap();
    assert_eq!(
        all.iter().map(|dataset| (dataset.name(), dataset.len())).collect::<Vec<_>>(),
        [("train", 5), ("val", 2)]
    );
    assert_eq!(Dataset::open_all(&found[1].path).unwrap().len(), 1);
}

#[test]
fn a_folder_that_is_no_dataset_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = Dataset::open(folder.path()).unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(manifest::FILE), "{error}");
    assert!(Dataset::open_all(folder.path()).is_err());
    let error = Dataset::open(folder.path().join("none")).unwrap_err();
    assert!(error.kind() == ErrorKind::System && error.to_string().contains("No such file"), "{error}");
}

#[test]
fn threads_share_a_dataset() {
    let images = images(40);
    for packing in packings() {
        let (_folder, dataset) = pack(&packing, &images);
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let (dataset, images) = (&dataset, &images);
                threads.spawn(move || {
                    let mut out = Vec::new();
                    for step in 0..400 {
                        let number = (step * 17 + thread * 11) % images.len();
                        dataset.read(number as u64, &mut out).unwrap();
                        assert_eq!(out, images[number]);
                        assert_eq!(dataset.sample(number as u64).unwrap().bytes(), images[number]);
                    }
                });
            }
        });
    }
}
