//! Recipes of changes to images, and what they do to the size.

use std::fmt;

use shardpack_format::image_header::Kind;

/// A kind of file to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encode {
    /// JPEG, baseline; without alpha.
    Jpeg,
    /// PNG.
    Png,
    /// WebP, lossless.
    Webp,
}

impl Encode {
    /// The kind of the file.
    pub fn kind(self) -> Kind {
        match self {
            Encode::Jpeg => Kind::Jpeg,
            Encode::Png => Kind::Png,
            Encode::Webp => Kind::Webp,
        }
    }

    /// The encoding for a picture that came as `kind`: the same if it can be encoded, else PNG.
    pub fn like(kind: Kind) -> Self {
        match kind {
            Kind::Jpeg => Encode::Jpeg,
            Kind::Webp => Encode::Webp,
            _ => Encode::Png,
        }
    }
}

/// Target size of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Target length of the shorter side; the longer side keeps the aspect, rounded down as torchvision does. Images
    /// whose shorter side is not longer stay unchanged.
    Short(u32),
    /// Exactly this size; the aspect may change.
    Exact {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
}

/// The changes to images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Converts images that many loaders fail on into formats that all loaders read: CMYK and YCCK JPEG into RGB JPEG,
    /// 16-bit PNG and TIFF into 8-bit PNG, GIF (its first frame), BMP, TIFF and Netpbm into PNG.
    pub fix: bool,
    /// Turns the pixels by the Exif orientation. Otherwise the orientation is kept, without other Exif if necessary,
    /// so that every viewer shows the same picture as before.
    pub rotate: bool,
    /// The size; of the picture as seen if it is turned, else of the pixels as stored.
    pub resize: Option<Resize>,
    /// The kind of file; this option alone does not encode a file of the same kind again.
    pub encode: Option<Encode>,
    /// Quality of JPEGs, 1 to 100.
    pub quality: u8,
    /// Keeps colour profiles that match the channels.
    pub keep_icc: bool,
    /// Keeps Exif; the orientation of turned pictures becomes 1.
    pub keep_exif: bool,
}

impl Recipe {
    /// Width and height of an image of `size` pixels as stored after the recipe, if the recipe does not turn the image.
    pub fn resized(&self, size: (u32, u32)) -> (u32, u32) {
        stored_size(self, size, false).unwrap_or(size)
    }
}

impl Default for Recipe {
    /// No changes; for changed images, quality is 90, profiles are kept and Exif is dropped.
    fn default() -> Self {
        let (fix, rotate, resize, encode) = (false, false, None, None);
        Self { fix, rotate, resize, encode, quality: 90, keep_icc: true, keep_exif: false }
    }
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// Four inks became three colours.
    CmykToRgb,
    /// Levels were rounded to 8 bits.
    SixteenBitTo8,
    /// JPEG has no alpha channel.
    AlphaDropped,
    /// The pixels were turned by the Exif orientation.
    Rotated,
    /// Width and height before and after.
    Resized {
        /// As seen, after turning.
        from: (u32, u32),
        /// The new size.
        to: (u32, u32),
    },
    /// Another kind of file.
    Encoded {
        /// The old kind.
        from: Kind,
        /// The new kind.
        to: Kind,
    },
    /// Only the first page or frame is kept.
    FirstOfSeveral,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::CmykToRgb => f.write_str("CMYK to RGB"),
            Change::SixteenBitTo8 => f.write_str("16 bit to 8"),
            Change::AlphaDropped => f.write_str("alpha dropped"),
            Change::Rotated => f.write_str("rotated"),
            Change::Resized { from, to } => write!(f, "resized {}×{} to {}×{}", from.0, from.1, to.0, to.1),
            Change::Encoded { from, to } => {
                write!(f, "{} to {}", from.name().to_uppercase(), to.name().to_uppercase())
            }
            Change::FirstOfSeveral => f.write_str("first of several pages or frames"),
        }
    }
}

/// Result of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The recipe does not change it: its bytes are packed as they are.
    Untouched,
    /// A new file.
    Made {
        /// The whole file.
        bytes: Vec<u8>,
        /// Its kind.
        kind: Kind,
        /// In the order in which they were made; never empty.
        changes: Vec<Change>,
    },
}

/// The target size for pixels of `size`, as stored, if it differs; `swapped` if turning swaps the sides.
pub(crate) fn stored_size(recipe: &Recipe, size: (u32, u32), swapped: bool) -> Option<(u32, u32)> {
    let (short, long) = (size.0.min(size.1), size.0.max(size.1));
    let wanted = match recipe.resize? {
        Resize::Short(side) if side >= short => return None,
        Resize::Short(side) => {
            let side = side.max(1);
            // At most `long`, since `side` is less than `short`.
            let other = (u64::from(side) * u64::from(long) / u64::from(short)) as u32;
            if size.0 <= size.1 { (side, other) } else { (other, side) }
        }
        Resize::Exact { width, height } if swapped => (height.max(1), width.max(1)),
        Resize::Exact { width, height } => (width.max(1), height.max(1)),
    };
    (wanted != size).then_some(wanted)
}
