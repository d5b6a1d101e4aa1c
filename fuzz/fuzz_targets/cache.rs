//! Bytes as a cache file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_reader::fuzz_blocks;

fuzz_target!(|input: &[u8]| {
    // The first four bytes hold the length of the object.
    if let Some((bytes, file)) = input.split_first_chunk::<4>() {
        let path = std::env::temp_dir().join(format!("shardpack-fuzz-cache-{}", std::process::id()));
        std::fs::write(&path, file).expect("a folder for temporary files");
        let _ = fuzz_blocks(&path, u32::from_le_bytes(*bytes).into());
    }
});
