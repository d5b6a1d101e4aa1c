//! Moves what lies over an image as its cut moves the image: masks by nearest neighbours, boxes, points.
//!
//! Positions are in pixels of the image as stored; if the transform turns the image, they are turned first. Results equal
//! those of torchvision's `v2` transforms of `Mask`, `BoundingBoxes` and `KeyPoints` with the same cut.

use super::geometry::{Geometry, Steps};
use crate::{crops::Rect, nearest::nearest};

impl Steps {
    /// The pixel of the image for each of `placed` pixels, in ascending order.
    fn nearest(&self, placed: u32) -> impl DoubleEndedIterator<Item = u32> {
        let Self { first, source, resized, begin } = *self;
        (begin..begin + u64::from(placed)).map(move |at| first + nearest(at, source, resized))
    }
}

impl Geometry {
    /// Width and height of the image as stored.
    pub fn stored_size(&self) -> (u32, u32) {
        self.stored
    }

    /// The cut of pixels of `pixel_bytes` each over the whole image as stored, `[height, width]`: `[size.height,
    /// size.width]`, with 0 around the image. `None` if the length of `pixels` does not match.
    pub fn nearest(&self, pixels: &[u8], pixel_bytes: usize) -> Option<Vec<u8>> {
        let (width, height) = self.stored;
        if pixel_bytes == 0 || pixels.len() as u64 != u64::from(width) * u64::from(height) * pixel_bytes as u64 {
            return None;
        }
        Some(self.nearest_in(Rect { x: 0, y: 0, width, height }, pixels, pixel_bytes))
    }

    /// The part of the image as stored that [`Geometry::nearest`] takes pixels of.
    pub(super) fn nearest_window(&self) -> Rect {
        let ends = |axis: usize, placed: u32| {
            let mut all = self.steps[axis].nearest(placed);
            let first = all.next().unwrap_or(0);
            (first, all.next_back().unwrap_or(first))
        };
        let (across, down) = (ends(0, self.placed.width), ends(1, self.placed.height));
        let one = self.turn.stored_pixel((across.0, down.0), self.stored);
        let other = self.turn.stored_pixel((across.1, down.1), self.stored);
        let (x, y) = (one.0.min(other.0), one.1.min(other.1));
        Rect { x, y, width: one.0.max(other.0) - x + 1, height: one.1.max(other.1) - y + 1 }
    }

    /// As [`Geometry::nearest`], of the `pixels` of a part of the image that holds [`Geometry::nearest_window`].
    pub(super) fn nearest_in(&self, part: Rect, pixels: &[u8], pixel_bytes: usize) -> Vec<u8> {
        let (out_width, placed) = (self.size.width as usize, self.placed);
        let mut out = vec![0; out_width * self.size.height as usize * pixel_bytes];
        let columns: Vec<u32> = self.steps[0].nearest(placed.width).collect();
        let left = if self.flip { self.size.width - placed.left - placed.width } else { placed.left } as usize;
        let top = if self.flip_vertical { self.size.height - placed.top - placed.height } else { placed.top };
        let rows = out.chunks_exact_mut(out_width * pixel_bytes).skip(top as usize);
        let mut sources: Vec<u32> = self.steps[1].nearest(placed.height).collect();
        if self.flip_vertical {
            sources.reverse();
        }
        for (row, y) in rows.zip(sources) {
            let row = row.chunks_exact_mut(pixel_bytes).skip(left).take(columns.len());
            let from = |x: &u32| {
                let (column, row) = self.turn.stored_pixel((*x, y), self.stored);
                let start = ((row - part.y) as usize * part.width as usize + (column - part.x) as usize) * pixel_bytes;
                &pixels[start..start + pixel_bytes]
            };
            match self.flip {
                false => row.zip(&columns).for_each(|(to, x)| to.copy_from_slice(from(x))),
                true => row.zip(columns.iter().rev()).for_each(|(to, x)| to.copy_from_slice(from(x))),
            }
        }
        out
    }

    /// A point, x and y, in pixels of the slot; points outside stay outside.
    pub fn move_point(&self, point: [f64; 2]) -> [f32; 2] {
        let [x, y] = self.unflipped(point);
        let x = if self.flip { f64::from(self.size.width) - x } else { x };
        let y = if self.flip_vertical { f64::from(self.size.height) - y } else { y };
        [x as f32, y as f32]
    }

