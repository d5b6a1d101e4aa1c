//! Interprets stored items of datasets: kind, dtype, and value as a label or a name.

use hdf5_reader::{Dataset, Datatype, EnumMember, StringSize, VarLenKind, error::ByteOrder};
use shardpack_format::{
    formats::foreign::Label,
    image_header::{self, SNIFF_BYTES},
};

use super::open;

/// Largest float range in which each whole number is exact.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// Longest name or label in bytes.
const TEXT_BYTES: u32 = 4096;

/// Type of pixels, as numpy names it.
pub(super) const BYTES: &str = "|u1";

/// Kind of the items of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
    pub fn from_type(item: &Datatype) -> Self {
        match item {
            Datatype::FixedPoint { size: 1, signed: false, .. } => Self::Byte,
            Datatype::FixedPoint { size: 1..=8, .. } => Self::Whole,
            Datatype::FloatingPoint { size: 4 | 8, .. } => Self::Real,
            Datatype::Enum { base, .. } if matches!(Self::from_type(base), Self::Byte | Self::Whole) => Self::Whole,
            Datatype::VarLen { kind: VarLenKind::String, .. } | Datatype::String { .. } => Self::Text,
            Datatype::VarLen { base, .. } if matches!(**base, Datatype::FixedPoint { size: 1, .. }) => Self::Bytes,
            Datatype::Opaque { .. } => Self::Opaque,
            _ => Self::Other,
        }
    }

    /// Whether items may be labels.
    pub fn is_label(self) -> bool {
        matches!(self, Self::Byte | Self::Whole | Self::Real | Self::Text)
    }
}

/// Name of a type, numpy's name if there is one.
pub(super) fn name(item: &Datatype) -> String {
    match item {
        Datatype::FixedPoint { size, signed, .. } => {
            format!("{}int{}", if *signed { "" } else { "u" }, u32::from(*size) * 8)
        }
        Datatype::FloatingPoint { size, .. } => format!("float{}", u32::from(*size) * 8),
        Datatype::String { size: StringSize::Fixed(bytes), .. } => format!("text of {bytes} bytes"),
        Datatype::String { .. } | Datatype::VarLen { kind: VarLenKind::String, .. } => "text".to_owned(),
        Datatype::VarLen { base, .. } => format!("{} of any length", name(base)),
        Datatype::Opaque { size, .. } => format!("opaque of {size} bytes"),
        Datatype::Enum { base, .. } => format!("enum of {}", name(base)),
        Datatype::Compound { .. } => "compound".to_owned(),
        Datatype::Array { .. } => "array".to_owned(),
        Datatype::Reference { .. } => "reference".to_owned(),
        Datatype::Bitfield { .. } => "bits".to_owned(),
    }
}

/// Whether items refer to bytes elsewhere in the file.
pub(super) fn is_reference(item: &Datatype) -> bool {
    matches!(item, Datatype::VarLen { .. } | Datatype::String { size: StringSize::Variable, .. })
}

/// Claimed length in bytes of a variable-length item.
pub(super) fn said_bytes(item: &[u8]) -> u32 {
    item.first_chunk().copied().map_or(0, u32::from_le_bytes)
}

/// The bytes that a variable-length item refers to.
///
/// # Errors
/// The reason why the item is unreadable.
pub(super) fn referred(dataset: &Dataset, item: &[u8]) -> Result<Vec<u8>, String> {
    if said_bytes(item) == 0 {
        return Ok(Vec::new());
    }
    dataset.resolve_vlen_reference_bytes(item, 1).map_err(|error| open::said(&open::cause(error)))
}

/// The items in a variable-length item; each has type `base`.
///
/// # Errors
/// The reason why the items are unreadable.
pub(super) fn referred_items(dataset: &Dataset, item: &[u8], base: &Datatype) -> Result<Vec<u8>, String> {
    if said_bytes(item) == 0 {
        return Ok(Vec::new());
    }
    let bytes = hdf5_reader::dtype_element_size(base).map_or(1, |bytes| bytes.max(1));
    dataset.resolve_vlen_reference_bytes(item, bytes).map_err(|error| open::said(&open::cause(error)))
}

