//! Classifies text labels: whole numbers, numbers with fractions, lists, or words.

use super::literal::is_list;

/// Counts of the text labels of a source by type.
///
/// A number with a fraction is a measured value, not a class. A single fraction among words is a name. A list has more than one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelTypes {
    /// Whole numbers.
    pub whole: u64,
    /// Numbers with fractions.
    pub fractions: u64,
    /// Lists and dicts in text.
    pub lists: u64,
    /// Anything else.
    pub words: u64,
}

impl LabelTypes {
    /// Counts a text label.
    pub fn add(&mut self, text: &[u8]) {
        *match std::str::from_utf8(text) {
            Ok(text) if is_fraction(text) => &mut self.fractions,
            Ok(text) if text.parse().is_ok_and(f64::is_finite) => &mut self.whole,
            _ if is_list(text) => &mut self.lists,
            _ => &mut self.words,
        } += 1;
    }

    /// Whether labels are measured values, not classes: at least one has a fraction, and words and lists, which count as missing values
    /// (`n/a`), are at most a tenth of the numbers.
    pub fn are_measured(&self) -> bool {
        self.fractions > 0 && (self.words + self.lists) * 10 <= self.whole + self.fractions
    }

    /// For a message, the type of labels that are not classes: measured values, or only lists. `None` if they may be classes.
    pub fn no_classes(&self) -> Option<&'static str> {
        match self.whole + self.fractions + self.words {
            0 if self.lists > 0 => Some("lists"),
            _ => self.are_measured().then_some("numbers with fractions"),
        }
    }
}

/// Whether a text is a finite number with a fraction: `0.5`, `.5`, `-3e-2`; not `1.2.3`, `007` or `1e400`.
pub fn is_fraction(text: &str) -> bool {
    let begins = |text: &str| text.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    begins(text)
        && text.contains(['.', 'e', 'E'])
        && text.parse().is_ok_and(|number: f64| number.is_finite() && number.fract() != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_no_class() {
        let are_measured = |labels: &[&str]| {
            let mut types = LabelTypes::default();
            labels.iter().for_each(|label| types.add(label.as_bytes()));
            types.are_measured()
        };
        for labels in [&["0.5", "1.25", "-3e-2"][..], &["1", "2.5", "3"], &["7.5"], &[".5"]] {
            assert!(are_measured(labels), "{labels:?}");
        }
        for labels in [&["1", "2.0", "3"][..], &["cat", "0.5"], &["007", "1e400"], &["1.2.3"], &["nan", "."], &[]] {
            assert!(!are_measured(labels), "{labels:?}");
        }
        let mut types = LabelTypes { whole: 9, fractions: 1, words: 1, lists: 0 };
        assert!(types.are_measured(), "one of 11 is missing");
        types.words = 2;
        assert!(!types.are_measured());
    }

    #[test]
    fn lists_are_no_classes_where_there_is_nothing_else() {
        let mut types = LabelTypes::default();
        types.add(b"[0, 3]");
        assert_eq!(types.no_classes(), Some("lists"));
        types.add(b"cat");
        assert_eq!((types.no_classes(), types.lists, types.words), (None, 1, 1));
    }
}
