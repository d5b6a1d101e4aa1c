//! Images that have a dataset each: encoded bytes or pixels, in the root or in groups that are classes.

use std::{path::PathBuf, vec::IntoIter};

use hdf5_reader::{Attribute, Hdf5File};
use shardpack_format::{
    ErrorKind, Result,
    formats::foreign::{FieldSelection, Label, Record},
    npy, size,
};

use super::{
    super::{
        FileLocation, MissingImage,
        key_labels::{self, KeyLabels},
        lmdb,
        tables::{
            Array as _,
            names::{IMAGES, is_called},
            values::{self, Kind, encoded, is_image},
            walk::{Images, record},
        },
    },
    array::{self, StoredArray},
    attributes,
    names::Members,
    open::{self, OPENED},
};

/// Names of a list of labels beside `NAME.hdf5`; `*` stands for `NAME`, the likeliest first.
const LISTS: [&str; 6] = ["*-metadata.csv", "*_metadata.csv", "*.csv", "*-labels.csv", "metadata.csv", "labels.csv"];
/// Suffixes in the name of a file of images that the name of its list may lack.
const OF_IMAGES: [&str; 4] = ["-images", "_images", "-image", "_image"];
/// Number of images used to check whether a list belongs to this file.
const LOOKS: usize = 64;

/// Reads the datasets of groups in sequence.
pub(super) struct ImageDatasets {
    place: FileLocation,
    file: Option<Hdf5File>,
    /// Datasets that were read of `file`.
    opened: usize,
    /// Bytes that are to come at most.
    left: u64,
    /// Path of the group, and the names that are to come.
    group: (String, IntoIter<String>),
    groups: IntoIter<Members>,
    are_splits: bool,
    /// Labels by dataset name, and their source.
    labels: Option<(KeyLabels, String)>,
    /// The attribute with the label, if there is no other source of labels.
    label_attribute: Option<String>,
    /// Whether the user chose the location of labels.
    is_said: bool,
    notes: Vec<String>,
}

impl ImageDatasets {
    /// The datasets of `groups`, whose first path components are splits if `are_splits`. If groups are not classes, labels
    /// come from a list beside the file at `place`, or from the wanted list.
    ///
    /// # Errors
    /// If the wanted list cannot be read.
    pub fn new(
        file: &Hdf5File,
        place: &FileLocation,
        groups: Vec<Members>,
        are_splits: bool,
        wanted: &FieldSelection,
    ) -> Result<Self> {
        let images: usize = groups.iter().map(|one| one.datasets.len()).sum();
        let named = groups.iter().filter(|one| class(&one.group, are_splits).is_some()).count();
        let labels = match lmdb::label_file(&wanted.entries) {
            Some(list) => Some((KeyLabels::of_labels(&list)?, list)),
            None if named == 0 => list_beside(place, &groups)?,
            None => None,
        };
        let shown = |list: PathBuf| list.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let labels = labels.map(|(table, list)| (table, shown(list)));
        let images = size::counted(images as u64, "image");
        // Whether or not labels are wanted, the accompanying fields are the same.
        let label_attribute = match (&wanted.label, &labels) {
            (Some(name), _) => Some(name.clone()),
            (None, None) if named == 0 => first_label(file, &groups)?,
            (None, _) => None,
        };
        let note = match (&labels, named) {
            (None, _) if let Some(name) = &label_attribute => {
                format!("{images}, a dataset each; their labels are attribute {name}")
            }
            (Some((_, list)), _) => format!("{images}, a dataset each; their labels are in {list}"),
            (None, 0) => format!("{images}, a dataset each, no labels in the file"),
            (None, groups) => {
                format!("{images}, a dataset each, in {}: classes", size::counted(groups as u64, "group"))
            }
        };
        let group = (String::new(), Vec::new().into_iter());
        let is_said = lmdb::label_file(&wanted.entries).is_some();
        Ok(Self {
            is_said,
            place: place.clone(),
            file: None,
            opened: 0,
            left: open::most_unpacked(file),
            group,
            groups: groups.into_iter(),
            are_splits,
            labels,
            label_attribute,
            notes: vec![note],
        })
    }

