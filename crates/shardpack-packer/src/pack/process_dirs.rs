//! Folders of processes that pack parts: unfinished files of a process, and a lock beside the folder that shows
//! that the process runs.
//!
//! The lock is created before the folder, so every folder has an owner that can be checked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::{ErrorKind, Result};
use shardpack_runtime::random;
use shardpack_storage::own;

use super::work_folder::LOCK_FILE;
use crate::{part::Part, sys};

/// Name of their parent folder in the work folder.
pub(super) const FOLDER: &str = "runs";

/// The folder of this process; removed on drop.
pub(super) struct ProcessDir {
    pub folder: PathBuf,
    _lock: Option<sys::Lock>,
}

impl Drop for ProcessDir {
    fn drop(&mut self) {
        // The next process aborts the uploads that this one has started.
        if shardpack_storage::has_begun(&self.folder) {
            return;
        }
        // A later run removes the rest.
        let _ = own::remove_folder(&self.folder);
        let _ = own::remove(&lock_of(&self.folder));
    }
}

impl ProcessDir {
    /// Creates a folder for a process that packs `part`.
    pub fn begin(work: &Path, part: Part) -> Result<Self> {
        loop {
            let random = random();
            let folder = work.join(FOLDER).join(format!("{}-of-{}-{random:016x}", part.number, part.of));
            let path = lock_of(&folder);
            let lock = match sys::Lock::share(&path) {
                // A process that cleans up was faster.
                Err(error) if error.kind() == ErrorKind::Usage => continue,
                lock => lock?,
            };
            own::create_folder(&folder)?;
            return Ok(Self { folder, _lock: lock });
        }
    }
}

fn lock_of(folder: &Path) -> PathBuf {
    folder.with_extension(LOCK_FILE)
}

/// Removes the folders of processes that have ended; calls `before` with each folder first.
pub(super) fn clear(work: &Path, mut before: impl FnMut(&Path) -> Result<()>) -> Result<()> {
    for found in all(work)?.into_iter().filter(|found| !found.is_running()) {
        before(&found.folder)?;
        own::remove_folder(&found.folder)?;
        sys::remove_file(&lock_of(&found.folder))?;
    }
    Ok(())
}

/// A process that packs or packed a part.
pub(super) struct PartProcess {
    pub part: Part,
    folder: PathBuf,
    /// Lock of a process that has ended. Held until its folder is removed, so that a new process does not lose
    /// its own folder.
    lock: Option<sys::Lock>,
}

impl PartProcess {
    /// Whether the process still runs; unknown on file systems without locks.
    pub fn is_running(&self) -> bool {
        self.lock.is_none()
    }

    /// Name of the process.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The processes that have a lock in the work folder.
pub(super) fn all(work: &Path) -> Result<Vec<PartProcess>> {
    let folder = work.join(FOLDER);
    let mut found = Vec::new();
    if !sys::exists(&folder)? {
        return Ok(found);
    }
    let failed = |e| sys::io_error("cannot read folder", &folder, e);
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != LOCK_FILE) {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let numbers = name.split_once("-of-").and_then(|(number, rest)| Some((number, rest.split_once('-')?.0)));
        let part = numbers.and_then(|(number, of)| Part::new(number.parse().ok()?, of.parse().ok()?).ok());
        let Some(part) = part else { continue };
        let lock = sys::Lock::take_if_free(&path).unwrap_or(None);
        if lock.is_some() || sys::exists(&path)? {
            found.push(PartProcess { part, folder: path.with_extension(""), lock });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_while_others_clear_up_keeps_its_folder() {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir(work.path().join(FOLDER)).unwrap();
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let work = work.path();
                scope.spawn(move || {
                    for _ in 0..200 {
                        clear(work, |_| Ok(())).unwrap();
                        let run = ProcessDir::begin(work, Part::new(number, 4).unwrap()).unwrap();
                        std::thread::yield_now();
                        assert!(run.folder.is_dir(), "{}", run.folder.display());
                        let name = run.folder.file_name().unwrap().to_str().unwrap().to_owned();
                        let found = all(work).unwrap();
                        assert!(found.iter().any(|found| found.name() == name && found.is_running()));
                    }
                });
            }
        });
        assert!(all(work.path()).unwrap().is_empty());
    }

    #[test]
    fn what_a_process_left_is_removed_once_it_has_ended() {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir(work.path().join(FOLDER)).unwrap();
        let run = ProcessDir::begin(work.path(), Part::new(2, 3).unwrap()).unwrap();
        let folder = work.path().join(FOLDER).join("1-of-3-0123456789abcdef");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a"), "").unwrap();
        fs::write(lock_of(&folder), "").unwrap();
        clear(work.path(), |_| Ok(())).unwrap();
        assert!(!folder.exists() && !lock_of(&folder).exists() && run.folder.is_dir());
    }
}
