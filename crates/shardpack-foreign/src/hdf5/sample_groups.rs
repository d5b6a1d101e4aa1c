//! Reads samples that are one group each: `/000001/{x, y}`. All groups have datasets of the same names, and one may be the
//! image.
//!
//! Memory holds one sample. A dataset is read whole, so a dataset beyond the read limit is refused by its size. Items of
//! arrays are passed on as stored.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt, vec::IntoIter};

use hdf5_reader::{Dataset, Hdf5File};
use shardpack_format::{
    Result,
    component::Form,
    formats::foreign::{FieldSelection, Label, Other, Plain, Record},
    size,
};

use super::{
    super::{
        FileLocation, MissingImage,
        tables::{
            Array as _,
            item::Item,
            names::label_rank,
            values::{self, Kind, array_dtype, dtype, encoded},
            walk::{Images, record},
        },
    },
    array::{self, StoredArray},
    attributes::{self, FieldContent, array},
    image_datasets,
    layout::Samples,
    names::Members,
    open::{self, OPENED},
};

/// A sample: its image, if it has a readable one, its components and its label.
struct Sample {
    image: Option<std::result::Result<usize, MissingImage>>,
    others: Vec<Other>,
    label: Label,
}

/// The samples, one after the other.
pub(super) struct SampleGroups {
    place: FileLocation,
    file: Option<Hdf5File>,
    /// Objects that were read of `file`.
    opened: usize,
    /// Bytes that are to come at most.
    left: u64,
    groups: IntoIter<Members>,
    unused: Vec<String>,
    are_splits: bool,
    /// Dataset that is the image.
    image: Option<String>,
    /// Attributes of datasets, and of how many.
    passed: BTreeMap<String, u64>,
    /// Dataset or attribute that is the label.
    label: Option<String>,
    label_number: usize,
    note: String,
}

impl SampleGroups {
    /// The samples in the file at `place`, whose first parts are splits if `are_splits`.
    ///
    /// # Errors
    /// If the first one cannot be read.
    pub fn new(
        file: &Hdf5File,
        place: &FileLocation,
        samples: Samples,
        are_splits: bool,
        wanted: &FieldSelection,
    ) -> Result<Self> {
        let first = samples.groups.iter().find(|one| !one.datasets.is_empty());
        let label = wanted_label(file, &samples, wanted)?;
        let count = size::counted(samples.groups.len() as u64, "sample");
        let names = first.map_or_else(String::new, |first| first.datasets.join(", "));
        Ok(Self {
            place: place.clone(),
            file: None,
            opened: 0,
            left: open::most_unpacked(file),
            are_splits,
            label,
            label_number: wanted.label_number.unwrap_or(0),
            note: match &samples.image {
                // Equal for each of the files.
                _ if is_file(&samples.groups) => String::new(),
                Some(image) => format!("{count}, a group each, of {names}; images {image}"),
                None => format!("{count}, a group each, of {names}"),
            },
            image: samples.image,
            groups: samples.groups.into_iter(),
            unused: samples.unused,
            passed: BTreeMap::new(),
        })
    }

