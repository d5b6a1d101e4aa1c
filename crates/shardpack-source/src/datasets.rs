//! Sealed datasets as a source.

use std::{path::Path, sync::Arc};

use shardpack_format::Result;
use shardpack_storage::{Access, Transfers};

use super::{
    api::{SampleReader, SharedSource, Source, SourceKind, SourceListing},
    dataset,
    dataset_location::DatasetLocation,
    dataset_reader::SealedReader,
    options::Options,
    retry::Retrying,
    stored::{Stored, StoredPath},
};
use crate::{
    listing::Listing,
    monitor::{Monitor, Silent},
};

/// Sealed datasets, the splits of one, or some of their shards.
#[derive(Clone, Debug)]
pub struct Datasets(pub Vec<DatasetLocation>);

impl Source for Datasets {
    fn kind(&self) -> SourceKind {
        SourceKind::Dataset
    }

    fn roots(&self) -> Vec<&Path> {
        self.0.iter().map(|root| root.folder.as_path()).collect()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.0.iter().filter_map(DatasetLocation::transfers).reduce(Transfers::and)
    }

    fn access(&self) -> Access {
        Access::of_all(self.0.iter().map(DatasetLocation::access))
    }

    fn stored(&self) -> Stored {
        let path = |root: &DatasetLocation| StoredPath::from_path(&root.folder);
        match self.0.as_slice() {
            [root @ DatasetLocation { only: None, .. }] => Stored::Dataset(path(root)),
            roots if roots.iter().all(|root| root.only.is_none()) => Stored::Datasets(roots.iter().map(path).collect()),
            roots => Stored::Parts(roots.iter().map(|root| (path(root), root.only.clone())).collect()),
        }
    }

    fn resolved(&self) -> Result<SharedSource> {
        Ok(Arc::new(Self(self.0.iter().map(DatasetLocation::resolved).collect::<Result<_>>()?)))
    }

    fn has_dataset_splits(&self) -> Result<bool> {
        Ok(dataset::members(&self.0, &Silent)?.iter().any(|member| member.split.is_some()))
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        dataset::discover(&self.0, options, monitor)
    }

    fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        _: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        Ok(Box::new(Retrying(SealedReader::open(&self.0, split, listing, monitor)?)))
    }

    fn can_peek(&self, _: Option<&str>) -> Result<bool> {
        // Without the page cache each look would be a request, and its answer is already known.
        Ok(self.access().page_cache)
    }
}
