//! Mixes the images of a batch on the numbers of their slots: `MixUp` and `CutMix`. Each image is mixed with the one before it, and
//! the first with the last. All images of a batch have the same share and the same box.
//!
//! Source: torchvision 0.29, `MixUp` and `CutMix`. Needs no copy of the batch: at most [`CHUNK`] bytes, or a row of a slot.

use std::ops::Range;

use super::{
    half::{bfloat16, float16, of_float16},
    random::{Draws, view_key, wide_exp, wide_ln},
    shape::{Axes, Dtype, Size},
};

/// A way to mix two images. The share of an image has the distribution Beta(`alpha`, `alpha`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixing {
    /// Weighted mean of all numbers.
    MixUp {
        /// Above 0, up to 100.
        alpha: f64,
    },
    /// A box comes from the other image.
    CutMix {
        /// Above 0, up to 100.
        alpha: f64,
    },
}

// Purposes of the random numbers of a batch.
const CHOICE: u64 = 0;
const LEFT: u64 = 1;
const TOP: u64 = 2;
/// Try `n` uses numbers 2 n further.
const FIRST_SHARE: u64 = 3;
/// A try succeeds with a probability of at least 0.08.
const TRIES: u64 = 1000;
/// The number of a view that no image has: its key is for the batch.
const BATCH: u64 = u64::MAX;
/// Bytes of a slot that are mixed at a time.
const CHUNK: usize = 16 << 10;

impl Mixing {
    pub(super) fn check(self) -> Result<(), String> {
        let (Self::MixUp { alpha } | Self::CutMix { alpha }) = self;
        match alpha > 0.0 && alpha <= 100.0 {
            true => Ok(()),
            false => Err(format!("mixing: alpha of {alpha}: above 0 and up to 100 is possible")),
        }
    }
}

/// The mixing of one batch.
#[derive(Clone, Debug, PartialEq)]
enum Drawn {
    MixUp { own: f64 },
    CutMix { rows: Range<usize>, columns: Range<usize> },
}

/// Draws the mixing of a batch; `None` for none.
fn draw(choices: &[(Mixing, f64)], size: Size, draws: Draws) -> Option<Drawn> {
    let mut rest = draws.unit(CHOICE);
    let (mixing, _) = choices.iter().find(|(_, p)| {
        rest -= p;
        rest < 0.0
    })?;
    Some(match *mixing {
        Mixing::MixUp { alpha } => Drawn::MixUp { own: beta(alpha, draws) },
        Mixing::CutMix { alpha } => {
            let half = 0.5 * (1.0 - beta(alpha, draws)).sqrt();
            // Sides are at most 65,535.
            let part = |number, side: u32| {
                let (center, half) = (draws.below(number, side), (half * f64::from(side)) as u32);
                center.saturating_sub(half) as usize..(center + half).min(side) as usize
            };
            Drawn::CutMix { rows: part(TOP, size.height), columns: part(LEFT, size.width) }
        }
    })
}

/// A number with the distribution Beta(`alpha`, `alpha`): for `alpha` of at least 1 by rejection from equal numbers, below by Jöhnk's
/// method (Metrika 8, 1964).
fn beta(alpha: f64, draws: Draws) -> f64 {
    let pair = |number| (draws.unit(number), draws.unit(number + 1));
    let found = (0..TRIES).map(|attempt| pair(FIRST_SHARE + 2 * attempt)).find_map(|(one, other)| {
        if alpha == 1.0 {
            return Some(one);
        }
        // Logarithms need numbers above 0.
        if one == 0.0 || other == 0.0 {
            return None;
        }
        if alpha > 1.0 {
            let density = (alpha - 1.0) * wide_ln(4.0 * one * (1.0 - one));
            return (wide_ln(other) <= density).then_some(one);
        }
        let (one, other) = (wide_ln(one) / alpha, wide_ln(other) / alpha);
        (wide_exp(one) + wide_exp(other) <= 1.0).then(|| 1.0 / (1.0 + wide_exp(other - one)))
    });
    found.unwrap_or(0.5)
}

/// Mixes the images of a batch by one of `choices`, or not. Returns the share of each image that is its own.
pub(super) fn apply(
    choices: &[(Mixing, f64)],
    (size, axes, dtype): (Size, Axes, Dtype),
    random_key: u64,
    slots: &mut [u8],
) -> f64 {
    let Some(drawn) = draw(choices, size, Draws(view_key(random_key, BATCH))) else { return 1.0 };
    let (height, width) = (size.height as usize, size.width as usize);
    let slot_bytes = 3 * height * width * dtype.bytes();
    match drawn {
        Drawn::MixUp { own } => {
            // In single precision, as torch computes them.
            let weights = (own as f32, (1.0 - own) as f32);
            for start in (0..slot_bytes).step_by(CHUNK) {
                let range = start..(start + CHUNK).min(slot_bytes);
                each_with_the_one_before(slots, slot_bytes, &range, |one, other| mean(dtype, weights, one, other));
            }
            own
        }
        Drawn::CutMix { rows, columns } => {
            let (planes, number) = match axes {
                Axes::Chw => (3, dtype.bytes()),
                Axes::Hwc => (1, 3 * dtype.bytes()),
            };
            for row in (0..planes).flat_map(|plane| rows.clone().map(move |y| plane * height + y)) {
                let range = (row * width + columns.start) * number..(row * width + columns.end) * number;
                each_with_the_one_before(slots, slot_bytes, &range, <[u8]>::copy_from_slice);
            }
            1.0 - (rows.len() * columns.len()) as f64 / (height * width) as f64
        }
    }
}

