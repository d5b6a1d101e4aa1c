//! The folder of a cache: its mark, how many bytes are in it, and what is removed to make room.
//!
//! A folder has one for each dataset, named by its id; in it a file for each shard or index, named by its BLAKE3. The file that marks the
//! folder has the sum of what is counted for all of them, and its lock is held by whoever changes that sum, makes a file or removes one.
//!
//! Holds at all times: locks are those of open files, which the system takes back from a process that ends in any way; nobody waits for
//! one for long; room is counted before it is taken; only files with names of ours in a folder with our mark are removed, and none of a
//! dataset that any process has open.

use std::{
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use shardpack_format::{Error, Result, hash};

use super::blocks::{self, Blocks, Found};

/// Marks a folder as a cache of ours.
const MARK: &str = "shardpack-cache-1";
/// In the folder of a dataset: locked by whoever has the dataset open, and as old as its last opening.
const IN_USE: &str = "in-use";
/// What files of objects end in.
const EXTENSION: &str = "blocks";
/// How long the lock of a folder is waited for where there is no other way, and where there is.
const PATIENCE: Duration = Duration::from_secs(10);
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// A folder that is a cache.
pub(super) struct Folder {
    path: PathBuf,
    limit_bytes: u64,
}

/// A dataset that this process has open: nothing of it is removed.
pub(super) struct Opened {
    path: PathBuf,
    _in_use: File,
}

impl Opened {
    fn object(&self, name: &[u8; 32]) -> PathBuf {
        self.path.join(hash::hex(name)).with_extension(EXTENSION)
    }
}

/// What a change of the folder came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Whether there was room.
    pub is_made: bool,
    pub evicted_bytes: u64,
    /// Files that were made anew.
    pub damaged_files: u64,
    /// What is counted now; 0 where that was not looked at.
    pub held_bytes: u64,
}

/// The lock of a folder, and the sum in it.
struct Locked<'a> {
    folder: &'a Folder,
    file: File,
    change: Change,
}

impl Folder {
    /// The folder at `path`, which is made where there is none.
    ///
    /// # Errors
    /// When it is no folder, or holds something and has no mark; or the system refuses.
    pub fn open(path: &Path, limit_bytes: u64) -> Result<Self> {
        // As long as it is used, wherever this process goes.
        let path =
            &std::path::absolute(path).map_err(|error| Error::io("cannot tell where it is", error).in_file(path))?;
        let open = || {
            fs::create_dir_all(path).map_err(|error| Error::io("cannot make the folder of a cache", error))?;
            let mark = path.join(MARK);
            let is_marked = || fs::symlink_metadata(&mark).is_ok_and(|mark| mark.is_file());
            let mut inside = fs::read_dir(path).map_err(|error| Error::io("cannot list", error))?;
            // Another process may just be making it.
            if !is_marked() && inside.next().is_some() && !is_marked() {
                return Err(Error::usage(format!("no cache: it is not empty, and there is no {MARK} in it"))
                    .help("name an empty folder, or one that is not there yet"));
            }
            blocks::open(&mark, true).map_err(|error| Error::io("cannot write", error).in_file(mark))?;
            Ok(Self { path: path.clone(), limit_bytes })
        };
        open().map_err(|error| error.in_file(path))
    }

