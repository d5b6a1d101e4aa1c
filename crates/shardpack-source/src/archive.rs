//! A folder in a zip archive, as a path or URL names it.
//!
//! Holds at all times: what is read is the archive of one version; store settings stay in memory.

use std::{
    path::{Component, Path, PathBuf},
    sync::{Arc, OnceLock},
};

use shardpack_format::{Error, Result};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_storage::{Access, Address, Storage};

use super::{
    stored::{Stored, StoredPath},
    url::{self, Named},
};
use crate::{foreign::zip::ZipFolder, sys};

/// Extension of archives, in any case.
const EXTENSION: &str = "zip";

/// A folder in an archive. The archive is opened when it is needed.
#[derive(Debug)]
pub struct InArchive {
    /// Path or URL of the archive.
    pub(super) file: PathBuf,
    /// The folder in the archive, without slashes at its ends; empty for the whole archive.
    pub(super) folder: String,
    /// Both, for messages.
    pub(super) root: PathBuf,
    /// Storage of the archive, and its name there.
    storage: Arc<dyn Storage>,
    name: String,
    opened: OnceLock<Arc<dyn Storage>>,
}

impl InArchive {
    /// The archive at `path`, or the folder in an archive; `None` if no part of `path` is an archive. Sends a request only for a part
    /// of a URL that ends in `.zip`.
    ///
    /// # Errors
    /// If a file or object cannot be looked at.
    pub(super) fn find(path: &Path, settings: &StoreSettings) -> Result<Option<Self>> {
        let Some(text) = Address::of(path).url() else { return Self::find_file(path) };
        let ends = text.match_indices('/').map(|(at, _)| at).chain([text.len()]);
        for end in ends.filter(|end| is_archive(Path::new(&text[..*end]))) {
            let (file, folder) = (&text[..end], text[end..].trim_matches('/'));
            if url::named(file)?.is_none() {
                continue;
            }
            let folder = if url::is_web(text) { url::decoded(folder) } else { folder.to_owned() };
            let found = Self::at(Path::new(file), &folder, settings)?;
            if found.storage.look(&found.name)?.is_some() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_file(path: &Path) -> Result<Option<Self>> {
        // Without `.` and double or trailing slashes.
        let path: &Path = &path.components().collect::<PathBuf>();
        for file in path.ancestors().filter(|file| is_archive(file)) {
            let below = path.strip_prefix(file).unwrap_or(Path::new(""));
            let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
            if let (true, Some(folder), true) = (is_inside, below.to_str(), sys::is_file(file)?) {
                return Self::at(file, folder.trim_matches('/'), &StoreSettings::default()).map(Some);
            }
        }
        Ok(None)
    }

    /// The folder `folder` in the archive `file`, a path or URL. Looks at nothing: a plan file may name a source that is not needed.
    ///
    /// # Errors
    /// If `file` is no URL of a store and no path of a file, or a setting is unknown.
    pub(super) fn at(file: &Path, folder: &str, settings: &StoreSettings) -> Result<Self> {
        let named = match Address::of(file).url() {
            Some(url) => url::named(url)?,
            None => {
                let name = file.file_name().and_then(|name| name.to_str());
                let above = file.parent().and_then(Path::to_str);
                name.zip(above).map(|(name, above)| Named { folder: above.to_owned(), name: name.to_owned() })
            }
        };
        let Named { folder: above, name } =
            named.ok_or_else(|| Error::usage("no name of an archive, or not UTF-8").in_file(file))?;
        Ok(Self {
            file: file.to_owned(),
            folder: folder.to_owned(),
            root: if folder.is_empty() { file.to_owned() } else { file.join(folder) },
            storage: shardpack_storage::open_later(above, settings)?,
            name,
            opened: OnceLock::new(),
        })
    }

    /// The same with an absolute path.
    pub(super) fn resolved(&self) -> Result<Self> {
        Self::at(&sys::resolved(&self.file)?, &self.folder, &StoreSettings::default())
    }

    /// Whether the archive is a file of this machine.
    pub(super) fn is_local(&self) -> bool {
        self.storage.local().is_some()
    }

    pub(super) fn access(&self) -> Access {
        self.storage.access()
    }

    pub(super) fn transfers(&self) -> Option<Transfers> {
        self.storage.transfers()
    }

    pub(super) fn stored(&self) -> Stored {
        Stored::Archive(StoredPath::from_path(&self.file), StoredPath::from_path(Path::new(&self.folder)))
    }

    /// The files of the folder.
    ///
    /// # Errors
    /// If the archive is missing or invalid, or cannot be read.
    pub(super) fn storage(&self) -> Result<Arc<dyn Storage>> {
        if let Some(opened) = self.opened.get() {
            return Ok(Arc::clone(opened));
        }
        let zip = ZipFolder::open(Arc::clone(&self.storage), &self.name)?;
        let zip = zip.ok_or_else(|| Error::usage("no such archive").in_file(&self.file))?;
        let opened = if self.folder.is_empty() { Arc::new(zip) } else { zip.folder(&self.folder)? };
        Ok(Arc::clone(self.opened.get_or_init(|| opened)))
    }
}

/// Whether the name of `file` is that of an archive.
fn is_archive(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(EXTENSION))
}
