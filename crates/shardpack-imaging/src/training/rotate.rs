//! Applies Exif orientations: maps parts of an image as seen to the image as stored, and turns pixels.

use super::shape::Rect;

/// A turn: maps a pixel as seen to column and row of the stored image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Columns and rows are exchanged, then …
    swaps: bool,
    /// … columns are counted from the right of the stored image, and …
    from_right: bool,
    /// … rows from its bottom.
    from_bottom: bool,
}

impl Turn {
    pub(super) const NONE: Self = Self { swaps: false, from_right: false, from_bottom: false };

    /// Source: CIPA DC-008, "Orientation". Numbers outside 2 to 8 do not turn.
    pub(super) fn from_exif(orientation: u8) -> Self {
        Self {
            swaps: matches!(orientation, 5..=8),
            from_right: matches!(orientation, 2 | 3 | 7 | 8),
            from_bottom: matches!(orientation, 3 | 4 | 6 | 7),
        }
    }

    /// Converts the stored size to the size as seen, and vice versa.
    pub(super) fn size(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.swaps { (height, width) } else { (width, height) }
    }

    /// The stored position of a part as seen, within an image stored with `width` and `height`.
    pub(super) fn stored(self, seen: Rect, (width, height): (u32, u32)) -> Rect {
        let Rect { left, top, .. } = seen;
        let (left, top) = if self.swaps { (top, left) } else { (left, top) };
        let (across, down) = self.size((seen.width, seen.height));
        Rect {
            left: if self.from_right { width - left - across } else { left },
            top: if self.from_bottom { height - top - down } else { top },
            width: across,
            height: down,
        }
    }

    /// The stored position of a pixel as seen.
    pub(super) fn stored_pixel(self, (x, y): (u32, u32), (width, height): (u32, u32)) -> (u32, u32) {
        let Rect { left, top, .. } = self.stored(Rect { left: x, top: y, width: 1, height: 1 }, (width, height));
        (left, top)
    }

    /// The position as seen of a stored point, in pixels; the inverse of [`Turn::stored`].
    pub(super) fn seen(self, (x, y): (f64, f64), (width, height): (u32, u32)) -> (f64, f64) {
        let x = if self.from_right { f64::from(width) - x } else { x };
        let y = if self.from_bottom { f64::from(height) - y } else { y };
        if self.swaps { (y, x) } else { (x, y) }
    }

    /// Distance from the first decoded pixel to a part as seen, across and down: in pixels of the full size, never
    /// negative. `stored` is the part, `decoded` the rectangle that was decoded for it, in pixels of `by` times `by`.
    pub(super) fn beside(self, stored: Rect, decoded: Rect, by: u32) -> (f64, f64) {
        let beside = |from_end: bool, (at, length): (u32, u32), (decoded_at, decoded_length): (u32, u32)| {
            let wide = |number: u32| i64::from(number);
            let before = wide(at) - wide(decoded_at) * wide(by);
            let behind = (wide(decoded_at) + wide(decoded_length)) * wide(by) - wide(at) - wide(length);
            // Below 2^36.
            (if from_end { behind } else { before }).max(0) as f64
        };
        let across = beside(self.from_right, (stored.left, stored.width), (decoded.left, decoded.width));
        let down = beside(self.from_bottom, (stored.top, stored.height), (decoded.top, decoded.height));
        if self.swaps { (down, across) } else { (across, down) }
    }

    /// Turns the pixels in columns `left .. left + width` of `pixels: [height, row_pixels, N] uint8` into
    /// `seen: [height, width, N]`, or with sides exchanged.
    pub(super) fn pixels<const N: usize>(
        self,
        pixels: &[u8],
        row_pixels: usize,
        (left, width, height): (usize, usize, usize),
        seen: &mut Vec<u8>,
    ) {
        let (seen_width, seen_height) = if self.swaps { (height, width) } else { (width, height) };
        let (pixels, _) = pixels.as_chunks::<N>();
        seen.clear();
        seen.reserve(width * height * N);
        for y in 0..seen_height {
            for x in 0..seen_width {
                let (column, row) = if self.swaps { (y, x) } else { (x, y) };
                let column = if self.from_right { width - 1 - column } else { column };
                let row = if self.from_bottom { height - 1 - row } else { row };
                seen.extend(pixels[row * row_pixels + left + column]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Picture};

    #[test]
    fn every_part_of_every_orientation_is_where_turning_the_whole_image_puts_it() {
        let (width, height) = (5, 3);
        let pixels: Vec<u8> = (0..15).flat_map(|at| [at, at, at, 255]).collect();
        for orientation in 1..=8 {
            let turn = Turn::from_exif(orientation);
            let whole = Picture::new(width, height, Layout::Rgba8, pixels.clone()).unwrap();
            let whole = Picture { orientation, ..whole }.upright();
            assert_eq!(turn.size((width, height)), (whole.width(), whole.height()));
            for (left, top, across, down) in [(0, 0, 1, 1), (1, 0, 2, 2), (0, 1, 3, 1), (2, 2, 1, 1), (0, 0, 3, 3)] {
                let seen = Rect { left, top, width: across, height: down };
                let stored = turn.stored(seen, (width, height));
                let rows = &pixels[(stored.top * width) as usize * 4..];
                let mut turned = Vec::new();
                let part = (stored.left as usize, stored.width as usize, stored.height as usize);
                turn.pixels::<4>(rows, width as usize, part, &mut turned);
                let mut expected: Vec<u8> = Vec::new();
                for (y, x) in (top..top + down).flat_map(|y| (left..left + across).map(move |x| (y, x))) {
                    let at = (y * whole.width() + x) as usize * 4;
                    expected.extend(&whole.pixels()[at..at + 4]);
                }
                assert_eq!(turned, expected, "{orientation} {seen:?}");
            }
        }
    }

    #[test]
    fn what_is_decoded_beside_a_part_is_told_as_it_is_seen() {
        // Of 20 columns, 5 to 14 are requested, and 4 to 15 are decoded as 3 pixels of 4 columns each; rows fit.
        let stored = Rect { left: 5, top: 4, width: 10, height: 8 };
        let decoded = Rect { left: 1, top: 1, width: 3, height: 2 };
        for (orientation, expected) in [(1, (1.0, 0.0)), (2, (1.0, 0.0)), (5, (0.0, 1.0)), (7, (0.0, 1.0))] {
            assert_eq!(Turn::from_exif(orientation).beside(stored, decoded, 4), expected, "{orientation}");
        }
        // Of 17 columns, the last ones are requested, and the decoded pixels reach beyond them.
        let stored = Rect { left: 9, top: 0, width: 8, height: 8 };
        let decoded = Rect { left: 1, top: 0, width: 2, height: 1 };
        assert_eq!(Turn::from_exif(1).beside(stored, decoded, 8), (1.0, 0.0));
        assert_eq!(Turn::from_exif(2).beside(stored, decoded, 8), (7.0, 0.0));
    }
}
