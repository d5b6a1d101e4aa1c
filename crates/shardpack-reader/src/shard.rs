//! One shard of an open dataset: its manifest entry, its index, its bytes.
//!
//! Files are opened at first use and compared with the manifest first.

use std::{fs::File, ops::Range, path::PathBuf, sync::OnceLock};

use shardpack_format::{
    Error, Result,
    crops::{self, Crops},
    hash, help,
    index::{Index, RowRef},
    manifest,
};
use shardpack_storage::OpenFile;

use crate::{
    Bytes, Dataset,
    content::{Compression, Content},
    single_flight::SingleFlight,
    window::{Scratch, Window},
};

/// Open files of a shard.
#[derive(Default)]
pub(crate) struct Opened {
    index: OnceLock<Index<Bytes>>,
    /// Threads that read the index over a network take turns.
    index_turn: SingleFlight,
    /// `None` if there is no such file.
    crops: OnceLock<Option<Crops<Bytes>>>,
    crops_turn: SingleFlight,
    /// `None` if the system refused to map.
    map: OnceLock<Option<Bytes>>,
}

/// A shard of a [`Dataset`].
#[derive(Clone, Copy, Debug)]
pub struct Shard<'d> {
    pub(crate) dataset: &'d Dataset,
    /// Less than the number of shards.
    pub(crate) number: usize,
}

