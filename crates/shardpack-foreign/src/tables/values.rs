//! Interprets stored items of datasets: kind, dtype, and value as a label or a name.

use shardpack_format::{
    formats::foreign::Label,
    image_header::{self, SNIFF_BYTES},
};

use super::{
    Array,
    item::{Item, Member, Order},
};

/// Largest float range in which each whole number is exact.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// Longest name or label in bytes.
const TEXT_BYTES: u32 = 4096;

/// Type of pixels, as numpy names it.
pub(crate) const BYTES: &str = "|u1";

/// Kind of the items of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A byte: of pixels, or of an encoded image.
    Byte,
    /// Any number of bytes.
    Bytes,
    /// A fixed number of bytes.
    Opaque,
    /// Text, of a fixed length or of any.
    Text,
    /// A whole number, or a truth value.
    Whole,
    /// A float.
    Real,
    /// Something else.
    Other,
}

impl Kind {
    /// The kind of a type.
    pub fn from_type(item: &Item) -> Self {
        match item {
            Item::Whole { size: 1, is_signed: false, .. } => Self::Byte,
            Item::Whole { size: 1..=8, .. } => Self::Whole,
            Item::Real { size: 4 | 8, .. } => Self::Real,
            Item::Enum { base, .. } if matches!(Self::from_type(base), Self::Byte | Self::Whole) => Self::Whole,
            Item::Text(_) | Item::Characters { .. } => Self::Text,
            Item::List(base) if matches!(**base, Item::Whole { size: 1, .. }) => Self::Bytes,
            Item::Opaque { .. } => Self::Opaque,
            _ => Self::Other,
        }
    }

    /// Whether items may be labels.
    pub fn is_label(self) -> bool {
        matches!(self, Self::Byte | Self::Whole | Self::Real | Self::Text)
    }
}

/// Name of a type, numpy's name if there is one.
pub(crate) fn name(item: &Item) -> String {
    match item {
        _ if item.is_truth() => "bool".to_owned(),
        Item::Whole { size, is_signed, .. } => {
            format!("{}int{}", if *is_signed { "" } else { "u" }, u32::from(*size) * 8)
        }
        Item::Real { size, .. } => format!("float{}", u32::from(*size) * 8),
        Item::Complex { size, .. } => format!("complex{}", u32::from(*size) * 8),
        Item::Text(Some(bytes)) => format!("text of {bytes} bytes"),
        Item::Text(None) => "text".to_owned(),
        Item::Characters { count, .. } => format!("text of {count} characters"),
        Item::List(base) => format!("{} of any length", name(base)),
        Item::Opaque { size } => format!("opaque of {size} bytes"),
        Item::Enum { base, .. } => format!("enum of {}", name(base)),
        Item::Other(name) => name.clone(),
    }
}

/// Claimed length in bytes of a variable-length item.
pub(crate) fn said_bytes(item: &[u8]) -> u32 {
    item.first_chunk().copied().map_or(0, u32::from_le_bytes)
}

/// The bytes that a variable-length item refers to.
///
/// # Errors
/// The reason why the item is unreadable.
pub(crate) fn referred(array: &dyn Array, item: &[u8]) -> Result<Vec<u8>, String> {
    if said_bytes(item) == 0 {
        return Ok(Vec::new());
    }
    array.referred(item, 1)
}

/// The items in a variable-length item; each has type `base`.
///
/// # Errors
/// The reason why the items are unreadable.
pub(crate) fn referred_items(array: &dyn Array, item: &[u8], base: &Item) -> Result<Vec<u8>, String> {
    if said_bytes(item) == 0 {
        return Ok(Vec::new());
    }
    array.referred(item, base.bytes().unwrap_or(1).max(1))
}

/// Text without the padding to its fixed length.
///
/// # Errors
/// The reason why the text is unreadable.
pub(crate) fn text(array: &dyn Array, item: &[u8]) -> Result<Vec<u8>, String> {
    let mut text = match array.item() {
        kind if kind.is_reference() && said_bytes(item) > TEXT_BYTES => {
            return Err(format!("text of {} bytes", said_bytes(item)));
        }
        _ => encoded(array, item.to_vec())?,
    };
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(end);
    text.truncate(text.trim_ascii_end().len());
    Ok(text)
}

