//! The definition of a transform: cut, size, numbers in a slot. Checked once, when it is built.
//!
//! Holds at all times: every slot of a [`Transform`] has the same shape and length, whatever the image.

use std::fmt;

use super::{
    augment::{self, Erasing, Operation},
    geometry::{self, Geometry},
    mixing::{self, Mixing},
    random,
    shape::{Axes, Dtype, Rect, Size},
    slot::Levels,
};
use crate::Refused;

/// The size of an image before [`Cut::Center`] cuts it, smaller or larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// No change.
    Not,
    /// Length of the shorter side, 1 to 65,535; the longer side keeps the aspect, rounded down: `Resize(256)` of
    /// torchvision.
    Short(u32),
    /// Exactly this size; the aspect may change: `Resize((height, width))`.
    Exact(Size),
}

/// The part of an image, and the size of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// The whole image, resized to `size`: `Resize((height, width))` of torchvision.
    Whole {
        /// Size of the output.
        size: Size,
    },
    /// Resized, then the center; padded with black if it is smaller than `size`: `Resize`, then `CenterCrop`.
    Center {
        /// The first step.
        resize: Resize,
        /// Size of the output.
        size: Size,
    },
    /// Resized, then a random part of this size; padded with black at random offsets: `Resize`, then `RandomCrop`.
    Random {
        /// The first step.
        resize: Resize,
        /// Size of the output.
        size: Size,
        /// Black pixels on each side before the crop; less than the same side of the output.
        padding: Padding,
        /// Whether smaller images are padded further, on both sides by what is missing; otherwise they are refused.
        pad_if_needed: bool,
    },
    /// The pixels of a rectangle, resized. An image that lacks some of them is refused.
    Box {
        /// The rectangle, not empty.
        rect: Rect,
        /// Size of the output.
        size: Size,
    },
    /// A random part of random area and aspect, resized: `RandomResizedCrop`.
    RandomResized {
        /// Size of the output.
        size: Size,
        /// Minimum and maximum share of the image's area: above 0, up to 1.
        scale: (f64, f64),
        /// Minimum and maximum of width divided by height: 1/1000 to 1000.
        ratio: (f64, f64),
    },
}

impl Cut {
    /// [`Cut::RandomResized`] with torchvision's defaults: 0.08 to 1 of the area, aspects of 3/4 to 4/3.
    pub const fn random_resized(size: Size) -> Self {
        Self::RandomResized { size, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) }
    }

    /// Size of the output.
    pub fn size(&self) -> Size {
        match *self {
            Cut::Whole { size }
            | Cut::Center { size, .. }
            | Cut::Random { size, .. }
            | Cut::Box { size, .. }
            | Cut::RandomResized { size, .. } => size,
        }
    }
}

/// Pixels on each side of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// Left of it.
    pub left: u32,
    /// Above it.
    pub top: u32,
    /// Right of it.
    pub right: u32,
    /// Below it.
    pub bottom: u32,
}

/// Weights of pixels in a resize; with a reduction, the support grows (antialiasing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A triangle: the default of torchvision's transforms.
    Bilinear,
    /// Keys' cubic with a = -1/2, as in Pillow.
    Bicubic,
}

/// `(level / 255 - mean) / std`, for red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalise {
    /// Subtracted; finite.
    pub mean: [f32; 3],
    /// Divided by; finite, above 0.
    pub std: [f32; 3],
}

impl Normalise {
    /// The usual values for models trained on ImageNet.
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
}

