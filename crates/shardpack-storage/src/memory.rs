//! Files in memory, for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shardpack_format::{Error, Result};

use crate::{Entry, OpenFile, Storage};

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
