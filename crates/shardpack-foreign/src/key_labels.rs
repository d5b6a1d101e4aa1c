//! Labels and names by key, from files beside the samples: label files, `meta_info.txt`, the list `__keys__`.
//!
//! As much memory as the file is long, and 24 bytes a line; a file is at most [`MAX_BYTES`] long.

use std::{fmt, path::Path};

use serde::{
    Deserializer,
    de::{MapAccess, Visitor},
};
use shardpack_format::{
    Error, Result,
    field_names::{self, LABELS},
    text,
};
use shardpack_storage::sys;

/// Names of the field, column or database that holds the name of the sample's file, the likeliest first.
pub(crate) const FILENAMES: [&str; 8] =
    ["filename", "filenames", "file_name", "path", "paths", "name", "key", "__key__"];
/// Longest file.
pub(crate) const MAX_BYTES: u64 = 1 << 30;
/// Keys that a message names.
const SHOWN: usize = 3;
/// Names of the column with the key, beside those of file names.
const KEYS: [&str; 5] = ["key", "id", "image_id", "image", "sample"];

/// Keys, each with its entry.
#[derive(Debug, Default)]
pub(crate) struct KeyLabels {
    text: Vec<u8>,
    rows: Vec<Row>,
    /// Requested keys that are missing: how many, and the first ones.
    unknown: (u64, Vec<String>),
}

#[derive(Debug)]
struct Row {
    /// Offset of the key in the text.
    start: u32,
    key_bytes: u32,
    /// Length of the entry, which follows the key.
    said_bytes: u32,
    is_used: bool,
}

impl KeyLabels {
    /// Reads a file of keys and labels: lines with a space, tab or comma between them, CSV or TSV with a line of names
    /// before, or one JSON object.
    ///
    /// # Errors
    /// If it cannot be read, is too long, has a line without a label, or two labels of one key.
    pub fn of_labels(path: &Path) -> Result<Self> {
        Self::of_label_text(path, &sys::read_at_most(path, MAX_BYTES)?)
    }