/// Parameters of a [`Transform`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The part, and the size.
    pub cut: Cut,
    /// The resize filter.
    pub filter: Filter,
    /// Probability of a left-right flip: 0 to 1.
    pub flip: f64,
    /// Probability of a top-bottom flip: 0 to 1.
    pub flip_vertical: f64,
    /// The order of the axes.
    pub axes: Axes,
    /// The type of the numbers; floats are `level / 255`.
    pub dtype: Dtype,
    /// Applied to floats after that.
    pub normalise: Option<Normalise>,
    /// Whether a JPEG may be decoded to 1/2, 1/4 or 1/8 of its size, if the cut stays at least as large as the output.
    /// Faster for large photos; pixels differ slightly from a full decode (docs/reference/transforms.md).
    pub reduce: bool,
    /// Turns images by their Exif orientation before anything else. torchvision's `ImageFolder` does not.
    pub upright: bool,
}

impl Options {
    /// `cut`, bilinear, never flipped, `[3, H, W] uint8`, reduced if that helps, not turned.
    pub const fn new(cut: Cut) -> Self {
        let (filter, axes, dtype) = (Filter::Bilinear, Axes::Chw, Dtype::Uint8);
        Self { cut, filter, flip: 0.0, flip_vertical: 0.0, axes, dtype, normalise: None, reduce: true, upright: false }
    }
}

/// Why [`Options`] are invalid, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// A pure function of image bytes and a key, which [`super::Worker`] computes.
#[derive(Clone, Debug)]
pub struct Transform {
    options: Options,
    operations: Vec<Operation>,
    erasing: Option<Erasing>,
    /// Each with its probability.
    mixing: Vec<(Mixing, f64)>,
    levels: Levels,
    log_ratio: (f64, f64),
}

const MAX_SIDE: u32 = 65_535;
const MAX_PIXELS: u64 = 1 << 28;

impl Transform {
    /// # Errors
    /// Numbers outside the ranges of [`Options`], a slot of more than 2^28 pixels, and normalisation of a type that is
    /// not a float.
    pub fn new(options: Options) -> Result<Self, Unusable> {
        let unusable = |what: String| Err(Unusable(what));
        let side = |what: &str, side: u32| match side {
            1..=MAX_SIDE => Ok(()),
            _ => Err(Unusable(format!("{what} of {side} pixels: 1 to {MAX_SIDE} are possible"))),
        };
        let both = |what: &str, size: Size| {
            side(&format!("{what}: a height"), size.height)?;
            side(&format!("{what}: a width"), size.width)
        };
        let size = options.cut.size();
        both("size", size)?;
        if u64::from(size.height) * u64::from(size.width) > MAX_PIXELS {
            return unusable(format!("size: {} × {} pixels are more than 2^28", size.height, size.width));
        }
        let mut log_ratio = (0.0, 0.0);
        match options.cut {
            Cut::Center { resize: Resize::Short(short), .. } => side("resize: a shorter side", short)?,
            Cut::Center { resize: Resize::Exact(size), .. } => both("resize", size)?,
            Cut::Random { resize, padding, .. } => {
                match resize {
                    Resize::Short(short) => side("resize: a shorter side", short)?,
                    Resize::Exact(size) => both("resize", size)?,
                    Resize::Not => {}
                }
                let (across, down) = (padding.left.max(padding.right), padding.top.max(padding.bottom));
                if across >= size.width || down >= size.height {
                    return unusable("padding: less than the size of the crop is possible on each side".to_owned());
                }
            }
            Cut::RandomResized { scale, ratio, .. } => {
                if !(0.0 < scale.0 && scale.0 <= scale.1 && scale.1 <= 1.0) {
                    return unusable(format!("scale: {} to {} is no range above 0 and up to 1", scale.0, scale.1));
                }
                if !(1e-3 <= ratio.0 && ratio.0 <= ratio.1 && ratio.1 <= 1e3) {
                    return unusable(format!("ratio: {} to {} is no range of 0.001 to 1000", ratio.0, ratio.1));
                }
                log_ratio = (random::ln(ratio.0), random::ln(ratio.1));
            }
            Cut::Box { rect: Rect { width, height, .. }, .. } if width == 0 || height == 0 => {
                return unusable("box: it is empty".to_owned());
            }
            Cut::Whole { .. } | Cut::Box { .. } | Cut::Center { resize: Resize::Not, .. } => {}
        }
        for flip in [options.flip, options.flip_vertical] {
            if !(0.0..=1.0).contains(&flip) {
                return unusable(format!("flip: {flip} is no probability of 0 to 1"));
            }
        }
        if let Some(Normalise { mean, std }) = options.normalise {
            if options.dtype == Dtype::Uint8 {
                return unusable("normalise: uint8 holds levels as they are; floats can be normalised".to_owned());
            }
            if !mean.iter().chain(&std).all(|number| number.is_finite()) || std.iter().any(|&std| std <= 0.0) {
                return unusable(
                    "normalise: means have to be finite, standard deviations finite and above 0".to_owned(),
                );
            }
        }
        let levels = Levels::new(options.dtype, options.normalise);
        Ok(Self { options, operations: Vec::new(), erasing: None, mixing: Vec::new(), levels, log_ratio })
    }

