//! Text as a page of a store's listing, and as an error of a store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_storage::remote::fuzz;

fuzz_target!(|input: &str| {
    within(64 << 10, 64, input.as_bytes(), || fuzz::page(input));
});
