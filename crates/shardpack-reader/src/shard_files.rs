//! Bytes of the shards, indexes and crop tables of a dataset: from its storage, or from a cache before it.

use std::{fs::File, io, ops::Range, path::Path, sync::Arc};

use shardpack_format::{
    Error, Result, hash, help,
    manifest::{self, Manifest},
};
use shardpack_storage::{Access, OpenFile, Storage, Transfers, sys};

use crate::{
    Bytes,
    cache::{Cache, CacheUse, Object},
    open_shards::OpenShards,
};

/// Longest crop tables of a shard that are read into memory.
const MAX_CROPS_BYTES: u64 = 1 << 30;

/// Bytes of an index per request if there is a cache.
const INDEX_PIECE_BYTES: u64 = 32 << 20;

/// Maps an open file of this machine of a length in bytes, or reads it into memory.
pub(crate) type Map<'a> = &'a dyn Fn(&File, u64) -> io::Result<Bytes>;

/// See the module. Shards are numbered from 0, in the order of the manifest.
pub(crate) struct ShardFiles {
    storage: Arc<dyn Storage>,
    access: Access,
    manifest: Arc<Manifest>,
    cache: Option<Arc<Cache>>,
    /// Transfers of other storages while the dataset was opened.
    opening: Transfers,
    open: OpenShards<Box<dyn OpenFile>>,
}

impl ShardFiles {
    /// The files of the dataset with this manifest; `opening` holds the transfers of other storages before.
    pub fn new(
        storage: Arc<dyn Storage>,
        manifest: Arc<Manifest>,
        cache: Option<Arc<Cache>>,
        opening: Transfers,
    ) -> Self {
        let (open, access) = (OpenShards::new(manifest.shards.len()), storage.access());
        Self { storage, access, manifest, cache, opening, open }
    }

    /// The same files, none of them open.
    pub fn reopen(&self) -> Self {
        Self::new(Arc::clone(&self.storage), Arc::clone(&self.manifest), self.cache.clone(), self.opening)
    }

    /// The same dataset in another storage, without a cache.
    pub fn within(&self, storage: Arc<dyn Storage>) -> Self {
        Self::new(storage, Arc::clone(&self.manifest), None, Transfers::default())
    }

