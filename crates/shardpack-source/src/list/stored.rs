//! What describes a list: its columns, its format, and its form in a plan file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// User settings for a list; unset fields are detected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Root of relative paths, as a folder or URL. All files must be below the root.
    pub root: Option<PathBuf>,
    /// Column with the image path.
    pub path: Option<String>,
    /// Column with the label.
    pub label: Option<String>,
    /// Column with the split name.
    pub split: Option<String>,
    /// Columns with paths of files that become components: `COLUMN`, `NAME=COLUMN`, or `none` for no further column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Column with several classes, as `COLUMN` or `COLUMN:SEPARATOR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_label: Option<String>,
    /// Columns whose values are arrays, as `COLUMN` or `COLUMN:DTYPE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

impl Columns {
    /// Whether no setting is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// File format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Fields separated by commas, semicolons or tabs.
    Csv,
    /// Lines `path label`.
    Text,
    /// One JSON object a line.
    Jsonl,
    /// A JSON array of objects.
    Array,
    Parquet,
    Coco,
    MmLab,
    /// A JSON object of files.
    Mapping,
}

/// A list as a plan file stores it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredList {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) root: PathBuf,
    pub(super) columns: Columns,
}
