//! Decodes a part of an image to pixels, with a crop table or without.
//!
//! Holds at all times: if one method cannot decode the part, the next one does; the last one decodes the whole image.

use shardpack_format::image_header::Kind;

use super::{Rect, Region, RegionRequest, Way};
use crate::{Layout, Limits, Picture, Refused, decode, jpeg};

/// Decodes parts of images one after the other, and reuses its memory. Use one decoder per thread.
pub struct Decoder {
    limits: Limits,
    jpeg: shardpack_jpeg::Decoder,
    #[cfg(feature = "turbo")]
    turbo: crate::turbo::Parts,
}

impl Decoder {
    /// A decoder with limits on image size.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            jpeg: jpeg::decoder(),
            #[cfg(feature = "turbo")]
            turbo: crate::turbo::Parts::new(),
        }
    }

    /// Writes the pixels of a part of an image of any kind that [`decode`] accepts into `pixels`, and sets its length.
    /// The buffer may hold columns beside the part: [`Region`] has their layout. Grey becomes RGB, alpha is dropped,
    /// CMYK and YCCK become RGB as in [`decode`].
    ///
    /// A table, as made by [`scan`](super::scan), is used if it fits these bytes, else ignored. JPEGs with several scans are
    /// decoded by libjpeg-turbo with the feature `turbo`; else they are decoded whole, and never reduced.
    ///
    /// # Errors
    /// Images that [`decode`] refuses, except damaged JPEGs that libjpeg-turbo decodes in part
    /// ([`Region::has_warned`]); a rectangle that is not within the image; a `reduce_by` other than 1, 2, 4 and 8.
    pub fn region(
        &mut self,
        image: &[u8],
        table: Option<&[u8]>,
        wanted: &RegionRequest,
        pixels: &mut Vec<u8>,
    ) -> Result<Region, Refused> {
        if !matches!(wanted.reduce_by, 1 | 2 | 4 | 8) {
            return Err(Refused::NoSuchPart);
        }
        let is_jpeg = Kind::detect(image) == Kind::Jpeg;
        if is_jpeg && let Ok(region) = self.jpeg.region(image, table, wanted, self.limits.pixels, pixels) {
            return Ok(region);
        }
        #[cfg(feature = "turbo")]
        if is_jpeg && let Some(region) = self.by_turbo(image, wanted, pixels) {
            return Ok(region);
        }
        let picture = decode(image, &self.limits)?;
        if !wanted.rect.is_within(picture.width(), picture.height()) {
            return Err(Refused::NoSuchPart);
        }
        Ok(cut(&picture, wanted, pixels))
    }

    /// Decodes a part of a JPEG without a table.
    #[cfg(feature = "turbo")]
    fn by_turbo(&mut self, jpeg: &[u8], wanted: &RegionRequest, pixels: &mut Vec<u8>) -> Option<Region> {
        let (by, rect) = (wanted.reduce_by, wanted.rect);
        let mut found = None;
        let part = |width: u32, height: u32| {
            let inner = rect.is_within(width, height).then(|| rect.reduced(by, (width, height)))?;
            found = Some(inner);
            // As many neighbours as any sampling needs.
            let outer = grown(&inner, (2, 0), (width.div_ceil(by), height.div_ceil(by)));
            Some(crate::turbo::ReducedRect { x: outer.x, y: outer.y, width: outer.width, height: outer.height })
        };
        let made = self.turbo.decode(jpeg, by, wanted.padded, self.limits.pixels, part, pixels)?;
        let inner = found?;
        let way = if made.is_part { Way::Stock } else { Way::Whole };
        Some(lay(inner, (inner.x - made.part.x, inner.y - made.part.y), made, wanted, way, pixels))
    }
}

/// A part with a margin on each side, cut at the edges of the image.
#[cfg(feature = "turbo")]
fn grown(part: &Rect, (across, down): (u32, u32), (width, height): (u32, u32)) -> Rect {
    let (x, y) = (part.x.saturating_sub(across), part.y.saturating_sub(down));
    let (right, bottom) = ((part.x + part.width + across).min(width), (part.y + part.height + down).min(height));
    Rect { x, y, width: right - x, height: bottom - y }
}

/// The region of `inner` in the output of libjpeg-turbo, `left` and `top` away from its first pixel; removes extra
/// rows.
#[cfg(feature = "turbo")]
fn lay(
    inner: Rect,
    (left, top): (u32, u32),
    made: crate::turbo::DecodedCrop,
    wanted: &RegionRequest,
    way: Way,
    pixels: &mut Vec<u8>,
) -> Region {
    let row_bytes = made.part.width as usize * wanted.channels();
    pixels.truncate((top as usize + inner.height as usize) * row_bytes);
    pixels.drain(..(top as usize * row_bytes).min(pixels.len()));
    let Rect { x, y, width, height } = inner;
    let (row_pixels, has_warned) = (made.part.width, made.has_warned);
    Region { row_pixels, left, width, height, x, y, reduced_by: made.by, way, has_warned }
}

/// Copies the part out of a decoded picture.
fn cut(picture: &Picture, wanted: &RegionRequest, pixels: &mut Vec<u8>) -> Region {
    let Rect { x, y, width, height } = wanted.rect;
    let (channels, from) = (picture.layout().channels(), x as usize * picture.layout().channels());
    let columns = from..from + width as usize * channels;
    pixels.clear();
    pixels.reserve(width as usize * height as usize * wanted.channels());
    let rows = picture.pixels().chunks_exact(picture.width() as usize * channels);
    for row in rows.skip(y as usize).take(height as usize) {
        let row = &row[columns.clone()];
        match (picture.layout(), wanted.padded) {
            (Layout::Rgb8, false) => pixels.extend_from_slice(row),
            (Layout::Rgb8 | Layout::Rgba8, _) => {
                for pixel in row.chunks_exact(channels) {
                    pixels.extend_from_slice(&[pixel[0], pixel[1], pixel[2], 255][..wanted.channels()]);
                }
            }
            (Layout::Gray8 | Layout::GrayA8, _) => {
                for pixel in row.chunks_exact(channels) {
                    pixels.extend_from_slice(&[pixel[0], pixel[0], pixel[0], 255][..wanted.channels()]);
                }
            }
        }
    }
    Region { row_pixels: width, left: 0, width, height, x, y, reduced_by: 1, way: Way::Whole, has_warned: false }
}
