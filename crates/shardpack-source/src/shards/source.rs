//! Shards as a source.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use shardpack_format::{Error, Result};
use shardpack_reader::StoreSettings;
use shardpack_storage::{Access, Address, Transfers};

use super::{File, Shards, urls::UrlResolver};
use crate::{
    api::{SampleReader, SharedSource, SomeSamples, Source, SourceKind, SourceListing},
    foreign::{Beside, Kind, ShardFile, lmdb},
    listing::Listing,
    monitor::Monitor,
    options::Options,
    retry::Retrying,
    stored::{Stored, StoredBeside, StoredFile, StoredShards},
    sys,
};

impl Shards {
    pub(crate) fn restored(stored: StoredShards) -> Result<Self> {
        // Store settings come from the environment only.
        let urls = Arc::new(UrlResolver::new(&StoreSettings::default()));
        let file = |file: StoredFile| {
            let StoredFile { path, name, split, bytes, mtime_ns, kind, packed, part, beside } = file;
            let kind = Kind::parse(&kind)?;
            let remote = |path: &Path, bytes: u64, mtime_ns: i64| {
                Address::of(path).url().map(|url| urls.known(url, bytes, mtime_ns)).transpose()
            };
            let beside = beside.into_iter().map(|StoredBeside { path, bytes, mtime_ns }| {
                Ok(Beside { remote: remote(&path, bytes, mtime_ns)?, path, bytes, mtime_ns })
            });
            let (beside, remote) = (beside.collect::<Result<_>>()?, remote(&path, bytes, mtime_ns)?);
            let (inode, expected) = (None, None);
            let shard = ShardFile { path, remote, bytes, mtime_ns, inode, kind, packed, expected, part, beside };
            Ok(File { shard, name, split })
        };
        let files: Vec<File> = stored.files.into_iter().map(file).collect::<Result<_>>()?;
        let urls = files.iter().any(|file| file.shard.remote.is_some()).then_some(urls);
        Ok(Self { files, wanted: stored.wanted, ignored: BTreeMap::new(), lost: Vec::new(), notes: Vec::new(), urls })
    }
}

impl Source for Shards {
    fn kind(&self) -> SourceKind {
        SourceKind::Shards
    }

    fn roots(&self) -> Vec<&Path> {
        self.folders()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.urls.as_ref().map(|urls| urls.transfers())
    }

    fn access(&self) -> Access {
        self.urls.as_ref().map_or(Access::FILES, |_| Access::NETWORK)
    }

    fn stored(&self) -> Stored {
        let beside = |one: &Beside| {
            let Beside { path, bytes, mtime_ns, .. } = one;
            StoredBeside { path: path.clone(), bytes: *bytes, mtime_ns: *mtime_ns }
        };
        let file = |File { shard, name, split }: &File| StoredFile {
            path: shard.path.clone(),
            name: name.clone(),
            split: split.clone(),
            bytes: shard.bytes,
            mtime_ns: shard.mtime_ns,
            kind: shard.kind.name().to_owned(),
            packed: shard.packed,
            part: shard.part.clone(),
            beside: shard.beside.iter().map(beside).collect(),
        };
        Stored::Shards(StoredShards { files: self.files.iter().map(file).collect(), wanted: self.wanted.clone() })
    }

    fn resolved(&self) -> Result<SharedSource> {
        let mut resolved = self.clone();
        for file in resolved.files.iter_mut().filter(|file| file.shard.remote.is_none()) {
            file.shard.path = sys::resolved(&file.shard.path)?;
            for one in &mut file.shard.beside {
                one.path = sys::resolved(&one.path)?;
            }
        }
        if let Some(list) = lmdb::label_file(&self.wanted.entries) {
            let list = sys::resolved(&list)?;
            let text = list.to_str().ok_or_else(|| Error::usage("a path that is no text").in_file(&list))?;
            resolved.wanted.entries.label_from = Some(text.to_owned());
        }
        Ok(Arc::new(resolved))
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        self.list_with_targets(options, monitor)
    }

    fn open<'a>(
        &'a self,
        _: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        Ok(Box::new(Retrying(self.reader(listing, work, monitor)?)))
    }

    fn unpacked_bytes(&self, _: Option<&str>, listing: &Listing) -> Result<u64> {
        let ends = self.ends(listing)?;
        Ok(self.files.iter().zip(ends).filter(|(file, _)| !file.shard.is_plain()).map(|(_, end)| end).sum())
    }

    fn is_plain(&self) -> bool {
        self.files.iter().all(|file| file.shard.is_plain())
    }

    fn can_peek(&self, _: Option<&str>) -> Result<bool> {
        // At a URL each look would be a request, and its answer is already known.
        Ok(self.is_plain() && self.urls.is_none())
    }

    fn first<'a>(&'a self, _: Option<&str>, listing: &'a Listing, most: usize) -> Result<Option<SomeSamples<'a>>> {
        match self.is_plain() || self.urls.is_some() {
            true => Ok(None),
            false => self.at_start(listing, most).map(Some),
        }
    }
}
