//! Looks up the files that a list names, in the order of their paths, with several threads.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::{
    fs::{AtFlags, FileType},
    io::Errno,
};
use shardpack_format::{Error, Result, component::Component};
use shardpack_runtime::threads;

use crate::{
    ObjectTree, ReadError, Refusal,
    companions::{self, Companions, Refused},
    component_table::Cell,
    filter::PathFilter,
    links::NOT_FOLLOWED,
    monitor::Monitor,
    names::{self, cut},
    object_tree::without_place,
    outcome,
    parallel::for_each_adaptive,
    storage::NETWORK_READS,
    sys, walk,
};

/// Rows that a thread takes at a time.
const BATCH: usize = 512;
/// A row's file.
pub(super) struct RowFile {
    pub bytes: u32,
    pub place: u64,
    pub stamp: i64,
    pub cells: Vec<Cell>,
}

/// The paths of a row: that of its image, and those in its columns of files, where an empty path names no file.
pub(super) struct Paths<'a> {
    pub image: &'a [u8],
    pub files: Vec<&'a [u8]>,
}

/// Settings for looking up files.
pub(super) struct Files<'a> {
    /// Folder of relative paths.
    pub root: &'a Path,
    /// The object tree, if the root is a URL.
    pub remote: Option<&'a ObjectTree>,
    /// Components to find beside the images.
    pub with: &'a [Component],
    /// Components whose files the columns of a row name. Their cells follow the others.
    pub columns: &'a [Component],
    /// With its links: also those in the folders of a path.
    pub keep: &'a PathFilter,
    pub threads: usize,
}

