//! A folder of this machine.

use std::{
    fs::{self, File},
    io,
    ops::{ControlFlow, Range},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use shardpack_format::{Error, Result, hash::FileHash, help, regular};

use crate::{
    Entry, FileWriter, Object, OpenFile, Size, Storage,
    disk::{Disk, RealDisk},
    own,
    storage::check_written,
    sys,
};

/// Extension of a file that is not finished, after its final name.
pub const UNFINISHED: &str = "part";

/// Folder in a work folder for unfinished files of subfolders.
const SUBFOLDERS: &str = "splits";
/// Bytes per read of [`OpenFile::read_range`].
const PIECE_BYTES: u64 = 1 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct Local {
    root: PathBuf,
    /// Folder of unfinished files; `None` if they are beside the finished ones.
    work: Option<PathBuf>,
    /// Folder below `work` that has them: empty, or of a subfolder, whose files may have the names of others.
    below: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Local {
    /// The folder at `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(RealDisk), root)
    }

    /// As [`Local::new`].
    pub(crate) fn on(disk: Arc<dyn Disk>, root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), work: None, below: PathBuf::new(), disk }
    }

    /// Path of the file `name`, whose folder is created, and its path until it is finished.
    fn paths(&self, name: &str) -> Result<(PathBuf, PathBuf)> {
        let create = |above: &Path, below: &Path| own::folder_on(self.disk.as_ref(), above, below);
        let folder = create(&self.root, Path::new(name).parent().unwrap_or(Path::new("")))?;
        let file = Path::new(name).file_name().unwrap_or_default();
        let unfinished = match &self.work {
            Some(work) => create(work, &self.below)?.join(format!("{}.{UNFINISHED}", name.replace('/', "."))),
            None => folder.join(format!("{}.{UNFINISHED}", file.to_string_lossy())),
        };
        Ok((folder.join(file), unfinished))
    }

    fn metadata(&self, name: &str) -> Result<Option<fs::Metadata>> {
        sys::metadata_opt(&self.root.join(name))
    }
}

/// Whether there is no such path: a file in the place of a folder above it has no files below.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl Storage for Local {
    fn root(&self) -> &Path {
        &self.root
    }

    fn local(&self) -> Option<&Path> {
        Some(&self.root)
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>> {
        let below = self.below.join(SUBFOLDERS).join(name);
        Ok(Arc::new(Self { root: self.root.join(name), below, ..self.clone() }))
    }

    fn with_work(&self, work: &Path) -> Arc<dyn Storage> {
        Arc::new(Self { work: Some(work.to_path_buf()), below: PathBuf::new(), ..self.clone() })
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn OpenFile>>> {
        let path = self.root.join(name);
        let file = match regular::open(&path) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(sys::io_error("cannot open", &path, error)),
        };
        LocalFile::new(file, path).map(|file| Some(Box::new(file) as Box<dyn OpenFile>))
    }

    fn open_listed(&self, name: &str, bytes: u64) -> Result<Box<dyn OpenFile>> {
        let file = self.open(name)?.ok_or_else(|| {
            let error = Error::data("the manifest names this file, and it is not there");
            error.in_file(self.root.join(name)).help(help::COPY_AGAIN)
        })?;
        match file.bytes() {
            found if found == bytes => Ok(file),
            found => Err(Error::data(format!("{found} bytes, {bytes} in the manifest"))
                .in_file(self.root.join(name))
                .help(help::COPY_AGAIN)),
        }
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let path = self.root.join(name);
        match regular::read_at_most(&path, max_bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(sys::io_error("cannot read", &path, error)),
        }
    }

    fn length(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.metadata(name)?.map(|metadata| metadata.len()))
    }

    fn changed_at_ns(&self, name: &str) -> Result<Option<u128>> {
        let Some(metadata) = self.metadata(name)? else { return Ok(None) };
        let changed = metadata.modified();
        let changed = changed.map_err(|error| sys::io_error("cannot look at", &self.root.join(name), error))?;
        Ok(Some(changed.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())))
    }

    fn look(&self, name: &str) -> Result<Option<Object>> {
        let Some(metadata) = self.metadata(name)? else { return Ok(None) };
        let stamp = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Ok(Some(Object { name: name.to_owned(), bytes: metadata.len(), stamp }))
    }

    fn walk(&self, below: &str, take: &mut dyn FnMut(&str, u64) -> ControlFlow<()>) -> Result<()> {
        let slash = if below.is_empty() || below.ends_with('/') { "" } else { "/" };
        let mut folders = vec![format!("{below}{slash}")];
        while let Some(folder) = folders.pop() {
            for entry in self.list(&folder)?.unwrap_or_default() {
                let name = format!("{folder}{}", entry.name);
                if entry.is_folder {
                    folders.push(name + "/");
                } else if take(&name, self.length(&name)?.unwrap_or(0)).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn list(&self, below: &str) -> Result<Option<Vec<Entry>>> {
        let folder = self.root.join(below);
        let failed = |error| sys::io_error("cannot read folder", &folder, error);
        let read = match fs::read_dir(&folder) {
            Err(error) if is_missing(&error) => return Ok(Some(Vec::new())),
            read => read.map_err(failed)?,
        };
        let mut entries = Vec::new();
        for entry in read {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            // Links are followed, as by all reads.
            let is_folder = kind.is_dir() || kind.is_symlink() && sys::is_folder(&entry.path())?;
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), is_folder });
        }
        entries.sort();
        Ok(Some(entries))
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let (path, unfinished) = self.paths(name)?;
        let mut temporary = own::Temporary::on(Arc::clone(&self.disk), unfinished)?;
        temporary.write(&bytes)?;
        temporary.finish(&path)
    }

    fn create(&self, name: &str, size: Size) -> Result<Box<dyn FileWriter>> {
        let (path, unfinished) = self.paths(name)?;
        let disk = Arc::clone(&self.disk);
        Ok(Box::new(LocalWriter { file: disk.create(&unfinished)?, path, unfinished, size, disk }))
    }

    /// Removes the unfinished files of this folder, without those of subfolders.
    fn abort_begun(&self) -> Result<Vec<String>> {
        let Some(work) = &self.work else { return Ok(Vec::new()) };
        let of_work = Self::on(Arc::clone(&self.disk), work.join(&self.below));
        for entry in of_work.list("")?.unwrap_or_default() {
            if !entry.is_folder && Path::new(&entry.name).extension().is_some_and(|extension| extension == UNFINISHED) {
                of_work.remove(&entry.name)?;
            }
        }
        Ok(Vec::new())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(&self.root.join(name))
    }

    fn sync(&self, below: &str) -> Result<()> {
        Path::new(below).ancestors().try_for_each(|folder| self.disk.sync_folder(&self.root.join(folder)))
    }

    fn sync_file(&self, name: &str) -> Result<()> {
        let (path, _) = self.paths(name)?;
        match regular::open(&path) {
            Ok(file) => self.disk.sync(&file, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(sys::io_error("cannot open", &path, error)),
        }
    }
}

