//! Labels in file names: the pattern of `--label-pattern`.
//!
//! Holds at all times: a name has at most one label by a pattern.

mod classify;
mod suggest;

use std::fmt;

use shardpack_format::{Error, Result, component::stem, shell};

use super::names;

pub(super) use suggest::suggestion;

const LABEL: &str = "{label}";
const NUMBER: &str = "{n}";
const ANY: char = '*';

/// A part of a pattern beside the label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// One or more digits.
    Number,
    /// Any text, or none.
    Any,
}

impl Part {
    /// The positions in `name` where the part can end, if it starts at one of the positions `from`.
    fn ends(&self, name: &[u8], from: &[bool]) -> Vec<bool> {
        let mut to = vec![false; from.len()];
        match self {
            Self::Text(text) => {
                for start in (0..from.len()).filter(|start| from[*start] && name[*start..].starts_with(text)) {
                    to[start + text.len()] = true;
                }
            }
            Self::Number => {
                for at in 0..name.len() {
                    to[at + 1] = name[at].is_ascii_digit() && (from[at] || to[at]);
                }
            }
            Self::Any => {
                let first = from.iter().position(|is_start| *is_start).unwrap_or(from.len());
                to[first..].fill(true);
            }
        }
        to
    }

    /// The positions in `name` where the part can start, if it ends at one of the positions `to`.
    fn starts(&self, name: &[u8], to: &[bool]) -> Vec<bool> {
        let mut from = vec![false; to.len()];
        match self {
            Self::Text(text) => {
                for end in (text.len()..to.len()).filter(|end| to[*end] && name[..*end].ends_with(text)) {
                    from[end - text.len()] = true;
                }
            }
            Self::Number => {
                for at in (0..name.len()).rev() {
                    from[at] = name[at].is_ascii_digit() && (to[at + 1] || from[at + 1]);
                }
            }
            Self::Any => {
                let end = to.iter().rposition(|is_end| *is_end).map_or(0, |last| last + 1);
                from[..end].fill(true);
            }
        }
        from
    }
}

/// A pattern of file names without their extensions, with the place of the label.
///
/// `{label}` is the label, `{n}` stands for one or more digits, `*` for any text or none, and all else for itself. If
/// a name fits in several ways, the label is the shortest, and among equally short ones the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPattern {
    text: String,
    before: Vec<Part>,
    after: Vec<Part>,
}

impl fmt::Display for LabelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl LabelPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If it has not exactly one label, or the label would be arbitrary or the whole name.
    pub fn parse(pattern: &str) -> Result<Self> {
        let wrong = |what: &str| Error::usage(format!("--label-pattern {pattern:?}: {what}"));
        if let Some(bare) = without_extension(pattern) {
            let option = shell::word(bare);
            return Err(wrong("names are matched without their extension")
                .help(format!("--label-pattern {option} leaves the extension out")));
        }
        if pattern.contains('/') {
            return Err(wrong("the name of a file has no /: folders are not matched"));
        }
        let mut sides = pattern.split(LABEL);
        let (Some(before), Some(after), None) = (sides.next(), sides.next(), sides.next()) else {
            return Err(wrong("{label} must be in it once").help("as in '{label}_{n}' for Abyssinian_12.jpg"));
        };
        if before.is_empty() && after.is_empty() {
            return Err(wrong("each name would be a class of its own"));
        }
        if before.ends_with(ANY) || after.starts_with(ANY) {
            return Err(wrong("between {label} and * there must be text, or the label has no end"));
        }
        if before.contains(ANY) && after.contains(ANY) {
            return Err(wrong("with * on both sides of {label}, the label could be any part of the name"));
        }
        let parts = |side: &str| parts(side).ok_or_else(|| wrong("only {label} and {n} are written in braces"));
        Ok(Self { text: pattern.to_owned(), before: parts(before)?, after: parts(after)? })
    }

    /// The label in the file name `name`, extension included; `None` if the name does not match.
    pub fn label<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let stem = stem(name);
        let mut starts = vec![false; stem.len() + 1];
        let mut ends = starts.clone();
        (starts[0], ends[stem.len()]) = (true, true);
        for part in &self.before {
            starts = part.ends(stem, &starts);
        }
        for part in self.after.iter().rev() {
            ends = part.starts(stem, &ends);
        }
        let (mut best, mut end) = (None::<(usize, usize)>, None);
        for start in (0..stem.len()).rev() {
            if ends[start + 1] {
                end = Some(start + 1);
            }
            let Some(end) = end.filter(|_| starts[start]) else { continue };
            if best.is_none_or(|(from, to)| end - start <= to - from) {
                best = Some((start, end));
            }
        }
        best.map(|(start, end)| &stem[start..end])
    }
}

