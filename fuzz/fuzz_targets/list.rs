//! Bytes as a list: CSV, lines of text, JSONL, a list of objects; the first byte picks the kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_source::list;

fuzz_target!(|input: &[u8]| {
    if let Some((kind, bytes)) = input.split_first() {
        // A row of two bytes takes about 100 bytes of memory, and about 100 more if its file is missing.
        within(4 << 20, 1024, bytes, || {
            list::fuzz(kind % 4, bytes);
        });
    }
});
