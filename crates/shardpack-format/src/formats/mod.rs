//! The shard formats: lengths of records, writers, readers, and the sidecars for their readers.
//!
//! A record is everything that a shard holds of one sample, framing and padding included. The record's length and the position of
//! the image in it follow from the sample alone, so a plan can fix every byte range before any image is read. The
//! copy engine reads the image into its position, and the format writes the rest around it. If the bytes of an image make
//! its record longer ([`Format::growth`]), the shard is laid out again with the new lengths: still a function of the
//! source alone. If a format has headers at fixed offsets of the shard ([`Format::block_headers`]), they lengthen the records that
//! they interrupt: a function of the lengths of the records before.
//!
//! Each format is a folder here and a line in [`ALL`]; no other code depends on the number of formats.

pub mod adopted;
pub mod block_headers;
mod choice_settings;
mod encoding;
pub mod foreign;
pub mod mds;
pub mod recordio;
pub mod sidecars;
pub mod tfrecord;
pub mod webdataset;

use std::{borrow::Cow, collections::BTreeMap, ops::Range, path::Path};

use serde::{Deserialize, Serialize};

pub use choice_settings::{component_classes, declared_types};

use self::foreign::FieldSelection;
use crate::{
    Error, Result,
    component::{self, Component, Form},
    image_header::{Header, Kind},
    index::RowRef,
    manifest::BY_KIND,
    sample::{Extent, Sample},
};

use block_headers::BlockHeaders;
use encoding::Encoding;

/// Maximum number of components in a written sample: image, label, metadata, and the source's own components.
pub const MAX_WRITTEN: usize = 3 + component::MAX_DATASET_COMPONENTS;

/// Kind under which samples of values are counted.
const VALUES: &str = "values";
/// Positions in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of the record in bytes, framing and padding included.
    pub record_bytes: u32,
    /// The components in the order of [`Format::components`], the image first; the rest are [`Extent::ABSENT`].
    pub components: [Extent; MAX_WRITTEN],
}

/// Names of the class numbers in components, by the name of the component.
pub type ComponentClasses = BTreeMap<String, Vec<String>>;

/// A format by name, with all choices beside the samples that affect the bytes of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Name of the format: one of [`ALL`].
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub name: String,
    /// Extension of the image, or `None` to name each by its own kind; for formats whose components have extensions.
    pub extension: Option<String>,
    /// The payload, the first component, if samples are no images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Component>,
    /// Extensions or patterns of the payload files in a tree; empty for image files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Fractions and seed that divided a source without splits into splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fractions: Option<String>,
    /// Path in the source with `{split}`: the folders that divided it into splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_folders: Option<String>,
    /// Pattern of file names that found the labels of a tree, instead of its folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_pattern: Option<String>,
    /// Class names of the objects in a component of class numbers, by the name of the component: number 0 is the first name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub component_classes: ComponentClasses,
    /// Facts about the files of a list that decided how the list was read, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_clues: Option<String>,
    /// The user's choices for fields of the source's records, except the choice of components ([`FieldSelection::components`]).
    #[serde(default, skip_serializing_if = "FieldSelection::is_unsaid")]
    pub wanted: FieldSelection,
    /// Write the label as a separate component, in formats with label components.
    pub cls: bool,
    /// Write class, label and path: as a separate component in formats with metadata components, or inside the source's text of each
    /// sample, if the source has text.
    pub json: bool,
    /// The source's own components, after all others.
    #[serde(default, rename = "beside", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// Settings of this format alone, by name: [`Entry::settings`] lists them.
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
    /// The format `name` with a label, without metadata, and otherwise with its own defaults.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            extension: None,
            payload: None,
            files: Vec::new(),
            fractions: None,
            split_folders: None,
            label_pattern: None,
            component_classes: ComponentClasses::new(),
            list_clues: None,
            wanted: FieldSelection::default(),
            cls: true,
            json: false,
            components: Vec::new(),
            settings: BTreeMap::new(),
        }
    }

    /// The payload, if it is no image, and the source's own components. Each has its number among the components of the format and its
    /// name as a column or feature: without extension, unless two would have the same name.
    pub(crate) fn columns(&self) -> Vec<(usize, &Component, String)> {
        let all = self
            .payload
            .iter()
            .map(|payload| (0, payload))
            .chain(self.components.iter().zip(1..).map(|(one, n)| (n, one)));
        let is_alone = |one: &Component| {
            let same = self.payload.iter().chain(&self.components).filter(|other| other.column() == one.column());
            same.count() == 1
        };
        let name = |one: &Component| if is_alone(one) { one.column() } else { one.name() }.to_owned();
        all.map(|(number, one)| (number, one, name(one))).collect()
    }

    /// Whether the source has a text for each sample that is written.
    pub fn has_text(&self) -> bool {
        self.components.iter().any(Component::is_text)
    }

    /// Whether the source's own components of `other` are a subset of these.
    pub fn components_cover(&self, other: &Self) -> bool {
        other.components.iter().all(|one| self.components.contains(one))
    }

    /// Whether payloads are values instead of files.
    pub fn has_values(&self) -> bool {
        self.payload.as_ref().is_some_and(|payload| payload.kind().is_some())
    }

    /// The parsed header of this payload. If samples are no images: [`Header::NONE`], except for an array, whose header has its kind.
    pub fn header_of(&self, payload: &[u8]) -> Header {
        let is_npy = |one: &Component| one.name() == Kind::Npy.extension();
        match &self.payload {
            None => Header::parse(payload),
            Some(one) if is_npy(one) && Kind::detect(payload) == Kind::Npy => Header::parse(payload),
            Some(_) => Header::NONE,
        }
    }

    /// Kind of the payload with this header, which came from `path`: the kind of the image, or the extension of the file if samples are
    /// no images.
    pub fn kind_of(&self, image: &Header, path: &[u8]) -> Cow<'static, str> {
        if self.payload.is_none() || image.kind != Kind::Unknown {
            return Cow::Borrowed(image.kind.name());
        }
        if self.has_values() {
            return Cow::Borrowed(VALUES);
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        match name.len() - component::stem(name).len() {
            0 | 1 => Cow::Borrowed(Kind::Unknown.name()),
            dot => Cow::Owned(String::from_utf8_lossy(&name[name.len() - dot + 1..]).to_ascii_lowercase()),
        }
    }

    /// Checks that the format has every setting.
    ///
    /// # Errors
    /// If the format has no such setting; the message has its name.
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
    /// Values and default, for help texts.
    pub about: &'static str,
}

