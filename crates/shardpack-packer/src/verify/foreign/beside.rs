//! What lies beside shards and speaks of them: the `.idx` of RecordIO and TFRecord, the `index.json` of MDS.
//!
//! Source: MXNet `recordio.py` (`MXIndexedRecordIO`) for key and offset; DALI `tools/tfrecord2idx` for offset and length;
//! mosaicml-streaming `base/format/base/reader.py` for `index.json`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, Result,
    formats::{mds, recordio, tfrecord},
};

use super::{Options, Problem, Walked, shown};
use crate::{digest::digest, foreign::ShardFile, monitor::Monitor, sys};

/// An entry of an index is two numbers of 20 digits at most; so much more is no index of these records.
const ENTRY_BYTES: u64 = 64;
/// Most wrong entries of one index that are listed.
const LISTED: usize = 100;

/// The index beside `file`, if there is one.
pub(super) fn index_of(file: &ShardFile) -> Option<PathBuf> {
    let path = match file.kind.name() {
        // Offsets count in the file as it lies there.
        _ if !file.is_plain() => return None,
        recordio::NAME => file.path.with_extension("idx"),
        tfrecord::NAME => {
            let mut name = file.path.clone().into_os_string();
            name.push(".idx");
            name.into()
        }
        _ => return None,
    };
    path.is_file().then_some(path)
}

/// Compares an index with where the records of `file`, which was walked to its end, begin.
pub(super) fn compare_index(file: &ShardFile, index: &Path, walked: &mut Walked) {
    let Some((end, starts)) = walked.starts.take().and_then(|mut starts| Some((starts.pop()?, starts))) else { return };
    let name = index.display().to_string();
    let mut say = |what: String| walked.add(Problem { file: name.clone(), what, ..Problem::default() });
    let entries = match entries(file, index, starts.len() as u64) {
        Ok(entries) => entries,
        Err(error) => return walked.add(super::from_error(name, &error)),
    };
    let mut seen = vec![false; starts.len()];
    let mut wrong = Vec::new();
    for (number, (offset, bytes)) in entries.iter().enumerate() {
        let line = number + 1;
        let Ok(record) = starts.binary_search(offset) else {
            wrong.push(format!("line {line}: no record begins at byte {offset} of {}", shown(file)));
            continue;
        };
        let record_bytes = starts.get(record + 1).copied().unwrap_or(end) - offset;
        if bytes.is_some_and(|bytes| bytes != record_bytes) {
            let bytes = bytes.unwrap_or_default();
            wrong.push(format!("line {line}: {bytes} bytes, the record at byte {offset} has {record_bytes}"));
        }
        if std::mem::replace(&mut seen[record], true) {
            wrong.push(format!("line {line}: the record at byte {offset} is named before"));
        }
    }
    if entries.len() != starts.len() {
        say(format!("{} entries, {} has {} records", entries.len(), shown(file), starts.len()));
    }
    let more = wrong.len().saturating_sub(LISTED);
    wrong.into_iter().take(LISTED).for_each(&mut say);
    if more > 0 {
        say(format!("{more} more wrong entries, the first {LISTED} are listed"));
    }
}

/// Offset of each record that an index names, and its length where the index says it.
fn entries(file: &ShardFile, index: &Path, records: u64) -> Result<Vec<(u64, Option<u64>)>> {
    let failed = |error| sys::io_error("cannot read", index, error);
    let mut bytes = Vec::new();
    let most = ENTRY_BYTES * (records + 1);
    let read = File::open(index).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if read as u64 > most {
        return Err(Error::data(format!("longer than an index of {records} records can be")));
    }
    if file.kind.name() == recordio::NAME {
        return Ok(recordio::read_idx(&bytes)?.into_iter().map(|(_, offset)| (offset, None)).collect());
    }
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let lines = String::from_utf8_lossy(&bytes);
    let entries = lines.lines().zip(1u64..).map(|(line, at)| {
        let found = line.split_once(' ').and_then(|(offset, bytes)| Some((number(offset)?, Some(number(bytes)?))));
        found.ok_or_else(|| Error::data(format!("line {at} is not offset and length of a record")))
    });
    entries.collect()
}

/// Compares lengths and hashes in an `index.json` with the files that it speaks of.
pub(super) fn compare_files(
    file: &ShardFile,
    expected: &mds::Shard,
    options: &Options,
    monitor: &dyn Monitor,
    walked: &mut Walked,
) -> Result<()> {
    let raw = &expected.raw_data;
    // Where the index lies: a name in it may have folders.
    let depth = |name: &str| Path::new(name).components().count();
    let names = [Some(raw), expected.zip_data.as_ref()].into_iter().flatten().map(|file| file.basename.as_str());
    let own = names.into_iter().find(|name| file.path.ends_with(name)).unwrap_or(&raw.basename);
    let folder = file.path.ancestors().nth(depth(own)).unwrap_or(Path::new(""));
    let (raw_path, zip_path) = (folder.join(&raw.basename), |zip: &mds::File| folder.join(&zip.basename));
    match raw_path.exists() {
        true => compare_file(&raw_path, raw, options, monitor, walked)?,
        false if options.quick => {}
        // Only the compressed file is there: what it unpacks to is what the index speaks of.
        false => {
            let (names, skipped) = raw.known_hashes();
            let unpacked = file.input().and_then(|mut input| digest(&mut input.bytes, names, monitor));
            match unpacked {
                // The walk has told what keeps it from being unpacked.
                Err(error) if error.kind() != shardpack_format::ErrorKind::Interrupted => {}
                unpacked => say(&file.path, " unpacked", raw, unpacked?, &skipped, walked),
            }
        }
    }
    match &expected.zip_data {
        Some(zip) if zip_path(zip).exists() => compare_file(&zip_path(zip), zip, options, monitor, walked),
        _ => Ok(()),
    }
}

/// Compares a file as it lies there; of a quick look, only its length.
fn compare_file(
    path: &Path,
    expected: &mds::File,
    options: &Options,
    monitor: &dyn Monitor,
    walked: &mut Walked,
) -> Result<()> {
    let (names, skipped) = if options.quick { Default::default() } else { expected.known_hashes() };
    let failed = |error: io::Error| sys::io_error("cannot read", path, error);
    let found = match names.is_empty() {
        true => path.metadata().map(|meta| (meta.len(), BTreeMap::new())).map_err(failed),
        false => File::open(path).map_err(failed).and_then(|mut file| digest(&mut file, names, monitor)),
    };
    match found {
        Err(error) if error.kind() == shardpack_format::ErrorKind::Interrupted => return Err(error),
        Err(error) => walked.add(super::from_error(path.display().to_string(), &error)),
        Ok(found) => say(path, "", expected, found, &skipped, walked),
    }
    Ok(())
}

/// Tells in what a file differs from its entry.
fn say(
    path: &Path,
    state: &str,
    expected: &mds::File,
    (bytes, hashes): (u64, BTreeMap<String, String>),
    skipped: &[&str],
    walked: &mut Walked,
) {
    let file = path.display().to_string();
    let mut wrong = |what: String| walked.add(Problem { file: file.clone(), what, ..Problem::default() });
    if bytes != expected.bytes {
        wrong(format!("{bytes} bytes{state}, index.json says {}", expected.bytes));
    }
    for (name, found) in hashes {
        let said = expected.hashes.get(&name).map_or("", String::as_str);
        if !found.eq_ignore_ascii_case(said) {
            wrong(format!("its {name}{state} is {found}, index.json says {said}"));
        }
    }
    for name in skipped {
        walked.notes.push(format!("{file}: hash {name} in index.json is not known here and was not checked"));
    }
}
