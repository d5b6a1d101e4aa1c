//! The formats: how long a sample's record is, how it is written, how it is read back, what its readers want beside it.
//!
//! A record is everything that a shard holds of one sample, framing and padding included. Its length and the place of
//! the image in it follow from the sample alone, so a plan can fix every byte range before any image is read; the
//! copy engine reads the image into its place and the format writes the rest around it. Where an image's own bytes make
//! its record longer ([`Format::growth`]), the shard is laid out again with what was seen: still a function of the
//! source alone.
//!
//! Each format is a folder here and a line in [`ALL`]; nothing else knows how many there are.

pub mod adopted;
pub mod foreign;
pub mod mds;
pub mod recordio;
pub mod sidecars;
pub mod tfrecord;
pub mod webdataset;

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    image_header::{Header, Kind},
    index::RowRef,
    sample::{Extent, Sample},
};

/// Most components that a written sample has: image, label, metadata.
pub const MAX_WRITTEN: usize = 3;

/// Where things lie in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of the record in bytes, framing and padding included.
    pub record_bytes: u32,
    /// The components in the order of [`Format::components`], the image first; absent beyond.
    pub components: [Extent; MAX_WRITTEN],
}

/// A format by name, and all that decides the bytes of its records beside the samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Name of the format: one of [`ALL`].
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub name: String,
    /// Extension of the image, or `None` to name each by its own kind; where components have extensions.
    pub extension: Option<String>,
    /// Write the label as a component of its own; where labels are components.
    pub cls: bool,
    /// Write class, label and path as a component of its own; where metadata is a component.
    pub json: bool,
    /// What only this format has, by name: [`Entry::settings`] lists it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

fn first() -> String {
    webdataset::NAME.to_owned()
}

fn is_first(name: &str) -> bool {
    name == webdataset::NAME
}

impl Choice {
    /// The format `name` with a label, without metadata, and with its own defaults for all else.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), extension: None, cls: true, json: false, settings: BTreeMap::new() }
    }

    /// Fails where a setting is none that the format has.
    ///
    /// # Errors
    /// Names the setting.
    pub fn check_settings(&self, known: &[Setting]) -> Result<()> {
        match self.settings.keys().find(|key| !known.iter().any(|setting| setting.name == *key)) {
            Some(key) => Err(Error::usage(format!("{} has no setting {key:?}", self.name))),
            None => Ok(()),
        }
    }
}

/// A setting that only one format has.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name in the manifest, and with `-` for `_` on the command line.
    pub name: &'static str,
    /// What it says, for help texts: values and default.
    pub about: &'static str,
}

/// A format that shards are written in.
pub trait Format: Send + Sync {
    /// Name on the command line and in the manifest.
    fn name(&self) -> &'static str;

    /// Names of the components of every sample, the image first; see [`crate::manifest::BY_KIND`].
    fn components(&self) -> &[String];

    /// The settings that a manifest keeps so that [`open`] gives this format again: all of them, defaults spelled out.
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Whether a record's layout depends on [`Sample::path`].
    fn needs_path(&self) -> bool;

