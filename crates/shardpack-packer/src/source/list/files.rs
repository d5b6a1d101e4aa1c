//! The files that a list names: looked at by many threads, in the order of their paths.

use std::{
    os::fd::AsFd,
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::{
    fs::{AtFlags, FileType, Stat},
    io::Errno,
};
use shardpack_format::{Result, component::Component, threads};

use crate::{
    component_table::Cell,
    monitor::Monitor,
    parallel::each_while_helping,
    source::{
        Prefix, ReadError, Refusal, links::NOT_FOLLOWED, names, prefix::without_place, storage::NETWORK_READS, walk,
    },
    sys,
};

/// Rows whose files are looked at by a thread at a time.
const BATCH: usize = 512;
/// What the file of a row is.
pub(super) struct Looked {
    pub bytes: u32,
    pub place: u64,
    pub stamp: i64,
    pub cells: Vec<Cell>,
}

/// How files are looked at.
pub(super) struct Files<'a> {
    /// Folder that paths are relative to.
    pub root: &'a Path,
    /// What is there, where it is a URL.
    pub remote: Option<&'a Prefix>,
    /// What is wanted beside them.
    pub with: &'a [Component],
    /// Symbolic links are bad, also on the way to a file.
    pub no_follow: bool,
    pub threads: usize,
}

impl Files<'_> {
    /// What the files at `paths` are; `None` of those that are `None`.
    ///
    /// # Errors
    /// When the root cannot be opened, or the person interrupts it. What is wrong with a file is told of it.
    pub fn look(&self, paths: &[Option<&[u8]>], monitor: &dyn Monitor) -> Result<Vec<Option<Result<Looked, String>>>> {
        use std::os::unix::ffi::OsStrExt;
        if let Some(remote) = self.remote {
            return self.look_at_objects(remote, paths, monitor);
        }
        let root = walk::open_folder(rustix::fs::CWD, self.root.as_os_str().as_bytes())
            .map_err(|error| sys::io_error("cannot open folder", self.root, error.into()))?;
        let mut looked: Vec<Option<Result<Looked, String>>> = Vec::new();
        looked.resize_with(paths.len(), || None);
        let batches = Mutex::new(paths.chunks(BATCH).zip(looked.chunks_mut(BATCH)));
        let failed = Mutex::new(Ok(()));
        let fail = |error| {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.is_ok() {
                *failed = Err(error);
            }
        };
        threads::each(self.threads, || {
            loop {
                let next = batches.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((paths, looked)) = next else { return };
                if let Err(error) = monitor.go_on() {
                    return fail(error);
                }
                let mut bytes = 0;
                for (path, looked) in paths.iter().zip(looked) {
                    let Some(path) = path else { continue };
                    match look_at(&root, path, self.with, !self.no_follow) {
                        Ok(found) => {
                            bytes += found.as_ref().map_or(0, |found| u64::from(found.bytes));
                            *looked = Some(found);
                        }
                        Err((path, error)) => {
                            let path = self.root.join(names::as_path(&path));
                            return fail(sys::io_error("cannot look at", &path, error.into()));
                        }
                    }
                }
                monitor.advance(paths.len() as u64, bytes);
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        Ok(looked)
    }

    /// The same of objects below a URL: each is asked for.
    fn look_at_objects(
        &self,
        remote: &Prefix,
        paths: &[Option<&[u8]>],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Result<Looked, String>>>> {
        let mut looked: Vec<Option<Result<Looked, String>>> = Vec::new();
        looked.resize_with(paths.len(), || None);
        let looked = Mutex::new(looked);
        let todo: Vec<_> = paths.iter().enumerate().filter_map(|(place, path)| Some((place, (*path)?))).collect();
        each_while_helping(&todo, NETWORK_READS, &|| remote.reads_that_help(), |(place, path)| {
            monitor.go_on()?;
            let found = match self.object(remote, *place as u64, path) {
                Ok(found) => Ok(found),
                Err(ReadError::Refused(Refusal(why))) => Err(why),
                Err(ReadError::Fatal(error)) => return Err(error),
            };
            monitor.advance(1, found.as_ref().map_or(0, |found| u64::from(found.bytes)));
            looked.lock().unwrap_or_else(PoisonError::into_inner)[*place] = Some(found);
            Ok(())
        })?;
        Ok(looked.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the object at `path` is, and those that are wanted beside it.
    fn object(&self, remote: &Prefix, place: u64, path: &[u8]) -> Result<Looked, ReadError> {
        // Names of objects are text, as paths of such lists are.
        let look = |name: &[u8]| remote.look(&String::from_utf8_lossy(name)).map_err(without_place);
        let refused = |why: String| ReadError::Refused(Refusal(why));
        let (bytes, stamp) = look(path)?.ok_or_else(|| refused(walk::unread(Errno::NOENT)))?;
        let bytes = walk::sized(bytes).map_err(refused)?;
        let (folder, name) = cut(path);
        let mut cells = Vec::new();
        for kind in self.with.iter().filter(|kind| !kind.is_text()) {
            let Some(file) = kind.file_of(name) else {
                cells.push(Cell::ABSENT);
                continue;
            };
            cells.push(match look(&names::join(folder, &file))? {
                None => Cell::ABSENT,
                Some((bytes, stamp)) => Cell::file(walk::beside(&file, bytes).map_err(refused)?, stamp),
            });
        }
        Ok(Looked { bytes, place, stamp, cells })
    }
}

/// Folder and name of a path.
fn cut(path: &[u8]) -> (&[u8], &[u8]) {
    let at = path.iter().rposition(|byte| *byte == b'/');
    at.map_or((&[], path), |at| (&path[..at], &path[at + 1..]))
}

/// Whether `path` or a folder on the way to it is a link.
fn has_link(root: &impl AsFd, path: &[u8]) -> bool {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
    let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    ends.into_iter().any(|end| rustix::fs::statat(root, &path[..end], AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_link))
}

/// What the file at `path` is, or why it is no sample.
///
/// # Errors
/// The file that the machine did not show.
fn look_at(
    root: &impl AsFd,
    path: &[u8],
    kinds: &[Component],
    follows: bool,
) -> Result<Result<Looked, String>, (Vec<u8>, Errno)> {
    if !follows && has_link(root, path) {
        return Ok(Err(NOT_FOLLOWED.to_owned()));
    }
    let stat = match rustix::fs::statat(root, path, AtFlags::empty()) {
        Ok(stat) => stat,
        Err(error) if walk::is_of_path(error) => return Ok(Err(walk::unread(error))),
        Err(error) => return Err((path.to_vec(), error)),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Err("not a regular file".to_owned()));
    }
    let (folder, name) = cut(path);
    let facts = walk::Facts::of(&stat);
    let cells = walk::cells(root, folder, name, kinds, follows, &|_| true)?;
    Ok(walk::image_bytes(&stat)
        .and_then(|bytes| Ok(Looked { bytes, place: facts.inode, stamp: facts.mtime_ns, cells: cells? })))
}
