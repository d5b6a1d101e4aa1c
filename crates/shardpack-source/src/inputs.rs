//! Sorts the paths on a command line into our datasets, selected shards of our datasets, and other files.
//!
//! Holds at all times: a shard of a dataset is recognized by the manifest beside it, whatever path names it. A file
//! that the manifest beside it does not name is a stranger, never a foreign shard. A path that cannot be checked may
//! exist, so it is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, formats::foreign::FieldSelection, manifest, text};
use shardpack_reader::{StoreSettings, Transfers, is_unfinished, look_at_splits};
use shardpack_storage::{Address, Local};

use super::{
    DatasetLocation, Shards,
    options::Splits,
    packed::{InFolder, Input, folder_of, is_dataset, names_shards, refuse_lost_manifest, refuse_unfinished},
    shards::UrlResolver,
    strangers::DatasetFiles,
};
use crate::{
    foreign::{
        Kind,
        files::{self, Files},
        patterns::expanded,
    },
    sys::is_folder,
};

/// Sorted command line paths.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Datasets, in the order of first mention.
    pub roots: Vec<DatasetLocation>,
    /// Paths outside datasets.
    pub others: Vec<PathBuf>,
    /// The URL resolver, if the paths are URLs.
    urls: Option<Arc<UrlResolver>>,
}

/// Files by any writer, named directly or found in folders.
#[derive(Debug, Default)]
pub struct InputFiles {
    /// The files.
    pub files: Files,
    urls: Option<Arc<UrlResolver>>,
}

impl From<Files> for InputFiles {
    fn from(files: Files) -> Self {
        Self { files, urls: None }
    }
}

impl InputFiles {
    /// Like [`Files::some`].
    ///
    /// # Errors
    /// If there is no shard.
    pub fn some(self, sources: &[PathBuf]) -> Result<Self> {
        Ok(Self { files: self.files.some(sources)?, ..self })
    }

    /// Network transfers of lookups and reads so far; `None` for local files.
    pub fn transfers(&self) -> Option<Transfers> {
        self.urls.as_ref().map(|urls| urls.transfers())
    }
}

impl Inputs {
    /// Sorts `paths`, after expanding globs and brace patterns. `settings` are for URLs.
    ///
    /// # Errors
    /// If a path is missing or cannot be checked, a manifest beside a shard cannot be read, a shard is given twice, paths and URLs
    /// are mixed, or store settings are given without a URL.
    pub fn at(paths: &[PathBuf], settings: &StoreSettings) -> Result<Self> {
        let mut given = Self::unsorted(paths, settings)?;
        let (mut beside, mut known) = (Vec::new(), BTreeMap::new());
        for path in paths {
            match given.urls.clone() {
                Some(urls) => given.sort(path, urls.input(text(path)?)?, settings, &mut beside)?,
                None => {
                    for path in expanded(path)? {
                        given.sort(&path, input_here(&path, &mut known)?, settings, &mut beside)?;
                    }
                }
            }
        }
        given.once(beside)
    }

    /// Removes shards and `beside` files of datasets that are also given as a whole. Other `beside` files are an error.
    fn once(mut self, beside: Vec<PathBuf>) -> Result<Self> {
        let mut whole = BTreeSet::new();
        for root in self.roots.iter().filter(|root| root.only.is_none()) {
            if !whole.insert(root.folder.clone()) {
                return Err(Error::usage("is given twice").in_file(&root.folder));
            }
        }
        self.roots.retain(|root| root.only.is_none() || !whole.contains(&root.folder));
        self.others.retain(|path| !whole.contains(&folder_of(path)));
        if let Some(path) = beside.into_iter().find(|path| !whole.contains(&folder_of(path))) {
            return Err(Error::usage("not a shard: the manifest beside it lists it as another file")
                .in_file(path)
                .help("give the folder of the dataset, or its shards"));
        }
        Ok(self)
    }

    /// Like [`Inputs::at`], for paths that are treated as foreign shards whatever they are. Performs no lookups.
    ///
    /// # Errors
    /// If paths and URLs are mixed, or store settings are given without a URL.
    pub fn unsorted(paths: &[PathBuf], settings: &StoreSettings) -> Result<Self> {
        let urls = refuse_mixed(paths, settings)?.map(|_| Arc::new(UrlResolver::new(settings)));
        Ok(Self { urls, ..Self::default() })
    }

