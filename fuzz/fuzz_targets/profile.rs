//! Text as an AWS profile file, and as credentials from a program or a server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_storage::remote::fuzz;

fuzz_target!(|input: &str| {
    within(64 << 10, 64, input.as_bytes(), || {
        for (name, value) in fuzz::profile(input) {
            assert!(!name.contains('\n') && !value.contains('\n'));
        }
    });
});
