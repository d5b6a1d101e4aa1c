//! Converts arrays with as many rows as there are images to components.
//!
//! Text and bytes stay unchanged, a number becomes its text, several texts become JSON of the same shape. Rows of numbers are
//! arrays, whose items are passed on as stored.
//!
//! Rows of texts longer than [`MAX_ROW_BYTES`] are not read as a component. Memory holds at most [`MAX_BATCH_BYTES`] per
//! dataset. An unsupported dataset is reported by name and loses no image.

use shardpack_format::{ErrorKind, Result, component::Form, formats::foreign::Plain};

use super::{
    Array, Arrays, Rows,
    item::{Item, Order},
    names::{CLASSES, SHAPES, is_called, own_words, split},
    seen::Seen,
    value_rows,
    values::{Kind, dtype, encoded, is_plain},
};

/// Longest row of texts in bytes, as it is stored.
const MAX_ROW_BYTES: u64 = 1 << 20;
/// Most datasets that are read: each has a batch in memory.
const MAX_DATASETS: usize = 64;
/// Bytes of a batch, unless a chunk is longer.
const BATCH_BYTES: usize = 1 << 18;
/// Longest chunk in bytes, unpacked.
const MAX_BATCH_BYTES: u64 = 16 << 20;

/// A dataset beside the images.
#[derive(Clone, Debug)]
pub(crate) struct Component {
    path: String,
    /// Component name of its rows.
    pub name: String,
}

/// The datasets of `seen` that accompany `images`, except the datasets in `used`.
pub(crate) fn find(images: &Seen, seen: &[Seen], used: &[&str]) -> Vec<Component> {
    let own = split(&images.path);
    let goes_with = |one: &&Seen| {
        !used.contains(&one.path.as_str())
            && one.path != images.path
            && one.rows() == images.rows()
            && split(&one.path) == own
            && !(one.kind == Kind::Text && is_called(&one.path, &CLASSES))
            && !(images.kind == Kind::Bytes && is_called(&one.path, &SHAPES))
            && is_fit(one)
    };
    let mut found: Vec<Component> = Vec::new();
    for one in seen.iter().filter(goes_with).take(MAX_DATASETS) {
        let axes = if is_npy(one) { ".npy" } else { "" };
        let short = format!("{}{axes}", own_words(&one.path).join("_"));
        let is_taken = found.iter().any(|other| other.name == short);
        let name = if is_taken { format!("{}{axes}", one.path) } else { short };
        found.push(Component { path: one.path.clone(), name });
    }
    found
}

impl Component {
    /// Path of the dataset.
    pub fn path(&self) -> &String {
        &self.path
    }
}

/// Whether the rows can be converted.
fn is_fit(one: &Seen) -> bool {
    let items = one.shape.iter().skip(1).try_fold(1u64, |items, axis| items.checked_mul(*axis));
    let few = items.is_some_and(|items| items <= Plain::MAX_VALUES as u64 && items * 8 <= MAX_ROW_BYTES);
    match one.kind {
        _ if one.shape.is_empty() => false,
        Kind::Bytes | Kind::Opaque => one.shape.len() == 1,
        Kind::Byte | Kind::Whole | Kind::Real | Kind::Text if one.dtype.is_none() => few,
        // The length of a row is checked when the dataset is opened.
        _ if one.dtype.is_some() => true,
        // Of any length.
        _ => one.is_plain && one.shape.len() == 1,
    }
}

/// Whether earlier rows were called arrays by name: pixels.
fn is_npy(one: &Seen) -> bool {
    one.kind == Kind::Byte && one.shape.len() >= 3
}

/// Whether rows are arrays, and no single numbers that text is made of.
fn are_arrays(array: &dyn Array) -> bool {
    let is_number = dtype(array.item()).is_some();
    match Kind::from_type(array.item()) {
        Kind::Bytes | Kind::Opaque | Kind::Text => false,
        Kind::Byte | Kind::Whole | Kind::Real => is_number && array.shape().len() > 1,
        // Floats of 16 bits, and rows of any length.
        Kind::Other => is_plain(array.item()),
    }
}

/// A dataset that is read; without its rows once they have turned out to be of no kind that is read.
pub(crate) struct Opened {
    pub name: String,
    rows: Option<Box<dyn Rows>>,
}

impl Opened {
    /// Opens it, if its content `is_wanted`.
    ///
    /// # Errors
    /// If the system fails.
    pub fn open(file: &dyn Arrays, beside: &Component, is_wanted: bool) -> Result<Self> {
        let rows = is_wanted.then(|| file.rows(&beside.path, BATCH_BYTES)).transpose();
        let rows = supported_opt(rows)?.flatten().filter(|rows| rows.batch_bytes() <= MAX_BATCH_BYTES);
        Ok(Self { name: beside.name.clone(), rows })
    }

