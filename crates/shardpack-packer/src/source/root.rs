//! The folder that a dataset is in, or those of splits are: of a file system, or below a URL.
//!
//! Holds at all times: what is at a URL is opened once, and its indexes come once, however often it is listed and read; what is
//! said of its store is kept in memory alone.

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

use super::{shards::Urls, storage::NETWORK_READS};
use crate::{dataset_files::DatasetFiles, monitor::Monitor, parallel::each, sys};

/// A folder of a dataset, or of those that are its splits.
#[derive(Clone, Debug)]
pub struct Root {
    /// The folder, or its URL.
    pub folder: PathBuf,
    /// Names of the shards that are meant, and of strangers that were named with them; all, if `None`.
    pub only: Option<BTreeSet<String>>,
    /// What is at a URL; all clones have it together.
    remote: Option<Arc<Remote>>,
    /// Where it was looked for, if that is to be told of it.
    pub(super) looked: Option<Arc<Urls>>,
}

#[derive(Debug, Default)]
struct Remote {
    settings: StoreSettings,
    datasets: OnceLock<Vec<Arc<Dataset>>>,
}

impl Root {
    /// The shards of these names in `folder`, or all. Of the store that a URL is in nothing is said but by the environment.
    pub fn new(folder: PathBuf, only: Option<BTreeSet<String>>) -> Self {
        let remote = sys::is_store(&folder).then(Arc::default);
        Self { folder, only, remote, looked: None }
    }

    /// What is at `url`, or the shards of these names there; nothing is asked for yet.
    ///
    /// # Errors
    /// When it cannot be read from, or there are no such settings.
    pub fn at_url(url: &Path, only: Option<BTreeSet<String>>, settings: &StoreSettings) -> Result<Self> {
        let folder = DatasetFiles::open(url, settings)?.path().to_path_buf();
        let remote = Remote { settings: settings.clone(), datasets: OnceLock::new() };
        Ok(Self { folder, only, remote: Some(Arc::new(remote)), looked: None })
    }

    /// Whether it is at a URL.
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// The same with a path that holds wherever the program is called from.
    pub(super) fn resolved(&self) -> Result<Self> {
        match self.remote {
            Some(_) => Ok(self.clone()),
            None => Ok(Self { folder: sys::resolved(&self.folder)?, ..self.clone() }),
        }
    }

    /// The datasets in it, such that what is read is compared with its content hashes.
    ///
    /// # Errors
    /// When there is none, or one cannot be opened.
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

    /// Gets the indexes of the shards that are meant, many at a time.
    fn fetch_indexes(&self, datasets: &[Arc<Dataset>], monitor: &dyn Monitor) -> Result<()> {
        let is_meant = |shard: &Shard<'_>| self.only.as_ref().is_none_or(|only| only.contains(&shard.entry().file));
        let shards: Vec<Shard<'_>> = datasets.iter().flat_map(|dataset| dataset.shards()).filter(is_meant).collect();
        each(&shards, NETWORK_READS, |shard| monitor.go_on().and_then(|()| shard.index().map(drop)))
    }

    /// The record of splits in the folder above it, if there is one.
    pub(super) fn record_above(&self, folder: &Path) -> Result<Option<Record>> {
        let (files, above) = match &self.remote {
            None => (DatasetFiles::Local(folder.to_path_buf()), format!("../{}", splits::FILE)),
            Some(remote) => {
                let above = folder.parent().filter(|above| sys::is_store(above));
                let Some(above) = above.and_then(Path::to_str) else { return Ok(None) };
                (DatasetFiles::open(Path::new(above), &remote.settings)?, splits::FILE.to_owned())
            }
        };
        let bytes = files.read_optional(&above)?;
        let record = bytes.map(|bytes| Record::read(&bytes)).transpose();
        record.map_err(|error| error.in_file(files.shown(&above)))
    }

    /// What looking and reading over a network have taken so far; `None` where it is in a file system.
    pub(super) fn transfers(&self) -> Option<Transfers> {
        let datasets = self.remote.as_ref()?.datasets.get().into_iter().flatten();
        let looked = self.looked.iter().map(|urls| urls.transfers());
        Some(
            datasets.filter_map(|dataset| dataset.transfers()).chain(looked).fold(Transfers::default(), Transfers::and),
        )
    }
}
