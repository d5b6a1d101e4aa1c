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
use shardpack_storage::{Access, Storage};

use super::shards::UrlResolver;
use crate::{monitor::Monitor, parallel::each};

/// Longest record of splits that is read.
const MAX_RECORD_BYTES: u64 = 1 << 30;

/// The folder of a dataset, or the folder that contains its splits.
#[derive(Clone, Debug)]
pub struct DatasetLocation {
    /// The folder, or its URL.
    pub folder: PathBuf,
    /// Names of the selected shards, including named files that are not in the dataset; `None` for all shards.
    pub only: Option<BTreeSet<String>>,
    settings: StoreSettings,
    /// Storage of the folder, or of the splits.
    storage: Arc<dyn Storage>,
    /// Open datasets at a URL, shared by all clones.
    opened: Arc<OnceLock<Vec<Arc<Dataset>>>>,
    /// Reader that searched this URL, for its transfer counts.
    pub(super) looked: Option<Arc<UrlResolver>>,
}

impl DatasetLocation {
    /// The shards with these names in `folder`, or all shards; sends no request. `settings` are for a URL.
    ///
    /// # Errors
    /// If the URL cannot be read from, or a setting is unknown.
    pub fn new(folder: &Path, only: Option<BTreeSet<String>>, settings: &StoreSettings) -> Result<Self> {
        let storage = shardpack_storage::open_later(folder, settings)?;
        let folder = storage.root().to_path_buf();
        Ok(Self { folder, only, settings: settings.clone(), storage, opened: Arc::default(), looked: None })
    }

    /// The storage of its folder.
    pub(super) fn storage(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    /// Costs and risks of reads.
    pub(super) fn access(&self) -> Access {
        self.storage.access()
    }

    /// The same root with an absolute path.
    pub(super) fn resolved(&self) -> Result<Self> {
        match self.storage.resolved()? {
            folder if folder == self.folder => Ok(self.clone()),
            folder => {
                Ok(Self { looked: self.looked.clone(), ..Self::new(&folder, self.only.clone(), &self.settings)? })
            }
        }
    }

    /// The datasets of this root; each read is checked against the content hashes.
    ///
    /// # Errors
    /// If there is no dataset, or a dataset cannot be opened.
    pub(super) fn datasets(&self, monitor: &dyn Monitor) -> Result<Vec<Arc<Dataset>>> {
        if let Some(datasets) = self.opened.get() {
            return Ok(datasets.clone());
        }
        let opened = Dataset::open_all_with(&self.folder, &self.settings)?;
        let opened: Vec<_> = opened.into_iter().map(|dataset| Arc::new(dataset.check_content(true))).collect();
        if self.access().page_cache {
            // Each has open shards, and in compressed ones unpacked frames.
            return Ok(opened);
        }
        self.fetch_indexes(&opened, monitor)?;
        Ok(self.opened.get_or_init(|| opened).clone())
    }

    /// Fetches the indexes of the selected shards in parallel.
    fn fetch_indexes(&self, datasets: &[Arc<Dataset>], monitor: &dyn Monitor) -> Result<()> {
        let is_meant = |shard: &Shard<'_>| self.only.as_ref().is_none_or(|only| only.contains(&shard.entry().file));
        let shards: Vec<Shard<'_>> = datasets.iter().flat_map(|dataset| dataset.shards()).filter(is_meant).collect();
        each(&shards, self.access().reads, |shard| monitor.check_cancelled().and_then(|()| shard.index().map(drop)))
    }

    /// The splits record in the parent folder, if any.
    pub(super) fn record_above(&self, folder: &Path) -> Result<Option<Record>> {
        let Some(above) = shardpack_storage::above(folder) else { return Ok(None) };
        let storage = shardpack_storage::open(above, &self.settings)?;
        let bytes = storage.read_optional(splits::FILE, MAX_RECORD_BYTES)?;
        let record = bytes.map(|bytes| Record::read(&bytes)).transpose();
        record.map_err(|error| error.in_file(storage.path_of(splits::FILE)))
    }

    /// Network transfers so far, detection included; `None` for a local folder.
    pub(super) fn transfers(&self) -> Option<Transfers> {
        let datasets = self.opened.get().into_iter().flatten().filter_map(|dataset| dataset.transfers());
        let looked = self.looked.iter().map(|urls| urls.transfers());
        self.storage.transfers().into_iter().chain(datasets).chain(looked).reduce(Transfers::and)
    }
}
