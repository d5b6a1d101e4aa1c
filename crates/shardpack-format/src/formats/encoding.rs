//! Encodings of components in formats with typed values: numbers and array items, without file heads.
//!
//! Holds at all times: [`Encoding::decode`] returns, to the byte, the content that [`Encoding::encode`] received.

use std::borrow::Cow;

use super::foreign::Plain;
use crate::{Error, Result, component::Form};

/// Length in bytes of a number written as a varint: always the maximum, so that the length of a record does not
/// depend on its content.
pub(super) const VARINT_BYTES: usize = 10;
/// Length in bytes of a 64-bit number.
const NUMBER_BYTES: usize = 8;
/// The dtype of 64-bit integers, as numpy writes it.
pub(super) const INT64: &str = "<i8";
/// Limit for the number of axes, exclusive. A shape stores this number in six bits; the other two bits of the byte have the width
/// of each length.
const SHAPE_AXES: usize = 64;

/// Encoding of a sample's component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// The content unchanged.
    Content,
    /// The items of an array.
    Items,
    /// The shape of an array, then its items: how MDS stores arrays that differ in shape.
    ShapeAndItems,
    /// 64-bit integers, each a varint of [`VARINT_BYTES`]: the items of an array, or a single integer.
    Varints,
    /// A 64-bit integer, little-endian.
    Int,
    /// A float64, little-endian.
    Float,
}

impl Encoding {
    /// Length in bytes of the stored form of a content that is `content_bytes` long.
    ///
    /// # Errors
    /// If this encoding cannot store the form.
    pub fn stored_bytes(self, form: &Form, content_bytes: u32) -> Result<u64> {
        let items = || form.items_bytes().ok_or_else(|| unfit(form));
        Ok(match self {
            Self::Content => content_bytes.into(),
            Self::Items => items()?,
            Self::ShapeAndItems => shape(form)?.len() as u64 + items()?,
            Self::Varints => match form {
                Form::Int => VARINT_BYTES as u64,
                Form::Array { dtype, .. } if dtype == INT64 => items()? / NUMBER_BYTES as u64 * VARINT_BYTES as u64,
                _ => return Err(unfit(form)),
            },
            Self::Int | Self::Float => NUMBER_BYTES as u64,
        })
    }

    /// Writes the stored form of `content` over `stored`, which is [`Encoding::stored_bytes`] long.
    ///
    /// # Errors
    /// If the content does not have this form.
    pub fn encode(self, form: &Form, content: &[u8], stored: &mut [u8]) -> Result<()> {
        let items = || form.items(content).ok_or_else(|| unfit(form));
        let stored_bytes = stored.len() as u64;
        let mut put = |bytes: &[u8]| match bytes.len() == stored.len() {
            true => {
                stored.copy_from_slice(bytes);
                Ok(())
            }
            false => Err(unfit(form)),
        };
        match self {
            Self::Content => put(content),
            Self::Items => put(items()?),
            Self::ShapeAndItems => put(&[shape(form)?.as_slice(), items()?].concat()),
            Self::Varints => {
                let numbers: Cow<'_, [u8]> = match form {
                    Form::Int => int(content)?.to_le_bytes().to_vec().into(),
                    _ => items()?.into(),
                };
                let (numbers, places) = (numbers.as_chunks::<NUMBER_BYTES>(), stored.as_chunks_mut::<VARINT_BYTES>());
                let ((numbers, []), (places, [])) = (numbers, places) else { return Err(unfit(form)) };
                if self.stored_bytes(form, 0)? != stored_bytes || numbers.len() != places.len() {
                    return Err(unfit(form));
                }
                numbers.iter().zip(places).for_each(|(number, place)| *place = varint(u64::from_le_bytes(*number)));
                Ok(())
            }
            Self::Int => put(&int(content)?.to_le_bytes()),
            Self::Float => put(&float(content)?.to_le_bytes()),
        }
    }

    /// Decodes the content from `stored`.
    ///
    /// # Errors
    /// If `stored` does not have this form.
    pub fn decode<'s>(self, form: &Form, stored: &'s [u8]) -> Result<Cow<'s, [u8]>> {
        let of_items = |items: &[u8]| match form.items_bytes() == Some(items.len() as u64) {
            true => Ok(Cow::Owned([form.head().as_slice(), items].concat())),
            false => Err(unfit(form)),
        };
        match self {
            Self::Content => Ok(stored.into()),
            Self::Items => of_items(stored),
            Self::ShapeAndItems => of_items(stored.strip_prefix(shape(form)?.as_slice()).ok_or_else(|| unfit(form))?),
            Self::Varints => {
                let (places, []) = stored.as_chunks::<VARINT_BYTES>() else { return Err(unfit(form)) };
                let numbers = places.iter().map(|place| number(place).ok_or_else(|| unfit(form)));
                match form {
                    Form::Int => match *numbers.collect::<Result<Vec<_>>>()? {
                        [number] => Ok(text(Plain::Whole(number.cast_signed().into()))),
                        _ => Err(unfit(form)),
                    },
                    _ => {
                        let mut items = Vec::with_capacity(places.len() * NUMBER_BYTES);
                        for number in numbers {
                            items.extend_from_slice(&number?.to_le_bytes());
                        }
                        of_items(&items)
                    }
                }
            }
            Self::Int | Self::Float => {
                let bytes = *stored.as_array::<NUMBER_BYTES>().ok_or_else(|| unfit(form))?;
                Ok(text(match self {
                    Self::Int => Plain::Whole(i64::from_le_bytes(bytes).into()),
                    _ => Plain::Double(f64::from_le_bytes(bytes)),
                }))
            }
        }
    }
}

