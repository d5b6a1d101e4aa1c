//! Files and folders of the program itself: work folders, folders of a dataset, and files under a temporary
//! name.
//!
//! Holds at all times: no path goes through a symbolic link that another user has made, so nothing is written,
//! moved or removed elsewhere. A file under a temporary name is always a new file.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use rustix::{
    fs::{Mode, OFlags, open, openat},
    process::geteuid,
};
use shardpack_format::{Error, Result, help};
use shardpack_runtime::random;

pub use crate::disk::Access;
use crate::{
    disk::{self, Disk, RealDisk, or_current},
    sys::io_error,
};

/// Folders in a work folder that hold files of the replaced dataset, which may be links of their owner.
const OF_OTHERS: [&str; 3] = ["replaced", "replaced.part", "discarded"];
/// Help if another entry is in the place of a folder or file of the program.
pub const REMOVE: &str = "remove it, or choose another folder";

fn is_link(path: &Path) -> Error {
    Error::usage("is a symbolic link, where shardpack has a folder or file of its own").in_file(path).help(REMOVE)
}

/// Fails if `path` is a symbolic link.
///
/// # Errors
/// If it is.
pub fn no_link(path: &Path) -> Result<()> {
    if path.is_symlink() { Err(is_link(path)) } else { Ok(()) }
}

/// Creates the folder `below` in `above` with its parents, and returns its path. Only `above` may be a link.
pub fn folder(above: &Path, below: impl AsRef<Path>) -> Result<PathBuf> {
    folder_on(&RealDisk, above, below.as_ref())
}

/// As [`folder`].
pub(crate) fn folder_on(disk: &dyn Disk, above: &Path, below: &Path) -> Result<PathBuf> {
    disk.create_folders(above)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = open(or_current(above), flags, Mode::empty());
    let mut at = opened.map_err(|e| io_error("cannot open folder", above, e.into()))?;
    let mut path = above.to_path_buf();
    for name in below {
        path.push(name);
        disk.create_folder(at.as_fd(), Path::new(name), &path)?;
        at = openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| match path.is_symlink() {
            true => is_link(&path),
            false => io_error("cannot open folder", &path, error.into()),
        })?;
    }
    Ok(path)
}

/// Creates the work folder `name` in `above` if [`check`] succeeds; returns its path.
pub fn work_folder(above: &Path, name: impl AsRef<Path>) -> Result<PathBuf> {
    check(above, &name)?;
    folder(above, name)
}

/// Fails if another user may have created the work folder `name` in `above`, or if it contains a link; a
/// missing folder is valid.
///
/// The folder must belong to the caller, to the owner of `above`, or to a member of the group that may write
/// there too.
///
/// # Errors
/// If not, and on I/O errors.
pub fn check(above: &Path, name: impl AsRef<Path>) -> Result<()> {
    let work = above.join(name);
    let found = match fs::symlink_metadata(&work) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        found => found.map_err(|e| io_error("cannot look at", &work, e))?,
    };
    if found.is_symlink() {
        return Err(is_link(&work));
    }
    if !found.is_dir() {
        return Err(Error::usage("is no folder, where shardpack has one of its own").in_file(work).help(REMOVE));
    }
    let of = fs::metadata(or_current(above)).map_err(|e| io_error("cannot look at", above, e))?;
    let is_of_group = of.mode() & 0o022 == 0o020 && of.gid() == found.gid();
    if found.uid() != geteuid().as_raw() && found.uid() != of.uid() && !is_of_group {
        let what = format!("belongs to user {}, who is neither you nor the owner of {}", found.uid(), above.display());
        return Err(Error::usage(what).in_file(work).help(REMOVE));
    }
    without_links(&work)
}

/// Fails if a work folder is or contains a link.
fn without_links(work: &Path) -> Result<()> {
    let mut todo = vec![work.to_path_buf()];
    while let Some(folder) = todo.pop() {
        let failed = |e| io_error("cannot read folder", &folder, e);
        // Other processes remove their own files meanwhile.
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let entries = match fs::read_dir(&folder) {
            Err(error) if is_gone(&error) => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let kind = match entry.file_type() {
                Err(error) if is_gone(&error) => continue,
                kind => kind.map_err(failed)?,
            };
            if kind.is_symlink() {
                return Err(is_link(&entry.path()));
            }
            if kind.is_dir() && !(folder == work && OF_OTHERS.iter().any(|name| entry.file_name() == *name)) {
                todo.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Creates a file of this name; removes a file of an earlier run, or a link, first.
pub fn create(path: &Path) -> Result<File> {
    RealDisk.create(path)
}

/// Creates a file of this name with these bytes, as [`create`] does.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    RealDisk.write(&create(path)?, path, bytes)
}

/// Writes a whole small file so that it is either absent or complete, even after a crash: temporary name in
/// `work`, fsync, rename.
pub fn write_durably(work: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temporary = Temporary::at(work.join(path.file_name().unwrap_or(path.as_os_str())))?;
    temporary.write(bytes)?;
    temporary.finish(path)
}

/// Fails if a new file may not replace the entry at `path`. `force` allows a file or a symbolic link, but no
/// folder, device or pipe.
///
/// # Errors
/// Names `path`, and `--force` if it helps.
pub fn check_replaceable(path: &Path, force: bool) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) if !force => Err(is_taken(path)),
        Ok(there) if !there.is_file() && !there.is_symlink() => {
            Err(Error::usage("is a folder, a device or a pipe, which no file replaces").in_file(path))
        }
        _ => Ok(()),
    }
}

