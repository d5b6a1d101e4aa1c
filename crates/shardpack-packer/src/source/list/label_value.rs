//! The label value of a row of a list: a whole number, a name, nothing, or something that is no label.

/// Up to here every whole number is exact in 64-bit floating point.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// What a row says as its label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum LabelValue {
    #[default]
    Missing,
    Number(i64),
    Text(Vec<u8>),
    /// A number with a fraction, as it is spelled: it measures something and names no class.
    Fraction(String),
    /// Something that is no label, and why.
    Unfit(String),
}

impl LabelValue {
    /// A field of text.
    pub fn of_text(text: &[u8]) -> Self {
        match text.trim_ascii() {
            [] => Self::Missing,
            text => Self::Text(text.to_vec()),
        }
    }

    /// A number as JSON spells it.
    pub fn of_number(raw: &str) -> Self {
        whole(raw).map_or_else(|| Self::Fraction(raw.to_owned()), Self::Number)
    }
}

/// Types of the labels of a list, to decide whether they are classes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    whole: u64,
    fractions: u64,
    words: u64,
    unfit: u64,
    /// Whether the first of the words is the path of an image, which is beside this one and names no class.
    pub is_path: Option<bool>,
}

impl Seen {
    /// Takes note of a label.
    pub fn add(&mut self, label: &LabelValue) {
        let count = match label {
            LabelValue::Missing => return,
            LabelValue::Number(_) => &mut self.whole,
            LabelValue::Fraction(_) => &mut self.fractions,
            LabelValue::Unfit(_) => &mut self.unfit,
            LabelValue::Text(text) => match std::str::from_utf8(text) {
                Ok(text) if whole(text).is_some() => &mut self.whole,
                Ok(text) if is_fraction(text) => &mut self.fractions,
                _ => &mut self.words,
            },
        };
        *count += 1;
    }

    /// The type of labels that are no classes: measured values, a few missing, or lists and objects.
    pub fn are_no_classes(&self) -> Option<&'static str> {
        let numbers = self.whole + self.fractions;
        if self.is_path == Some(true) && numbers == 0 {
            return Some("paths of images");
        }
        if self.fractions > 0 && self.words * 10 <= numbers {
            return Some("numbers with fractions");
        }
        (self.unfit > 0 && numbers + self.words == 0).then_some("lists, objects or truth values")
    }
}

/// Whether a text is a number that is no whole one.
fn is_fraction(text: &str) -> bool {
    let begins = |text: &str| text.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    // `1.2.3` and `1e5x` are none; `007` is a name, and so is `1e400`.
    begins(text)
        && text.contains(['.', 'e', 'E'])
        && text.parse().is_ok_and(|number: f64| number.is_finite() && number.fract() != 0.0)
}

/// The whole number that a text is: `7`, and `7.0` as tables with gaps have it; not `007`.
pub(super) fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit())
        || (digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."))
    {
        return None;
    }
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() <= MOST_EXACT).then_some(number as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_no_class() {
        let of = |labels: &[&str]| {
            let mut seen = Seen::default();
            labels.iter().for_each(|label| seen.add(&LabelValue::of_text(label.as_bytes())));
            seen.are_no_classes()
        };
        for labels in [&["0.5", "1.25", "-3e-2"][..], &["1", "2.5", "", "3"], &["7.5"], &[".5"]] {
            assert!(of(labels).is_some(), "{labels:?}");
        }
        for labels in [&["1", "2.0", "3"][..], &["cat", "0.5"], &["007", "1e400"], &["1.2.3"], &[""], &[]] {
            assert_eq!(of(labels), None, "{labels:?}");
        }
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
