//! Small files of numpy, and damage of every kind.

use std::fs;

use shardpack_format::{
    ErrorKind, Result,
    formats::foreign::{FieldSelection, Label, Record},
    npy,
};

use super::*;
use crate::{FileLocation, zip::written::zip};

/// Records of a walk, with their contents.
type Walked = Vec<(Record, Vec<u8>)>;

fn array(dtype: &str, shape: &[u64], items: &[u8]) -> Vec<u8> {
    [npy::head(dtype, shape, false), items.to_vec()].concat()
}

/// Six images of 2 x 3 bytes.
fn images() -> Vec<u8> {
    array("|u1", &[6, 2, 3], &(0..36).collect::<Vec<u8>>())
}

fn labels(labels: &[u8]) -> Vec<u8> {
    array("|u1", &[labels.len() as u64], labels)
}

fn walked(shard: &ShardFile) -> Result<Walked> {
    let wanted = FieldSelection::default();
    let _ = ((ENTRY.classes)(shard, &wanted), (ENTRY.splits)(shard, &wanted));
    let (mut walk, mut records) = ((ENTRY.walk)(shard, &wanted, &|| Ok(()))?, Vec::new());
    while let Some(record) = walk.next()? {
        let mut content = Vec::new();
        if record.has_content() {
            walk.content(&mut content)?;
        }
        records.push((record, content));
    }
    Ok(records)
}

/// The records of files of these names, which are one shard.
fn of_files(files: &[(&str, Vec<u8>)]) -> Result<Walked> {
    let folder = tempfile::tempdir().unwrap();
    let mut places = Vec::new();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
        places.push(FileLocation::Local(folder.path().join(name)));
    }
    let mut found = shards(places, Some(crate::Kind::parse("numpy")?), true);
    if let Some(error) = found.problems.pop() {
        return Err(error);
    }
    assert_eq!(found.shards.len(), 1);
    walked(&found.shards[0])
}

fn of_archive(members: &[(&str, Vec<u8>, bool)]) -> Result<Walked> {
    of_files(&[("x.npz", zip(members))])
}

fn numbers(records: &Walked) -> Vec<i64> {
    records.iter().filter_map(|(record, _)| record.label.number()).collect()
}

#[test]
fn rows_of_an_archive_and_of_files_are_the_same() {
    let mut all = Vec::new();
    for is_deflated in [false, true] {
        let members =
            [("x_train.npy", images(), is_deflated), ("y_train.npy", labels(&[0, 1, 2, 0, 1, 2]), is_deflated)];
        all.push(of_archive(&members).unwrap());
    }
    all.push(of_files(&[("x_train.npy", images()), ("y_train.npy", labels(&[0, 1, 2, 0, 1, 2]))]).unwrap());
    for records in &all {
        assert_eq!(numbers(records), [0, 1, 2, 0, 1, 2]);
        let contents: Vec<_> = records.iter().map(|(_, content)| content.clone()).collect();
        let expected = (0..6u8).map(|row| array("|u1", &[2, 3], &(row * 6..row * 6 + 6).collect::<Vec<u8>>()));
        assert_eq!(contents, expected.collect::<Vec<_>>());
    }
}

#[test]
fn fortran_order_and_big_endian_numbers_are_the_same_samples() {
    // Item (i, j, k) of 6 x 2 x 3 lies at i + 6 j + 12 k, and is 6 i + 3 j + k.
    let items: Vec<u8> = (0..36).map(|at| 6 * (at % 6) + 3 * (at / 6 % 2) + at / 12).collect();
    let fortran = [npy::head("|u1", &[6, 2, 3], true), items].concat();
    let big: Vec<u8> = (0..6u32).flat_map(|label| (label * 300).to_be_bytes()).collect();
    let plain = of_files(&[("x.npy", images()), ("y.npy", labels(&[0; 6]))]).unwrap();
    let turned = of_files(&[("x.npy", fortran), ("y.npy", array(">i4", &[6, 1], &big))]).unwrap();
    assert_eq!(numbers(&turned), [0, 300, 600, 900, 1200, 1500]);
    let contents = |records: &Walked| records.iter().map(|(_, content)| content.clone()).collect::<Vec<_>>();
    assert_eq!(contents(&plain), contents(&turned));
}

