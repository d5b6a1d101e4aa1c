//! Encodes in one number, kept in the listing, how to build the image of a sample from the bytes of its value.
//!
//! The same bytes always give the image that the walk saw; other bytes are never used.

use std::{borrow::Cow, ops::Range, sync::Arc};

use shardpack_format::{
    Error, Result,
    image_header::{Kind, SNIFF_BYTES},
    npy,
};

use super::{
    super::{
        MissingImage,
        plain::{self, Array, EncodedRange, Value},
    },
    coding::Coding,
    fields,
};

/// Source of the image of a sample.
#[derive(Debug)]
pub(super) enum ImageContent {
    /// The bytes of its file.
    Bytes(EncodedRange),
    /// Its pixels, of two or three axes.
    Array(Arc<Array>),
    /// Its pixels as a plane of blue, one of green and one of red.
    BluePlanes(Arc<Array>),
}

pub(super) fn held_by(value: &Value, input: &[u8]) -> std::result::Result<ImageContent, MissingImage> {
    // As `cv2.imencode` gave encoded images for years.
    let is_column = |array: &Array| array.shape.len() > 1 && array.shape.iter().filter(|axis| **axis != 1).count() == 1;
    let begins = |array: &Array| Kind::detect(&array.data.first(input, SNIFF_BYTES)) != Kind::Unknown;
    match value {
        Value::Array(array) if array.dtype == "|u1" && is_column(array) && begins(array) => {
            Ok(ImageContent::Bytes(array.data.clone()))
        }
        Value::Array(array) if array.dtype == "|u1" && matches!(array.shape.len(), 2 | 3) => {
            Ok(ImageContent::Array(Arc::clone(array)))
        }
        Value::Array(array) if array.shape.len() != 1 => {
            let shape: Vec<_> = array.shape.iter().map(u64::to_string).collect();
            Err(MissingImage::NoImage(format!("an array of {} of shape {}, no image", array.dtype, shape.join("×"))))
        }
        _ => value
            .as_bytes()
            .cloned()
            .map(ImageContent::Bytes)
            .ok_or_else(|| MissingImage::NoImage(format!("{}, no image", value.kind()))),
    }
}

// How to build an image from the fetched bytes: as they are, or with a `.npy` header in front. The length and the recipe give
// the shape of the header:
//
//     bit 0 each byte is a character of UTF-8   bit 1 pixels   bit 2 Fortran's order   bits 3, 4 what bits 12 to 30 hold:
//     0 of two axes the last   1 of three the last, below 16, times 2^15, and the second   2 the first and the second
//     likewise   3 the last times 2^9, and the second   bit 6 of a value that is fetched whole, the image is a field: see
//     `fields.rs`   bit 5 planes of blue, green and red, to be woven into pixels of red, green
//     and blue
const LATIN1: u32 = 1;
const PIXELS: u32 = 2;
const FORTRAN: u32 = 4;
const FORM_SHIFT: u32 = 3;
const BLUE_PLANES: u32 = 32;
/// The value is fetched whole; the upper bits are the recipe of the field that holds the image.
const WITHIN: u32 = 64;
const WITHIN_SHIFT: u32 = 7;
const SHAPE_SHIFT: u32 = 12;
/// Bits of a shape, and those of the second axis of three.
const SHAPE_BITS: u32 = 19;
const LONG_BITS: u32 = 15;
const SHORT_BITS: u32 = 9;

/// Range in the value that the image is built from, length of the image in bytes, and the recipe.
pub(super) fn recipe(held: &ImageContent) -> std::result::Result<(Range<usize>, usize, u32), String> {
    let part = match held {
        ImageContent::Bytes(part) => part,
        ImageContent::Array(array) | ImageContent::BluePlanes(array) => &array.data,
    };
    let (range, coded) = match part {
        EncodedRange::Plain(range) => (range.clone(), 0),
        EncodedRange::Latin1 { range, .. } => (range.clone(), LATIN1),
        EncodedRange::Owned(_) => return Err("its bytes are escaped, as in pickles of protocol 0".to_owned()),
    };
    let (array, planes) = match held {
        ImageContent::Bytes(_) => return Ok((range, part.len(), coded)),
        ImageContent::Array(array) => (array, 0),
        ImageContent::BluePlanes(array) => (array, BLUE_PLANES),
    };
    let small = |axis: u64, bits: u32| u32::try_from(axis).ok().filter(|axis| *axis > 0 && axis >> bits == 0);
    let (form, shape) = match array.shape[..] {
        [_, b] => small(b, SHAPE_BITS).map(|b| (0, b)),
        [a, b, c] => {
            let with =
                |axis, form| Some((form, small(axis, SHAPE_BITS - LONG_BITS)? << LONG_BITS | small(b, LONG_BITS)?));
            let even = || Some((3, small(c, SHORT_BITS)? << SHORT_BITS | small(b, SHORT_BITS)?));
            with(c, 1).or_else(|| with(a, 2)).or_else(even)
        }
        _ => None,
    }
    .filter(|_| !part.is_empty())
    .ok_or_else(|| format!("pixels of shape {}, which are not read", plain::by(&array.shape)))?;
    let order = if array.is_fortran { FORTRAN } else { 0 };
    let recipe = coded | PIXELS | order | planes | form << FORM_SHIFT | shape << SHAPE_SHIFT;
    let woven = woven_shape(&array.shape);
    let shape = if planes == 0 { &array.shape } else { &woven };
    let head = npy::head(&array.dtype, shape, array.is_fortran);
    Ok((range, head.len() + part.len(), recipe))
}

