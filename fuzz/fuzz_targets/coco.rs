//! Bytes as a COCO file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_source::list;

fuzz_target!(|input: &[u8]| {
    within(4 << 20, 1024, input, || {
        list::fuzz(4, input);
    });
});
