//! A preview of shards: their format and what their first records say, before anything is done.

use std::collections::BTreeMap;

use serde::Serialize;
use shardpack_format::{
    ErrorKind, Result,
    component::{Component, Form},
    formats::foreign::{Label, Other},
    image_header::Header,
    text,
};

use super::{Shards, components};
use crate::monitor::Monitor;

/// Samples that are shown.
const SHOWN: usize = 3;

/// What shards are.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// Formats of the files, each with how many there are, compression included: `("tfrecord, gzip", 3)`.
    pub formats: Vec<(String, u64)>,
    /// How many files there are.
    pub files: u64,
    /// Length of all files together in bytes.
    pub bytes: u64,
    /// Names of the splits, if there are any.
    pub splits: Vec<String>,
    /// Name of the first file.
    pub first: String,
    /// Name of the last file.
    pub last: String,
    /// Name of the field that holds the image; empty where fields have no names.
    pub image: String,
    /// Name of the field that holds the label; empty where fields have no names, or there is none.
    pub label: String,
    /// Other fields of the first sample that go along as components.
    pub components: Vec<String>,
    /// Those that do not; those for label, class and file name are not among them.
    pub others: Vec<String>,
    /// How the first file was understood where it does not say so itself, in a few words each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub understood: Vec<String>,
    /// The first samples of the first file.
    pub samples: Vec<SamplePreview>,
}

/// A sample that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct SamplePreview {
    /// Key, id, or number in its file.
    pub key: String,
    /// What it says of its label.
    pub label: String,
    /// Name of its class, if it says so.
    pub class: Option<String>,
    /// Kind of the image.
    pub kind: String,
    /// Pixels across; 0 where that is not known.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Length of the image in bytes.
    pub bytes: u64,
    /// Why it cannot be packed, if so.
    pub problem: Option<String>,
}

impl Shards {
    /// Looks at the first samples. `goes_along` says whether a field, and the component that it is, does.
    ///
    /// # Errors
    /// When a field that was asked for is not there, or the person interrupts it. Damage is left to the walk to tell.
    pub fn look(&self, goes_along: impl Fn(&str, &Component) -> bool, monitor: &dyn Monitor) -> Result<Preview> {
        let mut formats: Vec<(String, u64)> = Vec::new();
        for file in &self.files {
            let packed = file.shard.packed.map_or_else(String::new, |packed| format!(", {}", packed.name()));
            let name = format!("{}{packed}", file.shard.kind.name());
            match formats.iter_mut().find(|(known, _)| *known == name) {
                Some((_, files)) => *files += 1,
                None => formats.push((name, 1)),
            }
        }
        let name = |file: Option<&super::File>| file.map_or_else(String::new, |file| file.name.clone());
        // One that holds several splits is there for each.
        let files: BTreeMap<_, _> = self.files.iter().map(|file| (&file.shard.path, file.shard.bytes)).collect();
        let mut look = Preview {
            formats,
            files: files.len() as u64,
            bytes: files.values().sum(),
            splits: self.splits().into_iter().flatten().collect(),
            first: name(self.files.first()),
            last: name(self.files.last()),
            image: String::new(),
            label: String::new(),
            components: Vec::new(),
            others: Vec::new(),
            understood: Vec::new(),
            samples: Vec::new(),
        };
        let Some(file) = self.files.first() else { return Ok(look) };
        let mut walk = match file.shard.walk_arrays(&self.wanted, &|| monitor.go_on()) {
            Err(error) if matches!(error.kind(), ErrorKind::Usage | ErrorKind::Interrupted) => return Err(error),
            Err(_) => return Ok(look),
            Ok(walk) => walk,
        };
        look.understood = walk.understood().iter().map(|words| shown(words.as_bytes())).collect();
        let mut bytes = Vec::new();
        while look.samples.len() < SHOWN
            && let Ok(Some(mut record)) = walk.next()
        {
            record.tell_numbers(walk.wider());
            let has_values = record.has_values();
            let (image, problem) = match &record.image {
                Err(_) if has_values => (Header::NONE, None),
                Ok(_) => match walk.image(&mut bytes) {
                    Ok(()) => (Header::of(&bytes), None),
                    Err(error) => (Header::of(&[]), Some(error.what())),
                },
                Err(reason) => (Header::of(&[]), Some(reason.clone())),
            };
            if look.samples.is_empty() {
                look.image = record.image.as_ref().map_or_else(|_| String::new(), |image| shown(image.name.as_bytes()));
                look.label = shown(record.label_name.as_bytes());
                let are_files = has_values && file.shard.kind.has_member_names();
                // The label of a value is a field as all others are.
                let is_label = |other: &&Other| other.name == record.label_name && has_values;
                let (kept, left) = record.others.iter().filter(|other| !is_label(other)).partition(|other| {
                    let kind = components::component(other, are_files).filter(|_| other.offset.is_some());
                    kind.is_some_and(|kind| goes_along(&other.name, &kind))
                });
                let name = |other: &&Other| match &other.form {
                    None | Some(Form::Bytes) if are_files || other.form.is_none() => shown(other.name.as_bytes()),
                    form => format!("{} {}", shown(other.name.as_bytes()), form.as_ref().unwrap_or(&Form::Bytes)),
                };
                let names = |others: Vec<&Other>| others.iter().map(name).collect();
                (look.components, look.others) = (names(kept), names(left));
            }
            look.samples.push(SamplePreview {
                key: shown(&record.key),
                label: match &record.label {
                    Label::Missing => "none".to_owned(),
                    Label::Number(number) => number.to_string(),
                    Label::Text(text) | Label::Name(text) => shown(text),
                    Label::Unfit(reason) => reason.clone(),
                },
                class: record.class.as_ref().map(|class| shown(class)),
                kind: if has_values { "values" } else { image.kind.name() }.to_owned(),
                width: image.width,
                height: image.height,
                bytes: match has_values {
                    true => record.others.iter().map(|other| other.bytes).sum(),
                    false => record.image.as_ref().map_or(0, |image| u64::from(image.bytes)),
                },
                problem,
            });
        }
        Ok(look)
    }
}

/// What somebody else wrote.
fn shown(text: &[u8]) -> String {
    text::shown(text).to_string()
}