/// Writes a file with these bytes at `path`; `force` replaces an existing file. A symbolic link is replaced
/// itself, its target is not changed.
///
/// # Errors
/// As [`check_replaceable`], and if the file cannot be written. The old entry stays then.
pub fn put(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    check_replaceable(path, force)?;
    let mut temporary = Temporary::beside(path)?;
    temporary.write(bytes)?;
    match force {
        true => temporary.finish(path),
        // Another process may create a file of this name meanwhile: its file stays.
        false => match temporary.disk.publish(&temporary.file, &temporary.path, path)? {
            true => Ok(()),
            false => Err(is_taken(path)),
        },
    }
}

fn is_taken(path: &Path) -> Error {
    Error::usage("is there already").in_file(path).help(help::REPLACE)
}

/// Opens a regular file to change it in place; does not follow a symbolic link. Errors name no path.
pub fn open_in_place(path: &Path, access: Access) -> io::Result<File> {
    disk::open(path, access)
}

/// As [`open_in_place`], with errors that name the path.
pub fn open_or_create(path: &Path, access: Access) -> Result<File> {
    disk::open(path, access).map_err(|error| match path.is_symlink() {
        true => is_link(path),
        false => io_error("cannot create", path, error),
    })
}

/// Cuts a file to `bytes`, or extends it with zeros.
pub fn set_length(file: &File, bytes: u64) -> io::Result<()> {
    disk::set_length(file, bytes)
}

/// Sets the time of the last change of a file.
pub fn set_modified(file: &File, time: SystemTime) -> io::Result<()> {
    disk::set_modified(file, time)
}

/// Makes the bytes and the length of a file durable, but not its name.
pub fn sync(file: &File, path: &Path) -> Result<()> {
    RealDisk.sync(file, path)
}

/// Appends a line to a file in one write: other processes may append at the same time.
pub fn append(path: &Path, line: &str) -> Result<()> {
    RealDisk.write(&open_or_create(path, Access::Append)?, path, line.as_bytes())
}

/// Makes a file durable and gives it the name `path`; returns false if the name is taken. May leave the temporary name.
pub fn publish(file: &File, temporary: &Path, path: &Path) -> Result<bool> {
    RealDisk.publish(file, temporary, path)
}

/// Gives a file the second name `to`; fails on a file system without hard links, too.
pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    RealDisk.link(from, to)
}

/// Renames a file or folder, and replaces a file at `to`.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    disk::rename(from, to).map_err(|e| io_error("cannot move", from, e))
}

/// Removes a file; a missing file is no error.
pub fn remove(path: &Path) -> Result<()> {
    RealDisk.remove(path)
}

/// Creates a folder in an existing folder; false if the name is taken.
pub fn create_folder(path: &Path) -> Result<bool> {
    created(path, disk::create_folder(path, 0o777))
}

/// As [`create_folder`]; only its owner may enter the folder.
pub fn create_private_folder(path: &Path) -> Result<bool> {
    created(path, disk::create_folder(path, 0o700))
}

fn created(path: &Path, created: io::Result<()>) -> Result<bool> {
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        created => created.map(|()| true).map_err(|e| io_error("cannot create folder", path, e)),
    }
}

/// Creates a folder and those above it; links are followed.
pub fn create_folders(path: &Path) -> Result<()> {
    RealDisk.create_folders(path)
}

/// Removes a folder with all that it contains; a missing folder is no error.
pub fn remove_folder(path: &Path) -> Result<()> {
    removed(path, disk::remove_folder(path))
}

/// Removes an empty folder; a missing folder is no error.
pub fn remove_empty_folder(path: &Path) -> Result<()> {
    removed(path, disk::remove_empty_folder(path))
}

fn removed(path: &Path, removed: io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("cannot remove", path, error)),
        _ => Ok(()),
    }
}

/// A file under a temporary name, removed on drop unless it is finished.
#[derive(Debug)]
pub struct Temporary {
    /// The open file, for writing.
    pub file: File,
    path: PathBuf,
    is_finished: bool,
    disk: Arc<dyn Disk>,
}

impl Temporary {
    /// Creates the file `path`, in a folder of the program or under a name that no other process uses: see
    /// [`create`].
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn at(path: PathBuf) -> Result<Self> {
        Self::on(Arc::new(RealDisk), path)
    }