/// An open file of this machine.
#[derive(Debug)]
struct LocalFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl LocalFile {
    fn new(file: File, path: PathBuf) -> Result<Self> {
        let bytes = file.metadata().map_err(|error| sys::io_error("cannot look at", &path, error))?.len();
        Ok(Self { file, path, bytes })
    }
}

impl OpenFile for LocalFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, offset).map_err(|error| {
            let error = match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    Error::data("cut short since it was opened").in_file(&self.path).help(help::COPY_AGAIN)
                }
                _ => sys::io_error("cannot read", &self.path, error),
            };
            error.at_byte(offset)
        })
    }

    fn read_range(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut piece = vec![0; PIECE_BYTES.min(range.end.saturating_sub(range.start)) as usize];
        let mut at = range.start;
        while at < range.end {
            let length = PIECE_BYTES.min(range.end - at) as usize;
            let part = piece.get_mut(..length).unwrap_or_default();
            self.read_at(at, part)?;
            take(part);
            at += length as u64;
        }
        Ok(())
    }

    fn local(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// A file of this machine that is being written.
#[derive(Debug)]
struct LocalWriter {
    file: File,
    path: PathBuf,
    unfinished: PathBuf,
    size: Size,
    disk: Arc<dyn Disk>,
}

impl LocalWriter {
    fn check_length(&self, bytes: u64) -> Result<()> {
        let written = self.file.metadata().map_err(|e| sys::io_error("cannot look at", &self.unfinished, e))?.len();
        check_written(written, bytes, || self.unfinished.clone())
    }
}

impl FileWriter for LocalWriter {
    fn path(&self) -> PathBuf {
        self.unfinished.clone()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.size.check(offset + bytes.len() as u64, || self.path())?;
        self.disk.write_at(&self.file, &self.unfinished, bytes, offset)
    }

    fn start_write_back(&self, start: u64, end: u64) {
        self.disk.start_write_back(&self.file, start, end);
    }

    fn finish(&self, bytes: u64, _blake3: &FileHash) -> Result<()> {
        self.check_length(bytes)?;
        self.disk.finish(&self.file, &self.unfinished, &self.path)
    }

    fn finish_unsynced(&self, bytes: u64, _blake3: &FileHash) -> Result<()> {
        self.check_length(bytes)?;
        self.disk.rename(&self.unfinished, &self.path)
    }

    fn abort(&self) -> Result<()> {
        self.disk.remove(&self.unfinished)
    }
}