/// UTF-8 of characters of 4 bytes, without the zeros that fill them up.
fn utf8(item: &[u8], order: Order) -> Result<Vec<u8>, String> {
    let number = |character: &[u8; 4]| match order {
        Order::Little => u32::from_le_bytes(*character),
        Order::Big => u32::from_be_bytes(*character),
    };
    let (characters, _) = item.as_chunks::<4>();
    let end = characters.iter().rposition(|one| *one != [0; 4]).map_or(0, |last| last + 1);
    let text: Option<String> = characters[..end].iter().map(|one| char::from_u32(number(one))).collect();
    text.map(String::into_bytes).ok_or_else(|| "text with characters that Unicode does not have".to_owned())
}

/// The label in the items of a row: a single item, or one of several if `number` is not 0; otherwise the index of the only
/// item that is set.
pub(crate) fn label(array: &dyn Array, row: &[u8], number: usize) -> Label {
    let bytes = array.item_bytes().max(1);
    let mut items = row.chunks_exact(bytes);
    match items.len() {
        0 => Label::Missing,
        1 if number == 0 => one(array, row),
        several if number > 0 => items.nth(number).map_or_else(
            || Label::Unfit(format!("label number {number} of {several}, counted from 0")),
            |item| one(array, item),
        ),
        several => {
            let found: Vec<_> = items.map(|item| one(array, item)).collect();
            let set: Vec<usize> = (0..several).filter(|at| found[*at] == Label::Number(1)).collect();
            match *set {
                [set] if found.iter().filter(|label| **label == Label::Number(0)).count() == several - 1 => {
                    Label::Number(set as i64)
                }
                _ => Label::Unfit(format!("{several} numbers that are not one-hot: a single 1, the others 0")),
            }
        }
    }
}

fn one(array: &dyn Array, item: &[u8]) -> Label {
    match Kind::from_type(array.item()) {
        Kind::Byte | Kind::Whole => whole_or_name(array.item(), item),
        Kind::Real => real(array.item(), item),
        Kind::Text => match text(array, item) {
            Ok(text) if text.is_empty() => Label::Missing,
            Ok(text) if text.len() <= TEXT_BYTES as usize => Label::Text(text),
            Ok(text) => Label::Unfit(format!("text of {} bytes", text.len())),
            Err(what) => Label::Unfit(what),
        },
        _ => Label::Unfit(name(array.item())),
    }
}

/// The bytes of a number, the least first, in as many as a number may have.
fn little(item: &[u8], order: Order) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (at, byte) in bytes.iter_mut().zip(item) {
        *at = *byte;
    }
    if order == Order::Big {
        bytes[..item.len().min(8)].reverse();
    }
    bytes
}

/// The number that a whole number is.
pub(crate) fn whole(kind: &Item, item: &[u8]) -> Label {
    match kind {
        Item::Enum { base, .. } => whole(base, item),
        Item::Whole { size, is_signed, order } => {
            let number = u64::from_le_bytes(little(item, *order));
            let unused = 64 - 8 * u32::from(*size).clamp(1, 8);
            match is_signed {
                true => Label::Number((number << unused) as i64 >> unused),
                false => i64::try_from(number)
                    .map_or_else(|_| Label::Unfit(format!("{number} is beyond 63 bits")), Label::Number),
            }
        }
        other => Label::Unfit(name(other)),
    }
}

/// Names of the enum values with their numbers, sorted by number; `None` for other types and for booleans.
pub(crate) fn enum_values(item: &Item) -> Option<Vec<(i64, &str)>> {
    let Item::Enum { base, members } = item else { return None };
    if item.is_truth() {
        return None;
    }
    let value = |one: &'_ Member| match whole(base, &one.value) {
        Label::Number(number) => Some(number),
        _ => None,
    };
    let mut values: Vec<(i64, &str)> =
        members.iter().filter_map(|one| Some((value(one)?, one.name.as_str()))).collect();
    values.sort_unstable();
    Some(values)
}

