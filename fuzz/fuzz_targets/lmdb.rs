//! Bytes as an LMDB environment: opens it, lists named databases, walks all entries in both orders, and looks up keys.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use shardpack_foreign::lmdb::Environment;
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(input).expect("room for a few bytes");
    // A page of maximum size is read whole, even if the file is shorter.
    within(1 << 20, 64, input, || {
        let is_told = Environment::is(&input[..input.len().min(4096)]);
        let Ok(environment) = Environment::open(file.path()) else { return };
        assert!(is_told || input.len() > 4096);
        let names = environment.names().unwrap_or_default();
        for name in names.iter().map(|name| Some(&name[..])).chain([None]) {
            let Ok(database) = environment.database(name) else { continue };
            for walk in [database.walk(), database.cursor()] {
                let Ok(mut walk) = walk else { continue };
                let (mut value, mut entries) = (Vec::new(), 0);
                while let Ok(Some(entry)) = walk.next() {
                    assert!(entry.value.end <= input.len() as u64);
                    // More lookups would only take time.
                    if entries < 100 {
                        database.read(entry.value, &mut value).expect("a value that has been found");
                        let _ = database.get(&entry.key);
                    }
                    entries += 1;
                }
            }
        }
    });
});
