//! Describes an array from its header (path, kind of items, shape), and classifies its rows as images or labels.

use shardpack_format::{field_names::LABELS, image_header::SNIFF_BYTES};

use super::{
    super::plain::by,
    Array,
    item::Item,
    names::{self, CLASSES, FILENAMES, IMAGES, label_rank, rank},
    values::{self, Kind},
};

/// Longest axis that may be the colours of an image.
const COLOURS: u64 = 4;
/// Number of the first names in [`IMAGES`] that are used for images only.
const NAMES_OF_ONE: usize = 4;
/// Arrays that a message names.
pub(crate) const TOLD: usize = 12;

/// An array that was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub path: String,
    pub kind: Kind,
    type_name: String,
    pub shape: Vec<u64>,
    /// The dtype of the items, if they are numbers.
    pub dtype: Option<String>,
    /// Whether items are an array together.
    pub is_array: bool,
    /// Whether its items are numbers, text or bytes.
    pub is_plain: bool,
}

impl Seen {
    /// The array at `path`.
    pub fn new(path: String, array: &dyn Array) -> Self {
        Self::of(path, array.item(), array.shape())
    }

    /// An array of these items and this shape.
    pub fn of(path: String, item: &Item, shape: &[u64]) -> Self {
        Self {
            path,
            kind: Kind::from_type(item),
            type_name: values::name(item),
            shape: shape.to_vec(),
            dtype: values::dtype(item),
            is_array: values::array_dtype(item).is_some(),
            is_plain: values::is_plain(item),
        }
    }

    /// Whether rows are numbers other than bytes, which cannot form an image.
    pub fn is_number(&self) -> bool {
        self.dtype.is_some() && self.kind != Kind::Byte
    }

    pub fn rows(&self) -> Option<u64> {
        self.shape.first().copied()
    }

    /// Description for the user: `images uint8 100×32×32×3`.
    pub fn describe(&self) -> String {
        let shape = if self.shape.is_empty() { "of one item".to_owned() } else { by(&self.shape) };
        format!("{} {} {shape}", self.path, self.type_name)
    }

    /// Whether a row may be an encoded image.
    pub fn is_encoded(&self) -> bool {
        matches!(self.shape[..], [_] | [_, 1]) && matches!(self.kind, Kind::Bytes | Kind::Opaque | Kind::Text)
            || self.is_padded()
    }

    /// Whether a row is a fixed number of bytes, which may hold an encoded image and padding.
    pub fn is_padded(&self) -> bool {
        let are_bytes = |bytes: u64| bytes >= SNIFF_BYTES as u64;
        self.kind == Kind::Byte && matches!(self.shape[..], [_, bytes] | [_, bytes, 1] if are_bytes(bytes))
    }

    /// Whether rows may be pixels of images: by name, else by the axes of an image.
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

    /// Whether rows may be pixels if an option names the array.
    pub fn has_axes_of_pixels(&self) -> bool {
        self.kind == Kind::Byte && matches!(self.shape.len(), 3 | 4)
    }

    /// Whether name and axes of the dataset allow the pixels of one image.
    pub fn is_one_image(&self) -> bool {
        let few = |axis: Option<&u64>| axis.is_some_and(|axis| (1..=4).contains(axis));
        self.kind == Kind::Byte
            && names::is_called(&self.path, &IMAGES[..NAMES_OF_ONE])
            && match self.shape.len() {
                2 => true,
                3 => few(self.shape.first()) || few(self.shape.last()),
                _ => false,
            }
    }

    /// Whether rows may be pixels although the name is no image name: three axes, and neither the first nor the last can be
    /// colours, so that the whole dataset is no image.
    pub fn is_stack(&self) -> bool {
        let is_colours = |axis: Option<&u64>| axis.is_none_or(|axis| *axis <= 4);
        self.kind == Kind::Byte
            && self.shape.len() == 3
            && !is_colours(self.shape.first())
            && !is_colours(self.shape.last())
    }

