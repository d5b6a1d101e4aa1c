//! Files of components that are in other folders than the images: `--with 'mask=../masks/{stem}.png'`, and `--file-column mask` of lists.
//!
//! Holds at all times: a file that the pattern matches is no sample; it is claimed by an image, or counted as left over. An image whose file
//! is missing is reported, or packed without it, as `--on-missing` says.

use std::collections::BTreeMap;

use shardpack_format::{component::Component, hash, text};

use super::{filter::PathFilter, options::OnMissing};
use crate::{component_table::Cell, ledger::Fate};

/// Why a file is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub fate: Fate,
    pub why: String,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { fate: Fate::Skipped, why }
    }
}

/// The reason for an image that is itself the file of its component `kind`.
pub(super) fn is_its_own(kind: &Component) -> Refused {
    format!("is a file of {} itself, and no image", kind.with_value()).into()
}

/// The cell of an image without the file `path` of `kind`; `path` is `None` if the pattern gives none in the source.
pub(super) fn missing(kind: &Component, path: Option<&[u8]>, policy: Option<OnMissing>) -> Result<Cell, Refused> {
    let why = || match (path, kind.file_column()) {
        (Some(path), _) => format!("its {} is missing: {}", kind.name(), text::shown(path)),
        (None, Some(column)) => format!("its {} is missing: column {column} is empty", kind.name()),
        (None, None) => format!("its {} is missing: {} gives no file in the source", kind.name(), kind.with_value()),
    };
    match policy.unwrap_or(if kind.is_path() || kind.conversion().is_some() {
        OnMissing::Error
    } else {
        OnMissing::Empty
    }) {
        OnMissing::Empty => Ok(Cell::ABSENT),
        OnMissing::Error => Err(Refused { fate: Fate::Skipped, why: why() }),
        OnMissing::Skip => Err(Refused { fate: Fate::Filtered, why: why() }),
    }
}

/// The files in a source that match the patterns of components, and those that images claim, as hashes of their paths.
#[derive(Debug, Default)]
pub(super) struct Companions {
    seen: Vec<(u64, usize)>,
    claimed: Vec<u64>,
}

impl Companions {
    /// Whether the file `name` in `folder` matches the pattern of a component; remembers it.
    pub fn sees(&mut self, components: &[Component], folder: &[u8], name: &[u8]) -> bool {
        let kind = components.iter().position(|kind| kind.is_path() && kind.takes(folder, name));
        self.seen.extend(kind.map(|kind| (hash::block(&super::names::join(folder, name)), kind)));
        kind.is_some()
    }

    /// Remembers the files that the image `name` in `folder` has by the patterns.
    pub fn claim(&mut self, components: &[Component], folder: &[u8], name: &[u8]) {
        let paths = components.iter().filter(|kind| kind.is_path()).filter_map(|kind| kind.path_of(folder, name));
        self.claimed.extend(paths.map(|path| hash::block(&path)));
    }

    /// Adds those of another folder.
    pub fn append(&mut self, other: &mut Self) {
        self.seen.append(&mut other.seen);
        self.claimed.append(&mut other.claimed);
    }

    /// Numbers of files that no image claims, by reason.
    pub fn left_over(mut self, components: &[Component], keep: &PathFilter) -> BTreeMap<String, u64> {
        self.claimed.sort_unstable();
        let mut ignored = BTreeMap::new();
        for (_, kind) in self.seen.iter().filter(|(path, _)| self.claimed.binary_search(path).is_err()) {
            let Some(kind) = components.get(*kind) else { continue };
            let file = if kind.conversion().is_some() { "label file of " } else { "" };
            *ignored.entry(format!("{file}{} without its {}", kind.name(), keep.payload())).or_default() += 1;
        }
        ignored
    }
}