/// The parts of one side of a pattern; `None` if a brace has no meaning.
fn parts(side: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for (number, between) in side.split(NUMBER).enumerate() {
        if number > 0 {
            parts.push(Part::Number);
        }
        for (number, text) in between.split(ANY).enumerate() {
            if text.contains(['{', '}']) {
                return None;
            }
            if number > 0 {
                parts.push(Part::Any);
            }
            if !text.is_empty() {
                parts.push(Part::Text(text.as_bytes().to_vec()));
            }
        }
    }
    Some(parts)
}

/// The pattern without the extension of images at its end, if it has one.
fn without_extension(pattern: &str) -> Option<&str> {
    let (bare, extension) = pattern.rsplit_once('.')?;
    names::EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_where_the_pattern_has_it_and_else_the_shortest() {
        let rows: [(&str, &str, Option<&str>); 34] = [
            ("{label}.{n}", "cat.0.jpg", Some("cat")),
            ("{label}.{n}", "cat.12.JPEG", Some("cat")),
            ("{label}.{n}", "cat.x.jpg", None),
            ("{label}.{n}", "cat.jpg", None),
            ("{label}.{n}", ".0.jpg", None),
            ("{label}.{n}", "a.b.7.jpg", Some("a.b")),
            ("{label}_{n}", "american_pit_bull_12.jpg", Some("american_pit_bull")),
            ("{label}_{n}", "a_1_2.jpg", Some("a_1")),
            ("{label}_{n}", "_1.jpg", None),
            ("{label}_{n}", "__1.jpg", Some("_")),
            ("{label}_{n}", "a_1", Some("a")),
            ("{label}_{n}", "a_1.", Some("a")),
            ("{label}_{n}", "a_1 .jpg", None),
            ("{label}_{n}", "", None),
            ("{label}_*", "0001_c1s1_001051_00.jpg", Some("0001")),
            ("{label}_*", "american_pit_bull_12.jpg", Some("american")),
            ("{label}_*", "a_.jpg", Some("a")),
            ("{label}_*_{n}", "0_jackson_0.wav", Some("0")),
            ("{label}{n}", "cat12.jpg", Some("cat")),
            ("{label}{n}", "12.jpg", Some("1")),
            ("{label}{n}", "1.jpg", None),
            ("{n}_{label}", "01_cat_dog.jpg", Some("cat_dog")),
            ("{n}{label}", "01cat.jpg", Some("cat")),
            ("*_{label}", "a_b_cat.jpg", Some("cat")),
            ("*_{label}", "_cat.jpg", Some("cat")),
            ("*_{label}_{n}", "x_y_cat_3.jpg", Some("cat")),
            ("img-*-{label}", "img-1-2-cat.jpg", Some("cat")),
            ("img-{label}", "pic-cat.jpg", None),
            ("{label} ({n})", "a b (12).png", Some("a b")),
            ("{label}-{n}*{n}", "a-1x2.png", Some("a")),
            ("{label}-**", "a-b-c.png", Some("a")),
            ("{label}_{n}", "é_1.jpg", Some("é")),
            ("{n}{label}_*", "12__x.jpg", Some("2")),
            ("{label}.{n}", "cat.١.jpg", None),
        ];
        for (pattern, name, expected) in rows {
            let found = LabelPattern::parse(pattern).unwrap();
            let label = found.label(name.as_bytes()).map(|label| std::str::from_utf8(label).unwrap());
            assert_eq!(label, expected, "{pattern} {name}");
        }
        let bytes = LabelPattern::parse("{label}_{n}").unwrap();
        assert_eq!(bytes.label(b"\xff\xfe_3.jpg"), Some(&b"\xff\xfe"[..]));
    }

    #[test]
    fn a_pattern_without_a_definite_label_is_refused() {
        for (pattern, why) in [
            ("", "must be in it once"),
            ("*", "must be in it once"),
            ("{n}", "must be in it once"),
            ("{label}_{label}", "must be in it once"),
            ("{label}{label}", "must be in it once"),
            ("{label}", "a class of its own"),
            ("{label}*", "there must be text"),
            ("*{label}_{n}", "there must be text"),
            ("*_{label}_*", "any part of the name"),
            ("*_{label}_{n}_*", "any part of the name"),
            ("{class}_{label}", "only {label} and {n}"),
            ("{label}_{", "only {label} and {n}"),
            ("{label}_{id}", "only {label} and {n}"),
            ("{label}_{ n }", "only {label} and {n}"),
            ("{label}_{n}.jpg", "without their extension"),
            ("{label}.PNG", "without their extension"),
            ("train/{label}_{n}", "folders are not matched"),
        ] {
            let error = LabelPattern::parse(pattern).unwrap_err().to_string();
            assert!(error.contains(why), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_long_name_takes_no_longer_for_a_pattern_of_many_parts() {
        let name = "1".repeat(60_000);
        let pattern = LabelPattern::parse(&format!("{}_{{label}}", "*{n}".repeat(20))).unwrap();
        assert_eq!(pattern.label(name.as_bytes()), None);
    }
}