impl Encoding {
    /// The items of an array in this encoding; `None` if the form is no array, or the content is shorter than its items.
    ///
    /// # Errors
    /// If `stored` does not have this form.
    pub fn items<'s>(self, form: &Form, stored: &'s [u8]) -> Result<Option<Cow<'s, [u8]>>> {
        let Form::Array { .. } = form else { return Ok(None) };
        let whole = |items: &'s [u8]| match form.items_bytes() == Some(items.len() as u64) {
            true => Ok(Some(Cow::Borrowed(items))),
            false => Err(unfit(form)),
        };
        match self {
            Self::Content => Ok(form.items(stored).map(Cow::Borrowed)),
            Self::Items => whole(stored),
            Self::ShapeAndItems => whole(stored.strip_prefix(shape(form)?.as_slice()).ok_or_else(|| unfit(form))?),
            _ => Ok(form.items(&self.decode(form, stored)?).map(|items| Cow::Owned(items.to_vec()))),
        }
    }
}

/// The shape of an array as MDS stores it before the items. First a byte: number of axes times 4, plus 0 to 3 for lengths of 1, 2, 4
/// or 8 bytes. Then the lengths.
fn shape(form: &Form) -> Result<Vec<u8>> {
    let Form::Array { shape, .. } = form else { return Err(unfit(form)) };
    if shape.len() >= SHAPE_AXES {
        return Err(unfit(form));
    }
    let code = match shape.iter().max() {
        Some(256..=0xffff) => 1,
        Some(0x1_0000..=0xffff_ffff) => 2,
        Some(0x1_0000_0000..) => 3,
        _ => 0,
    };
    let mut out = vec![(shape.len() as u8) << 2 | code];
    shape.iter().for_each(|axis| out.extend_from_slice(&axis.to_le_bytes()[..1 << code]));
    Ok(out)
}

