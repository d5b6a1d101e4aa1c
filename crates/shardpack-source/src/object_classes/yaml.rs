//! Reads the names of classes from the YAML of a YOLO dataset: the keys `names` and `nc` of `data.yaml`.
//!
//! Holds at all times: a document beyond the subset is an error with the reason; no name is guessed. The subset is `names` as a flow list,
//! block list, flow map or block map of plain or quoted names; a document in braces has to be JSON.

use serde::Deserialize;
use serde_json::value::RawValue;
use shardpack_format::text;

/// Indicators of YAML that no plain scalar begins with.
const INDICATORS: &str = ",[]{}#&*!|>'\"%@`";

/// The names of the classes, by number; `None` if the document has no key `names`.
///
/// # Errors
/// The reason why the names cannot be read.
pub fn names(content: &str) -> Result<Option<Vec<String>>, String> {
    let content = content.strip_prefix('\u{feff}').unwrap_or(content).replace("\r\n", "\n");
    if content.trim_start().starts_with('{') {
        return of_braces(&content);
    }
    let (mut found, mut count) = (None, None);
    let mut at = 0;
    for line in content.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let Some((key, value)) = key_of(line) else { continue };
        let value_at = start + line.len() - value.len();
        match key {
            "names" if found.is_some() => return Err("names is there twice".to_owned()),
            "names" => found = Some(list(value, &content[value_at..], &content[end..])?),
            "nc" => count = Some(without_comment(value).trim().to_owned()),
            _ => {}
        }
    }
    found.map(|names| counted(names, count.as_deref())).transpose()
}

/// `names`, if there are some, and as many as `nc` says.
fn counted(names: Vec<String>, nc: Option<&str>) -> Result<Vec<String>, String> {
    if let Some(nc) = nc.filter(|nc| nc.parse() != Ok(names.len())) {
        return Err(format!("nc is {}, and names has {}", text::shown(nc.as_bytes()), names.len()));
    }
    if names.is_empty() { Err("names is empty".to_owned()) } else { Ok(names) }
}

/// A document in braces; a key that is there twice is an error.
#[derive(Deserialize)]
struct Braces<'t> {
    #[serde(borrow)]
    names: Option<&'t RawValue>,
    #[serde(borrow)]
    nc: Option<&'t RawValue>,
}

/// The names in a document in braces: JSON, which is YAML too.
fn of_braces(content: &str) -> Result<Option<Vec<String>>, String> {
    let document: Braces<'_> =
        serde_json::from_str(content).map_err(|error| format!("a document in braces that is no JSON: {error}"))?;
    let Some(names) = document.names else { return Ok(None) };
    let names = list(names.get(), names.get(), "")?;
    counted(names, document.nc.map(RawValue::get)).map(Some)
}

/// The key of a line at the top level, and its value.
fn key_of(line: &str) -> Option<(&str, &str)> {
    if line.starts_with([' ', '\t', '#', '-', '\n']) {
        return None;
    }
    let (key, value) = line.split_once(':')?;
    if !(value.is_empty() || value.starts_with([' ', '\t', '\n'])) {
        return None;
    }
    let key = key.trim_end();
    let unquoted = ['"', '\''].iter().find_map(|quote| key.strip_prefix(*quote)?.strip_suffix(*quote));
    Some((unquoted.unwrap_or(key), value))
}

/// `text` without the comment at its end. A quoted text has no comment.
fn without_comment(text: &str) -> &str {
    let is_start = |at: usize| at == 0 || text[..at].ends_with([' ', '\t']);
    text.match_indices('#').find(|(at, _)| is_start(*at)).map_or(text, |(at, _)| &text[..at])
}

/// The names in a value: `value` is its first line, `flow` the document from there, and `block` the lines after it.
fn list(value: &str, flow: &str, block: &str) -> Result<Vec<String>, String> {
    let first = without_comment(value).trim();
    match first.chars().next() {
        None => of_block(block),
        Some('[' | '{') => Flow { rest: flow.trim_start() }.names(),
        Some(_) => Err(format!("names is {}, and no list", text::shown(first.as_bytes()))),
    }
}

/// The names in the lines of a block.
fn of_block(block: &str) -> Result<Vec<String>, String> {
    let (mut names, mut numbered, mut indent) = (Vec::new(), Vec::new(), None);
    for line in block.lines() {
        let content = line.trim_start_matches(' ');
        if without_comment(content).trim().is_empty() {
            continue;
        }
        if content.starts_with('\t') {
            return Err(format!("{} has a tab before it", text::shown(content.trim().as_bytes())));
        }
        let is_item = content == "-" || content.starts_with("- ");
        let own = line.len() - content.len();
        if own == 0 && !is_item {
            break;
        }
        if *indent.get_or_insert(own) != own {
            return Err(format!("{} has another indent than the name before", text::shown(line.as_bytes())));
        }
        match content.strip_prefix('-').filter(|_| is_item) {
            Some(name) => names.push(whole(name)?),
            None => {
                let entry = content.split_once(':').and_then(|(key, name)| Some((key.trim().parse().ok()?, name)));
                let entry: Option<(usize, &str)> = entry.filter(|(_, name)| name.starts_with(' '));
                let (number, name) = entry.ok_or_else(|| format!("{} is no name", text::shown(line.as_bytes())))?;
                numbered.push((number, whole(name)?));
            }
        }
    }
    joined(names, numbered)
}

