//! Samples that are no images, a group each: `/000001/{x, y}`, of which every group has datasets of the same names.
//!
//! Holds at all times: one sample is in memory; a dataset is read whole, so one that is longer than what is read at once is refused by
//! its size; the items of arrays are handed on as they are stored.

use std::{collections::BTreeMap, vec::IntoIter};

use hdf5_reader::{Attribute, Dataset, Datatype, Hdf5File, VarLenKind};
use shardpack_format::{
    Result,
    component::Form,
    formats::foreign::{Label, Other, Plain, Record, Wanted},
    size,
};

use super::{
    super::{Lack, Place},
    layout::Samples,
    names::{LABELS, Members, rank},
    open::{self, OPENED},
    values::{self, Kind, array_dtype, dtype, encoded},
    walk::{Images, record},
};

/// The samples, one after the other.
pub(super) struct SampleGroups {
    place: Place,
    file: Option<Hdf5File>,
    /// Objects that were read of `file`.
    opened: usize,
    /// Bytes that are to come at most.
    left: u64,
    groups: IntoIter<Members>,
    unused: Vec<String>,
    are_splits: bool,
    /// Dataset or attribute that is the label.
    label: Option<String>,
    label_number: usize,
    note: String,
}

/// What a dataset or an attribute of a sample is.
enum Found {
    /// Nothing.
    Absent,
    Is(Form, Vec<u8>),
    /// What cannot be told.
    Untold,
}

impl SampleGroups {
    /// The samples in the file at `place`, whose first parts are splits if `are_splits`.
    ///
    /// # Errors
    /// When the first one cannot be read.
    pub fn new(file: &Hdf5File, place: &Place, samples: Samples, are_splits: bool, wanted: &Wanted) -> Result<Self> {
        let first = samples.groups.iter().find(|one| !one.datasets.is_empty());
        let label = match (&wanted.label, first) {
            _ if wanted.no_labels => None,
            (Some(name), _) => Some(name.clone()),
            (None, Some(first)) => label(file, first)?,
            (None, None) => None,
        };
        let count = size::counted(samples.groups.len() as u64, "sample");
        let names = first.map_or_else(String::new, |first| first.datasets.join(", "));
        Ok(Self {
            place: place.clone(),
            file: None,
            opened: 0,
            left: open::most_unpacked(file),
            groups: samples.groups.into_iter(),
            unused: samples.unused,
            are_splits,
            label,
            label_number: wanted.label_number,
            note: format!("{count}, a group each, of {names}"),
        })
    }

    /// The datasets and attributes of a group, their contents behind `out`, with the label if one of them is; or why they cannot be had.
    fn sample(&mut self, one: &Members, at: u64, out: &mut Vec<u8>) -> Result<Result<(Vec<Other>, Label), Lack>> {
        let (mut others, mut label) = (Vec::new(), Label::Missing);
        if self.opened >= OPENED {
            (self.file, self.opened) = (None, 0);
        }
        let file = match &mut self.file {
            Some(file) => file,
            slot => slot.insert(open::open(&self.place)?),
        };
        self.opened += one.datasets.len() + 1;
        let mut add = |name: &str, found: Found, out: &mut Vec<u8>| {
            let (bytes, offset, form) = match found {
                Found::Absent => return,
                Found::Untold => (0, None, None),
                Found::Is(form, content) => {
                    let offset = at + out.len() as u64;
                    out.extend_from_slice(&content);
                    (form.head_bytes() + content.len() as u64, Some(offset), Some(form))
                }
            };
            others.push(Other { name: name.to_owned(), bytes, offset, recipe: 0, form });
        };
        let is_label = |name: &str| self.label.as_deref() == Some(name);
        for name in &one.datasets {
            let path = one.path(name);
            let damaged = |what: String| Lack::Damaged(format!("dataset {path}: {what}"));
            let dataset = match file.dataset(&path).map_err(open::cause) {
                Ok(dataset) => dataset,
                Err(error) => return Ok(Err(damaged(open::said(&error)))),
            };
            let read = match read(&dataset, self.left) {
                Ok(read) => read,
                Err(what) => return Ok(Err(damaged(what))),
            };
            self.left = self.left.saturating_sub(read.len() as u64);
            if is_label(name) {
                label = values::label(&dataset, &read, self.label_number);
            }
            match content(&dataset, read) {
                Ok(found) => add(name, found, out),
                Err(what) => return Ok(Err(damaged(what))),
            }
        }
        let attributes = match file.group(&one.group).and_then(|group| group.attributes()).map_err(open::cause) {
            Ok(attributes) => attributes,
            Err(error) => return Ok(Err(Lack::Damaged(format!("attributes: {}", open::said(&error))))),
        };
        for attribute in attributes {
            let found = of_attribute(&attribute);
            if is_label(&attribute.name) && !one.datasets.contains(&attribute.name) {
                label = match &found {
                    Found::Is(Form::Text, text) => Label::Text(text.clone()),
                    Found::Is(..) => values::whole(&attribute.datatype, &attribute.raw_data),
                    Found::Absent | Found::Untold => Label::Missing,
                };
            }
            add(&attribute.name, found, out);
        }
        Ok(Ok((others, label)))
    }
}

