//! Bytes as an HDF5 file of images.
//!
//! The walk catches panics of the crate `hdf5-reader` by unwinding, but libFuzzer's panic hook aborts. So this target is
//! built with unwinding, and the hook is not called during the walk.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use shardpack_foreign::hdf5;
use shardpack_format::formats::foreign::FieldSelection;
use shardpack_fuzz::{walk_rows, within};

fuzz_target!(|input: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(input).expect("room for a few bytes");
    // A chunk may decompress to 2,000 times its length, and memory holds a few copies.
    within(64 << 20, 16384, input, || {
        let wanted = FieldSelection::default();
        let _ = hdf5::classes(file.path(), &wanted);
        let _ = hdf5::splits(file.path(), &wanted);
        if let Ok(walk) = hdf5::walk(file.path(), &wanted, None) {
            walk_rows(walk);
        }
    });
});