    /// A box (left, top, right, bottom) in pixels of the slot, clipped to the image there. `None` if it is narrower or
    /// lower than `least` pixels then, as by `SanitizeBoundingBoxes`.
    pub fn move_box(&self, [left, top, right, bottom]: [f64; 4], least: f32) -> Option<[f32; 4]> {
        let (one, two) = (self.unflipped([left, top]), self.unflipped([right, bottom]));
        let placed = self.placed;
        let clipped = |low: u32, length: u32, one: f64, two: f64| {
            let [low, high] = [f64::from(low), f64::from(low + length)];
            [one.min(two).clamp(low, high), one.max(two).clamp(low, high)]
        };
        let [left, right] = clipped(placed.left, placed.width, one[0], two[0]);
        let [top, bottom] = clipped(placed.top, placed.height, one[1], two[1]);
        let (width, height) = (f64::from(self.size.width), f64::from(self.size.height));
        let [left, right] = if self.flip { [width - right, width - left] } else { [left, right] };
        let [top, bottom] = if self.flip_vertical { [height - bottom, height - top] } else { [top, bottom] };
        let moved @ [left, top, right, bottom] = [left, top, right, bottom].map(|edge| edge as f32);
        (right - left >= least && bottom - top >= least).then_some(moved)
    }

    /// A point of the stored image in the slot, before the flips.
    fn unflipped(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let (x, y) = self.turn.seen((x, y), self.stored);
        let [left, top, right, bottom] = self.edges();
        let placed = self.placed;
        let along = |at: f64, low: f64, high: f64, first: u32, pixels: u32| {
            (at - low) * (f64::from(pixels) / (high - low)) + f64::from(first)
        };
        [along(x, left, right, placed.left, placed.width), along(y, top, bottom, placed.top, placed.height)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Encode, Layout, Limits, Mask, Picture, encode,
        training::{Axes, Cut, Filter, Options, Resize, Size, Transform, Worker, rotate::Turn},
    };

    const CUTS: [Cut; 5] = [
        Cut::random_resized(Size { height: 7, width: 9 }),
        Cut::Whole { size: Size { height: 46, width: 31 } },
        Cut::Center { resize: Resize::Short(11), size: Size { height: 8, width: 10 } },
        Cut::Center { resize: Resize::Not, size: Size { height: 30, width: 50 } },
        Cut::Center { resize: Resize::Exact(Size { height: 60, width: 22 }), size: Size { height: 70, width: 9 } },
    ];

    /// A geometry for an image stored with 31 × 23 pixels.
    fn geometry(cut: Cut, key: u64, turn: Turn) -> Geometry {
        let stored = (31, 23);
        let (width, height) = turn.size(stored);
        let transform = Transform::new(Options { flip: 0.5, flip_vertical: 0.5, ..Options::new(cut) }).unwrap();
        Geometry { turn, stored, ..transform.plan(width, height, key) }
    }

    #[test]
    fn a_turned_mask_is_the_mask_of_the_turned_image() {
        let pixels: Vec<u8> = (0..31 * 23_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for orientation in 1..=8 {
            let whole = Picture::new(31, 23, Layout::Gray8, pixels.clone()).unwrap();
            let seen = Picture { orientation, ..whole }.upright();
            for (cut, key) in CUTS.iter().flat_map(|cut| (0..6).map(move |key| (*cut, key))) {
                let found = geometry(cut, key, Turn::from_exif(orientation));
                let plain = Geometry { turn: Turn::NONE, stored: (seen.width(), seen.height()), ..found };
                assert_eq!(found.nearest(&pixels, 1), plain.nearest(seen.pixels(), 1), "{orientation} {cut:?} {key}");
            }
        }
        assert_eq!(geometry(CUTS[0], 0, Turn::NONE).nearest(&pixels[1..], 1), None);
    }

    #[test]
    fn the_cut_of_a_mask_in_a_jpeg_is_that_of_the_whole_mask() {
        let limits = Limits::default();
        let mut worker = Worker::new(limits);
        for layout in [Layout::Gray8, Layout::Rgb8] {
            let level = |at: u32| if at.wrapping_mul(2_654_435_761) >> 29 < 3 { 255 } else { 0 };
            let picture = Picture::new(31, 23, layout, (0..31 * 23 * layout.channels() as u32).map(level).collect());
            let file = encode(&picture.unwrap(), Encode::Jpeg, 90).unwrap();
            let whole = Mask::decode(&file, &limits).unwrap();
            for orientation in 1..=8 {
                for (cut, key) in CUTS.iter().flat_map(|cut| (0..6).map(move |key| (*cut, key))) {
                    let geometry = geometry(cut, key, Turn::from_exif(orientation));
                    let items = geometry.nearest(&whole.items, whole.pixel_bytes()).unwrap();
                    let Size { width, height } = geometry.size;
                    let expected = Mask { width, height, items, ..whole };
                    let found = worker.jpeg_mask(&file, &geometry);
                    assert_eq!(found, Ok(Some(expected)), "{layout:?} {orientation} {cut:?} {key}");
                }
            }
            let plain = geometry(CUTS[0], 0, Turn::NONE);
            assert_eq!(worker.jpeg_mask(&file, &Geometry { stored: (31, 24), ..plain }), Ok(None));
            assert!(worker.jpeg_mask(&file[..file.len() / 2], &plain).is_err());
        }
    }

    #[test]
    fn pixels_of_several_bytes_move_together_and_a_cut_without_resize_is_that_of_the_image() {
        let pixels: Vec<u8> = (0..31 * 23 * 3_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let array = [shardpack_format::npy::head("|u1", &[23, 31, 3], false), pixels.clone()].concat();
        for (cut, key) in [(CUTS[3], 0), (CUTS[3], 1), (Cut::Whole { size: Size { height: 23, width: 31 } }, 2)] {
            let options = Options {
                flip: 0.5,
                flip_vertical: 0.5,
                axes: Axes::Hwc,
                filter: Filter::Bicubic,
                ..Options::new(cut)
            };
            let transform = Transform::new(options).unwrap();
            let mut slot = vec![0; transform.slot_bytes()];
            let made = Worker::new(Limits::default()).run(&transform, &array, None, key, &mut slot).unwrap();
            assert_eq!(made.geometry.unwrap().nearest(&pixels, 3), Some(slot), "{cut:?} {key}");
        }
    }

    #[test]
    fn a_box_encloses_the_pixels_of_its_mask() {
        let (left, top, right, bottom) = (4_u32, 3, 25, 20);
        let inside = |x: u32, y: u32| (left..right).contains(&x) && (top..bottom).contains(&y);
        let pixels: Vec<u8> = (0..23).flat_map(|y| (0..31).map(move |x| u8::from(inside(x, y)))).collect();
        let edges = [left, top, right, bottom].map(f64::from);
        for (orientation, cut, key) in
            (1..=8).flat_map(|turn| CUTS.iter().flat_map(move |cut| (0..6).map(move |key| (turn, *cut, key))))
        {
            let geometry = geometry(cut, key, Turn::from_exif(orientation));
            let mask = geometry.nearest(&pixels, 1).unwrap();
            let width = geometry.size.width as usize;
            let marked: Vec<(usize, usize)> =
                (0..mask.len()).filter(|at| mask[*at] > 0).map(|at| (at % width, at / width)).collect();
            let found = geometry.move_box(edges, 0.0).unwrap();
            let name = format!("{orientation} {cut:?} {key}");
            let range = |axis: fn(&(usize, usize)) -> usize| {
                let all = || marked.iter().map(axis);
                all().min().zip(all().max()).map(|(least, most)| (least as f32, most as f32 + 1.0))
            };
            for (axis, (low, high)) in [(0, (found[0], found[2])), (1, (found[1], found[3]))] {
                let Some((least, most)) = range(if axis == 0 { |at| at.0 } else { |at| at.1 }) else { continue };
                // Nearest neighbours put an edge at most a pixel of the image, or of the slot, away.
                let scale = f64::from([geometry.placed.width, geometry.placed.height][axis])
                    / [geometry.region.width, geometry.region.height][axis];
                let most_off = scale.max(1.0) as f32 + 0.01;
                assert!((low - least).abs() <= most_off && (high - most).abs() <= most_off, "{name}: {found:?}");
            }
            let corner = geometry.move_point([edges[0], edges[1]]);
            assert!(corner.iter().all(|at| at.is_finite()), "{name}");
        }
    }

    #[test]
    fn boxes_are_clipped_and_small_ones_dropped() {
        let size = Size { height: 23, width: 31 };
        let plain = Transform::new(Options::new(Cut::Whole { size })).unwrap().plan(31, 23, 0);
        assert_eq!(plain.move_box([-3.0, 2.0, 7.5, 90.0], 1.0), Some([0.0, 2.0, 7.5, 23.0]));
        assert_eq!(plain.move_box([30.5, 2.0, 50.0, 9.0], 1.0), None);
        assert_eq!(plain.move_box([30.0, 2.0, 50.0, 9.0], 1.0), Some([30.0, 2.0, 31.0, 9.0]));
        assert_eq!(plain.move_point([-2.0, 40.0]), [-2.0, 40.0]);
        let flipped = Geometry { flip: true, ..plain };
        assert_eq!(flipped.move_box([1.0, 2.0, 7.0, 9.0], 1.0), Some([24.0, 2.0, 30.0, 9.0]));
        assert_eq!(flipped.move_point([1.0, 2.0]), [30.0, 2.0]);
    }
}