/// Which dataset or attribute of the first sample is called as labels are, and is one number or text.
fn label(file: &Hdf5File, first: &Members) -> Result<Option<String>> {
    let mut likely = Vec::new();
    for name in first.datasets.iter().filter(|_| first.datasets.len() > 1) {
        let dataset = file.dataset(&first.path(name)).map_err(open::told)?;
        let is_one = dataset.num_elements().is_ok_and(|items| items == 1);
        if is_one && matches!(Kind::of(dataset.dtype()), Kind::Byte | Kind::Whole | Kind::Text) {
            likely.push(name.clone());
        }
    }
    for attribute in file.group(&first.group).and_then(|group| group.attributes()).map_err(open::told)? {
        let is_one = attribute.num_elements().is_ok_and(|items| items == 1);
        if is_one && matches!(Kind::of(&attribute.datatype), Kind::Byte | Kind::Whole | Kind::Text) {
            likely.push(attribute.name);
        }
    }
    let ranked = likely.into_iter().filter_map(|name| Some((rank(&name, &LABELS)?, name)));
    Ok(ranked.min_by_key(|(rank, _)| *rank).map(|(_, name)| name))
}

/// All items of a dataset as they are stored.
fn read(dataset: &Dataset, left: u64) -> Result<Vec<u8>, String> {
    let length = dataset.raw_byte_len().map_err(|error| open::said(&error))?;
    if length > open::most_bytes() {
        return Err(format!("{length} bytes, {}", open::at_once()));
    }
    if length as u64 > left {
        return Err(format!("{length} bytes, more than the file can hold"));
    }
    dataset.read_raw_bytes().map_err(|error| open::said(&open::cause(error)))
}

/// What the items of a dataset are: an array, text, a list of texts, or bytes.
fn content(dataset: &Dataset, read: Vec<u8>) -> Result<Found, String> {
    let (item, shape) = (dataset.dtype(), dataset.shape());
    if let Some(dtype) = dtype(item).or_else(|| array_dtype(item).filter(|_| !shape.is_empty())) {
        return array(&dtype, shape, read);
    }
    let is_one = shape.is_empty() && !read.is_empty();
    let text = |item: &[u8]| -> Result<String, String> {
        let mut text = encoded(dataset, item.to_vec())?;
        text.truncate(text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        String::from_utf8(text).map_err(|_| "text that is no UTF-8".to_owned())
    };
    Ok(match item {
        _ if shape.is_empty() && read.is_empty() => Found::Absent,
        Datatype::VarLen { kind: VarLenKind::Sequence, base, .. } if is_one && dtype(base).is_some() => {
            let items = values::referred_items(dataset, &read, base)?;
            return array(&dtype(base).unwrap_or_default(), &[values::said_bytes(&read).into()], items);
        }
        Datatype::Opaque { .. } if is_one => Found::Is(Form::Bytes, read),
        _ if Kind::of(item) != Kind::Text => Found::Untold,
        _ if is_one => Found::Is(Form::Text, text(&read)?.into_bytes()),
        _ if shape.len() == 1 && shape[0] <= Plain::MOST_VALUES as u64 => {
            let bytes = dataset.raw_element_size().map_err(|error| open::said(&error))?.max(1);
            let texts: Vec<String> = read.chunks_exact(bytes).map(text).collect::<Result<_, _>>()?;
            let mut out = Vec::new();
            Plain::write_list(texts.iter().map(|text| Plain::Text(text)), &mut out);
            Found::Is(Form::Json, out)
        }
        _ => Found::Untold,
    })
}

fn array(dtype: &str, shape: &[u64], items: Vec<u8>) -> Result<Found, String> {
    let form = Form::array(dtype, shape).map_err(|error| error.what())?;
    match form.items_bytes() {
        Some(bytes) if bytes == items.len() as u64 => Ok(Found::Is(form, items)),
        // A dataset of no space.
        _ if items.is_empty() => Ok(Found::Absent),
        bytes => Err(format!("{} bytes, expected {}", items.len(), bytes.unwrap_or_default())),
    }
}

/// What an attribute is; what is neither numbers nor one text cannot be told.
fn of_attribute(attribute: &Attribute) -> Found {
    let is_single = attribute.shape.is_empty();
    let text = || array_dtype(&attribute.datatype).filter(|_| !is_single);
    if let Some(dtype) = dtype(&attribute.datatype).or_else(text) {
        return array(&dtype, &attribute.shape, attribute.raw_data.clone()).unwrap_or(Found::Untold);
    }
    let text = match (&attribute.decoded_strings, &attribute.datatype) {
        (Some(texts), _) if attribute.shape.is_empty() && texts.len() == 1 => texts[0].clone().into_bytes(),
        (None, Datatype::String { .. }) if attribute.shape.is_empty() && !values::is_reference(&attribute.datatype) => {
            let end = attribute.raw_data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            attribute.raw_data[..end].to_vec()
        }
        _ => return Found::Untold,
    };
    match str::from_utf8(&text) {
        Ok(_) => Found::Is(Form::Text, text),
        Err(_) => Found::Untold,
    }
}

impl Images for SampleGroups {
    fn next(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Option<Record>> {
        let Some(one) = self.groups.next() else { return Ok(None) };
        let key = match self.are_splits {
            true => one.group.split_once('/').map_or(one.group.as_str(), |(_, rest)| rest),
            false => one.group.as_str(),
        };
        let key = key.as_bytes().to_vec();
        Ok(Some(match self.sample(&one, at, out)? {
            Err(why) => {
                out.clear();
                let why = why.at(&format!("group {}", one.group));
                Record { key_is_unique: true, ..record(at, key, String::new(), Err(why)) }
            }
            Ok((others, label)) => {
                let why = Lack::no_image("a group of values, no image");
                let named = self.label.clone().filter(|_| label != Label::Missing);
                Record {
                    range: at..at + out.len() as u64,
                    key_is_unique: true,
                    labels: usize::from(label != Label::Missing),
                    label_name: named.unwrap_or_default(),
                    label,
                    others,
                    ..record(at, key, String::new(), Err(why))
                }
            }
        }))
    }

    fn notes(&self) -> Vec<String> {
        vec![self.note.clone()]
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.unused.iter().map(|path| (format!("dataset {path}"), 1)).collect()
    }
}
