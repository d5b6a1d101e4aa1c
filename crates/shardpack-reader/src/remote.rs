//! Opens datasets on web servers and in object stores: manifest, indexes and shards are objects below a URL.
//!
//! Holds at all times: no folder is listed; data is checked against the hashes in the manifest before use: indexes
//! against their BLAKE3, samples against their content hashes.

use std::{ops::Range, path::Path, sync::Arc};

use shardpack_format::{
    Error, Result, hash, help,
    manifest::{self, File, Manifest},
    splits::{self as record, Difference, Record},
};
use shardpack_store::Settings;

use crate::{
    Dataset, StoreSettings,
    cache::{Cache, Object},
    files::MOST_MANIFEST_BYTES,
    splits::{several, split_differences},
    store::{CacheUse, Store, Transfers},
};

/// Longest crop tables of a shard that are read.
const MOST_CROPS_BYTES: u64 = 1 << 30;

/// Bytes of an index per request if there is a cache.
const MOST_OF_INDEX_BYTES: u64 = 32 << 20;

/// `folder` as a URL, if it is one.
pub(crate) fn url(folder: &Path) -> Option<&str> {
    folder.to_str().filter(|text| shardpack_store::is_url(text))
}

fn store(url: &str, settings: &StoreSettings) -> Result<shardpack_store::Store> {
    shardpack_store::Store::new(url, &Settings::of(settings.pairs.iter().cloned()))
}

/// The dataset at `url`.
pub(crate) fn open(url: &str, settings: &StoreSettings) -> Result<Dataset> {
    let objects = store(url, settings)?;
    match objects.read_all(manifest::FILE, MOST_MANIFEST_BYTES)? {
        Some(bytes) => dataset(objects, &bytes, settings, Transfers::default()),
        None => Err(match read_record(&objects)? {
            None => no_dataset(&objects),
            Some(record) => {
                let names: Vec<_> = record.splits.iter().map(|split| split.name.as_str()).collect();
                let first = names.first().copied().unwrap_or_default();
                several(&names, &format!("{}{first}", objects.url())).in_file(objects.url())
            }
        }),
    }
}

/// The dataset at `url`, or the datasets that its record of splits names.
pub(crate) fn open_all(url: &str, settings: &StoreSettings) -> Result<Vec<Dataset>> {
    let objects = store(url, settings)?;
    if let Some(bytes) = objects.read_all(manifest::FILE, MOST_MANIFEST_BYTES)? {
        return Ok(vec![dataset(objects, &bytes, settings, Transfers::default())?]);
    }
    let record = read_record(&objects)?.ok_or_else(|| no_dataset(&objects))?;
    let mut manifests = Vec::new();
    for split in &record.splits {
        let name = format!("{}/{}", split.name, manifest::FILE);
        // A missing split becomes one of the differences.
        manifests.push(objects.read_all(&name, MOST_MANIFEST_BYTES)?.unwrap_or_default());
    }
    let named = record.splits.iter().map(|split| split.name.as_str()).zip(manifests.iter().map(Vec::as_slice));
    if let Some(Difference { folder, what, help }) = split_differences(Some(&record), named).into_iter().next() {
        return Err(Error::data(what).in_file(format!("{}{folder}", objects.url())).help(help));
    }
    // The requests so far are counted for the first dataset only.
    let mut opening = objects.counts().into();
    let of = |(split, bytes): (&record::Split, &Vec<u8>)| {
        dataset(objects.folder(&split.name)?, bytes, settings, std::mem::take(&mut opening))
    };
    record.splits.iter().zip(&manifests).map(of).collect()
}

impl From<shardpack_store::Counts> for Transfers {
    fn from(counts: shardpack_store::Counts) -> Self {
        let shardpack_store::Counts { requests, bytes, again, too_many, sent_bytes } = counts;
        Self { requests, bytes, again, too_many, sent_bytes }
    }
}

/// The dataset of `objects` with the manifest `bytes`; `opening` holds the transfers before.
fn dataset(
    objects: shardpack_store::Store,
    bytes: &[u8],
    settings: &StoreSettings,
    opening: Transfers,
) -> Result<Dataset> {
    let folder = Path::new(objects.url()).to_path_buf();
    let manifest = crate::dataset::read_manifest(bytes).map_err(|error| error.in_file(folder.join(manifest::FILE)))?;
    let cache = settings.cache.as_ref().map(|(folder, bytes)| Cache::open(folder, *bytes, &manifest)).transpose()?;
    let store = Arc::new(Remote { objects, opening, manifest: manifest.clone(), cache });
    Ok(Dataset::of(folder, manifest)?.with_store(store))
}

