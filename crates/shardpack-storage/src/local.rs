//! A folder of this machine.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, help, regular};

use crate::{Entry, OpenFile, Storage, own, sys};

/// Extension of a file that [`Storage::put`] has not finished, after its final name.
pub const UNFINISHED: &str = "part";

/// Bytes per read of [`OpenFile::read_range`].
const PIECE_BYTES: u64 = 1 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct Local {
    root: PathBuf,
}

impl Local {
    /// The folder at `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Storage for Local {
    fn root(&self) -> &Path {
        &self.root
    }

    fn local(&self) -> Option<&Path> {
        Some(&self.root)
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(Self::new(self.root.join(name))))
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn OpenFile>>> {
        let path = self.root.join(name);
        let file = match regular::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(sys::io_error("cannot open", &path, error)),
        };
        LocalFile::of(file, path).map(|file| Some(Box::new(file) as Box<dyn OpenFile>))
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
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(sys::io_error("cannot read", &path, error)),
        }
    }

    fn list(&self, below: &str) -> Result<Option<Vec<Entry>>> {
        let folder = self.root.join(below);
        let failed = |error| sys::io_error("cannot read folder", &folder, error);
        let read = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Vec::new())),
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

    /// The file has the name `name.part` until it is durable.
    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let folder = own::folder(&self.root, Path::new(name).parent().unwrap_or(Path::new("")))?;
        let file = Path::new(name).file_name().unwrap_or_default();
        let mut unfinished = file.to_os_string();
        unfinished.push(".");
        unfinished.push(UNFINISHED);
        let mut temporary = own::Temporary::at(folder.join(unfinished))?;
        temporary.write(&bytes)?;
        temporary.finish(&folder.join(file))
    }

    fn remove(&self, name: &str) -> Result<()> {
        sys::remove_file(&self.root.join(name))
    }

    fn sync(&self, below: &str) -> Result<()> {
        sys::sync_folder(&self.root.join(below))
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
    fn of(file: File, path: PathBuf) -> Result<Self> {
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
