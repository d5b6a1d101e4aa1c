//! Applies a recipe of changes to one image.
//!
//! Holds at all times: an image without changes is [`Outcome::Untouched`], and no pixel is decoded; names are ignored,
//! so the caller has to correct a wrong extension.

use std::fmt;

use image::metadata::Orientation;
use shardpack_format::image_header::{Header, Kind, Mode};

use crate::{Budget, Encode, Limits, Picture, Refused, catch_panic::contained, decode, encode, need, resize};

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

/// Applies `recipe` to the image in `bytes`.
///
/// An untouched image is not checked; see [`crate::check`].
///
/// # Errors
/// Images that [`crate::decode`] refuses, if pixels are needed; kinds without a decoder, if the recipe has more than
/// `fix`; sizes that the requested kind does not support.
pub fn apply(bytes: &[u8], recipe: &Recipe, limits: &Limits) -> Result<Outcome, Refused> {
    contained(bytes, || make(bytes, recipe, limits, None))
}

/// As [`apply`], with memory from the shared `budget`: waits for the memory of the image before its pixels are
/// decoded.
///
/// # Errors
/// As [`apply`]; images that need more than the whole budget.
pub fn apply_within(bytes: &[u8], recipe: &Recipe, budget: &Budget) -> Result<Outcome, Refused> {
    contained(bytes, || make(bytes, recipe, &budget.limits(), Some(budget)))
}

fn make(bytes: &[u8], recipe: &Recipe, limits: &Limits, budget: Option<&Budget>) -> Result<Outcome, Refused> {
    let header = Header::parse(bytes);
    let is_odd = recipe.fix && is_odd(&header);
    let recoded = recipe.encode.is_some_and(|encode| encode.kind() != header.kind);
    // The other kinds have no orientation.
    let may_turn = recipe.rotate && !matches!(header.kind, Kind::Gif | Kind::Bmp | Kind::Pnm | Kind::Npy);
    if !may_turn && recipe.resize.is_none() && !is_odd && !recoded {
        return Ok(Outcome::Untouched);
    }
    let (width, height, orientation) = decode::look(bytes, &header, limits)?;
    if width == 0 && recipe.resize.is_some() {
        // An image without a size would count as small enough.
        return Err(Refused::Damaged(header.kind, "its headers have no size".to_owned()));
    }
    let turned = recipe.rotate && orientation != 1;
    let resized = stored_size(recipe, (width, height), turned && orientation > 4);
    if !turned && resized.is_none() && !is_odd && !recoded {
        return Ok(Outcome::Untouched);
    }
    if let Some((width, height)) = resized {
        limits.admit(width, height, 4)?;
    }
    let needed = || need::change(bytes, &header, resized.unwrap_or((width, height)));
    let _taken = budget.map(|budget| budget.for_work(needed())).transpose()?;

    let encode = recipe.encode.unwrap_or(Encode::like(header.kind));
    let mut picture = decode::decode_for(bytes, resized, limits)?;
    let mut changes = Vec::new();
    if header.mode == Mode::Cmyk {
        changes.push(Change::CmykToRgb);
    }
    if header.depth == 16 {
        changes.push(Change::SixteenBitTo8);
    }
    if encode == Encode::Jpeg && picture.layout.has_alpha() {
        changes.push(Change::AlphaDropped);
        picture = picture.opaque();
    }
    if let Some((width, height)) = resized {
        picture = resize::resize(picture, width, height);
    }
    if turned {
        changes.push(Change::Rotated);
        picture = picture.upright();
    }
    if resized.is_some() {
        let from = if turned && orientation > 4 { (height, width) } else { (width, height) };
        changes.push(Change::Resized { from, to: (picture.width, picture.height) });
    }
    if encode.kind() != header.kind {
        changes.push(Change::Encoded { from: header.kind, to: encode.kind() });
    }
    if decode::pages::has_more(bytes, header.kind) {
        changes.push(Change::FirstOfSeveral);
    }
    picture.exif = exif(&picture, recipe.keep_exif);
    if !recipe.keep_icc {
        picture.icc = None;
    }
    Ok(Outcome::Made { bytes: encode::encode(&picture, encode, recipe.quality)?, kind: encode.kind(), changes })
}

/// Whether many loaders fail on it.
fn is_odd(header: &Header) -> bool {
    match header.kind {
        Kind::Jpeg => header.mode == Mode::Cmyk,
        Kind::Png => header.depth == 16,
        Kind::Gif | Kind::Bmp | Kind::Tiff | Kind::Pnm => true,
        _ => false,
    }
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

/// The Exif for `picture`: its own if it is kept, else only its orientation if it has one.
fn exif(picture: &Picture, keep: bool) -> Option<Vec<u8>> {
    match &picture.exif {
        Some(exif) if keep => {
            let mut exif = exif.clone();
            if picture.orientation == 1 {
                // Sets the orientation to 1 if there is one.
                let _ = Orientation::remove_from_exif_chunk(&mut exif);
            }
            Some(exif)
        }
        _ if picture.orientation == 1 => None,
        // Source: CIPA DC-008, 4.6: a TIFF header, big endian; one entry, tag 0x0112, a SHORT; no further directory.
        _ => {
            Some([b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", &[picture.orientation][..], &[0; 6]].concat())
        }
    }
}
