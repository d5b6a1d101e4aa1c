//! Decodes images in full to detect truncated and corrupt ones. Some image kinds have no decoder here.

use std::collections::BTreeMap;

use shardpack_format::{image_header::Kind, npy};
use shardpack_imaging::{Limits, Refused, check};

use crate::decoding;

/// No pixel limit: the packer knew how large its images are, so only memory is limited.
const LIMITS: Limits = Limits { pixels: u64::MAX, bytes: 2 << 30 };

/// Suffix of the keys of `Report::not_decoded` for files that are not images.
pub const NO_IMAGE: &str = ", which is no image";

/// Images of which only the header was checked, counted by kind.
pub(super) type NotDecoded = BTreeMap<String, u64>;

/// Decodes an image in full and discards the pixels; counts an image that no decoder supports.
///
/// # Errors
/// The reason, as a message for the user.
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

/// Checks a payload of `kind` that is not an image. An array must have the length in its head; all other kinds are counted as unchecked.
///
/// # Errors
/// The reason, as a message for the user.
pub(super) fn other(kind: &str, bytes: &[u8], not_decoded: &mut NotDecoded) -> Result<(), String> {
    if kind == Kind::Npy.name() {
        let checked = npy::read_head(bytes).and_then(|head| head.check_length(bytes.len() as u64));
        return checked.map_err(|error| error.what());
    }
    *not_decoded.entry(format!(".{kind}{NO_IMAGE}")).or_default() += 1;
    Ok(())
}

/// Adds the counts of `more`.
pub(super) fn add(not_decoded: &mut NotDecoded, more: NotDecoded) {
    for (what, images) in more {
        *not_decoded.entry(what).or_default() += images;
    }
}
