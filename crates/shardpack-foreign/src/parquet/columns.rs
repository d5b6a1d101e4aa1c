//! The columns of a parquet file: which holds the image, which the label, and how values are read.

use std::sync::Arc;

use parquet::{
    basic::Type as Physical,
    schema::types::{ColumnDescriptor, SchemaDescriptor, Type},
};
use shardpack_format::{
    Error, ErrorKind, Result,
    field_names::{self, CLASSES, LABELS},
    formats::foreign::{FieldSelection, Label},
    help,
};

use super::{
    super::{Bytes, CancelCheck},
    cells::{Cell, Value, dtype, is_number, is_readable, is_text},
    components::{Component, Rows},
    footer::Footer,
    leaf::{begins_like_image, is_whole, may_be_several},
};

/// Names of image columns, the likeliest first, if there are several.
const IMAGES: [&str; 6] = ["image", "img", "jpg", "jpeg", "png", "webp"];
/// Names of text columns that name the image's file, the likeliest first.
const FILENAMES: [&str; 8] = ["filename", "file_name", "filepath", "file_path", "path", "image_path", "key", "__key__"];
/// Name of the text column that names a sample without images: no component can have this name.
pub(super) const KEY: &str = "__key__";
/// Feature names in `datasets` of columns with files other than images.
const FILES: [&str; 5] = ["Audio", "Video", "Pdf", "Nifti", "Mesh"];

/// Roles of the columns. Columns with values are identified by their leaf number in the schema.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// `None` if rows are samples of values.
    pub image: Option<Images>,
    pub label: Option<Labels>,
    pub class: Option<usize>,
    pub filename: Option<usize>,
    /// The other columns.
    pub others: Vec<Component>,
    /// Notes on the columns.
    pub notes: Vec<String>,
}

/// A column of images.
#[derive(Clone, Debug)]
pub(super) struct Images {
    pub name: String,
    pub bytes: usize,
    /// The column with the paths of the images.
    pub path: Option<usize>,
    is_plain: bool,
    /// Whether the bytes of an image are numbers in a list.
    pub is_list: bool,
}

/// A column of labels.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    pub name: String,
    pub leaf: usize,
    pub is_list: bool,
    /// Names of the classes.
    pub names: Option<Vec<Vec<u8>>>,
}

impl Columns {
    /// The columns.
    pub fn detect(
        file: &Arc<Bytes>,
        footer: &Footer,
        wanted: &FieldSelection,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let schema = footer.metadata.file_metadata().schema_descr();
        let Some(image) = Images::detect(footer, wanted, |leaf| begins_like_image(file, footer, leaf))? else {
            let label = Labels::of_values(footer, wanted)?;
            let filename = flat(schema, KEY).filter(|leaf| is_text(&schema.column(*leaf)));
            return Ok(Self { image: None, label, class: None, filename, others: Vec::new(), notes: Vec::new() });
        };
        let mut notes = Vec::new();
        let mut label = Labels::detect(footer, wanted)?;
        if let Some(found) = &label
            && wanted.label.is_none()
            && (is_real(&schema.column(found.leaf)) || is_text(&schema.column(found.leaf)))
            && !is_whole(file, footer, found.leaf, check_cancelled)?
        {
            notes.push(format!("column {:?} has no whole numbers: a component, and no class", found.name));
            label = None;
        }
        let named = Labels::each_named(footer);
        if let ([first, second, ..], None, None) = (&named[..], &label, &wanted.label) {
            notes.push(format!("columns {first:?} and {second:?} both have names of classes, and none is the label: --label-feature NAME takes one"));
        }
        let are_several = match &label {
            Some(label) if label.is_list => may_be_several(file, footer, label.leaf, check_cancelled)?,
            _ => false,
        };
        let told =
            |root: &str| root == image.name || !are_several && label.as_ref().is_some_and(|label| label.name == root);
        let text = |names: &[&str]| {
            let mut found =
                called(schema, names).into_iter().filter(|name| !told(name)).filter_map(|name| flat(schema, name));
            found.find(|leaf| is_text(&schema.column(*leaf)))
        };
        let (class, filename) = (text(&CLASSES), text(&FILENAMES));
        // A class or filename column that another source replaces is kept as a field.
        let is_told = |leaf: Option<usize>| {
            let of_class = class.filter(|_| label.as_ref().is_none_or(|label| label.names.is_none()));
            leaf.is_some() && (leaf == of_class || leaf == filename.filter(|_| image.path.is_none()))
        };
        let mut leaves_left = Component::most_leaves();
        let others = schema.root_schema().get_fields().iter().filter(|root| !told(root.name()));
        let others = others.filter(|root| !is_told(flat(schema, root.name())));
        let rows = Rows::Images(wanted);
        let mut others: Vec<_> =
            others.flat_map(|root| Component::from_column(footer, root, rows, &mut leaves_left)).collect();
        // Other fields in the column of images.
        if !image.is_plain {
            let own = asked(schema, &image.name)?;
            let members = Component::from_column(footer, own, rows, &mut leaves_left).into_iter();
            let is_image = |leaf: usize| leaf == image.bytes || image.path == Some(leaf);
            others.extend(members.filter(|member| !is_image(member.leaves.start)));
        }
        Ok(Self { class, filename, others, image: Some(image), label, notes })
    }
}

