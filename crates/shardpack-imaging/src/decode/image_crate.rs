//! Decodes PNG, WebP, GIF, BMP and Netpbm with the crate `image`.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, metadata::Orientation};
use shardpack_format::image_header::{Header, Kind};

use super::{png, truncation, xmp};
use crate::{Layout, Limits, Picture, Refused, error::plain, need};

/// Limit for unpacked metadata beside the pixels: colour profiles of printers have some MB.
const MAX_UNPACKED_BYTES: u64 = 16 << 20;

fn open<'a>(bytes: &'a [u8], kind: Kind, limits: &Limits) -> Result<impl ImageDecoder + 'a, Refused> {
    let format = match kind {
        Kind::Png => ImageFormat::Png,
        // The decoder allocates memory for chunks that are longer than the file.
        Kind::Webp if !truncation::webp_chunks_are_within(bytes) => {
            return Err(Refused::Damaged(kind, "truncated".to_owned()));
        }
        Kind::Webp => ImageFormat::WebP,
        Kind::Gif => ImageFormat::Gif,
        Kind::Bmp => ImageFormat::Bmp,
        Kind::Pnm => ImageFormat::Pnm,
        kind => return Err(Refused::NoDecoder(kind)),
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut allowed = image::Limits::default();
    allowed.max_alloc = Some(match kind {
        // For chunks only, which may unpack to any size; pixels are checked below.
        Kind::Png => bytes.len() as u64 * 4 + MAX_UNPACKED_BYTES,
        // Frames may be larger than the image; only the image is checked below.
        Kind::Gif => need::decode(bytes, &Header::parse(bytes)).unwrap_or(limits.bytes) + MAX_UNPACKED_BYTES,
        _ => limits.bytes,
    });
    reader.limits(allowed);
    let decoder = reader.into_decoder().map_err(|error| damaged(kind, error))?;
    let (width, height) = decoder.dimensions();
    limits.admit(width, height, decoder.color_type().bytes_per_pixel())?;
    Ok(decoder)
}

fn damaged(kind: Kind, error: ImageError) -> Refused {
    // The message already names the kind.
    let what = match &error {
        ImageError::Decoding(error) => std::error::Error::source(error).map(ToString::to_string),
        ImageError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Some("truncated".to_owned()),
        _ => None,
    };
    Refused::Damaged(kind, plain(&what.unwrap_or_else(|| error.to_string())))
}

/// Exif orientation.
pub(super) fn orientation(bytes: &[u8], kind: Kind, limits: &Limits) -> Result<u8, Refused> {
    open(bytes, kind, limits).map(|mut decoder| exif(bytes, &mut decoder).1)
}

/// Exif from its TIFF header on, and the orientation from Exif, or from XMP if Exif has none. Unreadable metadata is
/// ignored, because the pixels are still good.
fn exif(bytes: &[u8], decoder: &mut impl ImageDecoder) -> (Option<Vec<u8>>, u8) {
    let mut exif = decoder.exif_metadata().ok().flatten();
    // WebP should not have the prefix of Exif in JPEG, but some writers add it.
    if let Some(bare) = exif.as_ref().and_then(|exif| exif.strip_prefix(b"Exif\0\0")) {
        exif = Some(bare.to_vec());
    }
    exif = exif.or_else(|| png::raw_exif(bytes));
    let of_exif = exif.as_deref().and_then(Orientation::from_exif_chunk).map(Orientation::to_exif);
    let of_xmp = || decoder.xmp_metadata().ok().flatten().and_then(|xmp| xmp::orientation(&xmp));
    let orientation = of_exif.or_else(of_xmp).unwrap_or(1);
    (exif, orientation)
}

/// Decodes a whole image.
pub(super) fn decode(bytes: &[u8], kind: Kind, limits: &Limits) -> Result<Picture, Refused> {
    match kind {
        Kind::Png => png::check(bytes)?,
        Kind::Bmp => bmp_begins(bytes)?,
        _ => {}
    }
    let mut decoder = open(bytes, kind, limits)?;
    let icc = decoder.icc_profile().ok().flatten();
    let (exif, orientation) = exif(bytes, &mut decoder);
    let image = DynamicImage::from_decoder(decoder).map_err(|error| damaged(kind, error))?;
    let (width, height) = (image.width(), image.height());
    let (layout, pixels) = match image {
        DynamicImage::ImageLuma8(image) => (Layout::Gray8, image.into_raw()),
        DynamicImage::ImageLumaA8(image) => (Layout::GrayA8, image.into_raw()),
        DynamicImage::ImageRgb8(image) => (Layout::Rgb8, image.into_raw()),
        DynamicImage::ImageRgba8(image) => (Layout::Rgba8, image.into_raw()),
        DynamicImage::ImageLuma16(image) => (Layout::Gray8, to_8_bits(image.as_raw())),
        DynamicImage::ImageLumaA16(image) => (Layout::GrayA8, to_8_bits(image.as_raw())),
        DynamicImage::ImageRgb16(image) => (Layout::Rgb8, to_8_bits(image.as_raw())),
        DynamicImage::ImageRgba16(image) => (Layout::Rgba8, to_8_bits(image.as_raw())),
        // The white level of floating point pixels is undefined.
        _ => return Err(Refused::Unsupported(kind, "pixels of floating point are not decoded here".to_owned())),
    };
    let picture = Picture::new(width, height, layout, pixels);
    let picture = picture.ok_or_else(|| Refused::Damaged(kind, "no pixels".to_owned()))?;
    Ok(Picture { icc, exif, orientation, ..picture })
}

/// Refuses a BMP whose pixels overlap its header or its colours: decoders disagree about their position then.
///
/// Source: MS-WMF, 2.2.2.2 to 2.2.2.5, and BITMAPFILEHEADER.
fn bmp_begins(bytes: &[u8]) -> Result<(), Refused> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let bits = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (Some(offset), Some(header)) = (word(10), word(14)) else { return Ok(()) };
    let masks = match (header, word(30)) {
        (40, Some(3)) => 12,
        (40, Some(6)) => 16,
        _ => 0,
    };
    let bits = bits(if header == 12 { 24 } else { 28 });
    // There is at least one colour.
    let colours = if bits <= 8 { 3 } else { 0 };
    match u64::from(offset) < 14 + u64::from(header) + masks + colours {
        true => Err(Refused::Damaged(Kind::Bmp, format!("its pixels begin at byte {offset}, inside its header"))),
        false => Ok(()),
    }
}

/// Rounds to the nearest of 256 levels.
pub(super) fn to_8_bits(levels: &[u16]) -> Vec<u8> {
    // 257 is 65535 / 255, so this is at most 255.
    levels.iter().map(|&level| ((u32::from(level) + 128) / 257) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_rounded_to_the_nearest() {
        for level in 0..=u16::MAX {
            let nearest = (f64::from(level) * 255.0 / 65535.0).round() as u8;
            assert_eq!(to_8_bits(&[level]), [nearest], "{level}");
        }
    }
}
