//! Parses the label of a list row: a whole number, a name, missing, or invalid.

use shardpack_format::formats::foreign::{LabelTypes, is_list};

use crate::names;

/// Every whole number up to this bound is exact in 64-bit floating point.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The label of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum LabelValue {
    #[default]
    Missing,
    /// Missing, with the reason.
    Unlabelled(&'static str),
    Number(i64),
    Text(Vec<u8>),
    /// The name of a class, also if it spells a number.
    Name(Vec<u8>),
    /// A number with a fraction, as it is spelled. Such a number is a measured value, not a class.
    Fraction(String),
    /// An invalid label, with the reason.
    Unfit(String),
}

impl LabelValue {
    /// Parses a text field.
    pub fn of_text(text: &[u8]) -> Self {
        match text.trim_ascii() {
            [] => Self::Missing,
            text if is_list(text) => Self::Unfit("a list, and no class".to_owned()),
            text => Self::Text(text.to_vec()),
        }
    }

    /// The name of the folder that holds the file at `path`.
    pub fn of_folder(path: &[u8]) -> Self {
        match names::folder(path) {
            Some(folder) => Self::Name(folder.to_vec()),
            None => Self::Missing,
        }
    }

    /// Parses a JSON number.
    pub fn of_number(raw: &str) -> Self {
        whole(raw).map_or_else(|| Self::Fraction(raw.to_owned()), Self::Number)
    }
}

/// Labels that are measured values.
pub(super) const FRACTIONS: &str = "numbers with fractions";

/// Counts the types of a list's labels, to decide whether they are classes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    types: LabelTypes,
    unfit: u64,
    /// Whether the first text label is the path of an existing image file, for example the second image of a pair. Such
    /// a label is no class.
    pub is_path: Option<bool>,
}

impl Seen {
    /// Counts a label.
    pub fn add(&mut self, label: &LabelValue) {
        match label {
            LabelValue::Missing | LabelValue::Unlabelled(_) => {}
            LabelValue::Number(_) => self.types.whole += 1,
            LabelValue::Fraction(_) => self.types.fractions += 1,
            LabelValue::Unfit(_) => self.unfit += 1,
            LabelValue::Text(text) => self.types.add(text),
            LabelValue::Name(_) => self.types.words += 1,
        }
    }

    /// The type of the labels if they are not classes: measured values, paths of images, or lists and objects. Some
    /// labels may be missing.
    pub fn are_no_classes(&self) -> Option<&'static str> {
        let numbers = self.types.whole + self.types.fractions;
        if self.is_path == Some(true) && numbers == 0 {
            return Some("paths of images");
        }
        if self.types.are_measured() {
            return Some(FRACTIONS);
        }
        (self.unfit > 0 && numbers + self.types.words == 0).then_some("lists, objects or truth values")
    }
}

/// Parses a whole number: `7`, or `7.0` as in tables with gaps; not `007`.
pub(super) fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit())
        || (digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."))
    {
        return None;
    }
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER).then_some(number as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_objects_are_no_classes_where_there_is_nothing_else() {
        let mut unfit = Seen::default();
        unfit.add(&LabelValue::Unfit("a list".to_owned()));
        assert!(unfit.are_no_classes().is_some());
        unfit.add(&LabelValue::Number(3));
        assert_eq!(unfit.are_no_classes(), None);
    }

    #[test]
    fn numbers_are_told_from_names() {
        for (text, expected) in [("7", Some(7)), ("-1", Some(-1)), ("7.0", Some(7)), ("0", Some(0)), ("0.0", Some(0))] {
            assert_eq!(whole(text), expected, "{text}");
        }
        for text in ["", "007", "7.5", "1e400", "nan", "inf", "x", "+7", "n01440764", "1e30"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