impl Images {
    /// The column of images; `None` if there is none.
    fn detect(
        footer: &Footer,
        wanted: &FieldSelection,
        mut begins_like_image: impl FnMut(usize) -> Result<Option<bool>>,
    ) -> Result<Option<Self>> {
        let schema = footer.metadata.file_metadata().schema_descr();
        if let Some(name) = &wanted.image {
            asked(schema, name)?;
            return Self::in_column(schema, name)
                .map(Some)
                .ok_or_else(|| Error::usage(format!("column {name:?} holds no images, but {}", kind(schema, name))));
        }
        let all = schema.root_schema().get_fields().iter();
        let all: Vec<_> = all.filter_map(|root| Self::in_column(schema, root.name())).collect();
        let mut found: Vec<_> = all.iter().filter(|column| footer.is_of_type(&column.name, "Image")).collect();
        if found.is_empty() {
            // Files of other kinds are also bytes with a path. Unreadable columns are reported when rows are read.
            let mut may_be = |column: &&Self| {
                let is_other = FILES.iter().any(|kind| footer.is_of_type(&column.name, kind));
                let is_called = field_names::rank(&column.name, &IMAGES).is_some();
                !is_other && (is_called || !matches!(begins_like_image(column.bytes), Ok(Some(false))))
            };
            found = all.iter().filter(|column| !column.is_plain && may_be(column)).collect();
        }
        if found.is_empty() {
            for column in all.iter().filter(|column| !is_text(&schema.column(column.bytes))) {
                let is_image = match begins_like_image(column.bytes) {
                    // Lists that cannot be looked at are lists.
                    Err(error) if column.is_list && error.kind() == ErrorKind::Data => false,
                    found => found? == Some(true),
                };
                if is_image {
                    found.push(column);
                }
            }
        }
        let likeliest =
            called(schema, &IMAGES).into_iter().find_map(|name| found.iter().find(|column| column.name == *name));
        match (likeliest, &*found) {
            (Some(column), _) => Ok(Some((*column).clone())),
            (None, [column, ..]) if let Some(odd) = odd_image(schema) => {
                let what = format!("column {odd:?} is called as images are and holds {}", kind(schema, odd));
                Err(Error::usage(format!("{what}; column {:?} holds images", column.name))
                    .help(help::this_image(&column.name)))
            }
            (None, [column]) => Ok(Some((*column).clone())),
            (None, []) if schema.num_columns() == 0 => {
                Err(Error::data(format!("no column holds images: {}", names(schema))))
            }
            (None, []) => Ok(None),
            (None, [one, two, ..]) => {
                let what = format!("columns {:?} and {:?} both hold images", one.name, two.name);
                Err(Error::usage(what).help(help::WHICH_IMAGES))
            }
        }
    }

