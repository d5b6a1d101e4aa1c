//! From the bytes of a file to pixels, all of them or none: what is cut short is refused, also where a decoder would not mind.

mod image_crate;
mod jpeg;
mod npy;
pub(crate) mod pages;
mod png;
mod tiff;
mod truncation;
mod xmp;

use std::num::NonZeroU16;

pub(crate) use jpeg::keeps_coefficients;
use shardpack_format::image_header::{Header, Kind};
pub(crate) use tiff::need as tiff_need;
pub(crate) use xmp::orientation as orientation_in_xmp;

use crate::{Limits, Picture, Refused, contain::contained, crops};

/// Decodes all of an image, of an animation the first frame.
///
/// 16 bits are rounded to 8; CMYK and YCCK become RGB (inverted, as Adobe writes them and Pillow takes them); palettes
/// become RGB, or RGBA where they have transparency. Arrays are of `uint8`: `[H, W]`, `[H, W, C]`, or, where the first
/// axis is 1, 3 or 4 and the last is not, `[C, H, W]`.
///
/// # Errors
/// Kinds that have no decoder here, images above `limits`, and all that is truncated or damaged.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    contained(bytes, || whole(bytes, limits))
}

fn whole(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    let kind = Kind::of(bytes);
    let picture = match kind {
        Kind::Jpeg => jpeg::decode(bytes, limits)?,
        Kind::Npy => npy::decode(bytes, limits)?,
        Kind::Tiff => tiff::decode(bytes, limits)?,
        Kind::Png | Kind::Webp | Kind::Gif | Kind::Bmp | Kind::Pnm => image_crate::decode(bytes, kind, limits)?,
        Kind::Unknown | Kind::Jp2 | Kind::Jxl | Kind::Avif | Kind::Heif => return Err(Refused::NoDecoder(kind)),
    };
    match truncation::is_whole(bytes, kind) {
        true => Ok(picture),
        false => Err(without_end(bytes, kind)),
    }
}

/// As [`decode`], for a picture that is to have `size` at the end: a JPEG may come with fewer pixels than it has, though on no
/// side with fewer than twice that. Its reduction is a mean of squares; what is left for the good filter hides that, as
/// Pillow's `reducing_gap=2` does.
pub(crate) fn decode_for(bytes: &[u8], size: Option<(u32, u32)>, limits: &Limits) -> Result<Picture, Refused> {
    // Without a size, libjpeg-turbo is still the faster one.
    let (width, height) = size.unwrap_or((u32::MAX, u32::MAX));
    let at_least = (width.saturating_mul(2), height.saturating_mul(2));
    let is_jpeg = Kind::of(bytes) == Kind::Jpeg && truncation::is_whole(bytes, Kind::Jpeg);
    let reduced = if is_jpeg { jpeg::decode_reduced(bytes, at_least, limits) } else { None };
    reduced.map_or_else(|| whole(bytes, limits), Ok)
}

/// Decodes all of an image and throws the pixels away; arrays of any type are asked for their length alone.
///
/// Damage that decodes to other pixels goes unseen, and so does a JPEG that was cut and then given an end: no decoder takes
/// that for an error.
///
/// # Errors
/// As [`decode`].
pub fn check(bytes: &[u8], limits: &Limits) -> Result<Header, Refused> {
    match Kind::of(bytes) {
        Kind::Npy => npy::check(bytes)?,
        _ => drop(decode(bytes, limits)?),
    }
    Ok(Header::of(bytes))
}

/// Reads all Huffman codes of a JPEG, without pixels; where they are not of one scan (progressive ones), or of a rare sort, and
/// of other kinds of images, as [`check`].
///
/// Unlike a decoder, which makes pixels of whatever comes, it sees a JPEG that was cut and then given an end. Damage that gives
/// other codes, and as many, goes unseen.
///
/// # Errors
/// What is truncated or damaged; as [`check`], where the image is decoded.
pub fn check_entropy(bytes: &[u8], limits: &Limits) -> Result<Header, Refused> {
    // The table is not wanted, so it is as short as can be.
    match crops::scan(bytes, NonZeroU16::MAX) {
        Ok(_) => Ok(Header::of(bytes)),
        Err(why) if why.is_damage() => Err(Refused::Damaged(Kind::Jpeg, why.to_string())),
        Err(_) => check(bytes, limits),
    }
}

fn without_end(bytes: &[u8], kind: Kind) -> Refused {
    Refused::Damaged(kind, format!("truncated: its end is not within its {} bytes", bytes.len()))
}

/// Width, height and Exif orientation of an image that [`decode`] may take, told by its headers.
///
/// # Errors
/// Kinds that have no decoder here, and headers that cannot be read.
pub(crate) fn look(bytes: &[u8], header: &Header, limits: &Limits) -> Result<(u32, u32, u8), Refused> {
    match header.kind {
        Kind::Jpeg => Ok((header.width, header.height, jpeg::orientation(bytes, limits)?)),
        Kind::Npy => npy::shape(bytes).map(|shape| (shape.width, shape.height, 1)),
        Kind::Tiff => tiff::look(bytes),
        Kind::Png | Kind::Webp => {
            Ok((header.width, header.height, image_crate::orientation(bytes, header.kind, limits)?))
        }
        Kind::Gif | Kind::Bmp | Kind::Pnm => Ok((header.width, header.height, 1)),
        kind => Err(Refused::NoDecoder(kind)),
    }
}