fn text(plain: Plain<'_>) -> Cow<'static, [u8]> {
    let mut out = Vec::new();
    plain.write(&mut out);
    Cow::Owned(out)
}

fn int(content: &[u8]) -> Result<i64> {
    str::from_utf8(content).ok().and_then(|text| text.parse().ok()).ok_or_else(|| unfit(&Form::Int))
}

fn float(content: &[u8]) -> Result<f64> {
    // Accepts `NaN`, `Infinity` and `-Infinity`, which Python writes into JSON.
    str::from_utf8(content).ok().and_then(|text| text.parse().ok()).ok_or_else(|| unfit(&Form::Float))
}

/// A varint padded to the length of the longest.
fn varint(mut number: u64) -> [u8; VARINT_BYTES] {
    let mut out = [0; VARINT_BYTES];
    let (last, others) = (VARINT_BYTES - 1, &mut out);
    for (at, byte) in others.iter_mut().enumerate() {
        *byte = (number & 0x7f) as u8 | if at < last { 0x80 } else { 0 };
        number >>= 7;
    }
    out
}

/// The number of a padded varint; `None` if the varint is written in another way.
fn number(place: &[u8; VARINT_BYTES]) -> Option<u64> {
    let number = place.iter().enumerate().fold(0u64, |number, (at, byte)| {
        // The tenth byte contributes one bit.
        number | u64::from(byte & 0x7f).unbounded_shl(7 * at as u32)
    });
    (varint(number) == *place).then_some(number)
}

#[cold]
fn unfit(form: &Form) -> Error {
    Error::data(format!("the stored value does not have the form {form}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn comes_back(encoding: Encoding, form: &Form, content: &[u8]) -> Vec<u8> {
        let bytes = encoding.stored_bytes(form, content.len() as u32).unwrap();
        let mut stored = vec![0xaa; bytes as usize];
        encoding.encode(form, content, &mut stored).unwrap();
        assert_eq!(encoding.decode(form, &stored).unwrap(), content, "{encoding:?} {form}");
        let items = encoding.items(form, &stored).unwrap();
        assert_eq!(items.as_deref(), form.items(content), "{encoding:?} {form}");
        stored
    }

    fn array(dtype: &str, shape: &[u64], items: &[u8]) -> (Form, Vec<u8>) {
        let form = Form::array(dtype, shape).unwrap();
        let content = [form.head().as_slice(), items].concat();
        (form, content)
    }

    #[test]
    fn what_is_stored_is_what_the_formats_say() {
        let (form, content) = array("<f4", &[1, 2], &[0, 0, 0x80, 0x3f, 1, 0, 0xc0, 0x7f]);
        assert_eq!(comes_back(Encoding::Items, &form, &content), [0, 0, 0x80, 0x3f, 1, 0, 0xc0, 0x7f]);
        // streaming: [ndim << 2 | code of the shape's dtype] [shape] [values]
        assert_eq!(comes_back(Encoding::ShapeAndItems, &form, &content)[..3], [2 << 2, 1, 2]);
        let (form, content) = array("|u1", &[300], &[7; 300]);
        assert_eq!(comes_back(Encoding::ShapeAndItems, &form, &content)[..3], [1 << 2 | 1, 44, 1]);
        let (form, content) = array("<i8", &[2], &[[1, 0, 0, 0, 0, 0, 0, 0], [0xff; 8]].concat());
        let stored = comes_back(Encoding::Varints, &form, &content);
        assert_eq!(stored[..10], [0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]);
        assert_eq!(stored[10..], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(comes_back(Encoding::Int, &Form::Int, b"-2"), [0xfe, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(comes_back(Encoding::Float, &Form::Float, b"0.1"), 0.1f64.to_le_bytes());
    }

    #[test]
    fn what_is_of_another_form_is_an_error() {
        let (form, content) = array("<f4", &[2], &[0; 8]);
        for (encoding, form, content, bytes) in [
            (Encoding::Items, &Form::Text, &content[..], 8),
            (Encoding::Items, &form, &content[..4], 8),
            (Encoding::Items, &form, &content[..], 7),
            (Encoding::Varints, &form, &content[..], 10),
            (Encoding::Int, &Form::Int, b"1.5", 8),
            (Encoding::Float, &Form::Float, b"x", 8),
        ] {
            assert!(encoding.encode(form, content, &mut vec![0; bytes]).is_err(), "{encoding:?} {form}");
        }
        let short = [0x81u8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (encoding, form, stored) in [
            (Encoding::Items, &form, &[0u8; 7][..]),
            (Encoding::ShapeAndItems, &form, &[1 << 2, 3, 0, 0, 0, 0, 0, 0, 0, 0][..]),
            (Encoding::Varints, &Form::Int, &[0; 9][..]),
            (Encoding::Varints, &Form::Int, &short[..]),
            (Encoding::Int, &Form::Int, &[0; 9][..]),
        ] {
            assert!(encoding.decode(form, stored).is_err(), "{encoding:?} {form}");
            assert!(encoding.items(form, stored).is_err() || *form == Form::Int, "{encoding:?} {form}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(whole: i64, bits: u64) {
            let whole = whole.to_string();
            comes_back(Encoding::Int, &Form::Int, whole.as_bytes());
            comes_back(Encoding::Varints, &Form::Int, whole.as_bytes());
            let float = f64::from_bits(bits);
            let content = text(Plain::Double(float)).into_owned();
            let stored = comes_back(Encoding::Float, &Form::Float, &content);
            prop_assert!(float.is_nan() || stored == bits.to_le_bytes());
        }
    }
}
