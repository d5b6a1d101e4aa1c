//! Rows of chroma samples at the size of luma.
//!
//! Holds at all times: samples are those of libjpeg's "fancy" upsampling, a triangle filter between the centres of samples, and
//! of its box filter where it has no other.
//!
//! Source: libjpeg's jdsample.c, for the choice of filters and their rounding.

use crate::simd::{Vector, by_level};

/// How samples of a channel become pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// A sample is a pixel.
    None,
    /// Two pixels across, triangle filter.
    Across,
    /// Two pixels down, triangle filter.
    Down,
    /// Both.
    Both,
    /// Each sample is repeated, across and down.
    Repeat,
}

impl Filter {
    /// The filter for `across` × `down` pixels a sample, of a channel that is `width` samples wide. `is_one` if a block is one
    /// sample.
    pub(crate) fn new(across: u32, down: u32, width: u32, is_one: bool) -> Self {
        match (across, down) {
            (1, 1) => Self::None,
            (2, 1) if !is_one && width > 2 => Self::Across,
            (1, 2) if !is_one => Self::Down,
            (2, 2) if !is_one && width > 2 => Self::Both,
            _ => Self::Repeat,
        }
    }
}

by_level! {
    /// Twice as many pixels as `samples`, of which there are at least two; the first and the last sample are those of the
    /// image, or their outer pixels are not used.
    pub(crate) fn across(samples: &[u8], pixels: &mut [u8]) = across_all
}

by_level! {
    /// Three parts of `near` and one of `far`, for the upper (`is_lower` false) or the lower of two pixels.
    pub(crate) fn down(near: &[u8], far: &[u8], is_lower: bool, pixels: &mut [u8]) = down_all
}

by_level! {
    /// [`across`] of the sums of three parts of `near` and one of `far`; `sums` has as many numbers as `near`.
    pub(crate) fn both(near: &[u8], far: &[u8], sums: &mut [u16], pixels: &mut [u8]) = both_all
}

#[inline(always)]
fn across_all<V: Vector>(samples: &[u8], pixels: &mut [u8]) {
    let pixels = pixels.as_chunks_mut::<2>().0;
    let (Some(&first), Some(&last), count) = (samples.first(), samples.last(), samples.len()) else { return };
    let wide = |sample: u8| u16::from(sample);
    let inner = pixels[1..count - 1].iter_mut().zip(samples[..count - 2].iter().zip(&samples[1..]).zip(&samples[2..]));
    for (pixel, ((&before, &sample), &behind)) in inner {
        let three = wide(sample) * 3;
        *pixel = [((three + wide(before) + 1) >> 2) as u8, ((three + wide(behind) + 2) >> 2) as u8];
    }
    pixels[0] = [first, ((wide(first) * 3 + wide(samples[1]) + 2) >> 2) as u8];
    pixels[count - 1] = [((wide(last) * 3 + wide(samples[count - 2]) + 1) >> 2) as u8, last];
}

#[inline(always)]
fn down_all<V: Vector>(near: &[u8], far: &[u8], is_lower: bool, pixels: &mut [u8]) {
    let bias = if is_lower { 2 } else { 1 };
    for (pixel, (&near, &far)) in pixels.iter_mut().zip(near.iter().zip(far)) {
        *pixel = ((u16::from(near) * 3 + u16::from(far) + bias) >> 2) as u8;
    }
}

#[inline(always)]
fn both_all<V: Vector>(near: &[u8], far: &[u8], sums: &mut [u16], pixels: &mut [u8]) {
    for (sum, (&near, &far)) in sums.iter_mut().zip(near.iter().zip(far)) {
        *sum = u16::from(near) * 3 + u16::from(far);
    }
    let pixels = pixels.as_chunks_mut::<2>().0;
    let (Some(&first), Some(&last), count) = (sums.first(), sums.last(), sums.len()) else { return };
    let inner = pixels[1..count - 1].iter_mut().zip(sums[..count - 2].iter().zip(&sums[1..]).zip(&sums[2..]));
    for (pixel, ((before, sum), behind)) in inner {
        *pixel = [((sum * 3 + before + 8) >> 4) as u8, ((sum * 3 + behind + 7) >> 4) as u8];
    }
    pixels[0] = [((first * 4 + 8) >> 4) as u8, ((first * 3 + sums[1] + 7) >> 4) as u8];
    pixels[count - 1] = [((last * 3 + sums[count - 2] + 8) >> 4) as u8, ((last * 4 + 7) >> 4) as u8];
}

/// Each sample `times` times.
pub(crate) fn repeat(samples: &[u8], times: usize, pixels: &mut [u8]) {
    for (pixels, sample) in pixels.chunks_exact_mut(times).zip(samples) {
        pixels.fill(*sample);
    }
}
