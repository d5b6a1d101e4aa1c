//! Reads images that are rows of arrays: pixels of one size, concatenated pixels with separate axes, or encoded images.

use std::collections::{BTreeMap, VecDeque};

use shardpack_format::{
    Result,
    formats::foreign::{FieldSelection, Label, Other, Record},
    image_header::{self, SNIFF_BYTES},
    npy,
};

use super::{
    super::{missing_image::MissingImage, plain::by},
    Arrays, BATCH_BYTES, Rows, components, known,
    table::Table,
    value_rows,
    values::{self, BYTES, Kind, encoded, is_image},
    walk::{Images, record},
};

/// Bytes in a batch of rows of values; there may be many such arrays.
const VALUE_BATCH_BYTES: usize = 1 << 20;

/// The rows of one array after the other.
pub(crate) struct Records {
    file: Box<dyn Arrays>,
    tables: VecDeque<Table>,
    open: Option<Opened>,
    notes: Vec<String>,
    /// Arrays that no sample uses.
    unused: Vec<String>,
    are_several: bool,
    wanted: FieldSelection,
}

/// Open arrays of images and of the fields beside them.
struct Opened {
    table: Table,
    images: Box<dyn Rows>,
    labels: Option<Box<dyn Rows>>,
    filenames: Option<Box<dyn Rows>>,
    shapes: Option<Box<dyn Rows>>,
    beside: Vec<components::Opened>,
    /// The arrays of samples without images, with their names.
    values: Vec<(Box<dyn Rows>, String)>,
    /// Number of the next row.
    number: u64,
    /// Rows outside all splits, read after the rows of the splits.
    strays: std::iter::Flatten<std::vec::IntoIter<std::ops::Range<u64>>>,
}

impl Opened {
    fn open(file: &dyn Arrays, table: Table, wanted: &FieldSelection) -> Result<Self> {
        let rows = |path: &String| file.rows(path, BATCH_BYTES);
        let beside = table.beside.iter().map(|one| components::Opened::open(file, one, wanted.wants(&one.name)));
        Ok(Self {
            images: rows(&table.images)?,
            labels: table.labels.as_ref().map(rows).transpose()?,
            filenames: table.filenames.as_ref().map(rows).transpose()?,
            shapes: table.shapes.as_ref().map(rows).transpose()?,
            beside: beside.collect::<Result<_>>()?,
            values: table
                .values
                .iter()
                .map(|(path, name)| Ok((file.rows(path, VALUE_BATCH_BYTES)?, name.clone())))
                .collect::<Result<_>>()?,
            number: table.rows.start,
            strays: table.strays.clone().into_iter().flatten(),
            table,
        })
    }

    /// Reads the next image; the inner error is the reason why there is no image. `noun` is the word for an array.
    fn image(&mut self, noun: &str, out: &mut Vec<u8>) -> Result<Result<(), MissingImage>> {
        let (number, path) = (self.number, self.table.images.as_str());
        let shape = match &mut self.shapes {
            Some(shapes) => match axes(&mut **shapes, number)? {
                Ok(shape) => Some(shape),
                Err(what) => return Ok(Err(MissingImage::Damaged(what))),
            },
            None => None,
        };
        let in_row = |what: String| format!("{noun} {path}, row {number}: {what}");
        let row = match self.images.row(number)? {
            Ok(row) => row.to_vec(),
            Err(what) => return Ok(Err(MissingImage::Damaged(what))),
        };
        let array = self.images.array();
        let is_bytes = Kind::from_type(array.item()) == Kind::Byte;
        let row = match array.shape() {
            shape if is_bytes && (shape.len() == 2 || is_image(&row)) => unfilled(row),
            _ => row,
        };
        if is_bytes && array.shape().len() > 2 && !is_image(&row) {
            out.extend_from_slice(&npy::head(BYTES, &array.shape()[1..], false));
            out.extend_from_slice(&row);
            return Ok(Ok(()));
        }
        let bytes = match encoded(array, row) {
            Ok(bytes) => bytes,
            Err(what) => return Ok(Err(MissingImage::Damaged(in_row(what)))),
        };
        let expected = shape.as_ref().map(|shape| shape.iter().try_fold(1u64, |all, axis| all.checked_mul(*axis)));
        match (shape, expected) {
            _ if is_image(&bytes) || bytes.is_empty() => {}
            (Some(shape), Some(Some(expected))) if expected == bytes.len() as u64 => {
                out.extend_from_slice(&npy::head(BYTES, &shape, false));
            }
            (Some(shape), _) => {
                let what = format!("{} bytes of pixels, its axes are {}", bytes.len(), by(&shape));
                return Ok(Err(MissingImage::Damaged(in_row(what))));
            }
            (None, _) => {
                return Ok(Err(MissingImage::NoImage(in_row(format!(
                    "{} bytes that begin like no image",
                    bytes.len()
                )))));
            }
        }
        out.extend_from_slice(&bytes);
        Ok(Ok(()))
    }