/// Calls `combine` with the bytes `range` of each slot and of the slot before it, as they were.
fn each_with_the_one_before(
    slots: &mut [u8],
    slot_bytes: usize,
    range: &Range<usize>,
    combine: impl Fn(&mut [u8], &[u8]),
) {
    let Some(last) = (slots.len() / slot_bytes).checked_sub(1) else { return };
    let saved = slots[last * slot_bytes..][range.clone()].to_vec();
    for number in (1..=last).rev() {
        let (before, from) = slots.split_at_mut(number * slot_bytes);
        combine(&mut from[range.clone()], &before[(number - 1) * slot_bytes..][range.clone()]);
    }
    combine(&mut slots[range.clone()], &saved);
}

/// The weighted mean of two images, into the first.
fn mean(dtype: Dtype, (own, rest): (f32, f32), into: &mut [u8], other: &[u8]) {
    let of = |one: f32, other: f32| other * rest + one * own;
    match dtype {
        // At most 255.5, and conversion rounds down.
        Dtype::Uint8 => numbers(into, other, |[one], [other]| [(of(one.into(), other.into()) + 0.5) as u8]),
        Dtype::Float32 => {
            numbers(into, other, |one, other| of(f32::from_ne_bytes(one), f32::from_ne_bytes(other)).to_ne_bytes())
        }
        Dtype::Float16 => numbers(into, other, |one, other| {
            let [one, other] = [one, other].map(|half| of_float16(u16::from_ne_bytes(half)));
            float16(of(one, other)).to_ne_bytes()
        }),
        Dtype::Bfloat16 => numbers(into, other, |one, other| {
            let [one, other] = [one, other].map(|half| f32::from_bits(u32::from(u16::from_ne_bytes(half)) << 16));
            bfloat16(of(one, other)).to_ne_bytes()
        }),
    }
}

#[inline(always)]
fn numbers<const N: usize>(into: &mut [u8], other: &[u8], combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (into, _) = into.as_chunks_mut::<N>();
    let (other, _) = other.as_chunks::<N>();
    into.iter_mut().zip(other).for_each(|(one, other)| *one = combine(*one, *other));
}

#[cfg(test)]
mod tests {
    use shardpack_format::permutation::mix;

    use super::{
        super::{Cut, Options, Transform},
        *,
    };

    const SIZE: Size = Size { height: 7, width: 9 };

    fn transform(dtype: Dtype, axes: Axes, choices: Vec<(Mixing, f64)>) -> Transform {
        let options = Options { dtype, axes, ..Options::new(Cut::Whole { size: SIZE }) };
        Transform::new(options).unwrap().mixed(choices).unwrap()
    }

    /// The numbers of slots, by bytes of the type.
    fn floats(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
        match dtype {
            Dtype::Uint8 => bytes.iter().map(|&level| level.into()).collect(),
            Dtype::Float32 => bytes.as_chunks().0.iter().map(|&one| f32::from_ne_bytes(one)).collect(),
            Dtype::Float16 => bytes.as_chunks().0.iter().map(|&one| of_float16(u16::from_ne_bytes(one))).collect(),
            Dtype::Bfloat16 => {
                let single = |&one: &[u8; 2]| f32::from_bits(u32::from(u16::from_ne_bytes(one)) << 16);
                bytes.as_chunks().0.iter().map(single).collect()
            }
        }
    }

    fn slots(dtype: Dtype, count: usize) -> Vec<u8> {
        (0..count as u64 * 7 * 9 * 3)
            .flat_map(|at| {
                let level = mix(at) as u8;
                let number = f32::from(level) / 50.0 - 2.0;
                match dtype {
                    Dtype::Uint8 => vec![level],
                    Dtype::Float32 => number.to_ne_bytes().to_vec(),
                    Dtype::Float16 => float16(number).to_ne_bytes().to_vec(),
                    Dtype::Bfloat16 => bfloat16(number).to_ne_bytes().to_vec(),
                }
            })
            .collect()
    }

