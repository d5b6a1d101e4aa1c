//! Decodes whole JPEGs with shardpack-jpeg. Files that it refuses for their type are decoded by zune-jpeg, in strict mode: its tolerant
//! mode fills missing data with grey and reports no error.
//!
//! Codes that shardpack-jpeg finds damaged are refused: zune-jpeg accepts missing codes if an end marker follows. JPEGs that zune-jpeg
//! decodes wrongly, and that shardpack-jpeg refuses, are refused with a reason.

mod frame;

use std::{borrow::Cow, num::NonZeroU16};

use image::metadata::Orientation;
use shardpack_format::image_header::Kind;
use shardpack_jpeg::{Damage, NoTable};
use zune_jpeg::{
    JpegDecoder,
    errors::DecodeErrors,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

use frame::Frame;

use super::xmp;
use crate::{Layout, Limits, Picture, Refused, error::plain, jpeg};

const MAX_SIDE: usize = 65_535;

fn damaged(what: impl ToString) -> Refused {
    Refused::Damaged(Kind::Jpeg, what.to_string())
}

/// The error of zune-jpeg, without words for programmers.
fn by_zune(error: DecodeErrors) -> Refused {
    damaged(match error {
        DecodeErrors::ExhaustedData | DecodeErrors::IoErrors(_) => "truncated".to_owned(),
        DecodeErrors::FormatStatic("Premature end of buffer") => "truncated".to_owned(),
        DecodeErrors::FormatStatic(what) => plain(what),
        DecodeErrors::Format(what)
        | DecodeErrors::HuffmanDecode(what)
        | DecodeErrors::DqtError(what)
        | DecodeErrors::SosError(what)
        | DecodeErrors::SofError(what)
        | DecodeErrors::MCUError(what) => plain(&what),
        _ => "its headers contradict themselves".to_owned(),
    })
}

fn options() -> DecoderOptions {
    DecoderOptions::default().set_strict_mode(true).set_max_width(MAX_SIDE).set_max_height(MAX_SIDE)
}

/// A decoder that has read the headers, and the layout of its output.
fn open<'a>(bytes: &'a [u8], limits: &Limits) -> Result<(JpegDecoder<ZCursor<&'a [u8]>>, Layout), Refused> {
    let options = options();
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(by_zune)?;
    let (width, height) = decoder.dimensions().ok_or_else(|| damaged("no size"))?;
    // At most MAX_SIDE. A progressive image keeps two bytes a channel until its last scan.
    limits.admit(width as u32, height as u32, 3)?;
    let (space, layout) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (ColorSpace::Luma, Layout::Gray8),
        _ => (ColorSpace::RGB, Layout::Rgb8),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    Ok((decoder, layout))
}

/// Whether zune-jpeg has to keep all coefficients before it makes pixels.
pub(crate) fn keeps_coefficients(bytes: &[u8]) -> bool {
    Frame::parse(bytes).is_ok_and(|frame| frame.is_none_or(|frame| frame.is_progressive()))
}

/// Exif orientation.
pub(super) fn orientation(bytes: &[u8], limits: &Limits) -> Result<u8, Refused> {
    let bytes = tidy(bytes);
    Frame::parse(&bytes)?;
    let (decoder, _) = open(&bytes, limits)?;
    Ok(orientation_of(&decoder))
}

fn orientation_of(decoder: &JpegDecoder<ZCursor<&[u8]>>) -> u8 {
    let of_exif = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif)).map(Orientation::to_exif);
    of_exif.or_else(|| xmp::orientation(decoder.xmp()?)).unwrap_or(1)
}

/// Decodes a whole JPEG.
pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    let (whole, bytes) = (bytes, tidy(bytes));
    let frame = Frame::parse(&bytes)?;
    let (mut decoder, layout) = open(&bytes, limits)?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    let size = (width as u32, height as u32);
    let pixels = match jpeg::whole(&bytes, size, 1, layout, limits) {
        Ok(pixels) => pixels,
        Err(why) if frame.is_some_and(|frame| frame.needs_shardpack_jpeg()) => return Err(refused(why)),
        Err(why) => match damage_of_codes(&bytes, why) {
            // Strays lie before the codes.
            Some((at, what)) => {
                let at = at + (whole.len() - bytes.len()) as u64;
                return Err(damaged(NoTable::Damaged { at, what }));
            }
            None => (size.0, size.1, decoder.decode().map_err(by_zune)?),
        },
    };
    picture(&decoder, pixels, layout)
}

