//! Draws the adjustments of `RandAugment` and `TrivialAugmentWide`.
//!
//! Source: torchvision 0.29, `transforms/v2/_auto_augment.py`; magnitudes in single precision, as `torch.linspace`.

use super::{
    super::{random::Draws, shape::Size},
    Adjustment,
};

/// Greatest magnitudes of a policy.
struct Space {
    shear: f32,
    /// Pixels to the right, and down.
    translate: (f32, f32),
    degrees: f32,
    /// Of brightness, saturation, contrast and sharpness: factors are 1 with this added or subtracted.
    factor: f32,
    /// Bits that posterize drops.
    bits: f32,
}

/// Kinds of adjustments in a policy; all are equally likely.
const KINDS: u32 = 14;

/// `RandAugment`: `count` adjustments of the same magnitude, `magnitude` of `bins`.
pub(super) fn rand_augment(
    (count, magnitude, bins): (u32, u32, u32),
    size: Size,
    draws: Draws,
    first: u64,
    into: &mut Vec<Adjustment>,
) {
    // Below 2^17, exact.
    let translate = |side: u32| (150.0 / 331.0 * f64::from(side)) as f32;
    let space = Space {
        shear: 0.3,
        translate: (translate(size.width), translate(size.height)),
        degrees: 30.0,
        factor: 0.9,
        bits: 4.0,
    };
    for number in (first..).step_by(2).take(count as usize) {
        let negative = draws.unit(number + 1) <= 0.5;
        into.extend(space.adjustment(draws.below(number, KINDS), magnitude, bins, negative));
    }
}

/// `TrivialAugmentWide`: one adjustment of any magnitude.
pub(super) fn trivial_augment_wide(bins: u32, draws: Draws, first: u64, into: &mut Vec<Adjustment>) {
    let space = Space { shear: 0.99, translate: (32.0, 32.0), degrees: 135.0, factor: 0.99, bits: 6.0 };
    let negative = draws.unit(first + 1) <= 0.5;
    into.extend(space.adjustment(draws.below(first, KINDS), draws.below(first + 2, bins), bins, negative));
}

impl Space {
    /// The adjustment of a kind, below [`KINDS`], in the order of torchvision's tables; `None` is the identity.
    fn adjustment(&self, kind: u32, magnitude: u32, bins: u32, negative: bool) -> Option<Adjustment> {
        let unsigned = |most: f32| f64::from(step(0.0, most, magnitude, bins));
        let signed = |most: f32| if negative { -unsigned(most) } else { unsigned(most) };
        Some(match kind {
            0 => return None,
            1 => Adjustment::ShearX(signed(self.shear)),
            2 => Adjustment::ShearY(signed(self.shear)),
            // Whole pixels, rounded towards 0.
            3 => Adjustment::TranslateX(signed(self.translate.0) as i32),
            4 => Adjustment::TranslateY(signed(self.translate.1) as i32),
            5 => Adjustment::Rotate(signed(self.degrees)),
            6 => Adjustment::Brightness(1.0 + signed(self.factor)),
            7 => Adjustment::Saturation(1.0 + signed(self.factor)),
            8 => Adjustment::Contrast(1.0 + signed(self.factor)),
            9 => Adjustment::Sharpness(1.0 + signed(self.factor)),
            10 => {
                let dropped = magnitude as f32 / ((bins - 1) as f32 / self.bits);
                Adjustment::Posterize((8.0 - dropped).round_ties_even() as u8)
            }
            11 => Adjustment::Solarize(255.0 * f64::from(step(1.0, 0.0, magnitude, bins))),
            12 => Adjustment::Autocontrast,
            _ => Adjustment::Equalize,
        })
    }
}

/// Number `at` of `torch.linspace(start, end, count)`, for a count of at least 2.
fn step(start: f32, end: f32, at: u32, count: u32) -> f32 {
    let step = (end - start) / (count - 1) as f32;
    // From the nearer end, as PyTorch does.
    if at < count / 2 { start + step * at as f32 } else { end - step * (count - 1 - at) as f32 }
}
