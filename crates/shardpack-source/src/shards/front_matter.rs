//! Parses a key in the front matter of a README: YAML between two lines `---`.
//!
//! Supported are block sequences, block mappings, plain and quoted scalars, and flow lists of scalars, as the Hub of Hugging Face writes
//! them. Anything else in the key is an error; other keys are not parsed.

use serde_json::{Map, Value};

/// Line that begins and ends the front matter.
const FENCE: &str = "---";
/// Most levels of indentation.
const DEPTH_LIMIT: usize = 16;

/// The value of the top-level key `key`; `None` if the text has no such key in a front matter.
///
/// # Errors
/// If the value uses YAML that is not supported.
pub(super) fn value(text: &str, key: &str) -> Result<Option<Value>, String> {
    let mut lines = text.lines().map(str::trim_end);
    if lines.next() != Some(FENCE) {
        return Ok(None);
    }
    let front = lines.take_while(|line| *line != FENCE);
    let is_key = |line: &&str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    let mut own = front.skip_while(|line| !is_key(line));
    let Some(first) = own.next() else { return Ok(None) };
    let inline = first[key.len() + 1..].trim();
    if !inline.is_empty() {
        return scalar(inline).map(Some);
    }
    let is_inside = |line: &&str| line.is_empty() || line.starts_with([' ', '-', '#', '\t']);
    let mut block = Block { lines: own.take_while(is_inside).filter_map(content).collect(), at: 0 };
    let value = block.node(0)?;
    match block.lines.get(block.at) {
        None => Ok(Some(value)),
        Some((_, text)) => Err(format!("{text:?} is indented in another way than the lines before it")),
    }
}

/// Indentation and text of a line; `None` for a blank line or a comment.
fn content(line: &str) -> Option<(usize, String)> {
    let text = line.trim_start();
    (!text.is_empty() && !text.starts_with('#')).then(|| (line.len() - text.len(), text.to_owned()))
}

/// Lines with their indentation.
struct Block {
    lines: Vec<(usize, String)>,
    at: usize,
}

impl Block {
    /// The value that begins at the next line.
    fn node(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_LIMIT {
            return Err(format!("more than {DEPTH_LIMIT} levels"));
        }
        let Some((indent, text)) = self.lines.get(self.at).cloned() else { return Ok(Value::Null) };
        if item(&text).is_some() {
            return self.sequence(indent, depth);
        }
        if entry(&text).is_some() {
            return self.mapping(indent, depth);
        }
        self.at += 1;
        scalar(&text)
    }

