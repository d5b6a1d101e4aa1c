//! Columns of a written shard, and JSON as Python writes it, shared by writer and sidecar; length helpers, shared with the
//! reader.

use std::fmt::Write;

use crate::{
    component::{Form, Kind, Type, numpy_name},
    formats::encoding::Encoding,
};

/// Length in bytes of each length and offset.
pub(super) const WORD_BYTES: u64 = 4;
/// Length in bytes of a label.
pub(super) const LABEL_BYTES: u64 = 8;

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Image,
    Label,
    Filename,
    /// The source's own component, by its number among the components.
    Component(usize),
}

/// A column of a written shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    pub encoding: String,
    pub role: Role,
    /// Length of each value in bytes; `None` if each sample stores its own length.
    pub fixed_bytes: Option<u64>,
    /// Encoding of the values.
    pub stored: Encoding,
}

impl Column {
    /// A column whose values are stored unchanged.
    pub fn new(name: &str, encoding: &str, role: Role) -> Self {
        let fixed_bytes = (role == Role::Label).then_some(LABEL_BYTES);
        Self { name: name.to_owned(), encoding: encoding.to_owned(), role, fixed_bytes, stored: Encoding::Content }
    }

    /// The column for values of a type, with streaming's encoding for it. Types without an encoding, and values that samples may lack,
    /// are stored as content in a `bytes` column: every sample has every column, and streaming decodes each value.
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

/// Item types of arrays that streaming supports.
const VALUES: [&str; 11] =
    ["uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"];

/// Encoding, length and stored form for arrays of one dtype; `name` is streaming's name of the dtype.
fn of_arrays(dtype: &str, name: &str, shape: Option<&[Option<u64>]>) -> (String, Option<u64>, Encoding) {
    let of_all = || shape?.iter().copied().collect::<Option<Vec<u64>>>();
    let fixed = || {
        let shape = of_all().filter(|shape| !shape.contains(&0))?;
        let bytes = Form::array(dtype, &shape).ok()?.items_bytes()?;
        // A scalar has no shape to write into the encoding.
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

/// Length in bytes of everything before the first of `samples` samples, with a config of `config_bytes`.
pub(super) fn head_bytes(samples: u64, config_bytes: u64) -> u64 {
    samples.saturating_add(2).saturating_mul(WORD_BYTES).saturating_add(config_bytes)
}

/// The first fields of both the config of a shard and its entry in `index.json`, without brackets.
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

/// The config in every shard.
pub(super) fn config(columns: &[Column], hashes: &[String]) -> String {
    format!("{{{}, \"size_limit\": null, \"version\": 2}}", first_fields(columns, None, hashes))
}

/// A JSON list of values that are already JSON.
fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

/// A JSON string as Python's `json.dumps` writes it: in ASCII.
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

/// Word `number` of `bytes`, from 0; `None` if `bytes` is too short.
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
