//! Compares the files of parts with their records before a merge seals them.

use std::{
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use shardpack_format::{Result, hash, index::Head, manifest, regular};
use shardpack_runtime::threads;

use super::merge::{At, Options};
use crate::{
    monitor::{Monitor, Phase},
    sys,
    transfer::REQUESTS,
};

/// Bytes of a shard that are hashed between two checks for cancellation.
const HASHED_BYTES: usize = 8 << 20;

/// A shard to check, with its sidecars.
pub(super) struct ShardCheck<'a> {
    /// Folder of its dataset.
    pub folder: PathBuf,
    pub entry: &'a manifest::Shard,
    pub sidecars: &'a [manifest::File],
    /// The record to compare with, for messages.
    pub by: &'static str,
}

/// Compares shards, indexes and sidecars with their records, and returns the problems: compares lengths and
/// heads of indexes; with `options.verify`, all bytes.
pub(super) fn check(
    at: &At<'_>,
    all: &[ShardCheck<'_>],
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Vec<(String, String)>> {
    if options.verify {
        let entries = || all.iter().map(|looked| looked.entry);
        monitor.begin(
            Phase::Verifying,
            entries().map(|shard| shard.samples).sum(),
            entries().map(|shard| shard.bytes).sum(),
        );
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(looked) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            monitor.check_cancelled()?;
            if let Some((file, what)) = check_one(at, looked, options.verify, monitor)? {
                let path = looked.folder.join(file);
                found.push((path.strip_prefix(&at.folder).unwrap_or(&path).to_string_lossy().into_owned(), what));
            }
        }
        Ok(found)
    };
    let jobs = options.jobs.max(at.access().reads.min(REQUESTS));
    let mut problems = threads::gather(jobs, work).into_iter().collect::<Result<Vec<_>>>()?.concat();
    problems.sort();
    Ok(problems)
}

/// The first file that differs from its record, and the problem.
fn check_one(
    at: &At<'_>,
    looked: &ShardCheck<'_>,
    verify: bool,
    monitor: &dyn Monitor,
) -> Result<Option<(String, String)>> {
    let ShardCheck { folder, by, .. } = looked;
    let storage = at.storage(folder)?;
    let manifest::Shard { file, samples, bytes, blake3, index } = looked.entry;
    let sidecars = looked.sidecars.iter().map(|sidecar| (&sidecar.file, sidecar.bytes));
    for (name, expected) in [(file, *bytes), (&index.file, index.bytes)].into_iter().chain(sidecars) {
        let what = match storage.length(name)? {
            None => "is missing".to_owned(),
            Some(found) if found != expected => format!("is {found} bytes, {expected} in the {by}"),
            Some(_) => continue,
        };
        return Ok(Some((name.clone(), what)));
    }
    let is_fetched = at.fetch(folder, index)?;
    let path = folder.join(&index.file);
    let failed = |e| sys::io_error("cannot read", &path, e);
    let mut head = [0; Head::BYTES];
    regular::open(&path).and_then(|opened| opened.read_exact_at(&mut head, 0)).map_err(failed)?;
    let head = Head::read(&head)
        .filter(|head| (head.rows, head.shard_bytes, head.shard_blake3) == (*samples, *bytes, blake3.0));
    if head.is_none() {
        return Ok(Some((index.file.clone(), format!("does not match the shard in the {by}"))));
    }
    let differs = |name: &String| Some((name.clone(), format!("its hash differs from the {by}")));
    // A downloaded index is in memory already.
    if is_fetched && hash::file(&regular::read(&path).map_err(failed)?) != index.blake3.0 {
        return Ok(differs(&index.file));
    }
    if !verify {
        return Ok(None);
    }
    for file in [index].into_iter().chain(looked.sidecars) {
        let bytes = at.read(folder, file)?.unwrap_or_default();
        if hash::file(&bytes) != file.blake3.0 {
            return Ok(differs(&file.file));
        }
    }
    let path = folder.join(file);
    let mut found = hash_of(storage.reader(file, *bytes)?, &path, monitor)?;
    if found != blake3.0 && at.access().may_damage {
        // Read again, in case the data was corrupted in transit.
        found = hash_of(storage.reader(file, *bytes)?, &path, monitor)?;
    }
    monitor.advance(*samples, 0);
    Ok(if found == blake3.0 { None } else { differs(file) })
}

/// BLAKE3 of all bytes of a reader.
fn hash_of(mut file: impl Read, path: &Path, monitor: &dyn Monitor) -> Result<hash::FileHash> {
    let (mut hasher, mut piece) = (blake3::Hasher::new(), vec![0; HASHED_BYTES]);
    loop {
        monitor.check_cancelled()?;
        match file.read(&mut piece).map_err(|e| sys::io_error("cannot read", path, e))? {
            0 => return Ok(*hasher.finalize().as_bytes()),
            read => {
                hasher.update(&piece[..read]);
                monitor.advance(0, read as u64);
            }
        }
    }
}
