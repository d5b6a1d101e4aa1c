//! Shards that another tool wrote and that stay unchanged: an index locates their images and components, and hashes cover
//! every byte; how their records are made is unknown.
//!
//! Records tile the shard: the first begins at byte 0, each continues to the start of the next, and the last ends
//! with the file.

use std::{collections::BTreeMap, path::Path};

use super::{Choice, Entry, Format, Layout, recordio};
use crate::{
    Error, Result,
    image_header::Header,
    index::RowRef,
    sample::{Extent, Sample},
};

/// The setting in a manifest that marks adopted shards.
pub const SETTING: &str = "adopted";

/// Shards of the format `entry` that another tool wrote.
pub(super) struct Adopted {
    entry: &'static Entry,
    components: Vec<String>,
}

impl Adopted {
    pub fn new(entry: &'static Entry, choice: &Choice) -> Self {
        let image = choice.extension.clone().unwrap_or_else(|| crate::manifest::BY_KIND.to_owned());
        let others = choice.components.iter().map(|one| one.name().to_owned());
        Self { entry, components: std::iter::once(image).chain(others).collect() }
    }

    fn no_writer(&self) -> Error {
        Error::usage("these shards were adopted: they are read and checked, and never written")
            .help("copy a damaged shard again from where it came from")
    }
}

impl Format for Adopted {
    fn name(&self) -> &'static str {
        self.entry.name
    }

    fn components(&self) -> &[String] {
        &self.components
    }

    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(SETTING.to_owned(), "true".to_owned())])
    }

    fn needs_path(&self) -> bool {
        false
    }

    fn layout(&self, _: &Sample<'_>) -> Result<Layout> {
        Err(self.no_writer())
    }

    /// Only RecordIO has images in parts that are adopted.
    fn join(&self, _: u64, image: Extent, record: &[u8]) -> Option<Vec<u8>> {
        recordio::join(record.get(image.offset as usize..)?, image.bytes as usize)
    }

    fn frame(&self, _: &Sample<'_>, _: &Header, _: &mut [u8]) -> Result<()> {
        Err(self.no_writer())
    }

    /// Accepts every record: the caller has compared the hashes, and no framing is known.
    fn check(&self, _: &RowRef<'_>, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn shard_file(&self, name: &str, number: u64, _: u64) -> String {
        format!("{name}-{number}")
    }

    fn extension(&self) -> &'static str {
        ""
    }

    fn is_written(&self) -> bool {
        false
    }

    fn recipes(&self, _: &Path, _: &str, _: u64, _: bool) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
