//! Converts resized pixels to the numbers of a slot: flips, lays out, converts and normalises in one pass.
//!
//! There are 256 levels and 3 channels, so every number comes from a table that is computed once, by the formula and
//! with one rounding to the target type. The whole slot is written.

use super::{
    half::{bfloat16, float16},
    shape::{Axes, Dtype, Rect, Size},
    transform::Normalise,
};

/// For red, green and blue: the number of each level, in the byte order of the machine.
type Table<const N: usize> = Box<[[[u8; N]; 256]; 3]>;

/// Conversion of levels.
#[derive(Clone, Debug)]
pub(super) enum Levels {
    AsTheyAre,
    Half(Table<2>),
    Single(Table<4>),
}

impl Levels {
    pub(super) fn new(dtype: Dtype, normalise: Option<Normalise>) -> Self {
        let number = |channel, level| number(level, channel, normalise);
        match dtype {
            Dtype::Uint8 => Levels::AsTheyAre,
            Dtype::Float32 => Levels::Single(table(|channel, level| number(channel, level).to_ne_bytes())),
            Dtype::Float16 => Levels::Half(table(|channel, level| float16(number(channel, level)).to_ne_bytes())),
            Dtype::Bfloat16 => Levels::Half(table(|channel, level| bfloat16(number(channel, level)).to_ne_bytes())),
        }
    }
}

/// In single precision, step by step, like torchvision's `ToTensor` and `Normalize`.
fn number(level: u8, channel: usize, normalise: Option<Normalise>) -> f32 {
    let number = f32::from(level) / 255.0;
    normalise.map_or(number, |Normalise { mean, std }| (number - mean[channel]) / std[channel])
}

fn table<const N: usize>(number: impl Fn(usize, u8) -> [u8; N]) -> Table<N> {
    let mut table = Box::new([[[0; N]; 256]; 3]);
    for (channel, row) in table.iter_mut().enumerate() {
        // A byte for each of the 256 levels.
        row.iter_mut().zip(0..=u8::MAX).for_each(|(entry, level)| *entry = number(channel, level));
    }
    table
}

/// Place of the pixels.
pub(super) struct Placing {
    pub(super) axes: Axes,
    /// Size of the slot.
    pub(super) size: Size,
    /// Within the slot, before any flip; the surroundings are black.
    pub(super) placed: Rect,
    pub(super) flip: bool,
    pub(super) flip_vertical: bool,
}

impl Placing {
    /// The first row of the slot that is filled, and its first pixel, after the flips.
    fn corner(&self) -> (usize, usize) {
        let Placing { size, placed, .. } = self;
        let left = if self.flip { size.width - placed.left - placed.width } else { placed.left };
        let top = if self.flip_vertical { size.height - placed.top - placed.height } else { placed.top };
        (top as usize, left as usize)
    }

    /// The row of the slot for a row of the pixels.
    fn row(&self, top: usize, y: usize) -> usize {
        top + if self.flip_vertical { self.placed.height as usize - 1 - y } else { y }
    }

    /// Makes `pixels` those of the whole slot, flips done and surroundings black: `[size.height, size.width, 4]`. `spare`
    /// is a buffer.
    pub(super) fn complete(&mut self, pixels: &mut Vec<u8>, spare: &mut Vec<u8>) {
        let (size, all) = (self.size, Rect { left: 0, top: 0, width: self.size.width, height: self.size.height });
        if self.placed != all || self.flip || self.flip_vertical {
            let (width, across) = (size.width as usize * 4, self.placed.width as usize * 4);
            let (top, left) = self.corner();
            spare.clear();
            spare.resize(width * size.height as usize, 0);
            for (y, from) in pixels.chunks_exact(across).enumerate() {
                let row = &mut spare[self.row(top, y) * width + left * 4..][..across];
                row.copy_from_slice(from);
                if self.flip {
                    row.as_chunks_mut::<4>().0.reverse();
                }
            }
            std::mem::swap(pixels, spare);
        }
        *self = Self { placed: all, flip: false, flip_vertical: false, ..*self };
    }
}

/// Writes the whole `slot`, whose length matches its size and type. `pixels: [placed.height, placed.width, 4] uint8`,
/// with the fourth channel ignored; a flip also reverses the rows in `pixels`.
pub(super) fn fill(levels: &Levels, placing: &Placing, pixels: &mut [u8], slot: &mut [u8]) {
    match levels {
        Levels::AsTheyAre => write(|_, level| [level], placing, pixels, slot),
        Levels::Half(table) => write(|channel, level| table[channel][usize::from(level)], placing, pixels, slot),
        Levels::Single(table) => write(|channel, level| table[channel][usize::from(level)], placing, pixels, slot),
    }
}

