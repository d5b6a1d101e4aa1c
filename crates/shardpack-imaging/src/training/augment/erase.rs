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
    /// Written to red, green and blue: numbers of the slot, after normalisation. For uint8, levels.
    pub value: [f32; 3],
}

// Purposes of an image's random numbers.
const CHANCE: u64 = 30;
/// The next number is for the aspect; try `n` uses numbers 2 n further.
const FIRST_AREA: u64 = 31;
const TOP: u64 = 51;
const LEFT: u64 = 52;
const TRIES: u64 = 10;

impl Erasing {
    /// torchvision's defaults.
    pub const DEFAULT: Self = Self { p: 0.5, scale: (0.02, 0.33), ratio: (0.3, 3.3), value: [0.0; 3] };

    /// Why it is invalid for slots of `dtype`.
    pub(in super::super) fn check(&self, dtype: Dtype) -> Result<(), String> {
        chance("erasing", self.p)?;
        range("erasing: scale", self.scale, 0.0, 1.0)?;
        range("erasing: ratio", self.ratio, 1e-3, 1e3)?;
        let fits = |number: f32| match dtype {
            Dtype::Uint8 => (0.0..=255.0).contains(&number) && number.fract() == 0.0,
            _ => number.is_finite(),
        };
        match self.value.iter().find(|&&number| !fits(number)) {
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
        match dtype {
            Dtype::Uint8 => fill(self.value.map(|number| [number as u8]), area, size, axes, slot),
            Dtype::Float32 => fill(self.value.map(f32::to_ne_bytes), area, size, axes, slot),
            Dtype::Float16 => fill(self.value.map(|one| float16(one).to_ne_bytes()), area, size, axes, slot),
            Dtype::Bfloat16 => fill(self.value.map(|one| bfloat16(one).to_ne_bytes()), area, size, axes, slot),
        }
    }
}

fn fill<const N: usize>(value: [[u8; N]; 3], area: Area, size: Size, axes: Axes, slot: &mut [u8]) {
    let (numbers, _) = slot.as_chunks_mut::<N>();
    let Area { left, top, width, height } = area;
    let (across, down) = (size.width as usize, size.height as usize);
    for y in top..top + height {
        match axes {
            Axes::Chw => {
                for (channel, value) in value.into_iter().enumerate() {
                    numbers[(channel * down + y) * across + left..][..width].fill(value);
                }
            }
            Axes::Hwc => numbers.as_chunks_mut::<3>().0[y * across + left..][..width].fill(value),
        }
    }
}
