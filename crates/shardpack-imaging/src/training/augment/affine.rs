//! Moves pixels: shear, translate and rotate about the middle, with the nearest pixel, and black from outside.
//!
//! Holds at all times: positions are computed in single precision, in the order of torchvision on tensors, so all CPUs
//! take the same pixels.
//!
//! Source: torchvision 0.29, `_get_inverse_affine_matrix` and `_affine_grid` in `transforms/v2/functional/_geometry.py`;
//! PyTorch 2.15, `grid_sampler_2d`.

use super::{colour::Pixel, wide::wide};

/// From a pixel of the output to its source, both from the middle of the image: the source's x is the first row times
/// `(x, y, 1)`, its y the second row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Matrix([[f64; 3]; 2]);

impl Matrix {
    /// Shifts each row to the side, by `slope` pixels for a row; the upper edge stays.
    pub(super) fn shear_x(slope: f64, height: usize) -> Self {
        Self([[1.0, slope, slope * height as f64 * 0.5], [0.0, 1.0, 0.0]])
    }

    /// Shifts each column down, by `slope` pixels for a column; the left edge stays.
    pub(super) fn shear_y(slope: f64, width: usize) -> Self {
        Self([[1.0, 0.0, 0.0], [slope, 1.0, slope * width as f64 * 0.5]])
    }

    /// Moves by whole pixels, to the right and down.
    pub(super) fn translate(right: i32, down: i32) -> Self {
        Self([[1.0, 0.0, f64::from(-right)], [0.0, 1.0, f64::from(-down)]])
    }

    /// Turns anticlockwise by degrees of -180 to 180.
    pub(super) fn rotate(degrees: f64) -> Self {
        let (sin, cos) = sin_cos(-degrees * (std::f64::consts::PI / 180.0));
        Self([[cos, sin, 0.0], [-sin, cos, 0.0]])
    }
}

/// Sine and cosine of `x`, for `x` of -4 to 4, to 1 part in 10^14; a system's are not the same everywhere.
fn sin_cos(x: f64) -> (f64, f64) {
    let (mut sin, mut cos) = (1.0, 1.0);
    for term in (1..=16).rev() {
        let term = f64::from(2 * term);
        sin = 1.0 - x * x / (term * (term + 1.0)) * sin;
        cos = 1.0 - x * x / (term * (term - 1.0)) * cos;
    }
    (x * sin, cos)
}

/// Buffers that are kept from one image to the next.
#[derive(Default)]
pub(super) struct Buffers {
    /// The image with an edge of one black pixel.
    source: Vec<Pixel>,
    /// For one row, the number of each pixel's source.
    from: Vec<u32>,
}

/// Takes each pixel of `[_, width, 4]` pixels from the place that `matrix` gives.
pub(super) fn transform(pixels: &mut [Pixel], width: usize, matrix: Matrix, Buffers { source, from }: &mut Buffers) {
    let height = pixels.len() / width;
    source.clear();
    source.resize((width + 2) * (height + 2), [0; 4]);
    for (row, levels) in source[width + 3..].chunks_mut(width + 2).zip(pixels.chunks_exact(width)) {
        row[..width].copy_from_slice(levels);
    }
    from.resize(width, 0);
    // Sides are at most 65,535.
    let size = [width as f32, height as f32];
    let mut scaled = [[0.0; 3]; 2];
    for ((scaled, row), size) in scaled.iter_mut().zip(matrix.0).zip(size) {
        *scaled = row.map(|number| number as f32 / (0.5 * size));
    }
    for (y, row) in pixels.chunks_exact_mut(width).enumerate() {
        find(scaled, size, y as f32 - (size[1] - 1.0) * 0.5, from);
        for (pixel, &from) in row.iter_mut().zip(&*from) {
            *pixel = source[from as usize];
        }
    }
}

/// 1 and the nearest pixel on an axis of `size` pixels: 0 and `size + 1` are the edges. `place` goes from -1 to 1.
#[inline(always)]
fn nearest(place: f32, size: f32) -> u32 {
    // 1.5 · 2^23: a sum has the rounded integer as its low bits, halves rounded to the even one.
    const ROUND: f32 = 12_582_912.0;
    let place = (place + 1.0) * (size * 0.5) - 0.5;
    ((place.clamp(-1.0, size) + ROUND).to_bits() + 1) & 0x3F_FFFF
}

wide! {
    /// The source of each pixel of a row, which is `y` below the middle, as a number in the image with its edge.
    fn find(matrix: [[f32; 3]; 2], size: [f32; 2], y: f32, from: &mut [u32]) {
        let [across, down] = matrix;
        let half = (size[0] - 1.0) * 0.5;
        let stride = size[0] as u32 + 2;
        for (x, from) in from.iter_mut().enumerate() {
            // At most 65,535; signed integers become floats in one instruction.
            let x = x as i32 as f32 - half;
            let left = nearest(x * across[0] + y * across[1] + across[2], size[0]);
            let top = nearest(x * down[0] + y * down[1] + down[2], size[1]);
            *from = top * stride + left;
        }
    }
}