/// The names of a list or of a map; one of them is empty.
fn joined(names: Vec<String>, mut numbered: Vec<(usize, String)>) -> Result<Vec<String>, String> {
    if numbered.is_empty() {
        return Ok(names);
    }
    numbered.sort_unstable();
    match numbered.iter().zip(0..).find(|((number, _), place)| number != place) {
        _ if !names.is_empty() => Err("names has numbers for some classes only".to_owned()),
        Some((_, place)) => Err(format!("the numbers of names are not 0, 1, 2, …: {place} is missing or there twice")),
        None => Ok(numbered.into_iter().map(|(_, name)| name).collect()),
    }
}

/// The name that is the whole rest of a line, apart from a comment.
fn whole(text: &str) -> Result<String, String> {
    let text = text.trim();
    let name = if text.starts_with(['"', '\'']) {
        let (name, rest) = quoted(text)?;
        if !without_comment(rest).trim().is_empty() {
            return Err(format!("{} is no name", text::shown(text.as_bytes())));
        }
        name
    } else {
        plain(without_comment(text))?
    };
    if name.is_empty() { Err("a name is empty".to_owned()) } else { Ok(name) }
}

/// A scalar without quotes.
fn plain(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_other = text.starts_with(|first| INDICATORS.contains(first)) || text.contains(": ") || text.ends_with(':');
    let is_nested = ["- ", "? "].iter().any(|start| text.starts_with(start)) || text == "-";
    match is_other || is_nested {
        true => Err(format!("{} is no name", text::shown(text.as_bytes()))),
        false => Ok(text.to_owned()),
    }
}

/// A scalar in quotes at the start of `text`, and the rest.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let wrong =
        || format!("{} has no end or an unknown escape", text::shown(text.lines().next().unwrap_or("").as_bytes()));
    let mut chars = text.chars();
    let quote = chars.next().ok_or_else(wrong)?;
    let mut name = String::new();
    loop {
        match chars.next().ok_or_else(wrong)? {
            '\n' => return Err(wrong()),
            '\'' if quote == '\'' && chars.as_str().starts_with('\'') => {
                chars.next();
                name.push('\'');
            }
            one if one == quote => return Ok((name, chars.as_str())),
            '\\' if quote == '"' => match chars.next().ok_or_else(wrong)? {
                one @ ('\\' | '"' | '/') => name.push(one),
                _ => return Err(wrong()),
            },
            one => name.push(one),
        }
    }
}

/// A list in brackets or a map in braces, over one or several lines.
struct Flow<'t> {
    rest: &'t str,
}

