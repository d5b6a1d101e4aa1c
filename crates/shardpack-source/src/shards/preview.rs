//! Previews shards: their format and the labels of their first records, before any work starts.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use shardpack_format::{
    ErrorKind, Result,
    component::{Component, Form},
    formats::foreign::{Label, Other},
    image_header::Header,
    text,
};

use super::{Shards, fields};
use crate::{foreign::ShardFile, monitor::Monitor};

/// Number of samples in a preview.
const SHOWN: usize = 3;

/// Description of a set of shards.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preview {
    /// Formats of the files with the number of files each, compression included: `("tfrecord, gzip", 3)`.
    pub formats: Vec<(String, u64)>,
    /// Number of files.
    pub files: u64,
    /// Total length of the files in bytes.
    pub bytes: u64,
    /// Names of the splits, if there are any.
    pub splits: Vec<String>,
    /// Name of the first file.
    pub first: String,
    /// Name of the last file.
    pub last: String,
    /// Name of the field that holds the image; empty if fields have no names.
    pub image: String,
    /// Name of the field that holds the label; empty if there is no label or fields have no names.
    pub label: String,
    /// Other fields of the first sample that become components.
    pub components: Vec<String>,
    /// Other fields that do not; the fields for label, class and file name are not included.
    pub others: Vec<String>,
    /// Interpretation of the first file if its format leaves a choice, a few words each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub understood: Vec<String>,
    /// The first samples of the first file.
    pub samples: Vec<SamplePreview>,
}

/// A previewed sample.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplePreview {
    /// Key, id, or number in its file.
    pub key: String,
    /// Label as shown to the user.
    pub label: String,
    /// Class name, if the record has one.
    pub class: Option<String>,
    /// Kind of the image.
    pub kind: String,
    /// Width in pixels; 0 if unknown.
    pub width: u32,
    /// Height in pixels; 0 if unknown.
    pub height: u32,
    /// Length of the image in bytes.
    pub bytes: u64,
    /// Reason why the sample cannot be packed, if any.
    pub problem: Option<String>,
}

impl Shards {
    /// Previews the first samples. `goes_along` decides whether a field, given with its component, becomes a component.
    ///
    /// # Errors
    /// If a requested field is missing, or the user cancels. Damage is not reported here; the walk reports it.
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
        let last = |file: &super::File| match file.shard.beside.last().and_then(|one| one.path.file_name()) {
            Some(own) => own.to_string_lossy().into_owned(),
            None => file.name.clone(),
        };
        // A file that holds several splits is listed once per split.
        let of_file = |shard: &'_ ShardFile| {
            let beside = shard.beside.iter().map(|one| (one.path.clone(), one.bytes));
            std::iter::once((shard.path.clone(), shard.bytes)).chain(beside).collect::<Vec<_>>()
        };
        let files: BTreeMap<_, _> = self.files.iter().flat_map(|file| of_file(&file.shard)).collect();
        let mut look = Preview {
            formats,
            files: files.len() as u64,
            bytes: files.values().sum(),
            splits: self.splits().into_iter().flatten().collect(),
            first: name(self.files.first()),
            last: self.files.last().map_or_else(String::new, last),
            image: String::new(),
            label: String::new(),
            components: Vec::new(),
            others: Vec::new(),
            understood: Vec::new(),
            samples: Vec::new(),
        };
        let Some(file) = self.files.first() else { return Ok(look) };
        let mut walk = match file.shard.walk_arrays(&self.wanted, &|| monitor.check_cancelled()) {
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
                    Ok(()) => (Header::parse(&bytes), None),
                    Err(error) => (Header::parse(&[]), Some(error.what())),
                },
                Err(reason) => (Header::parse(&[]), Some(reason.clone())),
            };
            if look.samples.is_empty() {
                look.image = record.image.as_ref().map_or_else(|_| String::new(), |image| shown(image.name.as_bytes()));
                look.label = shown(record.label_name.as_bytes());
                let are_files = has_values && file.shard.kind.has_member_names();
                // The label of a record of values is a field like the others.
                let is_label = |other: &&Other| other.name == record.label_name && has_values;
                let mut names = HashSet::new();
                let (kept, left) = record.others.iter().filter(|other| !is_label(other)).partition(|other| {
                    let kind = fields::component(other, are_files).filter(|_| other.offset.is_some());
                    // Of two fields with the name of one component, the first is the component.
                    kind.is_some_and(|kind| goes_along(&other.name, &kind) && names.insert(kind.name().to_owned()))
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

/// Makes text from a foreign file safe to print.
fn shown(text: &[u8]) -> String {
    text::shown(text).to_string()
}
