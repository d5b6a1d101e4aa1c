//! Maps levels to levels: solarize, posterize, invert, autocontrast, equalize.
//!
//! Source: torchvision 0.29, `transforms/v2/functional/_color.py`.

use super::{
    colour::{Pixel, stretch},
    wide::wide,
};

wide! {
    /// `solarize`: inverts levels of at least `threshold`.
    pub(super) fn solarize(pixels: &mut [Pixel], threshold: f64) {
        // torch compares uint8 with a number in float32.
        let threshold = threshold as f32;
        // Levels are integers; above 255, none is inverted, and a cast clips.
        if threshold > 255.0 {
            return;
        }
        let least = threshold.ceil() as u8;
        for level in pixels.as_flattened_mut() {
            *level = if *level >= least { !*level } else { *level };
        }
    }
}

wide! {
    /// `posterize`: keeps the upper `bits` of each level, 0 to 8.
    pub(super) fn posterize(pixels: &mut [Pixel], bits: u8) {
        let mask = !(255_u16 >> bits) as u8;
        for level in pixels.as_flattened_mut() {
            *level &= mask;
        }
    }
}

wide! {
    /// `invert`.
    pub(super) fn invert(pixels: &mut [Pixel]) {
        for level in pixels.as_flattened_mut() {
            *level = !*level;
        }
    }
}

wide! {
    /// Least and greatest level of each channel.
    fn extremes(pixels: &[Pixel]) -> (Pixel, Pixel) {
        const BLOCK: usize = 32;
        let (blocks, rest) = pixels.as_flattened().as_chunks::<BLOCK>();
        let (mut least, mut most) = ([255; BLOCK], [0; BLOCK]);
        for block in blocks {
            for at in 0..BLOCK {
                least[at] = block[at].min(least[at]);
                most[at] = block[at].max(most[at]);
            }
        }
        for (at, &level) in rest.iter().enumerate() {
            least[at] = level.min(least[at]);
            most[at] = level.max(most[at]);
        }
        let of = |channel: usize, levels: [u8; BLOCK]| levels.into_iter().skip(channel).step_by(4);
        let each = [0, 1, 2, 3];
        (
            each.map(|channel| of(channel, least).min().unwrap_or(0)),
            each.map(|channel| of(channel, most).max().unwrap_or(255)),
        )
    }
}

/// `autocontrast`: stretches each channel so that its levels range from 0 to 255; a channel of one level stays.
pub(super) fn autocontrast(pixels: &mut [Pixel]) {
    let ([red, green, blue, _], most) = extremes(pixels);
    let (mut less, mut divisor) = ([red, green, blue], [1.0; 3]);
    for ((less, divisor), most) in less.iter_mut().zip(&mut divisor).zip(most) {
        if *less < most {
            *divisor = f32::from(most - *less) * (1.0 / 255.0);
        } else {
            *less = 0;
        }
    }
    stretch(pixels, less, divisor);
}

/// `equalize`: makes the histogram of each channel as flat as a function of the level can.
pub(super) fn equalize(pixels: &mut [Pixel]) {
    // Two, because neighbours often have the same level, and would wait for each other.
    let mut counts = [[[0_u32; 256]; 3]; 2];
    for pair in pixels.chunks(2) {
        for (counts, pixel) in counts.iter_mut().zip(pair) {
            for (counts, &level) in counts.iter_mut().zip(pixel) {
                counts[usize::from(level)] += 1;
            }
        }
    }
    let [mut red, mut green, mut blue] = [[0; 256]; 3];
    for (channel, table) in [&mut red, &mut green, &mut blue].into_iter().enumerate() {
        *table = equal(|level| u64::from(counts[0][channel][level]) + u64::from(counts[1][channel][level]));
    }
    for pixel in pixels {
        *pixel = [red[usize::from(pixel[0])], green[usize::from(pixel[1])], blue[usize::from(pixel[2])], 0];
    }
}

/// The table of one channel, from the number of its pixels at each level.
fn equal(count: impl Fn(usize) -> u64) -> [u8; 256] {
    let mut table: [u8; 256] = std::array::from_fn(|level| level as u8);
    let all: u64 = (0..256).map(&count).sum();
    let last = (0..256).rev().map(&count).find(|&count| count > 0).unwrap_or(0);
    let step = (all - last) / 255;
    if step == 0 {
        return table;
    }
    let mut below = 0;
    for (level, entry) in table.iter_mut().enumerate() {
        // At most 255 after `min`; for level 0 it is 0.
        *entry = ((below + step / 2) / step).min(255) as u8;
        below += count(level);
    }
    table
}