    /// As above, from the content of the file.
    ///
    /// # Errors
    /// As [`KeyLabels::of_labels`].
    pub fn of_label_text(path: &Path, bytes: &[u8]) -> Result<Self> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut table = Self::default();
        let filled = match bytes.trim_ascii_start().first() {
            Some(b'{') => table.add_json(bytes),
            _ => table.add_lines(bytes),
        };
        filled.and_then(|()| table.sort()).map_err(|what| Error::usage(what).in_file(path))?;
        match table.rows.is_empty() {
            true => Err(Error::usage("holds no keys").in_file(path)),
            false => Ok(table),
        }
    }

    /// Parses basicsr's list of images at `path`, `0001.png (480,480,3) 1` a line: maps keys to names.
    ///
    /// # Errors
    /// If a key has two different entries.
    pub fn of_meta_info(path: &Path, text: &[u8]) -> Result<Self> {
        let mut table = Self::default();
        for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
            let end = line.windows(2).rposition(|two| two == b" (").unwrap_or(line.len());
            let name = &line[..end];
            let stem = match name.iter().rposition(|byte| *byte == b'.') {
                Some(dot) if dot > 0 && !name[dot..].contains(&b'/') => &name[..dot],
                _ => name,
            };
            table.push(stem, name);
        }
        table.sort().map_err(|what| Error::data(what).in_file(path))?;
        Ok(table)
    }

    /// Keys without entries; `None` if they exceed the limit.
    pub fn of_keys<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Option<Self> {
        let mut table = Self::default();
        keys.for_each(|key| table.push(key, b""));
        table.sort().ok().map(|()| table)
    }

    /// Whether `key` has an entry.
    pub fn has(&self, key: &[u8]) -> bool {
        self.rows.binary_search_by(|row| row.key(&self.text).cmp(key)).is_ok()
    }

    /// The entry of `key`; the request is recorded.
    pub fn get(&mut self, key: &[u8]) -> Option<&[u8]> {
        let found = self.rows.binary_search_by(|row| row.key(&self.text).cmp(key));
        match found {
            Ok(number) => {
                self.rows[number].is_used = true;
                Some(self.rows[number].said(&self.text))
            }
            Err(_) => {
                self.unknown.0 += 1;
                if self.unknown.1.len() < SHOWN {
                    self.unknown.1.push(shown(key));
                }
                None
            }
        }
    }

    /// Describes requested keys that are missing; `name` is the name of the list.
    pub fn unknown(&self, name: &str) -> Option<String> {
        let (count, examples) = &self.unknown;
        (*count > 0).then(|| line(name, *count, "of the source not in it", examples))
    }

    /// Describes keys that were never requested.
    pub fn unused(&self, name: &str) -> Option<String> {
        let unused = || self.rows.iter().filter(|row| !row.is_used);
        let examples: Vec<_> = unused().take(SHOWN).map(|row| shown(row.key(&self.text))).collect();
        let count = unused().count() as u64;
        (count > 0).then(|| line(name, count, "in it without an entry", &examples))
    }

    fn push(&mut self, key: &[u8], said: &[u8]) {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(key);
        self.text.extend_from_slice(said);
        self.rows.push(Row { start, key_bytes: key.len() as u32, said_bytes: said.len() as u32, is_used: false });
    }

    /// Puts rows in the order of keys, each once.
    fn sort(&mut self) -> Result<(), String> {
        if self.text.len() as u64 > MAX_BYTES {
            return Err(format!("more than {MAX_BYTES} bytes of keys and labels"));
        }
        let text = &self.text;
        self.rows.sort_by(|a, b| a.key(text).cmp(b.key(text)));
        let two = self
            .rows
            .windows(2)
            .find(|two| two[0].key(text) == two[1].key(text) && two[0].said(text) != two[1].said(text));
        if let Some([first, second]) = two {
            let [first_said, second_said] = [first, second].map(|row| shown(row.said(text)));
            return Err(format!("the key {} has two labels: {first_said} and {second_said}", shown(first.key(text))));
        }
        self.rows.dedup_by(|a, b| a.key(text) == b.key(text));
        Ok(())
    }

    fn add_lines(&mut self, bytes: &[u8]) -> Result<(), String> {
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let separator = [b'\t', b','].into_iter().find(|byte| first.contains(byte)).unwrap_or(b' ');
        let (mut columns, mut is_first) = ((0, 1), true);
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            let fields = fields(line, separator);
            if std::mem::take(&mut is_first)
                && let Some(named) = named(&fields)
            {
                let stands_twice = |at: &usize| fields.iter().filter(|field| **field == fields[*at]).count() > 1;
                if let Some(at) = [named.0, named.1].into_iter().find(stands_twice) {
                    return Err(format!("line {}: column {} stands twice", number + 1, shown(&fields[at])));
                }
                columns = named;
                continue;
            }
            match (fields.get(columns.0), fields.get(columns.1)) {
                (Some(key), Some(label)) if !key.is_empty() && !label.is_empty() => self.push(key, label),
                _ => {
                    return Err(format!(
                        "line {}: no key and label in {}",
                        number + 1,
                        shown(&line[..line.len().min(80)])
                    ));
                }
            }
        }
        Ok(())
    }

    fn add_json(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        json.deserialize_map(Labels(self)).and_then(|()| json.end()).map_err(|error| format!("JSON: {error}"))
    }
}

impl Row {
    fn key<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start as usize..][..self.key_bytes as usize]
    }

    fn said<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start as usize + self.key_bytes as usize..][..self.said_bytes as usize]
    }
}

/// Takes `{key: label}` into a table as it is read.
struct Labels<'t>(&'t mut KeyLabels);

impl<'de> Visitor<'de> for Labels<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of keys with labels, numbers or text")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Label {
            Number(i64),
            Text(String),
        }
        while let Some((key, label)) = map.next_entry::<String, Label>()? {
            let label = match label {
                Label::Number(number) => number.to_string(),
                Label::Text(text) => text,
            };
            self.0.push(key.as_bytes(), label.as_bytes());
        }
        Ok(())
    }
}

/// The fields of a line. Spaces may be in a key, as in lists of Caffe: the last one separates.
fn fields(line: &[u8], separator: u8) -> Vec<Vec<u8>> {
    if separator == b' ' {
        let line = line.trim_ascii();
        return match line.iter().rposition(u8::is_ascii_whitespace) {
            Some(at) => vec![line[..at].trim_ascii().to_vec(), line[at + 1..].to_vec()],
            None => vec![line.to_vec()],
        };
    }
    let (mut fields, mut field, mut is_quoted, mut bytes) = (Vec::new(), Vec::new(), false, line.iter().peekable());
    while let Some(byte) = bytes.next() {
        match *byte {
            b'"' if is_quoted && bytes.next_if_eq(&&b'"').is_some() => field.push(b'"'),
            b'"' if is_quoted || field.is_empty() => is_quoted = !is_quoted,
            byte if byte == separator && !is_quoted => fields.push(std::mem::take(&mut field).trim_ascii().to_vec()),
            byte => field.push(byte),
        }
    }
    fields.push(field.trim_ascii().to_vec());
    fields
}

