//! Numbers and text as JSON, spelled in the one way that says all of them.

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
        let real = |number: &dyn std::fmt::Debug, is_finite: bool, is_number: bool, is_negative: bool| match () {
            // As few digits as tell it from others of its width.
            () if is_finite => format!("{number:?}"),
            () if !is_number => "NaN".to_owned(),
            () if is_negative => "-Infinity".to_owned(),
            () => "Infinity".to_owned(),
        };
        let text = match self {
            Self::Null => "null".to_owned(),
            Self::Bool(yes) => yes.to_string(),
            Self::Whole(number) => number.to_string(),
            Self::Single(number) => real(&number, number.is_finite(), !number.is_nan(), number < 0.0),
            Self::Double(number) => real(&number, number.is_finite(), !number.is_nan(), number < 0.0),
            Self::Text(text) => serde_json::Value::from(text).to_string(),
        };
        out.extend_from_slice(text.as_bytes());
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
