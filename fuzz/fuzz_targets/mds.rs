//! Bytes as an MDS shard, and as an `index.json`.
//!
//! Twin: the same bytes read as a stream of unknown length.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use shardpack_format::formats::{
    self,
    foreign::{FieldSelection, Input, Sequential},
    mds,
};
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    // A column with an empty name takes 2 bytes of config and a few words of memory; so does its value.
    within(1 << 20, 128, input, || walk(input));
    if let Ok(index) = mds::read_index(input) {
        for shard in index.shards {
            assert!(shard.raw_data.basename.split('/').all(|part| !part.is_empty() && part != ".."));
        }
    }
});

/// Walks with known and with unknown length, side by side, to the same end or error.
fn walk(input: &[u8]) {
    let foreign = formats::entry(mds::NAME).expect("a format that is there").foreign;
    let wanted = FieldSelection::default();
    let _ = foreign.is(&input[..input.len().min(4096)], Some(input.len() as u64), "");
    let known = Input { bytes: Box::new(Cursor::new(input.to_vec())), total_bytes: Some(input.len() as u64) };
    let unknown = Input { bytes: Box::new(Sequential(Cursor::new(input.to_vec()))), total_bytes: None };
    let (mut known, mut unknown) = match (foreign.walk(known, &wanted), foreign.walk(unknown, &wanted)) {
        (Ok(known), Ok(unknown)) => (known, unknown),
        (known, unknown) => {
            assert_eq!(known.is_ok(), unknown.is_ok(), "with and without the length known");
            return;
        }
    };
    let (mut end, mut image) = (0, Vec::new());
    loop {
        let (record, twin) = match (known.next(), unknown.next()) {
            (Ok(record), Ok(twin)) => (record, twin),
            (record, twin) => {
                assert_eq!(record.is_ok(), twin.is_ok(), "with and without the length known");
                return;
            }
        };
        assert_eq!(record, twin, "with and without the length known");
        let Some(record) = record else { break };
        assert!(record.range.start >= end && record.range.end <= input.len() as u64);
        end = record.range.end;
        if let Ok(place) = &record.image {
            assert!(record.range.start <= place.fetch.start && place.fetch.end <= record.range.end);
            let fetched = &input[place.fetch.start as usize..place.fetch.end as usize];
            known.image(&mut image).expect("an image that the record has");
            assert_eq!(foreign.image(fetched, place.recipe, &wanted).expect("the same image"), image);
            assert_eq!(image.len(), place.bytes as usize);
        }
    }
    assert_eq!(known.remarks().len(), unknown.remarks().len());
}