    /// With operations on the levels of the slot, in this order, and erasing of its numbers at the end.
    ///
    /// # Errors
    /// Parameters outside the ranges of [`Operation`] and [`Erasing`].
    pub fn augmented(self, operations: Vec<Operation>, erasing: Option<Erasing>) -> Result<Self, Unusable> {
        let size = self.options.cut.size();
        operations.iter().try_for_each(|operation| operation.check(size)).map_err(Unusable)?;
        erasing.map_or(Ok(()), |erasing| erasing.check(self.options.dtype)).map_err(Unusable)?;
        Ok(Self { operations, erasing, ..self })
    }

    /// With a way to mix the images of each batch: one of `mixing`, each with its probability, or none. [`Transform::mix`] does it.
    ///
    /// # Errors
    /// Parameters outside the ranges of [`Mixing`], and probabilities that are not 0 to 1.
    pub fn mixed(self, mixing: Vec<(Mixing, f64)>) -> Result<Self, Unusable> {
        for (one, p) in &mixing {
            one.check().and_then(|()| augment::chance("mixing", *p)).map_err(Unusable)?;
        }
        Ok(Self { mixing, ..self })
    }

    /// Its parameters.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The axes of a slot in their order: `[3, H, W]` or `[H, W, 3]`.
    pub fn shape(&self) -> [usize; 3] {
        let Size { height, width } = self.options.cut.size();
        // At most 65,535.
        let (height, width) = (height as usize, width as usize);
        match self.options.axes {
            Axes::Chw => [3, height, width],
            Axes::Hwc => [height, width, 3],
        }
    }

