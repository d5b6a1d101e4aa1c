//! Bytes as the receipt of a part.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_packer::pack;

fuzz_target!(|input: &[u8]| {
    within(64 << 10, 512, input, || drop(pack::fuzz_receipt(input)));
});
