//! Bytes as the head of a server's response.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_storage::remote::fuzz;

fuzz_target!(|input: &[u8]| {
    within(64 << 10, 16, input, || fuzz::head(input));
});
