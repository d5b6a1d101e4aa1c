//! Moves positions and levels beside an image as a recipe moves its pixels: points, edges of boxes, masks.
//!
//! Holds at all times: turning comes before resizing; a level is copied and never mixed, so a mask has no new levels.

use shardpack_format::image_header::Header;

use crate::{
    Limits, Recipe, Refused, catch_panic::contained, look, nearest::nearest, picture::stored_pixel, recipe::stored_size,
};

/// How a recipe moves the pixels of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Movement {
    /// Width and height as stored, before.
    from: (u32, u32),
    /// The Exif orientation that is applied; 1 applies none.
    orientation: u8,
    /// Width and height as stored, after.
    to: (u32, u32),
}

impl Movement {
    /// The movement of the pixels of the image in `bytes` by `recipe`.
    ///
    /// # Errors
    /// As [`crate::apply`], for images whose headers have no size, and kinds without a decoder here.
    pub fn of(bytes: &[u8], recipe: &Recipe, limits: &Limits) -> Result<Self, Refused> {
        contained(bytes, || {
            let header = Header::parse(bytes);
            let (width, height, orientation) = look(bytes, &header, limits)?;
            if width == 0 || height == 0 {
                return Err(Refused::Damaged(header.kind, "its headers have no size".to_owned()));
            }
            let orientation = if recipe.rotate { orientation } else { 1 };
            let is_swapped = orientation > 4;
            let (from, swap) =
                ((width, height), |(width, height)| if is_swapped { (height, width) } else { (width, height) });
            Ok(Self { from, orientation, to: swap(stored_size(recipe, from, is_swapped).unwrap_or(from)) })
        })
    }

    /// Width and height of the image in pixels as stored, before.
    pub fn from(&self) -> (u32, u32) {
        self.from
    }

    /// Width and height of the image in pixels as stored, after.
    pub fn to(&self) -> (u32, u32) {
        self.to
    }

    /// Whether no pixel moves.
    pub fn is_still(&self) -> bool {
        self.from == self.to && self.orientation <= 1
    }

    /// Width and height after turning, before resizing.
    fn seen(&self) -> (u32, u32) {
        if self.orientation > 4 { (self.from.1, self.from.0) } else { self.from }
    }

    /// The point x, y after the movement, in pixels; 0, 0 is the corner of the image and not the centre of its first pixel.
    pub fn point(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let (width, height) = (f64::from(self.from.0), f64::from(self.from.1));
        // The inverse of `stored_pixel`, for edges of pixels.
        let [x, y] = match self.orientation {
            2 => [width - x, y],
            3 => [width - x, height - y],
            4 => [x, height - y],
            5 => [y, x],
            6 => [height - y, x],
            7 => [height - y, width - x],
            8 => [y, width - x],
            _ => [x, y],
        };
        let scaled = |at: f64, from: u32, to: u32| if from == to { at } else { at * (f64::from(to) / f64::from(from)) };
        [scaled(x, self.seen().0, self.to.0), scaled(y, self.seen().1, self.to.1)]
    }

    /// The left, top, right and bottom edge of a box after the movement, in pixels.
    pub fn edges(&self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let ([mut left, mut top], [mut right, mut bottom]) = (self.point([left, top]), self.point([right, bottom]));
        if matches!(self.orientation, 2 | 3 | 6 | 7) {
            (left, right) = (right, left);
        }
        if matches!(self.orientation, 3 | 4 | 7 | 8) {
            (top, bottom) = (bottom, top);
        }
        [left, top, right, bottom]
    }