/// The columns of key and label, if these are names of columns.
fn named(fields: &[Vec<u8>]) -> Option<(usize, usize)> {
    let text = |field: &Vec<u8>| String::from_utf8_lossy(field).into_owned();
    let texts: Vec<_> = fields.iter().map(text).collect();
    let place = |names: &[&str]| {
        let found = field_names::ranked(texts.iter().map(String::as_str), names);
        found.first().map(|(at, _)| *at)
    };
    let label = place(&LABELS)?;
    // `isic_id`, `photo_id`.
    let is_id = |field: &Vec<u8>| field.to_ascii_lowercase().ends_with(b"_id");
    let id = || fields.iter().enumerate().position(|(at, field)| at != label && is_id(field));
    Some((place(&KEYS).or_else(|| place(&FILENAMES)).filter(|key| *key != label).or_else(id)?, label))
}

/// A line for `count` keys with a few examples.
fn line(name: &str, count: u64, what: &str, examples: &[String]) -> String {
    let keys = if count == 1 { "key" } else { "keys" };
    let more = if count > examples.len() as u64 { ", …" } else { "" };
    format!("{name}: {count} {keys} {what}: {}{more}", examples.join(", "))
}

fn shown(bytes: &[u8]) -> String {
    format!("{:?}", text::shown(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<KeyLabels> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        KeyLabels::of_labels(file.path())
    }

    #[test]
    fn files_of_every_kind_say_the_same() {
        let rows = [
            "a b 1\nc 2\n",
            "a b\t1\r\nc\t2",
            "\u{feff}a b,1\n\nc,2\n",
            "label,width,key\n1,9,\"a b\"\n2,9,c\n",
            "Filename\tClass\na b\t1\nc\t2\n",
            "isic_id,target,patient_id\na b,1,x\nc,2,y\n",
            "{\"a b\": 1, \"c\": \"2\"}",
        ];
        for text in rows {
            let mut table = table(text).unwrap();
            assert_eq!(table.get(b"a b"), Some(&b"1"[..]), "{text}");
            assert_eq!(table.get(b"c"), Some(&b"2"[..]), "{text}");
            assert_eq!(table.get(b"label"), None, "{text}");
        }
        assert_eq!(table("\"a \"\"b\"\"\",x").unwrap().get(b"a \"b\""), Some(&b"x"[..]));
    }

    #[test]
    fn what_says_nothing_or_two_things_is_refused() {
        for text in ["", "\n", "a\n", "a,1\nb\n", "a,1\na,2\n", "{\"a\": [1]}", "{\"a\": 1} x", "{\"a\": 1, \"a\": 2}"]
        {
            table(text).expect_err(text);
        }
        assert_eq!(table("a,1\na,1\n").unwrap().rows.len(), 1);
    }

    #[test]
    fn keys_on_one_side_alone_are_counted_and_named() {
        let mut table = table("a 1\nb 1\nc 1\nd 1\ne 1\n").unwrap();
        for key in ["a", "x"] {
            table.get(key.as_bytes());
        }
        assert_eq!(table.unknown("list").unwrap(), "list: 1 key of the source not in it: \"x\"");
        assert_eq!(table.unused("list").unwrap(), "list: 4 keys in it without an entry: \"b\", \"c\", \"d\", …");
        table.unknown = (0, Vec::new());
        for key in ["b", "c", "d", "e"] {
            table.get(key.as_bytes());
        }
        assert_eq!((table.unknown("list"), table.unused("list")), (None, None));
    }

    #[test]
    fn names_of_meta_info_stand_under_their_keys() {
        let text = b"a/0001.png (480,480,3) 1\nb (1) c.jpg (2,2,1) 1\nplain\n";
        let mut table = KeyLabels::of_meta_info(Path::new("meta_info.txt"), text).unwrap();
        for (key, name) in [("a/0001", "a/0001.png"), ("b (1) c", "b (1) c.jpg"), ("plain", "plain")] {
            assert_eq!(table.get(key.as_bytes()), Some(name.as_bytes()), "{key}");
        }
    }
}
