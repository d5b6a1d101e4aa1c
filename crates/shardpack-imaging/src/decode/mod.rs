//! Decodes whole image files to pixels: a truncated file is refused, even if a decoder would accept it.

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

use crate::{Limits, Picture, Refused, catch_panic::contained, crops};

/// Decodes a whole image, or the first frame of an animation.
///
/// 16 bits are rounded to 8; CMYK and YCCK become RGB (inverted, as Adobe writes them and Pillow reads them); palettes
/// become RGB, or RGBA if they have transparency. Arrays are of `uint8`: `[H, W]`, `[H, W, C]`, or, if the first axis
/// is 1, 3 or 4 and the last is not, `[C, H, W]`.
///
/// # Errors
/// Kinds without a decoder here, images above `limits`, and all truncated or damaged files.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    contained(bytes, || whole(bytes, limits))
}

fn whole(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    let kind = Kind::detect(bytes);
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

/// As [`decode`], for a picture that will be resized to `size`: a JPEG may be decoded with fewer pixels, but on each
/// side at least twice `size`. The decoder's reduction averages squares; the good filter after it hides the
/// difference, as with Pillow's `reducing_gap=2`.
pub(crate) fn decode_for(bytes: &[u8], size: Option<(u32, u32)>, limits: &Limits) -> Result<Picture, Refused> {
    let (width, height) = size.unwrap_or((u32::MAX, u32::MAX));
    let at_least = (width.saturating_mul(2), height.saturating_mul(2));
    let is_jpeg = Kind::detect(bytes) == Kind::Jpeg && truncation::is_whole(bytes, Kind::Jpeg);
    let reduced = if is_jpeg { jpeg::decode_reduced(bytes, at_least, limits) } else { None };
    reduced.map_or_else(|| whole(bytes, limits), Ok)
}

/// Decodes a whole image and drops the pixels; for arrays of any type only the length is checked.
///
/// Damage that decodes to other pixels goes undetected. A truncated JPEG with an end marker appended is damaged, though most
/// decoders accept it.
///
/// # Errors
/// As [`decode`].
pub fn check(bytes: &[u8], limits: &Limits) -> Result<Header, Refused> {
    match Kind::detect(bytes) {
        Kind::Npy => npy::check(bytes)?,
        _ => drop(decode(bytes, limits)?),
    }
    Ok(Header::parse(bytes))
}

/// Reads all Huffman codes of a JPEG, without pixels. For JPEGs with several scans (progressive) or of a rare type,
/// and for other kinds of images, as [`check`].
///
/// Damage that yields other codes in the same number goes undetected.
///
/// # Errors
/// Truncated or damaged files; as [`check`] if the image is decoded.
pub fn check_entropy(bytes: &[u8], limits: &Limits) -> Result<Header, Refused> {
    // The table is not used, so it is as short as possible.
    match crops::scan(bytes, NonZeroU16::MAX) {
        Ok(_) => Ok(Header::parse(bytes)),
        Err(why) if why.is_damage() => Err(Refused::Damaged(Kind::Jpeg, why.to_string())),
        Err(_) => check(bytes, limits),
    }
}

/// Refuses a PNG with a damaged chunk, or without its end.
pub(crate) fn check_png(bytes: &[u8]) -> Result<(), Refused> {
    png::check(bytes)?;
    if truncation::is_whole(bytes, Kind::Png) { Ok(()) } else { Err(without_end(bytes, Kind::Png)) }
}

fn without_end(bytes: &[u8], kind: Kind) -> Refused {
    Refused::Damaged(kind, format!("truncated: its end is not within its {} bytes", bytes.len()))
}

/// Exif orientation of an image, 1 to 8, from its headers; 1 if it has none.
///
/// # Errors
/// Kinds without a decoder here, and headers that cannot be parsed.
pub fn orientation(bytes: &[u8], limits: &Limits) -> Result<u8, Refused> {
    look(bytes, &Header::parse(bytes), limits).map(|(_, _, orientation)| orientation)
}

/// Width, height and Exif orientation of an image that [`decode`] may accept, from its headers.
///
/// # Errors
/// Kinds without a decoder here, and headers that cannot be parsed.
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
