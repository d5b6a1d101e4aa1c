//! Text components of a tar sample with facts about it: its label, its class, its source file.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use super::{escape::shown, samples::Component};
use crate::{
    field_names::{self, CLASSES, LABELS},
    formats::foreign::{FieldSelection, Label},
    hash,
};

/// Longest label or metadata in bytes that is looked at.
pub(super) const TEXT_BYTES: u64 = 1 << 20;
/// Extensions that are labels unless the user chooses otherwise, the first before the second.
const EXTENSIONS: [&str; 2] = ["cls", "label"];
/// The member of a `json` component that names the class, as writers here have it.
const CLASS: &str = "class";

/// The texts of a sample read so far; `None` for a text that is missing or too long.
#[derive(Debug, Default)]
pub struct Texts {
    labels: [Option<Vec<u8>>; 2],
    json: Option<Vec<u8>>,
}

/// The facts in the texts of a sample.
#[derive(Debug)]
pub struct Told<'c> {
    /// Its label.
    pub label: Label,
    /// The component with the label, if the label has its own component.
    pub component: Option<&'c Component>,
    /// The member of `json` that holds the label, if one does.
    pub member: Option<String>,
    /// Name of its class.
    pub class: Option<Vec<u8>>,
    /// Name of the image file that it was made of.
    pub filename: Option<Vec<u8>>,
}

impl Texts {
    /// Buffer for the data of a component with this extension and length; `None` if the component is of no use or too long.
    pub fn slot(&mut self, extension: &[u8], bytes: u64, wanted: &FieldSelection) -> Option<&mut Vec<u8>> {
        let slot = match label_number(extension, wanted) {
            Some(number) => &mut self.labels[number],
            None if extension == b"json" => &mut self.json,
            None => return None,
        };
        (bytes <= TEXT_BYTES).then(|| slot.insert(Vec::new()))
    }

    /// The facts in the texts about the sample of `components`.
    pub fn parse<'c>(&self, components: &'c [Component], wanted: &FieldSelection) -> Told<'c> {
        let meta = self
            .json
            .as_deref()
            .map(bare)
            .and_then(|json| serde_json::from_slice::<Meta>(json).ok())
            .unwrap_or_default();
        let of_label = |component: &Component| label_number(&component.extension, wanted);
        let component = components
            .iter()
            .filter(|component| of_label(component).is_some())
            .min_by_key(|component| of_label(component));
        let in_json = meta.label();
        let label = match component {
            Some(component) => match of_label(component).and_then(|number| self.labels[number].as_deref()) {
                Some(text) => label(bare(text)),
                None => Label::Unfit(format!("{} of {} bytes", shown(&component.extension), component.bytes)),
            },
            None => in_json.as_ref().map_or(Label::Missing, |(label, _)| label.clone()),
        };
        let member = in_json.filter(|_| component.is_none()).map(|(_, name)| name.to_owned());
        Told { label, component, member, class: meta.class(), filename: meta.filename() }
    }
}

/// A text without its byte order mark.
fn bare(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Members of a `json` component that are looked at, beside those that are called as labels are.
const MEMBERS: [&str; 4] = ["class_hex", "path", "path_hex", "filename"];

/// The parts of a `json` component that are looked at.
#[derive(Default)]
struct Meta(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Meta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if MEMBERS.contains(&&*name) || field_names::is_label(&name) {
                members.push((name.into_owned(), map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Meta(members))
    }
}

impl Meta {
    /// The text of a member; of two the last counts, as in Python.
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(known, _)| known == name)?.1.as_str()
    }

    /// A name as text, or its bytes in hexadecimal where they are not UTF-8.
    fn bytes(&self, name: &str, hex: &str) -> Option<Vec<u8>> {
        self.text(hex).and_then(hash::unhex).or_else(|| self.text(name).map(|name| name.as_bytes().to_vec()))
    }

    fn class(&self) -> Option<Vec<u8>> {
        let named = || {
            let names = field_names::ranked(self.0.iter().map(|(name, _)| &**name), &CLASSES);
            names.into_iter().find_map(|(place, _)| self.0[place].1.as_str()).map(|name| name.as_bytes().to_vec())
        };
        self.bytes(CLASS, "class_hex").or_else(named)
    }

    fn filename(&self) -> Option<Vec<u8>> {
        self.bytes("path", "path_hex").or_else(|| self.text("filename").map(|name| name.as_bytes().to_vec()))
    }

    /// The label and its member: the likeliest member that holds a whole number or the name of a class.
    fn label(&self) -> Option<(Label, &str)> {
        let likely = field_names::ranked(self.0.iter().map(|(name, _)| &**name), &LABELS);
        likely.into_iter().find_map(|(place, name)| {
            let label = match &self.0[place].1 {
                Value::Number(number) => Label::Number(number.as_i64()?),
                // A member named `class` is the class's name, beside a label or without one.
                Value::String(text) if name != CLASS && field_names::is_class_in_words(name) => label(text.as_bytes()),
                _ => return None,
            };
            Some((label, name))
        })
    }
}

/// Which of the labels a component is; the lowest of a sample counts.
fn label_number(extension: &[u8], wanted: &FieldSelection) -> Option<usize> {
    match &wanted.label {
        Some(wanted) => (extension == wanted.as_bytes()).then_some(0),
        None => EXTENSIONS.iter().position(|label| label.as_bytes() == extension),
    }
}

/// The label in a component, without the spaces around it, which Python's `int` accepts too.
pub(super) fn label(text: &[u8]) -> Label {
    // As `bytes.strip` has it.
    let is_space = |byte: &u8| matches!(byte, b' ' | 0x09..=0x0d);
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    match Label::of_bytes(text) {
        Label::Text(_) if start == end => Label::Missing,
        Label::Text(_) => Label::Text(text[start..end].to_vec()),
        // Bytes of a number may be those of blanks.
        other => other,
    }
}