    /// Where things lie in the record of `sample`. Of the key, only its length may matter.
    ///
    /// # Errors
    /// When the format cannot hold the sample.
    fn layout(&self, sample: &Sample<'_>) -> Result<Layout>;

    /// Length in bytes of what stands before the first record in a shard of so many samples.
    fn head_bytes(&self, samples: u64) -> u64 {
        let _ = samples;
        0
    }

    /// Writes what stands before the first record: `head` is [`Format::head_bytes`] long, `record_bytes` gives the length
    /// of each record in order.
    ///
    /// # Errors
    /// When the format cannot hold so much.
    fn head(&self, record_bytes: &mut dyn Iterator<Item = u32>, head: &mut [u8]) -> Result<()> {
        let _ = (record_bytes, head);
        Ok(())
    }

    /// Length in bytes of what follows the records, when head and records are `records_bytes` long: all zeros.
    fn tail_bytes(&self, records_bytes: u64) -> u64 {
        let _ = records_bytes;
        0
    }

    /// Length in bytes of head and records that fit a shard of `shard_bytes` together with what follows them.
    fn room_bytes(&self, shard_bytes: u64) -> u64 {
        shard_bytes
    }

    /// Length in bytes of the longest shard that the format can hold.
    fn most_shard_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Length in bytes of shards unless the user says otherwise: what the format's readers are used to.
    fn usual_shard_bytes(&self) -> u64 {
        256 << 20
    }

    /// By how many bytes the record of this image grows beyond its layout because of what the image holds. If it is not
    /// 0, the image is stored in parts that [`whole`] puts together, and reaches to the end of the record.
    fn growth(&self, image: &[u8]) -> u32 {
        let _ = image;
        0
    }

    /// Writes all of `record` but the image, which is in its place already and whole. `record` is as long as the layout
    /// says and [`Format::growth`] of the image more.
    ///
    /// # Errors
    /// When the format cannot hold the sample.
    fn frame(&self, sample: &Sample<'_>, image: &Header, record: &mut [u8]) -> Result<()>;

    /// Checks that `record` is framed as its row and the format's specification say, by parsing it, its own checksums
    /// included.
    ///
    /// # Errors
    /// Names what is wrong and at which byte of the record.
    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()>;

    /// Name of shard `number` of `shards` of the dataset `name`, without the extension that compression adds. It has
    /// [`Format::extension`] at its end.
    fn shard_file(&self, name: &str, number: u64, shards: u64) -> String;

    /// What the names of shards end in: `.tar`; may be empty.
    fn extension(&self) -> &'static str;

    /// What zstd-compressed shards are called beside, or `None` where the format's readers know no such thing.
    fn zstd_extension(&self) -> Option<&'static str> {
        None
    }

    /// Names of the hashes of shard files that sidecars tell; see [`crate::hash::Named`].
    fn file_hashes(&self) -> &[String] {
        &[]
    }

    /// Writes the sidecar `name`, one of [`Entry::sidecars`].
    ///
    /// # Errors
    /// When an index cannot be read, or `out` fails.
    fn sidecar(&self, name: &str, dataset: &sidecars::Dataset<'_>, out: &mut dyn sidecars::Files) -> Result<()> {
        sidecars::write(self.name(), name, dataset, out)
    }

    /// How a person reads these shards, for each reader its name and a line to paste. `folder` is where they are.
    fn recipes(&self, folder: &str, name: &str, shards: u64, compressed: bool) -> Vec<(&'static str, String)>;
}

/// A format in the list of all.
pub struct Entry {
    /// Name on the command line and in the manifest.
    pub name: &'static str,
    /// Other names on the command line.
    pub aliases: &'static [&'static str],
    /// What it is, in a few words for help texts.
    pub about: &'static str,
    /// Whether the components of a sample have extensions, which the user may choose.
    pub has_extensions: bool,
    /// Settings that only this format has.
    pub settings: &'static [Setting],
    /// Sidecars that it can write.
    pub sidecars: &'static [sidecars::Kind],
    /// Makes a writer of it.
    pub open: fn(&Choice) -> Result<Box<dyn Format>>,
    /// How shards that anybody may have written are told and walked.
    pub foreign: &'static dyn foreign::Foreign,
}

/// All formats.
pub static ALL: &[Entry] = &[webdataset::ENTRY, tfrecord::ENTRY, recordio::ENTRY, mds::ENTRY];

/// The entry of the format called `name`, by its own name or another one.
///
/// # Errors
/// When there is none; lists all.
pub fn entry(name: &str) -> Result<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name || entry.aliases.contains(&name)).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
        Error::usage(format!("format {name:?}, this program knows {}", names.join(", ")))
    })
}

/// The format that was chosen.
///
/// # Errors
/// When there is no such format, or a setting is not one of its own or not right.
pub fn open(choice: &Choice) -> Result<Box<dyn Format>> {
    let entry = entry(&choice.name)?;
    if choice.settings.contains_key(adopted::SETTING) {
        return Ok(Box::new(adopted::Adopted::new(entry, choice)));
    }
    choice.check_settings(entry.settings)?;
    (entry.open)(choice)
}

/// The extension of a component whose name in an index is `name`, for an image of `kind`.
pub fn extension(name: &str, kind: Kind) -> &str {
    if name == crate::manifest::BY_KIND { kind.extension() } else { name }
}

/// The image of the sample that `row` is of, from its record: as it lies there, or put together from its parts.
///
/// `None` where the row has no image, or its parts do not make as many bytes as the row says.
pub fn whole<'r>(row: &RowRef<'_>, record: &'r [u8]) -> Option<Cow<'r, [u8]>> {
    let image = row.component(0)?;
    match row.in_parts {
        false => image.of(record).map(Cow::Borrowed),
        true => {
            let stored = record.get(image.offset as usize..)?;
            recordio::join(stored, image.bytes as usize).map(Cow::Owned)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        hash,
        index::{self, Index, Summary},
        sample::Row,
    };

    /// The record that `format` makes of a sample with this payload, and its row, as if it were the first of its shard.
    pub(crate) fn record(
        format: &dyn Format,
        sample: &Sample<'_>,
        payload: &[u8],
        image: Header,
    ) -> Result<(Vec<u8>, Row)> {
        let (layout, growth) = (format.layout(sample)?, format.growth(payload));
        // Dirt: every byte but the image must be written.
        let mut record = vec![0xaa; (layout.record_bytes + growth) as usize];
        record[layout.components[0].offset as usize..][..payload.len()].copy_from_slice(payload);
        format.frame(sample, &image, &mut record)?;
        let row = Row {
            key: sample.key.into(),
            path: sample.path.into(),
            label: sample.label,
            offset: 0,
            record_bytes: record.len() as u32,
            components: layout.components[..format.components().len()].to_vec(),
            content_hash: hash::content(payload),
            frame_hash: 0,
            image,
            in_parts: growth > 0,
        };
        Ok((record, row))
    }

    /// An index of these rows; it knows nothing of the shard.
    pub(crate) fn index(format: &dyn Format, rows: &[Row]) -> Index<Vec<u8>> {
        let components = format.components().to_vec();
        let summary = Summary { components, content_bytes: u64::MAX, shard_bytes: 0, shard_blake3: [0; 32] };
        Index::open(index::write(&summary, rows).unwrap()).unwrap()
    }
}
