//! Does an image decode in full? Truncated and corrupt ones do not.

use std::io::Cursor;

use image::{ImageReader, Limits};
use shardpack_format::image_header::Kind;
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, options::DecoderOptions},
};

/// Memory that a decoded image may take, in bytes.
const MAX_DECODED_BYTES: u64 = 2 << 30;
const MAX_SIDE: usize = 65_535;

/// Decodes all of an image and throws the pixels away.
///
/// # Errors
/// Says in plain words what is wrong.
pub(super) fn decode(bytes: &[u8]) -> Result<(), String> {
    match Kind::of(bytes) {
        Kind::Jpeg => jpeg(bytes),
        Kind::Unknown => Err("no image by its first bytes".to_owned()),
        // No decoder here; their headers were all that could be checked.
        Kind::Jp2 | Kind::Jxl | Kind::Avif | Kind::Heif | Kind::Npy => Ok(()),
        kind => others(bytes).map_err(|error| format!("{} does not decode: {error}", kind.name().to_uppercase())),
    }
}

/// In strict mode: the tolerant one fills what is missing with grey and says nothing.
fn jpeg(bytes: &[u8]) -> Result<(), String> {
    let options = DecoderOptions::default().set_strict_mode(true).set_max_width(MAX_SIDE).set_max_height(MAX_SIDE);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode().map(drop).map_err(|error| format!("JPEG does not decode: {error:?}"))
}

fn others(bytes: &[u8]) -> Result<(), image::ImageError> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    reader.decode().map(drop)
}