impl<'d> Shard<'d> {
    /// Its number in the dataset, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The dataset of the shard.
    pub fn dataset(&self) -> &'d Dataset {
        self.dataset
    }

    /// Its manifest entry.
    pub fn entry(&self) -> &'d manifest::Shard {
        &self.dataset.manifest().shards[self.number]
    }

    /// Path of its file.
    pub fn path(&self) -> PathBuf {
        self.dataset.folder().join(&self.entry().file)
    }

    /// Path of its index.
    pub fn index_path(&self) -> PathBuf {
        self.dataset.folder().join(&self.entry().index.file)
    }

    /// Numbers of its samples in the dataset.
    pub fn samples(&self) -> Range<u64> {
        self.dataset.starts[self.number]..self.dataset.starts[self.number + 1]
    }

    /// Number of its samples.
    pub fn len(&self) -> u64 {
        self.entry().samples
    }

    /// Whether it has no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its index, opened at the first call: mapped, or read into memory if the system refuses to map.
    ///
    /// The index's own checksums are checked as its rows are read, its BLAKE3 is not.
    ///
    /// # Errors
    /// When the file is missing or damaged, or contradicts the manifest.
    pub fn index(&self) -> Result<&'d Index<Bytes>> {
        let Opened { index: opened, index_turn, .. } = &self.dataset.opened[self.number];
        if let Some(index) = opened.get() {
            return Ok(index);
        }
        // Opened outside the cell: two threads may open it at once, but no thread waits for the disk access of
        // another.
        let _turn = index_turn.take_before(self.dataset.access());
        if let Some(index) = opened.get() {
            return Ok(index);
        }
        let index = self.open_index().map_err(|error| error.in_file(self.index_path()))?;
        Ok(opened.get_or_init(|| index))
    }

    /// Index row `row`, from 0 in this shard.
    ///
    /// # Errors
    /// When there is no such row, or the index is damaged.
    pub fn row(&self, row: u64) -> Result<RowRef<'d>> {
        self.index()?.row(row).map_err(|error| error.in_file(self.index_path()))
    }

    /// Path of its crop tables, which may be missing: they are not part of the dataset.
    pub fn crops_path(&self) -> PathBuf {
        self.index_path().with_extension(crops::EXTENSION)
    }

    /// Its crop tables, opened at the first call like [`Shard::index`]; `None` if there are none.
    ///
    /// # Errors
    /// When the file cannot be opened, is damaged, or belongs to another shard or dataset.
    pub fn crops(&self) -> Result<Option<&'d Crops<Bytes>>> {
        let Opened { crops: opened, crops_turn, .. } = &self.dataset.opened[self.number];
        if let Some(crops) = opened.get() {
            return Ok(crops.as_ref());
        }
        let _turn = crops_turn.take_before(self.dataset.access());
        if let Some(crops) = opened.get() {
            return Ok(crops.as_ref());
        }
        let crops = self.open_crops().map_err(|error| error.in_file(self.crops_path()))?;
        Ok(opened.get_or_init(|| crops).as_ref())
    }

    /// The crop table of row `row`, from 0 in this shard, or the number of the reason why its image has no table;
    /// `None` if the shard has no crop tables. The content hash in the index proves that the table belongs to this
    /// image.
    ///
    /// # Errors
    /// As [`Shard::row`] and [`Shard::crops`]; and when the table is damaged or belongs to another image.
    pub fn crop_table(&self, row: u64) -> Result<Option<crops::Table<&'d [u8]>>> {
        let Some(crops) = self.crops()? else { return Ok(None) };
        let content_hash = self.row(row)?.content_hash;
        crops.table(row, content_hash).map(Some).map_err(|error| error.in_file(self.crops_path()))
    }

    /// Its file, opened anew.
    ///
    /// # Errors
    /// When it is missing, cannot be opened, or its length differs from the manifest; over a network, the first read reports a
    /// missing file.
    pub fn open(&self) -> Result<Box<dyn OpenFile>> {
        self.dataset.files.open_anew(self.number)
    }

    /// Fills `into` with bytes of the stored file from `offset` on, packed if the shard is compressed; one request
    /// over a network.
    ///
    /// # Errors
    /// When the file is shorter, or cannot be read.
    pub fn read_stored(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.dataset.files.read(self.number, offset, into)
    }

    /// Checks that the shard exists and has the length in the manifest; one request over a network.
    ///
    /// # Errors
    /// When the check fails, or cannot be made.
    pub fn look_for(&self) -> Result<()> {
        self.dataset.files.open(self.number)?.check_there()
    }

    /// Reads bytes `range` into `out` and sets its length. In a compressed shard the range counts unpacked bytes.
    ///
    /// # Errors
    /// When there are no such bytes, or they cannot be read or unpacked.
    pub fn read(&self, range: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let content = self.dataset.open_shards.get(self.number, || self.content())?;
        if !content.is_one_frame() {
            return content.read(range, out);
        }
        let whole = self.dataset.wholes.get(self.number, || content.whole())?;
        out.clear();
        out.extend_from_slice(content.part(&whole, range)?);
        Ok(())
    }

    /// Fills `window`, whatever it holds, with bytes `range`. In a compressed shard the range counts unpacked bytes.
    ///
    /// # Errors
    /// When there are no such bytes, or they cannot be read or unpacked; then the window is empty.
    pub fn fill(&self, window: &mut Window, scratch: &mut Scratch, range: Range<u64>) -> Result<()> {
        window.clear();
        let content = self.dataset.open_shards.get(self.number, || self.content())?;
        if !content.is_one_frame() {
            return content.fill(window, scratch, range);
        }
        let whole = self.dataset.wholes.get(self.number, || content.whole())?;
        window.hold(range.start, content.part(&whole, range)?)
    }

    /// Range of the records of the rows `rows`, from the first byte of the first to the last byte of the last; damaged
    /// rows are left out. `None` if all rows are damaged.
    ///
    /// # Errors
    /// When the index cannot be opened.
    pub fn span(&self, rows: Range<u64>) -> Result<Option<Range<u64>>> {
        self.index()?;
        let records = rows.filter_map(|row| self.row(row).ok()).map(|row| record(&row));
        Ok(records.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)))
    }

    /// Opens the bytes of the shard.
    pub(crate) fn content(&self) -> Result<Content> {
        let bytes = self.index()?.summary().content_bytes;
        let (files, lengths) = (&self.dataset.files, (self.entry().bytes, bytes));
        Content::open(files, self.number, self.path(), lengths, self.dataset.compression)
    }

    /// The whole shard, mapped; `None` if it is compressed, not a file, or the system refuses.
    pub(crate) fn map(&self) -> Result<Option<&'d [u8]>> {
        if self.dataset.compression != Compression::None || self.dataset.copies {
            return Ok(None);
        }
        let opened = &self.dataset.opened[self.number].map;
        let map = match opened.get() {
            Some(map) => map,
            None => {
                // The index guarantees that all records lie within the mapped length.
                self.index()?;
                // A mapping needs no descriptor, so the file does not stay open.
                let map = self.open()?.local().and_then(|file| Bytes::map(file, self.entry().bytes).ok());
                opened.get_or_init(|| map)
            }
        };
        Ok(map.as_ref().map(AsRef::as_ref))
    }

    fn open_crops(&self) -> Result<Option<Crops<Bytes>>> {
        let map = |file: &File, bytes| self.dataset.bytes_of(file, bytes);
        let Some(bytes) = self.dataset.files.crops(self.number, &map)? else { return Ok(None) };
        let crops = Crops::open(bytes)?;
        let (summary, entry) = (crops.summary(), self.entry());
        let expected = (entry.samples, entry.blake3.0, self.dataset.manifest().id.0);
        if (crops.len(), summary.shard_blake3, summary.dataset) != expected {
            return Err(Error::data("crop tables of another shard or dataset").help(crops::HELP));
        }
        Ok(Some(crops))
    }

    fn open_index(&self) -> Result<Index<Bytes>> {
        let entry = self.entry();
        let index = self.dataset.files.index(self.number, &|file, bytes| self.dataset.bytes_of(file, bytes))?;
        let index = Index::open(index)?;
        let summary = index.summary();
        let differs = |what: &str, found: String, expected: String| {
            Err(Error::data(format!("{what}: {found} in the index, {expected} in the manifest")).help(help::COPY_AGAIN))
        };
        if index.len() != entry.samples {
            return differs("samples", index.len().to_string(), entry.samples.to_string());
        }
        if summary.shard_bytes != entry.bytes {
            return differs("length of the shard", summary.shard_bytes.to_string(), entry.bytes.to_string());
        }
        if summary.shard_blake3 != entry.blake3.0 {
            return differs("BLAKE3 of the shard", hash::hex(&summary.shard_blake3), hash::hex(&entry.blake3.0));
        }
        if summary.components != self.dataset.manifest().components {
            let names = |names: &[String]| names.join(" ");
            return differs("components", names(&summary.components), names(&self.dataset.manifest().components));
        }
        if self.dataset.compression == Compression::None && summary.content_bytes != summary.shard_bytes {
            return Err(Error::data(format!(
                "{} bytes of content in a shard of {} that is not compressed",
                summary.content_bytes, summary.shard_bytes
            )));
        }
        Ok(index)
    }
}

/// Byte range of the record of `row` in the (unpacked) shard.
pub(crate) fn record(row: &RowRef<'_>) -> Range<u64> {
    // `Index::row` has checked that the sum is no larger than the shard.
    row.offset..row.offset + u64::from(row.record_bytes)
}
