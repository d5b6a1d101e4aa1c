//! The ledger: every image that was found but is not in the shards, with the reason; and notes on some packed
//! images.

use std::{fmt, ops::Deref, path::Path};

use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result, hash,
    manifest::{self, Blake3, Counts},
};

use crate::sys;

/// Outcome for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The image cannot be packed.
    Skipped,
    /// The user's options leave the image out.
    Filtered,
    /// Another image in the shards has the same bytes.
    Duplicate,
    /// The image is in the shards, with a note.
    Kept,
}

impl Fate {
    /// Counts an image of this fate that is not yet among the packed images of `counts`.
    pub fn count(self, counts: &mut Counts) {
        let fate = match self {
            Self::Skipped => &mut counts.skipped,
            Self::Filtered => &mut counts.filtered,
            Self::Duplicate => &mut counts.duplicates,
            // Counted when it is packed.
            Self::Kept => return,
        };
        *fate += 1;
        counts.discovered += 1;
    }
}

/// Why an image was left out: one line of plain text; line breaks and control characters of files and libraries
/// become spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason(String);

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        let is_odd = |c: char| c.is_control() || c.is_whitespace();
        Self(text.split(is_odd).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An image that is not in the shards, or that has a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Path relative to the dataset's root.
    pub path: Vec<u8>,
    /// Number of its class; `None` if the class is unknown, or an unreadable file may hold more than one image.
    pub class: Option<u32>,
    /// Outcome for the image.
    pub fate: Fate,
    /// The reason.
    pub reason: Reason,
}

/// Order of the ledger: by class, then path.
pub fn order(a: &Unpacked, b: &Unpacked) -> std::cmp::Ordering {
    (a.class, &a.path).cmp(&(b.class, &b.path))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<u32>,
    fate: Fate,
    reason: String,
}

/// The lines of `ledger.jsonl` for `entries`, which must be in order.
///
/// # Errors
/// Never for text; the type is that of the JSON writer.
pub fn write<'a>(entries: impl IntoIterator<Item = &'a Unpacked>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for entry in entries {
        let line = Line {
            path: String::from_utf8_lossy(&entry.path).into_owned(),
            path_hex: std::str::from_utf8(&entry.path).is_err().then(|| hash::hex(&entry.path)),
            label: entry.class,
            fate: entry.fate,
            reason: entry.reason.to_string(),
        };
        serde_json::to_writer(&mut out, &line).map_err(|error| Error::data(format!("cannot write json: {error}")))?;
        out.push(b'\n');
    }
    Ok(out)
}

/// Writes `ledger.jsonl` of a dataset in `dst` through `work`, for `entries` in order; no file if there are
/// none.
///
/// # Errors
/// If it cannot be written.
pub fn seal(entries: &[Unpacked], dst: &Path, work: &Path) -> Result<Option<manifest::File>> {
    if entries.is_empty() {
        return Ok(None);
    }
    let bytes = write(entries)?;
    sys::write_durably(work, &dst.join(manifest::LEDGER_FILE), &bytes)?;
    Ok(Some(manifest::File {
        file: manifest::LEDGER_FILE.to_owned(),
        bytes: bytes.len() as u64,
        blake3: Blake3(hash::file(&bytes)),
    }))
}

/// Parses the lines of a ledger.
///
/// # Errors
/// Names the first invalid line.
pub fn read(bytes: &[u8]) -> Result<Vec<Unpacked>> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').scan(0u64, |at, line| {
        let start = *at;
        *at += line.len() as u64;
        Some((start, line))
    });
    lines
        .map(|(start, line)| {
            let line: Line = serde_json::from_slice(line)
                .map_err(|error| Error::data(format!("not a line of a ledger: {error}")).at_byte(start))?;
            let path = match &line.path_hex {
                Some(digits) => {
                    hash::unhex(digits).ok_or_else(|| Error::data("path_hex is not hexadecimal").at_byte(start))?
                }
                None => line.path.into_bytes(),
            };
            Ok(Unpacked { path, class: line.label, fate: line.fate, reason: line.reason.into() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let entry = |path: &[u8], fate| Unpacked {
            path: path.into(),
            class: (fate == Fate::Skipped).then_some(3),
            fate,
            reason: "empty \"file\"".into(),
        };
        let entries = [entry(b"a/b.jpg", Fate::Skipped), entry(b"a/\xff\n.jpg", Fate::Filtered)];
        let bytes = write(&entries).unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 2);
        assert_eq!(read(&bytes).unwrap(), entries);
        assert_eq!(read(b"{}\n").unwrap_err().location().byte, Some(0));
    }

    #[test]
    fn a_reason_is_words_on_one_line_whatever_it_was_made_of() {
        let rows = [
            ("empty file", "empty file"),
            ("damaged:\n  at byte 3\r\n", "damaged: at byte 3"),
            ("a\u{1b}[2Jb\u{2028}c\td", "a [2Jb c d"),
        ];
        for (text, plain) in rows {
            assert_eq!(&*Reason::from(text), plain);
            assert_eq!(Reason::from(plain), Reason::from(text.to_owned()));
        }
    }
}
