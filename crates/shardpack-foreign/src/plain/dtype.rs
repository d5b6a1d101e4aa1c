//! Types of the items of numpy arrays: numbers, and strings of one length.
//!
//! Specification: <https://numpy.org/doc/stable/reference/arrays.interface.html>, `typestr`.

use std::{cmp::Ordering, fmt};

use shardpack_format::text;

use super::{Array, EncodedRange, by};

/// Axes of the longest shape; numpy 1 has no more.
pub(super) const MAX_AXES: usize = 32;

/// Type of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    /// One of `<`, `>` and `|`.
    order: u8,
    kind: u8,
    /// Bytes of a number or a byte string, characters of a text.
    count: u32,
}

/// A number of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Bool(bool),
    Int(i64),
    Huge,
    Float(f64),
}

impl Dtype {
    /// The type that is called so, `u1`, `<f4` or the like.
    pub(super) fn parse(name: &[u8]) -> Result<Self, String> {
        let refused = || {
            let name = text::shown(&name[..name.len().min(20)]);
            format!("an array of {:?}, which are no numbers", name)
        };
        let (order, rest) = match name {
            [order @ (b'<' | b'>' | b'|' | b'='), rest @ ..] => (Some(*order), rest),
            rest => (None, rest),
        };
        let (kind, count) = rest.split_first().ok_or_else(refused)?;
        let count = Some(count).filter(|count| count.iter().all(u8::is_ascii_digit));
        let count = count.and_then(|count| str::from_utf8(count).ok()?.parse().ok()).ok_or_else(refused)?;
        let is_known = match kind {
            b'b' => count == 1,
            b'i' | b'u' => [1, 2, 4, 8].contains(&count),
            b'f' => [2, 4, 8, 12, 16].contains(&count),
            b'c' => [8, 16, 24, 32].contains(&count),
            b'S' | b'U' => true,
            // References, of the size that they have on the machine that wrote them.
            b'O' => [4, 8].contains(&count),
            _ => false,
        };
        if !is_known {
            return Err(refused());
        }
        Ok(Self { order: b'|', kind: *kind, count }.in_order(order.unwrap_or(b'=')))
    }

    /// The same in another order of bytes; `=` is that of the machine, and nobody's is big.
    pub(super) fn in_order(self, order: u8) -> Self {
        let has_order = self.kind == b'U' || (!matches!(self.kind, b'S' | b'O') && self.count > 1);
        let order = match order {
            _ if !has_order => b'|',
            b'>' => b'>',
            _ => b'<',
        };
        Self { order, ..self }
    }

    pub(super) fn is_text(self) -> bool {
        self.kind == b'U'
    }

    pub(super) fn is_bytes(self) -> bool {
        self.kind == b'S'
    }

    /// Whether items are values of their own.
    pub(super) fn is_objects(self) -> bool {
        self.kind == b'O'
    }

    pub(super) fn is_big_endian(self) -> bool {
        self.order == b'>'
    }

    /// Whether Python has numbers of this type without numpy: yes or no, whole numbers and floats of 64 bits.
    pub(super) fn is_of_python(self) -> bool {
        matches!((self.kind, self.count), (b'b', _) | (b'i' | b'f', 8))
    }

    /// Bytes of an item.
    pub(super) fn item_bytes(self) -> u64 {
        u64::from(self.count) * if self.is_text() { 4 } else { 1 }
    }

    /// An array of this type, its length checked.
    pub(super) fn array(self, shape: Vec<u64>, is_fortran: bool, data: EncodedRange) -> Result<Array, String> {
        if shape.len() > MAX_AXES {
            return Err(format!("an array of {} axes", shape.len()));
        }
        if self.is_objects() {
            return Err(format!("an array of {self}, which are no numbers"));
        }
        let bytes = match shape.contains(&0) {
            true => Some(0),
            false => shape.iter().try_fold(self.item_bytes(), |bytes, axis| bytes.checked_mul(*axis)),
        };
        if bytes != Some(data.len() as u64) {
            return Err(format!("an array of {self} and shape {} has {} bytes", by(&shape), data.len()));
        }
        Ok(Array { dtype: self.name(), shape, is_fortran, data })
    }

    /// As numpy writes it; most have one digit, and need no formatting.
    fn name(self) -> String {
        match u8::try_from(self.count) {
            Ok(count @ 0..=9) => [self.order, self.kind, b'0' + count].map(char::from).iter().collect(),
            _ => self.to_string(),
        }
    }

