//! An ImageFolder tree below a URL or in an archive: listed once, and read object by object.
//!
//! Holds at all times: reads request only listed objects, in the listed version; store settings stay in memory.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    splits,
};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_storage::{Access, Address, Object, Storage, scheme};

use super::{
    api::{Look, ReadError, Refusal, SampleReader, SharedSource, Source, SourceKind, SourceListing, refused},
    archive::InArchive,
    folder_reader::of_component,
    image_folder, list_objects,
    listed_tree::ListedTree,
    names, npz, object_classes,
    options::Options,
    packed,
    retry::Retrying,
    shards::UrlResolver,
    storage,
    stored::{Stored, StoredPath},
    tree::Tree,
    url,
};
use crate::{
    foreign::npz::{Fault, Npz},
    listing::Listing,
    monitor::{Monitor, Phase},
};

/// Maximum length in bytes of a record of splits.
const MAX_RECORD_BYTES: u64 = 1 << 30;
/// Maximum length in bytes of an `.npz` file that is split into arrays: each reading thread holds one file.
const MAX_NPZ_BYTES: u64 = 16 << 20;

/// A tree below a URL or in an archive. Clones share the store and the listing.
#[derive(Clone, Debug)]
pub struct ObjectTree(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: TreeRoot,
    /// Reader that searched this URL for a dataset, for its transfer counts.
    looked: Option<Arc<UrlResolver>>,
    listed: OnceLock<ListedTree>,
}

#[derive(Debug)]
enum TreeRoot {
    /// Below a URL, as the user wrote it.
    Url(String, Arc<dyn Storage>),
    Archive(InArchive),
}

impl ObjectTree {
    /// The tree at `url`. Sends no request and looks up no credentials: a plan file may name a source that is not needed.
    ///
    /// # Errors
    /// If `url` is not the URL of a store, or a setting is unknown.
    pub fn new(url: &Path, settings: &StoreSettings) -> Result<Self> {
        Self::looked_for(url, settings, None)
    }

    /// As [`ObjectTree::new`], for a URL that `looked` has already searched.
    pub(super) fn looked_for(url: &Path, settings: &StoreSettings, looked: Option<Arc<UrlResolver>>) -> Result<Self> {
        let said = Address::of(url).url();
        let said = said.ok_or_else(|| Error::usage("is no URL of a store").in_file(url))?.to_owned();
        let store = shardpack_storage::open_later(url, settings)?;
        Ok(Self::with_root(TreeRoot::Url(said, store), looked))
    }

    /// The tree in a folder of an archive.
    pub(super) fn in_archive(archive: InArchive) -> Self {
        Self::with_root(TreeRoot::Archive(archive), None)
    }

    fn with_root(place: TreeRoot, looked: Option<Arc<UrlResolver>>) -> Self {
        Self(Arc::new(Inner { place, looked, listed: OnceLock::new() }))
    }

    /// The URL of the tree, with a slash at the end, or the archive and the folder in it.
    pub fn root(&self) -> &Path {
        match &self.0.place {
            TreeRoot::Url(_, store) => store.root(),
            TreeRoot::Archive(archive) => &archive.root,
        }
    }

    fn store(&self) -> Result<Arc<dyn Storage>> {
        match &self.0.place {
            TreeRoot::Url(_, store) => Ok(Arc::clone(store)),
            TreeRoot::Archive(archive) => archive.storage(),
        }
    }

    fn listed(&self, monitor: &dyn Monitor) -> Result<&ListedTree> {
        if let Some(listed) = self.0.listed.get() {
            return Ok(listed);
        }
        monitor.begin(Phase::Walking, 0, 0);
        let store = self.store()?;
        let listed = list_objects::all(store.as_ref(), monitor)?;
        let has = |name: &str| listed.names(b"").any(|(found, is_folder)| !is_folder && found == name.as_bytes());
        let read = |name: &str| if has(name) { store.read(name, MAX_RECORD_BYTES) } else { Ok(None) };
        // Other tools use these file names too.
        let is_record = |bytes: Vec<u8>| splits::Record::read(&bytes).is_ok();
        if packed::is_packed(|name| Ok(has(name)))? || read(splits::FILE)?.is_some_and(is_record) {
            return Err(packed::packed(self.root()));
        }
        if listed.is_empty() {
            let what = match &self.0.place {
                TreeRoot::Url(..) => "nothing lies below this URL",
                TreeRoot::Archive(_) => "the archive has no files in this folder",
            };
            return Err(Error::usage(what).in_file(self.root()));
        }
        Ok(self.0.listed.get_or_init(|| listed))
    }

