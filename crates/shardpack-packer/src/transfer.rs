//! Files between a folder of this machine and a storage, several at a time.

use std::{
    collections::BTreeMap,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use shardpack_format::{Result, hash::FileHash, regular};
use shardpack_storage::{Size, Storage};

use crate::{monitor::Monitor, parallel::each, sys};

/// Concurrent requests for small files and lengths.
pub(crate) const REQUESTS: usize = 32;
/// Number of pieces of a large file that are sent at a time, and their length in bytes.
const PIECES: usize = 8;
const PIECE_BYTES: u64 = 8 << 20;
/// Bytes of a file that a thread reads at a time.
const READ_BYTES: u64 = 1 << 20;

/// The storage of a split, or of the dataset itself if there is no split.
pub fn of_split(storage: &Arc<dyn Storage>, split: Option<&str>) -> Result<Arc<dyn Storage>> {
    split.map_or_else(|| Ok(Arc::clone(storage)), |split| storage.folder(split))
}

/// Lengths in bytes of those of `files` that exist.
pub(crate) fn lengths<'f>(storage: &dyn Storage, files: &[&'f str]) -> Result<BTreeMap<&'f str, u64>> {
    let lengths = Mutex::new(BTreeMap::new());
    each(files, REQUESTS, |file| {
        if let Some(bytes) = storage.length(file)? {
            lengths.lock().unwrap_or_else(PoisonError::into_inner).insert(*file, bytes);
        }
        Ok(())
    })?;
    Ok(lengths.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Puts small files of the folder `from`.
pub(crate) fn put_files(storage: &dyn Storage, from: &Path, files: &[PathBuf]) -> Result<()> {
    each(files, REQUESTS, |file| {
        let path = from.join(file);
        let bytes = regular::read(&path).map_err(|error| sys::io_error("cannot read", &path, error))?;
        storage.put(&file.to_string_lossy(), bytes)
    })
}

/// Removes files.
pub(crate) fn remove_files(storage: &dyn Storage, files: &[String]) -> Result<()> {
    each(files, REQUESTS, |file| storage.remove(file))
}

/// Puts the file at `path`, of any length, which has this length in bytes and this BLAKE3, or replaces the file of that name.
pub fn put_file(
    storage: &dyn Storage,
    file: &str,
    path: &Path,
    (bytes, blake3): (u64, &FileHash),
    monitor: &dyn Monitor,
) -> Result<()> {
    let failed = |error| sys::io_error("cannot read", path, error);
    let from = regular::open(path).map_err(failed)?;
    let output = storage.create(file, Size::Known(bytes))?;
    let starts: Vec<u64> = (0..bytes.div_ceil(PIECE_BYTES)).map(|piece| piece * PIECE_BYTES).collect();
    each(&starts, PIECES, |start| {
        let (mut at, end) = (*start, bytes.min(start + PIECE_BYTES));
        while at < end {
            monitor.check_cancelled()?;
            let mut piece = vec![0; READ_BYTES.min(end - at) as usize];
            from.read_exact_at(&mut piece, at).map_err(failed)?;
            output.write_at(&piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    })?;
    output.finish(bytes, blake3)
}
