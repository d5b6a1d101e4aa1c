//! An ImageFolder tree in a folder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::Result;
use shardpack_storage::{Access, Transfers};

use super::{
    api::{SampleReader, SharedSource, Source, SourceKind, SourceListing},
    folder_reader::FolderReader,
    image_folder,
    layout::known::listed,
    npz, object_classes,
    options::Options,
    retry::Retrying,
    stored::{Stored, StoredPath},
};
use crate::{listing::Listing, monitor::Monitor, sys};

/// A local ImageFolder tree.
#[derive(Clone, Debug)]
pub struct LocalTree(pub PathBuf);

impl LocalTree {
    fn of_split(&self, split: Option<&str>) -> PathBuf {
        split.map_or_else(|| self.0.clone(), |split| self.0.join(split))
    }
}

impl Source for LocalTree {
    fn kind(&self) -> SourceKind {
        SourceKind::Tree
    }

    fn roots(&self) -> Vec<&Path> {
        vec![&self.0]
    }

    fn transfers(&self) -> Option<Transfers> {
        None
    }

    fn access(&self) -> Access {
        Access::FILES
    }

    fn has_times(&self) -> bool {
        true
    }

    fn stored(&self) -> Stored {
        Stored::Folder(StoredPath::from_path(&self.0))
    }

    fn resolved(&self) -> Result<SharedSource> {
        Ok(Arc::new(Self(sys::resolved(&self.0)?)))
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let of_files = options.of_files()?;
        let mut found = listed::asked(&self.0, &of_files, image_folder::discover(&self.0, &of_files, monitor))?;
        object_classes::take_in(&self.0, &mut found, options)?;
        npz::taken_apart(found, &|split| npz::SplitLocation::Folder(self.of_split(split)), monitor)
    }

    fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        _: Option<&Path>,
        _: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        Ok(Box::new(Retrying(FolderReader::open(&self.of_split(split), listing)?)))
    }
}
