//! Compares the offset index beside a shard, the `.idx` of RecordIO and TFRecord, with the records of the shard.
//!
//! Source: MXNet `recordio.py` (`MXIndexedRecordIO`) for key and offset; DALI `tools/tfrecord2idx` for offset and length.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, Result,
    formats::{recordio, tfrecord},
    regular, size, text,
};
use shardpack_storage::sys;

use super::ShardFile;

/// An entry of an index is two numbers of 20 digits at most; so much more is no index of these records.
const ENTRY_BYTES: u64 = 64;
/// So many times as long as its shard an index can be: that of empty records of 8 bytes with 22 bytes for each.
const MAX_INDEX_RATIO: u64 = 3;
/// Most wrong entries of one index that are listed.
const LISTED: usize = 100;

/// An index beside a shard.
pub struct Index {
    path: PathBuf,
    /// Content of the index, if it is at a URL.
    bytes: Option<Vec<u8>>,
}

impl Index {
    /// The index beside `file`, if there is one.
    ///
    /// # Errors
    /// If it is unknown whether an index exists, or an index at a URL cannot be read.
    pub fn open_beside(file: &ShardFile) -> Result<Option<Self>> {
        let path = match file.kind.name() {
            // Offsets count in the stored file.
            _ if !file.is_plain() => return Ok(None),
            recordio::NAME => file.path.with_extension("idx"),
            tfrecord::NAME => {
                let mut name = file.path.clone().into_os_string();
                name.push(".idx");
                name.into()
            }
            _ => return Ok(None),
        };
        if let Some(remote) = &file.remote {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let most = file.bytes.saturating_mul(MAX_INDEX_RATIO).saturating_add(ENTRY_BYTES);
            let bytes = remote.read_beside(&name, most)?;
            return Ok(bytes.map(|bytes| Self { path, bytes: Some(bytes) }));
        }
        let is_there = path.is_symlink() || sys::metadata_opt(&path)?.is_some_and(|meta| meta.is_file());
        Ok(is_there.then_some(Self { path, bytes: None }))
    }

    /// Path of the index.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The differences to the records of `file`, which begin at `starts` and end at `end`; one line each.
    ///
    /// # Errors
    /// If the index cannot be read, or is invalid.
    pub fn differences(&self, file: &ShardFile, starts: &[u64], end: u64) -> Result<Vec<String>> {
        let entries = self.entries(file, starts.len() as u64)?;
        let shown = text::path(&file.path).to_string();
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        let mut seen = vec![false; starts.len()];
        for (number, (offset, bytes)) in entries.iter().enumerate() {
            let line = number + 1;
            let Ok(record) = starts.binary_search(offset) else {
                wrong.push(format!("line {line}: no record begins at byte {offset} of {shown}"));
                continue;
            };
            let record_bytes = starts.get(record + 1).copied().unwrap_or(end) - offset;
            if let Some(bytes) = bytes.filter(|bytes| *bytes != record_bytes) {
                wrong.push(format!("line {line}: {bytes} bytes, the record at byte {offset} has {record_bytes}"));
            }
            if std::mem::replace(&mut seen[record], true) {
                wrong.push(format!("line {line}: the record at byte {offset} is named before"));
            }
        }
        if entries.len() != starts.len() {
            let (entries, records) =
                (size::counted(entries.len() as u64, "entry"), size::counted(starts.len() as u64, "record"));
            all.push(format!("{entries}, {shown} has {records}"));
        }
        let more = wrong.len().saturating_sub(LISTED);
        all.extend(wrong.into_iter().take(LISTED));
        if more > 0 {
            all.push(format!("{more} more wrong entries, the first {LISTED} are listed"));
        }
        Ok(all)
    }

    /// Offset of each record in the index, and its length if the index has lengths.
    fn entries(&self, file: &ShardFile, records: u64) -> Result<Vec<(u64, Option<u64>)>> {
        let failed = |error| sys::io_error("cannot read", &self.path, error);
        let most = ENTRY_BYTES * (records + 1);
        let mut read = Vec::new();
        if self.bytes.is_none() {
            regular::open(&self.path).and_then(|file| file.take(most + 1).read_to_end(&mut read)).map_err(failed)?;
        }
        let bytes = self.bytes.as_ref().unwrap_or(&read);
        if bytes.len() as u64 > most {
            return Err(Error::data(format!("longer than an index of {records} records can be")));
        }
        if file.kind.name() == recordio::NAME {
            return Ok(recordio::read_idx(bytes)?.into_iter().map(|(_, offset)| (offset, None)).collect());
        }
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        let lines = String::from_utf8_lossy(bytes);
        let entries = lines.lines().zip(1u64..).map(|(line, at)| {
            let found = line.split_once(' ').and_then(|(offset, bytes)| Some((number(offset)?, Some(number(bytes)?))));
            found.ok_or_else(|| Error::data(format!("line {at} is not offset and length of a record")))
        });
        entries.collect()
    }
}
