//! Bytes as a record of splits; an accepted record is equal after writing and reading.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::splits::Record;
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    within(64 << 10, 256, input, || {
        let Ok(record) = Record::read(input) else { return };
        let bytes = record.to_bytes().expect("numbers and text");
        assert_eq!(Record::read(&bytes).expect("what was accepted"), record);
        assert!(!record.splits.is_empty() || record.differences(&[]).is_empty());
    });
});
