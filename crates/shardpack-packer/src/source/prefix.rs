//! An ImageFolder tree below a URL: listed once, and read object by object.
//!
//! Holds at all times: nothing is asked for but what was listed, in the version that was listed; what is said of its store is kept in
//! memory alone.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use shardpack_format::{Error, Result, image_header::SNIFF_BYTES, manifest, splits};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_store::{Settings, Store};

use super::{
    Found, Look, ReadError, Refusal, Source,
    image_folder::{self, Tree},
    listed::Listed,
    lists, names, npz,
    options::Options,
    sealed::refused,
    url,
};
use crate::{
    dataset_files::DatasetFiles,
    listing::Listing,
    monitor::{Monitor, Phase},
    sys,
};

/// See the module. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Prefix(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// As a person has written it.
    said: String,
    url: PathBuf,
    store: Arc<Store>,
    listed: OnceLock<Listed>,
}

impl Prefix {
    /// The tree at `url`; nothing is asked for yet, and no credentials are looked for: a plan file may name a source that is not needed.
    ///
    /// # Errors
    /// When it is no such URL, or there are no such settings.
    pub fn new(url: &Path, settings: &StoreSettings) -> Result<Self> {
        let said = url.to_str().filter(|_| sys::is_store(url));
        let said = said.ok_or_else(|| Error::usage("is no URL of a store").in_file(url))?.to_owned();
        let store = Arc::new(Store::later(&said, &Settings::of(settings.pairs().iter().cloned()))?);
        Ok(Self(Arc::new(Inner { said, url: store.url().into(), store, listed: OnceLock::new() })))
    }

    /// Its URL.
    pub fn url(&self) -> &Path {
        &self.0.url
    }

    /// What reading has taken so far.
    pub fn transfers(&self) -> Transfers {
        DatasetFiles::Store(Arc::clone(&self.0.store)).transfers().unwrap_or_default()
    }

    /// Lists it: one [`Found`] for each split, or one for all.
    ///
    /// # Errors
    /// As [`image_folder::discover`], and when the store does not list it.
    pub(super) fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
        let listed = self.listed(monitor)?;
        let store = &self.0.store;
        let first_bytes = |path: &Path| {
            let name = path.strip_prefix(self.url()).unwrap_or(path).to_string_lossy();
            let bytes = store.length(&name).ok().flatten().unwrap_or(0);
            let mut first = vec![0; bytes.min(SNIFF_BYTES as u64) as usize];
            // What cannot be read begins as nothing.
            store.read(&name, bytes, 0, &mut first).map_or_else(|_| Vec::new(), |()| first)
        };
        let found = image_folder::discover_in(
            Tree { root: self.url(), listed: Some((listed, &first_bytes)) },
            options,
            monitor,
        )?;
        self.refuse_npz(&found)?;
        Ok(found)
    }

    fn listed(&self, monitor: &dyn Monitor) -> Result<&Listed> {
        if let Some(listed) = self.0.listed.get() {
            return Ok(listed);
        }
        monitor.begin(Phase::Walking, 0, 0);
        let listed = lists::all(&self.0.store, monitor)?;
        let has = |name: &str| listed.names(b"").any(|(found, is_folder)| !is_folder && found == name.as_bytes());
        if has(manifest::FILE) || has(splits::FILE) {
            let error = Error::usage("is a packed dataset, and no tree of images").in_file(self.url());
            return Err(error.help("shardpack convert packs it anew"));
        }
        if listed.is_empty() {
            return Err(Error::usage("nothing lies below this URL").in_file(self.url()));
        }
        Ok(self.0.listed.get_or_init(|| listed))
    }

    /// The name of the object at `url`; `None` where it is not below this one.
    pub(super) fn name_of(&self, url: &str) -> Option<String> {
        let below = |root: &str| url.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/');
        let name = below(&self.0.said).or_else(|| below(self.0.store.url()))?;
        Some(if url::is_web(url) { url::decoded(name) } else { name.to_owned() })
    }

    /// How many requests at a time help, as far as is known by now.
    pub(super) fn reads_that_help(&self) -> usize {
        self.0.store.in_flight() as usize
    }

    /// Length in bytes and version of the object that is called so; `None` where there is none.
    ///
    /// # Errors
    /// When it may not be read, cannot be called so, or the server does not answer.
    pub(super) fn look(&self, name: &str) -> Result<Option<(u64, i64)>> {
        Ok(self.0.store.look(name)?.map(|object| (object.bytes, object.stamp)))
    }

    /// Refuses samples that are taken apart in a file system alone.
    pub(super) fn refuse_npz(&self, found: &[Found]) -> Result<()> {
        let holds_npz =
            |found: &Found| (0..found.listing.len()).any(|number| npz::is_called_so(found.listing.name(number)));
        match found.iter().any(holds_npz) {
            true => Err(Error::usage("its samples are .npz files, which are taken apart in a file system alone")
                .in_file(self.url())
                .help("copy them to a folder and pack that")),
            false => Ok(()),
        }
    }

    /// Serves `listing`, which is that of `split`.
    pub(super) fn open<'a>(&self, split: Option<&str>, listing: &'a Listing) -> ObjectReader<'a> {
        ObjectReader { listing, store: Arc::clone(&self.0.store), below: split.unwrap_or_default().into() }
    }
}