    fn sequence(&mut self, indent: usize, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        while let Some((own, text)) = self.lines.get_mut(self.at).filter(|(own, _)| *own == indent) {
            let Some(rest) = item(text) else { break };
            if rest.is_empty() {
                self.at += 1;
                items.push(self.inner(indent + 1, depth)?);
                continue;
            }
            // The rest of the line is the first line of the item.
            (*own, *text) = (indent + text.len() - rest.len(), rest.to_owned());
            items.push(self.node(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Result<Value, String> {
        let mut members = Map::new();
        while let Some((_, text)) = self.lines.get(self.at).filter(|(own, _)| *own == indent) {
            let Some((key, rest)) = entry(text) else { break };
            let (key, rest) = (key.to_owned(), rest.to_owned());
            self.at += 1;
            let value = match rest.is_empty() {
                false => scalar(&rest)?,
                // A sequence may be as far left as its key.
                true => match self.lines.get(self.at) {
                    Some((own, text)) if *own == indent && item(text).is_some() => self.sequence(indent, depth + 1)?,
                    _ => self.inner(indent + 1, depth)?,
                },
            };
            if members.insert(key.clone(), value).is_some() {
                return Err(format!("the key {key:?} stands twice"));
            }
        }
        Ok(Value::Object(members))
    }

    /// The value in lines that are indented by at least `least`; null if there are none.
    fn inner(&mut self, least: usize, depth: usize) -> Result<Value, String> {
        match self.lines.get(self.at) {
            Some((own, _)) if *own >= least => self.node(depth + 1),
            _ => Ok(Value::Null),
        }
    }
}

/// The text of an item of a sequence.
fn item(text: &str) -> Option<&str> {
    match text.strip_prefix('-')? {
        "" => Some(""),
        rest => rest.starts_with(' ').then(|| rest.trim_start()),
    }
}

/// Key and text of a member of a mapping.
fn entry(text: &str) -> Option<(&str, &str)> {
    if text.starts_with(['"', '\'', '[', '{']) {
        return None;
    }
    match text.split_once(": ") {
        Some((key, rest)) => Some((key.trim_end(), rest.trim())),
        None => text.strip_suffix(':').map(|key| (key, "")),
    }
}

/// Whether text behind a value is a comment.
fn is_comment(text: &str) -> bool {
    text.starts_with([' ', '\t']) && text.trim_start().starts_with('#')
}

/// A scalar, or a flow list of scalars.
fn scalar(text: &str) -> Result<Value, String> {
    let refused = || Err(format!("{text:?} is YAML that is not supported here"));
    if let Some(list) = text.strip_prefix('[') {
        let Some(list) = list.strip_suffix(']') else { return refused() };
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        return items.map(scalar).collect::<Result<Vec<_>, _>>().map(Value::Array);
    }
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            return match rest.split_once(quote) {
                Some((inner, behind)) if !inner.contains('\\') && (behind.is_empty() || is_comment(behind)) => {
                    Ok(Value::String(inner.to_owned()))
                }
                _ => refused(),
            };
        }
    }
    let plain = text.split_once(" #").map_or(text, |(before, _)| before.trim_end());
    match plain {
        "" | "~" | "null" => Ok(Value::Null),
        _ if plain.starts_with(['{', '|', '>', '&', '*', '!', '%', '@', '`']) && !plain.starts_with("**") => refused(),
        _ => Ok(Value::String(plain.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn front(yaml: &str) -> String {
        format!("---\nlicense: mit\n{yaml}\ntags:\n- a: {{}}\n---\n# configs: no\n")
    }

    #[test]
    fn configs_are_parsed_as_the_hub_writes_them() {
        let flat = "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path:\n    - 'a.parquet'\n    - \"b.parquet\"";
        let deep = "configs:\n  # of one\n  - config_name: default # the only\n    data_files:\n      - split: train\n        path: data/train-*\n      - split: test\n        path: [a.parquet, b.parquet]\n";
        let expected = json!([{"config_name": "default", "data_files": [
            {"split": "train", "path": "data/train-*"}, {"split": "test", "path": ["a.parquet", "b.parquet"]},
        ]}]);
        for yaml in [flat, deep] {
            assert_eq!(value(&front(yaml), "configs"), Ok(Some(expected.clone())), "{yaml}");
        }
        let short = "configs:\n- config_name: a\n  data_files: \"a/*.parquet\"  # all\n-\n  config_name: b\n  data_files:\n  - x\n  - y";
        let expected =
            json!([{"config_name": "a", "data_files": "a/*.parquet"}, {"config_name": "b", "data_files": ["x", "y"]}]);
        assert_eq!(value(&front(short), "configs"), Ok(Some(expected)));
        for text in ["", "# configs:\n", "---\nlicense: mit\n---\nconfigs:\n- a", "---\nconfigs_of: a\n---\n"] {
            assert_eq!(value(text, "configs"), Ok(None), "{text}");
        }
    }

    #[test]
    fn other_yaml_is_an_error() {
        for yaml in [
            "configs:\n- {a: b}",
            "configs:\n- a: |\n    text",
            "configs: &x",
            "configs:\n- a: b\n a: c",
            "configs:\n- a: 1\n  a: 2",
            "configs:\n- a: 'it''s'",
            "configs:\n- a: 'x'#y",
        ] {
            assert!(value(&front(yaml), "configs").is_err(), "{yaml}");
        }
    }
}
