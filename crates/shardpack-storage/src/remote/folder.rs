//! The storage of a prefix of a bucket, or of a folder on a web server.

use std::{
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result};

use crate::{
    Access, Entry, FileWriter, Object, OpenFile, Page, Size, Storage, StoreSettings, Transfers, parts,
    remote::{
        Settings, Store,
        object_writer::{ObjectWriter, Record},
    },
    storage::check_writable,
};

/// See the module.
#[derive(Clone, Debug)]
pub struct Remote {
    store: Arc<Store>,
    /// Record of multipart uploads, in the work folder.
    record: Option<Record>,
}

impl Remote {
    /// The folder at `url`; sends no request. Credentials are looked up now if `is_now`, otherwise at the first request.
    ///
    /// # Errors
    /// If `url` is invalid, or there are no such settings.
    pub fn open(url: &Path, settings: &StoreSettings, is_now: bool) -> Result<Self> {
        let text = url.to_str().ok_or_else(|| Error::usage("a URL that is not UTF-8").in_file(url))?;
        let store = Store::later(text, &Settings::from_pairs(settings.pairs().iter().cloned()))?;
        if is_now {
            store.shared()?;
        }
        Ok(Self { store: Arc::new(store), record: None })
    }
}

impl Storage for Remote {
    fn root(&self) -> &Path {
        Path::new(self.store.url())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.store.object_url(name).into()
    }

    fn is_read_only(&self) -> bool {
        self.store.is_read_only()
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>> {
        let record = self.record.as_ref().map(|record| record.folder(name));
        Ok(Arc::new(Self { store: Arc::new(self.store.folder(name)?), record }))
    }

    fn with_work(&self, work: &Path) -> Arc<dyn Storage> {
        Arc::new(Self { store: Arc::clone(&self.store), record: Some(Record::in_folder(work)) })
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn OpenFile>>> {
        self.store.length(name)?.map(|bytes| self.open_listed(name, bytes)).transpose()
    }

    fn open_listed(&self, name: &str, bytes: u64) -> Result<Box<dyn OpenFile>> {
        Ok(Box::new(RemoteFile { store: Arc::clone(&self.store), name: name.to_owned(), bytes }))
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.store.read_now(name, max_bytes)
    }

    fn read_optional(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.store.forget(name);
        self.store.read_optional(name, max_bytes)
    }

    fn is_still(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.store.is_still(name, bytes)
    }

    fn length(&self, name: &str) -> Result<Option<u64>> {
        self.store.forget(name);
        let length = self.store.length(name);
        // The file may be replaced before it is read.
        self.store.forget(name);
        length
    }

    fn changed_at_ns(&self, name: &str) -> Result<Option<u128>> {
        let seconds = self.store.changed_at(name).and_then(|seconds| u128::try_from(seconds).ok());
        Ok(seconds.map(|seconds| (seconds + 1) * 1_000_000_000))
    }

    fn walk(&self, below: &str, take: &mut dyn FnMut(&str, u64) -> ControlFlow<()>) -> Result<()> {
        let slash = if below.is_empty() || below.ends_with('/') { "" } else { "/" };
        let mut is_ended = false;
        let walked = self.store.list(&format!("{below}{slash}"), |page| {
            let files = page.objects.iter().map(|object| (&object.name, object.bytes));
            let odd = page.odd.iter().filter(|odd| !odd.is_folder()).map(|odd| (&odd.name, odd.bytes));
            is_ended = files.chain(odd).any(|(name, bytes)| take(name, bytes).is_break());
            // An error ends the requests for more pages.
            if is_ended { Err(Error::usage("the walk ended")) } else { Ok(()) }
        });
        if is_ended { Ok(()) } else { walked }
    }

    fn list(&self, below: &str) -> Result<Option<Vec<Entry>>> {
        if self.is_read_only() {
            return Ok(None);
        }
        let folder = if below.is_empty() { String::new() } else { below.trim_end_matches('/').to_owned() + "/" };
        let page = self.store.level(&folder)?;
        let name = |name: &str| name.strip_prefix(&folder).unwrap_or(name).to_owned();
        let files = page.objects.iter().map(|object| (&object.name, false));
        let odd = page.odd.iter().filter(|odd| !odd.is_folder()).map(|odd| (&odd.name, false));
        let folders = page.folders.iter().map(|folder| (folder, true));
        let entries = files.chain(odd).chain(folders).map(|(full, is_folder)| Entry { name: name(full), is_folder });
        let mut entries: Vec<_> = entries.collect();
        entries.sort();
        Ok(Some(entries))
    }

    fn look(&self, name: &str) -> Result<Option<Object>> {
        self.store.look(name)
    }

    fn pages(&self, start: &str, take: &mut dyn FnMut(Page) -> Result<()>) -> Result<()> {
        self.store.list(start, take)
    }

    fn first_page(&self) -> Result<(Page, bool)> {
        self.store.first_page()
    }

    fn level(&self, below: &str) -> Result<Page> {
        self.store.level(below)
    }

    fn read_listed(&self, listed: &Object, offset: u64, into: &mut [u8]) -> Result<()> {
        self.store.read_listed(listed, offset, into)
    }

    fn read_listed_whole(&self, listed: &Object, max_bytes: u64) -> Result<Vec<u8>> {
        self.store.read_listed_whole(&listed.name, listed.stamp, max_bytes)
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        check_writable(self)?;
        self.store.put(name, bytes)
    }

    fn create(&self, name: &str, size: Size) -> Result<Box<dyn FileWriter>> {
        check_writable(self)?;
        Ok(Box::new(ObjectWriter::new(Arc::clone(&self.store), self.record.clone(), name, size)))
    }

    fn abort_begun(&self) -> Result<Vec<String>> {
        self.record.as_ref().map_or(Ok(Vec::new()), |record| record.abort_all(&self.store))
    }

    fn writers(&self, jobs: usize, memory_bytes: u64) -> (usize, u64) {
        parts::threads(memory_bytes, jobs)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.store.delete(name)
    }

    /// An object that was put is durable.
    fn sync(&self, _below: &str) -> Result<()> {
        Ok(())
    }

    fn access(&self) -> Access {
        Access::NETWORK
    }

    fn concurrency(&self) -> Option<usize> {
        Some(self.store.concurrency() as usize)
    }

    fn short_concurrency(&self) -> Option<usize> {
        Some(self.store.short_concurrency() as usize)
    }

    fn transfers(&self) -> Option<Transfers> {
        Some(self.store.transfers())
    }

    fn explain_missing(&self, error: Error) -> Error {
        self.store.not_there(error)
    }
}

/// An object of known length; its first read decides about the version.
#[derive(Debug)]
struct RemoteFile {
    store: Arc<Store>,
    name: String,
    bytes: u64,
}

impl OpenFile for RemoteFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.store.read(&self.name, self.bytes, offset, into)
    }

    fn read_range(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.store.read_range(&self.name, self.bytes, range, take)
    }

    fn check_there(&self) -> Result<()> {
        // The last byte exists only if all bytes before it exist.
        match self.bytes.checked_sub(1) {
            Some(last) => self.read_at(last, &mut [0]),
            None => Ok(()),
        }
    }
}
