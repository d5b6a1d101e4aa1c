//! Augments the pixels of a slot before they are converted: colours, blur, geometry and policies, as torchvision does.
//!
//! An [`Operation`] is a step with its ranges. For each image it draws [`Adjustment`]s, which have fixed parameters.
//!
//! Holds at all times: the pixels of a slot depend only on those before, the operations and the key, not on the CPU;
//! pixels are within 1 level of torchvision's on uint8 tensors (docs/reference/transforms.md).

mod affine;
mod blur;
mod colour;
mod erase;
mod levels;
mod policies;
#[cfg(test)]
mod tests;
mod wide;

pub use erase::Erasing;

use super::{random::Draws, shape::Size};

/// A range of factors, from the least to the greatest.
pub type Range = (f64, f64);

/// A random step, with torchvision's names and parameters. Probabilities `p` are 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// `ColorJitter`: the given ones in random order, each with a factor from its range.
    ColorJitter {
        /// Factors of 0 to 100.
        brightness: Option<Range>,
        /// Factors of 0 to 100.
        contrast: Option<Range>,
        /// Factors of 0 to 100.
        saturation: Option<Range>,
        /// Shares of the circle of hues, -0.5 to 0.5.
        hue: Option<Range>,
    },
    /// `GaussianBlur`, with the same sigma in both directions.
    GaussianBlur {
        /// Pixels across and down: odd, and less than twice the sides of the slot.
        kernel: (u32, u32),
        /// Standard deviations in pixels, 0.01 to 1000.
        sigma: Range,
    },
    /// An adjustment with its probability: `RandomGrayscale`, `RandomSolarize` and others.
    Random(Adjustment, f64),
    /// `RandAugment`.
    RandAugment {
        /// Number of adjustments, up to 100.
        num_ops: u32,
        /// Below `num_magnitude_bins`.
        magnitude: u32,
        /// 2 to 1000.
        num_magnitude_bins: u32,
    },
    /// `TrivialAugmentWide`.
    TrivialAugmentWide {
        /// 2 to 1000.
        num_magnitude_bins: u32,
    },
    /// `RandomApply`: all or none.
    RandomApply(Vec<Operation>, f64),
}

/// A step with fixed parameters: a function of `torchvision.transforms.v2.functional` on a uint8 tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Adjustment {
    /// `adjust_brightness`: a factor of 0 to 100.
    Brightness(f64),
    /// `adjust_contrast`: a factor of 0 to 100.
    Contrast(f64),
    /// `adjust_saturation`: a factor of 0 to 100.
    Saturation(f64),
    /// `adjust_hue`: a share of the circle of hues, -0.5 to 0.5.
    Hue(f64),
    /// `rgb_to_grayscale`, to three channels.
    Grayscale,
    /// `gaussian_blur`.
    GaussianBlur {
        /// Pixels across and down: odd, and less than twice the sides of the slot.
        kernel: (u32, u32),
        /// Standard deviation in pixels, 0.01 to 1000.
        sigma: f64,
    },
    /// `adjust_sharpness`: a factor of 0 to 100.
    Sharpness(f64),
    /// `solarize`: levels of at least this threshold, 0 to 255, are inverted.
    Solarize(f64),
    /// `posterize`: this number of bits, 0 to 8, is kept.
    Posterize(u8),
    /// `invert`.
    Invert,
    /// `autocontrast`.
    Autocontrast,
    /// `equalize`.
    Equalize,
    /// `affine` with a shear of rows by this many pixels for each row; the upper edge stays.
    ShearX(f64),
    /// `affine` with a shear of columns by this many pixels for each column; the left edge stays.
    ShearY(f64),
    /// `affine`: this many pixels to the right.
    TranslateX(i32),
    /// `affine`: this many pixels down.
    TranslateY(i32),
    /// `rotate`: anticlockwise about the middle, by degrees of -180 to 180.
    Rotate(f64),
}

/// Applies operations to pixels, one image after the other; keeps its buffers.
#[derive(Default)]
pub(super) struct Augmenter {
    blur: blur::Buffers,
    affine: affine::Buffers,
    drawn: Vec<Adjustment>,
}

/// Random numbers of operation `n` begin at `(n + 1)` times this; the steps of a `RandomApply` follow it in the count.
const NUMBERS: u64 = 1000;

/// `value` is a probability.
pub(super) fn chance(what: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{what}: {value} is no probability of 0 to 1")) }
}

/// Both numbers are in order and within these limits.
fn range(what: &str, (low, high): Range, least: f64, most: f64) -> Result<(), String> {
    if least <= low && low <= high && high <= most {
        return Ok(());
    }
    Err(format!("{what}: {low} to {high} is no range of {least} to {most}"))
}