/// Position and type of the damage for which shardpack-jpeg refused a JPEG with `why`; `None` if its codes are whole, or were not read:
/// zune-jpeg knows Huffman tables that some files leave out.
fn damage_of_codes(bytes: &[u8], why: NoTable) -> Option<(u64, Damage)> {
    // The decoder reports no position within a single scan.
    let why = match shardpack_jpeg::scan(bytes, NonZeroU16::MAX) {
        Err(NoTable::Progressive | NoTable::SeveralScans) => why,
        scanned => scanned.err()?,
    };
    match why {
        NoTable::Damaged { what: Damage::Header | Damage::HuffmanTable, .. } => None,
        NoTable::Damaged { at, what } => Some((at, what)),
        _ => None,
    }
}

/// The reason why shardpack-jpeg refuses a JPEG that no other decoder can decode.
fn refused(why: NoTable) -> Refused {
    if why.is_damage() { damaged(why) } else { Refused::Unsupported(Kind::Jpeg, format!("{why}: not decoded here")) }
}

/// Decodes a whole JPEG to half, a quarter or an eighth of its size, if that is `at_least` as large; `None` for a JPEG that
/// shardpack-jpeg refuses.
pub(super) fn decode_reduced(bytes: &[u8], at_least: (u32, u32), limits: &Limits) -> Option<Picture> {
    let bytes = tidy(bytes);
    let (decoder, layout) = open(&bytes, limits).ok()?;
    let (width, height) = decoder.dimensions()?;
    let size = (width as u32, height as u32);
    let is_enough = |by: &u32| size.0.div_ceil(*by) >= at_least.0 && size.1.div_ceil(*by) >= at_least.1;
    let by = [8, 4, 2].into_iter().find(is_enough).unwrap_or(1);
    let pixels = jpeg::whole(&bytes, size, by, layout, limits).ok()?;
    picture(&decoder, pixels, layout).ok()
}

/// Pixels with the metadata from the headers.
fn picture(
    decoder: &JpegDecoder<ZCursor<&[u8]>>,
    (width, height, pixels): (u32, u32, Vec<u8>),
    layout: Layout,
) -> Result<Picture, Refused> {
    let picture = Picture::new(width, height, layout, pixels);
    let mut picture = picture.ok_or_else(|| damaged("fewer pixels than in its header"))?;
    picture.icc = decoder.icc_profile();
    picture.exif = decoder.exif().cloned();
    picture.orientation = orientation_of(decoder);
    Ok(picture)
}

/// Removes bytes that some writers leave between the segments before the pixels: every decoder skips them, but strict
/// mode treats them as damage.
fn tidy(bytes: &[u8]) -> Cow<'_, [u8]> {
    match segments_apart(bytes) {
        Some(parts) => Cow::Owned(parts.concat()),
        None => Cow::Borrowed(bytes),
    }
}

/// Segments up to the first scan, then the rest; `None` if there are no bytes between them, or they cannot be parsed.
fn segments_apart(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = vec![bytes.get(..2)?];
    let (mut at, mut strays) = (2, 0);
    loop {
        let marker =
            at + bytes.get(at..)?.windows(2).position(|pair| pair[0] == 0xFF && !matches!(pair[1], 0 | 0xFF))?;
        strays += marker - at;
        match bytes[marker + 1] {
            0xDA | 0xD9 => {
                parts.push(&bytes[marker..]);
                return (strays > 0).then_some(parts);
            }
            0x01 | 0xD0..=0xD8 => {
                strays += 2;
                at = marker + 2;
            }
            _ => {
                at = marker + 2 + usize::from(u16::from_be_bytes(*bytes.get(marker + 2..)?.first_chunk()?));
                parts.push(bytes.get(marker..at)?);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pixels_do_not_depend_on_the_cpu() {
        let photos = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/photos");
        // 4:2:0, progressive, grey, CMYK; and one 4:4:4 and a 4:2:2, written here.
        let mut files: Vec<_> =
            ["animals/cat.jpg", "space/deep-field.jpg", "people/photographer.jpg", "things/cup.jpg"]
                .map(|name| std::fs::read(photos.join(name)).unwrap())
                .to_vec();
        let noise: Vec<u8> = (0..90 * 77 * 3_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for sampling in [jpeg_encoder::SamplingFactor::F_1_1, jpeg_encoder::SamplingFactor::F_2_1] {
            let mut bytes = Vec::new();
            let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 95);
            encoder.set_sampling_factor(sampling);
            encoder.encode(&noise, 90, 77, jpeg_encoder::ColorType::Rgb).unwrap();
            files.push(bytes);
        }
        for (number, bytes) in files.iter().enumerate() {
            let decode = |options| JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode().unwrap();
            assert!(decode(options()) == decode(options().set_use_unsafe(false)), "file {number}");
        }
    }
}
