//! Bytes as a parquet file, or an Arrow file, of images.
//!
//! The walk catches panics of the crate `parquet` by unwinding, but libFuzzer's panic hook aborts. So this target is built
//! with unwinding, and the hook is not called during the walk.
#![no_main]

use std::io::{Seek, SeekFrom, Write};

use libfuzzer_sys::fuzz_target;
use shardpack_foreign::parquet;
use shardpack_format::formats::foreign::FieldSelection;
use shardpack_fuzz::{walk_rows, within};

fuzz_target!(|input: &[u8]| {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(input).expect("room for a few bytes");
    file.seek(SeekFrom::Start(0)).expect("a file that seeks");
    // A page may decompress to 1,000 times its length.
    within(64 << 20, 4096, input, || {
        let wanted = FieldSelection::default();
        let _ = file.try_clone().map(|file| parquet::classes(file, &wanted));
        if let Ok(walk) = parquet::walk(file, &wanted, &|| Ok(())) {
            walk_rows(walk);
        }
    });
});
