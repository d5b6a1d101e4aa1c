//! Text as a file of profiles of AWS, and as what a program or a server gives as credentials.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_store::fuzz;

fuzz_target!(|input: &str| {
    within(64 << 10, 64, input.as_bytes(), || {
        for (name, value) in fuzz::profile(input) {
            assert!(!name.contains('\n') && !value.contains('\n'));
        }
    });
});
