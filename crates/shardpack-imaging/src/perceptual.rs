//! Computes a hash that is nearly equal for pictures that look alike, for reports of near duplicates.

use fast_image_resize::{FilterType, Resizer};

use crate::{Layout, Limits, Picture, Refused, decode, resize};

/// The [`perceptual_hash`] of an image file.
///
/// # Errors
/// Images that [`decode`] refuses.
pub fn image_hash(bytes: &[u8], limits: &Limits) -> Result<u64, Refused> {
    decode(bytes, limits).map(perceptual_hash)
}

/// The difference hash: the picture is turned upright, converted to grey and reduced to 9 × 8; each bit is set if a
/// pixel is darker than its right neighbour; the first bit is the top left one.
///
/// It is the same on every machine. Size, aspect and compression hardly matter: at most a few of the 64 bits differ. A mirrored or cropped picture has another hash; a picture of one colour has 0. Source: N. Krawetz,
/// "Kind of Like That" (dHash).
pub fn perceptual_hash(mut picture: Picture) -> u64 {
    let (width, height) = if picture.orientation > 4 { (8, 9) } else { (9, 8) };
    let pixels = resize::pixels(&mut Resizer::new(), &mut picture, width, height, FilterType::Bilinear);
    let small = Picture::new(width, height, picture.layout, pixels).map(|small| {
        let small = Picture { orientation: picture.orientation, ..small };
        small.upright().opaque()
    });
    let Some(small) = small else { return 0 };
    let grey: Vec<u32> = match small.layout {
        // The weights of ITU-R BT.601, in thousandths.
        Layout::Rgb8 => small.pixels.chunks_exact(3).map(luma).collect(),
        _ => small.pixels.iter().map(|&level| 1000 * u32::from(level)).collect(),
    };
    let pairs = grey.chunks_exact(9).flat_map(|row| row.windows(2));
    pairs.fold(0, |hash, pair| hash << 1 | u64::from(pair[0] < pair[1]))
}

fn luma(pixel: &[u8]) -> u32 {
    pixel.iter().zip([299, 587, 114]).map(|(&level, weight)| weight * u32::from(level)).sum()
}
