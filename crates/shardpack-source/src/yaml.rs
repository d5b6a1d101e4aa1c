//! YAML of small files that describe a dataset: `data.yaml` of YOLO, the front matter of a README.
//!
//! Holds at all times: a scalar is the text that is written (`7`, `yes`), or null; a value with an alias or a tag is an error where it is
//! used, because aliases may repeat without bound, and tags name types of other programs; a key that is there twice is an error.

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Most lists and maps inside of each other.
const DEPTH_LIMIT: usize = 16;

/// The value of the key `key` in the map that `text` is; `None` if it has no such key, or is no map.
///
/// # Errors
/// The reason, if `text` is no YAML, or the value has an alias or a tag.
pub(crate) fn member(text: &str, key: &str) -> Result<Option<Value>, String> {
    let mut reader = Reader { events: Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) };
    // Up to the first value of the first document.
    loop {
        match reader.next()? {
            Event::MappingStart(..) => break,
            Event::StreamStart | Event::DocumentStart(_) => {}
            _ => return Ok(None),
        }
    }
    let mut found: Option<Value> = None;
    // The rest of the map is parsed too: the key may be there twice.
    loop {
        let event = reader.next()?;
        if matches!(event, Event::MappingEnd) {
            return Ok(found);
        }
        let name = reader.node(event, 1)?;
        let event = reader.next()?;
        let value = reader.node(event, 1)?;
        if name.is_ok_and(|name| name == key) && found.replace(value?).is_some() {
            return Err(format!("{key} is there twice"));
        }
    }
}

/// The events of a document.
struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
}

/// A value, or the reason to refuse it.
type Node = Result<Value, String>;

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Event<'t>, String> {
        match self.events.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(Event::StreamEnd),
        }
    }

    /// The value that begins with `event`, inside of `depth` others. The error is one of the document.
    fn node(&mut self, event: Event<'t>, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_LIMIT {
            return Err(format!("more than {DEPTH_LIMIT} lists and maps inside of each other"));
        }
        let (tag, node) = match event {
            Event::Scalar(text, style, _, tag) => (tag, Ok(scalar(&text, style))),
            Event::SequenceStart(_, tag) => (tag, self.list(depth)?),
            Event::MappingStart(_, tag) => (tag, self.map(depth)?),
            Event::Alias(_) => (None, Err("an alias (*NAME) in place of the value itself".to_owned())),
            _ => return Err("a list or a map has no end".to_owned()),
        };
        Ok(match tag {
            None => node,
            Some(tag) => Err(format!("the tag {tag}, a type of another program")),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Node, String> {
        let mut all = Ok(Vec::new());
        loop {
            match self.next()? {
                Event::SequenceEnd => return Ok(all.map(Value::Array)),
                event => match (self.node(event, depth + 1)?, &mut all) {
                    (Ok(item), Ok(items)) => items.push(item),
                    (Err(why), Ok(_)) => all = Err(why),
                    (_, Err(_)) => {}
                },
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Node, String> {
        let mut all = Ok(Map::new());
        loop {
            let event = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(all.map(Value::Object));
            }
            let key = self.node(event, depth + 1)?;
            let event = self.next()?;
            let value = self.node(event, depth + 1)?;
            if let Ok(members) = &mut all {
                match (key, value) {
                    (Ok(Value::String(key)), Ok(_)) if members.contains_key(&key) => {
                        all = Err(format!("the key {key:?} is there twice"));
                    }
                    (Ok(Value::String(key)), Ok(value)) => drop(members.insert(key, value)),
                    (Ok(_), Ok(_)) => all = Err("a key is no text".to_owned()),
                    (Err(why), _) | (_, Err(why)) => all = Err(why),
                }
            }
        }
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match style == ScalarStyle::Plain && ["", "~", "null", "Null", "NULL"].contains(&text) {
        true => Value::Null,
        false => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Pieces of documents.
    const TOKENS: [&str; 24] = [
        "names", "nc", ":", " ", "\n", "\r\n", "[", "]", "{", "}", ",", "- ", "'", "\"", "\\", "#", "0", "é", "\t",
        "a", "&x ", "*x", "!t ", "---",
    ];

    proptest! {
        #[test]
        fn any_document_is_read_without_harm(tokens in prop::collection::vec(0usize..24, 0..40)) {
            let content: String = tokens.into_iter().map(|token| TOKENS[token]).collect();
            for content in [format!("names:{content}"), content] {
                let _ = member(&content, "names");
            }
        }
    }

    #[test]
    fn values_are_those_of_every_style() {
        let expected = json!({"a": ["x", "it's", null], "7": {"b": "yes"}, "c": null, "d": "two\nlines\n"});
        for text in [
            "k:\n  a:\n  - x\n  - 'it''s'  # more\n  -\n  7: {b: yes}\n  c: ~\n  d: |\n    two\n    lines\nother: 1",
            r#"{"k": {"a": ["x", "it's", null], "7": {"b": "yes"}, "c": null, "d": "two\nlines\n"}, "other": 1}"#,
            "\u{feff}# first\r\n---\r\nother: &x [!t y]\r\nmore: *x\r\nk: {a: [x, \"it's\", ], '7': {b: yes}, c: , \"d\": \"two\\nlines\\n\"}\r\n",
        ] {
            let found = member(text, "k");
            if text.contains("[x, \"it's\", ]") {
                assert_eq!(found.unwrap().unwrap()["a"], json!(["x", "it's"]), "{text}");
            } else {
                assert_eq!(found, Ok(Some(expected.clone())), "{text}");
            }
        }
        for text in ["", "- k", "k", "# k: 1", "a: {k: 1}", "k:x"] {
            assert_eq!(member(text, "k"), Ok(None), "{text}");
        }
    }

    #[test]
    fn aliases_and_tags_are_errors_where_they_are_used() {
        let deep = format!("k: {}{}", "[".repeat(20), "]".repeat(20));
        for (text, why) in [
            ("a: &x b\nk: [*x]", "an alias"),
            ("k: !!binary aGk=", "the tag"),
            ("k: {a: !t b}", "the tag !t"),
            ("k: {a: 1, a: 2}", "\"a\" is there twice"),
            ("k: 1\nk: 2", "k is there twice"),
            ("k: {[a]: 1}", "a key is no text"),
            ("k: [a", "expected ','"),
            ("k: 'a", "line 1"),
            (&deep, "more than 16"),
        ] {
            let error = member(text, "k");
            assert!(error.as_ref().is_err_and(|error| error.contains(why)), "{text}: {error:?}");
        }
        assert_eq!(member("a: !t {x: &y [1]}\nk: &z v", "k"), Ok(Some(json!("v"))));
    }
}
