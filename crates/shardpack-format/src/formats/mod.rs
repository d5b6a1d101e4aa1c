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
pub mod beside;
mod encoding;
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
    component::Form,
    image_header::{Header, Kind},
    index::RowRef,
    manifest::{BY_KIND, Manifest},
    sample::{Extent, Sample},
};

pub use beside::Beside;
use encoding::Encoding;

/// Most components that a written sample has: image, label, metadata, and those that the source has of its own.
pub const MAX_WRITTEN: usize = 3 + beside::MOST;

/// Settings of a manifest that say of any format what the source has of its own; see [`Choice::beside`].
const BESIDE: &str = "beside";
/// Setting of a manifest that says of any format what the payload is where it is no image; see [`Choice::payload`].
const PAYLOAD: &str = "payload";
/// Setting of a manifest that says which files of a source are payloads; see [`Choice::files`].
const FILES: &str = "files";
/// Setting of a manifest that says of any format how the source was parted into splits; see [`Choice::fractions`].
const FRACTIONS: &str = "split_fraction";
/// What samples are counted as that are no files.
const VALUES: &str = "values";
/// The value is always [`beside::TEXT`].
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
    pub payload: Option<Beside>,
    /// Which files of a tree are payloads, by extension or pattern, where they are not those of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// How a source without splits was parted into some: fractions and seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fractions: Option<String>,
    /// Write the label as a component of its own; where labels are components.
    pub cls: bool,
    /// Write class, label and path as a component of its own, where metadata is a component; or within the text that the
    /// source tells of each sample, where it tells one.
    pub json: bool,
    /// Components that the source has of its own, behind all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
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
            cls: true,
            json: false,
            beside: Vec::new(),
            settings: BTreeMap::new(),
        }
    }

    /// The payload where it is a value, and all components that the source has of its own, each with its number among the
    /// components of the format and its name as a column or feature: without extension, where no other is called so.
    pub(crate) fn columns(&self) -> Vec<(usize, &Beside, String)> {
        let all =
            self.payload.iter().map(|payload| (0, payload)).chain(self.beside.iter().zip(1..).map(|(one, n)| (n, one)));
        let is_alone = |one: &Beside| {
            let same = self.payload.iter().chain(&self.beside).filter(|other| other.column() == one.column());
            same.count() == 1
        };
        let name = |one: &Beside| if is_alone(one) { one.column() } else { one.name() }.to_owned();
        all.map(|(number, one)| (number, one, name(one))).collect()
    }

    /// Whether the source tells a text of each sample that is written.
    pub fn has_text(&self) -> bool {
        self.beside.iter().any(Beside::is_text)
    }

    /// Whether samples have all beside their images that those of `other` have.
    pub fn beside_covers(&self, other: &Self) -> bool {
        other.beside.iter().all(|one| self.beside.contains(one))
    }

    /// Whether payloads are values and no files.
    pub fn has_values(&self) -> bool {
        self.payload.as_ref().is_some_and(|payload| payload.kind().is_some())
    }

    /// What the headers of this payload say: nothing, where samples are no images; of an array only that it is one.
    pub fn header_of(&self, payload: &[u8]) -> Header {
        let is_npy = |beside: &Beside| beside.name() == Kind::Npy.extension();
        match &self.payload {
            None => Header::of(payload),
            Some(beside) if is_npy(beside) && Kind::of(payload) == Kind::Npy => Header::of(payload),
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
        match name.len() - beside::stem(name).len() {
            0 | 1 => Cow::Borrowed(Kind::Unknown.name()),
            dot => Cow::Owned(String::from_utf8_lossy(&name[name.len() - dot + 1..]).to_ascii_lowercase()),
        }
    }

    /// The settings that a manifest keeps of this choice: those of `format`, and what the source has of its own.
    pub fn stored(&self, format: &dyn Format) -> BTreeMap<String, String> {
        let mut settings = format.settings();
        if !self.beside.is_empty() {
            settings.insert(BESIDE.to_owned(), Beside::list(&self.beside));
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
        if self.has_text() && self.json {
            settings.insert(META.to_owned(), beside::TEXT.to_owned());
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
            cls: has("cls"),
            json: has("json"),
            beside: Vec::new(),
            settings: format.settings.clone(),
        };
        choice.take_stored().map(|()| choice)
    }

    /// Takes from the settings what [`Choice::stored`] has added to those of the format.
    fn take_stored(&mut self) -> Result<()> {
        if let Some(list) = self.settings.remove(BESIDE) {
            self.beside = Beside::of_list(&list)?;
        }
        if let Some(payload) = self.settings.remove(PAYLOAD) {
            let payload = Beside::try_from(payload)?;
            self.extension = Some(payload.name().to_owned());
            self.payload = Some(payload);
        }
        if let Some(files) = self.settings.remove(FILES) {
            self.files = files.split(',').map(str::to_owned).collect();
        }
        self.fractions = self.settings.remove(FRACTIONS);
        if self.beside.iter().any(|beside| beside.name() == beside::TEXT) {
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
    /// Whether samples can have components beside image and label that the source has of its own.
    pub has_beside: bool,
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
    beside::check(&choice.beside)?;
    if let (false, Some(one)) = (entry.has_beside, choice.beside.first()) {
        return Err(no_beside(entry, one));
    }
    let format = (entry.open)(choice)?;
    let names = format.components();
    let clash = choice.beside.iter().map(Beside::name).find(|name| {
        let by_kind = names.first().is_some_and(|first| first == BY_KIND);
        let is_kind = by_kind && Kind::ALL.iter().any(|kind| kind.extension() == *name);
        is_kind || names.iter().filter(|other| other == name).count() != 1
    });
    let is_twice = |name: &&str| names.iter().filter(|other| other == name).count() > 1;
    match clash.or_else(|| choice.payload.as_ref().map(Beside::name).filter(is_twice)) {
        Some(name) => Err(Error::usage(format!("two components of a sample would be called {name:?}"))
            .help("choose the extension of images with --ext, or name the other: --with NAME=PATTERN")),
        None => Ok(format),
    }
}

/// Whether samples in the format that was chosen can have this beside their images; not, where it cannot be opened.
pub fn has_place_for(choice: &Choice, one: &Beside) -> bool {
    open(&Choice { beside: vec![one.clone()], ..choice.clone() }).is_ok()
}

fn no_beside(entry: &Entry, one: &Beside) -> Error {
    let others: Vec<_> = ALL.iter().filter(|entry| entry.has_beside).map(|entry| entry.name).collect();
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
pub(crate) mod tests {
    use super::*;
    use crate::{
        component::Type,
        hash,
        index::{self, Index, Summary},
        sample::{Detail, Forms, Row},
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
        let row = row(format, sample, &layout, &record, payload);
        Ok((record, Row { image, in_parts: growth > 0, ..row }))
    }

    /// The row of a record that is the first of its shard and holds `image` in one piece.
    fn row(format: &dyn Format, sample: &Sample<'_>, layout: &Layout, record: &[u8], image: &[u8]) -> Row {
        Row {
            key: sample.key.into(),
            path: sample.path.into(),
            label: sample.label,
            offset: 0,
            record_bytes: record.len() as u32,
            components: layout.components[..format.components().len()].to_vec(),
            content_hash: hash::content(image),
            details: Vec::new(),
            frame_hash: 0,
            image: Header::of(image),
            in_parts: false,
        }
    }

    #[test]
    fn what_a_source_has_of_its_own_lies_where_the_layout_says() {
        let beside = [Beside::text(), Beside::files("mask=*_mask.png").unwrap(), Beside::files("txt").unwrap()];
        for entry in ALL {
            let choice = Choice { extension: Some("jpg".into()), beside: beside.to_vec(), ..Choice::of(entry.name) };
            let format = match open(&choice) {
                Ok(format) => format,
                Err(error) => {
                    assert!(!entry.has_beside && error.to_string().contains("json"), "{error}");
                    continue;
                }
            };
            let (texts, image) = ([b"{}".as_slice(), b"", b"caption"], b"\xff\xd8\xff some image");
            let sample = Sample {
                key: "00000042",
                label: Some(7),
                class: b"c",
                path: b"c/1.jpg",
                payload_bytes: image.len() as u32,
                beside: &[Some(2), None, Some(7)],
                forms: Default::default(),
            };
            let layout = format.layout(&sample).unwrap();
            let mut record = vec![0xaa; layout.record_bytes as usize];
            let mut put = |extent: Extent, bytes: &[u8]| {
                record[extent.offset as usize..][..extent.bytes as usize].copy_from_slice(bytes);
            };
            put(layout.components[0], image);
            let first = format.components().len() - beside.len();
            for (extent, text) in layout.components[first..].iter().zip(texts).filter(|(e, _)| **e != Extent::ABSENT) {
                put(*extent, text);
            }
            format.frame(&sample, &Header::of(image), &mut record).unwrap();
            let row = row(format.as_ref(), &sample, &layout, &record, image);
            let index = index(format.as_ref(), std::slice::from_ref(&row));
            format.check(&index.row(0).unwrap(), &record).unwrap();
            let mut elsewhere = row.clone();
            elsewhere.components[first + 2].offset -= 1;
            let moved = self::index(format.as_ref(), &[elsewhere]);
            assert!(format.check(&moved.row(0).unwrap(), &record).is_err(), "{}", entry.name);
            // The same choice comes back from what a manifest keeps.
            let mut again = Choice { settings: choice.stored(format.as_ref()), beside: Vec::new(), ..choice.clone() };
            again.take_stored().unwrap();
            assert_eq!((&again.beside, again.settings), (&choice.beside, format.settings()), "{}", entry.name);
        }
        let clash =
            Choice { extension: Some("png".into()), beside: vec![Beside::files("png").unwrap()], ..Choice::of("tar") };
        assert!(open(&clash).is_err());
        assert!(open(&Choice { extension: None, ..clash }).is_err());
    }

    #[test]
    fn a_payload_that_is_no_image_is_called_what_it_is_and_nothing_is_said_of_pixels() {
        // Its bytes begin as those of a bitmap may.
        let payload = b"P5 is a word in this text";
        for entry in ALL {
            let choice = Choice {
                extension: Some("txt".into()),
                payload: Some(Beside::files("txt").unwrap()),
                files: vec!["txt".into(), "*_x.md".into()],
                fractions: Some("val=0.1;seed=0".into()),
                ..Choice::of(entry.name)
            };
            let format = open(&choice).unwrap();
            assert_eq!(format.components()[0], "txt", "{}", entry.name);
            let header = choice.header_of(payload);
            assert_eq!((header, Header::of(payload).kind), (Header::NONE, Kind::Pnm));
            assert_eq!(choice.kind_of(&header, b"c/1.TXT"), "txt");
            let (bytes, label) = (payload.len() as u32, Some(7));
            let sample = Sample {
                key: "00000042",
                label,
                class: b"c",
                path: b"c/1.TXT",
                payload_bytes: bytes,
                beside: &[],
                forms: Forms::default(),
            };
            let (bytes, row) = record(format.as_ref(), &sample, payload, header).unwrap();
            format.check(&index(format.as_ref(), &[row]).row(0).unwrap(), &bytes).unwrap();
            assert!(!bytes.windows(5).any(|window| window == b"image"), "{}", entry.name);
            let mut again = Choice {
                settings: choice.stored(format.as_ref()),
                payload: None,
                files: Vec::new(),
                fractions: None,
                ..choice.clone()
            };
            again.take_stored().unwrap();
            assert_eq!(
                (&again.payload, &again.files, &again.fractions),
                (&choice.payload, &choice.files, &choice.fractions)
            );
            assert_eq!(again.settings, format.settings(), "{}", entry.name);
            assert_eq!(open(&again).unwrap().components(), format.components());
        }
    }

    /// Content of each of these forms.
    fn content(form: &Form) -> Vec<u8> {
        match form {
            Form::Bytes => b"\x00any\xff".to_vec(),
            Form::Text => "text \u{e9}".into(),
            Form::Json => b"{\"a\":[1,null]}".to_vec(),
            Form::Int => b"-7".to_vec(),
            Form::Float => b"0.1".to_vec(),
            Form::Array { .. } => {
                let items = (0..form.items_bytes().unwrap()).map(|n| n as u8);
                form.head().into_iter().chain(items).collect()
            }
        }
    }

    /// The record of a sample of values alone, and its row: the payload first.
    fn record_of_values(format: &dyn Format, forms: &[Form], there: &[bool]) -> (Vec<u8>, Row) {
        let contents: Vec<_> = forms.iter().map(content).collect();
        let lengths: Vec<_> =
            contents[1..].iter().zip(there).map(|(content, there)| there.then_some(content.len() as u32)).collect();
        let numbers: Vec<u32> = (1..forms.len() as u32).collect();
        let sample = Sample {
            key: "00000042",
            label: Some(7),
            class: b"c",
            path: b"c/1",
            payload_bytes: contents[0].len() as u32,
            beside: &lengths,
            forms: Forms { all: forms, payload: 0, beside: &numbers },
        };
        let layout = format.layout(&sample).unwrap();
        let mut record = vec![0xaa; layout.record_bytes as usize];
        let first = format.components().len() - (forms.len() - 1);
        let mut details: Vec<_> = layout.components.iter().map(|at| Detail::plain(at.bytes)).collect();
        details.truncate(format.components().len());
        for (number, content) in contents.iter().enumerate() {
            // `cls` stands behind the payload.
            let component = if number == 0 { 0 } else { first + number - 1 };
            let extent = layout.components[component];
            assert_eq!(extent != Extent::ABSENT, number == 0 || there[number - 1], "{}: {number}", format.name());
            if extent != Extent::ABSENT {
                let stored = &mut record[extent.offset as usize..][..extent.bytes as usize];
                format.encode(component, &forms[number], content, stored).unwrap();
                assert_eq!(format.decode(component, &forms[number], stored).unwrap(), &content[..]);
                details[component] = Detail {
                    form: number as u32,
                    content_bytes: content.len() as u32,
                    hash: Some(hash::component(stored)),
                };
            }
        }
        format.frame(&sample, &Header::of(b""), &mut record).unwrap();
        let payload = layout.components[0].of(&record).unwrap().to_vec();
        let row = row(format, &sample, &layout, &record, &payload);
        (record, Row { details, ..row })
    }

    #[test]
    fn values_of_all_forms_come_back_from_all_formats() {
        let forms: Vec<Form> = [
            "<f4[2x3]", "<f4[1x3]", "<i8[2]", "<i8[0]", "<f8[]", "|b1[3]", "<c16[1]", "<U2[2]", "int", "float", "json",
        ]
        .iter()
        .chain(&["text", "bytes", "<f4[2]", ">f4[2]"])
        .map(|form| form.parse().unwrap())
        .collect();
        let beside: Vec<_> = forms
            .iter()
            .enumerate()
            .map(|(number, form)| Beside::value(&format!("x{number}"), form).unwrap())
            .collect();
        for entry in ALL.iter().filter(|entry| entry.has_beside) {
            for is_optional in [false, true] {
                let typed = |one: &Beside| {
                    let kind = one.kind().unwrap().clone();
                    one.clone().with_kind(Type { is_optional, ..kind })
                };
                let beside: Vec<_> = beside[1..].iter().map(typed).collect();
                let payload = Some(Beside::value("x0", &forms[0]).unwrap());
                let extension = Some("x0.npy".to_owned());
                let choice = Choice { payload, extension, beside, ..Choice::of(entry.name) };
                let format = open(&choice).unwrap();
                let there: Vec<_> = (1..forms.len()).map(|number| !is_optional || number % 2 == 0).collect();
                let (record, row) = record_of_values(format.as_ref(), &forms, &there);
                let components = format.components().to_vec();
                let summary = Summary {
                    components,
                    forms: forms.clone(),
                    content_bytes: u64::MAX,
                    shard_bytes: 0,
                    shard_blake3: [0; 32],
                };
                let index = Index::open(index::write(&summary, &[row]).unwrap()).unwrap();
                let row = index.row(0).unwrap();
                format.check(&row, &record).unwrap();
                assert_eq!(row.form(0).unwrap(), &forms[0]);
                for (number, extent, told) in row.hashed() {
                    assert_eq!(hash::component(extent.of(&record).unwrap()), told, "{number}");
                }
                let mut again = Choice {
                    settings: choice.stored(format.as_ref()),
                    beside: Vec::new(),
                    payload: None,
                    ..choice.clone()
                };
                again.take_stored().unwrap();
                assert_eq!((&again.beside, &again.payload), (&choice.beside, &choice.payload), "{}", entry.name);
            }
        }
    }

    /// An index of these rows; it knows nothing of the shard.
    pub(crate) fn index(format: &dyn Format, rows: &[Row]) -> Index<Vec<u8>> {
        let components = format.components().to_vec();
        let summary =
            Summary { components, forms: Vec::new(), content_bytes: u64::MAX, shard_bytes: 0, shard_blake3: [0; 32] };
        Index::open(index::write(&summary, rows).unwrap()).unwrap()
    }
}
