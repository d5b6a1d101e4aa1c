//! Does an image decode in full? Truncated and corrupt ones do not; of some sorts nobody here can tell.

use std::collections::BTreeMap;

use shardpack_format::{image_header::Kind, npy};
use shardpack_imaging::{Limits, Refused, check};

use crate::decoding;

/// What is there was packed by somebody who knew how large it is: memory alone is a bound.
const LIMITS: Limits = Limits { pixels: u64::MAX, bytes: 2 << 30 };

/// Ends what is counted of files that are no images.
pub const NO_IMAGE: &str = ", which is no image";

/// Images of which only the headers could be checked, by what they are.
pub(super) type NotDecoded = BTreeMap<String, u64>;

/// Decodes all of an image and throws the pixels away; counts one that no decoder here takes.
///
/// # Errors
/// Says in plain words what is wrong.
pub(super) fn decode(bytes: &[u8], not_decoded: &mut NotDecoded) -> Result<(), String> {
    match decoding::checked(bytes, &LIMITS, check) {
        Ok(_) => Ok(()),
        Err(Refused::NoDecoder(Kind::Unknown)) => Err(Refused::NoDecoder(Kind::Unknown).to_string()),
        Err(refused @ (Refused::NoDecoder(_) | Refused::Unsupported(..))) => {
            *not_decoded.entry(refused.to_string()).or_default() += 1;
            Ok(())
        }
        Err(refused) => Err(decoding::said(&refused)),
    }
}

/// Looks at a payload that is no image but of `kind`: an array must hold the items that it says; of all else nobody here can
/// tell, and it is counted.
///
/// # Errors
/// Says in plain words what is wrong.
pub(super) fn other(kind: &str, bytes: &[u8], not_decoded: &mut NotDecoded) -> Result<(), String> {
    if kind == Kind::Npy.name() {
        let checked = npy::read_head(bytes).and_then(|head| head.check_length(bytes.len() as u64));
        return checked.map_err(|error| error.what());
    }
    *not_decoded.entry(format!(".{kind}{NO_IMAGE}")).or_default() += 1;
    Ok(())
}

/// Adds one count to another.
pub(super) fn add(not_decoded: &mut NotDecoded, more: NotDecoded) {
    for (what, images) in more {
        *not_decoded.entry(what).or_default() += images;
    }
}