    /// The storage.
    pub fn storage(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        self.storage.root()
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Costs and risks of reads.
    pub fn access(&self) -> Access {
        self.access
    }

    fn entry(&self, shard: usize) -> Result<&manifest::Shard> {
        let all = self.manifest.shards.len();
        self.manifest.shards.get(shard).ok_or_else(|| Error::usage(format!("shard {shard} of a dataset of {all}")))
    }

    /// The stored file of shard `shard`, which stays open for later calls. Over a network, the first read reports a missing
    /// file.
    ///
    /// # Errors
    /// If the file is missing, or its length differs from the manifest.
    pub fn open(&self, shard: usize) -> Result<Arc<Box<dyn OpenFile>>> {
        self.open.get(shard, || self.open_anew(shard))
    }

    /// As [`ShardFiles::open`], but the file is opened anew and belongs to the caller.
    ///
    /// # Errors
    /// As [`ShardFiles::open`].
    pub fn open_anew(&self, shard: usize) -> Result<Box<dyn OpenFile>> {
        let entry = self.entry(shard)?;
        self.storage.open_listed(&entry.file, entry.bytes)
    }

    /// Fills `into` with bytes of the stored file of shard `shard` from `offset` on.
    ///
    /// # Errors
    /// If the file is shorter, or cannot be read.
    pub fn read(&self, shard: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let file = self.open(shard)?;
        match &self.cache {
            None => file.read_at(offset, into),
            Some(cache) => {
                let fetch = |range, take: &mut dyn FnMut(&[u8])| file.read_range(range, take);
                cache.read(object(shard, self.entry(shard)?), offset, into, &fetch)
            }
        }
    }

    /// Marks bytes `range` of the file of shard `shard` as wrong: the next read bypasses the cache.
    pub fn forget(&self, shard: usize, range: Range<u64>) {
        if let (Some(cache), Ok(entry)) = (&self.cache, self.entry(shard)) {
            cache.forget(object(shard, entry), &range);
        }
    }

    /// The index of shard `shard`. A file of this machine is mapped; other bytes are compared with the BLAKE3 in the manifest.
    ///
    /// # Errors
    /// If it is missing, cannot be read, or differs.
    pub fn index(&self, shard: usize, map: Map<'_>) -> Result<Bytes> {
        let file = &self.entry(shard)?.index;
        let opened = self.storage.open_listed(&file.file, file.bytes)?;
        if let Some(local) = opened.local() {
            return map(local, file.bytes).map_err(|error| cut(error, &self.storage.path_of(&file.file)));
        }
        let object = Object { shard: None, blake3: &file.blake3.0, bytes: file.bytes };
        let mut found = Vec::new();
        // Data corrupted in transfer or in memory is correct at the second try.
        for _ in 0..2 {
            found = self.fetch_index(file, opened.as_ref(), object)?;
            if hash::file(&found) == file.blake3.0 {
                return Ok(found.into());
            }
            if let Some(cache) = &self.cache {
                cache.forget(object, &(0..file.bytes));
            }
        }
        let what = format!("{} bytes whose hash differs from the one in the manifest", found.len());
        Err(Error::data(what).help(help::COPY_AGAIN))
    }

    fn fetch_index(&self, file: &manifest::File, opened: &dyn OpenFile, object: Object<'_>) -> Result<Vec<u8>> {
        let Some(cache) = &self.cache else {
            return self.storage.read(&file.file, file.bytes)?.ok_or_else(|| {
                let error = Error::data("the manifest names this object, and it is not there");
                self.storage.explain_missing(error).help(help::COPY_AGAIN)
            });
        };
        let mut found = Vec::new();
        // The length in a manifest may be wrong; the first response shows it.
        while (found.len() as u64) < file.bytes {
            let at = found.len();
            found.resize(at + (file.bytes - at as u64).min(INDEX_PIECE_BYTES) as usize, 0);
            let fetch = |range, take: &mut dyn FnMut(&[u8])| opened.read_range(range, take);
            cache.read(object, at as u64, &mut found[at..], &fetch)?;
        }
        Ok(found)
    }

    /// The crop tables of shard `shard`; `None` if there are none.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn crops(&self, shard: usize, map: Map<'_>) -> Result<Option<Bytes>> {
        let index = Path::new(&self.entry(shard)?.index.file);
        let name = index.with_extension(shardpack_format::crops::EXTENSION);
        let name = name.to_string_lossy();
        if self.storage.local().is_none() {
            return Ok(self.storage.read_optional(&name, MAX_CROPS_BYTES)?.map(Bytes::from));
        }
        let Some(opened) = self.storage.open(&name)? else { return Ok(None) };
        let mapped = opened.local().map(|file| map(file, opened.bytes()));
        mapped.transpose().map_err(|error| cut(error, &self.storage.path_of(&name)))
    }

    /// How many reads at a time help, as far as is known, if bytes come over a network.
    pub fn concurrency(&self) -> Option<usize> {
        self.storage.concurrency()
    }

    /// Counters of network transfers, if bytes come over a network.
    pub fn transfers(&self) -> Option<Transfers> {
        Some(self.opening.and(self.storage.transfers()?))
    }

    /// Counters of the cache, if there is one.
    pub fn cache(&self) -> Option<CacheUse> {
        self.cache.as_ref().map(|cache| cache.used())
    }
}

fn object(shard: usize, entry: &manifest::Shard) -> Object<'_> {
    Object { shard: Some(shard), blake3: &entry.blake3.0, bytes: entry.bytes }
}

/// The error for a file that ended early although its length was correct.
fn cut(error: io::Error, path: &Path) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::data("cut short since it was opened").in_file(path).help(help::COPY_AGAIN)
        }
        _ => sys::io_error("cannot read", path, error),
    }
}