impl Operation {
    /// Why it is invalid for slots of `size`.
    pub(super) fn check(&self, size: Size) -> Result<(), String> {
        let bins = |what: &str, count: u32| match count {
            2..=1000 => Ok(()),
            _ => Err(format!("{what}: {count} bins of magnitudes: 2 to 1000 are possible")),
        };
        match self {
            Operation::ColorJitter { brightness, contrast, saturation, hue } => {
                let factors = [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)];
                for (name, factor) in factors {
                    factor.map_or(Ok(()), |factor| range(&format!("color jitter: {name}"), factor, 0.0, 100.0))?;
                }
                hue.map_or(Ok(()), |hue| range("color jitter: hue", hue, -0.5, 0.5))
            }
            &Operation::GaussianBlur { kernel, sigma: (least, most) } => {
                range("gaussian blur: sigma", (least, most), 0.01, 1000.0)?;
                Adjustment::GaussianBlur { kernel, sigma: least }.check(size)
            }
            Operation::Random(adjustment, p) => {
                chance(&format!("{adjustment:?}"), *p)?;
                adjustment.check(size)
            }
            &Operation::RandAugment { num_ops, magnitude, num_magnitude_bins } => {
                bins("rand augment", num_magnitude_bins)?;
                if num_ops > 100 {
                    return Err(format!("rand augment: {num_ops} adjustments: up to 100 are possible"));
                }
                if magnitude >= num_magnitude_bins {
                    return Err(format!("rand augment: magnitude {magnitude} is not below {num_magnitude_bins}"));
                }
                Ok(())
            }
            &Operation::TrivialAugmentWide { num_magnitude_bins } => bins("trivial augment", num_magnitude_bins),
            Operation::RandomApply(steps, p) => {
                chance("random apply", *p)?;
                steps.iter().try_for_each(|step| step.check(size))
            }
        }
    }

    /// Whether it may move pixels, so that boxes do not follow the crop.
    pub(super) fn moves(&self) -> bool {
        match self {
            Operation::Random(adjustment, _) => matches!(
                adjustment,
                Adjustment::ShearX(_)
                    | Adjustment::ShearY(_)
                    | Adjustment::TranslateX(_)
                    | Adjustment::TranslateY(_)
                    | Adjustment::Rotate(_)
            ),
            Operation::RandAugment { .. } | Operation::TrivialAugmentWide { .. } => true,
            Operation::RandomApply(steps, _) => steps.iter().any(Operation::moves),
            Operation::ColorJitter { .. } | Operation::GaussianBlur { .. } => false,
        }
    }

    /// Number of places of this operation and its steps in the count of operations.
    fn places(&self) -> u64 {
        match self {
            Operation::RandomApply(steps, _) => 1 + steps.iter().map(Operation::places).sum::<u64>(),
            _ => 1,
        }
    }

    /// Draws its adjustments, as operation `place`.
    fn draw(&self, place: u64, size: Size, draws: Draws, into: &mut Vec<Adjustment>) {
        let first = NUMBERS * (place + 1);
        match *self {
            Operation::ColorJitter { brightness, contrast, saturation, hue } => {
                // Each is drawn whether it is used or not, so that the others do not depend on it.
                let factor = |at: u64, range: Option<Range>| range.map(|range| draws.between(first + at, range));
                let mut steps = [
                    factor(0, brightness).map(Adjustment::Brightness),
                    factor(1, contrast).map(Adjustment::Contrast),
                    factor(2, saturation).map(Adjustment::Saturation),
                    factor(3, hue).map(Adjustment::Hue),
                ];
                for last in (1..4_u32).rev() {
                    steps.swap(last as usize, draws.below(first + 3 + u64::from(last), last + 1) as usize);
                }
                into.extend(steps.into_iter().flatten());
            }
            Operation::GaussianBlur { kernel, sigma } => {
                into.push(Adjustment::GaussianBlur { kernel, sigma: draws.between(first, sigma) });
            }
            Operation::Random(adjustment, p) => into.extend((draws.unit(first) < p).then_some(adjustment)),
            Operation::RandAugment { num_ops, magnitude, num_magnitude_bins } => {
                policies::rand_augment((num_ops, magnitude, num_magnitude_bins), size, draws, first, into);
            }
            Operation::TrivialAugmentWide { num_magnitude_bins } => {
                policies::trivial_augment_wide(num_magnitude_bins, draws, first, into);
            }
            Operation::RandomApply(ref steps, p) => {
                if draws.unit(first) < p {
                    draw(steps, place + 1, size, draws, into);
                }
            }
        }
    }
}

