//! Bytes as a TFRecord file: reads framing, examples, images and labels.
//!
//! Twins: the same bytes read as a stream of unknown length; and the bytes as the data of a record with valid checksums,
//! which random bytes seldom have.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use shardpack_format::formats::{
    self,
    foreign::{FieldSelection, Foreign, Input, Record, Sequential, Skip},
};
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    let foreign = formats::entry("tfrecord").expect("a format of this name").foreign;
    let framed = framed(input);
    for file in [input, &framed] {
        // Memory holds the file twice, for the two walks, and a record once more. A feature of six bytes takes an
        // entry, a name and a few small objects.
        within(1 << 20, 128, file, || {
            let (known, is_whole) = walk(foreign, file, true);
            let (streamed, is_whole_too) = walk(foreign, file, false);
            assert_eq!(known, streamed);
            assert_eq!(is_whole, is_whole_too, "with and without the length known");
        });
    }
    assert!(foreign.is(&framed, Some(framed.len() as u64), ""));
});

/// Returns all records before the first error, and whether there was no error.
fn walk(foreign: &dyn Foreign, file: &[u8], is_known: bool) -> (Vec<Record>, bool) {
    let cursor = Cursor::new(file.to_vec());
    let bytes: Box<dyn Skip> = if is_known { Box::new(cursor) } else { Box::new(Sequential(cursor)) };
    let wanted = FieldSelection::default();
    let input = Input { bytes, total_bytes: is_known.then_some(file.len() as u64) };
    let mut walk = foreign.walk(input, &wanted).expect("a walk begins without reading");
    let (mut records, mut image, mut end) = (Vec::new(), Vec::new(), 0);
    loop {
        let record = match walk.next() {
            Ok(Some(record)) => record,
            Ok(None) => {
                assert_eq!(end, file.len() as u64);
                return (records, true);
            }
            Err(_) => return (records, false),
        };
        assert_eq!(record.range.start, end);
        end = record.range.end;
        assert!(end <= file.len() as u64);
        assert_eq!(walk.image(&mut image).is_ok(), record.image.is_ok());
        if let Ok(place) = &record.image {
            let start = place.offset as usize;
            assert_eq!(file[start..start + place.bytes as usize], image);
            let fetched = &file[place.fetch.start as usize..place.fetch.end as usize];
            assert_eq!(foreign.image(fetched, place.recipe, &wanted).expect("the image again"), image);
        }
        records.push(record);
    }
}

/// `data` as a record with valid checksums.
fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length).to_le_bytes(), data, &masked_crc(data).to_le_bytes()].concat()
}

/// CRC-32C bit by bit, masked.
fn masked_crc(bytes: &[u8]) -> u32 {
    let crc = !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    });
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}