    /// Whether it is one number or text, whatever its axes.
    pub fn is_one_item(&self) -> bool {
        self.shape.iter().product::<u64>() == 1
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

    /// Rank of an image name whose pixels or bytes have an unsupported kind; `None` otherwise.
    pub fn odd_images(&self) -> Option<usize> {
        let is_of_images = match self.kind {
            Kind::Byte | Kind::Text => false,
            Kind::Bytes | Kind::Opaque => self.shape.len() == 1,
            _ => matches!(self.shape.len(), 3 | 4),
        };
        rank(&self.path, &IMAGES).filter(|_| is_of_images && self.rows().is_some_and(|rows| rows > 0))
    }

    /// Whether rows are numbers of any number.
    pub fn is_list(&self) -> bool {
        self.is_plain && self.shape.len() == 1 && matches!(self.kind, Kind::Bytes | Kind::Other) && self.dtype.is_none()
    }

    /// Whether the last word of the name, but not the whole name, is a label name.
    pub fn ends_in_label(&self) -> bool {
        self.is_called_label() && label_rank(&self.path).is_none()
    }

    /// Whether the name, or its last word, is a label name.
    pub fn is_called_label(&self) -> bool {
        let is_of_names =
            self.kind == Kind::Text && (rank(&self.path, &CLASSES).is_some() || rank(&self.path, &FILENAMES).is_some());
        let is_one = self.shape.iter().product::<u64>() <= 1;
        let ends_in_label = names::ends_in(&self.path, &LABELS) || names::ends_in(&self.path, &["classes"]);
        !is_of_names && (label_rank(&self.path).is_some() || !is_one && ends_in_label)
    }
}

/// Whether datasets look like one sample together: all have the height and width of one image as their first or last axes.
pub(crate) fn are_one_sample(seen: &[Seen]) -> bool {
    let are_numbers = seen.iter().all(|one| one.dtype.is_some() && one.shape.len() >= 2);
    let is_alone = |one: &Seen| {
        one.kind != Kind::Byte && one.shape.len() <= 3 && names::is_called(&one.path, &IMAGES[..NAMES_OF_ONE])
    };
    match seen {
        [] => false,
        [one] => are_numbers && is_alone(one),
        _ => are_numbers && have_one_size(seen),
    }
}

/// The datasets of numbers with two or more axes, if none of the others has a value for each of their rows; else all.
pub(crate) fn without_small(seen: &[Seen]) -> Vec<Seen> {
    let (large, small): (Vec<Seen>, Vec<Seen>) =
        seen.iter().cloned().partition(|one| one.dtype.is_some() && one.shape.len() >= 2);
    let is_beside = |one: &Seen| one.rows().is_some() && large.iter().any(|other| other.rows() == one.rows());
    if small.iter().any(is_beside) { seen.to_vec() } else { large }
}

/// Whether datasets are an image with its label: one has the name and the axes of a single image, and a label is one item. No other
/// has a value for each row of the image.
pub(crate) fn are_labelled_image(seen: &[Seen]) -> bool {
    let is_label = |one: &Seen| one.is_one_item() && label_rank(&one.path).is_some();
    let has_no_rows = |image: &Seen| {
        seen.iter()
            .all(|one| one.shape.len() >= 2 && one.shape.starts_with(&image.shape[..2]) || one.rows() != image.rows())
    };
    seen.iter().any(is_label) && seen.iter().any(|one| one.dtype.is_some() && is_single_image(one) && has_no_rows(one))
}

/// Whether a dataset has the name and the axes of a single image.
fn is_single_image(one: &Seen) -> bool {
    let few = |axis: Option<&u64>| axis.is_some_and(|axis| (1..=COLOURS).contains(axis));
    names::is_called(&one.path, &["image", "img"])
        && (one.shape.len() == 2 || one.shape.len() == 3 && (few(one.shape.first()) || few(one.shape.last())))
}

/// Whether datasets that look like one sample can be nothing else: the name of one is the name of a single image and it has the axes of
/// an image, or no number of rows is common to all. `all` counts the small datasets beside them too.
pub(crate) fn are_surely_one_sample(seen: &[Seen], all: usize) -> bool {
    all > 1 && (seen.iter().any(is_single_image) || seen.iter().any(|one| one.rows() != seen[0].rows()))
}

/// Whether two axes of a dataset are the first or the last axes of all.
fn have_one_size(seen: &[Seen]) -> bool {
    let Some(least) = seen.iter().min_by_key(|one| one.shape.len()) else { return false };
    let is_of_all = |axes: &[u64]| {
        axes.iter().all(|axis| *axis > COLOURS)
            && seen.iter().all(|one| one.shape.starts_with(axes) || one.shape.ends_with(axes))
    };
    least.shape.first_chunk::<2>().is_some_and(|axes| is_of_all(axes))
        || least.shape.last_chunk::<2>().is_some_and(|axes| is_of_all(axes))
}

/// Arrays, for a message.
pub(crate) fn describe_all(seen: &[Seen]) -> String {
    let all: Vec<_> = seen.iter().take(TOLD).map(Seen::describe).collect();
    match seen.len() {
        0 => "none that could be looked at".to_owned(),
        count if count > TOLD => format!("{} and {} more", all.join(", "), count - TOLD),
        _ => all.join(", "),
    }
}
