//! Convolutions: Gaussian blur and sharpness.
//!
//! Holds at all times: sums are integers, or floats that are added up in a fixed order, so all CPUs give the same levels.
//!
//! Source: torchvision 0.29, `gaussian_blur_image` and `adjust_sharpness_image` in `transforms/v2/functional`.

use super::{
    super::random,
    colour::{self, Pixel},
    wide::wide,
};

/// Numbers that are added up together, in registers.
const BLOCK: usize = 32;

/// Buffers that are kept from one image to the next.
#[derive(Default)]
pub(super) struct Buffers {
    /// The image after the pass along rows, `[height, stride]`.
    between: Vec<f32>,
    /// A row with its reflections on both sides.
    row: Vec<f32>,
    /// Sums of three rows.
    sums: Vec<u16>,
    /// Two rows as they were.
    rows: [Vec<Pixel>; 2],
}

/// Weights of the pixels at distances 0, 1, …: `exp(-distance² / 2 sigma²)`, with a sum of 1 over both sides.
fn weights(kernel: u32, sigma: f64) -> Vec<f32> {
    // exp is made for -7 to 7; smaller weights change no level.
    let power = |distance: u32| {
        let exponent = f64::from(distance * distance) / (2.0 * sigma * sigma);
        if exponent > 14.0 { 0.0 } else { random::exp(-exponent / 2.0) * random::exp(-exponent / 2.0) }
    };
    let mut powers: Vec<f64> = (0..=kernel / 2).map(power).collect();
    // The rest of a large kernel is 0.
    powers.truncate(powers.iter().position(|&power| power == 0.0).unwrap_or(powers.len()));
    let sum = 2.0 * powers.iter().sum::<f64>() - powers[0];
    powers.into_iter().map(|power| (power / sum) as f32).collect()
}

/// `gaussian_blur` of `[_, width, 4]` pixels with kernels of odd sizes (across, down), less than twice a side; beyond
/// the edges, the image is reflected.
pub(super) fn gaussian(
    pixels: &mut [Pixel],
    width: usize,
    kernel: (u32, u32),
    sigma: f64,
    Buffers { between, row, .. }: &mut Buffers,
) {
    let across = weights(kernel.0, sigma);
    let down = if kernel.0 == kernel.1 { across.clone() } else { weights(kernel.1, sigma) };
    let stride = (width * 4).next_multiple_of(BLOCK);
    between.resize(pixels.len() / width * stride, 0.0);
    along_rows(pixels, width, &across, row, between);
    along_columns(between, stride, &down, width, pixels);
}

/// Adds up the products of weights and the sums of the two numbers at their distance.
#[inline(always)]
fn add_up<'a>(weights: &[f32], at: impl Fn(usize) -> [&'a [f32; BLOCK]; 2]) -> [f32; BLOCK] {
    let (mut sums, [middle, _]) = ([0.0; BLOCK], at(0));
    for (sum, number) in sums.iter_mut().zip(middle) {
        *sum = number * weights[0];
    }
    for (distance, &weight) in weights.iter().enumerate().skip(1) {
        let [before, after] = at(distance);
        for ((sum, before), after) in sums.iter_mut().zip(before).zip(after) {
            *sum += (before + after) * weight;
        }
    }
    sums
}

/// The block that begins at `start`.
#[inline(always)]
fn block(numbers: &[f32], start: usize) -> &[f32; BLOCK] {
    numbers[start..].first_chunk().expect("rows are padded to whole blocks")
}