fn read_record(objects: &shardpack_store::Store) -> Result<Option<Record>> {
    let bytes = objects.read_all(record::FILE, MOST_MANIFEST_BYTES)?;
    let record = bytes.map(|bytes| Record::read(&bytes)).transpose();
    record.map_err(|error| error.in_file(objects.object_url(record::FILE)))
}

fn no_dataset(objects: &shardpack_store::Store) -> Error {
    let what = format!("no dataset: there is neither {} nor {}", manifest::FILE, record::FILE);
    objects.not_there(Error::usage(what)).in_file(objects.url()).help(help::URL_OF_FOLDER)
}

/// The objects of a dataset.
struct Remote {
    objects: shardpack_store::Store,
    /// Transfers of another store while the dataset was opened.
    opening: Transfers,
    manifest: Manifest,
    cache: Option<Cache>,
}

impl Remote {
    fn object(&self, shard: usize) -> Object<'_> {
        let entry = &self.manifest.shards[shard];
        Object { shard: Some(shard), blake3: &entry.blake3.0, bytes: entry.bytes }
    }

    fn read_index(&self, file: &File, object: Object<'_>) -> Result<Vec<u8>> {
        let missing = || {
            let error = Error::data("the manifest names this object, and it is not there");
            self.objects.not_there(error).help(help::COPY_AGAIN)
        };
        let Some(cache) = &self.cache else {
            return self.objects.read_all(&file.file, file.bytes)?.ok_or_else(missing);
        };
        let mut found = Vec::new();
        // The length in a manifest may be wrong; the first response shows it.
        while (found.len() as u64) < file.bytes {
            let at = found.len();
            found.resize(at + (file.bytes - at as u64).min(MOST_OF_INDEX_BYTES) as usize, 0);
            let fetch =
                |range, take: &mut dyn FnMut(&[u8])| self.objects.read_range(&file.file, file.bytes, range, take);
            cache.read(object, at as u64, &mut found[at..], &fetch)?;
        }
        Ok(found)
    }
}

impl Store for Remote {
    fn open(&self, shard: usize) -> Result<()> {
        let all = self.manifest.shards.len();
        // Each response is checked for existence and length.
        if shard < all { Ok(()) } else { Err(Error::usage(format!("shard {shard} of a dataset of {all}"))) }
    }

    fn read(&self, shard: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        self.open(shard)?;
        let entry = &self.manifest.shards[shard];
        match &self.cache {
            None => self.objects.read(&entry.file, entry.bytes, offset, into),
            Some(cache) => cache.read(self.object(shard), offset, into, &|range, take| {
                self.objects.read_range(&entry.file, entry.bytes, range, take)
            }),
        }
    }

    fn index(&self, shard: usize) -> Result<Option<Vec<u8>>> {
        self.open(shard)?;
        let file = &self.manifest.shards[shard].index;
        let object = Object { shard: None, blake3: &file.blake3.0, bytes: file.bytes };
        let mut found = Vec::new();
        // Data corrupted in transfer or in memory is correct at the second try.
        for _ in 0..2 {
            found = self.read_index(file, object)?;
            if hash::file(&found) == file.blake3.0 {
                return Ok(Some(found));
            }
            if let Some(cache) = &self.cache {
                cache.forget(object, &(0..file.bytes));
            }
        }
        let what = format!("{} bytes whose hash differs from the one in the manifest", found.len());
        Err(Error::data(what).help(help::COPY_AGAIN))
    }

    fn crops(&self, shard: usize) -> Result<Option<Option<Vec<u8>>>> {
        self.open(shard)?;
        let name =
            Path::new(&self.manifest.shards[shard].index.file).with_extension(shardpack_format::crops::EXTENSION);
        self.objects.read_optional(&name.to_string_lossy(), MOST_CROPS_BYTES).map(Some)
    }

    fn in_flight(&self) -> Option<usize> {
        Some(self.objects.long_in_flight() as usize)
    }

    fn transfers(&self) -> Option<Transfers> {
        Some(self.opening.and(self.objects.counts().into()))
    }

    fn forget(&self, shard: usize, range: Range<u64>) {
        if let (Some(cache), Ok(())) = (&self.cache, self.open(shard)) {
            cache.forget(self.object(shard), &range);
        }
    }

    fn cache(&self) -> Option<CacheUse> {
        self.cache.as_ref().map(Cache::used)
    }
}