    /// Network transfers of lookups so far; `None` for local paths.
    pub fn transfers(&self) -> Option<Transfers> {
        self.urls.as_ref().map(|urls| urls.transfers())
    }

    /// The URL resolver, if the paths are URLs.
    pub(super) fn urls(&self) -> Option<Arc<UrlResolver>> {
        self.urls.clone()
    }

    /// Opens the paths as shards of any writer.
    ///
    /// # Errors
    /// As [`Shards::find`].
    pub fn shards(
        &self,
        paths: &[PathBuf],
        from: Option<Kind>,
        wanted: FieldSelection,
        splits: &Splits,
    ) -> Result<Shards> {
        match &self.urls {
            Some(urls) => Shards::at_urls(paths, Arc::clone(urls), from, wanted, splits),
            None => Shards::find(paths, from, wanted, splits),
        }
    }

    /// Looks up the files outside datasets.
    ///
    /// # Errors
    /// If a file is missing, a folder cannot be read, or a file is given twice.
    pub fn look(&self) -> Result<InputFiles> {
        let Some(urls) = &self.urls else { return files::look(&self.others).map(InputFiles::from) };
        let mut found = Files::default();
        for url in &self.others {
            found.append(urls.look(text(url)?)?);
        }
        Ok(InputFiles { files: found.checked()?, urls: Some(Arc::clone(urls)) })
    }

    /// Adds `path`, which stands for `input`.
    fn sort(&mut self, path: &Path, input: Input, settings: &StoreSettings, beside: &mut Vec<PathBuf>) -> Result<()> {
        let files = match input {
            Input::Dataset(folder) => {
                self.roots.push(DatasetLocation::new(&folder, None, settings)?);
                return Ok(());
            }
            Input::Files(files) if files.iter().any(|files| files.known.is_some()) => files,
            Input::Other | Input::Files(_) => {
                self.others.push(path.to_path_buf());
                return Ok(());
            }
        };
        for InFolder { folder, names, known } in files {
            for name in names {
                let Some(known) = &known else {
                    let what = "the pattern matches shards of a sealed dataset and files in this folder, which has no manifest";
                    return Err(Error::usage(what).in_file(folder).help("name them one by one"));
                };
                match known.others.contains(&name) {
                    // A pattern that matches the manifest selects the whole dataset.
                    true if name == manifest::FILE => self.roots.push(DatasetLocation::new(&folder, None, settings)?),
                    true if path.file_name().is_some_and(|file| file == name.as_str()) => {
                        beside.push(path.to_path_buf())
                    }
                    true => beside.push(folder.join(name)),
                    false => self.add_shard(&folder, name, settings)?,
                }
            }
        }
        Ok(())
    }

    /// Selects the shard `name` of the dataset in `folder`.
    fn add_shard(&mut self, folder: &Path, name: String, settings: &StoreSettings) -> Result<()> {
        let at = match self.roots.iter().position(|root| root.folder == folder && root.only.is_some()) {
            Some(at) => at,
            None => {
                self.roots.push(DatasetLocation::new(folder, Some(BTreeSet::new()), settings)?);
                self.roots.len() - 1
            }
        };
        match self.roots[at].only.get_or_insert_default().insert(name.clone()) {
            true => Ok(()),
            false => Err(Error::usage("is given twice").in_file(folder.join(name))),
        }
    }