    /// Name of the object at `path`, a URL or a path below the root; `None` if the object is not below the root.
    pub(super) fn name_of(&self, path: &str) -> Option<String> {
        let Some(url) = scheme(path).map(|_| path) else {
            // Kept as it is: a store has no folders, so `..` cannot leave the root.
            return Some(path.strip_prefix("./").unwrap_or(path).to_owned());
        };
        let below = |root: &str| url.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/');
        let TreeRoot::Url(said, _) = &self.0.place else { return None };
        let name = below(said).or_else(|| below(&self.root().to_string_lossy()))?;
        Some(if url::is_web(url) { url::decoded(name) } else { name.to_owned() })
    }

    /// Number of concurrent requests that currently improves throughput.
    pub(super) fn concurrency(&self) -> usize {
        self.store().ok().and_then(|store| store.short_concurrency()).unwrap_or(0)
    }

    /// Length in bytes and version of the object `name`; `None` if there is no such object.
    ///
    /// # Errors
    /// If the object may not be read, the name is invalid, or the server does not answer.
    pub(super) fn look(&self, name: &str) -> Result<Option<(u64, i64)>> {
        Ok(self.store()?.look(name)?.map(|object| (object.bytes, object.stamp)))
    }

    /// Sets the class names of objects in `found`, the listing of a list of objects, which does not list the tree.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(super) fn take_object_classes(&self, found: &mut [SourceListing], options: &Options) -> Result<()> {
        if !options.with.iter().any(object_classes::is_labels) {
            return Ok(());
        }
        let store = self.store()?;
        let files = object_classes::KNOWN.map(str::to_owned);
        object_classes::take(found, options, &files, &|name| store.read_optional(name, object_classes::MAX_BYTES))
    }

    /// Opens a reader for `listing`, the listing of `split`.
    ///
    /// # Errors
    /// If an archive cannot be opened.
    pub(super) fn reader<'a>(&self, split: Option<&str>, listing: &'a Listing) -> Result<ObjectReader<'a>> {
        Ok(ObjectReader { listing, store: self.store()?, below: split.unwrap_or_default().into() })
    }
}

impl Source for ObjectTree {
    fn kind(&self) -> SourceKind {
        SourceKind::Tree
    }

    fn roots(&self) -> Vec<&Path> {
        match &self.0.place {
            TreeRoot::Url(..) => vec![self.root()],
            TreeRoot::Archive(archive) => vec![&archive.file],
        }
    }

    fn transfers(&self) -> Option<Transfers> {
        let read = match &self.0.place {
            TreeRoot::Url(_, store) => store.transfers().unwrap_or_default(),
            TreeRoot::Archive(archive) => archive.transfers()?,
        };
        // With those of the detection.
        Some(self.0.looked.iter().map(|urls| urls.transfers()).fold(read, Transfers::and))
    }

    fn access(&self) -> Access {
        match &self.0.place {
            TreeRoot::Url(_, store) => store.access(),
            TreeRoot::Archive(archive) => archive.access(),
        }
    }

    fn has_times(&self) -> bool {
        // The version of a file of this machine is its time.
        matches!(&self.0.place, TreeRoot::Archive(archive) if archive.is_local())
    }

    fn stored(&self) -> Stored {
        match &self.0.place {
            TreeRoot::Url(..) => Stored::Prefix(StoredPath::from_path(self.root())),
            TreeRoot::Archive(archive) => archive.stored(),
        }
    }