    /// Content of row `number`: the items of an array with its form, or bytes without a form; `None` if the row cannot be
    /// converted. The inner error is the reason why the row is unreadable.
    ///
    /// # Errors
    /// If a read fails.
    pub fn next(&mut self, number: u64) -> Result<Result<Option<(Option<Form>, Vec<u8>)>, String>> {
        let Some(rows) = &mut self.rows else { return Ok(Ok(None)) };
        let found = match are_arrays(rows.array()) {
            true => supported_opt(value_rows::row(&mut **rows, number))?
                .map(|row| row.map(|(form, items)| Some((Some(form), items)))),
            false => supported_opt(rows.row(number).map(|row| row.map(<[u8]>::to_vec)))?.map(|row| {
                let content = content(rows.array(), row?)?;
                Ok(content.map(|content| (None, content)))
            }),
        };
        if found.is_none() {
            self.rows = None;
        }
        Ok(found.unwrap_or(Ok(None)))
    }
}

/// The result of the read, or `None` if the file uses an unsupported feature.
fn supported_opt<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == ErrorKind::Data => Ok(None),
        Err(error) => Err(error),
    }
}

fn content(array: &dyn Array, row: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
    let axes = array.shape().get(1..).unwrap_or_default();
    let kind = Kind::from_type(array.item());
    match kind {
        Kind::Bytes | Kind::Opaque => encoded(array, row).map(Some),
        Kind::Text if axes.is_empty() => text(array, &row).map(Some),
        _ => {
            let item_bytes = array.item_bytes().max(1);
            let items = row.chunks_exact(item_bytes);
            let items = items.map(|item| value(array, kind, item)).collect::<Result<Option<Vec<_>>, _>>()?;
            Ok(items.and_then(|items| {
                let mut out = Vec::new();
                nested(&items, axes, &mut out).then_some(out)
            }))
        }
    }
}

/// A value as JSON; `None` if JSON cannot represent it.
fn value(array: &dyn Array, kind: Kind, item: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut out = Vec::new();
    let said;
    let plain = match kind {
        Kind::Text => {
            said = text(array, item)?;
            str::from_utf8(&said).ok().map(Plain::Text)
        }
        _ => number(array.item(), item),
    };
    Ok(plain.map(|plain| {
        plain.write(&mut out);
        out
    }))
}

/// Text without the zeros that fill it up.
fn text(array: &dyn Array, item: &[u8]) -> Result<Vec<u8>, String> {
    let mut text = encoded(array, item.to_vec())?;
    text.truncate(text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    Ok(text)
}

/// A single number as text; `None` if the item is no number.
pub(crate) fn number_text(kind: &Item, item: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    number(kind, item)?.write(&mut out);
    Some(out)
}

fn number(kind: &Item, item: &[u8]) -> Option<Plain<'static>> {
    let wide = |order: Order, is_negative: bool| {
        let mut bytes = [if is_negative { 0xff } else { 0 }; 16];
        bytes.get_mut(..item.len())?.copy_from_slice(item);
        if order == Order::Big {
            bytes[..item.len()].reverse();
        }
        Some(i128::from_le_bytes(bytes))
    };
    Some(match kind {
        Item::Enum { base, .. } => return number(base, item),
        Item::Whole { is_signed, order, .. } => {
            let most = if *order == Order::Big { item.first() } else { item.last() };
            Plain::Whole(wide(*order, *is_signed && most.is_some_and(|most| most & 0x80 != 0))?)
        }
        Item::Real { size: 4, order } => Plain::Single(f32::from_bits(wide(*order, false)? as u32)),
        Item::Real { size: 8, order } => Plain::Double(f64::from_bits(wide(*order, false)? as u64)),
        _ => return None,
    })
}

/// Appends `items` as nested lists with lengths `axes`; returns `false` if the number of items differs.
fn nested(items: &[Vec<u8>], axes: &[u64], out: &mut Vec<u8>) -> bool {
    let Some((axis, inner)) = axes.split_first() else {
        return match items {
            [one] => {
                out.extend_from_slice(one);
                true
            }
            _ => false,
        };
    };
    let step = items.len() / usize::try_from(*axis).unwrap_or(usize::MAX).max(1);
    out.push(b'[');
    let are_told = step == 0
        || items.chunks(step).enumerate().all(|(number, items)| {
            if number > 0 {
                out.push(b',');
            }
            nested(items, inner, out)
        });
    out.push(b']');
    are_told
}
