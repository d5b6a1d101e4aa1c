//! Bytes as a RecordIO file, and as the index of a RecordIO file.
//!
//! Twin: the same bytes read as a stream of unknown length. Every image is also read from its bytes alone.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use shardpack_format::formats::{
    self,
    foreign::{FieldSelection, Input, Record, Sequential},
    recordio,
};
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    // A record of 8 bytes takes its fields and the reason why it has no image.
    within(1 << 20, 256, input, || {
        let wanted = FieldSelection { label_number: Some(input.len() % 3), ..FieldSelection::default() };
        let bytes = Box::new(Cursor::new(input.to_vec()));
        let (known, whole) = walk(input, Input { bytes, total_bytes: Some(input.len() as u64) }, &wanted);
        let bytes = Box::new(Sequential(Cursor::new(input.to_vec())));
        let (streamed, also) = walk(input, Input { bytes, total_bytes: None }, &wanted);
        assert_eq!(known, streamed);
        assert_eq!(whole, also, "with and without the length known");
        if whole {
            assert_eq!(known.last().map_or(0, |record| record.range.end), input.len() as u64);
        }
        // A line has at least four bytes.
        assert!(recordio::read_idx(input).map_or(0, |entries| entries.len()) <= input.len() / 3);
    });
});

/// Returns all records before the first error, and whether there was no error.
fn walk(input: &[u8], bytes: Input, wanted: &FieldSelection) -> (Vec<Record>, bool) {
    let entry = formats::entry(recordio::NAME).expect("a format in the list");
    let (mut records, mut image, mut end) = (Vec::new(), Vec::new(), 0);
    let Ok(mut walk) = entry.foreign.walk(bytes, wanted) else { return (records, false) };
    loop {
        let record = match walk.next() {
            Ok(Some(record)) => record,
            Ok(None) => return (records, true),
            Err(_) => return (records, false),
        };
        assert!(record.range.start == end && record.range.end > end && record.range.end <= input.len() as u64);
        end = record.range.end;
        // The next call skips the other images.
        if let (Ok(place), false) = (&record.image, records.len() % 3 == 2) {
            walk.image(&mut image).expect("an image that was promised");
            assert_eq!(image.len(), place.bytes as usize);
            let fetched = &input[place.fetch.start as usize..place.fetch.end as usize];
            assert_eq!(entry.foreign.image(fetched, place.recipe, wanted).expect("the same image"), image);
            if !place.in_parts {
                assert_eq!(input[place.offset as usize..][..image.len()], image);
            }
        }
        records.push(record);
    }
}
