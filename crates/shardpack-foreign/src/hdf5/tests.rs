//! Damage of every kind on small files that h5py wrote.

use std::{fs, path::PathBuf};

use shardpack_format::formats::foreign::{FieldSelection, Record};

use super::*;

const VECTORS: [&str; 2] = ["hdf5/rows.h5", "hdf5-groups/groups.h5"];

fn vector(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vectors")).join(name)).unwrap()
}

/// Records of a file with these bytes, their images as long as they say; or why it ended.
fn walked(bytes: &[u8], wanted: &FieldSelection) -> Result<Vec<Record>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let _ = (classes(file.path(), wanted), splits(file.path(), wanted));
    let mut walk = walk(file.path(), wanted, None)?;
    let (mut records, mut image, mut end) = (Vec::new(), Vec::new(), 0);
    while let Some(record) = walk.next()? {
        assert_eq!(record.range.start, end);
        end = record.range.end;
        match &record.image {
            Ok(place) => {
                walk.image(&mut image).unwrap();
                assert_eq!(image.len(), place.bytes as usize);
            }
            Err(_) => assert!(walk.image(&mut image).is_err()),
        }
        records.push(record);
    }
    assert!(walk.next()?.is_none());
    Ok(records)
}

#[test]
fn a_block_of_the_users_own_may_come_first() {
    let mut bytes = vector(VECTORS[0]);
    assert!(is(&bytes[..4096]));
    bytes.splice(0..0, vec![b'x'; 2048]);
    assert!(is(&bytes[..4096]));
    assert_eq!(walked(&bytes, &FieldSelection::default()).unwrap().len(), 6);
    bytes.insert(0, b'x');
    assert!(!is(&bytes[..4096]));
    assert!(!is(b"") && !is(b"\x89HDF"));
}

#[test]
fn every_cut_is_refused() {
    for name in VECTORS {
        let bytes = vector(name);
        for end in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
            assert!(walked(&bytes[..end], &FieldSelection::default()).is_err(), "{name}: cut at {end}");
        }
    }
}

#[test]
fn no_flip_of_a_bit_does_more_than_give_an_error_or_other_records() {
    for name in VECTORS {
        let mut bytes = vector(name);
        // One in eleven: each takes milliseconds.
        for at in (0..bytes.len()).step_by(11) {
            bytes[at] ^= 1 << (at % 8);
            let _ = walked(&bytes, &FieldSelection::default());
            bytes[at] ^= 1 << (at % 8);
        }
    }
}

#[test]
fn more_items_than_a_file_can_hold_are_refused() {
    // The axis of all three datasets, six: the images say a million million.
    let bytes = vector(VECTORS[0]);
    let mut refused = 0;
    for at in (0..bytes.len() - 16).filter(|at| bytes[*at..at + 16] == [6u64.to_le_bytes(); 2].concat()) {
        let mut wrong = bytes.clone();
        wrong[at..at + 8].copy_from_slice(&1_000_000_000_000u64.to_le_bytes());
        wrong[at + 8..at + 16].copy_from_slice(&1_000_000_000_000u64.to_le_bytes());
        refused += usize::from(
            walked(&wrong, &FieldSelection::default()).is_err_and(|error| error.what().contains("can hold")),
        );
    }
    assert!(refused >= 1);
}

#[test]
fn a_person_may_name_a_dataset_or_a_group() {
    let wanted = |image: &str| FieldSelection { image: Some(image.to_owned()), ..FieldSelection::default() };
    assert_eq!(walked(&vector(VECTORS[0]), &wanted("/images")).unwrap().len(), 6);
    assert_eq!(walked(&vector(VECTORS[1]), &wanted("cow")).unwrap().len(), 2);
    assert!(walked(&vector(VECTORS[1]), &wanted("horse")).unwrap_err().what().contains("no dataset horse"));
}