wide! {
    /// The pass along rows, from `[height, width]` pixels to `[height, stride]` numbers, whose ends have no meaning.
    fn along_rows(pixels: &[Pixel], width: usize, weights: &[f32], row: &mut Vec<f32>, between: &mut [f32]) {
        let (reach, stride) = (weights.len() - 1, (width * 4).next_multiple_of(BLOCK));
        row.clear();
        row.resize(stride + reach * 8, 0.0);
        for (levels, between) in pixels.chunks_exact(width).zip(between.chunks_exact_mut(stride)) {
            for (number, &level) in row[reach * 4..].iter_mut().zip(levels.as_flattened()) {
                *number = f32::from(level);
            }
            let (first, last) = (reach * 4, (reach + width - 1) * 4);
            for away in (4..=reach * 4).step_by(4) {
                row.copy_within(first + away..first + away + 4, first - away);
                row.copy_within(last - away..last - away + 4, last + away);
            }
            for (number, sums) in between.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                let start = number * BLOCK + reach * 4;
                *sums = add_up(weights, |distance| {
                    [block(row, start - distance * 4), block(row, start + distance * 4)]
                });
            }
        }
    }
}

wide! {
    /// The pass along columns, from `[height, stride]` numbers to pixels.
    fn along_columns(between: &[f32], stride: usize, weights: &[f32], width: usize, pixels: &mut [Pixel]) {
        let last = between.len() / stride - 1;
        // Block by block, whose rows in reach stay in the nearest cache.
        for start in (0..width * 4).step_by(BLOCK) {
            for y in 0..=last {
                let sums = add_up(weights, |distance| {
                    let above = y.abs_diff(distance);
                    let below = last - last.abs_diff(y + distance);
                    [block(between, above * stride + start), block(between, below * stride + start)]
                });
                let levels = sums.map(round);
                let place = &mut pixels[y * width..][..width].as_flattened_mut()[start..];
                let count = place.len().min(BLOCK);
                place[..count].copy_from_slice(&levels[..count]);
            }
        }
    }
}

/// A number of 0 to 255 to the nearest level, halves to the even one.
#[inline(always)]
fn round(number: f32) -> u8 {
    // Adding 2^23 rounds: the sum has the integer as its low bits.
    (number + 8_388_608.0).to_bits() as u8
}

/// `adjust_sharpness` of `[_, width, 4]` pixels: mixes with a blur of 3 × 3 pixels, or moves away from it. Pixels at the
/// edges stay.
pub(super) fn sharpness(pixels: &mut [Pixel], width: usize, factor: f64, Buffers { sums, rows, .. }: &mut Buffers) {
    let height = pixels.len() / width;
    if width <= 2 || height <= 2 {
        return;
    }
    let [above, here] = rows;
    above.clear();
    above.extend_from_slice(&pixels[..width]);
    sums.resize(width * 4, 0);
    for y in 1..height - 1 {
        let (upper, lower) = pixels.split_at_mut((y + 1) * width);
        let inner = &mut upper[y * width..];
        here.clear();
        here.extend_from_slice(inner);
        add_rows([above, here, &lower[..width]], sums);
        sharpen(inner.as_flattened_mut(), sums, (1.0 - factor) as f32);
        std::mem::swap(above, here);
    }
}

wide! {
    /// The sums of three rows.
    fn add_rows(rows: [&[Pixel]; 3], sums: &mut [u16]) {
        let [above, here, below] = rows.map(|row| &row.as_flattened()[..sums.len()]);
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum = u16::from(above[at]) + u16::from(here[at]) + u16::from(below[at]);
        }
    }
}

wide! {
    /// Sharpens a row, from the sums of it and its neighbours.
    fn sharpen(levels: &mut [u8], sums: &[u16], of_blur: f32) {
        let inner = sums.len() - 8;
        let [left, middle, right] = [0, 4, 8].map(|start| &sums[start..][..inner]);
        for (at, place) in levels[4..][..inner].iter_mut().enumerate() {
            let level = i32::from(*place);
            // At most 13 · 255.
            let sum = u32::from(left[at] + middle[at] + right[at]) + 4 * u32::from(*place);
            // Rounded: (sum + 6) / 13, exact for these sums.
            let blurred = (((sum + 6) * 5042) >> 16) as i32;
            *place = colour::level((level as f32 + (blurred - level) as f32 * of_blur) * colour::UNIT) as u8;
        }
    }
}
