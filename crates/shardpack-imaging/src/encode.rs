//! Encodes pixels as JPEG, PNG or WebP, with colour profile and Exif.
//!
//! PNG is compressed by fdeflate and WebP is lossless; neither has settings. Pixels of a JPEG are 4:2:0, as Pillow and
//! OpenCV write them.

use image::{
    ExtendedColorType, ImageEncoder,
    codecs::{
        png::{CompressionType, FilterType, PngEncoder},
        webp::WebPEncoder,
    },
};

use crate::{Encode, Layout, Picture, Refused};

/// The bytes of a file with `picture`, its Exif, and its colour profile if it matches the channels; `quality`, 1 to
/// 100, applies to JPEG only.
///
/// # Errors
/// More pixels a side than the kind supports; an alpha channel in JPEG; Exif or a profile that does not fit.
pub fn encode(picture: &Picture, encode: Encode, quality: u8) -> Result<Vec<u8>, Refused> {
    let refuse = |what: String| Refused::Unwritable(encode.kind(), what);
    let (width, height) = (picture.width, picture.height);
    let most = match encode {
        Encode::Jpeg => u16::MAX.into(),
        Encode::Png => u32::MAX >> 1,
        Encode::Webp => 1 << 14,
    };
    if width > most || height > most {
        return Err(refuse(format!("{width} × {height} pixels, it has at most {most} a side")));
    }
    let icc = picture.icc.as_deref().filter(|icc| fits(icc, picture.layout, encode));
    let mut bytes = Vec::new();
    match encode {
        Encode::Jpeg if picture.layout.has_alpha() => return Err(refuse("it has no alpha channel".to_owned())),
        Encode::Jpeg => jpeg(picture, icc, quality.clamp(1, 100), &mut bytes).map_err(refuse)?,
        Encode::Png => {
            // The only compressor whose bytes do not depend on which crates are built beside this one.
            let encoder = PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Adaptive);
            by_image(encoder, picture, icc).map_err(refuse)?;
        }
        Encode::Webp => by_image(WebPEncoder::new_lossless(&mut bytes), picture, icc).map_err(refuse)?,
    }
    Ok(bytes)
}

/// Whether a colour profile matches pixels of this layout as stored in the file: WebP has no gray. Source: ICC.1:2022,
/// 7.2.6 (data colour space).
fn fits(icc: &[u8], layout: Layout, encode: Encode) -> bool {
    let space = match layout {
        _ if encode == Encode::Webp => b"RGB ",
        Layout::Gray8 | Layout::GrayA8 => b"GRAY",
        Layout::Rgb8 | Layout::Rgba8 => b"RGB ",
    };
    icc.get(16..20) == Some(space)
}

fn by_image(mut encoder: impl ImageEncoder, picture: &Picture, icc: Option<&[u8]>) -> Result<(), String> {
    let color = match picture.layout {
        Layout::Gray8 => ExtendedColorType::L8,
        Layout::GrayA8 => ExtendedColorType::La8,
        Layout::Rgb8 => ExtendedColorType::Rgb8,
        Layout::Rgba8 => ExtendedColorType::Rgba8,
    };
    if let Some(icc) = icc {
        encoder.set_icc_profile(icc.to_vec()).map_err(|error| error.to_string())?;
    }
    if let Some(exif) = &picture.exif {
        encoder.set_exif_metadata(exif.clone()).map_err(|error| error.to_string())?;
    }
    let written = encoder.write_image(&picture.pixels, picture.width, picture.height, color);
    written.map_err(|error| error.to_string())
}

fn jpeg(picture: &Picture, icc: Option<&[u8]>, quality: u8, bytes: &mut Vec<u8>) -> Result<(), String> {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
    // Its feature `simd` is off: measured, the DCT for AVX2 rounds differently, so bytes would depend on the CPU.
    let mut encoder = Encoder::new(bytes, quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    let color = if picture.layout == Layout::Gray8 { ColorType::Luma } else { ColorType::Rgb };
    let said = picture.exif.as_deref().map_or(Ok(()), |exif| encoder.add_exif_metadata(exif));
    let said = said.and_then(|()| icc.map_or(Ok(()), |icc| encoder.add_icc_profile(icc)));
    // The sides were checked.
    let written =
        said.and_then(|()| encoder.encode(&picture.pixels, picture.width as u16, picture.height as u16, color));
    written.map_err(|error| error.to_string())
}
