//! Numbers and text as JSON, spelled in the one way that says all of them.

use std::io::Write;

/// A value that is neither bytes nor text, or one of several: as text that says all of it.
///
/// It is JSON; numbers that are none, which JSON has not, are spelled as Python's `json` and `float` take them.
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
    /// Longest list that is made text of, in values: far more than bounding boxes or embeddings have, few enough to be in memory.
    pub const MOST_VALUES: usize = 1 << 18;

    /// Appends it to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        let real = |out: &mut Vec<u8>, number: &dyn std::fmt::Debug, value: f64| match value {
            // As few digits as tell it from others of its width.
            _ if value.is_finite() => write!(out, "{number:?}"),
            _ if value.is_nan() => out.write_all(b"NaN"),
            _ if value < 0.0 => out.write_all(b"-Infinity"),
            _ => out.write_all(b"Infinity"),
        };
        let written = match self {
            Self::Null => out.write_all(b"null"),
            Self::Bool(yes) => write!(out, "{yes}"),
            Self::Whole(number) => match i64::try_from(number) {
                // Those of 128 bits take several times as long.
                Ok(number) => write!(out, "{number}"),
                Err(_) => write!(out, "{number}"),
            },
            Self::Single(number) => real(out, &number, number.into()),
            Self::Double(number) => real(out, &number, number),
            Self::Text(text) => serde_json::to_writer(&mut *out, text).map_err(Into::into),
        };
        // Memory takes all of it.
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