    /// The number in the bytes of an item; `None` for complex numbers, those beyond 64 bits, and strings.
    pub(super) fn number(self, item: &[u8]) -> Option<Number> {
        let mut bytes = [0; 8];
        let size = usize::try_from(self.count).ok()?;
        bytes.get_mut(..size)?.copy_from_slice(item.get(..size)?);
        if self.is_big_endian() {
            bytes[..size].reverse();
        }
        let bits = u64::from_le_bytes(bytes);
        Some(match (self.kind, size) {
            (b'b', _) => Number::Bool(bits != 0),
            (b'i', _) => {
                let unused = 64 - 8 * u32::from(u8::try_from(size).ok()?);
                Number::Int((bits << unused).cast_signed() >> unused)
            }
            (b'u', _) => i64::try_from(bits).map_or(Number::Huge, Number::Int),
            (b'f', 2) => Number::Float(half(u16::try_from(bits).ok()?)),
            (b'f', 4) => Number::Float(f32::from_bits(u32::try_from(bits).ok()?).into()),
            (b'f', 8) => Number::Float(f64::from_bits(bits)),
            _ => return None,
        })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", char::from(self.order), char::from(self.kind), self.count)
    }
}

/// IEEE 754, binary16.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent.cmp(&0x1f) {
        _ if exponent == 0 => fraction * 2f64.powi(-24),
        Ordering::Less => (1024.0 + fraction) * 2f64.powi(exponent - 25),
        _ if fraction == 0.0 => f64::INFINITY,
        _ => f64::NAN,
    };
    if bits >> 15 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_numpy() {
        let rows = [
            ("u1", "|u1", 1),
            ("<u1", "|u1", 1),
            ("|b1", "|b1", 1),
            ("i8", "<i8", 8),
            (">f4", ">f4", 4),
            ("=f2", "<f2", 2),
            ("S5", "|S5", 5),
            ("U5", "<U5", 20),
            ("c16", "<c16", 16),
            ("O8", "|O8", 8),
        ];
        for (name, known, bytes) in rows {
            let dtype = Dtype::parse(name.as_bytes()).unwrap();
            assert_eq!((dtype.to_string().as_str(), dtype.item_bytes()), (known, bytes), "{name}");
        }
        for name in ["", "<", "O9", "M8[ns]", "V4", "u3", "u", "i+8", "u99999999999", "f8x", "b2"] {
            Dtype::parse(name.as_bytes()).expect_err(name);
        }
    }

    #[test]
    fn numbers_are_read_in_their_order_and_size() {
        let rows: [(&str, &[u8], Option<Number>); 15] = [
            ("|b1", &[1], Some(Number::Bool(true))),
            ("|u1", &[200], Some(Number::Int(200))),
            ("|i1", &[200], Some(Number::Int(-56))),
            ("<i2", &[0xfe, 0xff], Some(Number::Int(-2))),
            (">i2", &[0xff, 0xfe], Some(Number::Int(-2))),
            ("<i8", &[0, 0, 0, 0, 0, 0, 0, 0x80], Some(Number::Int(i64::MIN))),
            ("<u8", &[0, 0, 0, 0, 0, 0, 0, 0x80], Some(Number::Huge)),
            ("<f2", &[0, 0x3e], Some(Number::Float(1.5))),
            ("<f2", &[1, 0x80], Some(Number::Float(-5.960_464_477_539_063e-8))),
            ("<f2", &[0, 0xfc], Some(Number::Float(f64::NEG_INFINITY))),
            ("<f2", &[0xff, 0x7b], Some(Number::Float(65504.0))),
            ("<f4", &[0, 0, 0, 0x3f], Some(Number::Float(0.5))),
            (">f8", &[0x3f, 0xe0, 0, 0, 0, 0, 0, 0], Some(Number::Float(0.5))),
            ("<f16", &[0; 16], None),
            ("<c8", &[0; 8], None),
        ];
        for (name, item, number) in rows {
            assert_eq!(Dtype::parse(name.as_bytes()).unwrap().number(item), number, "{name}");
        }
        assert_eq!(Dtype::parse(b"i8").unwrap().number(&[0; 7]), None, "too short");
    }

    #[test]
    fn the_shape_of_an_array_has_to_be_that_of_its_bytes() {
        let rows: [(&str, &[u64], usize, bool); 8] = [
            ("u1", &[2, 3], 6, true),
            ("f4", &[2, 3], 24, true),
            ("u1", &[], 1, true),
            ("u1", &[u64::MAX, u64::MAX, 0], 0, true),
            ("u1", &[1 << 60], 6, false),
            ("f4", &[1 << 62], 0, false),
            ("u1", &[1 << 32, 1 << 32], 0, false),
            ("u1", &[1; 33], 1, false),
        ];
        for (dtype, shape, bytes, is_right) in rows {
            let array =
                Dtype::parse(dtype.as_bytes()).unwrap().array(shape.to_vec(), false, EncodedRange::Plain(0..bytes));
            assert_eq!(array.is_ok(), is_right, "{dtype} {shape:?}");
        }
    }
}
