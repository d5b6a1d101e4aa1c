//! Number columns: their encodings, and numbers as text.
//!
//! Holds at all times: the recipe for a number's text identifies its encoding, so bytes of another length are refused.

use crate::{Error, Result, component::half, formats::foreign::Plain};

/// Encodings of number columns that become text; the recipe of an encoding is its position here, from 1.
const NUMBERS: [&str; 12] =
    ["int", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "float16", "float32", "float64"];

/// Recipe of the text of a number with this encoding.
pub(super) fn number_recipe(encoding: &str) -> Option<u32> {
    NUMBERS.iter().position(|known| *known == encoding).map(|at| at as u32 + 1)
}

/// Width of an integer in bytes, and whether the integer has a sign.
pub(super) fn integer(encoding: &str) -> Option<(usize, bool)> {
    Some(match encoding {
        "int" | "int64" => (8, true),
        "int32" => (4, true),
        "int16" => (2, true),
        "int8" => (1, true),
        "uint64" => (8, false),
        "uint32" => (4, false),
        "uint16" => (2, false),
        "uint8" => (1, false),
        _ => return None,
    })
}

/// Width in bytes of the number for which `recipe` makes text.
pub(super) fn number_bytes(recipe: u32) -> Option<usize> {
    let encoding = NUMBERS.get((recipe as usize).checked_sub(1)?)?;
    integer(encoding).map(|(bytes, _)| bytes).or(match *encoding {
        "float16" => Some(2),
        "float32" => Some(4),
        _ => Some(8),
    })
}

/// The text of a number in the encoding for `recipe`.
///
/// # Errors
/// If `bytes` has another length.
pub(super) fn text(bytes: &[u8], recipe: u32) -> Result<Vec<u8>> {
    let damaged = || Error::data(format!("{} bytes that are no number", bytes.len()));
    let encoding = (recipe as usize).checked_sub(1).and_then(|number| NUMBERS.get(number)).ok_or_else(damaged)?;
    if number_bytes(recipe) != Some(bytes.len()) {
        return Err(damaged());
    }
    let plain = match (integer(encoding), bytes) {
        (Some((width, signed)), _) => {
            let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
            let mut wide = [if negative { 0xff } else { 0 }; 16];
            wide[..width].copy_from_slice(bytes);
            Plain::Whole(i128::from_le_bytes(wide))
        }
        // A float32 represents every float16 exactly.
        (None, &[a, b]) => Plain::Single(half(u16::from_le_bytes([a, b])) as f32),
        (None, &[a, b, c, d]) => Plain::Single(f32::from_le_bytes([a, b, c, d])),
        (None, &[a, b, c, d, e, f, g, h]) => Plain::Double(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        (None, _) => return Err(damaged()),
    };
    let mut out = Vec::new();
    plain.write(&mut out);
    Ok(out)
}
