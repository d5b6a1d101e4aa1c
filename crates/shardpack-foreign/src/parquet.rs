//! Reads Parquet files, as Hugging Face's `datasets` library and others write them: rows become images with labels, or
//! samples of values if no column holds images. The module `arrow` shows the same of Arrow files.
//!
//! A row is a record. Offsets count in a virtual file: all images in the order of the rows, each followed by the other fields
//! of its row, or the values of the rows. Rows without content take no bytes.
//!
//! Memory holds one page and the dictionary of each column that is read. Lengths, counts and positions are checked before
//! use. A panic of the parquet crate, which some corrupt files cause, becomes an error.
//!
//! Not read: encrypted files, columns in other files, the codecs Brotli, LZO and LZ4 with Hadoop's framing, bytes in one
//! of the encodings `DELTA_*`, several images of a row in a list, or deeper in structures.
//!
//! Specification: <https://github.com/apache/parquet-format>, 2.12. Written by: `datasets` 4.8, pyarrow 26.

mod arrow;
mod cells;
mod codec;
mod columns;
mod components;
mod errors;
mod file_extension;
mod footer;
mod known;
mod leaf;
mod left_out;
mod page_header;
mod pages;
mod partition;
mod shadowed;
mod table;
mod thrift;
mod values;

use std::{collections::BTreeMap, sync::Arc};

use shardpack_format::{
    Error, Result,
    component::Form,
    field_names,
    formats::foreign::{FieldSelection, Image, Label, Other, Record, Walk},
    image_header::SNIFF_BYTES,
    text,
};

use self::{
    cells::{Cells, Value, bytes_of},
    columns::{Columns, Labels},
    components::Opened,
    errors::contained,
    footer::Footer,
    leaf::{in_column, open, rows},
    shadowed::Shadowed,
    values::Values,
};
use super::{Bytes, CancelCheck, MissingImage, ShardFile, entry::Entry};

pub use known::{Datum, is, is_arrow};
pub use partition::{Partition, is_partition};
pub use table::Table;

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry {
    classes: classes_of,
    ..Entry::new("parquet", is, |file, wanted, check_cancelled| {
        let bytes = file.location().open()?;
        if arrow::is(&bytes)? {
            return Err(Error::data("no parquet file, but an Arrow file").at_byte(0));
        }
        walk_part(bytes, Partition::from_path(&file.path), wanted, check_cancelled)
    })
};

/// The line of Arrow files.
pub(crate) static ARROW: Entry = Entry {
    extensions: &["feather", "ipc"],
    classes: classes_of,
    ..Entry::new("arrow", is_arrow, |file, wanted, check_cancelled| {
        let bytes = file.location().open()?;
        arrow::check(&bytes)?;
        walk_part(bytes, Partition::from_path(&file.path), wanted, check_cancelled)
    })
};

fn classes_of(file: &ShardFile, wanted: &FieldSelection) -> Result<Vec<Vec<u8>>> {
    classes_part(file.location().open()?, &Partition::from_path(&file.path), wanted)
}

/// Starts to walk a file.
///
/// # Errors
/// If the footer is corrupt, several columns may hold the images, or a wanted column is missing; and if `check_cancelled` cancels.
pub fn walk(
    file: impl Into<Bytes>,
    wanted: &FieldSelection,
    check_cancelled: CancelCheck<'_>,
) -> Result<Box<dyn Walk>> {
    walk_part(file, Partition::default(), wanted, check_cancelled)
}

