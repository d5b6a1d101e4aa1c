//! Extracts one image, found by its key or by its path in the source.
//!
//! A name from the data is never used as a local file name: the caller chooses the destination.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use shardpack_format::{
    Error, Result,
    formats::webdataset::{reader::MemberKind, samples},
    shell, text,
};

use super::{Target, View, scan};
use crate::{
    foreign::{Archive, ShardFile},
    monitor::Monitor,
    parallel::in_pool,
};

/// Rows between two checks for cancellation.
const ROWS_AT_ONCE: u64 = 4096;
/// Maximum length of an image in bytes.
const MAX_BYTES: u64 = u32::MAX as u64;

/// A function that finds the number of a sample.
type Find = fn(&View, &[u8], &dyn Monitor) -> Result<Option<u64>>;

/// An extracted image.
#[derive(Debug)]
pub struct Extracted {
    /// The packed bytes, checked against their hash if the dataset has hashes.
    pub bytes: Vec<u8>,
    /// Key and original path, in the form used in messages; for foreign tar files the member name.
    pub name: String,
    /// Path of the shard.
    pub shard: PathBuf,
}

/// Reads the image of the sample whose key, or else original path, is `wanted`. Paths are searched with `jobs` threads.
///
/// For foreign files `wanted` is the key of a sample (its first image is read), the name of a member, or the record's file name.
///
/// # Errors
/// If no sample matches, several datasets have a match, or the bytes are corrupt.
pub fn extract(targets: &[Target], wanted: &[u8], jobs: usize, monitor: &dyn Monitor) -> Result<Extracted> {
    let find = |by: Find| {
        let mut found = Vec::new();
        for target in targets {
            if let Target::Dataset(view) = target {
                found.extend(by(view, wanted, monitor)?.map(|number| (view, number)));
            }
        }
        Ok::<_, Error>(found)
    };
    let mut found = find(by_key)?;
    if found.is_empty() {
        found = in_pool(jobs, || find(by_path))?;
    }
    match found[..] {
        [(view, number)] => return read(view, number),
        [] => {}
        [(first, _), ..] => {
            let names: Vec<_> = found.iter().map(|(view, _)| view.dataset.name()).collect();
            let what = format!("{:?} is in {}", text::shown(wanted), names.join(" and in "));
            return Err(in_several(&what, first.dataset.folder()));
        }
    }
    let foreign = targets.iter().filter_map(|target| match target {
        Target::Foreign(files) => Some(files),
        Target::Dataset(_) => None,
    });
    // If a record's name need not be unique, the search continues for a second match.
    let mut first: Option<Extracted> = None;
    for file in foreign.flatten() {
        let found = file.members(true).and_then(|members| match members {
            Some(archive) => in_members(file, archive, wanted, monitor).map(|found| found.map(|found| (found, true))),
            None => in_records(file, wanted, monitor),
        });
        match (file.failure().map_or(found, Err)?, &first) {
            (None, _) => {}
            (Some((found, true)), _) => return Ok(found),
            (Some((found, false)), None) => first = Some(found),
            (Some((found, false)), Some(first)) => {
                let (one, other) = (text::path(&first.shard), text::path(&found.shard));
                let what = format!("{:?} is in {one} and in {other}", text::shown(wanted));
                return Err(in_several(&what, &first.shard));
            }
        }
    }
    if let Some(found) = first {
        return Ok(found);
    }
    Err(Error::usage(format!("no sample with the key or the path {:?}", text::shown(wanted)))
        .help("`shardpack inspect DST --samples` lists keys and paths"))
}

/// The error for an ambiguous name.
fn in_several(what: &str, one: &Path) -> Error {
    Error::usage(what).help(format!("give one path only: {}", shell::path(one)))
}

fn read(view: &View, number: u64) -> Result<Extracted> {
    let mut bytes = Vec::new();
    // One `pread`, or one unpacked frame; the hash is checked because the dataset was opened that way.
    let row = view.dataset.read(number, &mut bytes)?;
    let shard = view.dataset.shard_of(number)?;
    Ok(Extracted { bytes, name: row.name(), shard: shard.path() })
}

fn by_key(view: &View, key: &[u8], _: &dyn Monitor) -> Result<Option<u64>> {
    if view.is_whole() {
        return view.dataset.find(key);
    }
    for shard in view.shards() {
        let found = shard.index()?.find(key).map_err(|error| error.in_file(shard.index_path()))?;
        if let Some(row) = found {
            return Ok(Some(shard.samples().start + row));
        }
    }
    Ok(None)
}

/// Searches all rows, because paths are not sorted. The path may start with the name of the split.
fn by_path(view: &View, path: &[u8], monitor: &dyn Monitor) -> Result<Option<u64>> {
    let name = view.dataset.name().as_bytes();
    let in_split = path.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"/"));
    let shards: Vec<_> = view.shards().collect();
    let look = |shard: &shardpack_reader::Shard<'_>| {
        for number in 0..shard.len() {
            if number.is_multiple_of(ROWS_AT_ONCE) {
                monitor.check_cancelled()?;
            }
            let row = shard.row(number)?;
            if row.path == path || in_split == Some(row.path) {
                return Ok(Some(shard.samples().start + number));
            }
        }
        Ok(None)
    };
    shards.par_iter().find_map_first(|shard| look(shard).transpose()).transpose()
}

fn in_members(
    file: &ShardFile,
    mut archive: Archive,
    wanted: &[u8],
    monitor: &dyn Monitor,
) -> Result<Option<Extracted>> {
    let in_file = |error: Error| error.in_file(&file.path);
    while let Some(member) = archive.next().map_err(in_file)? {
        monitor.check_cancelled()?;
        let of_key = || samples::split(&member.name).filter(|(key, _)| *key == wanted);
        let is_image = || of_key().is_some_and(|(_, extension)| scan::is_image(extension));
        if member.kind == MemberKind::File && (member.name == wanted || is_image()) {
            let mut bytes = Vec::new();
            archive.read_data(&mut bytes, MAX_BYTES).map_err(in_file)?;
            let name = text::shown(&member.name).to_string();
            return Ok(Some(Extracted { bytes, name, shard: file.path.clone() }));
        }
    }
    Ok(None)
}

/// The image of a matching record, and whether the match is unique.
fn in_records(file: &ShardFile, wanted: &[u8], monitor: &dyn Monitor) -> Result<Option<(Extracted, bool)>> {
    let in_file = |error: Error| error.in_file(&file.path);
    let mut walk = file.walk(&file.own_selection(), &|| monitor.check_cancelled())?;
    while let Some(record) = walk.next().map_err(in_file)? {
        monitor.check_cancelled()?;
        let is_file = record.filename.as_deref() == Some(wanted);
        if record.key != wanted && !is_file {
            continue;
        }
        let name = text::shown(&record.key).to_string();
        if let Err(why) = record.image {
            let error = Error::data(why).in_sample(name);
            return Err(in_file(if file.has_places() { error.at_byte(record.range.start) } else { error }));
        }
        let mut bytes = Vec::new();
        walk.image(&mut bytes).map_err(in_file)?;
        return Ok(Some((Extracted { bytes, name, shard: file.path.clone() }, is_file || record.key_is_unique)));
    }
    Ok(None)
}
