//! Patterns of keys, as a user writes them: `{split}/{class}/{name}.jpg`, `img_{label}_*`.
//!
//! `{label}` and `{class}` are the label, `{name}` is the name of the sample, any other name in braces is ignored, and `*`
//! matches anything. All placeholders match as little as possible, leftmost first.
//!
//! Match time grows at most with the square of the key length times the pattern length.

use shardpack_format::formats::foreign::Label;

/// Most parts of a pattern.
const MAX_PARTS: usize = 64;

/// A pattern that whole keys match or do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// These bytes.
    Plain(Vec<u8>),
    /// One or more bytes but `/`: a number, if it is one, else a word.
    Label,
    /// The same, always a word.
    Class,
    /// One or more bytes.
    Name,
    /// One or more bytes but `/`, of no interest.
    Other,
    /// Any bytes, or none.
    Any,
}

/// Parts of a matched key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Detected {
    /// The label; missing if the pattern has none.
    pub label: Label,
    /// Name of the sample, if the pattern has `{name}`.
    pub name: Option<Vec<u8>>,
}

impl Pattern {
    /// Parses a pattern; the error is the reason why the pattern is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts: Vec<Segment> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let next = rest.find(['{', '*']).unwrap_or(rest.len());
            let part = if next > 0 {
                let (plain, after) = rest.split_at(next);
                rest = after;
                Segment::Plain(plain.as_bytes().to_vec())
            } else if let Some(after) = rest.strip_prefix('*') {
                rest = after;
                Segment::Any
            } else {
                let (name, after) = rest[1..].split_once('}').ok_or("a { without its }")?;
                rest = after;
                match name {
                    "label" => Segment::Label,
                    "class" => Segment::Class,
                    "name" => Segment::Name,
                    _ => Segment::Other,
                }
            };
            let is_plain = |part: &Segment| matches!(part, Segment::Plain(_));
            if parts.last().is_some_and(|last| !is_plain(last) && !is_plain(&part)) {
                return Err("two parts without text between them, so the end of the first is ambiguous".to_owned());
            }
            parts.push(part);
        }
        let count = |wanted: &[Segment]| parts.iter().filter(|part| wanted.contains(part)).count();
        match (count(&[Segment::Label, Segment::Class]), count(&[Segment::Name])) {
            (0, 0) => Err("neither {label} nor {class} nor {name} in it".to_owned()),
            (2.., _) => Err("more than one {label} or {class}".to_owned()),
            (_, 2..) => Err("more than one {name}".to_owned()),
            _ if parts.len() > MAX_PARTS => Err(format!("more than {MAX_PARTS} parts")),
            _ => Ok(Self(parts)),
        }
    }

    /// Whether it has a label in it.
    pub fn has_label(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Segment::Label | Segment::Class))
    }

    /// The parts of `key`, if it matches.
    pub fn read(&self, key: &[u8]) -> Option<Detected> {
        let mut search = Search { parts: &self.0, key, ends: vec![0; self.0.len()], failed: Vec::new() };
        search.failed.resize(self.0.len() * (key.len() + 1), false);
        if !search.matches(0, 0) {
            return None;
        }
        let mut told = Detected { label: Label::Missing, name: None };
        let mut start = 0;
        for (part, end) in self.0.iter().zip(search.ends) {
            let bytes = &key[start..end];
            start = end;
            match part {
                Segment::Label => told.label = label(bytes),
                Segment::Class => told.label = Label::Name(bytes.to_vec()),
                Segment::Name => told.name = Some(bytes.to_vec()),
                Segment::Plain(_) | Segment::Other | Segment::Any => {}
            }
        }
        Some(told)
    }
}

/// A label that is text.
pub(crate) fn label(text: &[u8]) -> Label {
    if let number @ Label::Number(_) = Label::of_bytes(text) {
        // Its bytes may be those of blanks.
        return number;
    }
    let text = text.trim_ascii();
    match str::from_utf8(text) {
        Ok("") => Label::Missing,
        Ok(_) => Label::of_bytes(text),
        Err(_) => Label::Unfit(format!("{} bytes that are no text", text.len())),
    }
}

struct Search<'a> {
    parts: &'a [Segment],
    key: &'a [u8],
    /// End of each matched part so far.
    ends: Vec<usize>,
    /// For each part and place, whether the rest is known not to match from there.
    failed: Vec<bool>,
}

impl Search<'_> {
    /// Whether the key from `at` on matches the parts from `part` on.
    fn matches(&mut self, part: usize, at: usize) -> bool {
        let Some(kind) = self.parts.get(part) else { return at == self.key.len() };
        let known = part * (self.key.len() + 1) + at;
        if self.failed[known] {
            return false;
        }
        let rest = &self.key[at..];
        let lengths = match kind {
            Segment::Plain(bytes) if rest.starts_with(bytes) => bytes.len()..bytes.len() + 1,
            Segment::Plain(_) => 0..0,
            Segment::Any => 0..rest.len() + 1,
            Segment::Name => 1..rest.len() + 1,
            Segment::Label | Segment::Class | Segment::Other => {
                1..rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len()) + 1
            }
        };
        for length in lengths {
            if self.matches(part + 1, at + length) {
                self.ends[part] = at + length;
                return true;
            }
        }
        self.failed[known] = true;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_as_the_pattern_says() {
        let word = |text: &str| Label::Name(text.as_bytes().to_vec());
        let text = |text: &str| Label::Text(text.as_bytes().to_vec());
        let rows = [
            ("{class}/{name}", "cat/a/1.jpg", Some((word("cat"), Some("a/1.jpg")))),
            ("{class}/{name}.jpg", "7/1.jpg", Some((word("7"), Some("1")))),
            ("{split}-{label}-{id}", "train-7-00012", Some((text("7"), None))),
            ("{split}-{label}-{id}", "train-cat-00012", Some((text("cat"), None))),
            ("{split}-{label}-{id}", "train-00012", None),
            ("{class}_*", "golden_retriever_1", Some((word("golden"), None))),
            ("*/{class}/{name}.png", "a/b/c/d.png", Some((word("b"), Some("c/d")))),
            ("{class}/{name}", "none", None),
            ("{name}.x", "a.x.x", Some((Label::Missing, Some("a.x")))),
        ];
        for (pattern, key, expected) in rows {
            let told = Pattern::parse(pattern).unwrap().read(key.as_bytes());
            let found = told.map(|told| (told.label, told.name.map(|name| String::from_utf8(name).unwrap())));
            assert_eq!(found, expected.map(|(label, name)| (label, name.map(str::to_owned))), "{pattern} {key}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "{id}", "{label", "{label}{name}", "*{label}", "{label}/{class}", "{name}/{name}"] {
            Pattern::parse(text).expect_err(text);
        }
        Pattern::parse(&format!("{{label}}{}", "/*".repeat(MAX_PARTS))).expect_err("many");
    }

    #[test]
    fn a_long_key_ends_soon() {
        let pattern = Pattern::parse(&format!("{}b{{label}}", "*a".repeat(25))).unwrap();
        assert_eq!(pattern.read(&[b'a'; 4096]), None);
    }
}
