//! Bytes as a manifest; an accepted manifest is equal after writing and reading.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::manifest::Manifest;
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    // An entry of `ignored_files` takes 6 bytes of JSON and about 70 in a tree. Written again with indentation, it takes
    // 16 bytes, twice, in buffers that double.
    within(64 << 10, 192, input, || {
        let Ok(manifest) = Manifest::read(input) else { return };
        let is_own = manifest.check_id(input).is_ok();
        let (bytes, id) = manifest.to_bytes().expect("numbers and text");
        let again = Manifest::read(&bytes).expect("what was accepted");
        assert_eq!(again, Manifest { id, ..manifest.clone() });
        again.check_id(&bytes).expect("its own id");
        assert_eq!(is_own, bytes == input);
        for shard in &manifest.shards {
            assert!(!shard.file.contains(['/', '\\', '\0']) && !shard.file.starts_with('.'));
        }
        assert!(manifest.sums().lines().count() >= 2 * manifest.shards.len());
        manifest.classes.iter().for_each(|class| drop(class.name_bytes()));
    });
});
