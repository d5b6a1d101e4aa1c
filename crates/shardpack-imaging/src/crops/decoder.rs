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
}

impl Decoder {
    /// A decoder with limits on image size.
    pub fn new(limits: Limits) -> Self {
        Self { limits, jpeg: jpeg::decoder() }
    }

    /// Writes the pixels of a part of an image of any kind that [`decode`] accepts into `pixels`, and sets its length:
    /// `[height, width, 3 or 4] uint8`. Grey becomes RGB, alpha is dropped, CMYK and YCCK become RGB as in [`decode`].
    ///
    /// A table, as made by [`scan`](super::scan), is used if it fits these bytes, else ignored.
    ///
    /// # Errors
    /// Images that [`decode`] refuses; a rectangle that is not within the image; a `reduce_by` other than 1, 2, 4 and 8.
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
        if Kind::detect(image) == Kind::Jpeg
            && let Ok(region) = self.jpeg.region(image, table, wanted, self.limits.pixels, pixels)
        {
            return Ok(region);
        }
        let picture = decode(image, &self.limits)?;
        if !wanted.rect.is_within(picture.width(), picture.height()) {
            return Err(Refused::NoSuchPart);
        }
        Ok(cut(&picture, wanted, pixels))
    }
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
    Region { width, height, x, y, reduced_by: 1, way: Way::Whole }
}
