//! Contains panics of crates that read foreign files: a panic of a decoder becomes a refusal of one image.

use shardpack_format::{catch_panic::caught, image_header::Kind};

use crate::Refused;

/// Calls decoders and encoders with the image in `bytes`; a panic inside becomes a refusal.
pub(crate) fn contained<T>(bytes: &[u8], call: impl FnOnce() -> Result<T, Refused>) -> Result<T, Refused> {
    // After a panic only `bytes` is used again, which the call cannot change.
    caught(call).unwrap_or_else(|_| Err(Refused::Damaged(Kind::detect(bytes), "its decoder gives up on it".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_refusal_and_what_comes_after_is_as_ever() {
        let refused = contained(b"II\x2A\0", || -> Result<(), Refused> { panic!("out of bounds") }).unwrap_err();
        assert_eq!(refused.to_string(), "TIFF does not decode: its decoder gives up on it");
        assert_eq!(contained(b"", || Ok(7)), Ok(7));
    }
}