    /// The images in a column: bytes, a list of bytes, or a structure of bytes and path as `datasets` writes it.
    fn in_column(schema: &SchemaDescriptor, name: &str) -> Option<Self> {
        let is_of_bytes = |leaf: &usize| {
            let column = schema.column(*leaf);
            column.physical_type() == Physical::BYTE_ARRAY && column.max_rep_level() == 0
        };
        if let Some(bytes) = flat(schema, name) {
            let column = Self { name: name.to_owned(), bytes, path: None, is_plain: true, is_list: false };
            return is_of_bytes(&bytes).then_some(column);
        }
        let are_bytes = |leaf: &usize| matches!(dtype(&schema.column(*leaf)), Some("|u1" | "|i1"));
        if let Some(bytes) = list(schema, name).filter(are_bytes) {
            return Some(Self { name: name.to_owned(), bytes, path: None, is_plain: true, is_list: true });
        }
        let leaf = |child: &str| {
            let leaf = schema.columns().iter().position(|column| column.path().parts() == [name, child]);
            leaf.filter(is_of_bytes)
        };
        let (bytes, path) = (leaf("bytes")?, leaf("path"));
        Some(Self { name: name.to_owned(), bytes, path, is_plain: false, is_list: false })
    }
}

impl Labels {
    /// As above, for rows that are samples of values: a list, a number with a fraction, and the only column are a label only
    /// on request.
    pub fn of_values(footer: &Footer, wanted: &FieldSelection) -> Result<Option<Self>> {
        if wanted.no_labels {
            return Ok(None);
        }
        let schema = footer.metadata.file_metadata().schema_descr();
        let label = Self::detect(footer, wanted)?;
        Ok(label.filter(|label| {
            let column = schema.column(label.leaf);
            // Text is no label, unless the column name is a name for class words.
            let is_sentence = is_text(&column) && !field_names::is_class_in_words(&label.name);
            let is_one_of_several = schema.root_schema().get_fields().len() > 1;
            wanted.label.is_some() || is_one_of_several && !label.is_list && !is_real(&column) && !is_sentence
        }))
    }

    /// The column with the label, requested or detected.
    pub fn detect(footer: &Footer, wanted: &FieldSelection) -> Result<Option<Self>> {
        let schema = footer.metadata.file_metadata().schema_descr();
        if let Some(name) = &wanted.label {
            asked(schema, name)?;
            return match Self::in_column(footer, name) {
                Some(label) => Ok(Some(label)),
                None => Err(Error::usage(format!("column {name:?} holds no labels, but {}", kind(schema, name)))),
            };
        }
        let is_label = |label: &Self| {
            let column = schema.column(label.leaf);
            is_number(&column) || is_text(&column)
        };
        let mut called = called(schema, &LABELS);
        // A text column with class names is the label if no other column is.
        let names_class = |name: &str| flat(schema, name).is_some_and(|leaf| is_text(&schema.column(leaf)));
        called.sort_by_key(|name| field_names::rank(name, &CLASSES).is_some() && names_class(name));
        let mut named = called.iter().filter_map(|name| Self::in_column(footer, name)).filter(is_label);
        Ok(named.next().or_else(|| match &Self::each_named(footer)[..] {
            [name] => Self::in_column(footer, name),
            _ => None,
        }))
    }

    /// The columns of labels that have names of classes.
    fn each_named(footer: &Footer) -> Vec<&str> {
        let schema = footer.metadata.file_metadata().schema_descr();
        let is_label = |name: &&str| {
            Self::in_column(footer, name).is_some_and(|label| {
                let column = schema.column(label.leaf);
                label.names.is_some() && (is_number(&column) || is_text(&column))
            })
        };
        schema.root_schema().get_fields().iter().map(|root| root.name()).filter(is_label).collect()
    }

    fn in_column(footer: &Footer, name: &str) -> Option<Self> {
        let schema = footer.metadata.file_metadata().schema_descr();
        let (leaf, is_list) = match flat(schema, name) {
            Some(leaf) => (leaf, false),
            None => (list(schema, name)?, true),
        };
        Some(Self { name: name.to_owned(), leaf, is_list, names: footer.names(name) })
    }

    /// The label in a cell, and how many it has.
    pub fn label(&self, cell: &Cell, number: usize) -> (Label, usize) {
        // A null that is no list is no label at all.
        let count = if self.is_list { cell.len() } else { cell.iter().flatten().count() };
        let label = match cell.get(number) {
            None if count == 0 => Label::Missing,
            None => Label::Unfit(format!("label number {number} of {count}, counted from 0")),
            Some(None) => Label::Missing,
            Some(Some(value)) => label(value),
        };
        (label, count)
    }