    fn resolved(&self) -> Result<SharedSource> {
        match &self.0.place {
            TreeRoot::Archive(archive) if archive.is_local() => Ok(Arc::new(Self::in_archive(archive.resolved()?))),
            TreeRoot::Url(..) | TreeRoot::Archive(_) => Ok(Arc::new(self.clone())),
        }
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let listed = self.listed(monitor)?;
        let store = self.store()?;
        let first_bytes = |path: &Path, most: u64| {
            let name = path.strip_prefix(self.root()).unwrap_or(path).to_string_lossy();
            // An unreadable object counts as not starting as an image.
            let Ok(Some(file)) = store.open(&name) else { return Vec::new() };
            let mut first = vec![0; file.bytes().min(most) as usize];
            file.read_at(0, &mut first).map_or_else(|_| Vec::new(), |()| first)
        };
        let tree = Tree { root: self.root(), listed: Some((listed, &first_bytes)) };
        let mut found = image_folder::discover_in(tree, &options.of_files()?, monitor)?;
        let files = listed.names(b"").filter(|(_, is_folder)| !is_folder);
        let files: Vec<String> = files.filter_map(|(name, _)| String::from_utf8(name.to_vec()).ok()).collect();
        object_classes::take(&mut found, options, &files, &|name| {
            store.read_optional(name, object_classes::MAX_BYTES)
        })?;
        npz::taken_apart(found, &|split| npz::SplitLocation::Objects(self, split.map(str::to_owned)), monitor)
    }

    fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        _: Option<&Path>,
        _: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        let reader = self.reader(split, listing)?;
        Ok(if self.access().retries { Box::new(reader) } else { Box::new(Retrying(reader)) })
    }
}

/// Reads the bytes of objects.
#[derive(Debug)]
pub(super) struct ObjectReader<'a> {
    listing: &'a Listing,
    store: Arc<dyn Storage>,
    /// The folder of the split.
    below: Vec<u8>,
}

impl ObjectReader<'_> {
    /// The file `name` in the folder of sample `number`, in the version that was listed.
    fn listed(&self, number: u64, name: &[u8], bytes: u64, stamp: i64) -> Object {
        self.listed_at(&names::join(&self.listing.folder(number).path, name), bytes, stamp)
    }

    /// The file at `path` in the source or split, in the version that was listed.
    fn listed_at(&self, path: &[u8], bytes: u64, stamp: i64) -> Object {
        // Object names are UTF-8.
        Object { name: String::from_utf8_lossy(&names::join(&self.below, path)).into_owned(), bytes, stamp }
    }
}

impl ObjectReader<'_> {
    /// Reads sample `number`, a `.npz` file, in full.
    fn whole_npz(&self, number: u64) -> Result<Vec<u8>, ReadError> {
        let entry = self.listing.entry(number);
        let listed = self.listed(number, self.listing.name(number), entry.bytes.into(), entry.stamp);
        self.store.read_listed_whole(&listed, MAX_NPZ_BYTES).map_err(without_place)
    }

    /// Result of `look` on sample `number`, a `.npz` file. Retries once, in case the data was corrupted in transit.
    pub(super) fn npz<T>(
        &self,
        number: u64,
        look: &dyn Fn(&Npz<'_, [u8]>) -> Result<T, Fault>,
    ) -> Result<T, ReadError> {
        twice(|| look_into(&self.whole_npz(number)?, look))
    }

    /// Reads a component of sample `number`, a `.npz` file, from `at_hand` or with a request.
    fn read_array(
        &self,
        number: u64,
        at_hand: Option<&[u8]>,
        (component, form): (&str, &Form),
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        let found = at_hand.map(|bytes| look_into(bytes, |npz| npz.read(component, form, out)));
        match found {
            None | Some(Err(ReadError::Refused(_))) => {
                twice(|| look_into(&self.whole_npz(number)?, |npz| npz.read(component, form, out)))
            }
            Some(found) => found,
        }
    }

    /// Whether sample `number` is an array in a `.npz` file.
    fn is_of_npz(&self, number: u64) -> bool {
        self.listing.components().payload.is_some() && names::is_npz(self.listing.name(number))
    }

    /// As [`SampleReader::read`], for a `.npz` file.
    fn read_payload_of(&self, number: u64, at_hand: Option<&[u8]>, payload: &mut [u8]) -> Result<(), ReadError> {
        let components = self.listing.components();
        let name = components.payload.as_ref().map_or("", Component::name);
        self.read_array(number, at_hand, (name, components.form(components.payload_form(number))), payload)
    }

    /// As [`SampleReader::read_component`], for a `.npz` file; `None` if the component is not one of its arrays.
    fn read_component_of(
        &self,
        number: u64,
        which: usize,
        at_hand: Option<&[u8]>,
        out: &mut [u8],
    ) -> Option<Result<(), ReadError>> {
        let components = self.listing.components();
        let kind = components.kinds.get(which).filter(|kind| kind.is_value())?;
        let cell = components.cells_of(number).get(which)?;
        Some(self.read_array(number, at_hand, (kind.name(), components.form(cell.form)), out))
    }
}

