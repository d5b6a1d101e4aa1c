use std::fs;

use shardpack_format::formats::foreign::{FieldSelection, Record};

use super::super::{
    classes,
    tests::{all, records, written},
    walk,
};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/arrow");
/// Files with the rows of `table.parquet`.
const FILES: [&str; 8] = ["stream", "file", "zstd", "lz4", "large", "views", "dictionaries", "deltas"];

fn bytes(name: &str) -> Vec<u8> {
    fs::read(format!("{FIXTURES}/{name}")).unwrap()
}

/// The records with their contents: image and other fields.
fn contents(bytes: &[u8]) -> (Vec<(Record, Vec<u8>)>, Vec<String>) {
    let mut walk = walk(written(bytes), &FieldSelection::default(), &|| Ok(())).unwrap();
    let mut found = Vec::new();
    while let Some(record) = walk.next().unwrap() {
        let mut content = Vec::new();
        if record.has_content() {
            walk.content(&mut content).unwrap();
        }
        found.push((record, content));
    }
    (found, walk.passed().into_keys().collect())
}

#[test]
fn rows_are_those_of_the_same_table_in_parquet() {
    let (expected, passed) = contents(&bytes("table.parquet"));
    assert_eq!(expected.len(), 12);
    assert!(expected.iter().any(|(_, content)| content.len() > 100));
    for name in FILES {
        let file = bytes(&format!("{name}.arrow"));
        let (found, left_out) = contents(&file);
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(format!("{:?}", found.0), format!("{:?}", expected.0), "{name}, row {number}");
            assert!(found.1 == expected.1, "{name}, row {number}");
        }
        assert_eq!((found.len(), &left_out), (expected.len(), &passed), "{name}");
        let names = classes(written(&file), &FieldSelection::default()).unwrap();
        assert_eq!(names, [b"cat", b"dog", b"emu"], "{name}");
    }
    assert!(passed.contains(&"metadata own of the file".to_owned()), "{passed:?}");
}

#[test]
fn values_are_those_of_the_same_table_in_parquet() {
    // Without the images, rows are samples of values.
    let wanted = FieldSelection { image: Some("caption".to_owned()), ..FieldSelection::default() };
    let of = |name: &str| -> Vec<_> {
        records(written(&bytes(name)), &wanted)
            .into_iter()
            .map(|(record, image)| format!("{record:?} {image:?}"))
            .collect()
    };
    let expected = of("table.parquet");
    for name in FILES {
        assert_eq!(of(&format!("{name}.arrow")), expected, "{name}");
    }
}

#[test]
fn damage_is_an_error_or_other_records_but_no_panic() {
    for name in FILES {
        let bytes = bytes(&format!("{name}.arrow"));
        let go = |damaged: &[u8]| match walk(written(damaged), &FieldSelection::default(), &|| Ok(())) {
            Ok(mut walk) => all(&mut *walk).1,
            Err(error) => Some(error),
        };
        assert!(go(&bytes).is_none(), "{name}");
        let places = (0..bytes.len()).step_by(31);
        for (place, mask) in places.flat_map(|place| [0x01, 0xff].map(|mask| (place, mask))) {
            let mut damaged = bytes.clone();
            damaged[place] ^= mask;
            if let Some(error) = go(&damaged) {
                let text = error.to_string();
                assert!(!text.contains("contradicts itself"), "a panic: {name}, byte {place} ^ {mask}: {text}");
            }
        }
        for cut in (0..bytes.len()).step_by(61).chain(bytes.len() - 12..bytes.len()) {
            assert!(go(&bytes[..cut]).is_some(), "{name}, cut at {cut}");
        }
        for cut in (1..bytes.len()).step_by(97) {
            go(&[&bytes[..cut - 1], &bytes[cut..]].concat());
        }
    }
}

#[test]
fn errors_name_the_batch_and_the_column() {
    let mut damaged = bytes("stream.arrow");
    // The offsets of the texts in the last batch.
    let at = damaged.windows(5).rposition(|five| five == b"short").unwrap();
    let start = damaged[..at].windows(8).rposition(|eight| eight == [0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    damaged[start + 8..at].fill(0xff);
    let mut walk = walk(written(&damaged), &FieldSelection::default(), &|| Ok(())).unwrap();
    let (records, error) = all(&mut *walk);
    let error = error.unwrap().to_string();
    assert!(error.starts_with("record batch 2, column \"caption\": "), "{error}");
    // Rows before the damage are kept.
    assert!(records.len() >= 10, "{}", records.len());
}

#[test]
fn a_stream_without_its_end_is_refused_and_so_is_more_after_it() {
    let stream = bytes("stream.arrow");
    let error = |bytes: &[u8]| walk(written(bytes), &FieldSelection::default(), &|| Ok(())).err().unwrap().to_string();
    let cut = error(&stream[..stream.len() - 8]);
    assert!(cut.contains("truncated Arrow stream: it has no end mark"), "{cut}");
    let twice = error(&[&stream[..], &stream].concat());
    assert!(twice.contains("bytes after its end mark"), "{twice}");
    let file = bytes("file.arrow");
    let cut = error(&file[..file.len() - 1]);
    assert!(cut.contains("does not end with ARROW1"), "{cut}");
}