    /// The levels of `[H, W, pixel_bytes]` in C order, of the image's size, after the movement: the nearest level, as torchvision's
    /// `resize(…, NEAREST)` takes it of a tensor.
    ///
    /// # Panics
    /// If `levels` has another length.
    pub fn levels(&self, levels: &[u8], pixel_bytes: usize) -> Vec<u8> {
        let from = (self.from.0 as usize, self.from.1 as usize);
        assert_eq!(levels.len(), from.0 * from.1 * pixel_bytes, "the caller has compared the sizes");
        let seen = self.seen();
        let columns: Vec<usize> =
            (0..self.to.0).map(|x| nearest(x.into(), seen.0, self.to.0.into()) as usize).collect();
        let mut moved = Vec::with_capacity(self.to.0 as usize * self.to.1 as usize * pixel_bytes);
        for y in 0..self.to.1 {
            let y = nearest(y.into(), seen.1, self.to.1.into()) as usize;
            for x in &columns {
                let (x, y) = stored_pixel(self.orientation, from, (*x, y));
                let at = (y * from.0 + x) * pixel_bytes;
                moved.extend_from_slice(&levels[at..at + pixel_bytes]);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Picture, Resize};

    fn png(width: u32, height: u32) -> Vec<u8> {
        let picture = Picture::new(width, height, Layout::Gray8, vec![0; (width * height) as usize]).unwrap();
        crate::encode(&picture, crate::Encode::Png, 90).unwrap()
    }

    #[test]
    fn the_size_after_is_that_of_the_changed_image() {
        for (width, height) in [(40, 30), (30, 40), (7, 7), (1, 9), (33, 500)] {
            for resize in
                [None, Some(Resize::Short(8)), Some(Resize::Short(1)), Some(Resize::Exact { width: 9, height: 4 })]
            {
                for rotate in [false, true] {
                    let recipe = Recipe { resize, rotate, ..Recipe::default() };
                    for orientation in 1..=8 {
                        let mut picture =
                            Picture::new(width, height, Layout::Gray8, vec![0; (width * height) as usize]).unwrap();
                        picture.exif = (orientation > 1).then(|| exif(orientation));
                        let bytes = crate::encode(&picture, crate::Encode::Png, 90).unwrap();
                        let movement = Movement::of(&bytes, &recipe, &Limits::default()).unwrap();
                        let made = match crate::apply(&bytes, &recipe, &Limits::default()).unwrap() {
                            crate::Outcome::Made { bytes, .. } => bytes,
                            crate::Outcome::Untouched => {
                                assert!(movement.is_still());
                                bytes
                            }
                        };
                        let header = Header::parse(&made);
                        assert_eq!(
                            movement.to(),
                            (header.width, header.height),
                            "{width}x{height} {recipe:?} {orientation}"
                        );
                        assert_eq!(movement.from(), (width, height));
                    }
                }
            }
        }
        assert!(Movement::of(b"no image", &Recipe::default(), &Limits::default()).is_err());
        assert!(Movement::of(&png(3, 2)[..20], &Recipe::default(), &Limits::default()).is_err());
    }

    /// A directory of Exif with this orientation.
    fn exif(orientation: u8) -> Vec<u8> {
        [b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", &[orientation][..], &[0; 6]].concat()
    }

    /// Levels turned and then resized, each step for itself and for each pixel.
    fn slowly(movement: &Movement, levels: &[u8], pixel_bytes: usize) -> Vec<u8> {
        let picture = Picture::new(
            movement.from.0,
            movement.from.1,
            Layout::Gray8,
            (0..movement.from.0 * movement.from.1).map(|_| 0).collect(),
        );
        let _ = picture.unwrap();
        let (width, height) = (movement.from.0 as usize, movement.from.1 as usize);
        let at = |x: usize, y: usize| &levels[(y * width + x) * pixel_bytes..][..pixel_bytes];
        let (seen_width, seen_height) = if movement.orientation > 4 { (height, width) } else { (width, height) };
        let seen = |x: usize, y: usize| match movement.orientation {
            1 => at(x, y),
            2 => at(width - 1 - x, y),
            3 => at(width - 1 - x, height - 1 - y),
            4 => at(x, height - 1 - y),
            5 => at(y, x),
            6 => at(y, height - 1 - x),
            7 => at(width - 1 - y, height - 1 - x),
            8 => at(width - 1 - y, x),
            other => panic!("{other}"),
        };
        let (to_width, to_height) = (movement.to.0 as usize, movement.to.1 as usize);
        let mut all = Vec::new();
        for y in 0..to_height {
            for x in 0..to_width {
                // Rounded down: exact, where float32 is exact.
                all.extend_from_slice(seen(x * seen_width / to_width, y * seen_height / to_height));
            }
        }
        all
    }

    #[test]
    fn levels_are_the_nearest_after_turning() {
        for (from, to) in [((8, 4), (4, 2)), ((4, 8), (8, 4)), ((6, 5), (6, 5)), ((12, 8), (3, 2)), ((3, 2), (12, 8))] {
            for pixel_bytes in [1, 2, 3, 8] {
                let levels: Vec<u8> = (0..from.0 * from.1 * pixel_bytes).map(|at| (at * 37 % 251) as u8).collect();
                for orientation in 1..=8 {
                    let movement = Movement { from, orientation, to };
                    let moved = movement.levels(&levels, pixel_bytes as usize);
                    assert_eq!(moved, slowly(&movement, &levels, pixel_bytes as usize), "{movement:?}");
                }
            }
        }
    }

    #[test]
    fn boxes_and_points_move_with_their_pixels() {
        // The box around one pixel, and its middle, are around the same pixel after every movement that only turns.
        let from = (5, 3);
        for orientation in 1..=8 {
            let to = if orientation > 4 { (3, 5) } else { from };
            let movement = Movement { from, orientation, to };
            for (x, y) in (0..3).flat_map(|y| (0..5).map(move |x| (x, y))) {
                let mut levels = vec![0; 15];
                levels[y * 5 + x] = 1;
                let place = movement.levels(&levels, 1).iter().position(|level| *level == 1).unwrap();
                let (at, down) = ((place % to.0 as usize) as f64, (place / to.0 as usize) as f64);
                let (x, y) = (x as f64, y as f64);
                assert_eq!(movement.edges([x, y, x + 1.0, y + 1.0]), [at, down, at + 1.0, down + 1.0], "{orientation}");
                assert_eq!(movement.point([x + 0.5, y + 0.5]), [at + 0.5, down + 0.5]);
            }
        }
        let movement = Movement { from: (640, 427), orientation: 6, to: (100, 200) };
        assert_eq!(
            movement.edges([64.0, 42.7, 128.0, 85.4]).map(|edge| (edge * 1e6).round() / 1e6),
            [80.0, 20.0, 90.0, 40.0]
        );
    }
}
