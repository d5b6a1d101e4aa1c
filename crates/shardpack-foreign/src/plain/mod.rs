//! Parses serialised plain data from untrusted sources, as in values of databases: pickles, msgpack, Caffe's `Datum` and the
//! output of `pyarrow.serialize`.
//!
//! Nothing is executed, and names resolve only through a short fixed list. A value is at most [`MAX_DEPTH`] deep. Its number
//! of values, with shared parts counted at each use, is not much larger than the number of input bytes. Long parts are ranges
//! in the input, not copies. Lengths are checked before use.

mod array;
mod arrow;
pub(crate) mod content;
mod cursor;
mod datum;
mod dtype;
mod msgpack;
mod pickle;

use std::{borrow::Cow, ops::Range, sync::Arc};

use shardpack_format::field_names;

pub(crate) use self::content::write_in_c_order;
use self::dtype::Number;
pub use self::{
    arrow::arrow,
    datum::{Datum, datum},
    msgpack::msgpack,
    pickle::{pickle, torch_pickle},
};

/// Deepest nesting of values; images with labels are three or four deep.
pub const MAX_DEPTH: usize = 64;
/// Values that even the shortest input may stand for.
const FREE_VALUES: usize = 4096;

/// Longest key of a map that is compared with names.
const MAX_NAME_BYTES: usize = 64;

/// Axes for a message: `3×4`.
pub fn by<T: ToString>(axes: &[T]) -> String {
    axes.iter().map(T::to_string).collect::<Vec<_>>().join("×")
}

/// A value; its long parts are ranges in the input, which is not kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    None,
    /// Yes or no.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A whole number that 64 bits, signed, do not hold.
    Huge,
    /// A number of at most 64 bits.
    Float(f64),
    /// Text in UTF-8.
    Text(EncodedRange),
    /// Bytes.
    Bytes(EncodedRange),
    /// A list or a tuple.
    List(Vec<Self>),
    /// Keys and values, in the order they were given; of the same key the last one counts.
    Map(Vec<(Self, Self)>),
    /// An array of numbers.
    Array(Arc<Array>),
    /// A value that is no plain data and was not built: the class that it needs.
    Foreign(Arc<str>),
}

/// Position of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedRange {
    /// In the input, as they are.
    Plain(Range<usize>),
    /// In the input, each as a character of UTF-8: how pickles of protocol 2 and below hold bytes.
    Latin1 {
        /// Range of the text.
        range: Range<usize>,
        /// Number of characters; each character is a byte.
        bytes: usize,
    },
    /// Here: they were escaped in the input.
    Owned(Arc<[u8]>),
}

/// A numpy array of numbers or of strings of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Type of an item as numpy writes it: `|u1`, `<f4`.
    pub dtype: String,
    /// Length of each axis.
    pub shape: Vec<u64>,
    /// Whether the first axis is the one that changes fastest.
    pub is_fortran: bool,
    /// The items, exactly as many as `shape` requires.
    pub data: EncodedRange,
}

impl EncodedRange {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(range) => range.len(),
            Self::Latin1 { bytes, .. } => *bytes,
            Self::Owned(bytes) => bytes.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Range of the bytes in the input, if stored unchanged.
    pub fn range(&self) -> Option<Range<usize>> {
        match self {
            Self::Plain(range) => Some(range.clone()),
            Self::Latin1 { .. } | Self::Owned(_) => None,
        }
    }

    /// The bytes; `input` is the source of the value.
    pub fn read<'a>(&'a self, input: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            Self::Plain(range) => Cow::Borrowed(input.get(range.clone()).unwrap_or_default()),
            Self::Latin1 { range, bytes } => {
                let mut out = Vec::with_capacity(*bytes);
                let mut first = None;
                for byte in input.get(range.clone()).unwrap_or_default() {
                    // A character from U+0080 to U+00FF is two bytes: 110000ab 10cdefgh.
                    match first.take() {
                        Some(first) => out.push((first << 6) | (byte & 0x3f)),
                        None if *byte < 0x80 => out.push(*byte),
                        None => first = Some(*byte),
                    }
                }
                Cow::Owned(out)
            }
            Self::Owned(bytes) => Cow::Borrowed(bytes),
        }
    }
}

