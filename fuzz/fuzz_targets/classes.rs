//! Bytes as a list of classes and as a class map.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_packer::selection::{ClassList, ClassMap};

fuzz_target!(|input: &[u8]| {
    within(64 << 10, 512, input, || {
        drop(ClassList::read(input));
        drop(ClassMap::read(input));
    });
});
