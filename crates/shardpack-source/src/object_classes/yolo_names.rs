//! Reads the names of classes from `data.yaml` of a YOLO dataset: the keys `names` and `nc`.
//!
//! Holds at all times: no name is guessed, and each class has one.

use serde_json::Value;
use shardpack_format::text;

use crate::yaml;

/// The names of the classes, by number; `None` if the document has no key `names`.
///
/// # Errors
/// The reason why the names cannot be read.
pub fn names(content: &str) -> Result<Option<Vec<String>>, String> {
    let Some(found) = yaml::member(content, "names")? else { return Ok(None) };
    let names: Vec<String> = match found {
        Value::Array(names) => names.iter().map(name).collect::<Result<_, _>>()?,
        Value::Object(numbered) => by_number(&numbered)?,
        Value::Null => Vec::new(),
        other => return Err(format!("names is {}, and no list", shown(&other))),
    };
    if names.is_empty() {
        return Err("names is empty".to_owned());
    }
    match yaml::member(content, "nc")? {
        Some(nc) if nc.as_str().and_then(|nc| nc.parse().ok()) != Some(names.len()) => {
            Err(format!("nc is {}, and names has {}", shown(&nc), names.len()))
        }
        _ => Ok(Some(names)),
    }
}

fn by_number(numbered: &serde_json::Map<String, Value>) -> Result<Vec<String>, String> {
    let number =
        |key: &String| key.parse::<usize>().map_err(|_| format!("class {} is no number", text::shown(key.as_bytes())));
    let all = numbered.iter().map(|(key, value)| Ok::<_, String>((number(key)?, name(value)?)));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable();
    match all.iter().zip(0..).find(|((number, _), place)| number != place) {
        Some((_, place)) => Err(format!("the numbers of names are not 0, 1, 2, …: {place} is missing or there twice")),
        None => Ok(all.into_iter().map(|(_, name)| name).collect()),
    }
}

fn name(value: &Value) -> Result<String, String> {
    match value {
        Value::String(name) if !name.is_empty() => Ok(name.clone()),
        Value::String(_) | Value::Null => Err("a name is empty".to_owned()),
        other => Err(format!("{} is no name", shown(other))),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text::shown(text.as_bytes()).to_string(),
        other => text::shown(other.to_string().as_bytes()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lists_and_maps_of_every_style() {
        let rows: [(&str, &[&str]); 19] = [
            (r#"{"train": "x", "nc": 2, "names": ["a b", "it's"]}"#, &["a b", "it's"]),
            ("\n{\n \"names\": {\"1\": \"b\", \"0\": \"a\"}\n}\n", &["a", "b"]),
            ("names: [a, b]", &["a", "b"]),
            ("{names: [a]}", &["a"]),
            ("names: [\"\\u00e9\"]", &["é"]),
            ("train: &x ../a\nval: *x\nnames: [a]", &["a"]),
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
            ("names: [a, b", "expected ',' or ']'"),
            ("names: [a, [b]]", "no name"),
            ("names: [a b: c]", "no name"),
            ("names: [a,, b]", "node content"),
            ("names: [a] b", "expected key"),
            ("names: [a]\nnames: [b]", "twice"),
            ("nc: 3\nnames: [a]", "nc is 3, and names has 1"),
            ("nc: many\nnames: [a]", "nc is many"),
            ("x: &x [a]\nnames: *x", "an alias"),
            ("names: ['a]", "unexpected end"),
            ("names:\n  - a: b", "no name"),
            ("names:\n  - - a", "no name"),
            ("names:\n  -\n", "empty"),
            ("names:\n  a: 0", "class a is no number"),
            ("names:\n  0: a\n  2: b", "1 is missing"),
            ("names:\n  0: a\n  0: b", "there twice"),
            ("names:\n  0:\n    x: y", "no name"),
            ("names:\n\t- a", "tabs"),
            ("names: {0: a, b: c}", "no number"),
            ("names: {0: a", "expected ',' or '}'"),
            (r#"{"names": ["a"], "nc": 2}"#, "nc is 2, and names has 1"),
            (r#"{"names": {"0": "a", "2": "b"}}"#, "1 is missing"),
            (r#"{"names": {"0": "a", "0": "b"}}"#, "there twice"),
            (r#"{"names": ["a"], "names": ["b"]}"#, "there twice"),
            (r#"{"names": "a"}"#, "no list"),
            (r#"{"names": []}"#, "names is empty"),
            ("names:\n  - a\n  1: b", "expected '-'"),
            ("names: [*x]", "unknown anchor"),
        ] {
            let error = names(content);
            assert!(error.as_ref().is_err_and(|error| error.contains(why)), "{content}: {error:?}");
        }
    }
}