impl Flow<'_> {
    fn names(mut self) -> Result<Vec<String>, String> {
        let is_map = self.rest.starts_with('{');
        let close = if is_map { '}' } else { ']' };
        let (mut names, mut numbered) = (Vec::new(), Vec::new());
        self.rest = &self.rest[1..];
        loop {
            self.skip();
            if self.takes(close) {
                break;
            }
            if is_map {
                let (number, rest) = self.rest.split_once(':').ok_or("a number without a name")?;
                let number = number
                    .trim()
                    .trim_matches(['"', '\''])
                    .parse::<usize>()
                    .map_err(|_| "a class that is no number".to_owned())?;
                self.rest = rest;
                self.skip();
                numbered.push((number, self.scalar()?));
            } else {
                names.push(self.scalar()?);
            }
            self.skip();
            if !self.takes(',') && !self.rest.starts_with(close) {
                return Err(format!("names has no {close} at its end"));
            }
        }
        let line = self.rest.lines().next().unwrap_or_default();
        match without_comment(line).trim() {
            "" => joined(names, numbered),
            more => Err(format!("{} follows the names", text::shown(more.as_bytes()))),
        }
    }

    fn scalar(&mut self) -> Result<String, String> {
        let name = if self.rest.starts_with(['"', '\'']) {
            let (name, rest) = quoted(self.rest)?;
            self.rest = rest;
            name
        } else {
            let end = self.rest.find([',', ']', '}', '\n']).unwrap_or(self.rest.len());
            let name = without_comment(&self.rest[..end]);
            self.rest = &self.rest[name.len()..];
            plain(name)?
        };
        if name.is_empty() { Err("a name is empty".to_owned()) } else { Ok(name) }
    }

    /// Skips spaces, line breaks and comments.
    fn skip(&mut self) {
        loop {
            let next = self.rest.trim_start();
            match next.starts_with('#') && next.len() < self.rest.len() {
                true => self.rest = next.split_once('\n').map_or("", |(_, rest)| rest),
                false => return self.rest = next,
            }
        }
    }

    fn takes(&mut self, one: char) -> bool {
        self.rest.strip_prefix(one).map(|rest| self.rest = rest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pieces of documents.
    const TOKENS: [&str; 20] = [
        "names", "nc", ":", " ", "\n", "\r\n", "[", "]", "{", "}", ",", "- ", "'", "\"", "\\", "#", "0", "é", "\t", "a",
    ];

    proptest! {
        #[test]
        fn any_document_is_read_without_harm(tokens in prop::collection::vec(0usize..20, 0..40)) {
            let content: String = tokens.into_iter().map(|token| TOKENS[token]).collect();
            for content in [format!("names:{content}"), content] {
                if let Ok(Some(found)) = names(&content) {
                    prop_assert!(!found.is_empty() && found.iter().all(|name| !name.is_empty()), "{content}");
                }
            }
        }
    }

    #[test]
    fn names_are_lists_and_maps_of_every_style() {
        let rows: [(&str, &[&str]); 16] = [
            (r#"{"train": "x", "nc": 2, "names": ["a b", "it's"]}"#, &["a b", "it's"]),
            ("\n{\n \"names\": {\"1\": \"b\", \"0\": \"a\"}\n}\n", &["a", "b"]),
            ("names: [a, b]", &["a", "b"]),
            ("\u{feff}# dataset\r\npath: ../x # root\r\nnc: 2\r\nnames: ['a b', \"it's\"] # two\r\n", &["a b", "it's"]),
            ("names: ['it''s', \"a \\\"b\\\" \\\\\", 7]", &["it's", "a \"b\" \\", "7"]),
            ("names: [\n  a, # first\n  b,\n]\nnc: 2", &["a", "b"]),
            ("names:\n  - a\n  - 'b, c'  # second\n\n  # more\n  - d e\ntrain: x", &["a", "b, c", "d e"]),
            ("names:\n- a\n- b\nnc: 2", &["a", "b"]),
            (
                "names: # by number\n  0: person\n  1: traffic light\n  2: \"c: d\"\ndownload: |\n  names: x",
                &["person", "traffic light", "c: d"],
            ),
            ("names:\n  1: b\n  0: a\n", &["a", "b"]),
            ("names: {0: a, 1: 'b'}", &["a", "b"]),
            ("'names': [c#1, d]", &["c#1", "d"]),
            ("nc: 1 # one\n\"names\": ['é']", &["é"]),
            ("names: [a,b,\n\n]", &["a", "b"]),
            ("names:\n  - yes\n  - no", &["yes", "no"]),
            ("names:\n  0: a\n", &["a"]),
        ];
        for (content, expected) in rows {
            assert_eq!(names(content).unwrap().unwrap(), expected, "{content}");
        }
        for content in ["", "nc: 3", "train: x\ndata:\n  names: [a]", "# names: [a]", "names:x"] {
            assert_eq!(names(content).unwrap(), None, "{content}");
        }
    }

    #[test]
    fn a_document_beyond_the_subset_is_an_error() {
        for (content, why) in [
            ("names: coco.names", "coco.names, and no list"),
            ("names: []", "empty"),
            ("names:", "empty"),
            ("names: [a, b", "no ] at its end"),
            ("names: [a, [b]]", "no name"),
            ("names: [a b: c]", "no name"),
            ("names: [a,, b]", "empty"),
            ("names: [a] b", "follows"),
            ("names: [a]\nnames: [b]", "twice"),
            ("nc: 3\nnames: [a]", "nc is 3, and names has 1"),
            ("nc: many\nnames: [a]", "nc is many"),
            ("names: &x [a]", "no list"),
            ("names: ['a]", "no end"),
            ("names: [\"\\u00e9\"]", "escape"),
            ("names:\n  - a\n   - b", "indent"),
            ("names:\n  - a: b", "no name"),
            ("names:\n  - - a", "no name"),
            ("names:\n  -\n", "empty"),
            ("names:\n  a: 0", "no name"),
            ("names:\n  0: a\n  2: b", "1 is missing"),
            ("names:\n  0: a\n  0: b", "1 is missing"),
            ("names:\n  0:\n    x: y", "no name"),
            ("names:\n\t- a", "a tab"),
            ("names: {0: a, b: c}", "no number"),
            ("names: {0: a", "no } at its end"),
            ("{names: [a]}", "a document in braces that is no JSON"),
            (r#"{"names": ["a"], "nc": 2}"#, "nc is 2, and names has 1"),
            (r#"{"names": {"0": "a", "2": "b"}}"#, "1 is missing"),
            (r#"{"names": {"0": "a", "0": "b"}}"#, "there twice"),
            (r#"{"names": ["a"], "names": ["b"]}"#, "duplicate field"),
            (r#"{"names": "a"}"#, "no list"),
            (r#"{"names": []}"#, "names is empty"),
            ("names:\n  - a\n  1: b", "some classes only"),
            ("names: [*x]", "no name"),
        ] {
            let error = names(content).unwrap_err();
            assert!(error.contains(why), "{content}: {error}");
        }
    }
}
