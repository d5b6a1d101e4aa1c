//! A kind of files that is only read: its names, its detection, and its functions.

use std::borrow::Cow;

use shardpack_format::{
    Result,
    formats::foreign::{Entries, FieldSelection, Walk},
};

use super::{
    CancelCheck, FileLocation, ShardFile,
    tables::known::{OddSplits, Outline},
};

/// A kind that is read but not written.
pub struct Entry {
    /// Name on the command line, and an extension of its files.
    pub(crate) name: &'static str,
    /// Other extensions.
    pub(crate) extensions: &'static [&'static str],
    /// Whether an uncompressed file that begins with these bytes is of the kind.
    pub(crate) is: fn(&[u8]) -> bool,
    /// Whether record offsets are positions in the file. Otherwise they count in the concatenated contents of the records.
    pub(crate) has_places: bool,
    /// Whether the order of the records has no meaning.
    pub(crate) is_unordered: bool,
    /// Whether the records have the keys and values that the user chose.
    pub(crate) takes: fn(&Entries) -> bool,
    /// The last transaction of a file of this length; 0 if it is unknown.
    pub(crate) transaction: fn(&FileLocation, u64) -> u64,
    // As the functions of the same names of `ShardFile`.
    pub(crate) walk: fn(&ShardFile, &FieldSelection, CancelCheck<'_>) -> Result<Box<dyn Walk>>,
    pub(crate) image: fn(&[u8], u32) -> Result<Cow<'_, [u8]>>,
    pub(crate) component: fn(&[u8], u32) -> Result<Vec<u8>>,
    /// Number of bytes to fetch for a component of this recipe; `None` for the bytes of the image.
    pub(crate) component_bytes: fn(u32) -> Option<usize>,
    pub(crate) classes: fn(&ShardFile, &FieldSelection) -> Result<Vec<Vec<u8>>>,
    pub(crate) splits: fn(&ShardFile, &FieldSelection) -> Result<Vec<String>>,
    pub(crate) outline: fn(&ShardFile, &FieldSelection) -> Result<Option<Outline>>,
    pub(crate) odd_splits: fn(&ShardFile, &FieldSelection) -> Result<OddSplits>,
}

impl Entry {
    /// A kind of concatenated contents, without classes and splits.
    pub(crate) const fn new(
        name: &'static str,
        is: fn(&[u8]) -> bool,
        walk: fn(&ShardFile, &FieldSelection, CancelCheck<'_>) -> Result<Box<dyn Walk>>,
    ) -> Self {
        Self {
            name,
            extensions: &[],
            is,
            has_places: false,
            is_unordered: false,
            takes: |_| false,
            walk,
            image: |fetched, _| Ok(Cow::Borrowed(fetched)),
            component: |fetched, _| Ok(fetched.to_vec()),
            component_bytes: |_| None,
            transaction: |_, _| 0,
            classes: |_, _| Ok(Vec::new()),
            splits: |_, _| Ok(Vec::new()),
            outline: |_, _| Ok(None),
            odd_splits: |_, _| Ok(OddSplits::default()),
        }
    }
}