/// A format that shards are written in.
pub trait Format: Send + Sync {
    /// Name on the command line and in the manifest.
    fn name(&self) -> &'static str;

    /// Names of the components of every sample, the image first; see [`crate::manifest::BY_KIND`].
    fn components(&self) -> &[String];

    /// The settings that a manifest stores so that [`open`] returns this format again: all settings, defaults included.
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Whether a record's layout depends on [`Sample::path`].
    fn needs_path(&self) -> bool;

    /// Positions in the record of `sample`, without [block headers](Format::block_headers). The key may matter by its length only.
    ///
    /// # Errors
    /// If the format cannot hold the sample.
    fn layout(&self, sample: &Sample<'_>) -> Result<Layout>;

    /// Length in bytes of the shard head, which precedes the first record, for a shard of `samples` samples.
    fn head_bytes(&self, samples: u64) -> u64 {
        let _ = samples;
        0
    }

    /// Writes the shard head: `head` is [`Format::head_bytes`] long, `record_bytes` gives the length
    /// of each record in order.
    ///
    /// # Errors
    /// If the format cannot hold so many bytes.
    fn head(&self, record_bytes: &mut dyn Iterator<Item = u32>, head: &mut [u8]) -> Result<()> {
        let _ = (record_bytes, head);
        Ok(())
    }

    /// Headers at fixed offsets of the shard, which also interrupt records. Head and tail contain the headers at their own offsets.
    ///
    /// A format with block headers has no component beside the image: only the image can be stored in parts.
    fn block_headers(&self) -> Option<BlockHeaders> {
        None
    }

    /// Writes the block header at `offset` of the shard. It is in the record at `record`, both counted from the start of the shard.
    fn block_header(&self, record: Range<u64>, offset: u64, header: &mut [u8]) {
        let _ = (record, offset, header);
    }

    /// Length in bytes of the shard tail, which follows the last record, for a shard of `samples` samples whose head and records are
    /// `records_end` long.
    fn tail_bytes(&self, samples: u64, records_end: u64) -> u64 {
        let _ = (samples, records_end);
        0
    }

    /// Writes the shard tail: `tail` is [`Format::tail_bytes`] long and zero, `record_bytes` gives the length of each record in order.
    ///
    /// # Errors
    /// If the format cannot hold so many bytes.
    fn tail(&self, record_bytes: &mut dyn Iterator<Item = u32>, tail: &mut [u8]) -> Result<()> {
        let _ = (record_bytes, tail);
        Ok(())
    }

    /// Maximum length in bytes of head and records, without block headers, in a shard of `shard_bytes`.
    fn room_bytes(&self, shard_bytes: u64) -> u64 {
        shard_bytes
    }

    /// Maximum length of a shard in bytes.
    fn most_shard_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Default length of shards in bytes: usual for the format's readers.
    fn usual_shard_bytes(&self) -> u64 {
        256 << 20
    }

    /// Number of bytes by which the content of this image makes its record longer than the layout. If not 0, the image is stored in
    /// parts that [`Format::join`] joins, and reaches to the end of the record.
    fn growth(&self, image: &[u8]) -> u32 {
        let _ = image;
        0
    }

    /// Joins an image that is stored in parts, of the record at `offset` of the shard. `None` if the parts are too short.
    fn join(&self, offset: u64, image: Extent, record: &[u8]) -> Option<Vec<u8>> {
        self.block_headers()?.join(offset, image, record)
    }

    /// Whether component `number` of [`Format::components`] is stored in another form than its content. Then its extent covers the
    /// output of [`Format::encode`].
    fn is_encoded(&self, number: usize) -> bool {
        let _ = number;
        false
    }

    /// Writes the stored form of component `number` over `stored`, which is as long as in the layout.
    ///
    /// # Errors
    /// If the content does not have this form.
    fn encode(&self, number: usize, form: &Form, content: &[u8], stored: &mut [u8]) -> Result<()> {
        let _ = number;
        Encoding::Content.encode(form, content, stored)
    }

    /// Decodes the content of component `number` from its stored form.
    ///
    /// # Errors
    /// If `stored` does not have this form.
    fn decode<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Cow<'s, [u8]>> {
        let _ = number;
        Encoding::Content.decode(form, stored)
    }

