//! One number of an array, by its dtype.
//!
//! Holds at all times: a number has the value of its bytes, without loss.

use std::fmt;

use super::item_bytes;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number; booleans are 0 and 1.
    Whole(i128),
    /// A float of 32 bits or fewer.
    Single(f32),
    /// A float of 64 bits.
    Double(f64),
}

impl Number {
    /// The number in `item`, one item of a dtype as numpy writes it (`<f4`). `None` for dtypes that are no such number (complex
    /// numbers, strings, longer floats), and if the length differs.
    pub fn of_item(dtype: &str, item: &[u8]) -> Option<Self> {
        if item_bytes(dtype)? != item.len() as u64 {
            return None;
        }
        let mut bytes = [0; 8];
        let little = bytes.get_mut(..item.len())?;
        little.copy_from_slice(item);
        if dtype.starts_with('>') {
            little.reverse();
        }
        let kind = dtype.chars().nth(1)?;
        Some(match (kind, &*little) {
            ('b' | 'i' | 'u', little) => {
                let is_negative = kind == 'i' && little.last().is_some_and(|last| last & 0x80 != 0);
                let mut wide = [if is_negative { 0xff } else { 0 }; 16];
                wide[..little.len()].copy_from_slice(little);
                Self::Whole(i128::from_le_bytes(wide))
            }
            // A float32 represents every float16 exactly.
            ('f', &[a, b]) => Self::Single(half(u16::from_le_bytes([a, b])) as f32),
            ('f', &[a, b, c, d]) => Self::Single(f32::from_le_bytes([a, b, c, d])),
            ('f', &[a, b, c, d, e, f, g, h]) => Self::Double(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
            _ => return None,
        })
    }
}

impl Number {
    /// The nearest float64.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Single(single) => single.into(),
            Self::Double(double) => double,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => write!(f, "{whole}"),
            Self::Single(single) => write!(f, "{single}"),
            Self::Double(double) => write!(f, "{double}"),
        }
    }
}

/// The value of a float16. Source: IEEE 754-2019, binary16.
pub(crate) fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => fraction * 2f64.powi(-24),
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_the_value_of_their_bytes() {
        for (dtype, item, number) in [
            ("|b1", &[1][..], Some(Number::Whole(1))),
            ("|i1", &[0xff], Some(Number::Whole(-1))),
            ("|u1", &[0xff], Some(Number::Whole(255))),
            (">i2", &[0xff, 0xfe], Some(Number::Whole(-2))),
            ("<u8", &[0xff; 8], Some(Number::Whole(u64::MAX.into()))),
            ("<i8", &[0, 0, 0, 0, 0, 0, 0, 0x80], Some(Number::Whole(i64::MIN.into()))),
            ("<f2", &[0, 0x3e], Some(Number::Single(1.5))),
            (">f4", &[0x3f, 0x80, 0, 0], Some(Number::Single(1.0))),
            ("<f8", &[0, 0, 0, 0, 0, 0, 0xf0, 0xbf], Some(Number::Double(-1.0))),
            ("<f8", &[0; 4], None),
            ("<c8", &[0; 8], None),
            ("<f16", &[0; 16], None),
            ("|S1", &[0], None),
            ("<M8[ns]", &[0; 8], None),
        ] {
            assert_eq!(Number::of_item(dtype, item), number, "{dtype}");
        }
    }
}
