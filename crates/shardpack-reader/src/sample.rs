//! A sample: the bytes of its record, with its data from index and manifest.

use std::{borrow::Cow, ops::Range};

use shardpack_format::{
    Error, Result,
    component::Form,
    formats::{self, Format},
    hash,
    image_header::Header,
    index::RowRef,
    manifest::Class,
};

use crate::Shard;

/// Help for damaged samples.
const REPAIR: &str = "`shardpack verify --repair SRC` rewrites these bytes from the source";

/// A sample: its bytes and all its metadata.
///
/// The bytes are borrowed from a mapping or from the buffer of a [`Reader`](crate::Reader), or owned if
/// [`Dataset::sample`](crate::Dataset::sample) had to unpack them.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    pub(crate) number: u64,
    pub(crate) shard: Shard<'a>,
    pub(crate) row: RowRef<'a>,
    /// Its length is the length in the row.
    pub(crate) record: Cow<'a, [u8]>,
    /// The image, if it is stored in parts and their framing is intact.
    pub(crate) joined: Option<Vec<u8>>,
}

impl<'a> Sample<'a> {
    /// Callers pass it through [`Shard::accept`] before they deliver it.
    pub(crate) fn new(number: u64, shard: Shard<'a>, row: RowRef<'a>, record: Cow<'a, [u8]>) -> Self {
        let join = || Some(formats::whole(shard.dataset.format().ok()?, &row, &record)?.into_owned());
        let joined = if row.in_parts { join() } else { None };
        Self { number, shard, row, record, joined }
    }

    /// Its number in the dataset.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The shard of the sample.
    pub fn shard(&self) -> Shard<'a> {
        self.shard
    }

    /// The image file, byte for byte as it was packed; empty for a sample without an image.
    pub fn bytes(&self) -> &[u8] {
        let stored = if self.row.in_parts { self.joined.as_deref() } else { self.component_at(0) };
        stored.unwrap_or_default()
    }

    /// The component with this extension (`jpg`, `cls`, `json`), if the sample has it.
    pub fn component(&self, extension: &str) -> Option<&[u8]> {
        self.components().find(|(name, _)| *name == extension).map(|(_, bytes)| bytes)
    }

    /// The components of the sample, the image first: extension and bytes.
    pub fn components(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let names = &self.shard.dataset.manifest().components;
        names.iter().enumerate().filter_map(|(number, name)| {
            let bytes =
                if number == 0 { self.component_at(0).map(|_| self.bytes()) } else { self.component_at(number) };
            Some((formats::extension(name, self.row.image.kind), bytes?))
        })
    }

    /// Form of component `number`, from 0 in the order of the manifest's names; `None` if the sample lacks it.
    pub fn form(&self, number: usize) -> Option<&'a Form> {
        self.row.form(number)
    }

    /// The content of component `number`, independent of the format: a file, text, JSON, or a `.npy` file; see
    /// [`shardpack_format::component`]. `None` if the sample lacks it.
    ///
    /// # Errors
    /// When the stored bytes do not match the index.
    pub fn content(&self, number: usize) -> Result<Option<Cow<'_, [u8]>>> {
        self.stored(number, |format, form, stored| format.decode(number, form, stored).map(Some))
    }

    /// The items of component `number`, an array, in C order: [`Sample::content`] without the header of the `.npy`,
    /// and without a copy. `None` if the sample lacks it, if it is not an array, or if it is a file that is shorter
    /// than its items.
    ///
    /// # Errors
    /// As [`Sample::content`].
    pub fn items(&self, number: usize) -> Result<Option<Cow<'_, [u8]>>> {
        self.stored(number, |format, form, stored| format.items(number, form, stored))
    }

    /// Applies `made` to the stored bytes of a component.
    fn stored<'s>(
        &'s self,
        number: usize,
        made: impl FnOnce(&dyn Format, &Form, &'s [u8]) -> Result<Option<Cow<'s, [u8]>>>,
    ) -> Result<Option<Cow<'s, [u8]>>> {
        let stored = if number == 0 { self.component_at(0).map(|_| self.bytes()) } else { self.component_at(number) };
        let (Some(stored), Some(form)) = (stored, self.form(number)) else { return Ok(None) };
        made(self.shard.dataset.format()?, form, stored)
            .map_err(|error| error.in_file(self.shard.path()).in_sample(self.row.name()))
    }

    /// The whole record of the sample in the shard, framing and padding included.
    pub fn record(&self) -> &[u8] {
        &self.record
    }

    /// Key: ASCII in every dataset that shardpack packs.
    pub fn key(&self) -> &'a [u8] {
        self.row.key
    }

    /// Number of its class, if it has one.
    pub fn label(&self) -> Option<i64> {
        self.row.label
    }

    /// Its class, if it has one that the manifest lists.
    pub fn class(&self) -> Option<&'a Class> {
        self.row.label.and_then(|label| self.shard.dataset.class(label))
    }

    /// Name of its class, with replacement characters for bytes that are not UTF-8; [`Class::name_bytes`] has the
    /// bytes.
    pub fn class_name(&self) -> Option<&'a str> {
        self.class().map(|class| class.name.as_str())
    }

    /// Path in the source, with `/` between folders, in the bytes from the file system.
    pub fn path(&self) -> &'a [u8] {
        self.row.path
    }

    /// Data from the image's headers: kind, size, colour mode.
    pub fn image(&self) -> Header {
        self.row.image
    }

    /// The index row.
    pub fn row(&self) -> &RowRef<'a> {
        &self.row
    }

    /// Byte range of the image in the (unpacked) shard.
    pub fn image_range(&self) -> Range<u64> {
        image_range(&self.row)
    }

    /// Compares the image with its content hash, XXH3-128.
    ///
    /// # Errors
    /// When they differ; the error names the shard, the sample and the bytes.
    pub fn check_content(&self) -> Result<()> {
        check_content(&self.shard, &self.row, self.bytes())
    }

    /// Compares components with their own hashes, and the rest of the record around the image with the frame hash; all
    /// are XXH3-64.
    ///
    /// Together with [`Sample::check_content`] this covers every byte of the record once.
    ///
    /// # Errors
    /// When they differ; the error names the shard, the sample and the bytes.
    pub fn check_frame(&self) -> Result<()> {
        for (number, at, expected) in self.row.hashed() {
            let found = hash::component(at.slice(&self.record).unwrap_or_default());
            if found != expected {
                let start = self.row.offset + u64::from(at.offset);
                let names = &self.shard.dataset.manifest().components;
                let what = format!("hash of component {}", names.get(number).map_or("", String::as_str));
                let bytes = start..start + u64::from(at.bytes);
                return Err(differs(&self.shard, &self.row, bytes, &what, hex64(found), hex64(expected)));
            }
        }
        let found = self.row.frame_hash_of(&self.record);
        if found == self.row.frame_hash {
            return Ok(());
        }
        let (start, end) = (self.row.offset, self.row.offset + u64::from(self.row.record_bytes));
        Err(differs(&self.shard, &self.row, start..end, "frame hash", hex64(found), hex64(self.row.frame_hash)))
    }

    fn component_at(&self, number: usize) -> Option<&[u8]> {
        self.row.component(number)?.slice(&self.record)
    }
}