/// The recipe of an image in field `field` of sample `sample` in a value that is fetched whole; `None` if the numbers do not
/// fit into a recipe.
pub(super) fn within(coding: Coding, sample: usize, field: usize) -> Option<u32> {
    fields::recipe(coding, sample, field).map(|recipe| recipe << WITHIN_SHIFT | WITHIN)
}

/// Builds the image from the fetched bytes of a value, following `recipe`.
///
/// # Errors
/// If the value is corrupt.
pub fn image(fetched: &[u8], recipe: u32) -> Result<Cow<'_, [u8]>> {
    if recipe & WITHIN != 0 {
        return fields::with_field(fetched, recipe >> WITHIN_SHIFT, |field| {
            let held = held_by(field, fetched).map_err(|lack| Error::data(lack.what()))?;
            let (place, _, recipe) = self::recipe(&held).map_err(Error::data)?;
            let bytes = fetched.get(place).ok_or_else(|| Error::data("its value has changed since it was listed"))?;
            image(bytes, recipe).map(|image| Cow::Owned(image.into_owned()))
        });
    }
    let bytes = match recipe & LATIN1 {
        0 => Cow::Borrowed(fetched),
        _ => {
            let text = str::from_utf8(fetched).map_err(|_| Error::data("its value has changed: not UTF-8 text"))?;
            let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok());
            Cow::Owned(bytes.collect::<Option<_>>().ok_or_else(|| Error::data("its text is not Latin-1"))?)
        }
    };
    if recipe & PIXELS == 0 {
        return Ok(bytes);
    }
    let (kept, all) = (u64::from(recipe >> SHAPE_SHIFT), bytes.len() as u64);
    let two = |bits: u32| (kept >> bits, kept & ((1 << bits) - 1));
    let third = |a: u64, b: u64| all.checked_div(a * b).filter(|third| third * a * b == all);
    let shape = match recipe >> FORM_SHIFT & 3 {
        0 => third(1, kept).map(|a| vec![a, kept]),
        1 => third(two(LONG_BITS).0, two(LONG_BITS).1).map(|a| vec![a, two(LONG_BITS).1, two(LONG_BITS).0]),
        2 => third(two(LONG_BITS).0, two(LONG_BITS).1).map(|c| vec![two(LONG_BITS).0, two(LONG_BITS).1, c]),
        _ => third(two(SHORT_BITS).0, two(SHORT_BITS).1).map(|a| vec![a, two(SHORT_BITS).1, two(SHORT_BITS).0]),
    };
    let shape = shape.ok_or_else(|| Error::data(format!("{all} bytes of pixels do not fit the listed shape")))?;
    if recipe & BLUE_PLANES != 0 {
        let mut out = npy::head("|u1", &woven_shape(&shape), false);
        let plane = bytes.len() / 3;
        out.extend((0..plane).flat_map(|at| [2, 1, 0].map(|colour| bytes[colour * plane + at])));
        return Ok(Cow::Owned(out));
    }
    Ok(Cow::Owned([&npy::head("|u1", &shape, recipe & FORTRAN != 0), &*bytes].concat()))
}

/// The axes of planes, as pixels have them.
fn woven_shape(planes: &[u64]) -> Vec<u64> {
    let mut shape = planes.to_vec();
    shape.rotate_left(1);
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_get_their_shape_again_from_the_recipe() {
        let data: Vec<u8> = (0..=255).cycle().take(128 * 128 * 64).collect();
        for (shape, is_known) in [
            (vec![5, 7], true),
            (vec![1, 300_000], true),
            (vec![9, 17, 3], true),
            (vec![3, 9, 17], true),
            (vec![2, 30_000, 1], true),
            (vec![64, 100, 64], true),
            (vec![1, 2, 500_000], true),
            (vec![16, 600, 16], false),
            (vec![1, 600_000], false),
            (vec![0, 5, 3], false),
            (vec![5, 0], false),
        ] {
            for is_fortran in [false, true] {
                let bytes = shape.iter().product::<u64>() as usize;
                let part = EncodedRange::Plain(0..bytes);
                let array = Array { dtype: "|u1".to_owned(), shape: shape.clone(), is_fortran, data: part };
                let made = recipe(&ImageContent::Array(Arc::new(array)));
                assert_eq!(made.is_ok(), is_known, "{shape:?}");
                let Ok((range, bytes, recipe)) = made else { continue };
                assert!(recipe >> 31 == 0);
                let file = image(&data[range.clone()], recipe).unwrap();
                assert_eq!(file.len(), bytes);
                assert_eq!(*file, [&npy::head("|u1", &shape, is_fortran), &data[range]].concat(), "{shape:?}");
            }
        }
        let small =
            Array { dtype: "|u1".to_owned(), shape: vec![2, 3], is_fortran: false, data: EncodedRange::Plain(0..6) };
        let (.., small) = recipe(&ImageContent::Array(Arc::new(small))).unwrap();
        assert!(image(&[0; 6], small).is_ok() && image(&[0; 7], small).is_err());
        assert!(image(&[0; 7], u32::MAX).is_err());
    }
}
