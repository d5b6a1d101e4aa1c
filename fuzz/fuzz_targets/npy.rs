//! Bytes as a numpy array: its head alone, and as a picture.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::npy;
use shardpack_fuzz::within;
use shardpack_imaging::{Limits, check, decode};

const LIMITS: Limits = Limits { pixels: 1 << 16, bytes: 1 << 20 };

fuzz_target!(|input: &[u8]| {
    // Axes, and a type name in an error message.
    within(16 << 10, 8, input, || {
        let Ok(head) = npy::read_head(input) else { return };
        assert!(head.data_offset <= input.len() && head.shape.len() <= npy::MAX_AXES);
        assert!(head.data_bytes <= i64::MAX as u64);
        let is_whole = head.data_bytes == (input.len() - head.data_offset) as u64;
        assert_eq!(head.check_length(input.len() as u64).is_ok(), is_whole);
        let again = npy::head(head.dtype, &head.shape, head.is_fortran);
        let again = npy::read_head(&again).expect("a head as numpy writes it");
        assert_eq!((again.dtype, &again.shape, again.is_fortran), (head.dtype, &head.shape, head.is_fortran));
        assert_eq!(again.data_bytes, head.data_bytes);
    });
    if input.starts_with(b"\x93NUMPY") {
        within(4 << 20, 64, input, || {
            let sound = check(input, &LIMITS).is_ok();
            assert!(decode(input, &LIMITS).is_err() || sound, "decodes, but is refused");
        });
    }
});
