//! Writes numbers and text as JSON without loss, each in one canonical spelling.

use std::io::Write;

/// A value that is neither bytes nor text, or a value in a list: written as text without loss.
///
/// The text is JSON. NaN and infinities, which JSON lacks, are spelled as Python's `json` and `float` accept them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plain<'a> {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Whole(i128),
    /// A number of 32 bits.
    Single(f32),
    /// A number of 64 bits.
    Double(f64),
    /// Text.
    Text(&'a str),
}

impl Plain<'_> {
    /// Longest list that is written as text, in values: far more than bounding boxes or embeddings have, few enough for memory.
    pub const MAX_VALUES: usize = 1 << 18;

    /// Appends the value to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        let real = |out: &mut Vec<u8>, number: &dyn std::fmt::Debug, value: f64| match value {
            // The fewest digits that identify the number in its width.
            _ if value.is_finite() => write!(out, "{number:?}"),
            _ if value.is_nan() => out.write_all(b"NaN"),
            _ if value < 0.0 => out.write_all(b"-Infinity"),
            _ => out.write_all(b"Infinity"),
        };
        let written = match self {
            Self::Null => out.write_all(b"null"),
            Self::Bool(yes) => write!(out, "{yes}"),
            Self::Whole(number) => match i64::try_from(number) {
                // Formatting an i128 takes several times as long.
                Ok(number) => write!(out, "{number}"),
                Err(_) => write!(out, "{number}"),
            },
            Self::Single(number) => real(out, &number, number.into()),
            Self::Double(number) => real(out, &number, number),
            Self::Text(text) => serde_json::to_writer(&mut *out, text).map_err(Into::into),
        };
        // A write to memory cannot fail.
        let _ = written;
    }

    /// Appends a list to `out`: `[1,2]`.
    pub fn write_list<'v>(values: impl Iterator<Item = Plain<'v>>, out: &mut Vec<u8>) {
        out.push(b'[');
        for (number, value) in values.enumerate() {
            if number > 0 {
                out.push(b',');
            }
            value.write(out);
        }
        out.push(b']');
    }
}