    /// The datasets and attributes of a group, their contents behind `out`, the image first; or why they cannot be had.
    fn sample(&mut self, one: &Members, at: u64, out: &mut Vec<u8>) -> Result<Result<Sample, MissingImage>> {
        let mut sample = Sample { image: None, others: Vec::new(), label: Label::Missing };
        if self.opened >= OPENED {
            (self.file, self.opened) = (None, 0);
        }
        let file = match &mut self.file {
            Some(file) => file,
            slot => slot.insert(open::open(&self.place)?),
        };
        self.opened += one.datasets.len() + 1;
        let is_image = |name: &String| self.image.as_ref() == Some(name);
        let is_beside = self.image.is_some();
        let is_label = |name: &str| self.label.as_deref() == Some(name);
        let (image, others): (Vec<_>, Vec<_>) = one.datasets.iter().partition(|name| is_image(name));
        for name in image.into_iter().chain(others) {
            let path = one.path(name);
            let damaged = |what: String| MissingImage::Damaged(format!("dataset {path}: {what}"));
            let dataset = match file.dataset(&path).map_err(open::cause) {
                Ok(dataset) => dataset,
                Err(error) => return Ok(Err(damaged(open::said(&error)))),
            };
            let stored = StoredArray::new(dataset);
            for attribute in attributes::own(&stored.dataset) {
                *self.passed.entry(attributes::left_out(&attribute.name, name)).or_default() += 1;
            }
            if is_image(name) {
                let read = image_datasets::bytes(&stored, self.left, out);
                self.left = self.left.saturating_sub(out.len() as u64);
                match read {
                    Err(MissingImage::Damaged(what)) => return Ok(Err(damaged(what))),
                    read => {
                        sample.image = Some(read.map(|()| out.len()).map_err(|why| why.at(&format!("dataset {path}"))))
                    }
                }
                continue;
            }
            let read = match read(&stored.dataset, self.left) {
                Ok(read) => read,
                Err(what) => return Ok(Err(damaged(what))),
            };
            self.left = self.left.saturating_sub(read.len() as u64);
            if is_label(name) {
                sample.label = values::label(&stored, &read, self.label_number);
                if is_beside {
                    continue;
                }
            }
            match content(&stored, read) {
                Ok(found) => {
                    let found = (name.as_str(), found, stored.item());
                    attributes::add(found, is_beside, at, (&mut sample.others, out));
                }
                Err(what) => return Ok(Err(damaged(what))),
            }
        }
        let attributes = match attributes::of_group(file, &one.group) {
            Ok(attributes) => attributes,
            Err(error) => return Ok(Err(MissingImage::Damaged(format!("attributes: {}", open::said(&error))))),
        };
        for attribute in attributes {
            if is_label(&attribute.name) && !one.datasets.contains(&attribute.name) {
                sample.label = attributes::as_label(&attribute);
                if is_beside {
                    continue;
                }
            }
            let found =
                (attribute.name.as_str(), attributes::read_value(&attribute), &array::item(&attribute.datatype));
            attributes::add(found, is_beside, at, (&mut sample.others, out));
        }
        Ok(Ok(sample))
    }
}

/// Whether the only sample is the file.
fn is_file(groups: &[Members]) -> bool {
    matches!(groups, [one] if one.group.is_empty())
}

/// Which dataset or attribute of the samples is their label.
fn wanted_label(file: &Hdf5File, samples: &Samples, wanted: &FieldSelection) -> Result<Option<String>> {
    let first = samples.groups.iter().find(|one| !one.datasets.is_empty());
    // Whether or not labels are wanted, the accompanying datasets are the same.
    match (&wanted.label, first) {
        (Some(name), _) => Ok(Some(name.clone())),
        (None, Some(first)) => label(file, first),
        (None, None) => Ok(None),
    }
}

/// The path of the dataset that is the label of the first sample, if one is.
///
/// # Errors
/// If it cannot be read.
pub(super) fn label_path(file: &Hdf5File, samples: &Samples, wanted: &FieldSelection) -> Result<Option<String>> {
    let Some(name) = wanted_label(file, samples, wanted)? else { return Ok(None) };
    let first = samples.groups.iter().find(|one| one.datasets.contains(&name));
    Ok(first.map(|one| one.path(&name)))
}

