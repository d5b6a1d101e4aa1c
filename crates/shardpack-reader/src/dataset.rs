//! Opens a sealed dataset through its manifest: samples by number and by key.
//!
//! Opening reads the manifest only; indexes and shards are opened when their first sample is requested.

use std::{
    fmt,
    fs::File,
    io,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use shardpack_format::{
    Error, Result,
    formats::{self, Choice, Format},
    index::RowRef,
    manifest::{self, Class, Manifest},
};
use shardpack_storage::{Access, Storage, StoreSettings, Transfers};

use crate::{
    Bytes, Shard,
    cache::{Cache, CacheUse},
    content::{Compression, Content},
    open_shards::OpenShards,
    shard::Opened,
    shard_files::ShardFiles,
    splits::{
        MAX_MANIFEST_BYTES, Splits, errors_of, format_folders, look_at_splits, no_manifest, read_record,
        refuse_unfinished, split_differences,
    },
    wholes::Wholes,
};

/// Maximum bytes of indexes and crop tables that are copied into memory on request: 2.5 million samples, or as many as
/// fit beside a training.
const MAX_COPIED_BYTES: u64 = 256 << 20;

/// A sealed dataset.
///
/// It is `Send` and `Sync`, has no threads, and may be used on both sides of a fork; see the crate's page.
pub struct Dataset {
    pub(crate) compression: Compression,
    pub(crate) check_content: bool,
    /// Number of the first sample of each shard, then the number of all samples; never descending.
    pub(crate) starts: Box<[u64]>,
    /// State of each shard.
    pub(crate) opened: Box<[Opened]>,
    pub(crate) files: Arc<ShardFiles>,
    /// Whether files are copied instead of mapped if possible.
    pub(crate) copies: bool,
    /// Remaining bytes of indexes and crop tables to copy before others are mapped.
    copies_left: AtomicU64,
    pub(crate) open_shards: OpenShards<Content>,
    /// Unpacked shards of a single frame.
    pub(crate) wholes: Wholes,
    /// The format of the components; created at first use.
    format: OnceLock<Box<dyn Format>>,
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset")
            .field("folder", &self.folder())
            .field("samples", &self.len())
            .field("shards", &self.manifest().shards.len())
            .finish_non_exhaustive()
    }
}