/// Names of an enum in the order of its values, as names of classes. Values below 0 are no classes.
pub(crate) fn class_names(item: &Item) -> Option<Vec<Vec<u8>>> {
    let values = enum_values(item)?;
    let names = values.iter().filter(|(value, _)| *value >= 0).map(|(_, name)| name.as_bytes().to_vec());
    Some(names.collect()).filter(|names: &Vec<_>| !names.is_empty())
}

/// The number as a label, or its name if the values of its enum are not 0, 1, 2 and so on.
pub(crate) fn whole_or_name(kind: &Item, item: &[u8]) -> Label {
    let number = whole(kind, item);
    let (Label::Number(value), Some(values)) = (&number, enum_values(kind)) else { return number };
    match values.iter().find(|(known, _)| known == value) {
        Some(_) if *value < 0 || (0..).zip(&values).all(|(number, (value, _))| number == *value) => number,
        Some((_, name)) => Label::Name(name.as_bytes().to_vec()),
        None => Label::Unfit(format!("{value} is not a value of its enum")),
    }
}

fn real(kind: &Item, item: &[u8]) -> Label {
    let Item::Real { size, order } = kind else { return Label::Unfit(name(kind)) };
    let bytes = little(item, *order);
    let number = match size {
        4 => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => f64::from_le_bytes(bytes),
    };
    match number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER {
        true => Label::Number(number as i64),
        false => Label::Unfit(format!("{number} is no whole number")),
    }
}

/// The bytes of an item that is an encoded image or a text, or all that is stored of one.
pub(crate) fn encoded(array: &dyn Array, mut item: Vec<u8>) -> Result<Vec<u8>, String> {
    match array.item() {
        kind if kind.is_reference() => referred(array, &item),
        Item::Characters { order, .. } => utf8(&item, *order),
        Item::Text(_) => {
            // As in numpy, padding is not part of the text.
            let end = item.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            item.truncate(end);
            Ok(item)
        }
        _ => Ok(item),
    }
}

/// Whether bytes begin like an image.
pub(crate) fn is_image(bytes: &[u8]) -> bool {
    image_header::Kind::detect(&bytes[..bytes.len().min(SNIFF_BYTES)]) != image_header::Kind::Unknown
}

/// The dtype of items in numpy's notation; `None` if the items are no numbers.
pub(crate) fn dtype(item: &Item) -> Option<String> {
    let order = |order: &Order, size: u8| match order {
        _ if size == 1 => '|',
        Order::Big => '>',
        Order::Little => '<',
    };
    Some(match item {
        Item::Whole { size: size @ (1 | 2 | 4 | 8), is_signed, order: own } => {
            format!("{}{}{size}", order(own, *size), if *is_signed { 'i' } else { 'u' })
        }
        Item::Real { size: size @ (2 | 4 | 8), order: own } => format!("{}f{size}", order(own, *size)),
        Item::Complex { size: size @ (8 | 16), order: own } => format!("{}c{size}", order(own, *size)),
        // As h5py has truth values.
        Item::Enum { base, .. } if item.is_truth() => match **base {
            Item::Whole { size: 1, .. } => "|b1".to_owned(),
            _ => return None,
        },
        Item::Enum { base, .. } => return dtype(base),
        _ => return None,
    })
}

/// The dtype of an array of items: of numbers, or of text of a fixed length.
pub(crate) fn array_dtype(item: &Item) -> Option<String> {
    match item {
        Item::Text(Some(bytes)) => Some(format!("|S{bytes}")),
        Item::Characters { count, order: Order::Little } => Some(format!("<U{count}")),
        Item::Characters { count, order: Order::Big } => Some(format!(">U{count}")),
        item => dtype(item),
    }
}

/// Whether rows are text, bytes or numbers of any number.
pub(crate) fn is_plain(item: &Item) -> bool {
    match item {
        Item::List(base) => dtype(base).is_some(),
        Item::Text(_) | Item::Characters { .. } | Item::Opaque { .. } => true,
        item => dtype(item).is_some(),
    }
}