    /// The class that has the label.
    pub fn class(&self, label: &Label) -> Option<&[u8]> {
        let Label::Number(number) = label else { return None };
        let names = self.names.as_ref()?;
        usize::try_from(*number).ok().and_then(|number| names.get(number)).map(Vec::as_slice)
    }
}

/// Whether a column holds numbers that may have fractions.
fn is_real(column: &ColumnDescriptor) -> bool {
    matches!(column.physical_type(), Physical::FLOAT | Physical::DOUBLE)
}

fn label(value: &Value) -> Label {
    match value {
        Value::Number(number) => Label::Number(*number),
        Value::Large(number) => Label::Unfit(format!("{number} is beyond 63 bits")),
        // Up to 2^53, a float represents each whole number exactly.
        Value::Real(number) if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 => {
            Label::Number(*number as i64)
        }
        Value::Real(number) => Label::Unfit(format!("{number} is no whole number")),
        Value::Bytes(text) => Label::Text(text.data().to_vec()),
        Value::Other => Label::Unfit("a value that is neither a number nor text".to_owned()),
    }
}

/// Columns that are called as `names` say, the likeliest first.
fn called<'s>(schema: &'s SchemaDescriptor, names: &[&str]) -> Vec<&'s str> {
    let roots = schema.root_schema().get_fields().iter().map(|root| root.name());
    field_names::ranked(roots, names).into_iter().map(|(_, name)| name).collect()
}

/// The leaf that a column is, if it is neither a structure nor a list.
pub(super) fn flat(schema: &SchemaDescriptor, name: &str) -> Option<usize> {
    let is_flat = |column: &ColumnDescriptor| column.path().parts() == [name] && column.max_rep_level() == 0;
    schema.columns().iter().position(|column| is_flat(column))
}

/// The leaf with the values of a column that is a list.
fn list(schema: &SchemaDescriptor, name: &str) -> Option<usize> {
    let is_inside = |column: &ColumnDescriptor| column.path().parts().first().is_some_and(|root| root == name);
    let mut leaves = schema.columns().iter().enumerate().filter(|(_, column)| is_inside(column));
    let (leaf, column) = leaves.next()?;
    let is_list = leaves.next().is_none() && column.max_rep_level() == 1 && is_readable(column);
    is_list.then_some(leaf)
}

fn asked<'s>(schema: &'s SchemaDescriptor, name: &str) -> Result<&'s Type> {
    let found = schema.root_schema().get_fields().iter().find(|root| root.name() == name);
    found.map(|root| &**root).ok_or_else(|| Error::usage(format!("no column {name:?}: {}", names(schema))))
}

/// The column that is named like images, but holds neither bytes of images, nor paths or ids.
fn odd_image(schema: &SchemaDescriptor) -> Option<&str> {
    let is_of_one = |leaf: usize| is_text(&schema.column(leaf)) || is_number(&schema.column(leaf));
    let may_be = |name: &str| flat(schema, name).is_some_and(is_of_one);
    called(schema, &IMAGES)
        .first()
        .copied()
        .filter(|name| !may_be(name) && Images::in_column(schema, name).is_none_or(|column| column.is_list))
}

/// Type of a column, for a message.
fn kind(schema: &SchemaDescriptor, name: &str) -> String {
    match flat(schema, name) {
        Some(leaf) => format!("values of type {}", schema.column(leaf).physical_type()),
        None => "lists or structures of something else".to_owned(),
    }
}

/// The names of the columns, for a message.
fn names(schema: &SchemaDescriptor) -> String {
    const TOLD: usize = 12;
    let columns = schema.root_schema().get_fields();
    let told: Vec<_> = columns.iter().take(TOLD).map(|root| root.name()).collect();
    match columns.len() {
        0 => "it has none".to_owned(),
        count if count > TOLD => format!("it has {} and {} more", told.join(", "), count - TOLD),
        _ => format!("it has {}", told.join(", ")),
    }
}

#[cfg(test)]
mod tests;
