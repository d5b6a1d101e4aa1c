//! Bytes as a `.beton` file of FFCV.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use shardpack_foreign::{Kind, ShardFile};
use shardpack_format::formats::foreign::FieldSelection;
use shardpack_fuzz::{walk_rows, within};

fuzz_target!(|input: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(input).expect("room for a few bytes");
    // The fields, the lengths of data, and a batch of rows for each field.
    within(64 << 20, 256, input, || {
        let kind = Kind::parse("beton").expect("a kind");
        let Ok(file) = ShardFile::of_kind(&file.path().into(), kind) else { return };
        if let Ok(walk) = file.walk(&FieldSelection::default(), &|| Ok(())) {
            walk_rows(walk);
        }
    });
});
