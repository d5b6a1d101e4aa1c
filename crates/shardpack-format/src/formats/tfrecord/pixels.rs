//! Pixels without a file, which a feature of bytes may hold: told by its length and the size that stands beside it.
//!
//! Holds at all times: bytes are pixels only where their length is that of the size, so that no other bytes are taken for them; what
//! could be read in two ways is none.

use super::example::{Example, List, Value};
use crate::npy;

/// Names of the height, without what they begin with in [`BEFORE`].
const HEIGHTS: [&str; 3] = ["height", "h", "rows"];
/// The same of the width.
const WIDTHS: [&str; 4] = ["width", "w", "cols", "columns"];
/// The same of the number of colours.
const DEPTHS: [&str; 7] = ["depth", "d", "channels", "channel", "c", "num_channels", "n_channels"];
/// The same of all axes together.
const SHAPES: [&str; 2] = ["shape", "dims"];
/// What may stand before such a name.
const BEFORE: [&str; 3] = ["image_", "img_", "im_"];
/// Digits of a size that is text.
const MOST_DIGITS: usize = 10;
/// The least and the largest number, below and above 0, that colours as floating point have.
const PLAUSIBLE: std::ops::RangeInclusive<f32> = 1e-9..=1e9;

/// All before the pixels in the file of an array, if `bytes`, the feature `key`, are the pixels of an image whose size `example` tells.
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
            // Of two axes alone, four bytes may be colours as well.
            4 if (is_said || shape.len() == 3) && are_floats(bytes) => "<f4",
            _ => return None,
        };
        Some(npy::head(dtype, &shape, false))
    })
}

/// What the features that have one of these names say, if they all say the same; but for those beside another feature than `of`,
/// as `NAME/shape` is.
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

/// Lengths of axes: whole numbers, as whatever they are written.
fn axes(example: &Example<'_>, data: &[u8], list: &List) -> Option<Vec<u64>> {
    const MOST_AXES: usize = 3;
    if list.values == 0 || list.values > MOST_AXES {
        return None;
    }
    let axis = |value: Value| match value {
        Value::Int(number) => u64::try_from(number).ok(),
        Value::Float(number) => (number.fract() == 0.0 && (0.0..1e6).contains(&number)).then_some(number as u64),
        Value::Bytes(place) => {
            let text = str::from_utf8(data.get(place)?).ok()?;
            (text.len() <= MOST_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
        }
    };
    example.values(list).into_iter().map(axis).collect()
}

/// Whether four bytes each are numbers of floating point, and not whole ones: those of colours are tiny, read so.
fn are_floats(bytes: &[u8]) -> bool {
    bytes.as_chunks::<4>().0.iter().all(|bytes| {
        let number = f32::from_le_bytes(*bytes);
        number == 0.0 || PLAUSIBLE.contains(&number.abs())
    })
}
