//! Computes the memory to decode an image from its header, before any allocation.
//!
//! Holds at all times: the result is at least the memory that decoders and encoders allocate for pixels, according to
//! their sources, and not several times as much.

use shardpack_format::image_header::{Header, Kind, Mode};

use crate::{
    Budget, Refused, Reservation,
    decode::{keeps_coefficients, tiff_need},
};

/// Tables, rows and metadata.
const BESIDE_BYTES: u64 = 64 << 10;

impl Budget {
    /// Waits for the memory to decode the image in `bytes`, and takes it.
    ///
    /// # Errors
    /// When the image needs more than the whole budget, or more than the system has.
    pub fn for_decode(&self, bytes: &[u8]) -> Result<Reservation<'_>, Refused> {
        self.for_work(decode(bytes, &Header::parse(bytes)))
    }
}

/// Bytes needed to decode `bytes` to 8-bit pixels; `None` if the headers have no size, which the decoder then reports.
pub(crate) fn decode(bytes: &[u8], header: &Header) -> Option<u64> {
    let length = bytes.len() as u64;
    match header.kind {
        Kind::Tiff => return Some(tiff_need(bytes)?.saturating_add(length).saturating_add(BESIDE_BYTES)),
        // A copy of the items.
        Kind::Npy => return Some(length),
        Kind::Unknown | Kind::Jp2 | Kind::Jxl | Kind::Avif | Kind::Heif => return Some(0),
        _ if header.width == 0 => return None,
        _ => {}
    }
    let pixels = u64::from(header.width).saturating_mul(header.height.into());
    let of_pixel = match header.kind {
        Kind::Jpeg => {
            // Decoders decode whole MCUs, of at most 32 × 32 pixels.
            let padded = |side: u32| u64::from(side).next_multiple_of(32);
            let made = padded(header.width).saturating_mul(padded(header.height));
            let inks = match header.mode {
                Mode::Gray => 1,
                Mode::Cmyk => 4,
                _ => 3,
            };
            // Two bytes a coefficient, if a channel comes in several scans, and then the pixels.
            let coefficients = if keeps_coefficients(bytes) { made.saturating_mul(2 * inks) } else { 0 };
            let of_others =
                coefficients.saturating_add(made.saturating_mul(inks.min(3))).saturating_add(2 * BESIDE_BYTES);
            // Types that shardpack-jpeg refuses are left to the others.
            let ours = shardpack_jpeg::needed_bytes(bytes).map(|needed| needed.saturating_add(3 * pixels));
            return Some(ours.map_or(of_others, |ours| ours.max(of_others)));
        }
        // As in the file, and a copy if 16 bits become 8; palettes become colours with alpha.
        Kind::Png | Kind::Pnm => {
            let channels = match header.mode {
                Mode::Gray => 2,
                Mode::GrayAlpha => 2,
                _ => 4,
            };
            if header.depth > 8 { 3 * channels } else { channels }
        }
        // A lossless image as words of four bytes, then the frame, then the canvas.
        Kind::Webp => 12,
        // A frame, and the canvas.
        Kind::Gif => 9,
        _ => 4,
    };
    Some(pixels.saturating_mul(of_pixel).saturating_add(BESIDE_BYTES))
}

/// Bytes to decode `bytes` and to encode an image of this size.
pub(crate) fn change(bytes: &[u8], header: &Header, (width, height): (u32, u32)) -> Option<u64> {
    let wide = |width: u32, height: u32| u64::from(width).saturating_mul(height.into());
    // First without alpha, or resized in width only; then resized, turned, and encoded; the WebP encoder first makes
    // words of four bytes.
    let between = wide(width, header.height).max(wide(header.width, header.height));
    let after = between.saturating_mul(4).saturating_add(wide(width, height).saturating_mul(12));
    Some(decode(bytes, header)?.saturating_add(after))
}