    /// The items of an array, component `number`, from its stored form: [`Format::decode`] without the head. `None` if the component is
    /// no array, or a file that is shorter than its items.
    ///
    /// # Errors
    /// If `stored` does not have this form.
    fn items<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Option<Cow<'s, [u8]>>> {
        let _ = number;
        Encoding::Content.items(form, stored)
    }

    /// Writes all of `record` except the image, which is already complete in its position. `record` is as long as the layout
    /// plus [`Format::growth`] of the image.
    ///
    /// # Errors
    /// If the format cannot hold the sample.
    fn frame(&self, sample: &Sample<'_>, image: &Header, record: &mut [u8]) -> Result<()>;

    /// [`Format::frame`] with block headers. `record` is at `offset` of its shard, as long as layout, growth and
    /// [`BlockHeaders::added_bytes`] together; the image is in its position in the layout.
    ///
    /// # Errors
    /// If the format cannot hold the sample.
    fn render(&self, offset: u64, sample: &Sample<'_>, image: &Header, record: &mut [u8]) -> Result<()> {
        let Some(headers) = self.block_headers() else { return self.frame(sample, image, record) };
        let plain_bytes = headers.plain_bytes(offset, record.len());
        if plain_bytes as u64 + headers.added_bytes(offset, plain_bytes as u32) != record.len() as u64 {
            return Err(Error::data(format!("a record of {} bytes ends inside a block header", record.len())));
        }
        self.frame(sample, image, &mut record[..plain_bytes])?;
        let range = offset..offset + record.len() as u64;
        headers.spread(offset, record, |at, header| self.block_header(range.clone(), at, header));
        Ok(())
    }

    /// Parses `record`, and checks that its framing matches its row and the format's specification, including the format's own
    /// checksums.
    ///
    /// # Errors
    /// If the record does not match; the message has the problem and the byte of the record.
    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()>;

    /// Name of shard `number` of `shards` of the dataset `name`, with [`Format::extension`] at its end, without the extension for
    /// compression.
    fn shard_file(&self, name: &str, number: u64, shards: u64) -> String;

    /// Last part of shard names, such as `.tar`; may be empty.
    fn extension(&self) -> &'static str;

    /// Extension that zstd-compressed shards add to their names; `None` if the format's readers do not support them.
    fn zstd_extension(&self) -> Option<&'static str> {
        None
    }

    /// Whether shards can be written; otherwise they are only read and checked.
    fn is_written(&self) -> bool {
        true
    }

    /// Whether a compressed shard is a single frame, for readers that support no more. Otherwise it has one frame for each block of
    /// samples, with a [seek table](crate::seekable).
    fn is_one_frame(&self) -> bool {
        false
    }

    /// Names of the shard file hashes in sidecars; see [`crate::hash::Named`].
    fn file_hashes(&self) -> &[String] {
        &[]
    }

    /// Writes the files of the sidecar `name`, one of [`Entry::sidecars`], that belong to one shard.
    ///
    /// # Errors
    /// If the index cannot be read, or `out` fails.
    fn shard_sidecar(&self, _name: &str, _of: &sidecars::Sealed<'_>, _out: &mut dyn sidecars::Files) -> Result<()> {
        Ok(())
    }

    /// Writes the files of the sidecar `name`, one of [`Entry::sidecars`], that belong to the whole dataset.
    ///
    /// # Errors
    /// If an index cannot be read, or `out` fails.
    fn sidecar(&self, name: &str, dataset: &sidecars::Dataset<'_>, out: &mut dyn sidecars::Files) -> Result<()> {
        sidecars::write(self.name(), name, dataset, out)
    }

    /// Instructions to read these shards: for each reader its name and a line to paste. `folder` is the location of the shards.
    fn recipes(&self, folder: &Path, name: &str, shards: u64, compressed: bool) -> Vec<(&'static str, String)>;
}