    /// Bytes of a slot; at least 3, at most 3 · 2^30.
    pub fn slot_bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.options.dtype.bytes()
    }

    /// The cut of an image of `width` × `height` pixels (as seen if [`Options::upright`] is set, else as stored), and
    /// its place in the slot. Sides of 0 count as 1.
    pub fn plan(&self, width: u32, height: u32, random_key: u64) -> Geometry {
        geometry::plan(&self.options, self.log_ratio, (width.max(1), height.max(1)), random::Draws(random_key))
    }

    /// Refuses an image that is smaller than the crop, as [`Self::plan`] sees it.
    pub(super) fn admit(&self, width: u32, height: u32) -> Result<(), Refused> {
        geometry::admit(&self.options.cut, (width.max(1), height.max(1)))
    }

    /// Operations on the levels of the slot.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether operations move pixels, so that positions of the image are unknown in the slot.
    pub fn moves(&self) -> bool {
        self.operations.iter().any(Operation::moves)
    }

    /// Erasing of numbers of the slot.
    pub fn erasing(&self) -> Option<&Erasing> {
        self.erasing.as_ref()
    }

    /// The ways to mix the images of a batch, with their probabilities.
    pub fn mixing(&self) -> &[(Mixing, f64)] {
        &self.mixing
    }

    /// Mixes the images of a batch, the slots one after the other; random numbers are those of `random_key`. Returns the share of
    /// each image that is its own, 0 to 1; the rest is of the image before it, or of the last for the first. 1 if nothing is mixed.
    pub fn mix(&self, random_key: u64, slots: &mut [u8]) -> f64 {
        let Options { cut, axes, dtype, .. } = self.options;
        mixing::apply(&self.mixing, (cut.size(), axes, dtype), random_key, slots)
    }

    pub(super) fn levels(&self) -> &Levels {
        &self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_its_range_is_said() {
        let good = Options::new(Cut::random_resized(Size::square(224)));
        let cut = |cut| Options { cut, ..good };
        let random = |scale, ratio| cut(Cut::RandomResized { size: Size::square(8), scale, ratio });
        let center = |resize| cut(Cut::Center { resize, size: Size::square(8) });
        let random_crop = |left| {
            let padding = Padding { left, ..Padding::default() };
            cut(Cut::Random { resize: Resize::Not, size: Size::square(8), padding, pad_if_needed: false })
        };
        let normalised = |mean, std| Options {
            dtype: Dtype::Float16,
            normalise: Some(Normalise { mean: [mean; 3], std: [std; 3] }),
            ..good
        };
        let rows = [
            ("no side", cut(Cut::Whole { size: Size { height: 0, width: 5 } }), "size: a height of 0 pixels"),
            ("a long side", cut(Cut::Whole { size: Size { height: 5, width: 65_536 } }), "size: a width of 65536"),
            ("a large slot", cut(Cut::Whole { size: Size::square(20_000) }), "20000 × 20000 pixels are more than 2^28"),
            ("no shorter side", center(Resize::Short(0)), "resize: a shorter side of 0"),
            ("no width", center(Resize::Exact(Size { height: 1, width: 0 })), "resize: a width of 0"),
            ("no area", random((0.0, 1.0), (1.0, 1.0)), "scale: 0 to 1"),
            ("more than all", random((0.5, 1.1), (1.0, 1.0)), "scale: 0.5 to 1.1"),
            ("no number", random((f64::NAN, 1.0), (1.0, 1.0)), "scale: NaN"),
            ("turned round", random((0.1, 1.0), (2.0, 1.0)), "ratio: 2 to 1"),
            ("too flat", random((0.1, 1.0), (1.0, 1e9)), "ratio: 1 to 1000000000"),
            ("more than sure", Options { flip: 1.5, ..good }, "flip: 1.5"),
            ("no chance", Options { flip: f64::NAN, ..good }, "flip: NaN"),
            ("no vertical chance", Options { flip_vertical: -0.1, ..good }, "flip: -0.1"),
            ("wide padding", random_crop(8), "padding: less than the size"),
            ("levels", Options { dtype: Dtype::Uint8, ..normalised(0.0, 1.0) }, "uint8 holds levels as they are"),
            ("no deviation", normalised(0.0, 0.0), "above 0"),
            ("no mean", normalised(f32::INFINITY, 1.0), "finite"),
        ];
        assert!(Transform::new(good).is_ok() && Transform::new(random_crop(7)).is_ok());
        for (name, options, expected) in rows {
            let said = Transform::new(options).unwrap_err().to_string();
            assert!(said.contains(expected), "{name}: {said}");
        }
    }

    #[test]
    fn slots_are_as_long_as_their_shape_and_type_say() {
        let size = Size { height: 2, width: 5 };
        for (axes, shape) in [(Axes::Chw, [3, 2, 5]), (Axes::Hwc, [2, 5, 3])] {
            for (dtype, bytes) in
                [(Dtype::Uint8, 30), (Dtype::Float32, 120), (Dtype::Float16, 60), (Dtype::Bfloat16, 60)]
            {
                let transform = Transform::new(Options { axes, dtype, ..Options::new(Cut::Whole { size }) }).unwrap();
                assert_eq!((transform.shape(), transform.slot_bytes()), (shape, bytes));
            }
        }
    }
}
