//! The fields of a `.beton` file as arrays: a row for each sample.
//!
//! An image or bytes are an item that refers to them, in a form of this module: place, length, and the height and width of pixels.

use std::{ops::Range, sync::Arc};

use shardpack_format::{Error, Result, npy};

use super::layout::{Beton, Field, FieldKind, word};
use crate::tables::{
    Array, Arrays, Rows,
    item::{Item, Order},
    seen::Seen,
    values::BYTES,
};

/// Most bytes of the table of samples that are read at once.
const BATCH_BYTES: usize = 256 << 10;
/// How an image is stored.
const JPEG: u8 = 0;
const PIXELS: u8 = 1;
/// Values of a pixel: red, green, blue.
const CHANNELS: u64 = 3;

/// The fields of a file.
pub(super) struct Fields(pub Arc<Beton>);

impl Fields {
    /// The fields, as arrays.
    pub fn seen(&self) -> Vec<Seen> {
        let shape = [self.0.samples];
        self.0.fields.iter().map(|field| Seen::of(field.name.clone(), &item(field.kind), &shape)).collect()
    }

    /// Names of the fields of a type.
    pub fn of_kind(&self, kind: FieldKind) -> impl Iterator<Item = &str> {
        self.0.fields.iter().filter(move |field| field.kind == kind).map(|field| field.name.as_str())
    }

    fn field(&self, name: &str) -> Result<(usize, &Field)> {
        let found = self.0.fields.iter().enumerate().find(|(_, field)| field.name == name);
        found.ok_or_else(|| Error::usage(format!("no field {name}")))
    }
}

impl Arrays for Fields {
    fn noun(&self) -> &'static str {
        "field"
    }

    fn most_rows(&self) -> u64 {
        self.0.file_bytes
    }

    fn item(&self, path: &str) -> Result<Item> {
        Ok(item(self.field(path)?.1.kind))
    }

    fn rows(&self, path: &str, batch_bytes: usize) -> Result<Box<dyn Rows>> {
        let (number, field) = self.field(path)?;
        let column = Column { beton: Arc::clone(&self.0), item: item(field.kind), shape: [self.0.samples] };
        let step = (batch_bytes.min(BATCH_BYTES) / self.0.sample_bytes.max(1)).max(1) as u64;
        Ok(Box::new(FieldRows { column, number, step, at: 0..0, held: Vec::new(), reference: [0; 16] }))
    }
}

/// The type of the items of a field.
fn item(kind: FieldKind) -> Item {
    let order = Order::Little;
    match kind {
        FieldKind::Float => Item::Real { size: 8, order },
        FieldKind::Int => Item::Whole { size: 8, is_signed: true, order },
        FieldKind::Image | FieldKind::Bytes => Item::List(Box::new(Item::Whole { size: 1, is_signed: false, order })),
        FieldKind::Json => Item::Text(None),
    }
}

/// A field as an array.
struct Column {
    beton: Arc<Beton>,
    item: Item,
    shape: [u64; 1],
}

impl Array for Column {
    fn item(&self) -> &Item {
        &self.item
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn item_bytes(&self) -> usize {
        self.item.bytes().unwrap_or(0)
    }

    fn referred(&self, item: &[u8], _: usize) -> std::result::Result<Vec<u8>, String> {
        let item = item.first_chunk().ok_or_else(|| "an incomplete reference".to_owned())?;
        let Reference { start, bytes, height, width } = Reference::of_item(item);
        let mut out = Vec::new();
        if height > 0 && width > 0 {
            npy::write_head(BYTES, &[height.into(), width.into(), CHANNELS], false, &mut out);
        }
        self.beton.read_data(start, bytes as usize, &mut out)?;
        Ok(out)
    }
}

/// Data of a sample.
struct Reference {
    start: u64,
    bytes: u32,
    /// Axes of pixels; 0 if the data is a file.
    height: u16,
    width: u16,
}

impl Reference {
    /// The item: its length first, as the items of all files of arrays have it.
    fn to_item(&self) -> [u8; 16] {
        let Self { start, bytes, height, width } = self;
        let mut item = [0; 16];
        item[..4].copy_from_slice(&bytes.to_le_bytes());
        item[4..6].copy_from_slice(&height.to_le_bytes());
        item[6..8].copy_from_slice(&width.to_le_bytes());
        item[8..].copy_from_slice(&start.to_le_bytes());
        item
    }

