//! A storage whose calls fail as a test decides, and that counts them.

use std::{
    fmt,
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, hash::FileHash};

use crate::{Access, Entry, FileWriter, OpenFile, Size, Storage, Transfers};

/// A call of a storage, of its open files or of files that are being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Storage::open`] or [`Storage::open_listed`].
    Open,
    /// [`OpenFile::read_at`] or [`OpenFile::read_range`].
    ReadAt,
    /// [`Storage::read`], [`Storage::read_optional`] or [`Storage::is_still`].
    Read,
    /// [`Storage::length`] or [`Storage::changed_at_ns`].
    Length,
    /// [`Storage::list`] or [`Storage::walk`].
    List,
    /// [`Storage::create`].
    Create,
    /// [`FileWriter::write_at`].
    WriteAt,
    /// [`FileWriter::finish`].
    Finish,
    /// [`FileWriter::abort`] or [`Storage::abort_begun`].
    Abort,
    /// [`Storage::put`].
    Put,
    /// [`Storage::remove`].
    Remove,
    /// [`Storage::sync`].
    Sync,
}

/// Gets each call with the name of its file or folder.
type Decide = dyn Fn(Call, &str) -> Result<()> + Send + Sync;

/// See the module.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Storage>,
    /// Prefix of the names in calls: empty, or a folder with a slash.
    below: String,
    decide: Arc<Decide>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Faulty {
    /// `inner`; before each call, `decide` returns the error that the call fails with.
    pub fn new(inner: Arc<dyn Storage>, decide: impl Fn(Call, &str) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { inner, below: String::new(), decide: Arc::new(decide) }
    }

    fn ask(&self, call: Call, name: &str) -> Result<()> {
        let full = format!("{}{name}", self.below);
        (self.decide)(call, &full).map_err(|error| error.in_file(self.inner.path_of(name)))
    }

    fn file(&self, name: &str, file: Box<dyn OpenFile>) -> Box<dyn OpenFile> {
        Box::new(FaultyFile { storage: self.clone(), name: name.to_owned(), file })
    }
}

impl Storage for Faulty {
    fn root(&self) -> &Path {
        self.inner.root()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.inner.path_of(name)
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>> {
        let below = format!("{}{name}/", self.below);
        Ok(Arc::new(Self { inner: self.inner.folder(name)?, below, decide: Arc::clone(&self.decide) }))
    }

    fn with_work(&self, work: &Path) -> Arc<dyn Storage> {
        Arc::new(Self { inner: self.inner.with_work(work), ..self.clone() })
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn OpenFile>>> {
        self.ask(Call::Open, name)?;
        Ok(self.inner.open(name)?.map(|file| self.file(name, file)))
    }

    fn open_listed(&self, name: &str, bytes: u64) -> Result<Box<dyn OpenFile>> {
        self.ask(Call::Open, name)?;
        self.inner.open_listed(name, bytes).map(|file| self.file(name, file))
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.ask(Call::Read, name)?;
        self.inner.read(name, max_bytes)
    }

    fn read_optional(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.ask(Call::Read, name)?;
        self.inner.read_optional(name, max_bytes)
    }

    fn is_still(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.ask(Call::Read, name)?;
        self.inner.is_still(name, bytes)
    }

    fn length(&self, name: &str) -> Result<Option<u64>> {
        self.ask(Call::Length, name)?;
        self.inner.length(name)
    }

    fn changed_at_ns(&self, name: &str) -> Result<Option<u128>> {
        self.ask(Call::Length, name)?;
        self.inner.changed_at_ns(name)
    }

    fn walk(&self, below: &str, take: &mut dyn FnMut(&str, u64) -> ControlFlow<()>) -> Result<()> {
        self.ask(Call::List, below)?;
        self.inner.walk(below, take)
    }

    fn list(&self, below: &str) -> Result<Option<Vec<Entry>>> {
        self.ask(Call::List, below)?;
        self.inner.list(below)
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        self.ask(Call::Put, name)?;
        self.inner.put(name, bytes)
    }

    fn create(&self, name: &str, size: Size) -> Result<Box<dyn FileWriter>> {
        self.ask(Call::Create, name)?;
        let file = self.inner.create(name, size)?;
        Ok(Box::new(FaultyWriter { storage: self.clone(), name: name.to_owned(), file }))
    }

    fn abort_begun(&self) -> Result<Vec<String>> {
        self.ask(Call::Abort, "")?;
        self.inner.abort_begun()
    }

    fn writers(&self, jobs: usize, memory_bytes: u64) -> (usize, u64) {
        self.inner.writers(jobs, memory_bytes)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.ask(Call::Remove, name)?;
        self.inner.remove(name)
    }

    fn sync(&self, below: &str) -> Result<()> {
        self.ask(Call::Sync, below)?;
        self.inner.sync(below)
    }

    fn access(&self) -> Access {
        self.inner.access()
    }

    fn concurrency(&self) -> Option<usize> {
        self.inner.concurrency()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.inner.transfers()
    }

    fn explain_missing(&self, error: Error) -> Error {
        self.inner.explain_missing(error)
    }
}

/// An open file of [`Faulty`]. It is never a file of this machine, whose reads would not be asked for.
#[derive(Debug)]
struct FaultyFile {
    storage: Faulty,
    name: String,
    file: Box<dyn OpenFile>,
}

impl OpenFile for FaultyFile {
    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.storage.ask(Call::ReadAt, &self.name)?;
        self.file.read_at(offset, into)
    }

    fn read_range(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.storage.ask(Call::ReadAt, &self.name)?;
        self.file.read_range(range, take)
    }

    fn check_there(&self) -> Result<()> {
        self.storage.ask(Call::ReadAt, &self.name)?;
        self.file.check_there()
    }
}

/// A file of [`Faulty`] that is being written.
#[derive(Debug)]
struct FaultyWriter {
    storage: Faulty,
    name: String,
    file: Box<dyn FileWriter>,
}

impl FileWriter for FaultyWriter {
    fn path(&self) -> PathBuf {
        self.file.path()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.storage.ask(Call::WriteAt, &self.name)?;
        self.file.write_at(bytes, offset)
    }

    fn start_write_back(&self, start: u64, end: u64) {
        self.file.start_write_back(start, end);
    }

    fn finish(&self, bytes: u64, blake3: &FileHash) -> Result<()> {
        self.storage.ask(Call::Finish, &self.name)?;
        self.file.finish(bytes, blake3)
    }

    fn abort(&self) -> Result<()> {
        self.storage.ask(Call::Abort, &self.name)?;
        self.file.abort()
    }
}
