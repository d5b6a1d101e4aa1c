//! Joins and leaves the work folder that the processes of all parts share.
//!
//! Never removes files that another process may use. The last process to leave an unused work folder deletes
//! it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use shardpack_format::{Error, ErrorKind, Result, manifest::WORK_FOLDER};
use shardpack_runtime::sleep;
use shardpack_storage::Storage;

use super::{
    existing_files::ExistingFiles,
    process_dirs::{self, ProcessDir},
    work_folder::{LOCK_FILE, OTHER_FOLDER, PLAN_FILE, RECEIPTS_FOLDER},
};
use crate::{own, part::Part, plan::Plan, sys};

/// Leaves an unused work folder; the last process in it deletes it.
fn leave(work: &Path) -> Result<()> {
    let path = work.join(LOCK_FILE);
    let Some(_lock) = sys::Lock::take_if_free(&path)? else { return Ok(()) };
    if sys::exists(&work.join(PLAN_FILE))? {
        return Ok(());
    }
    sys::remove_file(&path)?;
    // Only empty folders can be removed.
    for folder in [work.join(process_dirs::FOLDER), work.join(RECEIPTS_FOLDER), work.to_path_buf()] {
        let _ = own::remove_empty_folder(&folder);
    }
    Ok(())
}

/// As [`sys::Lock::share`]; a process that leaves holds the lock alone for a moment.
fn share_soon(path: &Path) -> Result<Option<sys::Lock>> {
    for _ in 0..50 {
        match sys::Lock::share(path) {
            Err(error) if error.kind() == ErrorKind::Usage => sleep(Duration::from_millis(20)),
            shared => return shared,
        }
    }
    sys::Lock::share(path)
}

/// Whether the error is a missing folder.
fn is_gone(error: &Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Attempts to create folders that other processes remove; each process removes them once.
const MAX_TRIES: u32 = 1000;

/// A process that packs a part beside others.
pub(super) struct PartSession {
    /// Work folder of all processes.
    pub work: PathBuf,
    pub run: ProcessDir,
    /// As in [`super::Report`].
    pub left_uploads: Vec<String>,
    _shared: Option<sys::Lock>,
}

impl PartSession {
    /// Joins the parts in the folder `dst`, or is the first to start, if `look` succeeds. Uploads to `storage` of processes that have
    /// ended are aborted.
    pub fn join(
        part: Part,
        plans: &[Plan],
        (dst, storage): (&Path, &dyn Storage),
        look: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        let (work, is_new) = (dst.join(WORK_FOLDER), !sys::exists(dst)?);
        own::check(dst, WORK_FOLDER)?;
        let mut tries = 0;
        let joined = loop {
            let joined = own::work_folder(dst, WORK_FOLDER)
                .and_then(|work| share_soon(&work.join(LOCK_FILE)))
                .and_then(|shared| Self::join_in(part, plans, (dst, storage), &work, shared));
            match joined {
                // A process that could not start has removed folders that were still empty.
                Err(error) if is_gone(&error) && tries < MAX_TRIES => tries += 1,
                joined => break joined,
            }
        };
        let begun = joined.and_then(|beside| look(&beside).map(|()| beside));
        if begun.is_err() {
            // The reason matters more than empty folders.
            let _ = leave(&work);
            if is_new {
                let _ = own::remove_empty_folder(dst);
            }
        }
        begun
    }

    fn join_in(
        part: Part,
        plans: &[Plan],
        (dst, storage): (&Path, &dyn Storage),
        work: &Path,
        shared: Option<sys::Lock>,
    ) -> Result<Self> {
        let plan = work.join(PLAN_FILE);
        if !sys::exists(&plan)? {
            let held = ExistingFiles::look(dst, &[])?;
            // Another part may have started since, and the files are its own.
            if !held.is_empty() && !sys::exists(&plan)? {
                let what = held.what(dst, plans);
                return Err(Error::usage(format!("holds {what}")).in_file(dst).help(OTHER_FOLDER));
            }
            [process_dirs::FOLDER, RECEIPTS_FOLDER].iter().try_for_each(|name| own::folder(work, name).map(drop))?;
        }
        let mut left_uploads = Vec::new();
        process_dirs::clear(work, |folder| {
            left_uploads.extend(storage.with_work(folder).abort_begun()?);
            Ok(())
        })?;
        Ok(Self { work: work.to_path_buf(), run: ProcessDir::begin(work, part)?, left_uploads, _shared: shared })
    }

    /// Removes all files of another plan in `dst`.
    pub fn forget(&self, dst: &Path) -> Result<()> {
        for (folder, kept) in [(dst, &[WORK_FOLDER][..]), (&self.work, &[LOCK_FILE, process_dirs::FOLDER])] {
            let failed = |e| sys::io_error("cannot read folder", folder, e);
            for entry in fs::read_dir(folder).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                if kept.iter().any(|name| path.ends_with(name)) {
                    continue;
                }
                if path.is_dir() { own::remove_folder(&path)? } else { sys::remove_file(&path)? }
            }
        }
        own::folder(&self.work, RECEIPTS_FOLDER).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use shardpack_storage::Local;

    use super::*;

    #[test]
    fn parts_that_cannot_begin_say_why_however_many_begin_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let dst = folder.path().join("packed");
                scope.spawn(move || {
                    for _ in 0..300 {
                        let part = Part::new(number, 4).unwrap();
                        let begun = PartSession::join(part, &[], (&dst, &Local::new(&dst)), |_| {
                            Err(Error::usage("not this one"))
                        });
                        let error = begun.err().map(|error| error.to_string());
                        assert!(error.as_ref().is_some_and(|error| error.contains("not this one")), "{error:?}");
                    }
                });
            }
        });
        assert!(!folder.path().join("packed").join(WORK_FOLDER).exists());
    }
}