/// As [`walk`], for a file in Hive column folders.
///
/// # Errors
/// As [`walk`].
pub fn walk_part(
    file: impl Into<Bytes>,
    partition: Partition,
    wanted: &FieldSelection,
    check_cancelled: CancelCheck<'_>,
) -> Result<Box<dyn Walk>> {
    let file = file.into();
    let footer = Footer::read(&file)?;
    let file = Arc::new(file);
    let of_file = partition.rest(&footer, wanted);
    let mut columns = contained(|| Columns::detect(&file, &footer, &of_file, check_cancelled))?;
    let shadowed = Shadowed::detect(&partition, &footer, &columns, wanted);
    let of_folders = OfFolders::new(partition, &footer, &columns, wanted);
    let left_out = left_out::count(&footer, &columns);
    let others = std::mem::take(&mut columns.others);
    let values = match columns.image {
        Some(_) => contained(|| Values::beside(&file, &footer, others, check_cancelled))?,
        None => contained(|| Values::detect(&file, &footer, &of_file, check_cancelled))?,
    };
    Ok(Box::new(Records {
        file,
        footer,
        columns,
        of_folders,
        shadowed,
        left_out,
        values,
        group: 0,
        open: None,
        number: 0,
        at: 0,
        image: None,
        beside: Vec::new(),
        has_ended: false,
        label_number: wanted.label_number,
        takes_one_label: wanted.takes_one_label(),
    }))
}

/// Whether one of its columns holds images.
///
/// # Errors
/// If its footer is corrupt, or several look as if they did.
pub fn has_images(file: impl Into<Bytes>) -> Result<bool> {
    let file = file.into();
    let footer = Footer::read(&file)?;
    let file = Arc::new(file);
    let columns = contained(|| Columns::detect(&file, &footer, &FieldSelection::default(), &|| Ok(())))?;
    Ok(columns.image.is_some())
}

/// Class names in the order of labels; empty if the file has none.
///
/// # Errors
/// If the footer is corrupt, or the wanted column of labels is missing.
pub fn classes(file: impl Into<Bytes>, wanted: &FieldSelection) -> Result<Vec<Vec<u8>>> {
    classes_part(file, &Partition::default(), wanted)
}

/// As [`classes`], for a file in Hive column folders.
///
/// # Errors
/// As [`classes`].
pub fn classes_part(file: impl Into<Bytes>, partition: &Partition, wanted: &FieldSelection) -> Result<Vec<Vec<u8>>> {
    let footer = Footer::read(&file.into())?;
    let label = contained(|| Labels::detect(&footer, &partition.rest(&footer, wanted)))?;
    // Where rows are values, these are believed only where the label is.
    Ok(label.and_then(|label| label.names).unwrap_or_default())
}

/// A walk through a file.
struct Records {
    file: Arc<Bytes>,
    footer: Footer,
    columns: Columns,
    of_folders: OfFolders,
    shadowed: Shadowed,
    /// Content of the footer that is not converted, by name.
    left_out: BTreeMap<String, u64>,
    /// Fields of the rows: all columns if rows are samples of values, else the columns beside the image.
    values: Values,
    /// Number of the next row group.
    group: usize,
    /// The row group that is being read.
    open: Option<Group>,
    /// Number of the next row.
    number: u64,
    /// Offset of the next image in the virtual file.
    at: u64,
    /// Image of the row that was read last.
    image: Option<Value>,
    /// The fields of the row, concatenated.
    beside: Vec<u8>,
    has_ended: bool,
    label_number: Option<usize>,
    takes_one_label: bool,
}

/// Partition values from the folders of a file, equal for all of its rows.
struct OfFolders {
    /// The label and its source.
    label: Option<(String, Vec<u8>)>,
    /// Components, with their content if it is wanted.
    others: Vec<(String, Option<Vec<u8>>)>,
}

impl OfFolders {
    fn new(partition: Partition, footer: &Footer, columns: &Columns, wanted: &FieldSelection) -> Self {
        let mut all = partition.0;
        all.retain(|(name, _)| !footer.has_column(name));
        let is_label = |name: &str| match &wanted.label {
            Some(label) => label == name,
            None => columns.label.is_none() && columns.class.is_none() && field_names::is_label(name),
        };
        // Whether or not labels are wanted, the other fields are the same.
        let label = all.iter().position(|(name, _)| is_label(name));
        let label = label.map(|at| match columns.image {
            Some(_) => all.remove(at),
            // Of values, the label is one too.
            None => all[at].clone(),
        });
        let content = |(name, value): (String, Vec<u8>)| {
            let value = Some(value).filter(|_| wanted.wants(&name));
            (name, value)
        };
        Self { label, others: all.into_iter().map(content).collect() }
    }