    /// Reads the image of the dataset at `path` into `out`, with its attributes; the inner error is the reason why there is
    /// no image.
    fn read(&mut self, path: &str, out: &mut Vec<u8>) -> Result<Result<Vec<Attribute>, MissingImage>> {
        if self.opened == OPENED {
            (self.file, self.opened) = (None, 0);
        }
        let file = match &mut self.file {
            Some(file) => file,
            slot => slot.insert(open::open(&self.place)?),
        };
        self.opened += 1;
        let dataset = match file.dataset(path).map_err(open::cause) {
            Ok(dataset) => dataset,
            Err(error) => return Ok(Err(MissingImage::Damaged(open::said(&error)))),
        };
        let array = StoredArray::new(dataset);
        let read = bytes(&array, self.left, out);
        self.left = self.left.saturating_sub(out.len() as u64);
        Ok(read.map(|()| attributes::own(&array.dataset)))
    }
}

/// Appends the image in a dataset to `out`; at most `left` bytes of the dataset are stored.
///
/// # Errors
/// The reason why the dataset is no image.
pub(super) fn bytes(array: &StoredArray, left: u64, out: &mut Vec<u8>) -> Result<(), MissingImage> {
    let (kind, dataset) = (Kind::from_type(array.item()), &array.dataset);
    let is_one = dataset.num_elements().is_ok_and(|items| items == 1);
    let is_encoded = kind == Kind::Byte && is_line(dataset.shape())
        || is_one && matches!(kind, Kind::Bytes | Kind::Opaque | Kind::Text);
    let is_pixels = kind == Kind::Byte && matches!(dataset.ndim(), 2 | 3);
    if !is_encoded && !is_pixels {
        return Err(MissingImage::NoImage(values::name(array.item()) + ", no image"));
    }
    let length = dataset.raw_byte_len().map_err(|error| MissingImage::Damaged(open::said(&error)))?;
    if length > open::most_bytes() {
        return Err(MissingImage::NoImage(format!("{length} bytes, {}", open::at_once())));
    }
    if length as u64 > left {
        return Err(MissingImage::Damaged(format!("{length} bytes, more than the file can hold")));
    }
    let read = dataset.read_raw_bytes().map_err(|error| MissingImage::Damaged(open::said(&open::cause(error))))?;
    if is_pixels && !(is_encoded && is_image(&read)) {
        out.extend_from_slice(&npy::head("|u1", dataset.shape(), false));
        out.extend_from_slice(&read);
        return Ok(());
    }
    let read = encoded(array, read).map_err(MissingImage::Damaged)?;
    if !read.is_empty() && !is_image(&read) {
        return Err(MissingImage::NoImage(format!("{} bytes that begin like no image", read.len())));
    }
    out.extend_from_slice(&read);
    Ok(())
}

/// Whether a whole dataset is an encoded image, judged by its first bytes.
pub(super) fn is_encoded(array: &StoredArray) -> bool {
    let dataset = &array.dataset;
    let is_one = dataset.num_elements().is_ok_and(|items| items == 1);
    let is_line = match Kind::from_type(array.item()) {
        Kind::Byte => is_line(dataset.shape()),
        Kind::Bytes | Kind::Opaque | Kind::Text => is_one,
        _ => false,
    };
    let is_short = dataset.raw_byte_len().is_ok_and(|bytes| bytes <= open::most_bytes());
    is_line
        && is_short
        && dataset.read_raw_bytes().is_ok_and(|read| encoded(array, read).is_ok_and(|bytes| is_image(&bytes)))
}

/// Whether bytes of this shape are one behind the other: an encoded image, if they begin like one.
pub(super) fn is_line(shape: &[u64]) -> bool {
    matches!(shape, [_] | [_, 1] | [1, _])
}