    /// As [`Temporary::at`].
    pub(crate) fn on(disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self> {
        Ok(Self { file: disk.create(&path)?, path, is_finished: false, disk })
    }

    /// Creates a file beside `path` under an unpredictable name, so that it can be renamed to `path`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn beside(path: &Path) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        let random = random();
        name.push(format!(".{random:016x}.part"));
        Self::at(path.with_file_name(name))
    }

    /// Its temporary path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends these bytes.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.disk.write(&self.file, &self.path, bytes)
    }

    /// Makes the file durable and renames it to `path`.
    ///
    /// # Errors
    /// If that fails.
    pub fn finish(mut self, path: &Path) -> Result<()> {
        self.disk.finish(&self.file, &self.path, path)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = self.disk.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use shardpack_format::ErrorKind;

    use super::*;

    #[test]
    fn a_folder_is_not_made_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let (dst, other) = (root.path().join("dst"), root.path().join("other"));
        assert!(folder(&dst, "a/b").unwrap().is_dir());
        fs::create_dir(&other).unwrap();
        symlink(&other, dst.join("c")).unwrap();
        symlink(root.path().join("nowhere"), dst.join("a/d")).unwrap();
        for (below, link) in [("c", "c"), ("c/x", "c"), ("a/d", "a/d"), ("a/d/x", "a/d")] {
            let error = folder(&dst, below).unwrap_err();
            assert_eq!(
                (error.kind(), error.location().file.clone()),
                (ErrorKind::Usage, Some(dst.join(link).display().to_string()))
            );
        }
        assert_eq!(other.read_dir().unwrap().count(), 0);
        assert!(!root.path().join("nowhere").exists());
        // The destination itself may be a link.
        symlink(&other, root.path().join("link")).unwrap();
        assert!(folder(&root.path().join("link"), "x").unwrap().is_dir());
    }

    #[test]
    fn a_link_in_a_work_folder_is_refused_unless_it_is_of_the_dataset_that_is_replaced() {
        let dst = tempfile::tempdir().unwrap();
        let work = work_folder(dst.path(), "work").unwrap();
        fs::create_dir_all(work.join("replaced/index")).unwrap();
        symlink("/", work.join("replaced/a.tar")).unwrap();
        check(dst.path(), "work").unwrap();
        fs::create_dir_all(work.join("splits/train")).unwrap();
        symlink("/", work.join("splits/train/a.part")).unwrap();
        assert_eq!(
            check(dst.path(), "work").unwrap_err().location().file,
            Some(work.join("splits/train/a.part").display().to_string())
        );
        fs::remove_file(work.join("splits/train/a.part")).unwrap();
        for name in OF_OTHERS {
            let _ = fs::remove_dir_all(work.join(name));
            symlink("/", work.join(name)).unwrap();
            assert_eq!(
                check(dst.path(), "work").unwrap_err().location().file,
                Some(work.join(name).display().to_string())
            );
            fs::remove_file(work.join(name)).unwrap();
        }
        fs::write(dst.path().join("file"), "").unwrap();
        assert_eq!(check(dst.path(), "file").unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn a_work_folder_is_the_callers_or_the_owners_or_the_groups() {
        let dst = tempfile::tempdir().unwrap();
        let work = work_folder(dst.path(), "work").unwrap();
        if chown(&work, Some(12345), Some(54321)).is_err() {
            println!("only root gives files away: not tried");
            return;
        }
        assert!(check(dst.path(), "work").unwrap_err().what().starts_with("belongs to user 12345"));
        chown(dst.path(), Some(12345), None).unwrap();
        check(dst.path(), "work").unwrap();
        chown(dst.path(), Some(0), Some(54321)).unwrap();
        for (mode, is_fine) in [(0o2775, true), (0o2755, false), (0o777, false)] {
            fs::set_permissions(dst.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check(dst.path(), "work").is_ok(), is_fine, "{mode:o}");
        }
    }

    #[test]
    fn a_temporary_file_is_new_and_goes_away_unless_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("a.part"), folder.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, &path).unwrap();
        write(&path, b"ours").unwrap();
        fs::hard_link(&victim, folder.path().join("b.part")).unwrap();
        write(&folder.path().join("b.part"), b"ours").unwrap();
        symlink(&victim, folder.path().join("c")).unwrap();
        assert_eq!(append(&folder.path().join("c"), "line\n").unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(fs::read(&victim).unwrap(), b"mine");

        let other = tempfile::tempdir().unwrap();
        let path = other.path().join("x");
        drop(Temporary::beside(&path).unwrap());
        assert_eq!(other.path().read_dir().unwrap().count(), 0);
        let mut temporary = Temporary::beside(&path).unwrap();
        temporary.write(b"whole").unwrap();
        temporary.finish(&path).unwrap();
        let names: Vec<_> = other.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["x"]);
    }
}
