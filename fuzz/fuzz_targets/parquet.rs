//! Bytes as a parquet file of images.
//!
//! Panics of the crate `parquet` are contained by unwinding, which libFuzzer turns into aborts; so this target is built with
//! unwinding and its own hook stands aside inside of the walk.
#![no_main]

use std::io::{Seek, SeekFrom, Write};

use libfuzzer_sys::fuzz_target;
use shardpack_foreign::parquet;
use shardpack_format::formats::foreign::Wanted;
use shardpack_fuzz::{walk_rows, within};

fuzz_target!(|input: &[u8]| {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(input).expect("room for a few bytes");
    file.seek(SeekFrom::Start(0)).expect("a file that seeks");
    // A page may be unpacked to a thousand times its length.
    within(64 << 20, 4096, input, || {
        let wanted = Wanted::default();
        let _ = file.try_clone().map(|file| parquet::classes(file, &wanted));
        if let Ok(walk) = parquet::walk(file, &wanted, &|| Ok(())) {
            walk_rows(walk);
        }
    });
});