#[inline(always)]
fn write<const N: usize>(number: impl Fn(usize, u8) -> [u8; N], placing: &Placing, pixels: &mut [u8], slot: &mut [u8]) {
    let &Placing { axes, size, placed, flip, .. } = placing;
    let (slot, _) = slot.as_chunks_mut::<N>();
    let (pixels, _) = pixels.as_chunks_mut::<4>();
    let (width, height) = (size.width as usize, size.height as usize);
    let (across, down) = (placed.width as usize, placed.height as usize);
    let (top, left) = placing.corner();
    // Reversing pixels of four bytes is faster than reversing single bytes, because those are not vectorized.
    let rows = pixels.chunks_exact_mut(across).enumerate().map(|(y, row)| {
        if flip {
            row.reverse();
        }
        (&*row, placing.row(top, y) * width + left)
    });
    let is_all = (across, down) == (width, height);
    match axes {
        Axes::Chw => {
            let (red, rest) = slot.split_at_mut(width * height);
            let (green, blue) = rest.split_at_mut(width * height);
            if !is_all {
                [&mut *red, green, blue]
                    .into_iter()
                    .zip(0..)
                    .for_each(|(plane, channel)| plane.fill(number(channel, 0)));
            }
            for (row, start) in rows {
                // Channels as constants, so that the compiler vectorizes unchanged levels.
                fill_row::<0, N>(&number, row, &mut red[start..]);
                fill_row::<1, N>(&number, row, &mut green[start..]);
                fill_row::<2, N>(&number, row, &mut blue[start..]);
            }
        }
        Axes::Hwc => {
            let (slot, _) = slot.as_chunks_mut::<3>();
            if !is_all {
                slot.fill([number(0, 0), number(1, 0), number(2, 0)]);
            }
            for (row, start) in rows {
                for (place, pixel) in slot[start..].iter_mut().zip(row) {
                    *place = [number(0, pixel[0]), number(1, pixel[1]), number(2, pixel[2])];
                }
            }
        }
    }
}

/// Writes one channel of a row.
#[inline(always)]
fn fill_row<const CHANNEL: usize, const N: usize>(
    number: &impl Fn(usize, u8) -> [u8; N],
    row: &[[u8; 4]],
    place: &mut [[u8; N]],
) {
    for (place, pixel) in place[..row.len()].iter_mut().zip(row) {
        let level = (u32::from_le_bytes(*pixel) >> (8 * CHANNEL)) as u8;
        *place = number(CHANNEL, level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes each number from the formula.
    fn slowly(dtype: Dtype, normalise: Option<Normalise>, placing: &Placing, pixels: &[u8]) -> Vec<u8> {
        let Placing { axes, size, placed, flip, flip_vertical } = *placing;
        let level = |y: u32, x: u32, channel: u32| {
            let x = if flip { size.width - 1 - x } else { x };
            let y = if flip_vertical { size.height - 1 - y } else { y };
            let inside = (placed.left..placed.left + placed.width).contains(&x)
                && (placed.top..placed.top + placed.height).contains(&y);
            let at = || ((y - placed.top) * placed.width + x - placed.left) * 4 + channel;
            if inside { pixels[at() as usize] } else { 0 }
        };
        let mut slot = Vec::new();
        let mut push = |y, x, channel: u32| {
            let level = level(y, x, channel);
            let mut number = f32::from(level) / 255.0;
            if let Some(Normalise { mean, std }) = normalise {
                number -= mean[channel as usize];
                number /= std[channel as usize];
            }
            match dtype {
                Dtype::Uint8 => slot.push(level),
                Dtype::Float32 => slot.extend(number.to_ne_bytes()),
                Dtype::Float16 => slot.extend(float16(number).to_ne_bytes()),
                Dtype::Bfloat16 => slot.extend(bfloat16(number).to_ne_bytes()),
            }
        };
        match axes {
            Axes::Chw => (0..3).for_each(|channel| {
                (0..size.height).for_each(|y| (0..size.width).for_each(|x| push(y, x, channel)));
            }),
            Axes::Hwc => (0..size.height).for_each(|y| {
                (0..size.width).for_each(|x| (0..3).for_each(|channel| push(y, x, channel)));
            }),
        }
        slot
    }

    #[test]
    fn every_layout_type_place_and_flip_is_what_the_formula_gives() {
        let size = Size { height: 9, width: 21 };
        let all = Rect { left: 0, top: 0, width: 21, height: 9 };
        let part = Rect { left: 3, top: 1, width: 13, height: 7 };
        for dtype in [Dtype::Uint8, Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
            for normalise in [None, Some(Normalise::IMAGENET)] {
                for axes in [Axes::Chw, Axes::Hwc] {
                    for number in 0..8 {
                        let placed = if number & 4 == 0 { all } else { part };
                        let (flip, flip_vertical) = (number & 1 > 0, number & 2 > 0);
                        let length = placed.width * placed.height * 4;
                        let mut pixels: Vec<u8> =
                            (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
                        let mut placing = Placing { axes, size, placed, flip, flip_vertical };
                        let expected = slowly(dtype, normalise, &placing, &pixels);
                        let name = format!("{dtype:?} {normalise:?} {axes:?} {placed:?} {flip} {flip_vertical}");
                        let (levels, mut slot) = (Levels::new(dtype, normalise), vec![0xAA; expected.len()]);
                        fill(&levels, &placing, &mut pixels.clone(), &mut slot);
                        assert!(slot == expected, "{name}");
                        placing.complete(&mut pixels, &mut vec![0xAA; 3]);
                        slot.fill(0xAA);
                        fill(&levels, &placing, &mut pixels, &mut slot);
                        assert!(slot == expected, "{name}, completed");
                    }
                }
            }
        }
    }
}
