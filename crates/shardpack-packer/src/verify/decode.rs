//! Does an image decode in full? Truncated and corrupt ones do not.

use shardpack_format::image_header::Kind;
use shardpack_imaging::{Limits, Refused, check};

/// What is there was packed by somebody who knew how large it is: memory alone is a bound.
const LIMITS: Limits = Limits { pixels: u64::MAX, bytes: 2 << 30 };

/// Decodes all of an image and throws the pixels away.
///
/// # Errors
/// Says in plain words what is wrong.
pub(super) fn decode(bytes: &[u8]) -> Result<(), String> {
    match check(bytes, &LIMITS) {
        Ok(_) => Ok(()),
        // No decoder here; their headers were all that could be checked.
        Err(Refused::NoDecoder(kind)) if kind != Kind::Unknown => Ok(()),
        Err(refused) => Err(refused.to_string()),
    }
}