    /// The fields beside the image of the given length at `at`, whose bytes are appended; or the reason why they are missing.
    fn beside(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Result<Vec<Other>, String>> {
        let mut others = Vec::with_capacity(self.beside.len());
        for one in &mut self.beside {
            let (bytes, offset, form) = match one.next(self.number)? {
                Ok(Some((form, content))) => {
                    let offset = at + out.len() as u64;
                    out.extend_from_slice(&content);
                    let head = form.as_ref().map_or(0, |form| form.head().len());
                    ((head + content.len()) as u64, Some(offset), form)
                }
                Ok(None) => (0, None, None),
                Err(what) => return Ok(Err(what)),
            };
            others.push(Other { name: one.name.clone(), bytes, offset, recipe: 0, form });
        }
        Ok(Ok(others))
    }

    /// The values of the next row, whose content begins at `at`, written behind `out`; or why they cannot be had.
    fn values(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Result<Vec<Other>, String>> {
        let mut others = Vec::with_capacity(self.values.len());
        for (rows, name) in &mut self.values {
            let (form, content) = match value_rows::row(&mut **rows, self.number)? {
                Ok(found) => found,
                Err(what) => return Ok(Err(format!("{name}: {what}"))),
            };
            let bytes = content.len() as u64 + form.head_bytes();
            let offset = Some(at + out.len() as u64);
            out.extend_from_slice(&content);
            others.push(Other { name: name.clone(), bytes, offset, recipe: 0, form: Some(form) });
        }
        Ok(Ok(others))
    }

    fn label(&mut self, number: usize) -> Result<Label> {
        let Some(labels) = &mut self.labels else { return Ok(Label::Missing) };
        // All labels may be one row, as MATLAB has a vector.
        let images = self.images.array().shape().first();
        let is_one_row = matches!(labels.array().shape(), [1, of] if *of > 1 && Some(of) == images);
        let row = if is_one_row { 0 } else { self.number };
        Ok(match labels.row(row)?.map(<[u8]>::to_vec) {
            Ok(row) if is_one_row => {
                let bytes = labels.array().item_bytes().max(1);
                let item = row.chunks_exact(bytes).nth(self.number as usize).unwrap_or_default();
                values::label(labels.array(), item, number)
            }
            Ok(row) => values::label(labels.array(), &row, number),
            Err(what) => Label::Unfit(what),
        })
    }

    fn filename(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(filenames) = &mut self.filenames else { return Ok(None) };
        let row = filenames.row(self.number)?.map(<[u8]>::to_vec);
        let text = row.and_then(|row| values::text(filenames.array(), &row));
        Ok(text.ok().filter(|text| !text.is_empty()))
    }
}

/// An encoded image without the zeros that fill it up to the length that all have, where none can be its own.
fn unfilled(mut row: Vec<u8>) -> Vec<u8> {
    let end = row.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let kind = image_header::Kind::detect(&row[..row.len().min(SNIFF_BYTES)]);
    if end == 0 || matches!(kind, image_header::Kind::Jpeg | image_header::Kind::Png | image_header::Kind::Gif) {
        row.truncate(end);
    }
    row
}

/// The axes of the image in row `number`.
fn axes(shapes: &mut dyn Rows, number: u64) -> Result<Result<Vec<u64>, String>> {
    let row = match shapes.row(number)? {
        Ok(row) => row.to_vec(),
        Err(what) => return Ok(Err(what)),
    };
    let array = shapes.array();
    let items = row.chunks_exact(array.item_bytes().max(1));
    let axis = |item: &[u8]| match values::whole(array.item(), item) {
        Label::Number(axis) => u64::try_from(axis).ok(),
        _ => None,
    };
    let axes: Option<Vec<u64>> = items.map(axis).collect();
    Ok(axes.ok_or_else(|| format!("row {number}: invalid axes")))
}

impl Records {
    /// The rows of `tables` in `file`.
    pub fn new(file: Box<dyn Arrays>, tables: Vec<Table>, wanted: &FieldSelection) -> Self {
        let notes = tables.iter().map(|table| table.note.clone()).collect();
        let unused = tables.first().map(|table| table.unused.clone()).unwrap_or_default();
        let (are_several, tables) = (tables.len() > 1, tables.into());
        Self { file, tables, open: None, notes, unused, are_several, wanted: wanted.clone() }
    }
}

impl Images for Records {
    fn next(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Option<Record>> {
        while self.open.as_ref().is_none_or(|open| open.number >= open.table.rows.end) {
            if let Some(stray) = self.open.as_mut().and_then(|open| open.strays.next()) {
                let why = Err(MissingImage::Damaged(known::stray(stray)));
                return Ok(Some(record(at, stray.to_string().into_bytes(), String::new(), why)));
            }
            self.open = None;
            let Some(table) = self.tables.pop_front() else { return Ok(None) };
            self.open = Some(Opened::open(&*self.file, table, &self.wanted)?);
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let mut others = Vec::new();
        let are_values = !open.table.values.is_empty();
        let mut image = match are_values {
            true => match open.values(at, out)? {
                Ok(found) => {
                    others = found;
                    Err(MissingImage::no_image("a row of values, no image"))
                }
                Err(what) => Err(MissingImage::Damaged(what)),
            },
            false => open.image(self.file.noun(), out)?.map(|()| out.len()),
        };
        if image.is_ok() {
            match open.beside(at, out)? {
                Ok(found) => others = found,
                Err(what) => image = Err(MissingImage::Damaged(what)),
            }
        }
        let label = open.label(self.wanted.label_number.unwrap_or(0))?;
        let filename = open.filename()?;
        let number = open.number;
        open.number += 1;
        let key = match self.are_several {
            true => format!("{}/{number}", open.table.images),
            false => number.to_string(),
        };
        let name = if self.are_several { String::new() } else { open.table.images.clone() };
        let own_name = |path: &String| {
            let named = open.table.values.iter().find(|(value, _)| value == path);
            named.map_or_else(|| path.clone(), |(_, name)| name.clone())
        };
        let label_name = self.wanted.label.clone().or_else(|| open.table.labels.as_ref().map(own_name));
        let record = record(at, key.into_bytes(), name, image);
        let has_content = record.image.is_ok() || !others.is_empty();
        let range = at..if has_content { at + out.len() as u64 } else { at };
        Ok(Some(Record {
            range,
            others,
            filename,
            label_name: label_name
                .filter(|_| !self.are_several || are_values || self.wanted.label.is_some())
                .unwrap_or_default(),
            labels: usize::from(label != Label::Missing),
            label,
            ..record
        }))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.unused.iter().map(|path| (format!("{} {path}", self.file.noun()), 1)).collect()
    }
}
