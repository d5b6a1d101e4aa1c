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
        whole(raw).map_or_else(|| Self::Unfit(format!("{raw} is no whole number")), Self::Number)
    }
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
    fn numbers_are_told_from_names() {
        for (text, expected) in [("7", Some(7)), ("-1", Some(-1)), ("7.0", Some(7)), ("0", Some(0)), ("0.0", Some(0))] {
            assert_eq!(whole(text), expected, "{text}");
        }
        for text in ["", "007", "7.5", "1e400", "nan", "inf", "x", "+7", "n01440764", "1e30"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
