//! A dataset by what its head says (path, kind of items, shape), and what its rows may be by that: images or labels.

use hdf5_reader::{Dataset, Hdf5File};
use shardpack_format::Result;

use super::{
    super::plain::by,
    names::{self, CLASSES, FILENAMES, IMAGES, LABELS, Members, rank},
    open,
    values::{self, Kind},
};

/// Datasets of a group that are looked at; one with more has a dataset for each image.
pub(super) const MOST_TABLES: usize = 64;
/// Groups whose datasets are looked at.
const MOST_GROUPS: usize = 64;
/// Datasets that a message names.
pub(super) const TOLD: usize = 12;

/// A dataset that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub path: String,
    pub kind: Kind,
    type_name: String,
    pub shape: Vec<u64>,
    /// The dtype of its items, where they are numbers.
    pub dtype: Option<String>,
    /// Whether items are an array together.
    pub is_array: bool,
    /// Whether its items are numbers, text or bytes.
    pub is_plain: bool,
}

impl Seen {
    pub fn of(path: String, dataset: &Dataset) -> Self {
        let item = dataset.dtype();
        Self {
            path,
            kind: Kind::of(item),
            type_name: values::name(item),
            shape: dataset.shape().to_vec(),
            dtype: values::dtype(item),
            is_array: values::array_dtype(item).is_some(),
            is_plain: values::is_plain(item),
        }
    }

    /// Whether rows are numbers that are no bytes, of which an image could not be made.
    pub fn is_number(&self) -> bool {
        self.dtype.is_some() && self.kind != Kind::Byte
    }

    pub fn rows(&self) -> Option<u64> {
        self.shape.first().copied()
    }

    /// What it is, for a person: `images uint8 100×32×32×3`.
    pub fn told(&self) -> String {
        let shape = if self.shape.is_empty() { "of one item".to_owned() } else { by(&self.shape) };
        format!("{} {} {shape}", self.path, self.type_name)
    }

    /// Whether a row may be an encoded image.
    pub fn is_encoded(&self) -> bool {
        self.shape.len() == 1 && matches!(self.kind, Kind::Bytes | Kind::Opaque | Kind::Text)
    }

    /// Whether rows may be pixels of images: any of a name that says so, else such as have axes of images.
    pub fn is_pixels(&self) -> bool {
        let is_named = rank(&self.path, &IMAGES).is_some();
        let few = |axis: Option<&u64>| axis.is_some_and(|axis| (1..=4).contains(axis));
        self.kind == Kind::Byte
            && match self.shape.len() {
                3 => is_named,
                4 => is_named || few(self.shape.get(1)) || few(self.shape.last()),
                _ => false,
            }
    }

    /// Whether rows may be pixels though no name says so: of three axes, where neither the first nor the last can be colours, so that
    /// the whole is no image.
    pub fn is_stack(&self) -> bool {
        let is_colours = |axis: Option<&u64>| axis.is_none_or(|axis| *axis <= 4);
        self.kind == Kind::Byte
            && self.shape.len() == 3
            && !is_colours(self.shape.first())
            && !is_colours(self.shape.last())
    }

    /// Whether rows, or the items of its one row, may be labels of `rows` images.
    pub fn is_label(&self, rows: u64) -> bool {
        let fits = match self.shape[..] {
            [labels] | [labels, _] if labels == rows => true,
            // As MATLAB has a vector.
            [1, labels] => labels == rows,
            _ => false,
        };
        fits && self.kind.is_label()
    }

    /// Whether its name says that it is images, though their pixels or bytes are of no kind that is packed; how likely.
    pub fn odd_images(&self) -> Option<usize> {
        let is_of_images = match self.kind {
            Kind::Byte | Kind::Text => false,
            Kind::Bytes | Kind::Opaque => self.shape.len() == 1,
            _ => matches!(self.shape.len(), 3 | 4),
        };
        rank(&self.path, &IMAGES).filter(|_| is_of_images && self.rows().is_some_and(|rows| rows > 0))
    }

    /// Whether its name says that it is labels: all of it, or its last word.
    pub fn is_called_label(&self) -> bool {
        let is_of_names =
            self.kind == Kind::Text && (rank(&self.path, &CLASSES).is_some() || rank(&self.path, &FILENAMES).is_some());
        let is_one = self.shape.iter().product::<u64>() <= 1;
        !is_of_names && (names::is_called(&self.path, &LABELS) || !is_one && names::ends_in(&self.path, &LABELS))
    }
}

/// The datasets of all groups that have a few.
pub(super) fn look(file: &Hdf5File, groups: &[Members]) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for one in groups.iter().filter(|one| one.datasets.len() <= MOST_TABLES).take(MOST_GROUPS) {
        for name in &one.datasets {
            let path = one.path(name);
            let dataset =
                file.dataset(&path).map_err(|error| open::told(error).in_sample(format!("dataset {path}")))?;
            seen.push(Seen::of(path, &dataset));
        }
    }
    Ok(seen)
}

/// Datasets, for a message.
pub(super) fn told(seen: &[Seen]) -> String {
    let all: Vec<_> = seen.iter().take(TOLD).map(Seen::told).collect();
    match seen.len() {
        0 => "none that could be looked at".to_owned(),
        count if count > TOLD => format!("{} and {} more", all.join(", "), count - TOLD),
        _ => all.join(", "),
    }
}
