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
mod encoding;
pub mod foreign;
pub mod mds;
pub mod recordio;
pub mod sidecars;
pub mod tfrecord;
pub mod webdataset;

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use self::foreign::Wanted;
use crate::{
    Error, Result,
    component::{self, Component, Form},
    image_header::{Header, Kind},
    index::RowRef,
    manifest::{BY_KIND, Manifest},
    sample::{Extent, Sample},
};

use encoding::Encoding;

/// Most components that a written sample has: image, label, metadata, and those that the source has of its own.
pub const MAX_WRITTEN: usize = 3 + component::MOST;

/// Settings of a manifest that say of any format what the source has of its own; see [`Choice::components`].
const COMPONENTS: &str = "beside";
/// Setting of a manifest that says of any format what the payload is where it is no image; see [`Choice::payload`].
const PAYLOAD: &str = "payload";
/// Setting of a manifest that says which files of a source are payloads; see [`Choice::files`].
const FILES: &str = "files";
/// Setting of a manifest that says of any format how the source was parted into splits; see [`Choice::fractions`].
const FRACTIONS: &str = "split_fraction";
/// What samples are counted as that are no files.
const VALUES: &str = "values";
/// The value is always [`component::TEXT`].
const META: &str = "meta";

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
    /// What the payload is, the first of the components, where samples are no images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Component>,
    /// Which files of a tree are payloads, by extension or pattern, where they are not those of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// How a source without splits was parted into some: fractions and seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fractions: Option<String>,
    /// What a person said of the fields of the source's records; not what are components.
    #[serde(default, skip_serializing_if = "Wanted::is_unsaid")]
    pub wanted: Wanted,
    /// Write the label as a component of its own; where labels are components.
    pub cls: bool,
    /// Write class, label and path as a component of its own, where metadata is a component; or within the text that the
    /// source tells of each sample, where it tells one.
    pub json: bool,
    /// Components that the source has of its own, behind all others.
    #[serde(default, rename = "beside", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
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
        Self {
            name: name.to_owned(),
            extension: None,
            payload: None,
            files: Vec::new(),
            fractions: None,
            wanted: Wanted::default(),
            cls: true,
            json: false,
            components: Vec::new(),
            settings: BTreeMap::new(),
        }
    }

    /// The payload where it is a value, and all components that the source has of its own, each with its number among the
    /// components of the format and its name as a column or feature: without extension, where no other is called so.
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

    /// Whether the source tells a text of each sample that is written.
    pub fn has_text(&self) -> bool {
        self.components.iter().any(Component::is_text)
    }

    /// Whether samples have all beside their images that those of `other` have.
    pub fn components_cover(&self, other: &Self) -> bool {
        other.components.iter().all(|one| self.components.contains(one))
    }

    /// Whether payloads are values and no files.
    pub fn has_values(&self) -> bool {
        self.payload.as_ref().is_some_and(|payload| payload.kind().is_some())
    }

    /// What the headers of this payload say: nothing, where samples are no images; of an array only that it is one.
    pub fn header_of(&self, payload: &[u8]) -> Header {
        let is_npy = |one: &Component| one.name() == Kind::Npy.extension();
        match &self.payload {
            None => Header::of(payload),
            Some(one) if is_npy(one) && Kind::of(payload) == Kind::Npy => Header::of(payload),
            Some(_) => Header::NONE,
        }
    }

    /// What the payload with this header is, which came from `path`: the kind of the image, or, where samples are no images,
    /// the extension of the file.
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

    /// The settings that a manifest keeps of this choice: those of `format`, and what the source has of its own.
    pub fn stored(&self, format: &dyn Format) -> BTreeMap<String, String> {
        let mut settings = format.settings();
        if !self.components.is_empty() {
            settings.insert(COMPONENTS.to_owned(), Component::list(&self.components));
        }
        if let Some(payload) = &self.payload {
            settings.insert(PAYLOAD.to_owned(), payload.to_string());
        }
        if !self.files.is_empty() {
            settings.insert(FILES.to_owned(), self.files.join(","));
        }
        if let Some(fractions) = &self.fractions {
            settings.insert(FRACTIONS.to_owned(), fractions.clone());
        }
        settings.extend(self.wanted.said().map(|(name, said)| (name.to_owned(), said)));
        if self.has_text() && self.json {
            settings.insert(META.to_owned(), component::TEXT.to_owned());
        }
        settings
    }

    /// The choice that led to the dataset of this manifest.
    ///
    /// # Errors
    /// When what it says of components is not what a manifest says.
    pub fn of_manifest(manifest: &Manifest) -> Result<Self> {
        let Manifest { format, components, .. } = manifest;
        let has = |name: &str| components.iter().skip(1).any(|component| component == name);
        let mut choice = Self {
            name: format.name.clone(),
            extension: components.first().filter(|name| *name != BY_KIND).cloned(),
            payload: None,
            files: Vec::new(),
            fractions: None,
            wanted: Wanted::default(),
            cls: has("cls"),
            json: has("json"),
            components: Vec::new(),
            settings: format.settings.clone(),
        };
        choice.take_stored().map(|()| choice)
    }

    /// Takes from the settings what [`Choice::stored`] has added to those of the format.
    fn take_stored(&mut self) -> Result<()> {
        if let Some(list) = self.settings.remove(COMPONENTS) {
            self.components = Component::of_list(&list)?;
        }
        if let Some(payload) = self.settings.remove(PAYLOAD) {
            let payload = Component::try_from(payload)?;
            self.extension = Some(payload.name().to_owned());
            self.payload = Some(payload);
        }
        if let Some(files) = self.settings.remove(FILES) {
            self.files = files.split(',').map(str::to_owned).collect();
        }
        self.fractions = self.settings.remove(FRACTIONS);
        self.wanted = Wanted::of_said(|name| self.settings.remove(name))?;
        if self.components.iter().any(|one| one.name() == component::TEXT) {
            self.json = self.settings.remove(META).is_some();
        }
        Ok(())
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

    /// Whether component `number` of [`Format::components`] is stored otherwise than as its content; then the extent of it
    /// tells where what [`Format::encode`] makes lies.
    fn is_encoded(&self, number: usize) -> bool {
        let _ = number;
        false
    }

    /// Writes what is stored of the content of component `number` over `stored`, which is as long as the layout says.
    ///
    /// # Errors
    /// When the content is not of this form.
    fn encode(&self, number: usize, form: &Form, content: &[u8], stored: &mut [u8]) -> Result<()> {
        let _ = number;
        Encoding::Content.encode(form, content, stored)
    }

    /// The content of component `number`, of which this is stored.
    ///
    /// # Errors
    /// When it is nothing of this form.
    fn decode<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Cow<'s, [u8]>> {
        let _ = number;
        Encoding::Content.decode(form, stored)
    }

    /// The items of the array that component `number` is, of which this is stored: [`Format::decode`] without the head. `None` of
    /// what is no array, or of a file that is shorter than they.
    ///
    /// # Errors
    /// When it is nothing of this form.
    fn items<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Option<Cow<'s, [u8]>>> {
        let _ = number;
        Encoding::Content.items(form, stored)
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

    /// Whether shards of it are written here, and not read and checked alone.
    fn is_written(&self) -> bool {
        true
    }

    /// Whether a compressed shard is a single frame, for readers that take no more; else it is one for each block of
    /// samples, with a [seek table](crate::seekable).
    fn is_one_frame(&self) -> bool {
        false
    }

    /// Names of the hashes of shard files that sidecars tell; see [`crate::hash::Named`].
    fn file_hashes(&self) -> &[String] {
        &[]
    }

    /// Writes those files of the sidecar `name`, one of [`Entry::sidecars`], that are of one shard.
    ///
    /// # Errors
    /// When the index cannot be read, or `out` fails.
    fn shard_sidecar(&self, _name: &str, _of: &sidecars::Sealed<'_>, _out: &mut dyn sidecars::Files) -> Result<()> {
        Ok(())
    }

    /// Writes those files of the sidecar `name`, one of [`Entry::sidecars`], that are of the whole dataset.
    ///
    /// # Errors
    /// When an index cannot be read, or `out` fails.
    fn sidecar(&self, name: &str, dataset: &sidecars::Dataset<'_>, out: &mut dyn sidecars::Files) -> Result<()> {
        sidecars::write(self.name(), name, dataset, out)
    }

    /// How a person reads these shards, for each reader its name and a line to paste. `folder` is where they are.
    fn recipes(&self, folder: &Path, name: &str, shards: u64, compressed: bool) -> Vec<(&'static str, String)>;
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
    /// Whether samples can have components beside image and label that the source has of its own.
    pub has_components: bool,
    /// Chooses not to write labels, where the samples have none.
    pub without_labels: fn(&mut Choice),
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

/// Whether samples in the format that was chosen can have this beside their images; not, where it cannot be opened.
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
pub(crate) mod tests;