/// A format in the list [`ALL`].
pub struct Entry {
    /// Name on the command line and in the manifest.
    pub name: &'static str,
    /// Other names on the command line.
    pub aliases: &'static [&'static str],
    /// Description in a few words, for help texts.
    pub about: &'static str,
    /// Whether the components of a sample have extensions, which the user may choose.
    pub has_extensions: bool,
    /// Settings that only this format has.
    pub settings: &'static [Setting],
    /// Whether samples can have the source's own components, beside image and label.
    pub has_components: bool,
    /// Changes a choice so that no labels are written, for samples without labels.
    pub without_labels: fn(&mut Choice),
    /// Sidecars that the format can write.
    pub sidecars: &'static [sidecars::Kind],
    /// Creates the format's writer.
    pub open: fn(&Choice) -> Result<Box<dyn Format>>,
    /// Detects and reads shards by any writer.
    pub foreign: &'static dyn foreign::Foreign,
}

/// All formats.
pub static ALL: &[Entry] = &[webdataset::ENTRY, tfrecord::ENTRY, recordio::ENTRY, mds::ENTRY];

/// The format with the name or alias `name`.
///
/// # Errors
/// If there is no such format; the message lists all.
pub fn entry(name: &str) -> Result<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name || entry.aliases.contains(&name)).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
        Error::usage(format!("format {name:?}, this program knows {}", names.join(", ")))
    })
}

/// Opens the chosen format.
///
/// # Errors
/// If there is no such format, or a setting is unknown or invalid.
pub fn open(choice: &Choice) -> Result<Box<dyn Format>> {
    let entry = entry(&choice.name)?;
    if choice.settings.contains_key(adopted::SETTING) {
        return Ok(Box::new(adopted::Adopted::new(entry, choice)));
    }
    choice.check_settings(entry.settings)?;
    component::check(&choice.components)?;
    if let (false, Some(one)) = (entry.has_components, choice.components.first()) {
        return Err(no_components(entry, one));
    }
    let format = (entry.open)(choice)?;
    let names = format.components();
    let clash = choice.components.iter().map(Component::name).find(|name| {
        let by_kind = names.first().is_some_and(|first| first == BY_KIND);
        let is_kind = by_kind && Kind::ALL.iter().any(|kind| kind.extension() == *name);
        is_kind || names.iter().filter(|other| other == name).count() != 1
    });
    let is_twice = |name: &&str| names.iter().filter(|other| other == name).count() > 1;
    match clash.or_else(|| choice.payload.as_ref().map(Component::name).filter(is_twice)) {
        Some(name) => Err(Error::usage(format!("two components of a sample would be called {name:?}"))
            .help("choose the extension of images with --ext, or name the other: --with NAME=PATTERN")),
        None => Ok(format),
    }
}

/// Whether samples in the chosen format can have this component; `false` if the format cannot be opened.
pub fn has_place_for(choice: &Choice, one: &Component) -> bool {
    open(&Choice { components: vec![one.clone()], ..choice.clone() }).is_ok()
}

fn no_components(entry: &Entry, one: &Component) -> Error {
    let others: Vec<_> = ALL.iter().filter(|entry| entry.has_components).map(|entry| entry.name).collect();
    let what = format!("{} has no place for {} beside the image", entry.name, one.name());
    let help = match one.is_text() {
        true => format!("--format {}, or --meta none to leave it out", others.join(", ")),
        false => format!("--format {}", others.join(", ")),
    };
    Error::usage(what).help(help)
}

/// The extension of a component whose name in an index is `name`, for an image of `kind`.
pub fn extension(name: &str, kind: Kind) -> &str {
    if name == BY_KIND { kind.extension() } else { name }
}

/// The image of the sample in `row`, from its record: borrowed if it is stored in one piece, or joined from its parts.
///
/// `None` if the row has no image, or its parts are too short for the length in the row.
pub fn whole<'r>(format: &dyn Format, row: &RowRef<'_>, record: &'r [u8]) -> Option<Cow<'r, [u8]>> {
    let image = row.component(0)?;
    match row.in_parts {
        false => image.slice(record).map(Cow::Borrowed),
        true => format.join(row.offset, image, record).map(Cow::Owned),
    }
}

#[cfg(test)]
pub(crate) mod tests;
