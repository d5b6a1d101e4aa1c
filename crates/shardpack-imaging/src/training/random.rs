//! Generates the random numbers of one image: a function of a key and of a number for the purpose. No draw depends on
//! earlier draws, and other languages can implement it (docs/reference/transforms.md).
//!
//! Uses only additions, multiplications and divisions of IEEE doubles, which are the same on every machine; logarithms
//! and powers of a system library are not.

use std::f64::consts::LN_2;

use shardpack_format::permutation::mix;

/// The odd increment of SplitMix64: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The random key of view `number` of an image with the key `key`; that of view 0 is `key`.
pub fn view_key(key: u64, number: u64) -> u64 {
    if number == 0 { key } else { mix(key ^ mix(number)) }
}

/// The random numbers of one image, by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws(pub(super) u64);

impl Draws {
    /// 64 random bits: the `number`-th output of SplitMix64, from 0, with the key as its state.
    fn bits(self, number: u64) -> u64 {
        mix(self.0.wrapping_add(STEP.wrapping_mul(number + 1)))
    }

    /// Four random numbers of 16 bits.
    pub(super) fn words(self, number: u64) -> [u16; 4] {
        let bits = self.bits(number);
        [bits as u16, (bits >> 16) as u16, (bits >> 32) as u16, (bits >> 48) as u16]
    }

    /// At least 0 and less than 1: a multiple of 2^-53.
    pub(super) fn unit(self, number: u64) -> f64 {
        (self.bits(number) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// At least `low` and less than `high`, or `low` if they are equal.
    pub(super) fn between(self, number: u64, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * self.unit(number)
    }

    /// At least 0 and less than `end`, which is not 0.
    pub(super) fn below(self, number: u64, end: u32) -> u32 {
        // Less than 2^32, because the bits are less than 2^64.
        ((u128::from(self.bits(number)) * u128::from(end)) >> 64) as u32
    }
}

/// e to the power of `x`, for `x` of -7 to 7, to 1 part in 10^14.
pub(super) fn exp(x: f64) -> f64 {
    let small = x / 16.0;
    let mut power = 1.0;
    for term in (1..=16).rev() {
        power = 1.0 + small * power / f64::from(term);
    }
    for _ in 0..4 {
        power *= power;
    }
    power
}

/// The natural logarithm of `x`, for `x` of 1/1000 to 1000, by Halley's method with [`exp`].
pub(super) fn ln(x: f64) -> f64 {
    let mut logarithm = 0.0;
    for _ in 0..20 {
        let power = exp(logarithm);
        logarithm += 2.0 * (x - power) / (x + power);
    }
    logarithm
}

/// As [`exp`], for any `x`: 0 below -700, infinite above 700.
pub(super) fn wide_exp(x: f64) -> f64 {
    if x.abs() > 700.0 {
        return if x > 0.0 { f64::INFINITY } else { 0.0 };
    }
    let power = (x / LN_2).round();
    // -1010 to 1010, so that the exponent is that of a normal number.
    exp(x - power * LN_2) * f64::from_bits(((power as i64 + 1023) as u64) << 52)
}

/// As [`ln`], for any normal `x` above 0.
pub(super) fn wide_ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let (exponent, significand) = ((bits >> 52) as i32 - 1023, bits & ((1 << 52) - 1) | 1023 << 52);
    ln(f64::from_bits(significand)) + f64::from(exponent) * LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_logarithms_are_those_of_the_library_to_1_part_in_10_to_the_14() {
        for step in 0..=10_000 {
            let x = 0.001 * (1e6_f64).powf(f64::from(step) / 10_000.0);
            assert!((ln(x) - x.ln()).abs() < 1e-14, "{x}");
            assert!((exp(x.ln()) / x - 1.0).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn wide_powers_and_logarithms_are_those_of_the_library() {
        for step in -6990..=6990 {
            let x = f64::from(step) / 10.0;
            assert!((wide_exp(x) / x.exp() - 1.0).abs() < 1e-12, "{x}");
            assert!((wide_ln(x.exp()) - x).abs() < 1e-12 * x.abs().max(1.0), "{x}");
        }
        assert_eq!((wide_exp(-1e9), wide_exp(1e9)), (0.0, f64::INFINITY));
    }

    #[test]
    fn draws_cover_their_ranges() {
        let draws: Vec<_> = (0..10_000).map(|key| Draws(mix(key))).collect();
        let mean = draws.iter().map(|draws| draws.unit(3)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        for end in [1, 2, 7, u32::MAX] {
            assert!(draws.iter().all(|draws| draws.below(5, end) < end));
        }
        for value in 0..7 {
            let count = draws.iter().filter(|draws| draws.below(0, 7) == value).count();
            assert!((1300..1560).contains(&count), "{value}: {count}");
        }
    }
}