impl Files<'_> {
    /// Looks up the files of each row; the result is `None` for each row that is `None`.
    ///
    /// # Errors
    /// If the root cannot be opened or the user cancels. A problem with one file is returned as its entry.
    pub fn look(
        &self,
        paths: &[Option<Paths<'_>>],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Result<RowFile, Refused>>>> {
        use std::os::unix::ffi::OsStrExt;
        if let Some(remote) = self.remote {
            return self.look_at_objects(remote, paths, monitor);
        }
        let root = walk::open_folder(rustix::fs::CWD, self.root.as_os_str().as_bytes())
            .map_err(|error| sys::io_error("cannot open folder", self.root, error.into()))?;
        let mut looked: Vec<Option<Result<RowFile, Refused>>> = Vec::new();
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
                match monitor.check_cancelled().and_then(|()| self.look_at_batch(&root, paths, looked)) {
                    Ok(bytes) => monitor.advance(paths.len() as u64, bytes),
                    Err(error) => return fail(error),
                }
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        Ok(looked)
    }

    /// Looks at the files of a batch; returns their length together.
    fn look_at_batch(
        &self,
        root: &OwnedFd,
        paths: &[Option<Paths<'_>>],
        looked: &mut [Option<Result<RowFile, Refused>>],
    ) -> Result<u64> {
        let mut bytes = 0;
        for (path, looked) in paths.iter().zip(looked) {
            let Some(paths) = path else { continue };
            let found = self.look_at(root, paths).map_err(|(path, error)| {
                sys::io_error("cannot look at", &self.root.join(names::as_path(&path)), error.into())
            })?;
            bytes += found.as_ref().map_or(0, |found| u64::from(found.bytes));
            *looked = Some(found);
        }
        Ok(bytes)
    }

    /// Looks up the files of a row; the inner error is the reason why it is not a sample.
    ///
    /// # Errors
    /// The path that the operating system failed to look up.
    fn look_at(&self, root: &impl AsFd, paths: &Paths<'_>) -> Result<Result<RowFile, Refused>, (Vec<u8>, Errno)> {
        let (path, keep) = (paths.image, self.keep);
        if !keep.follows() && walk::has_link(root, path) {
            return Ok(Err(NOT_FOLLOWED.to_owned().into()));
        }
        let stat = match rustix::fs::statat(root, path, AtFlags::empty()) {
            Ok(stat) => stat,
            Err(error) if walk::is_of_path(error) => return Ok(Err(walk::unread(error).into())),
            Err(error) => return Err((path.to_vec(), error)),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Err("not a regular file".to_owned().into()));
        }
        let (folder, name) = cut(path);
        let facts = walk::Facts::from_stat(&stat);
        let places = walk::Places { root: root.as_fd(), folder, extra: None, here: None };
        let cells = walk::cells(&places, name, self.with, keep, &mut Companions::default())?;
        let named =
            self.columns.iter().zip(&paths.files).map(|(kind, path)| {
                walk::file_cell(&places, kind, None, (!path.is_empty()).then(|| path.to_vec()), keep)
            });
        let named = named.collect::<Result<Result<Vec<_>, Refused>, _>>()?;
        Ok(walk::image_bytes(&stat).map_err(Refused::from).and_then(|bytes| {
            let cells = [cells?, named?].concat();
            Ok(RowFile { bytes, place: facts.inode, stamp: facts.mtime_ns, cells })
        }))
    }

    /// Like [`Self::look`], for objects below a URL: one request for each file.
    fn look_at_objects(
        &self,
        remote: &ObjectTree,
        paths: &[Option<Paths<'_>>],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Result<RowFile, Refused>>>> {
        let mut looked: Vec<Option<Result<RowFile, Refused>>> = Vec::new();
        looked.resize_with(paths.len(), || None);
        let looked = Mutex::new(looked);
        let todo: Vec<_> =
            paths.iter().enumerate().filter_map(|(place, paths)| Some((place, paths.as_ref()?))).collect();
        for_each_adaptive(&todo, NETWORK_READS, &|| remote.concurrency(), |(place, paths)| {
            monitor.check_cancelled()?;
            let found = match self.object(remote, *place as u64, paths) {
                Ok(found) => Ok(found),
                Err(Failed::Sample(refused)) => Err(refused),
                Err(Failed::Run(error)) => return Err(error),
            };
            monitor.advance(1, found.as_ref().map_or(0, |found| u64::from(found.bytes)));
            looked.lock().unwrap_or_else(PoisonError::into_inner)[*place] = Some(found);
            Ok(())
        })?;
        Ok(looked.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks up the object at `path` and the components beside it.
    fn object(&self, remote: &ObjectTree, place: u64, paths: &Paths<'_>) -> Result<RowFile, Failed> {
        let path = paths.image;
        // Object names are UTF-8, and so are the paths of such lists.
        let look = |name: &[u8]| {
            remote.look(&String::from_utf8_lossy(name)).map_err(|error| match without_place(error) {
                ReadError::Refused(Refusal(why)) => refused(why),
                ReadError::Fatal(error) => Failed::Run(error),
            })
        };
        let (bytes, stamp) = look(path)?.ok_or_else(|| refused(walk::unread(Errno::NOENT)))?;
        let bytes = outcome::sized(bytes).map_err(refused)?;
        let (folder, name) = cut(path);
        let mut files = Vec::new();
        for kind in self.with.iter().filter(|kind| !kind.is_text()) {
            let path = kind.path_of(folder, name);
            if kind.is_path() && path.as_deref() == Some(&names::join(folder, name)[..]) {
                return Err(Failed::Sample(companions::is_its_own(kind)));
            }
            files.push((kind, path));
        }
        let named = paths.files.iter().map(|path| (!path.is_empty()).then(|| path.to_vec()));
        let mut cells = Vec::new();
        for (kind, path) in files.into_iter().chain(self.columns.iter().zip(named)) {
            let found = path.as_deref().map_or(Ok(None), look)?;
            cells.push(match (found, &path) {
                (Some((bytes, stamp)), Some(path)) => {
                    Cell::file(outcome::beside(cut(path).1, bytes).map_err(refused)?, stamp)
                }
                _ => companions::missing(kind, path.as_deref(), self.keep.on_missing()).map_err(Failed::Sample)?,
            });
        }
        Ok(RowFile { bytes, place, stamp, cells })
    }
}

/// Why an object was not looked up: a reason of its own, or an error that ends the run.
enum Failed {
    Sample(Refused),
    Run(Error),
}

fn refused(why: String) -> Failed {
    Failed::Sample(why.into())
}
