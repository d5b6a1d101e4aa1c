//! Bytes as a zip file of arrays: reads the directory, the head of each array, and every short array.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_foreign::npz::Npz;
use shardpack_fuzz::within;

/// Maximum bytes of an array to read: the caller allocates the length that the file claims.
const MAX_BYTES: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    // The end record, the directory, the inflater, and one array.
    within(4 << 20, 4, input, || {
        let Ok(npz) = Npz::open(input, input.len() as u64) else { return };
        let are_apart = npz.check_places().is_ok();
        for member in npz.members() {
            let Ok(array) = npz.array(member) else { continue };
            let items = array.form.items_bytes();
            let bytes = items.map_or(member.bytes().into(), |items| items + array.form.head().len() as u64);
            if bytes > MAX_BYTES {
                continue;
            }
            let mut out = vec![0; bytes as usize];
            if npz.read(&member.component, &array.form, &mut out).is_ok() && are_apart {
                assert_eq!(array.form.head(), out[..array.form.head().len()]);
            }
        }
    });
});
