//! What is to become of images, and one image made so.
//!
//! Holds at all times: an image that nothing is asked of is [`Outcome::Untouched`], and then no pixel is decoded; names are
//! never looked at, so a wrong extension is the caller's to mend.

use std::fmt;

use image::metadata::Orientation;
use shardpack_format::image_header::{Header, Kind, Mode};

use crate::{Budget, Encode, Limits, Picture, Refused, contain::contained, decode, encode, need, resize};

/// The size that images are to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The shorter side becomes so long, the longer one keeps the aspect, rounded down as torchvision does. Images whose
    /// shorter side is not longer than this stay as they are.
    Short(u32),
    /// Exactly so, whatever becomes of the aspect.
    Exact {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
}

/// What is to become of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Makes what many loaders stumble over into what all take: CMYK and YCCK JPEG into RGB JPEG, 16-bit PNG and TIFF
    /// into 8-bit PNG, GIF (its first frame), BMP, TIFF and Netpbm into PNG.
    pub fix: bool,
    /// Turns the pixels as the Exif orientation says. Else an orientation is kept, by itself if need be, so that every
    /// viewer shows what it showed.
    pub rotate: bool,
    /// The size; of the picture as seen where it is turned, else of the pixels as stored.
    pub resize: Option<Resize>,
    /// The kind of file; what is of that kind already is not encoded anew for it.
    pub encode: Option<Encode>,
    /// Quality of JPEGs, 1 to 100.
    pub quality: u8,
    /// Keeps colour profiles that suit the channels.
    pub keep_icc: bool,
    /// Keeps Exif; of turned pictures its orientation becomes 1.
    pub keep_exif: bool,
}

impl Default for Recipe {
    /// Nothing is asked for; where it is, quality is 90, profiles stay and Exif goes.
    fn default() -> Self {
        let (fix, rotate, resize, encode) = (false, false, None, None);
        Self { fix, rotate, resize, encode, quality: 90, keep_icc: true, keep_exif: false }
    }
}

/// One thing that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// Four inks became three colours.
    CmykToRgb,
    /// Levels were rounded to 8 bits.
    SixteenBitTo8,
    /// JPEG has no alpha channel.
    AlphaDropped,
    /// The pixels were turned as Exif said.
    Rotated,
    /// Width and height before and after.
    Resized {
        /// As seen: after any turning.
        from: (u32, u32),
        /// What it is now.
        to: (u32, u32),
    },
    /// Another kind of file.
    Encoded {
        /// What it was.
        from: Kind,
        /// What it is now.
        to: Kind,
    },
    /// The first page or frame is all that is left of several.
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

/// What became of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The recipe asks nothing of it: its bytes are to be packed as they are.
    Untouched,
    /// Another file.
    Made {
        /// All of it.
        bytes: Vec<u8>,
        /// What it is.
        kind: Kind,
        /// In the order in which they were made; empty never.
        changes: Vec<Change>,
    },
}

/// What `recipe` makes of the image in `bytes`.
///
/// Whether an untouched image is sound is not asked; that is [`crate::check`].
///
/// # Errors
/// What [`crate::decode`] refuses, where pixels are needed; kinds without decoder, where anything is asked of them but
/// `fix`; sizes that the kind asked for cannot have.
pub fn apply(bytes: &[u8], recipe: &Recipe, limits: &Limits) -> Result<Outcome, Refused> {
    contained(bytes, || make(bytes, recipe, limits, None))
}

/// As [`apply`], with memory of `budget`, which others may use too: waits for what the image takes, once its pixels are
/// needed.
///
/// # Errors
/// As [`apply`]; what takes more than all of the budget.
pub fn apply_within(bytes: &[u8], recipe: &Recipe, budget: &Budget) -> Result<Outcome, Refused> {
    contained(bytes, || make(bytes, recipe, &budget.limits(), Some(budget)))
}

fn make(bytes: &[u8], recipe: &Recipe, limits: &Limits, budget: Option<&Budget>) -> Result<Outcome, Refused> {
    let header = Header::of(bytes);
    let is_odd = recipe.fix && is_odd(&header);
    let recoded = recipe.encode.is_some_and(|encode| encode.kind() != header.kind);
    // The others cannot say how they are to be seen.
    let may_turn = recipe.rotate && !matches!(header.kind, Kind::Gif | Kind::Bmp | Kind::Pnm | Kind::Npy);
    if !may_turn && recipe.resize.is_none() && !is_odd && !recoded {
        return Ok(Outcome::Untouched);
    }
    let (width, height, orientation) = decode::look(bytes, &header, limits)?;
    if width == 0 && recipe.resize.is_some() {
        // What has no size here would pass for small enough.
        return Err(Refused::Damaged(header.kind, "its headers do not tell its size".to_owned()));
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

/// Whether loaders stumble over it.
fn is_odd(header: &Header) -> bool {
    match header.kind {
        Kind::Jpeg => header.mode == Mode::Cmyk,
        Kind::Png => header.depth == 16,
        Kind::Gif | Kind::Bmp | Kind::Tiff | Kind::Pnm => true,
        _ => false,
    }
}

/// The size that pixels of `size`, as stored, are to have, if it is another; `swapped` if turning swaps their sides.
fn stored_size(recipe: &Recipe, size: (u32, u32), swapped: bool) -> Option<(u32, u32)> {
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

/// The Exif that goes with `picture`: its own if that is kept, else its orientation alone if it has one.
fn exif(picture: &Picture, keep: bool) -> Option<Vec<u8>> {
    match &picture.exif {
        Some(exif) if keep => {
            let mut exif = exif.clone();
            if picture.orientation == 1 {
                // Sets it to 1 where there is one.
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