    fn of_item(item: &[u8; 16]) -> Self {
        Self {
            start: word(item, 8),
            bytes: u32::from_le_bytes([item[0], item[1], item[2], item[3]]),
            height: u16::from_le_bytes([item[4], item[5]]),
            width: u16::from_le_bytes([item[6], item[7]]),
        }
    }
}

/// The rows of a field.
struct FieldRows {
    column: Column,
    /// Number of the field.
    number: usize,
    /// Rows of a batch.
    step: u64,
    /// Numbers of the rows in `held`.
    at: Range<u64>,
    /// Rows of the table of samples.
    held: Vec<u8>,
    /// The last item that refers to data.
    reference: [u8; 16],
}

/// The data of an image, as the table of samples has it for `sample`.
fn image(beton: &Beton, sample: u64, stored: &[u8]) -> std::result::Result<Reference, String> {
    let [mode, rest @ ..] = stored else { return Err("an incomplete image".to_owned()) };
    let axis = |at: usize| rest.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_le_bytes(*two));
    let (width, height, start) = (axis(0), axis(2), word(rest, 4));
    let bytes = found_bytes(beton, sample, start)?;
    match *mode {
        JPEG => Ok(Reference { start, bytes, height: 0, width: 0 }),
        PIXELS if u64::from(height) * u64::from(width) * CHANNELS == u64::from(bytes) => {
            Ok(Reference { start, bytes, height, width })
        }
        PIXELS => Err(format!("{bytes} bytes of pixels, its axes are {height}×{width}×{CHANNELS}")),
        other => Err(format!("an image of unknown mode {other}")),
    }
}

/// Length of the data of a sample at `start`.
fn found_bytes(beton: &Beton, sample: u64, start: u64) -> std::result::Result<u32, String> {
    let bytes = beton.data_bytes(sample, start).ok_or_else(|| format!("the file has no data of it at byte {start}"))?;
    u32::try_from(bytes).map_err(|_| format!("{bytes} bytes, more than a page can hold"))
}

/// The bytes of a sample, as the table of samples has them.
fn bytes(beton: &Beton, sample: u64, stored: &[u8]) -> std::result::Result<Reference, String> {
    let (start, said) = (word(stored, 0), word(stored, 8));
    if said == 0 {
        // FFCV gives nothing a place before the data, if it comes first.
        return Ok(Reference { start: 0, bytes: 0, height: 0, width: 0 });
    }
    match found_bytes(beton, sample, start)? {
        bytes if u64::from(bytes) == said => Ok(Reference { start, bytes, height: 0, width: 0 }),
        bytes => Err(format!("{said} bytes, the file has {bytes} at byte {start}")),
    }
}

impl Rows for FieldRows {
    fn array(&self) -> &dyn Array {
        &self.column
    }

    fn batch_bytes(&self) -> u64 {
        self.step * self.column.beton.sample_bytes as u64
    }

    fn row(&mut self, number: u64) -> Result<std::result::Result<&[u8], String>> {
        let beton = &*self.column.beton;
        let field = &beton.fields[self.number];
        if number >= beton.samples {
            return Ok(Err(format!("field {}: it has no row {number}", field.name)));
        }
        if !self.at.contains(&number) {
            self.at = 0..0;
            let rows = number..number.saturating_add(self.step).min(beton.samples);
            beton.read_rows(&rows, &mut self.held)?;
            self.at = rows;
        }
        let at = (number - self.at.start) as usize * beton.sample_bytes + field.offset;
        let stored = &self.held[at..at + field.kind.bytes()];
        let found = match field.kind {
            FieldKind::Float | FieldKind::Int => return Ok(Ok(stored)),
            FieldKind::Image => image(beton, number, stored),
            FieldKind::Bytes | FieldKind::Json => bytes(beton, number, stored),
        };
        Ok(match found {
            Ok(found) => {
                self.reference = found.to_item();
                Ok(&self.reference)
            }
            Err(what) => Err(format!("field {}, row {number}: {what}", field.name)),
        })
    }
}