/// Calls `read`, and once more if the first result is refused.
fn twice<T>(mut read: impl FnMut() -> Result<T, ReadError>) -> Result<T, ReadError> {
    match read() {
        Err(ReadError::Refused(_)) => read(),
        found => found,
    }
}

fn look_into<T>(bytes: &[u8], look: impl FnOnce(&Npz<'_, [u8]>) -> Result<T, Fault>) -> Result<T, ReadError> {
    Npz::open(bytes, bytes.len() as u64).and_then(|npz| look(&npz)).map_err(|fault| {
        ReadError::Refused(Refusal(match fault {
            // An I/O error on bytes in memory means that they end too early.
            Fault::Io(_) => "changed since it was planned: it is shorter".to_owned(),
            Fault::Data(what) => what,
        }))
    })
}

/// A `.npz` file that was fetched with one request.
struct NpzAtHand<'r> {
    reader: &'r ObjectReader<'r>,
    number: u64,
    bytes: Vec<u8>,
}

impl NpzAtHand<'_> {
    fn get(&self, number: u64) -> Option<&[u8]> {
        Some(self.bytes.as_slice()).filter(|_| number == self.number)
    }
}

impl SampleReader for NpzAtHand<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        self.reader.read_payload_of(number, self.get(number), payload)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let read = self.reader.read_component_of(number, which, self.get(number), out);
        read.unwrap_or_else(|| self.reader.read_component(number, which, out))
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        self.reader.peek(number, first, look)
    }
}

impl SampleReader for ObjectReader<'_> {
    fn read_batch(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        let [number] = *numbers else { return None };
        let bytes = self.is_of_npz(number).then(|| self.whole_npz(number).ok()).flatten()?;
        Some(Box::new(NpzAtHand { reader: self, number, bytes }))
    }

    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        if self.is_of_npz(number) {
            return self.read_payload_of(number, None, payload);
        }
        let stamp = self.listing.entry(number).stamp;
        let listed = self.listed(number, self.listing.name(number), payload.len() as u64, stamp);
        self.store.read_listed(&listed, 0, payload).map_err(without_place)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let components = self.listing.components();
        let found = components.kinds.get(which).zip(components.cells_of(number).get(which));
        let Some((kind, cell)) = found else {
            return Err(ReadError::Refused(Refusal("has no such component".to_owned())));
        };
        if let Some(read) = self.read_component_of(number, which, None, out) {
            return read;
        }
        let Some((file, stamp)) = self.listing.component_file(number, which) else {
            // A text from a list.
            return components.copy_text(*cell, out).map_err(|why| ReadError::Refused(Refusal(why)));
        };
        let listed = self.listed_at(&file, out.len() as u64, stamp);
        let read = self.store.read_listed(&listed, 0, out).map_err(without_place);
        // A file beside the image is called by its name.
        let shown = kind.file_of(self.listing.name(number)).unwrap_or(file);
        read.map_err(|error| of_component(&shown, error))
    }

    fn concurrency(&self) -> usize {
        // For `.npz` samples each request holds a whole file in memory, so no number is suggested.
        if self.listing.components().payload.is_some() { 0 } else { self.store.short_concurrency().unwrap_or(0) }
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        let is_free = matches!(look, Look::Memory | Look::Ahead);
        if is_free && !self.store.access().page_cache {
            return Ok(None);
        }
        let entry = self.listing.entry(number);
        let listed = self.listed(number, self.listing.name(number), entry.bytes.into(), entry.stamp);
        // A member of an archive of this machine may be in memory.
        let is_there = |(file, offset)| storage::peek(file, offset, &mut [0], look).is_ok_and(|read| read.is_some());
        if is_free && !self.store.place(&listed).is_some_and(is_there) {
            return Ok(None);
        }
        if self.is_of_npz(number) {
            // Arrays do not start as images do, and the listing has no length for the file.
            return Ok(Some(0));
        }
        let most = first.len().min(entry.bytes as usize);
        self.store.read_listed(&listed, 0, &mut first[..most]).map_err(without_place).map(|()| Some(most))
    }
}

/// Removes the location from an error of a sample: the caller knows the location.
pub(super) fn without_place(error: Error) -> ReadError {
    match error.kind() {
        shardpack_format::ErrorKind::Data => ReadError::Refused(Refusal(error.what())),
        _ => refused(error),
    }
}