/// Hands out the bytes of objects.
#[derive(Debug)]
pub(super) struct ObjectReader<'a> {
    listing: &'a Listing,
    store: Arc<Store>,
    /// The folder of the split.
    below: Vec<u8>,
}

impl ObjectReader<'_> {
    /// The name of the file `name` in the folder of sample `number`.
    fn name(&self, number: u64, name: &[u8]) -> String {
        let folder = &self.listing.folder(number).path;
        let folder = if self.below.is_empty() || folder.is_empty() {
            [&self.below, &folder[..]].concat()
        } else {
            names::join(&self.below, folder)
        };
        // Names of objects are text.
        String::from_utf8_lossy(&names::join(&folder, name)).into_owned()
    }
}

impl Source for ObjectReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        let (name, entry) = (self.name(number, self.listing.name(number)), self.listing.entry(number));
        let bytes = payload.len() as u64;
        self.store.read_listed(&name, bytes, entry.stamp, 0, payload).map_err(without_place)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let components = self.listing.components();
        let found = components.kinds.get(which).zip(components.cells_of(number).get(which));
        let Some((kind, cell)) = found else {
            return Err(ReadError::Refused(Refusal("has nothing of this kind beside it".to_owned())));
        };
        let Some(file) = kind.file_of(self.listing.name(number)) else {
            // What a list says of it.
            return components.copy_text(*cell, out).map_err(|why| ReadError::Refused(Refusal(why)));
        };
        let bytes = out.len() as u64;
        let read = self.store.read_listed(&self.name(number, &file), bytes, cell.stamp, 0, out);
        read.map_err(without_place).map_err(|error| match error {
            ReadError::Refused(Refusal(why)) => {
                ReadError::Refused(Refusal(format!("{}: {why}", String::from_utf8_lossy(&file))))
            }
            fatal => fatal,
        })
    }

    fn reads_that_help(&self) -> usize {
        self.store.in_flight() as usize
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        if matches!(look, Look::Memory | Look::Ahead) {
            return Ok(None);
        }
        let (name, entry) = (self.name(number, self.listing.name(number)), self.listing.entry(number));
        let bytes = u64::from(entry.bytes);
        let most = first.len().min(entry.bytes as usize);
        let read = self.store.read_listed(&name, bytes, entry.stamp, 0, &mut first[..most]);
        read.map_err(without_place).map(|()| Some(most))
    }
}

/// An error of a sample, whose place is known to whoever asked for it.
pub(super) fn without_place(error: Error) -> ReadError {
    match error.kind() {
        shardpack_format::ErrorKind::Data => ReadError::Refused(Refusal(error.what())),
        _ => refused(error),
    }
}
