//! The components of a tar sample that are text and say something of it: its label, its class, the file it was made of.

use serde::Deserialize;
use serde_json::Value;

use super::{escape::shown, samples::Component};
use crate::{
    formats::foreign::{Label, Wanted},
    hash,
};

/// Longest label or metadata in bytes that is looked at.
pub(super) const TEXT_BYTES: u64 = 1 << 20;
/// Extensions that are labels unless the user says otherwise, the first before the second.
const LABELS: [&str; 2] = ["cls", "label"];

/// What has been read of the texts of a sample; `None` for what it does not have or is too long.
#[derive(Debug, Default)]
pub struct Texts {
    labels: [Option<Vec<u8>>; 2],
    json: Option<Vec<u8>>,
}

/// What texts say of their sample.
#[derive(Debug)]
pub struct Told<'c> {
    /// Its label.
    pub label: Label,
    /// The component that says it, where it is one of its own.
    pub component: Option<&'c Component>,
    /// Name of its class.
    pub class: Option<Vec<u8>>,
    /// Name of the image file that it was made of.
    pub filename: Option<Vec<u8>>,
}

impl Texts {
    /// Where the data of a component of this extension and length goes; `None` where it says nothing, or too much.
    pub fn slot(&mut self, extension: &[u8], bytes: u64, wanted: &Wanted) -> Option<&mut Vec<u8>> {
        let slot = match label_number(extension, wanted) {
            Some(number) => &mut self.labels[number],
            None if extension == b"json" => &mut self.json,
            None => return None,
        };
        (bytes <= TEXT_BYTES).then(|| slot.insert(Vec::new()))
    }

    /// What they say of the sample of `components`.
    pub fn told<'c>(&self, components: &'c [Component], wanted: &Wanted) -> Told<'c> {
        let meta = self.json.as_deref().and_then(|json| serde_json::from_slice::<Meta>(json).ok()).unwrap_or_default();
        let of_label = |component: &Component| label_number(&component.extension, wanted);
        let component = components
            .iter()
            .filter(|component| of_label(component).is_some())
            .min_by_key(|component| of_label(component));
        let label = match component {
            Some(component) => match of_label(component).and_then(|number| self.labels[number].as_deref()) {
                Some(text) => label(text),
                None => Label::Unfit(format!("{} of {} bytes", shown(&component.extension), component.bytes)),
            },
            None => meta.label(),
        };
        Told { label, component, class: meta.class(), filename: meta.filename() }
    }
}

/// The parts of a `json` component that are looked at.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    class: Value,
    class_hex: Value,
    label: Value,
    path: Value,
    path_hex: Value,
    filename: Value,
}

impl Meta {
    fn class(&self) -> Option<Vec<u8>> {
        bytes(&self.class, &self.class_hex)
    }

    fn filename(&self) -> Option<Vec<u8>> {
        bytes(&self.path, &self.path_hex).or_else(|| bytes(&self.filename, &Value::Null))
    }

    fn label(&self) -> Label {
        self.label.as_i64().map_or(Label::Missing, Label::Number)
    }
}

/// A name as text, or its bytes in hexadecimal where they are not UTF-8.
fn bytes(name: &Value, hex: &Value) -> Option<Vec<u8>> {
    hex.as_str().and_then(hash::unhex).or_else(|| name.as_str().map(|name| name.as_bytes().to_vec()))
}

/// Which of the labels a component is; the lowest of a sample counts.
fn label_number(extension: &[u8], wanted: &Wanted) -> Option<usize> {
    match &wanted.label {
        Some(wanted) => (extension == wanted.as_bytes()).then_some(0),
        None => LABELS.iter().position(|label| label.as_bytes() == extension),
    }
}

/// The label that a component says, without the spaces around it, which Python's `int` takes too.
pub(super) fn label(text: &[u8]) -> Label {
    // As `bytes.strip` has it.
    let is_space = |byte: &u8| matches!(byte, b' ' | 0x09..=0x0d);
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    if start == end { Label::Missing } else { Label::Text(text[start..end].to_vec()) }
}