    /// Adds the components of a row whose content so far is `out`, and begins at `at`; they are of `form`.
    fn add(&self, form: Option<Form>, at: u64, (others, out): (&mut Vec<Other>, &mut Vec<u8>)) {
        for (name, value) in &self.others {
            let offset = value.as_ref().map(|_| at + out.len() as u64);
            let value = value.as_deref().unwrap_or_default();
            out.extend_from_slice(value);
            let form = form.clone().filter(|_| offset.is_some());
            others.push(Other { name: name.clone(), bytes: value.len() as u64, offset, recipe: 0, form });
        }
    }
}

/// The columns of a row group, as far as they are looked at, all before the same row.
struct Group {
    number: usize,
    rows_left: u64,
    image: Option<Cells>,
    path: Option<Cells>,
    label: Option<Cells>,
    class: Option<Cells>,
    filename: Option<Cells>,
    shadowed: Vec<Option<Cells>>,
    values: Vec<Opened>,
}

impl Group {
    fn open(of: &Records, number: usize) -> Result<Self> {
        let Records { file, footer, columns, values, .. } = of;
        let cells = |leaf: usize| open(file, footer, number, leaf);
        Ok(Self {
            number,
            rows_left: rows(footer, number),
            image: columns.image.as_ref().map(|image| cells(image.bytes)).transpose()?,
            path: columns.image.as_ref().and_then(|image| image.path).map(cells).transpose()?,
            label: columns.label.as_ref().map(|label| cells(label.leaf)).transpose()?,
            class: columns.class.map(cells).transpose()?,
            filename: columns.filename.map(cells).transpose()?,
            shadowed: of.shadowed.open(file, footer, number)?,
            values: values.open(file, footer, number)?,
        })
    }
}

