//! The decoder of [`shardpack_jpeg`] for whole images, with the instructions that the environment names.

use shardpack_jpeg::{Decoder, Level, NoTable, Rect, RegionRequest};

use crate::{Layout, Limits};

/// A decoder.
pub(crate) fn decoder() -> Decoder {
    // Programs refuse an unknown name when they start. The pixels are the same.
    Decoder::new(Level::from_environment().unwrap_or(Level::SCALAR))
}

/// Width, height and pixels in `layout`, grey or RGB, of a JPEG of this size, each of `by` × `by` pixels.
///
/// # Errors
/// Types that the decoder does not know, and damage.
pub(crate) fn whole(
    jpeg: &[u8],
    (width, height): (u32, u32),
    by: u32,
    layout: Layout,
    limits: &Limits,
) -> Result<(u32, u32, Vec<u8>), NoTable> {
    let rect = Rect { x: 0, y: 0, width, height };
    let wanted = RegionRequest { rect, reduce_by: by, padded: false };
    let mut pixels = Vec::new();
    let region = decoder().region(jpeg, None, &wanted, limits.pixels, &mut pixels)?;
    if layout == Layout::Gray8 {
        let grey = pixels.as_chunks::<3>().0.iter().map(|pixel| pixel[0]).collect();
        pixels = grey;
    }
    Ok((region.width, region.height, pixels))
}