    #[test]
    fn each_image_is_the_mean_of_its_own_and_the_one_before() {
        for (dtype, most) in
            [(Dtype::Uint8, 0.5001), (Dtype::Float32, 0.0), (Dtype::Float16, 0.002), (Dtype::Bfloat16, 0.016)]
        {
            let transform = transform(dtype, Axes::Chw, vec![(Mixing::MixUp { alpha: 0.8 }, 1.0)]);
            for count in [1, 2, 5] {
                let (before, mut after) = (slots(dtype, count), slots(dtype, count));
                let own = transform.mix(count as u64, &mut after);
                let (before, after) = (floats(dtype, &before), floats(dtype, &after));
                let numbers = before.len() / count;
                let (one, rest) = (own as f32, (1.0 - own) as f32);
                for (at, mixed) in after.into_iter().enumerate() {
                    let other = before[(at + before.len() - numbers) % before.len()];
                    let expected = other * rest + before[at] * one;
                    assert!((mixed - expected).abs() <= most, "{dtype:?} {at}: {mixed} {expected}");
                }
            }
        }
    }

    #[test]
    fn a_box_comes_from_the_one_before() {
        for axes in [Axes::Chw, Axes::Hwc] {
            for dtype in [Dtype::Uint8, Dtype::Float32] {
                let transform = transform(dtype, axes, vec![(Mixing::CutMix { alpha: 1.0 }, 1.0)]);
                let mut areas = 0;
                for key in 0..50 {
                    let (before, mut after) = (slots(dtype, 3), slots(dtype, 3));
                    let own = transform.mix(key, &mut after);
                    let (before, after) = (floats(dtype, &before), floats(dtype, &after));
                    let drawn = draw(transform.mixing(), SIZE, Draws(view_key(key, BATCH))).unwrap();
                    let Drawn::CutMix { rows, columns } = drawn else { panic!("{drawn:?}") };
                    for (at, mixed) in after.into_iter().enumerate() {
                        let (y, x) = match axes {
                            Axes::Chw => (at / 9 % 7, at % 9),
                            Axes::Hwc => (at / 27 % 7, at / 3 % 9),
                        };
                        let is_other = rows.contains(&y) && columns.contains(&x);
                        let from = if is_other { (at + 2 * 7 * 9 * 3) % before.len() } else { at };
                        assert_eq!(mixed, before[from], "{axes:?} {key} {at}");
                    }
                    let area = rows.len() * columns.len();
                    assert_eq!(own, 1.0 - area as f64 / 63.0);
                    areas += area;
                }
                assert!((300..2500).contains(&areas), "{areas}");
            }
        }
    }

    #[test]
    fn shares_have_the_moments_of_their_distribution() {
        for alpha in [0.05, 0.2, 0.8, 1.0, 1.7, 8.0, 100.0] {
            let shares: Vec<f64> = (0..40_000).map(|key| beta(alpha, Draws(mix(key)))).collect();
            assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{alpha}");
            let mean = shares.iter().sum::<f64>() / 40_000.0;
            let variance = shares.iter().map(|share| (share - 0.5).powi(2)).sum::<f64>() / 40_000.0;
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!(
                (mean - 0.5).abs() < 0.01 && (variance / expected - 1.0).abs() < 0.04,
                "{alpha}: {mean} {variance}"
            );
        }
    }

    #[test]
    fn each_way_has_its_probability() {
        let choices = vec![(Mixing::MixUp { alpha: 1.0 }, 0.5), (Mixing::CutMix { alpha: 1.0 }, 0.3)];
        let mut counts = [0; 3];
        for key in 0..20_000 {
            counts[match draw(&choices, SIZE, Draws(mix(key))) {
                Some(Drawn::MixUp { .. }) => 0,
                Some(Drawn::CutMix { .. }) => 1,
                None => 2,
            }] += 1;
        }
        for (count, expected) in counts.into_iter().zip([10_000, 6_000, 4_000]) {
            assert!(i32::abs(count - expected) < 300, "{counts:?}");
        }
        let none = transform(Dtype::Uint8, Axes::Chw, Vec::new());
        let mut images = slots(Dtype::Uint8, 2);
        assert_eq!((none.mix(3, &mut images), images), (1.0, slots(Dtype::Uint8, 2)));
        let some = transform(Dtype::Uint8, Axes::Chw, vec![(Mixing::MixUp { alpha: 1.0 }, 1.0)]);
        some.mix(3, &mut []);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let transform = Transform::new(Options::new(Cut::Whole { size: SIZE })).unwrap();
        for (mixing, p, reason) in [
            (Mixing::MixUp { alpha: 0.0 }, 1.0, "alpha of 0"),
            (Mixing::CutMix { alpha: f64::NAN }, 1.0, "alpha of NaN"),
            (Mixing::CutMix { alpha: 101.0 }, 1.0, "alpha of 101"),
            (Mixing::MixUp { alpha: 1.0 }, 1.5, "1.5"),
        ] {
            let refused = transform.clone().mixed(vec![(mixing, p)]).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
