//! A decoded image: 8 bits a channel, with the metadata of its file.
//!
//! Holds at all times: width and height are at least 1, and there are exactly `width * height * channels` bytes.

/// Channels of a pixel, in this order, 8 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// Grey.
    Gray8 = 1,
    /// Grey, alpha; not premultiplied.
    GrayA8 = 2,
    /// Red, green, blue.
    Rgb8 = 3,
    /// Red, green, blue, alpha; not premultiplied.
    Rgba8 = 4,
}

impl Layout {
    /// Bytes a pixel.
    pub fn channels(self) -> usize {
        self as usize
    }

    /// Whether there is an alpha channel.
    pub fn has_alpha(self) -> bool {
        matches!(self, Layout::GrayA8 | Layout::Rgba8)
    }
}

/// A decoded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) layout: Layout,
    pub(crate) pixels: Vec<u8>,
    pub(crate) icc: Option<Vec<u8>>,
    pub(crate) exif: Option<Vec<u8>>,
    pub(crate) orientation: u8,
}

impl Picture {
    /// A picture of `pixels: [height, width, channels] uint8`, C order; `None` if the length does not match, or is 0.
    pub fn new(width: u32, height: u32, layout: Layout, pixels: Vec<u8>) -> Option<Self> {
        let bytes = u64::from(width).checked_mul(height.into())?.checked_mul(layout.channels() as u64)?;
        let fits = bytes > 0 && bytes == pixels.len() as u64;
        fits.then_some(Self { width, height, layout, pixels, icc: None, exif: None, orientation: 1 })
    }

    /// Pixels across, as stored.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Pixels down, as stored.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Channels of a pixel.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// `[height, width, channels] uint8`, C order, as stored: the orientation is not applied.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The colour profile, if there is one.
    pub fn icc(&self) -> Option<&[u8]> {
        self.icc.as_deref()
    }

    /// Exif, from the TIFF header on, if there is any.
    pub fn exif(&self) -> Option<&[u8]> {
        self.exif.as_deref()
    }

    /// Orientation for viewing: 1 to 8, as in Exif; 1 is "as stored".
    pub fn orientation(&self) -> u8 {
        self.orientation
    }

    /// Turns the pixels to orientation 1.
    pub(crate) fn upright(self) -> Self {
        let (width, height) = (self.width as usize, self.height as usize);
        let (seen_width, seen_height) = if self.orientation > 4 { (height, width) } else { (width, height) };
        let channels = self.layout.channels();
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for y in 0..seen_height {
            for x in 0..seen_width {
                let (x, y) = stored_pixel(self.orientation, (width, height), (x, y));
                let at = (y * width + x) * channels;
                pixels.extend_from_slice(&self.pixels[at..at + channels]);
            }
        }
        // The lengths came from u32.
        Self { width: seen_width as u32, height: seen_height as u32, pixels, orientation: 1, ..self }
    }

    /// Drops the alpha channel, as `convert("RGB")` of Pillow does: colours under transparency become visible.
    pub(crate) fn opaque(self) -> Self {
        let (layout, keep) = match self.layout {
            Layout::GrayA8 => (Layout::Gray8, 1),
            Layout::Rgba8 => (Layout::Rgb8, 3),
            _ => return self,
        };
        let pixels = self.pixels.chunks_exact(keep + 1).flat_map(|pixel| &pixel[..keep]).copied().collect();
        Self { layout, pixels, ..self }
    }
}

/// The stored pixel that is seen at `(x, y)`, of an image of `(width, height)` stored pixels with this Exif orientation.
///
/// Source: CIPA DC-008, "Orientation": the visual position of row 0 and column 0.
pub(crate) fn stored_pixel(orientation: u8, (width, height): (usize, usize), (x, y): (usize, usize)) -> (usize, usize) {
    let (right, bottom) = (width - 1, height - 1);
    match orientation {
        2 => (right - x, y),
        3 => (right - x, bottom - y),
        4 => (x, bottom - y),
        5 => (y, x),
        6 => (y, bottom - x),
        7 => (right - y, bottom - x),
        8 => (right - y, x),
        _ => (x, y),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_as_many_bytes_as_its_size_says() {
        for (width, height, bytes, fits) in [(2, 3, 18, true), (2, 3, 17, false), (0, 3, 0, false)] {
            assert_eq!(Picture::new(width, height, Layout::Rgb8, vec![0; bytes]).is_some(), fits, "{bytes}");
        }
        assert!(Picture::new(u32::MAX, u32::MAX, Layout::Rgba8, vec![]).is_none());
    }

    #[test]
    fn every_orientation_turns_as_exif_says() {
        // Stored:  1 2 3
        //          4 5 6
        let rows: [(u8, u32, [u8; 6]); 9] = [
            (0, 3, [1, 2, 3, 4, 5, 6]),
            (1, 3, [1, 2, 3, 4, 5, 6]),
            (2, 3, [3, 2, 1, 6, 5, 4]),
            (3, 3, [6, 5, 4, 3, 2, 1]),
            (4, 3, [4, 5, 6, 1, 2, 3]),
            (5, 2, [1, 4, 2, 5, 3, 6]),
            (6, 2, [4, 1, 5, 2, 6, 3]),
            (7, 2, [6, 3, 5, 2, 4, 1]),
            (8, 2, [3, 6, 2, 5, 1, 4]),
        ];
        for (orientation, width, expected) in rows {
            let stored = Picture::new(3, 2, Layout::Gray8, vec![1, 2, 3, 4, 5, 6]).unwrap();
            let seen = Picture { orientation, ..stored }.upright();
            assert_eq!((seen.width, seen.height, seen.orientation), (width, 6 / width, 1), "{orientation}");
            assert_eq!(seen.pixels, expected, "{orientation}");
        }
        let wide = Picture::new(2, 1, Layout::Rgb8, vec![1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(Picture { orientation: 3, ..wide }.upright().pixels, [4, 5, 6, 1, 2, 3]);
    }

    #[test]
    fn alpha_goes_and_colours_stay() {
        let picture = Picture::new(2, 1, Layout::GrayA8, vec![7, 0, 9, 255]).unwrap().opaque();
        assert_eq!((picture.layout, picture.pixels), (Layout::Gray8, vec![7, 9]));
    }
}