    /// Opens the folder of the dataset `id`; where the cache holds more than it may, what is not in use is removed first.
    pub fn dataset(&self, id: &[u8; 32]) -> io::Result<(Opened, Change)> {
        let path = self.path.join(hash::hex(id));
        let mut locked = self.lock(PATIENCE)?;
        let enter = || {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ if is_folder(&path) => {}
                _ => return Err(io::Error::new(io::ErrorKind::NotADirectory, "no folder, but a link or a file")),
            }
            let in_use = blocks::open(&path.join(IN_USE), true)?;
            in_use.set_modified(SystemTime::now())?;
            Ok(in_use)
        };
        // From now on it is the last that is removed where the limit is less than before; it may be, nevertheless.
        drop(enter()?);
        locked.make_room(0)?;
        let in_use = enter()?;
        // Whoever removes has the lock of the folder, which is ours now.
        in_use.try_lock_shared().map_err(io::Error::from)?;
        Ok((Opened { path, _in_use: in_use }, locked.change))
    }

    /// Opens the file of an object of `bytes` in `dataset`; `None` where there is none.
    pub fn object(&self, dataset: &Opened, name: &[u8; 32], bytes: u64) -> io::Result<Option<Blocks>> {
        match Blocks::find(&dataset.object(name), bytes)? {
            Found::Right(blocks) => Ok(Some(blocks)),
            Found::Missing | Found::Damaged => Ok(None),
        }
    }

    /// Makes the file of an object of `bytes` in `dataset`, unless another process has by now; `None` where there is no room for it.
    pub fn make_object(&self, dataset: &Opened, name: &[u8; 32], bytes: u64) -> io::Result<(Option<Blocks>, Change)> {
        let path = dataset.object(name);
        let mut locked = self.lock(SHORT_PATIENCE)?;
        match Blocks::find(&path, bytes)? {
            Found::Right(blocks) => return Ok((Some(blocks), locked.change)),
            Found::Missing => {}
            Found::Damaged => locked.change.damaged_files = 1,
        }
        if !locked.make_room(Blocks::empty_bytes(bytes))? {
            return Ok((None, locked.change));
        }
        Ok((Some(Blocks::create(&path, bytes)?), locked.change))
    }

    /// Counts room for `stretch` of `blocks`, where there is any.
    pub fn reserve(&self, blocks: &Blocks, stretch: &Range<u64>) -> io::Result<Change> {
        if blocks.uncounted_bytes(stretch)? == 0 {
            return Ok(Change { is_made: true, ..Change::default() });
        }
        let mut locked = self.lock(SHORT_PATIENCE)?;
        // Another process may have counted some by now.
        if locked.make_room(blocks.uncounted_bytes(stretch)?)? {
            blocks.count(stretch)?;
            locked.change.is_made = true;
        }
        Ok(locked.change)
    }

    fn lock(&self, patience: Duration) -> io::Result<Locked<'_>> {
        // Opened each time: what is locked through one opening is locked for all who share that, as parent and child after a fork.
        let file = blocks::open(&self.path.join(MARK), false)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if since.elapsed() < patience => thread::sleep(Duration::from_millis(1)),
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

    /// Folders of datasets, those first that were opened longest ago.
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
        // Said, since a process that was forked meanwhile has it open too.
        let _ = self.file.unlock();
    }
}

impl Locked<'_> {
    /// The sum; `None` where there is none yet, or it is none.
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

    /// Counts anew what is there: processes that were killed may have counted what they did not use.
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

    /// Counts `bytes` more, if there is room for them or can be made.
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
            // Before it is taken: a process that is killed between has counted too much, and not too little.
            self.write(self.change.held_bytes + bytes)?;
        }
        Ok(is_room)
    }

    /// Removes files until no more than `aim` bytes are left, of datasets that nobody has open.
    fn evict(&mut self, aim: u64) -> io::Result<()> {
        let mut failed = Ok(());
        for dataset in self.folder.datasets()? {
            if self.change.held_bytes <= aim {
                break;
            }
            // One that is another user's is passed by.
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
            fs::remove_file(&path)?;
            self.change.evicted_bytes += bytes;
            self.write(self.change.held_bytes.saturating_sub(bytes))?;
        }
        if left.next().is_none() {
            // What others have put there keeps it.
            let _ = fs::remove_file(dataset.join(IN_USE)).and_then(|()| fs::remove_dir(dataset));
        }
        in_use.unlock()
    }
}

/// Whether it is a folder itself, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Whether this is a hash as we write it.
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
