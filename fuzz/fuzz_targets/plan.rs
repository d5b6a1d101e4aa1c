//! Bytes as the uncompressed contents of the header of a plan file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_packer::plan_file;

fuzz_target!(|input: &[u8]| {
    let _ = plan_file::fuzz(input);
});
