//! Clues: the facts about files that decided how a list is read, so that a later look reads the list in the same way.
//!
//! Holds at all times: a clue decides only the form of the list. A file that a clue names may be gone, and is looked up like every other.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result};

/// Facts about the files of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clues {
    /// Fields that were files.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    files: BTreeSet<String>,
    /// Fields that were files without their extension.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    stems: BTreeSet<String>,
    /// The first extension that a path lacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extension: Option<String>,
    /// Whether paths with a slash at their start are relative to the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) absolute: Option<bool>,
    /// Whether paths have a number behind them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numbered: Option<bool>,
}

impl Clues {
    /// Parses the text that [`Clues::text`] returns.
    ///
    /// # Errors
    /// If the text is invalid.
    pub fn of_text(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::data(format!("{text:?} are no clues of a list: {error}")))
    }

    /// The clues as JSON; `None` if there are none.
    pub fn text(&self) -> Option<String> {
        (*self != Self::default()).then(|| serde_json::json!(self).to_string())
    }

    /// Whether `path` was a file.
    pub(super) fn has_file(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.files.contains(path))
    }

    /// Whether `path` was a file without its extension.
    pub(super) fn has_stem(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.stems.contains(path))
    }

    /// Adds a file. A path that is not UTF-8 is no clue.
    pub(super) fn add_file(&mut self, path: &[u8]) {
        self.files.extend(std::str::from_utf8(path).map(str::to_owned));
    }

    /// Adds a file without its extension.
    pub(super) fn add_stem(&mut self, path: &[u8]) {
        self.stems.extend(std::str::from_utf8(path).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clues_are_read_as_they_are_written() {
        assert_eq!(Clues::default().text(), None);
        let mut clues = Clues { extension: Some(".wav".to_owned()), absolute: Some(false), ..Clues::default() };
        clues.add_file(b"a b.jpg");
        clues.add_file(b"\xff.jpg");
        clues.add_stem(b"0001");
        let text = clues.text().unwrap();
        assert_eq!(text, r#"{"absolute":false,"extension":".wav","files":["a b.jpg"],"stems":["0001"]}"#);
        assert_eq!(Clues::of_text(&text).unwrap(), clues);
        assert!(clues.has_file(b"a b.jpg") && !clues.has_file(b"\xff.jpg") && clues.has_stem(b"0001"));
        for wrong in ["", "7", "{\"files\":7}", "{\"other\":1}"] {
            assert!(Clues::of_text(wrong).is_err(), "{wrong}");
        }
    }
}
