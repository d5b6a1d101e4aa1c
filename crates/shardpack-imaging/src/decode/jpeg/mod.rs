//! Decodes whole JPEGs: with shardpack-jpeg those in one scan, and the others, and those that it finds damaged, with zune-jpeg in
//! strict mode, because its tolerant mode fills missing data with grey and reports no error.
//!
//! jpeg-decoder decodes the JPEGs for which zune-jpeg and libjpeg-turbo disagree; a JPEG that neither supports is
//! refused with a reason.

mod frame;

use std::borrow::Cow;

use image::metadata::Orientation;
use shardpack_format::{image_header::Kind, threads};
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

/// Whether a decoder has to keep all coefficients, or all channels, before it makes pixels.
pub(crate) fn keeps_coefficients(bytes: &[u8]) -> bool {
    Frame::parse(bytes).is_ok_and(|frame| frame.is_none_or(|frame| frame.comes_in_several_scans()))
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
    let bytes = tidy(bytes);
    let frame = Frame::parse(&bytes)?;
    let (mut decoder, layout) = open(&bytes, limits)?;
    if frame.is_some_and(|frame| frame.needs_another_decoder()) {
        return picture(&decoder, by_another(&bytes, layout, limits)?, layout);
    }
    let (width, height) = decoder.dimensions().unwrap_or_default();
    let size = (width as u32, height as u32);
    if let Some(pixels) = jpeg::whole(&bytes, size, 1, layout, limits) {
        return picture(&decoder, pixels, layout);
    }
    let pixels = decoder.decode().map_err(by_zune)?;
    picture(&decoder, (size.0, size.1, pixels), layout)
}

/// Decodes a whole JPEG to half, a quarter or an eighth of its size, if that is `at_least` as large and a faster
/// decoder is available; `None` if there is none, or it reports any error or warning.
pub(super) fn decode_reduced(bytes: &[u8], at_least: (u32, u32), limits: &Limits) -> Option<Picture> {
    let bytes = tidy(bytes);
    let (decoder, layout) = open(&bytes, limits).ok()?;
    let (width, height) = decoder.dimensions()?;
    let size = (width as u32, height as u32);
    let is_enough = |by: &u32| size.0.div_ceil(*by) >= at_least.0 && size.1.div_ceil(*by) >= at_least.1;
    let by = [8, 4, 2].into_iter().find(is_enough).unwrap_or(1);
    let pixels = jpeg::whole(&bytes, size, by, layout, limits).or_else(|| reduced(&bytes, layout, at_least, limits))?;
    picture(&decoder, pixels, layout).ok()
}

/// All pixels, with the crate jpeg-decoder.
fn by_another(bytes: &[u8], layout: Layout, limits: &Limits) -> Result<(u32, u32, Vec<u8>), Refused> {
    let by_decoder = |error: jpeg_decoder::Error| match error {
        jpeg_decoder::Error::Io(error) => {
            of_threads(&error);
            damaged("truncated")
        }
        error => damaged(plain(&error.to_string())),
    };
    let mut decoder = jpeg_decoder::Decoder::new(bytes);
    decoder.set_max_decoding_buffer_size(usize::try_from(limits.bytes).unwrap_or(usize::MAX));
    let pixels = decoder.decode().map_err(by_decoder)?;
    let info = decoder.info().ok_or_else(|| damaged("no size"))?;
    match (info.pixel_format, layout) {
        (jpeg_decoder::PixelFormat::L8, Layout::Gray8) | (jpeg_decoder::PixelFormat::RGB24, Layout::Rgb8) => {
            Ok((info.width.into(), info.height.into(), pixels))
        }
        _ => {
            let what = "four inks in separate scans are not decoded here";
            Err(Refused::Unsupported(Kind::Jpeg, what.to_owned()))
        }
    }
}

/// jpeg-decoder starts its own threads: bytes in memory can only end early, so any other system error is from a
/// thread.
fn of_threads(error: &std::io::Error) {
    if error.kind() != std::io::ErrorKind::UnexpectedEof && error.raw_os_error().is_some() {
        threads::refused();
    }
}

/// With libjpeg-turbo, which is faster at any size.
#[cfg(feature = "turbo")]
fn reduced(bytes: &[u8], layout: Layout, at_least: (u32, u32), limits: &Limits) -> Option<(u32, u32, Vec<u8>)> {
    crate::turbo::Decoder::new()?.decode(bytes, layout.channels(), at_least, limits.pixels)
}

/// With the crate jpeg-decoder, for a quarter and less. Measured: photographs of 12 million pixels at a quarter or an
/// eighth take less than half of zune-jpeg's time, at half 0.93 times its time; at full size jpeg-decoder is slower.
#[cfg(not(feature = "turbo"))]
fn reduced(bytes: &[u8], layout: Layout, at_least: (u32, u32), limits: &Limits) -> Option<(u32, u32, Vec<u8>)> {
    let side = |side: u32| u16::try_from(side).ok();
    let mut decoder = jpeg_decoder::Decoder::new(bytes);
    decoder.set_max_decoding_buffer_size(usize::try_from(limits.bytes).ok()?);
    decoder.read_info().ok()?;
    let whole = decoder.info()?;
    let (width, height) = decoder.scale(side(at_least.0)?, side(at_least.1)?).ok()?;
    let format = match layout {
        Layout::Gray8 => jpeg_decoder::PixelFormat::L8,
        _ => jpeg_decoder::PixelFormat::RGB24,
    };
    if whole.pixel_format != format || width > whole.width.div_ceil(4) || height > whole.height.div_ceil(4) {
        return None;
    }
    match decoder.decode() {
        Ok(pixels) => Some((width.into(), height.into(), pixels)),
        Err(jpeg_decoder::Error::Io(error)) => {
            of_threads(&error);
            None
        }
        Err(_) => None,
    }
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
