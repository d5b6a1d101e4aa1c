//! Changes colours: brightness, contrast, saturation, hue and greyscale, with torchvision's formulas on tensors.
//!
//! Holds at all times: each pixel is computed in single precision, in a fixed order, so all CPUs give the same levels.
//!
//! Source: torchvision 0.29, `transforms/v2/functional/_color.py`.

use super::wide::wide;

/// `[R, G, B, X] uint8`; X is ignored, and any value afterwards.
pub(super) type Pixel = [u8; 4];

/// Levels as integers of 1/32,768: the largest unit whose levels stay below 2^23, the integers of a float.
pub(super) const UNIT: f32 = 32_768.0;

/// Red, green and blue.
#[inline(always)]
fn split(pixel: Pixel) -> [i32; 3] {
    let bits = u32::from_le_bytes(pixel);
    // Below 256. Signed integers become floats in one instruction.
    [(bits & 255) as i32, ((bits >> 8) & 255) as i32, ((bits >> 16) & 255) as i32]
}

#[inline(always)]
fn join([red, green, blue]: [u32; 3]) -> Pixel {
    (red | (green << 8) | (blue << 16)).to_le_bytes()
}

/// The level of `number`, which is in [`UNIT`]s of a level: clipped to 0 to 255, and rounded down, as a cast rounds.
#[inline(always)]
pub(super) fn level(number: f32) -> u32 {
    // A sum of 2^23 or more has the rounded integer as its low bits; 1/2 less rounds down at the boundaries of levels.
    // A cast would need more instructions, for NaN and large numbers.
    let whole = number.clamp(0.5, 255.0 * UNIT + (UNIT - 1.0)) + 8_388_607.5;
    (whole.to_bits() >> 15) & 255
}

/// Grey of a pixel, rounded down: `0.2989 R + 0.587 G + 0.114 B`.
#[inline(always)]
fn grey([red, green, blue]: [i32; 3]) -> i32 {
    // In 1/10,000; the half keeps the product away from the boundaries of levels.
    let sum = (red * 2989 + green * 5870 + blue * 1140) as f32 + 0.5;
    // Below 256.
    level(sum * (UNIT / 10_000.0)) as i32
}

wide! {
    /// `(level - less) / divisor` for each channel.
    pub(super) fn stretch(pixels: &mut [Pixel], less: [u8; 3], divisor: [f32; 3]) {
        let less = less.map(i32::from);
        for pixel in pixels {
            let [red, green, blue] = split(*pixel);
            *pixel = join([
                level((red - less[0]) as f32 / divisor[0] * UNIT),
                level((green - less[1]) as f32 / divisor[1] * UNIT),
                level((blue - less[2]) as f32 / divisor[2] * UNIT),
            ]);
        }
    }
}

wide! {
    /// `scale * level + shift`.
    fn linear(pixels: &mut [Pixel], scale: f32, shift: f32) {
        let (scale, shift) = (scale * UNIT, shift * UNIT);
        for pixel in pixels {
            *pixel = join(split(*pixel).map(|channel| level(channel as f32 * scale + shift)));
        }
    }
}

/// `adjust_brightness`: `factor * level`.
pub(super) fn brightness(pixels: &mut [Pixel], factor: f64) {
    linear(pixels, factor as f32, 0.0);
}

/// `adjust_contrast`: mixes with the mean of grey over the image, for factors below 1, or moves away from it.
pub(super) fn contrast(pixels: &mut [Pixel], factor: f64) {
    let mean = grey_sum(pixels) as f64 / pixels.len() as f64;
    linear(pixels, factor as f32, (1.0 - factor) as f32 * mean as f32);
}

wide! {
    /// Sum of grey over all pixels.
    fn grey_sum(pixels: &[Pixel]) -> u64 {
        // 65,536 levels are less than 2^24.
        let parts = pixels.chunks(65_536);
        parts.map(|part| part.iter().map(|&pixel| grey(split(pixel)) as u32).sum::<u32>()).map(u64::from).sum()
    }
}

wide! {
    /// `adjust_saturation`: mixes with grey, or moves away from it.
    pub(super) fn saturation(pixels: &mut [Pixel], factor: f64) {
        let (scale, of_grey) = (factor as f32 * UNIT, (1.0 - factor) as f32 * UNIT);
        for pixel in pixels {
            let channels = split(*pixel);
            let shift = grey(channels) as f32 * of_grey;
            *pixel = join(channels.map(|channel| level(channel as f32 * scale + shift)));
        }
    }
}

wide! {
    /// `rgb_to_grayscale`, with three equal channels.
    pub(super) fn greyscale(pixels: &mut [Pixel]) {
        for pixel in pixels {
            // Below 256.
            let grey = grey(split(*pixel)) as u32;
            *pixel = (grey * 0x1_0101).to_le_bytes();
        }
    }
}

wide! {
    /// `adjust_hue`: turns the hue by `factor` of a circle, -0.5 to 0.5.
    pub(super) fn hue(pixels: &mut [Pixel], factor: f64) {
        // In sixths of a circle, not negative.
        let turn = (if factor < 0.0 { factor + 1.0 } else { factor } * 6.0) as f32;
        for pixel in pixels {
            let [red, green, blue] = split(*pixel);
            let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
            let range = most - least;
            let (from, difference) = if most == red {
                (0, green - blue)
            } else if most == green {
                (2, blue - red)
            } else {
                (4, red - green)
            };
            let hue = from as f32 + difference as f32 / range.max(1) as f32 + turn;
            let hue = if hue < 0.0 { hue + 6.0 } else { hue };
            let hue = if hue >= 6.0 { hue - 6.0 } else { hue };
            // The way from the least to the greatest level, as a function of the hue.
            let ways = [(hue - 3.0).abs() - 1.0, 2.0 - (hue - 2.0).abs(), 2.0 - (hue - 4.0).abs()];
            let (least, range) = (least as f32, range as f32);
            // torchvision converts by `floor(255.999 * number)`, with numbers of 0 to 1.
            let levels = ways.map(|way| level((least + range * way.clamp(0.0, 1.0)) * (255.999 / 255.0 * UNIT)));
            *pixel = join(levels);
        }
    }
}