#[test]
fn text_is_a_label_in_either_order_of_bytes() {
    for (dtype, bytes) in [("<U3", 'ü'.to_string()), (">U3", 'ü'.to_string())].map(|(dtype, text)| {
        let characters = text.chars().map(u32::from).chain([0; 2]);
        let own = |one: u32| if dtype == "<U3" { one.to_le_bytes() } else { one.to_be_bytes() };
        (dtype, characters.flat_map(own).collect::<Vec<u8>>().repeat(6))
    }) {
        let found = of_files(&[("x.npy", images()), ("label.npy", array(dtype, &[6], &bytes))]).unwrap();
        assert!(found.iter().all(|(record, _)| record.label == Label::Text("ü".into())), "{dtype}: {found:?}");
    }
    let wrong = of_files(&[("x.npy", images()), ("label.npy", array("<U1", &[6], &[0xff; 24]))]).unwrap();
    assert!(wrong.iter().all(|(record, _)| matches!(record.label, Label::Unfit(_))), "{wrong:?}");
}

#[test]
fn arrays_that_are_no_rows_of_samples_are_refused_by_name() {
    let of_type = |descr: &str| {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (6,), }}\n");
        [b"\x93NUMPY\x01\0", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), &[0; 48]].concat()
    };
    let (objects, fields) = (of_type("'|O'"), of_type("[('a', '<i8')]"));
    let rows: [(&[(&str, Vec<u8>)], &str); 8] = [
        (&[("x.npy", images()), ("y.npy", labels(&[0; 5]))], "labels y uint8 5 do not go with images x uint8 6×2×3"),
        (
            &[("x.npy", array("<f4", &[6, 2], &[0; 48])), ("z.npy", labels(&[0; 6])), ("y.npy", labels(&[0; 5]))],
            "y uint8 5",
        ),
        (&[("x.npy", images()), ("meta.npy", objects)], "array meta: items are Python objects"),
        (&[("x.npy", images()), ("meta.npy", fields)], "array meta: items have named fields"),
        (&[("x.npy", array("|u1", &[0, 2, 3], &[])), ("y.npy", labels(&[]))], "no array with rows"),
        (&[("x.npy", array("|u1", &[1 << 40, 0], &[]))], "1099511627776 rows"),
        (&[("x.npy", array("|u1", &[], &[1]))], "no array with rows"),
        (&[("x.npy", Vec::new())], "array x:"),
    ];
    for (files, expected) in rows {
        let error = of_files(files).unwrap_err();
        assert!(error.what().contains(expected), "{expected}: {error}");
    }
    let sparse = ["data", "format", "shape"].map(|name| (format!("{name}.npy"), labels(&[1, 2]), false));
    let sparse: Vec<_> = sparse.iter().map(|(name, bytes, is)| (&**name, bytes.clone(), *is)).collect();
    assert_eq!(of_archive(&sparse).unwrap_err().kind(), ErrorKind::Usage);
    let text = [("x.npy", images(), false), ("readme.txt", b"text".to_vec(), false)];
    assert!(of_archive(&text).unwrap_err().what().contains("readme.txt"));
    let twice = [("x.npy", images(), false), ("x.npy", images(), false)];
    assert!(of_archive(&twice).unwrap_err().what().contains("array x is there twice"));
}

#[test]
fn an_array_that_no_sample_uses_is_counted_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    let mean = ("mean.npy", array("<f4", &[3], &[0; 12]), false);
    fs::write(&path, zip(&[("x.npy", images(), false), ("y.npy", labels(&[0; 6]), false), mean])).unwrap();
    let found = shards(vec![FileLocation::Local(path)], None, true);
    let mut walk = (ENTRY.walk)(&found.shards[0], &FieldSelection::default(), &|| Ok(())).unwrap();
    while walk.next().unwrap().is_some() {}
    assert_eq!(walk.passed().into_iter().collect::<Vec<_>>(), [("array mean".to_owned(), 1)]);
}

#[test]
fn every_cut_is_refused() {
    for is_deflated in [false, true] {
        let whole = zip(&[("x.npy", images(), is_deflated), ("y.npy", labels(&[0; 6]), is_deflated)]);
        for end in 0..whole.len() {
            assert!(of_files(&[("x.npz", whole[..end].to_vec())]).is_err(), "cut at {end}");
        }
    }
    let whole = images();
    for end in 0..whole.len() {
        assert!(of_files(&[("x.npy", whole[..end].to_vec()), ("y.npy", labels(&[0; 6]))]).is_err(), "cut at {end}");
    }
}

