//! The columns of a shard that is written, and JSON as Python writes it, shared by writer and sidecar; and lengths, which the reader
//! has, too.

use std::fmt::Write;

use crate::{
    component::{Form, Kind, Type, numpy_name},
    formats::encoding::Encoding,
};

/// Length in bytes of a length or an offset.
pub(super) const WORD_BYTES: u64 = 4;
/// Length in bytes of a label.
pub(super) const LABEL_BYTES: u64 = 8;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Image,
    Label,
    Filename,
    /// What the source has of its own, by its number among the components.
    Component(usize),
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    pub encoding: String,
    pub role: Role,
    /// Length of each value in bytes; `None` where a sample says it itself.
    pub fixed_bytes: Option<u64>,
    /// How values are stored.
    pub stored: Encoding,
}

impl Column {
    /// A column whose values are stored as they are.
    pub fn new(name: &str, encoding: &str, role: Role) -> Self {
        let fixed_bytes = (role == Role::Label).then_some(LABEL_BYTES);
        Self { name: name.to_owned(), encoding: encoding.to_owned(), role, fixed_bytes, stored: Encoding::Content }
    }

    /// The column of values of a type, by what streaming calls them; what it has no name for, or samples may lack, is
    /// their content as bytes: all samples have each column, and each value is decoded.
    pub fn of_values(name: &str, kind: &Type, role: Role) -> Self {
        let bytes = || ("bytes".to_owned(), None, Encoding::Content);
        let (encoding, fixed_bytes, stored) = match &kind.kind {
            _ if kind.is_optional => bytes(),
            Kind::Bytes => bytes(),
            Kind::Text => ("str".to_owned(), None, Encoding::Content),
            Kind::Json => ("json".to_owned(), None, Encoding::Content),
            Kind::Int => ("int".to_owned(), Some(LABEL_BYTES), Encoding::Int),
            Kind::Float => ("float64".to_owned(), Some(LABEL_BYTES), Encoding::Float),
            Kind::Array { dtype, shape } => {
                let known = dtype.as_deref().zip(dtype.as_deref().and_then(numpy_name));
                match known.filter(|(_, name)| VALUES.contains(name)) {
                    None => bytes(),
                    Some((dtype, name)) => of_arrays(dtype, name, shape.as_deref()),
                }
            }
        };
        Self { name: name.to_owned(), encoding, role, fixed_bytes, stored }
    }
}

/// Values that streaming has arrays of.
const VALUES: [&str; 11] =
    ["uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"];

/// Encoding, length and way of storing arrays of one dtype, which streaming calls `name`.
fn of_arrays(dtype: &str, name: &str, shape: Option<&[Option<u64>]>) -> (String, Option<u64>, Encoding) {
    let of_all = || shape?.iter().copied().collect::<Option<Vec<u64>>>();
    let fixed = || {
        let shape = of_all().filter(|shape| !shape.contains(&0))?;
        let bytes = Form::array(dtype, &shape).ok()?.items_bytes()?;
        // A scalar has no shape that could be told.
        let encoding = match shape.is_empty() {
            true => name.to_owned(),
            false => {
                let axes: Vec<_> = shape.iter().map(u64::to_string).collect();
                format!("ndarray:{name}:{}", axes.join(","))
            }
        };
        Some((encoding, Some(bytes), Encoding::Items))
    };
    fixed().unwrap_or_else(|| (format!("ndarray:{name}"), None, Encoding::ShapeAndItems))
}

/// Length in bytes of what stands before the first sample of `samples`, with a config that is so long.
pub(super) fn head_bytes(samples: u64, config_bytes: u64) -> u64 {
    samples.saturating_add(2).saturating_mul(WORD_BYTES).saturating_add(config_bytes)
}

/// The fields that come first in the config of a shard and in its entry in `index.json`, without brackets.
pub(super) fn first_fields(columns: &[Column], compression: Option<&str>, hashes: &[String]) -> String {
    let encodings = list(columns.iter().map(|column| text(&column.encoding)));
    let names = list(columns.iter().map(|column| text(&column.name)));
    let sizes = list(columns.iter().map(|column| {
        let bytes = column.fixed_bytes;
        bytes.map_or_else(|| "null".to_owned(), |bytes| bytes.to_string())
    }));
    let compression = compression.map_or_else(|| "null".to_owned(), text);
    let hashes = list(hashes.iter().map(|hash| text(hash)));
    format!(
        "\"column_encodings\": {encodings}, \"column_names\": {names}, \"column_sizes\": {sizes}, \
         \"compression\": {compression}, \"format\": \"mds\", \"hashes\": {hashes}"
    )
}

/// The config that stands in every shard.
pub(super) fn config(columns: &[Column], hashes: &[String]) -> String {
    format!("{{{}, \"size_limit\": null, \"version\": 2}}", first_fields(columns, None, hashes))
}

/// Values that are JSON, as a list.
fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

/// A string in JSON as Python's `json.dumps` spells it: in ASCII.
pub(super) fn text(string: &str) -> String {
    let mut out = String::with_capacity(string.len() + 2);
    out.push('"');
    for char in string.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(char),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

/// Word `number` of `bytes`.
pub(super) fn word(bytes: &[u8], number: usize) -> Option<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.get(number).map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_spelled_as_python_does() {
        // json.dumps('a"\\/\n\x00\x1f\x7fé😀')
        assert_eq!(text("a\"\\/\n\0\x1f\x7fé😀"), r#""a\"\\/\n\u0000\u001f\u007f\u00e9\ud83d\ude00""#);
    }
}
