//! The requested part of an image, and the decoded part.

/// A part of an image as its file stores it: an Exif orientation is not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// Its first column, from 0.
    pub x: u32,
    /// Its first row, from 0.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Rect {
    /// Whether it is not empty and lies within an image of this size.
    pub fn is_within(&self, width: u32, height: u32) -> bool {
        let fits = |at: u32, length: u32, all: u32| length > 0 && at < all && length <= all - at;
        fits(self.x, self.width, width) && fits(self.y, self.height, height)
    }

    /// The rectangle with a margin on each side, cut at the edges of an image of this size.
    pub(crate) fn grown(&self, (across, down): (u32, u32), (width, height): (u32, u32)) -> Self {
        let (x, y) = (self.x.saturating_sub(across), self.y.saturating_sub(down));
        let (right, bottom) = ((self.x + self.width + across).min(width), (self.y + self.height + down).min(height));
        Self { x, y, width: right - x, height: bottom - y }
    }

    /// The reduced pixels that overlap the rectangle when every `by` times `by` pixels of an image of this size become
    /// one; `by` is at least 1.
    pub fn reduced(&self, by: u32, (width, height): (u32, u32)) -> Self {
        let (x, y) = (self.x / by, self.y / by);
        let (right, bottom) =
            (self.x.saturating_add(self.width).min(width), self.y.saturating_add(self.height).min(height));
        Self { x, y, width: right.div_ceil(by).saturating_sub(x), height: bottom.div_ceil(by).saturating_sub(y) }
    }
}

/// Request to [`Decoder::region`](super::Decoder::region).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRequest {
    /// The part.
    pub rect: Rect,
    /// 1, 2, 4 or 8: how many pixels in each direction may become one, which is faster for JPEGs than decoding all
    /// pixels. Depends on the decoder; [`Region::reduced_by`] has the actual factor.
    pub reduce_by: u32,
    /// Four bytes a pixel instead of three, with the last byte ignored: resizing is faster.
    pub padded: bool,
}

impl RegionRequest {
    /// Bytes of a pixel.
    pub fn channels(&self) -> usize {
        if self.padded { 4 } else { 3 }
    }
}

/// Method of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// With a table: only the codes of the crop's rows and of the MCUs next to them.
    Table,
    /// All codes down to the crop's last row, and only the pixels of the crop: no table.
    Stock,
    /// The whole image.
    Whole,
}

/// What a buffer of `[height, width, channels] uint8` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Columns of the part, reduced: every pixel that overlaps the requested rectangle.
    pub width: u32,
    /// Rows of the part, reduced.
    pub height: u32,
    /// The first column of the part in the whole image, reduced: `rect.x / reduced_by`, rounded down.
    pub x: u32,
    /// The first row of the part in the whole image, reduced: `rect.y / reduced_by`, rounded down.
    pub y: u32,
    /// 1, 2, 4 or 8: pixels of the image in one pixel of the buffer, across and down.
    pub reduced_by: u32,
    /// Method of decoding.
    pub way: Way,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_within_an_image_or_not() {
        let rows = [
            ("all", (0, 0, 5, 4), true),
            ("the last pixel", (4, 3, 1, 1), true),
            ("nothing across", (0, 0, 0, 1), false),
            ("nothing down", (0, 0, 1, 0), false),
            ("too wide", (1, 0, 5, 1), false),
            ("too high", (0, 1, 1, 4), false),
            ("behind it", (5, 0, 1, 1), false),
            ("no sum of 32 bits", (1, 1, u32::MAX, u32::MAX), false),
        ];
        for (name, (x, y, width, height), expected) in rows {
            assert_eq!(Rect { x, y, width, height }.is_within(5, 4), expected, "{name}");
        }
    }

    #[test]
    fn a_reduced_part_has_every_pixel_of_the_part() {
        for (x, width, by, expected) in [(0, 8, 8, (0, 1)), (7, 2, 8, (0, 2)), (16, 1, 8, (2, 1)), (3, 14, 4, (0, 5))] {
            let part = Rect { x, y: 0, width, height: 1 }.reduced(by, (17, 1));
            assert_eq!((part.x, part.width, part.height), (expected.0, expected.1, 1), "{x} {width} {by}");
        }
    }
}