#[test]
fn no_flip_of_a_bit_in_an_archive_changes_a_sample() {
    for is_deflated in [false, true] {
        let mut bytes = zip(&[("x.npy", images(), is_deflated), ("y.npy", labels(&[0; 6]), is_deflated)]);
        let right = of_files(&[("x.npz", bytes.clone())]).unwrap();
        let contents = |records: &Walked| records.iter().map(|(_, content)| content.clone()).collect::<Vec<_>>();
        for at in 0..bytes.len() {
            for bit in [0, 3, 5] {
                bytes[at] ^= 1 << bit;
                if let Ok(found) = of_files(&[("x.npz", bytes.clone())]) {
                    let found = (numbers(&found), contents(&found));
                    assert_eq!(found, (numbers(&right), contents(&right)), "byte {at}, bit {bit}");
                }
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn files_of_a_folder_are_tables_only_with_samples_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: Vec<u8>| {
        fs::write(folder.path().join(name), bytes).unwrap();
        FileLocation::Local(folder.path().join(name))
    };
    let (x, y) = (write("X.npy", images()), write("y.npy", labels(&[0; 6])));
    let sample = || write("1.npz", zip(&[("image.npy", array("<f4", &[6, 6], &[0; 144]), false)]));
    let pair = zip(&[("x.npy", images(), false), ("y.npy", labels(&[0; 6]), false)]);
    let found = |places: &[&FileLocation], are_named| {
        let found = shards(places.iter().map(|place| (*place).clone()).collect(), None, are_named);
        (found.shards.len(), found.problems.len(), found.others.len())
    };
    assert_eq!(found(&[&x, &y], false), (1, 0, 0));
    assert_eq!(found(&[&x], false), (0, 0, 1));
    assert_eq!(found(&[&x], true), (0, 1, 0));
    assert_eq!(found(&[&sample()], false), (0, 0, 1));
    assert_eq!(found(&[&sample()], true), (0, 1, 0));
    let (one, two) = (write("2.npz", pair.clone()), write("3.npz", pair));
    assert_eq!(found(&[&one], false), (1, 0, 0));
    // Each may be a sample of one split; named, they are tables.
    assert_eq!(found(&[&one, &two], false), (0, 0, 2));
    assert_eq!(found(&[&one, &two], true), (2, 0, 0));
}

/// The records of a file of pickled arrays.
fn of_pickle(bytes: &[u8]) -> Result<Walked> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    walked(&ShardFile::of_kind(&FileLocation::Local(file.path().to_path_buf()), crate::Kind::parse("pickled")?)?)
}

fn torch(name: &str) -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/torch/").to_owned() + name).unwrap()
}

#[test]
fn no_cut_and_no_flip_of_a_bit_in_a_file_of_torch_changes_a_sample() {
    for name in ["pair.pt", "map.pt", "views.pt"] {
        let mut bytes = torch(name);
        let right = of_pickle(&bytes).unwrap();
        let contents = |records: &Walked| records.iter().map(|(_, content)| content.clone()).collect::<Vec<_>>();
        for end in (0..bytes.len()).step_by(3) {
            assert!(of_pickle(&bytes[..end]).is_err(), "{name}: cut at {end}");
        }
        for at in 0..bytes.len() {
            bytes[at] ^= 1 << (at % 8);
            if let Ok(found) = of_pickle(&bytes) {
                let found = (numbers(&found), contents(&found));
                assert_eq!(found, (numbers(&right), contents(&right)), "{name}: byte {at}");
            }
            bytes[at] ^= 1 << (at % 8);
        }
    }
}

#[test]
fn no_damage_of_a_pickle_of_arrays_panics() {
    for name in ["map.pkl", "before-zip.pt"] {
        let mut bytes = torch(name);
        assert_eq!(of_pickle(&bytes).unwrap().len(), 12);
        for end in 0..bytes.len() {
            assert!(of_pickle(&bytes[..end]).is_err(), "{name}: cut at {end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let _ = of_pickle(&bytes);
                bytes[at] ^= 1 << bit;
            }
        }
    }
}
