//! Files in memory, for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shardpack_format::{Error, Result, hash::FileHash};

use crate::{Entry, FileWriter, OpenFile, Size, Storage, storage::check_written};

/// Names with contents.
type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// A folder in memory. Clones and subfolders share the files.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    root: PathBuf,
    /// Prefix of names: empty, or a folder with a slash.
    below: String,
    files: Arc<Mutex<Files>>,
}

impl Memory {
    /// An empty folder; messages name it `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ..Self::default() }
    }

    /// Copies the files below the folder `path` of this machine.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn copy_of(path: &Path) -> Result<Self> {
        let (memory, from) = (Self::new(path), crate::Local::new(path));
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in from.list(&folder)?.unwrap_or_default() {
                let name = format!("{folder}{}", entry.name);
                match entry.is_folder {
                    true => folders.push(name + "/"),
                    false => memory.put(&name, from.read(&name, u64::MAX)?.unwrap_or_default())?,
                }
            }
        }
        Ok(memory)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, name: &str) -> Option<Arc<Vec<u8>>> {
        self.files().get(&format!("{}{name}", self.below)).cloned()
    }
}

impl Storage for Memory {
    fn root(&self) -> &Path {
        &self.root
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>> {
        let below = format!("{}{name}/", self.below);
        Ok(Arc::new(Self { root: self.root.join(name), below, files: Arc::clone(&self.files) }))
    }

    fn with_work(&self, _work: &Path) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn OpenFile>>> {
        let path = self.path_of(name);
        Ok(self.get(name).map(|bytes| Box::new(MemoryFile { path, bytes }) as Box<dyn OpenFile>))
    }

    fn open_listed(&self, name: &str, bytes: u64) -> Result<Box<dyn OpenFile>> {
        match self.open(name)? {
            None => Err(Error::data("the manifest names this file, and it is not there").in_file(self.path_of(name))),
            Some(file) if file.bytes() != bytes => {
                let what = format!("{} bytes, {bytes} in the manifest", file.bytes());
                Err(Error::data(what).in_file(self.path_of(name)))
            }
            Some(file) => Ok(file),
        }
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        match self.get(name) {
            Some(bytes) if bytes.len() as u64 > max_bytes => {
                let what = format!("{} bytes, and such a file has at most {max_bytes}", bytes.len());
                Err(Error::data(what).in_file(self.path_of(name)))
            }
            found => Ok(found.map(|bytes| bytes.to_vec())),
        }
    }

    fn length(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.get(name).map(|bytes| bytes.len() as u64))
    }

    fn changed_at_ns(&self, _name: &str) -> Result<Option<u128>> {
        Ok(None)
    }

    fn walk(&self, below: &str, take: &mut dyn FnMut(&str, u64) -> ControlFlow<()>) -> Result<()> {
        let slash = if below.is_empty() || below.ends_with('/') { "" } else { "/" };
        let prefix = format!("{}{below}{slash}", self.below);
        let files = self.files().clone();
        for (name, bytes) in files.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix)) {
            if take(name.strip_prefix(&self.below).unwrap_or(name), bytes.len() as u64).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, below: &str) -> Result<Option<Vec<Entry>>> {
        let slash = if below.is_empty() || below.ends_with('/') { "" } else { "/" };
        let prefix = format!("{}{below}{slash}", self.below);
        let files = self.files();
        let entries = files.range(prefix.clone()..).map_while(|(name, _)| {
            let rest = name.strip_prefix(&prefix)?;
            let folder = rest.split_once('/').map(|(folder, _)| folder);
            Some(Entry { name: folder.unwrap_or(rest).to_owned(), is_folder: folder.is_some() })
        });
        Ok(Some(entries.collect::<BTreeSet<_>>().into_iter().collect()))
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        self.files().insert(format!("{}{name}", self.below), Arc::new(bytes));
        Ok(())
    }

    fn create(&self, name: &str, size: Size) -> Result<Box<dyn FileWriter>> {
        let (memory, name) = (self.clone(), name.to_owned());
        Ok(Box::new(MemoryWriter { memory, name, size, bytes: Mutex::default() }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files().remove(&format!("{}{name}", self.below));
        Ok(())
    }

    fn sync(&self, _below: &str) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    path: PathBuf,
    bytes: Arc<Vec<u8>>,
}

impl MemoryFile {
    fn part(&self, range: Range<u64>) -> Result<&[u8]> {
        let ends = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let part = ends.and_then(|(start, end)| self.bytes.get(start..end));
        part.ok_or_else(|| {
            Error::data(format!("is {} bytes", self.bytes.len())).in_file(&self.path).at_byte(range.start)
        })
    }
}

impl OpenFile for MemoryFile {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(self.part(offset..offset.saturating_add(into.len() as u64))?);
        Ok(())
    }

    fn read_range(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        take(self.part(range)?);
        Ok(())
    }
}

/// A file that is being written.
#[derive(Debug)]
struct MemoryWriter {
    memory: Memory,
    name: String,
    size: Size,
    bytes: Mutex<Vec<u8>>,
}

impl MemoryWriter {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileWriter for MemoryWriter {
    fn path(&self) -> PathBuf {
        self.memory.path_of(&self.name)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.size.check(offset + bytes.len() as u64, || self.path())?;
        let mut all = self.bytes();
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if all.len() < end {
            all.resize(end, 0);
        }
        all[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn finish(&self, bytes: u64, _blake3: &FileHash) -> Result<()> {
        let written = std::mem::take(&mut *self.bytes());
        check_written(written.len() as u64, bytes, || self.path())?;
        self.memory.put(&self.name, written)
    }

    fn abort(&self) -> Result<()> {
        self.bytes().clear();
        Ok(())
    }
}
