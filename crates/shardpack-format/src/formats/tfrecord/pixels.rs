//! Detects pixels without an image file in a feature of bytes, from its length and the size in other features.
//!
//! Holds at all times: bytes are pixels only if their length matches the size, so other bytes are not mistaken for pixels. Ambiguous
//! bytes are not pixels.

use super::example::{Example, List, Value};
use crate::npy;

/// Names of the height, without a prefix of [`BEFORE`].
const HEIGHTS: [&str; 3] = ["height", "h", "rows"];
/// Names of the width, without a prefix.
const WIDTHS: [&str; 4] = ["width", "w", "cols", "columns"];
/// Names of the number of colours, without a prefix.
const DEPTHS: [&str; 7] = ["depth", "d", "channels", "channel", "c", "num_channels", "n_channels"];
/// Names of the list of all axes, without a prefix.
const SHAPES: [&str; 2] = ["shape", "dims"];
/// Optional prefixes of these names.
const BEFORE: [&str; 3] = ["image_", "img_", "im_"];
/// Most digits of a size in text.
const MAX_DIGITS: usize = 10;
/// Absolute values of colours in floating point, apart from 0.
const PLAUSIBLE: std::ops::RangeInclusive<f32> = 1e-9..=1e9;

/// The `.npy` header for the pixels `bytes`, the value of the feature `key`. `None` if `example` has no size that matches `bytes`.
pub(super) fn head(example: &Example<'_>, data: &[u8], key: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let length = bytes.len() as u64;
    let mut shapes: Vec<Vec<u64>> = Vec::new();
    match of_name(example, &SHAPES, Some(key), |list| axes(example, data, list)) {
        Some(shape) => shapes.push(shape),
        None => {
            let one = |names: &[&str]| {
                of_name(example, names, None, |list| axes(example, data, list).filter(|axes| axes.len() == 1))
                    .map(|axes| axes[0])
            };
            let (height, width) = (one(&HEIGHTS)?, one(&WIDTHS)?);
            match one(&DEPTHS) {
                Some(depth) => shapes.push(vec![height, width, depth]),
                None => shapes.extend([vec![height, width], vec![height, width, 3]]),
            }
        }
    }
    let is_said = shapes.len() == 1;
    shapes.into_iter().find_map(|shape| {
        let items = shape.iter().try_fold(1u64, |items, axis| items.checked_mul(*axis)).filter(|items| *items > 0)?;
        let is_shape = matches!(shape.len(), 2 | 3);
        let dtype = match length.checked_div(items).filter(|_| is_shape && length.is_multiple_of(items))? {
            1 => "|u1",
            // With two axes and no declared shape, four bytes may also be four colours.
            4 if (is_said || shape.len() == 3) && are_floats(bytes) => "<f4",
            _ => return None,
        };
        Some(npy::head(dtype, &shape, false))
    })
}

/// The value that `say` returns for the features with one of `names`, if all agree. Ignores features that describe another feature
/// than `of`, such as `OTHER/shape`; if `of` is `None`, ignores no feature.
fn of_name<T: PartialEq>(
    example: &Example<'_>,
    names: &[&str],
    of: Option<&[u8]>,
    say: impl Fn(&List) -> Option<T>,
) -> Option<T> {
    let is_of_another = |key: &[u8]| {
        let slash = key.iter().rposition(|byte| *byte == b'/');
        let owner = slash.map(|slash| &key[..slash]).filter(|owner| example.list(owner).is_some());
        of.zip(owner).is_some_and(|(of, owner)| of != owner)
    };
    let is_called = |key: &[u8]| {
        if is_of_another(key) {
            return false;
        }
        let key = String::from_utf8_lossy(key).to_lowercase();
        let last = key.rsplit('/').next().unwrap_or_default();
        let last = BEFORE.iter().find_map(|before| last.strip_prefix(before)).unwrap_or(last);
        names.contains(&last)
    };
    let mut said = example.iter().filter(|(key, _)| is_called(key)).filter_map(|(_, list)| say(list));
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

/// Lengths of axes: one to three whole numbers, stored as integers, floats or text.
fn axes(example: &Example<'_>, data: &[u8], list: &List) -> Option<Vec<u64>> {
    const MAX_AXES: usize = 3;
    if list.values == 0 || list.values > MAX_AXES {
        return None;
    }
    let axis = |value: Value| match value {
        Value::Int(number) => u64::try_from(number).ok(),
        Value::Float(number) => (number.fract() == 0.0 && (0.0..1e6).contains(&number)).then_some(number as u64),
        Value::Bytes(place) => {
            let text = str::from_utf8(data.get(place)?).ok()?;
            (text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
        }
    };
    example.values(list).into_iter().map(axis).collect()
}

/// Whether every four bytes are a plausible float32. Integers in the range of colours are not: they are tiny as floats.
fn are_floats(bytes: &[u8]) -> bool {
    bytes.as_chunks::<4>().0.iter().all(|bytes| {
        let number = f32::from_le_bytes(*bytes);
        number == 0.0 || PLAUSIBLE.contains(&number.abs())
    })
}