/// Which dataset or attribute of the first sample is called as labels are, and is one number or text.
fn label(file: &Hdf5File, first: &Members) -> Result<Option<String>> {
    let mut likely = Vec::new();
    for name in first.datasets.iter().filter(|_| first.datasets.len() > 1) {
        let dataset = file.dataset(&first.path(name)).map_err(open::to_error)?;
        let is_one = dataset.num_elements().is_ok_and(|items| items == 1);
        if is_one && matches!(Kind::from_type(&array::item(dataset.dtype())), Kind::Byte | Kind::Whole | Kind::Text) {
            likely.push(name.clone());
        }
    }
    let ranked = likely.into_iter().filter_map(|name| Some((label_rank(&name)?, name)));
    let of_group = attributes::of_group(file, &first.group).map_err(open::to_error)?;
    let of_group = attributes::label(&of_group).and_then(|one| Some((label_rank(&one.name)?, one.name.clone())));
    Ok(ranked.chain(of_group).min_by_key(|(rank, _)| *rank).map(|(_, name)| name))
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

/// Interprets the items of a dataset: an array, text, a list of texts, or bytes.
fn content(stored: &StoredArray, read: Vec<u8>) -> Result<FieldContent, String> {
    let (item, shape) = (stored.item(), stored.shape());
    if let Some(dtype) = dtype(item).or_else(|| array_dtype(item).filter(|_| !shape.is_empty())) {
        return array(&dtype, shape, read);
    }
    let is_one = shape.is_empty() && !read.is_empty();
    let text = |item: &[u8]| -> Result<String, String> {
        let mut text = encoded(stored, item.to_vec())?;
        text.truncate(text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        String::from_utf8(text).map_err(|_| "text that is no UTF-8".to_owned())
    };
    Ok(match item {
        _ if shape.is_empty() && read.is_empty() => FieldContent::Absent,
        Item::List(base) if is_one && dtype(base).is_some() => {
            let items = values::referred_items(stored, &read, base)?;
            return array(&dtype(base).unwrap_or_default(), &[values::said_bytes(&read).into()], items);
        }
        Item::Opaque { .. } if is_one => FieldContent::Is(Form::Bytes, read),
        _ if Kind::from_type(item) != Kind::Text => FieldContent::Untold,
        _ if is_one => FieldContent::Is(Form::Text, text(&read)?.into_bytes()),
        _ if shape.len() == 1 && shape[0] <= Plain::MAX_VALUES as u64 => {
            let bytes = stored.item_bytes().max(1);
            let texts: Vec<String> = read.chunks_exact(bytes).map(text).collect::<Result<_, _>>()?;
            let mut out = Vec::new();
            Plain::write_list(texts.iter().map(|text| Plain::Text(text)), &mut out);
            FieldContent::Is(Form::Json, out)
        }
        _ => FieldContent::Untold,
    })
}

impl Images for SampleGroups {
    fn next(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Option<Record>> {
        let Some(one) = self.groups.next() else { return Ok(None) };
        let key = match self.are_splits {
            _ if one.group.is_empty() => self.place.path().file_stem().unwrap_or_default().as_bytes(),
            true => one.group.split_once('/').map_or(one.group.as_str(), |(_, rest)| rest).as_bytes(),
            false => one.group.as_bytes(),
        };
        let key = key.to_vec();
        Ok(Some(match self.sample(&one, at, out)? {
            Err(why) => {
                out.clear();
                let why = if one.group.is_empty() { why } else { why.at(&format!("group {}", one.group)) };
                Record { key_is_unique: true, ..record(at, key, String::new(), Err(why)) }
            }
            Ok(Sample { image, others, label }) => {
                let image = match image {
                    Some(image) => image,
                    None if self.image.is_some() => {
                        Err(MissingImage::no_image("a group without the image that others have"))
                    }
                    None => Err(MissingImage::no_image("a group of values, no image")),
                };
                let named = self.label.clone().filter(|_| label != Label::Missing);
                let name = self.image.clone().unwrap_or_default();
                Record {
                    range: at..at + out.len() as u64,
                    key_is_unique: true,
                    labels: usize::from(label != Label::Missing),
                    label_name: named.unwrap_or_default(),
                    label,
                    others,
                    ..record(at, key, name, image)
                }
            }
        }))
    }

    fn notes(&self) -> Vec<String> {
        Some(&self.note).filter(|note| !note.is_empty()).cloned().into_iter().collect()
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        let unused = self.unused.iter().map(|path| (format!("dataset {path}"), 1));
        unused.chain(self.passed.clone()).collect()
    }
}