impl Dataset {
    /// Opens the dataset in `folder`: reads its manifest, and checks it against its id. With the feature `cloud`, the
    /// folder may be a URL: `s3://…`, `gs://…`, `az://…`, `abfss://…`, `http://…` or `https://…`.
    ///
    /// # Errors
    /// When the folder holds no dataset, several (the error names them) or an unfinished dataset, when
    /// the manifest is damaged, or when a later version wrote it.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(folder, &StoreSettings::default())
    }

    /// [`Dataset::open`] with settings for the object store.
    ///
    /// # Errors
    /// As [`Dataset::open`]; also when a setting does not exist, or this is a folder and not a URL.
    pub fn open_with(folder: impl AsRef<Path>, settings: &StoreSettings) -> Result<Self> {
        let storage = shardpack_storage::open(folder, settings)?;
        if let Some(folder) = storage.local() {
            refuse_unfinished(folder)?;
        }
        match storage.read(manifest::FILE, MAX_MANIFEST_BYTES)? {
            Some(bytes) => Self::from_manifest(storage, &bytes, settings, Transfers::default()),
            None => Err(no_manifest(storage.as_ref())),
        }
    }

    /// A second handle to the same dataset with no files open: the manifest is not read again, and both handles share
    /// the transfer counters.
    ///
    /// # Errors
    /// Only errors that [`Dataset::open`] would have reported.
    pub fn reopen(&self) -> Result<Self> {
        let mut again = Self::with_files(self.files.reopen())?;
        if self.copies {
            again = again.copied();
        }
        Ok(again.check_content(self.check_content))
    }

    /// The dataset with the manifest `bytes` in `storage`. `opening` holds the transfers of other storages before.
    ///
    /// # Errors
    /// When the manifest is damaged, its compression is unknown, or the cache cannot be used.
    fn from_manifest(
        storage: Arc<dyn Storage>,
        bytes: &[u8],
        settings: &StoreSettings,
        opening: Transfers,
    ) -> Result<Self> {
        let file = storage.root().join(manifest::FILE);
        let manifest = Arc::new(read_manifest(bytes).map_err(|error| error.in_file(file))?);
        let cache = settings.cache().map(|(folder, bytes)| Cache::open(folder, bytes, &manifest)).transpose()?;
        Self::with_files(ShardFiles::new(storage, manifest, cache.map(Arc::new), opening))
    }

    fn with_files(files: ShardFiles) -> Result<Self> {
        let manifest = files.manifest();
        let compression = Compression::from_manifest(manifest);
        let compression = compression.map_err(|error| error.in_file(files.root().join(manifest::FILE)))?;
        let mut starts = Vec::with_capacity(manifest.shards.len() + 1);
        starts.push(0);
        for shard in &manifest.shards {
            // `Manifest::read` has checked that the sum fits.
            starts.push(starts.last().unwrap_or(&0) + shard.samples);
        }
        Ok(Self {
            compression,
            check_content: files.access().may_damage,
            starts: starts.into(),
            opened: manifest.shards.iter().map(|_| Opened::default()).collect(),
            copies: false,
            copies_left: AtomicU64::new(0),
            open_shards: OpenShards::new(manifest.shards.len()),
            wholes: Wholes::default(),
            format: OnceLock::new(),
            files: Arc::new(files),
        })
    }

    /// Opens the dataset in `folder`, or all its splits.
    ///
    /// # Errors
    /// As [`Dataset::open`]; also when there is no dataset.
    pub fn open_all(folder: impl AsRef<Path>) -> Result<Vec<Self>> {
        Self::open_all_with(folder, &StoreSettings::default())
    }

    /// [`Dataset::open_all`] with settings for the object store.
    ///
    /// # Errors
    /// As [`Dataset::open_with`]; also when there is no dataset.
    pub fn open_all_with(folder: impl AsRef<Path>, settings: &StoreSettings) -> Result<Vec<Self>> {
        Self::open_each(folder.as_ref(), settings, &mut Err)
    }

    /// As [`Dataset::open_all_with`], with all differences of the splits from the packed ones: one is missing, new, renamed or
    /// exchanged. At a URL, splits that the record does not name are not looked for.
    ///
    /// # Errors
    /// As [`Dataset::open_with`]; also when there is no dataset.
    pub fn open_found(folder: impl AsRef<Path>, settings: &StoreSettings) -> Result<(Vec<Self>, Vec<Error>)> {
        let mut differences = Vec::new();
        let mut add = |difference| {
            differences.push(difference);
            Ok(())
        };
        let datasets = Self::open_each(folder.as_ref(), settings, &mut add)?;
        Ok((datasets, differences))
    }

    /// The dataset in `folder`, or its splits. `differs` gets the differences from the packed splits before any split is opened.
    fn open_each(
        folder: &Path,
        settings: &StoreSettings,
        differs: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Vec<Self>> {
        let storage = shardpack_storage::open(folder, settings)?;
        let Some(folder) = storage.local() else { return Self::open_recorded(storage, settings, differs) };
        let Splits { found, differences, .. } = look_at_splits(folder)?;
        let is_one = found.is_empty() && differences.is_empty();
        errors_of(differences, folder).into_iter().try_for_each(differs)?;
        match is_one {
            true => Ok(vec![Self::open_with(folder, settings)?]),
            false => found.iter().map(|split| Self::open_with(&split.path, settings)).collect(),
        }
    }

    /// As [`Dataset::open_each`] for the dataset in `storage`, or the datasets that its record of splits names. Without both, those of a
    /// pack to several formats: only then is the storage listed.
    fn open_recorded(
        storage: Arc<dyn Storage>,
        settings: &StoreSettings,
        differs: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Vec<Self>> {
        if let Some(bytes) = storage.read(manifest::FILE, MAX_MANIFEST_BYTES)? {
            return Ok(vec![Self::from_manifest(storage, &bytes, settings, Transfers::default())?]);
        }
        let record = read_record(storage.as_ref())?;
        let names = match &record {
            Some(record) => record.splits.iter().map(|split| split.name.clone()).collect(),
            None => format_folders(storage.as_ref())?,
        };
        if record.is_none() && names.is_empty() {
            return Err(no_manifest(storage.as_ref()));
        }
        let mut found = Vec::new();
        for name in &names {
            let bytes = storage.read(&format!("{name}/{}", manifest::FILE), MAX_MANIFEST_BYTES)?;
            found.extend(bytes.map(|bytes| (name.as_str(), bytes)));
        }
        let named = found.iter().map(|(name, bytes)| (*name, bytes.as_slice()));
        errors_of(split_differences(record.as_ref(), named), storage.root()).into_iter().try_for_each(differs)?;
        // The requests so far are counted for the first dataset only.
        let mut opening = storage.transfers().unwrap_or_default();
        let of = |(name, bytes): &(&str, Vec<u8>)| {
            Self::from_manifest(storage.folder(name)?, bytes, settings, std::mem::take(&mut opening))
        };
        found.iter().map(of).collect()
    }

    /// Whether every image is compared with its content hash when it is read; off by default. Over a network it is
    /// always on.
    #[must_use]
    pub fn check_content(mut self, on: bool) -> Self {
        self.check_content = on || self.access().may_damage;
        self
    }

    /// Whether images are compared with their content hashes: see [`Dataset::check_content`].
    pub fn checks_content(&self) -> bool {
        self.check_content
    }

    /// Maps no files, except indexes and crop tables beyond 256 MiB in total. A caller that copies its data anyway
    /// loses nothing, and a file that is truncated while in use is an error instead of killing the process.
    #[must_use]
    pub fn copied(mut self) -> Self {
        self.copies = true;
        self.copies_left = AtomicU64::new(MAX_COPIED_BYTES);
        self
    }

    /// The content of `file`, an index or crop tables of `bytes` length.
    pub(crate) fn bytes_of(&self, file: &File, bytes: u64) -> io::Result<Bytes> {
        let left = |left: u64| left.checked_sub(bytes);
        match self.copies_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
            Ok(_) => Bytes::read(file, bytes),
            Err(_) => Bytes::map_or_read(file, bytes),
        }
    }

    /// Reads all files of the dataset but its manifest from `storage`.
    #[must_use]
    pub fn with_storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.files = Arc::new(self.files.within(storage));
        self.open_shards = OpenShards::new(self.manifest().shards.len());
        self.opened = self.manifest().shards.iter().map(|_| Opened::default()).collect();
        self.wholes = Wholes::default();
        self.check_content |= self.access().may_damage;
        self
    }

    /// The storage of its files.
    pub fn storage(&self) -> &dyn Storage {
        self.files.storage()
    }

    /// Costs and risks of reads.
    pub fn access(&self) -> Access {
        self.files.access()
    }

    /// How many reads in flight help, as far as is known, if bytes come over a network.
    pub fn concurrency(&self) -> Option<usize> {
        self.files.concurrency()
    }

    /// Counters of network reads; `None` if everything is read from files.
    pub fn transfers(&self) -> Option<Transfers> {
        self.files.transfers()
    }

    /// Counters of the cache, if there is one.
    pub fn cache(&self) -> Option<CacheUse> {
        self.files.cache()
    }

    /// Format of the shards.
    ///
    /// # Errors
    /// When the manifest names an unknown format.
    pub fn format(&self) -> Result<&dyn Format> {
        if let Some(format) = self.format.get() {
            return Ok(format.as_ref());
        }
        let format = formats::open(&Choice::of_manifest(self.manifest())?)?;
        Ok(self.format.get_or_init(|| format).as_ref())
    }

    /// The folder, as it was given; a URL ends with a slash.
    pub fn folder(&self) -> &Path {
        self.files.root()
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        self.files.manifest()
    }

    /// Name of the split, or the value of `--name`.
    pub fn name(&self) -> &str {
        &self.manifest().name
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.manifest().samples
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Classes in the order of their labels.
    pub fn classes(&self) -> &[Class] {
        &self.manifest().classes
    }

    /// The class with this label.
    pub fn class(&self, label: i64) -> Option<&Class> {
        self.manifest().classes.get(usize::try_from(label).ok()?)
    }

    /// Name of the class with this label, with replacement characters where it is not UTF-8.
    pub fn class_name(&self, label: i64) -> Option<&str> {
        self.class(label).map(|class| class.name.as_str())
    }

    /// Shards in order.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = Shard<'_>> + DoubleEndedIterator {
        (0..self.manifest().shards.len()).map(|number| Shard { dataset: self, number })
    }

    /// Shard `number`, from 0.
    ///
    /// # Errors
    /// When there is no such shard.
    pub fn shard(&self, number: usize) -> Result<Shard<'_>> {
        match self.manifest().shards.len() {
            shards if number < shards => Ok(Shard { dataset: self, number }),
            shards => Err(Error::usage(format!("shard {number} of a dataset of {shards}")).in_file(self.folder())),
        }
    }

    /// The shard that holds sample `number`.
    ///
    /// # Errors
    /// When there is no such sample.
    pub fn shard_of(&self, number: u64) -> Result<Shard<'_>> {
        if number >= self.len() {
            let what = format!("sample {number} of a dataset of {}", self.len());
            return Err(Error::usage(what).in_file(self.folder()));
        }
        // The last shard that begins at or before the sample: shards without samples are skipped.
        let after = self.starts.partition_point(|start| *start <= number);
        Ok(Shard { dataset: self, number: after.saturating_sub(1) })
    }

    /// The index row of sample `number`: key, label, path, sizes, hashes. Does not open the shard.
    ///
    /// # Errors
    /// When there is no such sample, or the index is damaged.
    pub fn row(&self, number: u64) -> Result<RowRef<'_>> {
        self.locate(number).map(|(_, row)| row)
    }

    pub(crate) fn locate(&self, number: u64) -> Result<(Shard<'_>, RowRef<'_>)> {
        let shard = self.shard_of(number)?;
        Ok((shard, shard.row(number - shard.samples().start)?))
    }
}

/// Parses a manifest and checks it against its id.
pub(crate) fn read_manifest(bytes: &[u8]) -> Result<Manifest> {
    let manifest = Manifest::read(bytes)?;
    manifest.check_id(bytes)?;
    Ok(manifest)
}
