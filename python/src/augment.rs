//! Operations of a native transform: JSON of `shardpack.transforms`, and a function that only applies them, for tests and measurements.

use pyo3::prelude::*;
use serde::Deserialize;
use shardpack_loader::{
    Error, Limits,
    training::{Adjustment, Erasing, Mixing, Operation, Range, Worker},
};

use crate::{
    arrays::Array,
    errors::{Raise, detached},
    options::TransformRequest,
};

/// A step of `shardpack.transforms` after the flips.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OperationRequest {
    ColorJitter { brightness: Option<Range>, contrast: Option<Range>, saturation: Option<Range>, hue: Option<Range> },
    GaussianBlur { kernel: (u32, u32), sigma: Range },
    Random(AdjustmentRequest, f64),
    RandAugment { num_ops: u32, magnitude: u32, num_magnitude_bins: u32 },
    TrivialAugmentWide { num_magnitude_bins: u32 },
    RandomApply(Vec<OperationRequest>, f64),
}

/// An adjustment that a step applies with a probability.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AdjustmentRequest {
    Grayscale,
    Sharpness(f64),
    Solarize(f64),
    Posterize(u8),
    Invert,
    Autocontrast,
    Equalize,
}

/// `RandomErasing`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErasingRequest {
    p: f64,
    scale: Range,
    ratio: Range,
    /// `None` for random numbers.
    value: Option<[f32; 3]>,
}

/// `MixUp` or `CutMix`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MixingRequest {
    MixUp { alpha: f64 },
    CutMix { alpha: f64 },
}

impl MixingRequest {
    /// The way to mix.
    pub fn mixing(&self) -> Mixing {
        match *self {
            Self::MixUp { alpha } => Mixing::MixUp { alpha },
            Self::CutMix { alpha } => Mixing::CutMix { alpha },
        }
    }
}

impl OperationRequest {
    /// The operation.
    pub fn operation(&self) -> Operation {
        match *self {
            Self::ColorJitter { brightness, contrast, saturation, hue } => {
                Operation::ColorJitter { brightness, contrast, saturation, hue }
            }
            Self::GaussianBlur { kernel, sigma } => Operation::GaussianBlur { kernel, sigma },
            Self::Random(ref adjustment, p) => Operation::Random(adjustment.adjustment(), p),
            Self::RandAugment { num_ops, magnitude, num_magnitude_bins } => {
                Operation::RandAugment { num_ops, magnitude, num_magnitude_bins }
            }
            Self::TrivialAugmentWide { num_magnitude_bins } => Operation::TrivialAugmentWide { num_magnitude_bins },
            Self::RandomApply(ref steps, p) => Operation::RandomApply(steps.iter().map(Self::operation).collect(), p),
        }
    }
}

impl AdjustmentRequest {
    fn adjustment(&self) -> Adjustment {
        match *self {
            Self::Grayscale => Adjustment::Grayscale,
            Self::Sharpness(factor) => Adjustment::Sharpness(factor),
            Self::Solarize(threshold) => Adjustment::Solarize(threshold),
            Self::Posterize(bits) => Adjustment::Posterize(bits),
            Self::Invert => Adjustment::Invert,
            Self::Autocontrast => Adjustment::Autocontrast,
            Self::Equalize => Adjustment::Equalize,
        }
    }
}

impl ErasingRequest {
    /// The erasing.
    pub fn erasing(&self) -> Erasing {
        let Self { p, scale, ratio, value } = *self;
        Erasing { p, scale, ratio, value }
    }
}

/// Apply only the operations of a pipeline, on one thread and without the GIL.
///
/// Args:
///     pixels: Images of the pipeline's size, `[N, H, W, 4] uint8`, RGBX; X is any value afterwards.
///     pipeline: JSON of the request of a `Pipeline`.
///     key: Key of the random numbers of the first image; the others follow.
///
/// Returns:
///     The pixels, and the names and parameters of the adjustments that each image had.
///
/// Raises:
///     UsageError: If the pipeline is invalid, or the number of bytes is no multiple of an image.
#[pyfunction]
pub fn augment(py: Python<'_>, pixels: &[u8], pipeline: &str, key: u64) -> PyResult<(Array, Vec<Vec<String>>)> {
    let augmented = detached(py, || {
        let request: TransformRequest =
            serde_json::from_str(pipeline).map_err(|error| Error::usage(format!("a pipeline: {error}")))?;
        let transform = request.transform()?;
        let size = transform.options().cut.size();
        let (height, width) = (size.height as usize, size.width as usize);
        let (mut worker, mut drawn) = (Worker::new(Limits::default()), Vec::new());
        let mut augmented = Vec::with_capacity(pixels.len());
        // Each image is copied just before it is augmented, so its pixels are in the cache, as those of a crop are.
        for (number, image) in (0..).zip(pixels.chunks(height * width * 4)) {
            let from = augmented.len();
            augmented.extend_from_slice(image);
            let adjustments = worker.augment(&transform, key.wrapping_add(number), &mut augmented[from..]);
            let adjustments = adjustments.map_err(|refused| Error::usage(refused.to_string()))?;
            drawn.push(adjustments.iter().map(|one| format!("{one:?}")).collect());
        }
        let shape = vec![drawn.len(), height, width, 4];
        Ok::<_, Error>((Array::shaped(augmented, "|u1", shape), drawn))
    });
    augmented?.or_raise(py)
}