/// Text without the padding to its fixed length.
///
/// # Errors
/// The reason why the text is unreadable.
pub(super) fn text(dataset: &Dataset, item: &[u8]) -> Result<Vec<u8>, String> {
    let mut text = match is_reference(dataset.dtype()) {
        true if said_bytes(item) > TEXT_BYTES => return Err(format!("text of {} bytes", said_bytes(item))),
        true => referred(dataset, item)?,
        false => item.to_vec(),
    };
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(end);
    text.truncate(text.trim_ascii_end().len());
    Ok(text)
}

/// The label in the items of a row: a single item, or one of several if `number` is not 0; otherwise the index of the only
/// item that is set.
pub(super) fn label(dataset: &Dataset, row: &[u8], number: usize) -> Label {
    let bytes = dataset.raw_element_size().unwrap_or(0).max(1);
    let mut items = row.chunks_exact(bytes);
    match items.len() {
        0 => Label::Missing,
        1 if number == 0 => one(dataset, row),
        several if number > 0 => items.nth(number).map_or_else(
            || Label::Unfit(format!("label number {number} of {several}, counted from 0")),
            |item| one(dataset, item),
        ),
        several => {
            let found: Vec<_> = items.map(|item| one(dataset, item)).collect();
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

fn one(dataset: &Dataset, item: &[u8]) -> Label {
    match Kind::from_type(dataset.dtype()) {
        Kind::Byte | Kind::Whole => whole_or_name(dataset.dtype(), item),
        Kind::Real => real(dataset.dtype(), item),
        Kind::Text => match text(dataset, item) {
            Ok(text) if text.is_empty() => Label::Missing,
            Ok(text) if text.len() <= TEXT_BYTES as usize => Label::Text(text),
            Ok(text) => Label::Unfit(format!("text of {} bytes", text.len())),
            Err(what) => Label::Unfit(what),
        },
        _ => Label::Unfit(name(dataset.dtype())),
    }
}

/// The bytes of a number, the least first, in as many as a number may have.
fn little(item: &[u8], order: ByteOrder) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (at, byte) in bytes.iter_mut().zip(item) {
        *at = *byte;
    }
    if order == ByteOrder::BigEndian {
        bytes[..item.len().min(8)].reverse();
    }
    bytes
}

/// The number that a whole number is.
pub(super) fn whole(kind: &Datatype, item: &[u8]) -> Label {
    match kind {
        Datatype::Enum { base, .. } => whole(base, item),
        Datatype::FixedPoint { size, signed, byte_order } => {
            let number = u64::from_le_bytes(little(item, *byte_order));
            let unused = 64 - 8 * u32::from(*size).clamp(1, 8);
            match signed {
                true => Label::Number((number << unused) as i64 >> unused),
                false => i64::try_from(number)
                    .map_or_else(|_| Label::Unfit(format!("{number} is beyond 63 bits")), Label::Number),
            }
        }
        other => Label::Unfit(name(other)),
    }
}

/// Names of the enum values with their numbers, sorted by number; `None` for other types and for booleans.
pub(super) fn enum_values(item: &Datatype) -> Option<Vec<(i64, &str)>> {
    let Datatype::Enum { base, members } = item else { return None };
    if is_bool(members.iter().map(|one| one.name.as_str())) {
        return None;
    }
    let value = |one: &'_ EnumMember| match whole(base, &one.value) {
        Label::Number(number) => Some(number),
        _ => None,
    };
    let mut values: Vec<(i64, &str)> =
        members.iter().filter_map(|one| Some((value(one)?, one.name.as_str()))).collect();
    values.sort_unstable();
    Some(values)
}

/// Names of an enum in the order of its values, as names of classes. Values below 0 are no classes.
pub(super) fn class_names(item: &Datatype) -> Option<Vec<Vec<u8>>> {
    let values = enum_values(item)?;
    let names = values.iter().filter(|(value, _)| *value >= 0).map(|(_, name)| name.as_bytes().to_vec());
    Some(names.collect()).filter(|names: &Vec<_>| !names.is_empty())
}

/// The number as a label, or its name if the values of its enum are not 0, 1, 2 and so on.
pub(super) fn whole_or_name(kind: &Datatype, item: &[u8]) -> Label {
    let number = whole(kind, item);
    let (Label::Number(value), Some(values)) = (&number, enum_values(kind)) else { return number };
    match values.iter().find(|(known, _)| known == value) {
        Some(_) if *value < 0 || (0..).zip(&values).all(|(number, (value, _))| number == *value) => number,
        Some((_, name)) => Label::Name(name.as_bytes().to_vec()),
        None => Label::Unfit(format!("{value} is not a value of its enum")),
    }
}

fn real(kind: &Datatype, item: &[u8]) -> Label {
    let Datatype::FloatingPoint { size, byte_order } = kind else { return Label::Unfit(name(kind)) };
    let bytes = little(item, *byte_order);
    let number = match size {
        4 => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => f64::from_le_bytes(bytes),
    };
    match number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER {
        true => Label::Number(number as i64),
        false => Label::Unfit(format!("{number} is no whole number")),
    }
}

/// The bytes of an item that is an encoded image, or all that is stored of one.
pub(super) fn encoded(dataset: &Dataset, mut item: Vec<u8>) -> Result<Vec<u8>, String> {
    match Kind::from_type(dataset.dtype()) {
        _ if is_reference(dataset.dtype()) => referred(dataset, &item),
        Kind::Text => {
            // As in numpy, padding is not part of the text.
            let end = item.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            item.truncate(end);
            Ok(item)
        }
        _ => Ok(item),
    }
}

/// Whether bytes begin like an image.
pub(super) fn is_image(bytes: &[u8]) -> bool {
    image_header::Kind::detect(&bytes[..bytes.len().min(SNIFF_BYTES)]) != image_header::Kind::Unknown
}

/// The dtype of items in numpy's notation; `None` if the items are no numbers.
pub(super) fn dtype(item: &Datatype) -> Option<String> {
    let order = |order: &ByteOrder, size: usize| match order {
        _ if size == 1 => '|',
        ByteOrder::BigEndian => '>',
        ByteOrder::LittleEndian => '<',
    };
    Some(match item {
        Datatype::FixedPoint { size: size @ (1 | 2 | 4 | 8), signed, byte_order } => {
            let kind = if *signed { 'i' } else { 'u' };
            format!("{}{kind}{size}", order(byte_order, usize::from(*size)))
        }
        Datatype::FloatingPoint { size: size @ (2 | 4 | 8), byte_order } => {
            format!("{}f{size}", order(byte_order, usize::from(*size)))
        }
        // As h5py has truth values.
        Datatype::Enum { base, members } if is_bool(members.iter().map(|one| one.name.as_str())) => match **base {
            Datatype::FixedPoint { size: 1, .. } => "|b1".to_owned(),
            _ => return None,
        },
        Datatype::Enum { base, .. } => return dtype(base),
        // As h5py has complex numbers.
        Datatype::Compound { size, fields } => match &fields[..] {
            [real, imaginary] if real.name == "r" && imaginary.name == "i" && real.datatype == imaginary.datatype => {
                let part = dtype(&real.datatype).filter(|part| matches!(&part[1..], "f4" | "f8"))?;
                let is_dense = real.byte_offset == 0 && imaginary.byte_offset.checked_mul(2) == Some(*size);
                let is_whole = part.ends_with(&(size / 2).to_string());
                (is_dense && is_whole).then(|| format!("{}c{size}", &part[..1]))?
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// The dtype of an array of items: of numbers, or of text of a fixed length.
pub(super) fn array_dtype(item: &Datatype) -> Option<String> {
    match item {
        Datatype::String { size: StringSize::Fixed(bytes), .. } => Some(format!("|S{bytes}")),
        item => dtype(item),
    }
}

fn is_bool<'m>(members: impl Iterator<Item = &'m str>) -> bool {
    let mut names: Vec<_> = members.collect();
    names.sort_unstable();
    names == ["FALSE", "TRUE"]
}

/// Whether rows are text, bytes or numbers of any number.
pub(super) fn is_plain(item: &Datatype) -> bool {
    match item {
        Datatype::VarLen { kind: VarLenKind::Sequence, base, .. } => dtype(base).is_some(),
        Datatype::String { .. } | Datatype::VarLen { kind: VarLenKind::String, .. } | Datatype::Opaque { .. } => true,
        item => dtype(item).is_some(),
    }
}