impl Records {
    fn step(&mut self) -> Result<Option<Record>> {
        self.image = None;
        self.beside.clear();
        while self.open.as_ref().is_none_or(|group| group.rows_left == 0) {
            if self.group == self.footer.metadata.num_row_groups() {
                return Ok(None);
            }
            // The pages of the last one make room first.
            self.open = None;
            // The column metadata of an empty row group may be invalid.
            if rows(&self.footer, self.group) > 0 {
                self.open = Some(Group::open(self, self.group)?);
            }
            self.group += 1;
        }
        let Some(group) = &mut self.open else { return Ok(None) };
        let number = group.number;
        let one = |cells: &mut Cells| cells.next_one().map_err(|error| in_column(error, number, cells));
        let text = |cells: &mut Option<Cells>| -> Result<Option<Vec<u8>>> {
            let value = cells.as_mut().map(one).transpose()?.flatten();
            let bytes = value.as_ref().and_then(bytes_of).filter(|bytes| !bytes.is_empty());
            Ok(bytes.map(<[u8]>::to_vec))
        };
        let is_list = self.columns.image.as_ref().is_some_and(|image| image.is_list);
        let image = match &mut group.image {
            Some(cells) if is_list => cells.next_bytes().map_err(|error| in_column(error, number, cells))?,
            Some(cells) => one(cells)?,
            None => None,
        };
        let (path, filename) = (text(&mut group.path)?, text(&mut group.filename)?);
        let class = text(&mut group.class)?;
        self.shadowed.row(&mut group.shadowed, number, self.number)?;
        let label = match &mut group.label {
            Some(cells) => Some(cells.next().map_err(|error| in_column(error, number, cells))?),
            None => None,
        };
        let image_bytes = image.as_ref().and_then(bytes_of).map(|bytes| bytes.len() as u64);
        let at = self.at.checked_add(image_bytes.unwrap_or(0));
        let at = at.ok_or_else(|| Error::data("images of more than 64 bits of bytes"))?;
        let (mut others, lack) = self.values.row(&mut group.values, number, at, &mut self.beside)?;
        let is_damaged = matches!(lack, MissingImage::Damaged(_));
        if !is_damaged && (self.columns.image.is_some() || !others.is_empty()) {
            let form = self.columns.image.is_none().then_some(Form::Text);
            self.of_folders.add(form, at, (&mut others, &mut self.beside));
        }
        if self.columns.image.is_some() && image_bytes.is_none() {
            // Without the image, the other fields form no sample and have no position.
            others.iter_mut().for_each(|other| (other.form, other.offset) = (None, None));
        }
        group.rows_left -= 1;

        let labels = self.columns.label.as_ref().zip(label);
        let (label, labels, class_of_label) = match labels {
            Some((column, cell)) => {
                let (label, labels) = column.label(&cell, self.label_number.unwrap_or(0));
                let label = if labels > 1 && self.takes_one_label { Label::Missing } else { label };
                let class = column.class(&label).map(<[u8]>::to_vec);
                (label, labels, class)
            }
            None => match &self.of_folders.label {
                Some((_, value)) => (Label::Text(value.clone()), 1, None),
                None => (Label::Missing, 0, None),
            },
        };
        let start = self.at;
        let place = match (image.as_ref().and_then(bytes_of), &path, &self.columns.image) {
            (_, _, None) => {
                let end = start.checked_add(self.beside.len() as u64);
                self.at = end.ok_or_else(|| Error::data("values of more than 64 bits of bytes"))?;
                Err(lack.what())
            }
            (Some(_), _, Some(_)) if is_damaged => Err(lack.what()),
            (Some(bytes), _, Some(column)) => {
                let length = bytes.len() as u64;
                let end = start.checked_add(length);
                let end = end.ok_or_else(|| Error::data("images of more than 64 bits of bytes"))?;
                self.at = end + self.beside.len() as u64;
                // Pages are shorter than that.
                let bytes = u32::try_from(length).map_err(|_| "an image of 4 GiB or more".to_owned());
                let name = column.name.clone();
                bytes.map(|bytes| Image { name, fetch: start..end, bytes, offset: start, in_parts: false, recipe: 0 })
            }
            (None, Some(path), _) => Err(format!("the file holds only a path, {:?}, not the image", text::shown(path))),
            (None, None, _) => Err("the row has no image".to_owned()),
        };
        self.image = image;
        let number = self.number;
        self.number += 1;
        // A sample of values without a label has no label field.
        let labelled = self.columns.label.as_ref().filter(|_| self.columns.image.is_some() || label != Label::Missing);
        Ok(Some(Record {
            range: start..self.at,
            key: number.to_string().into_bytes(),
            key_is_unique: false,
            filename: path.or(filename),
            class: class_of_label.or(class),
            label_name: match (labelled, &self.of_folders.label) {
                (Some(column), _) => column.name.clone(),
                (None, Some((name, _))) => name.clone(),
                (None, None) => String::new(),
            },
            label,
            labels,
            image: place,
            is_damaged,
            others,
        }))
    }
}

impl Walk for Records {
    fn next(&mut self) -> Result<Option<Record>> {
        if self.has_ended {
            return Ok(None);
        }
        let step = contained(|| self.step());
        self.has_ended = !matches!(step, Ok(Some(_)));
        if self.has_ended {
            (self.open, self.image) = (None, None);
        }
        step
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = self.image.as_ref().and_then(bytes_of);
        let image = image.ok_or_else(|| Error::data("the row has no image that can be read"))?;
        out.clear();
        out.extend_from_slice(image);
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = self.image.as_ref().and_then(bytes_of).unwrap_or_default();
        out.clear();
        out.extend(image.iter().take(SNIFF_BYTES));
        Ok(())
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if self.columns.image.is_some() {
            self.image(out)?;
        }
        out.extend_from_slice(&self.beside);
        Ok(())
    }

    fn lost(&mut self) -> Vec<Error> {
        self.shadowed.lost()
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.left_out.iter().map(|(what, count)| (what.clone(), *count)).chain(self.shadowed.passed()).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.columns.notes.clone()
    }
}

#[cfg(test)]
mod tests;
