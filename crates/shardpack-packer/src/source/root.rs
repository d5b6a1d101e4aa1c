//! The folder or URL of a dataset, or of the splits of a dataset.
//!
//! Holds at all times: a dataset at a URL is opened once and its indexes are fetched once, however often it is listed and read; store
//! settings stay in memory.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use shardpack_format::{
    Result,
    splits::{self, Record},
};
use shardpack_reader::{Dataset, Shard, StoreSettings, Transfers};
use shardpack_storage::Storage;

use super::{shards::Urls, storage::NETWORK_READS};
use crate::{monitor::Monitor, parallel::each, sys};

/// Longest record of splits that is read.
const MAX_RECORD_BYTES: u64 = 1 << 30;

/// The folder of a dataset, or the folder that contains its splits.
#[derive(Clone, Debug)]
pub struct Root {
    /// The folder, or its URL.
    pub folder: PathBuf,
    /// Names of the selected shards, including named files that are not in the dataset; `None` for all shards.
    pub only: Option<BTreeSet<String>>,
    /// The datasets at a URL, shared by all clones.
    remote: Option<Arc<Remote>>,
    /// Reader that searched this URL, for its transfer counts.
    pub(super) looked: Option<Arc<Urls>>,
}

#[derive(Debug, Default)]
struct Remote {
    settings: StoreSettings,
    datasets: OnceLock<Vec<Arc<Dataset>>>,
    /// The folder of the splits, once it was listed.
    storage: OnceLock<Arc<dyn Storage>>,
}

impl Root {
    /// The shards with these names in `folder`, or all shards. For a URL, store settings come from the environment only.
    pub fn new(folder: PathBuf, only: Option<BTreeSet<String>>) -> Self {
        let remote = sys::is_store(&folder).then(Arc::default);
        Self { folder, only, remote, looked: None }
    }

    /// The dataset at `url`, or its shards with these names; sends no request.
    ///
    /// # Errors
    /// If the URL cannot be read from, or a setting is unknown.
    pub fn at_url(url: &Path, only: Option<BTreeSet<String>>, settings: &StoreSettings) -> Result<Self> {
        let folder = shardpack_storage::open(url, settings)?.root().to_path_buf();
        let remote = Remote { settings: settings.clone(), datasets: OnceLock::new(), storage: OnceLock::new() };
        Ok(Self { folder, only, remote: Some(Arc::new(remote)), looked: None })
    }

    /// Whether the dataset is at a URL.
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// The storage of its folder.
    ///
    /// # Errors
    /// If the URL cannot be read from.
    pub(super) fn storage(&self) -> Result<Arc<dyn Storage>> {
        let Some(remote) = &self.remote else {
            return shardpack_storage::open(&self.folder, &StoreSettings::default());
        };
        if let Some(storage) = remote.storage.get() {
            return Ok(Arc::clone(storage));
        }
        let storage = shardpack_storage::open(&self.folder, &remote.settings)?;
        Ok(Arc::clone(remote.storage.get_or_init(|| storage)))
    }

    /// The same root with an absolute path.
    pub(super) fn resolved(&self) -> Result<Self> {
        match self.remote {
            Some(_) => Ok(self.clone()),
            None => Ok(Self { folder: sys::resolved(&self.folder)?, ..self.clone() }),
        }
    }

    /// The datasets of this root; each read is checked against the content hashes.
    ///
    /// # Errors
    /// If there is no dataset, or a dataset cannot be opened.
    pub(super) fn datasets(&self, monitor: &dyn Monitor) -> Result<Vec<Arc<Dataset>>> {
        let checked = |dataset: Dataset| Arc::new(dataset.check_content(true));
        let Some(remote) = &self.remote else {
            return Ok(Dataset::open_all(&self.folder)?.into_iter().map(checked).collect());
        };
        if let Some(datasets) = remote.datasets.get() {
            return Ok(datasets.clone());
        }
        let opened = Dataset::open_all_with(&self.folder, &remote.settings)?;
        let opened: Vec<_> = opened.into_iter().map(checked).collect();
        self.fetch_indexes(&opened, monitor)?;
        Ok(remote.datasets.get_or_init(|| opened).clone())
    }

    /// Fetches the indexes of the selected shards in parallel.
    fn fetch_indexes(&self, datasets: &[Arc<Dataset>], monitor: &dyn Monitor) -> Result<()> {
        let is_meant = |shard: &Shard<'_>| self.only.as_ref().is_none_or(|only| only.contains(&shard.entry().file));
        let shards: Vec<Shard<'_>> = datasets.iter().flat_map(|dataset| dataset.shards()).filter(is_meant).collect();
        each(&shards, NETWORK_READS, |shard| monitor.go_on().and_then(|()| shard.index().map(drop)))
    }

    /// The splits record in the parent folder, if any.
    pub(super) fn record_above(&self, folder: &Path) -> Result<Option<Record>> {
        let (above, settings) = match &self.remote {
            None => (folder.join(".."), StoreSettings::default()),
            Some(remote) => match folder.parent().filter(|above| sys::is_store(above)) {
                Some(above) => (above.to_path_buf(), remote.settings.clone()),
                None => return Ok(None),
            },
        };
        let storage = shardpack_storage::open(above, &settings)?;
        let bytes = storage.read_optional(splits::FILE, MAX_RECORD_BYTES)?;
        let record = bytes.map(|bytes| Record::read(&bytes)).transpose();
        record.map_err(|error| error.in_file(storage.path_of(splits::FILE)))
    }

    /// Network transfers so far, detection included; `None` for a local folder.
    pub(super) fn transfers(&self) -> Option<Transfers> {
        let remote = self.remote.as_ref()?;
        let datasets = remote.datasets.get().into_iter().flatten();
        let folder = remote.storage.get().and_then(|storage| storage.transfers());
        let looked = self.looked.iter().map(|urls| urls.transfers());
        Some(
            datasets
                .filter_map(|dataset| dataset.transfers())
                .chain(looked)
                .chain(folder)
                .fold(Transfers::default(), Transfers::and),
        )
    }
}