/// Byte range of the image of `row` in the (unpacked) shard.
pub(crate) fn image_range(row: &RowRef<'_>) -> Range<u64> {
    // `Index::row` has checked that no sum of these is larger than the shard.
    let (start, bytes) = row.payload();
    start..start + u64::from(bytes)
}

/// Compares `image` with the content hash in `row`.
pub(crate) fn check_content(shard: &Shard<'_>, row: &RowRef<'_>, image: &[u8]) -> Result<()> {
    let found = hash::content(image);
    if found == row.content_hash {
        return Ok(());
    }
    Err(differs(shard, row, image_range(row), "content hash", hex128(found), hex128(row.content_hash)))
}

/// Error of an image in parts whose framing is damaged.
#[cold]
pub(crate) fn broken_parts(shard: &Shard<'_>, row: &RowRef<'_>) -> Error {
    let image = image_range(row);
    let what = format!("the parts of the image in bytes {}–{} do not fit together", image.start, image.end);
    Error::data(what).in_file(shard.path()).in_sample(row.name()).at_byte(image.start).help(REPAIR)
}

fn hex64(hash: u64) -> String {
    format!("{hash:016x}")
}

fn hex128(hash: u128) -> String {
    format!("{hash:032x}")
}

#[cold]
fn differs(
    shard: &Shard<'_>,
    row: &RowRef<'_>,
    bytes: Range<u64>,
    what: &str,
    found: String,
    expected: String,
) -> Error {
    Error::data(format!("{what} of bytes {}–{} is {found}, {expected} in the index", bytes.start, bytes.end))
        .in_file(shard.path())
        .in_sample(row.name())
        .at_byte(bytes.start)
        .help(REPAIR)
}