/// Draws the adjustments of operations whose first has this place.
fn draw(operations: &[Operation], mut place: u64, size: Size, draws: Draws, into: &mut Vec<Adjustment>) {
    for operation in operations {
        operation.draw(place, size, draws, into);
        place += operation.places();
    }
}

impl Adjustment {
    /// Why it is invalid for slots of `size`.
    fn check(self, size: Size) -> Result<(), String> {
        match self {
            Adjustment::Brightness(factor)
            | Adjustment::Contrast(factor)
            | Adjustment::Saturation(factor)
            | Adjustment::Sharpness(factor) => range(&format!("{self:?}"), (factor, factor), 0.0, 100.0),
            Adjustment::Hue(turn) => range("hue", (turn, turn), -0.5, 0.5),
            Adjustment::Solarize(threshold) => range("solarize", (threshold, threshold), 0.0, 255.0),
            Adjustment::Posterize(bits) => range("posterize: bits", (bits.into(), bits.into()), 0.0, 8.0),
            Adjustment::Rotate(degrees) => range("rotate", (degrees, degrees), -180.0, 180.0),
            Adjustment::ShearX(slope) | Adjustment::ShearY(slope) => range("shear", (slope, slope), -100.0, 100.0),
            Adjustment::TranslateX(by) | Adjustment::TranslateY(by) => {
                range("translate", (by.into(), by.into()), -65_535.0, 65_535.0)
            }
            Adjustment::GaussianBlur { kernel, sigma } => {
                range("gaussian blur: sigma", (sigma, sigma), 0.01, 1000.0)?;
                let fits = |kernel: u32, side: u32| kernel % 2 == 1 && kernel / 2 < side;
                if fits(kernel.0, size.width) && fits(kernel.1, size.height) {
                    return Ok(());
                }
                Err(format!(
                    "gaussian blur: a kernel of {} × {} pixels: odd sides are possible, less than twice those of the image",
                    kernel.0, kernel.1
                ))
            }
            Adjustment::Grayscale | Adjustment::Invert | Adjustment::Autocontrast | Adjustment::Equalize => Ok(()),
        }
    }
}

impl Augmenter {
    /// Applies `operations`, which are valid for this size, to `pixels: [size.height, size.width, 4] uint8`, RGBX. Returns
    /// what it has drawn.
    pub(super) fn run(
        &mut self,
        operations: &[Operation],
        size: Size,
        random_key: u64,
        pixels: &mut [u8],
    ) -> &[Adjustment] {
        let (mut drawn, (pixels, _)) = (std::mem::take(&mut self.drawn), pixels.as_chunks_mut());
        drawn.clear();
        draw(operations, 0, size, Draws(random_key), &mut drawn);
        for &adjustment in &drawn {
            self.adjust(adjustment, size, pixels);
        }
        self.drawn = drawn;
        &self.drawn
    }

    fn adjust(&mut self, adjustment: Adjustment, size: Size, pixels: &mut [colour::Pixel]) {
        let (width, height) = (size.width as usize, size.height as usize);
        match adjustment {
            Adjustment::Brightness(factor) => colour::brightness(pixels, factor),
            Adjustment::Contrast(factor) => colour::contrast(pixels, factor),
            Adjustment::Saturation(factor) => colour::saturation(pixels, factor),
            Adjustment::Hue(factor) => colour::hue(pixels, factor),
            Adjustment::Grayscale => colour::greyscale(pixels),
            Adjustment::GaussianBlur { kernel, sigma } => {
                blur::gaussian(pixels, width, kernel, sigma, &mut self.blur);
            }
            Adjustment::Sharpness(factor) => blur::sharpness(pixels, width, factor, &mut self.blur),
            Adjustment::Solarize(threshold) => levels::solarize(pixels, threshold),
            Adjustment::Posterize(bits) => levels::posterize(pixels, bits),
            Adjustment::Invert => levels::invert(pixels),
            Adjustment::Autocontrast => levels::autocontrast(pixels),
            Adjustment::Equalize => levels::equalize(pixels),
            Adjustment::ShearX(slope) => self.affine(pixels, width, affine::Matrix::shear_x(slope, height)),
            Adjustment::ShearY(slope) => self.affine(pixels, width, affine::Matrix::shear_y(slope, width)),
            Adjustment::TranslateX(by) => self.affine(pixels, width, affine::Matrix::translate(by, 0)),
            Adjustment::TranslateY(by) => self.affine(pixels, width, affine::Matrix::translate(0, by)),
            Adjustment::Rotate(degrees) => self.affine(pixels, width, affine::Matrix::rotate(degrees)),
        }
    }

    fn affine(&mut self, pixels: &mut [colour::Pixel], width: usize, matrix: affine::Matrix) {
        affine::transform(pixels, width, matrix, &mut self.affine);
    }
}