impl Value {
    /// Bytes, or a flat array of bytes, which is how some keep a JPEG.
    pub fn as_bytes(&self) -> Option<&EncodedRange> {
        match self {
            Self::Bytes(part) => Some(part),
            Self::Array(array) if array.dtype == "|u1" && array.shape.len() == 1 => Some(&array.data),
            _ => None,
        }
    }

    /// A whole number.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// As above, and also for a numpy scalar: an array without axes. `input` is the source of the value.
    pub fn as_whole(&self, input: &[u8]) -> Option<i64> {
        match self {
            Self::Array(array) => array.scalar(input)?.as_int(),
            value => value.as_int(),
        }
    }

    /// Whether it is an array that has axes, and not a single number.
    pub fn has_axes(&self) -> bool {
        matches!(self, Self::Array(array) if !array.shape.is_empty())
    }

    /// Text, or bytes that are UTF-8; `input` is the source of the value.
    pub fn as_text<'a>(&'a self, input: &'a [u8]) -> Option<Cow<'a, str>> {
        let (Self::Text(part) | Self::Bytes(part)) = self else { return None };
        match part.read(input) {
            Cow::Borrowed(bytes) => str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }

    /// Items of a list.
    pub fn items(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Entries of a map.
    pub fn entries(&self) -> Option<&[(Self, Self)]> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of the key `name` in a map; `input` is the source of the map.
    pub fn get(&self, input: &[u8], name: &str) -> Option<&Self> {
        // Of bytes as UTF-8 as well: a key of Python 2 is of bytes.
        let is_it = |key: &Self| match key {
            Self::Text(part) | Self::Bytes(part) => part.len() == name.len() && *part.read(input) == *name.as_bytes(),
            _ => false,
        };
        self.entries()?.iter().rev().find(|(key, _)| is_it(key)).map(|(_, value)| value)
    }

    /// The value in a map whose key is one of `names`, ignoring case; the likeliest name wins.
    pub fn called(&self, input: &[u8], names: &[&str]) -> Option<&Self> {
        let rank = |key: &Self| match key {
            // Longer keys match no name.
            Self::Text(part) | Self::Bytes(part) if part.len() <= MAX_NAME_BYTES => {
                field_names::rank(&key.as_text(input)?, names)
            }
            _ => None,
        };
        let found = self.entries()?.iter().rev().filter_map(|(key, value)| Some((rank(key)?, value)));
        found.min_by_key(|(rank, _)| *rank).map(|(_, value)| value)
    }

    /// Kind of the value, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Bool(_) => "a yes or no",
            Self::Int(_) => "a whole number",
            Self::Huge => "a whole number beyond 64 bits",
            Self::Float(_) => "a number with a fraction",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Array(_) => "an array",
            Self::Foreign(_) => "an object of a program",
        }
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::Bool(yes) => Self::Bool(yes),
            Number::Int(number) => Self::Int(number),
            Number::Huge => Self::Huge,
            Number::Float(number) => Self::Float(number),
        }
    }
}

/// Limits on the number of values still to be built, and on bytes that may be read repeatedly: a short input with many
/// references costs no more than the same input written out in full.
struct Room {
    left: usize,
    all: usize,
    work_bytes: usize,
}

impl Room {
    fn for_input(input: &[u8]) -> Self {
        let all = input.len().saturating_add(FREE_VALUES);
        Self { left: all, all, work_bytes: all.saturating_mul(4) }
    }

    fn take(&mut self, values: usize) -> Result<(), String> {
        let left = self.left.checked_sub(values);
        self.left = left.ok_or_else(|| format!("it stands for more than {} values", self.all))?;
        Ok(())
    }

    fn work(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.work_bytes.checked_sub(bytes);
        self.work_bytes = left.ok_or("it refers to the same parts too often")?;
        Ok(())
    }
}

/// So many values, made one after the other; room for them has been taken.
fn made<T>(count: usize, make: impl FnMut(usize) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut values = Vec::with_capacity(count);
    for value in (0..count).map(make) {
        values.push(value?);
    }
    Ok(values)
}

fn too_deep() -> String {
    format!("values are nested more than {MAX_DEPTH} deep")
}

#[cfg(test)]
mod tests;
