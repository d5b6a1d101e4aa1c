//! Manages the folder of a cache: its mark, the number of bytes in it, and eviction.
//!
//! The folder has a subfolder for each dataset, named by its id, with a file for each shard or index, named by its
//! BLAKE3. The mark file of the folder holds the sum of all counted bytes. A process holds the lock of the mark file
//! while it changes the sum, creates a file or removes a file.
//!
//! Holds at all times: locks are locks of open files, which the system releases when a process ends in any way; no
//! process waits long for a lock; room is reserved before it is used; only files with this crate's names in a folder
//! with this crate's mark are removed, and never files of a dataset that a process has open.

use std::{
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use shardpack_format::{Error, Result, hash};
use shardpack_runtime::{Instant, sleep, wall_clock};
use shardpack_storage::own;

use super::blocks::{self, Blocks, CacheFileState};

/// Marks a folder as a cache of shardpack.
const MARK: &str = "shardpack-cache-1";
/// File in the folder of a dataset: locked by each process that has the dataset open; its modification time is the
/// last opening.
const IN_USE: &str = "in-use";
/// Extension of object files.
const EXTENSION: &str = "blocks";
/// How long to wait for the lock of a folder: without an alternative, and with one.
const PATIENCE: Duration = Duration::from_secs(10);
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// A folder that is a cache.
pub(super) struct Folder {
    path: PathBuf,
    limit_bytes: u64,
}

/// A dataset that this process has open, which protects its files from removal.
pub(super) struct Opened {
    path: PathBuf,
    _in_use: File,
}

impl Opened {
    fn object(&self, name: &[u8; 32]) -> PathBuf {
        self.path.join(hash::hex(name)).with_extension(EXTENSION)
    }
}

/// Result of a change of the folder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Whether there was room.
    pub is_made: bool,
    pub evicted_bytes: u64,
    /// Damaged files that were created again.
    pub damaged_files: u64,
    /// Counted bytes after the change; 0 if they were not read.
    pub held_bytes: u64,
}

/// The lock of a folder, with its sum.
struct Locked<'a> {
    folder: &'a Folder,
    file: File,
    change: Change,
}

impl Folder {
    /// Opens the folder at `path`, or creates it.
    ///
    /// # Errors
    /// When it is not a folder, or is not empty and has no mark; or the system refuses.
    pub fn open(path: &Path, limit_bytes: u64) -> Result<Self> {
        // Absolute, because this process may change its working directory.
        let path = &std::path::absolute(path)
            .map_err(|error| Error::io("cannot determine its absolute path", error).in_file(path))?;
        let open = || {
            own::create_folders(path)
                .map_err(|error| Error::io("cannot make the folder of a cache", os_error(error)))?;
            let mark = path.join(MARK);
            let is_marked = || fs::symlink_metadata(&mark).is_ok_and(|mark| mark.is_file());
            let mut inside = fs::read_dir(path).map_err(|error| Error::io("cannot list", error))?;
            // Another process may be creating it at the same time.
            if !is_marked() && inside.next().is_some() && !is_marked() {
                return Err(Error::usage(format!("not a cache: the folder is not empty and has no {MARK}"))
                    .help("name an empty folder, or one that is not there yet"));
            }
            blocks::open(&mark, true).map_err(|error| Error::io("cannot write", error).in_file(mark))?;
            Ok(Self { path: path.clone(), limit_bytes })
        };
        open().map_err(|error| error.in_file(path))
    }

    /// Opens the folder of the dataset `id`; if the cache is over its limit, removes datasets that are not in use
    /// first.
    pub fn dataset(&self, id: &[u8; 32]) -> io::Result<(Opened, Change)> {
        let path = self.path.join(hash::hex(id));
        let mut locked = self.lock(PATIENCE)?;
        let enter = || {
            if !own::create_folder(&path).map_err(os_error)? && !is_folder(&path) {
                return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder, but a link or a file"));
            }
            let in_use = blocks::open(&path.join(IN_USE), true)?;
            own::set_modified(&in_use, wall_clock())?;
            Ok(in_use)
        };
        // The dataset becomes the most recent, so it is removed last if the limit is smaller than before. It may still
        // be removed, so it is entered again.
        drop(enter()?);
        locked.make_room(0)?;
        let in_use = enter()?;
        // A process that removes files holds the lock of the folder, which this process holds now.
        in_use.try_lock_shared().map_err(io::Error::from)?;
        Ok((Opened { path, _in_use: in_use }, locked.change))
    }

    /// Opens the file of an object of `bytes` in `dataset`; `None` if it is missing or damaged.
    pub fn object(&self, dataset: &Opened, name: &[u8; 32], bytes: u64) -> io::Result<Option<Blocks>> {
        match Blocks::find(&dataset.object(name), bytes)? {
            CacheFileState::Right(blocks) => Ok(Some(blocks)),
            CacheFileState::Missing | CacheFileState::Damaged => Ok(None),
        }
    }

    /// Creates the file of an object of `bytes` in `dataset`, unless another process has created it; `None` if there
    /// is no room for it.
    pub fn make_object(&self, dataset: &Opened, name: &[u8; 32], bytes: u64) -> io::Result<(Option<Blocks>, Change)> {
        let path = dataset.object(name);
        let mut locked = self.lock(SHORT_PATIENCE)?;
        match Blocks::find(&path, bytes)? {
            CacheFileState::Right(blocks) => return Ok((Some(blocks), locked.change)),
            CacheFileState::Missing => {}
            CacheFileState::Damaged => locked.change.damaged_files = 1,
        }
        if !locked.make_room(Blocks::empty_bytes(bytes))? {
            return Ok((None, locked.change));
        }
        Ok((Some(Blocks::create(&path, bytes)?), locked.change))
    }

