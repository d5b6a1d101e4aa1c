//! Applies a recipe of changes to one image.
//!
//! Holds at all times: an image without changes is [`Outcome::Untouched`], and no pixel is decoded; names are ignored,
//! so the caller has to correct a wrong extension.

use image::metadata::Orientation;
use shardpack_format::image_header::{Header, Kind, Mode};

use crate::{
    Budget, Change, Encode, Limits, Outcome, Picture, Recipe, Refused, catch_panic::contained, decode, encode, need,
    recipe::stored_size, resize,
};

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
