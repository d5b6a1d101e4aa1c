//! Bytes as a ledger; an accepted ledger is equal after writing and reading.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_source::ledger;

fuzz_target!(|input: &[u8]| {
    within(64 << 10, 512, input, || {
        let Ok(entries) = ledger::read(input) else { return };
        let bytes = ledger::write(&entries).expect("paths and text");
        assert_eq!(ledger::read(&bytes).expect("what was accepted"), entries);
    });
});
