//! Erases a random box of a slot: `RandomErasing`, on the numbers of the slot, after their normalisation.
//!
//! Source: torchvision 0.29, `RandomErasing.make_params`: ten tries, else nothing is erased.

use super::{
    super::{
        half::{bfloat16, float16},
        random::{self, Draws},
        shape::{Axes, Dtype, Size},
    },
    chance, range,
};

/// Pixels of a slot.
struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

/// `RandomErasing`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Erasing {
    /// Probability, 0 to 1.
    pub p: f64,
    /// Minimum and maximum share of the slot's area, 0 to 1.
    pub scale: (f64, f64),
    /// Minimum and maximum of height divided by width: 1/1000 to 1000.
    pub ratio: (f64, f64),
    /// Written to red, green and blue: numbers of the slot, after normalisation; for uint8, levels. `None`: a random number for each
    /// channel of each pixel, with mean 0 and variance 1; for floats only.
    pub value: Option<[f32; 3]>,
}

// Purposes of an image's random numbers.
const CHANCE: u64 = 30;
/// The next number is for the aspect; try `n` uses numbers 2 n further.
const FIRST_AREA: u64 = 31;
const TOP: u64 = 51;
const LEFT: u64 = 52;
const TRIES: u64 = 10;
/// Three numbers for each channel of each pixel.
const FIRST_NUMBER: u64 = 1 << 40;

impl Erasing {
    /// torchvision's defaults.
    pub const DEFAULT: Self = Self { p: 0.5, scale: (0.02, 0.33), ratio: (0.3, 3.3), value: Some([0.0; 3]) };

    /// Why it is invalid for slots of `dtype`.
    pub(in super::super) fn check(&self, dtype: Dtype) -> Result<(), String> {
        chance("erasing", self.p)?;
        range("erasing: scale", self.scale, 0.0, 1.0)?;
        range("erasing: ratio", self.ratio, 1e-3, 1e3)?;
        let fits = |number: f32| match dtype {
            Dtype::Uint8 => (0.0..=255.0).contains(&number) && number.fract() == 0.0,
            _ => number.is_finite(),
        };
        let Some(value) = self.value else {
            return match dtype {
                Dtype::Uint8 => Err("erasing: random numbers need floats; uint8 holds levels".to_owned()),
                _ => Ok(()),
            };
        };
        match value.iter().find(|&&number| !fits(number)) {
            Some(number) => Err(format!("erasing: the value {number} is no number of such a slot")),
            None => Ok(()),
        }
    }

    /// The box that is erased in a slot of `size`, if any.
    fn area(&self, size: Size, draws: Draws) -> Option<Area> {
        if draws.unit(CHANCE) >= self.p {
            return None;
        }
        let all = f64::from(size.height) * f64::from(size.width);
        let logarithms = (random::ln(self.ratio.0), random::ln(self.ratio.1));
        (0..TRIES).map(|attempt| FIRST_AREA + 2 * attempt).find_map(|number| {
            let area = all * draws.between(number, self.scale);
            let aspect = random::exp(draws.between(number + 1, logarithms));
            // Python rounds halves to the even number; below 65,536 if they fit.
            let height = (area * aspect).sqrt().round_ties_even() as u32;
            let width = (area / aspect).sqrt().round_ties_even() as u32;
            (height < size.height && width < size.width).then(|| Area {
                left: draws.below(LEFT, size.width - width + 1) as usize,
                top: draws.below(TOP, size.height - height + 1) as usize,
                width: width as usize,
                height: height as usize,
            })
        })
    }

    /// Erases a box of the slot, or nothing.
    pub(in super::super) fn apply(&self, size: Size, axes: Axes, dtype: Dtype, random_key: u64, slot: &mut [u8]) {
        let Some(area) = self.area(size, Draws(random_key)) else { return };
        let number = |channel: usize, at: usize| match self.value {
            Some(value) => value[channel],
            // A slot has at most 2^28 pixels.
            None => normal(Draws(random_key), FIRST_NUMBER + 3 * (3 * at + channel) as u64),
        };
        match dtype {
            Dtype::Uint8 => fill(|channel, at| [number(channel, at) as u8], area, size, axes, slot),
            Dtype::Float32 => fill(|channel, at| number(channel, at).to_ne_bytes(), area, size, axes, slot),
            Dtype::Float16 => fill(|channel, at| float16(number(channel, at)).to_ne_bytes(), area, size, axes, slot),
            Dtype::Bfloat16 => fill(|channel, at| bfloat16(number(channel, at)).to_ne_bytes(), area, size, axes, slot),
        }
    }
}

/// The sum of twelve equal random numbers of -1/2 to 1/2, from three draws: mean 0, variance 1, and close to a normal distribution.
fn normal(draws: Draws, number: u64) -> f32 {
    let sum: u32 = (number..number + 3).flat_map(|number| draws.words(number)).map(u32::from).sum();
    // Each word stands for the middle of its step.
    (sum as f32 + 6.0) / 65_536.0 - 6.0
}

/// Writes `number(channel, pixel)` to the box; pixels are those of the slot, row by row.
fn fill<const N: usize>(number: impl Fn(usize, usize) -> [u8; N], area: Area, size: Size, axes: Axes, slot: &mut [u8]) {
    let (numbers, _) = slot.as_chunks_mut::<N>();
    let (across, down) = (size.width as usize, size.height as usize);
    for start in (area.top..area.top + area.height).map(|y| y * across + area.left) {
        let pixels = start..start + area.width;
        match axes {
            Axes::Chw => (0..3).for_each(|channel| {
                let row = numbers[channel * down * across..][pixels.clone()].iter_mut();
                row.zip(pixels.clone()).for_each(|(one, at)| *one = number(channel, at));
            }),
            Axes::Hwc => {
                let row = numbers.as_chunks_mut::<3>().0[pixels.clone()].iter_mut();
                row.zip(pixels).for_each(|(pixel, at)| *pixel = [0, 1, 2].map(|channel| number(channel, at)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_have_mean_0_and_variance_1_and_are_those_of_each_layout() {
        let (size, erasing) =
            (Size::square(100), Erasing { p: 1.0, scale: (0.3, 0.3), value: None, ..Erasing::DEFAULT });
        let erased = |axes| {
            let mut slot: Vec<u8> = [9.0_f32; 30_000].into_iter().flat_map(f32::to_ne_bytes).collect();
            erasing.apply(size, axes, Dtype::Float32, 5, &mut slot);
            slot.as_chunks().0.iter().map(|&one| f32::from_ne_bytes(one)).collect::<Vec<f32>>()
        };
        let (planes, pixels) = (erased(Axes::Chw), erased(Axes::Hwc));
        let in_planes: Vec<f32> = (0..30_000).map(|at| planes[at % 3 * 10_000 + at / 3]).collect();
        assert_eq!(in_planes, pixels);
        let numbers: Vec<f64> = pixels.into_iter().filter(|&one| one != 9.0).map(f64::from).collect();
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|one| one * one).sum::<f64>() / count;
        assert!(
            (8_700.0..9_300.0).contains(&count) && mean.abs() < 0.04 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
        let beyond = numbers.iter().filter(|one| one.abs() > 1.96).count() as f64 / count;
        assert!((0.04..0.06).contains(&beyond), "{beyond}");
    }
}