    /// Reserves room for `stretch` of `blocks`, if the limit allows.
    pub fn reserve(&self, blocks: &Blocks, stretch: &Range<u64>) -> io::Result<Change> {
        if blocks.uncounted_bytes(stretch)? == 0 {
            return Ok(Change { is_made: true, ..Change::default() });
        }
        let mut locked = self.lock(SHORT_PATIENCE)?;
        // Another process may have reserved some in the meantime.
        if locked.make_room(blocks.uncounted_bytes(stretch)?)? {
            blocks.count(stretch)?;
            locked.change.is_made = true;
        }
        Ok(locked.change)
    }

    fn lock(&self, patience: Duration) -> io::Result<Locked<'_>> {
        // Opened for each lock: processes that share an open file, like parent and child after a fork, also share its
        // lock.
        let file = blocks::open(&self.path.join(MARK), false)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if since.elapsed() < patience => sleep(Duration::from_millis(1)),
                Err(TryLockError::WouldBlock) => {
                    let what = format!("another process has held the lock of the cache for {} s", patience.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, what));
                }
            }
        }
        let mut locked = Locked { folder: self, file, change: Change::default() };
        locked.change.held_bytes = match locked.written()? {
            Some(bytes) => bytes,
            None => locked.recount()?,
        };
        Ok(locked)
    }

    /// Folders of datasets, least recently opened first.
    fn datasets(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let path = entry.path();
            if is_name(&entry.file_name()) && is_folder(&path) {
                let opened = fs::symlink_metadata(path.join(IN_USE)).and_then(|file| file.modified());
                found.push((opened.unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Unlocked explicitly, because a process that was forked in the meantime has the file open too.
        let _ = self.file.unlock();
    }
}

impl Locked<'_> {
    /// The sum; `None` if it is missing or invalid.
    fn written(&self) -> io::Result<Option<u64>> {
        let mut text = [0; 20];
        match self.file.read_exact_at(&mut text, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok())),
        }
    }

    fn write(&mut self, bytes: u64) -> io::Result<()> {
        self.file.write_all_at(format!("{bytes:020}\n").as_bytes(), 0)?;
        self.change.held_bytes = bytes;
        Ok(())
    }

    /// Counts all files again: killed processes may have reserved room that they did not use.
    fn recount(&mut self) -> io::Result<u64> {
        let mut bytes = 0_u64;
        for dataset in self.folder.datasets()? {
            for path in objects(&dataset)? {
                bytes = bytes.saturating_add(Blocks::counted_bytes(&path)?);
            }
        }
        self.write(bytes)?;
        Ok(bytes)
    }

    /// Reserves `bytes`; removes other datasets if necessary. Returns whether there is room.
    fn make_room(&mut self, bytes: u64) -> io::Result<bool> {
        let limit = self.folder.limit_bytes;
        let fits = |held: u64| held.saturating_add(bytes) <= limit;
        if !fits(self.change.held_bytes) {
            self.recount()?;
            if !fits(self.change.held_bytes) {
                self.evict(limit.saturating_sub(bytes))?;
            }
        }
        let is_room = fits(self.change.held_bytes);
        if is_room && bytes > 0 {
            // Before the room is used: a process that is killed in between has counted too much, not too little.
            self.write(self.change.held_bytes + bytes)?;
        }
        Ok(is_room)
    }

    /// Removes files of datasets that no process has open, until at most `aim` bytes remain.
    fn evict(&mut self, aim: u64) -> io::Result<()> {
        let mut failed = Ok(());
        for dataset in self.folder.datasets()? {
            if self.change.held_bytes <= aim {
                break;
            }
            // Datasets of other users are skipped.
            if let Err(error) = self.evict_of(&dataset, aim) {
                failed = failed.and(Err(error));
            }
        }
        if self.change.held_bytes <= aim { Ok(()) } else { failed }
    }

    fn evict_of(&mut self, dataset: &Path, aim: u64) -> io::Result<()> {
        let in_use = blocks::open(&dataset.join(IN_USE), true)?;
        if in_use.try_lock().is_err() {
            return Ok(());
        }
        let mut left = objects(dataset)?.into_iter();
        while self.change.held_bytes > aim
            && let Some(path) = left.next()
        {
            let bytes = Blocks::counted_bytes(&path)?;
            own::remove(&path).map_err(os_error)?;
            self.change.evicted_bytes += bytes;
            self.write(self.change.held_bytes.saturating_sub(bytes))?;
        }
        if left.next().is_none() {
            // Foreign files keep the folder.
            let _ = own::remove(&dataset.join(IN_USE)).and_then(|()| own::remove_empty_folder(dataset));
        }
        in_use.unlock()
    }
}

/// The cause of an error of the storage.
fn os_error(error: Error) -> io::Error {
    match error.io_error().and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error),
    }
}

/// Whether it is a folder and not a symbolic link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Whether this is a hash as shardpack writes it.
fn is_name(name: &OsStr) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 64 && name.as_encoded_bytes().iter().all(is_digit)
}

/// Files of objects in the folder of a dataset.
fn objects(dataset: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dataset)? {
        let entry = entry?;
        let path = entry.path();
        let is_ours = path.extension() == Some(OsStr::new(EXTENSION)) && path.file_stem().is_some_and(is_name);
        if is_ours && entry.file_type()?.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