impl Images for ImageDatasets {
    fn next(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Option<Record>> {
        let name = loop {
            match self.group.1.next() {
                Some(name) => break name,
                None => match self.groups.next() {
                    Some(Members { group, datasets }) => self.group = (group, datasets.into_iter()),
                    None => return Ok(None),
                },
            }
        };
        let group = self.group.0.clone();
        let path = super::names::join(&group, &name);
        let read = self.read(&path, out)?.map_err(|why| why.at(&format!("dataset {path}")));
        let image_bytes = out.len();
        let (mut others, mut told) = (Vec::new(), Label::Missing);
        for attribute in read.iter().flatten() {
            match self.label_attribute.as_ref() == Some(&attribute.name) {
                true => told = attributes::as_label(attribute),
                false => {
                    let item = array::item(&attribute.datatype);
                    let found = (attribute.name.as_str(), attributes::read_value(attribute), &item);
                    attributes::add(found, true, at, (&mut others, out));
                }
            }
        }
        let image = read.map(|_| image_bytes);
        let key = match self.are_splits {
            true => path.split_once('/').map_or(path.as_str(), |(_, rest)| rest),
            false => path.as_str(),
        };
        let label = match &mut self.labels {
            Some((list, from)) => match list.get(name.as_bytes()) {
                Some(said) => lmdb::label(said),
                None if self.is_said => Label::Unfit(format!("{from} has no label for it")),
                None => Label::Missing,
            },
            None => told,
        };
        let label_name = self.label_attribute.clone().filter(|_| label != Label::Missing).unwrap_or_default();
        let end = at + if image.is_ok() { out.len() as u64 } else { 0 };
        Ok(Some(Record {
            range: at..end,
            others,
            label_name,
            key_is_unique: true,
            labels: usize::from(label != Label::Missing),
            label,
            class: class(&group, self.are_splits).map(|class| class.as_bytes().to_vec()),
            ..record(at, key.as_bytes().to_vec(), String::new(), image)
        }))
    }

    fn notes(&self) -> Vec<String> {
        let differences = self.labels.iter().flat_map(|(list, name)| [list.unknown(name), list.unused(name)]).flatten();
        self.notes.iter().cloned().chain(differences).collect()
    }
}

/// The attribute of the first dataset that is called as labels are.
fn first_label(file: &Hdf5File, groups: &[Members]) -> Result<Option<String>> {
    let Some(path) = groups.first().and_then(|one| Some(one.path(one.datasets.first()?))) else { return Ok(None) };
    let attributes = attributes::own(&file.dataset(&path).map_err(open::to_error)?);
    Ok(attributes::label(&attributes).map(|one| one.name.clone()))
}

/// A list of labels beside the file at `place`, if it exists and names most of the images.
///
/// # Errors
/// If the folder is unreadable.
fn list_beside(place: &FileLocation, groups: &[Members]) -> Result<Option<(KeyLabels, PathBuf)>> {
    let Some(stem) = place.path().file_stem().and_then(|stem| stem.to_str()) else { return Ok(None) };
    let bare = OF_IMAGES.iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
    let names = [stem, bare].into_iter().flat_map(|stem| LISTS.map(|list| list.replace('*', stem)));
    let of_these = |table: &KeyLabels| {
        let looked: Vec<_> = groups.iter().flat_map(|group| &group.datasets).take(LOOKS).collect();
        looked.iter().filter(|name| table.has(name.as_bytes())).count() * 2 > looked.len()
    };
    for name in names {
        let read = place.read_beside(&name, key_labels::MAX_BYTES);
        let found = match read {
            Ok(None) => continue,
            Ok(Some((list, text))) => KeyLabels::of_label_text(&list, &text).map(|table| (table, list)),
            Err(error) => Err(error),
        };
        match found {
            Ok((table, list)) if of_these(&table) => return Ok(Some((table, list))),
            Err(error) if error.kind() == ErrorKind::System => return Err(error),
            // A file that is no list of labels, or a list for other images, is ignored.
            _ => {}
        }
    }
    Ok(None)
}

/// The class name of a group; a group called `images` is no class.
fn class(group: &str, are_splits: bool) -> Option<&str> {
    let class = match are_splits {
        true => group.split_once('/')?.1,
        false => group,
    };
    class.rsplit('/').next().filter(|class| !class.is_empty() && !is_called(class, &IMAGES))
}