    /// Takes URLs whose folders hold the datasets of a pack to several formats as datasets. Lists each URL that is neither a dataset nor
    /// a shard.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn take_formats(&mut self, settings: &StoreSettings) -> Result<()> {
        let Some(urls) = self.urls.clone() else { return Ok(()) };
        for path in std::mem::take(&mut self.others) {
            match !names_shards(&path) && urls.has_formats(text(&path)?)? {
                true => self.roots.push(DatasetLocation::new(&path, None, settings)?),
                false => self.others.push(path),
            }
        }
        Ok(())
    }

    /// Takes local folders whose subfolders hold datasets as datasets, whatever the subfolders are called and even if their record is
    /// lost; and URLs as [`Inputs::take_formats`]. Lists each folder, which is too slow for a large tree of images.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn take_splits(&mut self, settings: &StoreSettings) -> Result<()> {
        self.take_formats(settings)?;
        for path in std::mem::take(&mut self.others) {
            match self.urls.is_none() && is_folder(&path)? && !look_at_splits(&path)?.found.is_empty() {
                true if self.roots.iter().any(|root| root.folder == path) => {
                    return Err(Error::usage("is given twice").in_file(path));
                }
                true => self.roots.push(DatasetLocation::new(&path, None, &StoreSettings::default())?),
                false => self.others.push(path),
            }
        }
        Ok(())
    }

    /// Takes the datasets, if all paths belong to datasets; `None` if no path does.
    ///
    /// # Errors
    /// If datasets and other paths are mixed.
    pub fn only_ours(&mut self) -> Result<Option<Vec<DatasetLocation>>> {
        match (self.roots.first_mut(), self.others.first()) {
            (None, _) => Ok(None),
            (Some(first), None) => {
                first.looked = self.urls.clone();
                Ok(Some(std::mem::take(&mut self.roots)))
            }
            (Some(ours), Some(other)) => {
                let what = format!(
                    "is a sealed dataset, but {} is not: their classes are determined in different ways",
                    text::path(&other)
                );
                Err(Error::usage(what)
                    .in_file(&ours.folder)
                    .help("convert that source by itself first: sealed datasets can be combined"))
            }
        }
    }

    /// Fails if a folder has parts of a dataset and no manifest. Without the manifest, its bytes cannot be verified.
    ///
    /// # Errors
    /// The error names the folder.
    pub fn refuse_lost_manifests(&self) -> Result<()> {
        self.others.iter().try_for_each(|path| match &self.urls {
            Some(urls) if !names_shards(path) => urls.refuse_without_manifest(text(path)?),
            None if is_folder(path)? => refuse_lost_manifest(path),
            _ => Ok(()),
        })
    }
}

/// The things that `path` of this machine stands for; `manifests` has those of folders that were looked at.
fn input_here(path: &Path, manifests: &mut BTreeMap<PathBuf, Option<Arc<DatasetFiles>>>) -> Result<Input> {
    if is_folder(path)? {
        return Ok(match is_dataset(path)? || is_unfinished(path)? {
            true => Input::Dataset(path.to_path_buf()),
            false => Input::Other,
        });
    }
    let (folder, name) = (folder_of(path), path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    if name == manifest::FILE {
        return Ok(Input::Dataset(folder));
    }
    let known = match manifests.get(&folder) {
        Some(known) => known.clone(),
        None => {
            refuse_unfinished(&folder)?;
            let known = DatasetFiles::in_folder(&Local::new(&folder))?;
            manifests.insert(folder.clone(), known.clone());
            known
        }
    };
    Ok(Input::Files(vec![InFolder { folder, names: vec![name], known }]))
}

fn text(url: &Path) -> Result<&str> {
    url.to_str().ok_or_else(|| Error::usage("a URL that is not UTF-8").in_file(url))
}

/// The first URL of `paths`, if they are URLs.
///
/// # Errors
/// If paths and URLs are mixed, or store settings are given without a URL.
pub fn refuse_mixed<'p>(paths: &'p [PathBuf], settings: &StoreSettings) -> Result<Option<&'p str>> {
    let addresses = || paths.iter().map(Address::of);
    let (url, local) = (addresses().find_map(Address::url), addresses().find_map(Address::local));
    if let (Some(url), Some(local)) = (url, local) {
        let what = format!("is a URL, but {} is not: sources must be all at URLs or all local", text::path(&local));
        return Err(Error::usage(what).in_file(url));
    }
    local.map_or(Ok(()), |path| settings.refuse_for(path)).map(|()| url)
}

/// Groups of neighbours that are all URLs or all local, as [`Inputs::at`] takes them. Globs and brace patterns of this machine are
/// expanded; those of a URL only its store can expand.
///
/// # Errors
/// As [`expanded`].
pub fn alike(paths: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>> {
    let (mut groups, mut was_local) = (Vec::<Vec<PathBuf>>::new(), None);
    for path in paths {
        let local = Address::of(path).local();
        let paths = local.map_or_else(|| Ok(vec![path.clone()]), expanded)?;
        match groups.last_mut().filter(|_| was_local == Some(local.is_some())) {
            Some(group) => group.extend(paths),
            None => groups.push(paths),
        }
        was_local = Some(local.is_some());
    }
    Ok(groups)
}
