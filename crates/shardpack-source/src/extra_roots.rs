//! Files of components in folders outside the source: `--extra-root masks=/data/masks --with 'mask={masks}/{parent}/*.png'`.
//!
//! Holds at all times: such a file has the path `{masks}/cat/1.png` in listings, messages and ledgers, and never the path of the folder. A
//! file that a pattern matches is claimed by an image, or counted as left over.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use shardpack_format::{Error, Result, component::Component};
use shardpack_storage::{Access, Address, Transfers};

use super::{
    api::{Look, ReadError, ReadTable, SampleReader, SharedSource, SomeSamples, Source, SourceKind, SourceListing},
    companions::{Companions, Refused},
    filter::PathFilter,
    folder_reader::{FolderReader, of_component},
    missing_components::lacking,
    names::{self, Name},
    options::{Options, Splits, unknown_folder},
    parallel::for_each_adaptive,
    retry::patiently,
    sample_files,
    stored::{Stored, StoredPath},
    tree::Tree,
    walk,
};
use crate::{
    component_table::{Cell, ComponentTable},
    ledger::{Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    sys,
};

/// Samples between two looks at a cancellation.
const CHECKED: u64 = 4096;

/// A source, and folders with further files of its samples.
#[derive(Clone, Debug)]
struct Around {
    source: SharedSource,
    /// The folders by their names in patterns.
    roots: Vec<(String, PathBuf)>,
}

/// Parses values of `--extra-root`: `NAME=FOLDER`.
///
/// # Errors
/// If a value has another form, or a name is no name or there twice.
pub fn parse(values: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
    let mut roots: Vec<(String, PathBuf)> = Vec::new();
    for value in values {
        let wrong = |what: String| Error::usage(format!("--extra-root {}: {what}", value.display()));
        let bytes = value.as_os_str().as_bytes();
        let at = bytes.iter().position(|byte| *byte == b'=').filter(|at| at + 1 < bytes.len());
        let at = at.ok_or_else(|| wrong("written NAME=FOLDER, as in masks=/data/masks".to_owned()))?;
        let name = String::from_utf8_lossy(&bytes[..at]).into_owned();
        let folder = names::as_path(&bytes[at + 1..]).to_path_buf();
        if !Component::is_root_name(&name) {
            return Err(wrong("a name is letters, digits, _ and -, and no placeholder of patterns".to_owned()));
        }
        if roots.iter().any(|(other, _)| *other == name) {
            return Err(wrong(format!("{name} is there twice")));
        }
        if Address::of(&folder).local().is_none() {
            return Err(wrong("only a folder of this machine can be one".to_owned()));
        }
        roots.push((name, folder));
    }
    Ok(roots)
}

/// `source` with the files in `roots`; the same source if there are none.
///
/// # Errors
/// If a folder is in the source, whose images its files would be, or is no folder.
pub fn around(source: SharedSource, roots: Vec<(String, PathBuf)>) -> Result<SharedSource> {
    if roots.is_empty() {
        return Ok(source);
    }
    for (name, folder) in &roots {
        let wrong = |what: &str| Error::usage(format!("--extra-root {name}: {what}")).in_file(folder);
        let path = folder.canonicalize().map_err(|error| sys::io_error("cannot open folder", folder, error))?;
        if !path.is_dir() {
            return Err(wrong("no folder"));
        }
        let trees = source.leaves().into_iter().filter(|leaf| leaf.kind() == SourceKind::Tree);
        let inside = |root: &Path| root.canonicalize().is_ok_and(|root| path.starts_with(root));
        if trees.flat_map(Source::roots).any(inside) {
            return Err(wrong("is in the source, where its images are samples").help(
                "a path in the pattern of --with names files in the source, as in --with 'mask=../masks/*.png'",
            ));
        }
    }
    Ok(Arc::new(Around { source, roots }))
}

impl Around {
    /// The folder of the files of `kind`, if they are outside the source.
    fn root_of(&self, kind: &Component) -> Result<Option<&(String, PathBuf)>> {
        let Some(name) = kind.extra_root() else { return Ok(None) };
        let known = self.roots.iter().find(|(own, _)| own == name);
        known.map(Some).ok_or_else(|| unknown_folder(kind, name))
    }

    /// Adds the files of `kinds` to the samples of `found`; `seen` gets the files that images claim.
    fn add(
        &self,
        found: &mut SourceListing,
        kinds: &[&Component],
        options: &Options,
        seen: &mut Companions,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let keep = PathFilter::new(options)?;
        let all: Vec<Component> = kinds.iter().map(|kind| (*kind).clone()).collect();
        for left_out in &found.unpacked {
            let (folder, name) = names::cut(&left_out.path);
            seen.claim(&all, folder, name);
        }
        let mut roots: Vec<(&Component, String, &Path, OwnedFd)> = Vec::new();
        for kind in kinds {
            let Some((name, root)) = self.root_of(kind)? else { continue };
            let fd = walk::open_folder(rustix::fs::CWD, root.as_os_str().as_bytes())
                .map_err(|error| sys::io_error("cannot open folder", root, error.into()))?;
            roots.push((kind, start(name), root, fd));
        }
        let listing = Arc::clone(&found.listing);
        monitor.begin(Phase::Walking, listing.len(), 0);
        let numbers: Vec<u64> = (0..listing.len()).collect();
        for number in &numbers {
            seen.claim(&all, &listing.folder(*number).path, listing.name(*number));
        }
        let looked: Mutex<Vec<Result<Vec<Cell>, Refused>>> = Mutex::new(vec![Ok(Vec::new()); numbers.len()]);
        for_each_adaptive(&numbers, options.threads.max(1), &|| 0, |number| {
            if number.is_multiple_of(CHECKED) {
                monitor.check_cancelled()?;
            }
            let (folder, name) = (&listing.folder(*number).path, listing.name(*number));
            let mut cells = Ok(Vec::new());
            for (kind, start, root, fd) in &roots {
                let places = walk::Places { root: fd.as_fd(), folder, extra: Some(start), here: None };
                let cell = walk::file_cell(&places, kind, None, kind.path_of(folder, name), &keep);
                let cell = cell.map_err(|(_, error)| sys::io_error("cannot look at", root, error.into()))?;
                cells = cells.and_then(|mut cells: Vec<Cell>| {
                    cells.push(cell?);
                    Ok(cells)
                });
            }
            looked.lock().unwrap_or_else(PoisonError::into_inner)[*number as usize] = cells;
            monitor.advance(1, 0);
            Ok(())
        })?;
        put(found, &all, looked.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Remembers the files in the folders that match `kinds`; counts all others in `found`.
    fn see(&self, kinds: &[Component], seen: &mut Companions, found: &mut SourceListing) {
        let used = |name: &String| kinds.iter().any(|kind| kind.extra_root() == Some(name));
        for (name, root) in self.roots.iter().filter(|(name, _)| used(name)) {
            let others = others_in(root, name, |folder, file| seen.sees(kinds, folder, file));
            if others > 0 {
                *found.ignored.entry(format!("other file in {{{name}}}")).or_default() += others;
            }
        }
    }
}

/// The number of files in `root`, called `name`, for which `is_known` of folder and name is false.
fn others_in(root: &Path, name: &str, mut is_known: impl FnMut(&[u8], &[u8]) -> bool) -> u64 {
    let (mut visited, mut others) = (BTreeSet::new(), 0);
    let mut todo = vec![(root.to_path_buf(), name_in_braces(name).into_bytes())];
    while let Some((folder, path)) = todo.pop() {
        if !folder.canonicalize().is_ok_and(|folder| visited.insert(folder)) {
            continue;
        }
        let entries = sample_files::entries(Tree { root: &folder, listed: None }, &folder).into_iter();
        let is_meant = |name: &[u8]| !matches!(names::classify(name, |_| false), Name::Hidden | Name::System);
        for (entry, is_folder) in entries.filter(|(name, _)| is_meant(name)) {
            match is_folder {
                true => todo.push((folder.join(names::as_path(&entry)), names::join(&path, &entry))),
                false => others += u64::from(!is_known(&path, &entry)),
            }
        }
    }
    others
}

/// Puts the cells of `kinds` into the listing of `found`; samples without a file that they need are none.
fn put(found: &mut SourceListing, kinds: &[Component], looked: Vec<Result<Vec<Cell>, Refused>>) {
    let listing = Arc::clone(&found.listing);
    let mut path = Vec::new();
    for (number, why) in (0..).zip(&looked).filter_map(|(number, cells)| Some((number, cells.as_ref().err()?))) {
        listing.path(number, &mut path);
        let (class, reason) = (listing.class(number), why.why.as_str().into());
        found.unpacked.push(Unpacked { path: path.clone(), class, fate: why.fate, reason });
    }
    found.unpacked.sort_unstable_by(order);
    let listing = match looked.iter().any(Result::is_err) {
        true => listing.chosen(&listing.classes, Some, |number| looked[number as usize].is_ok()),
        false => (*listing).clone(),
    };
    let noun = if found.payload.is_none() { "image" } else { "sample" };
    let own = listing.components().kinds.len();
    let all: Vec<Component> = listing.components().kinds.iter().chain(kinds).cloned().collect();
    let listing = listing.with_more_kinds(&all);
    let table = listing.components();
    let mut cells = Vec::with_capacity(table.cells.len());
    for (number, looked) in (0..).zip(looked.into_iter().flatten()) {
        cells.extend_from_slice(&table.cells_of(number)[..own]);
        cells.extend(looked);
    }
    let components = ComponentTable { cells, ..table.clone() };
    found.listing = Arc::new(listing.with_values(&[], components));
    found.notes.extend(lacking(&found.listing.with_kinds(kinds), noun));
}

fn name_in_braces(name: &str) -> String {
    format!("{{{name}}}")
}

/// The start of paths in the folder that is called `name`.
fn start(name: &str) -> String {
    format!("{{{name}}}/")
}

impl Source for Around {
    fn kind(&self) -> SourceKind {
        self.source.kind()
    }

    fn leaves(&self) -> Vec<&dyn Source> {
        self.source.leaves()
    }

    fn leaf_of(&self, split: Option<&str>) -> Result<&dyn Source> {
        self.source.leaf_of(split)
    }

    fn roots(&self) -> Vec<&Path> {
        self.source.roots()
    }

    fn extra_folders(&self) -> Vec<&Path> {
        self.roots.iter().map(|(_, path)| path.as_path()).collect()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.source.transfers()
    }

    fn access(&self) -> Access {
        self.source.access()
    }

    fn read_at(&self) -> &Path {
        self.source.read_at()
    }

    fn has_times(&self) -> bool {
        self.source.has_times()
    }

    fn stored(&self) -> Stored {
        let root = |(name, path): &(String, PathBuf)| (name.clone(), StoredPath::from_path(path));
        Stored::Extra(Box::new(self.source.stored()), self.roots.iter().map(root).collect())
    }

    fn resolved(&self) -> Result<SharedSource> {
        let root = |(name, path): &(String, PathBuf)| Ok((name.clone(), sys::resolved(path)?));
        let roots = self.roots.iter().map(root).collect::<Result<_>>()?;
        Ok(Arc::new(Self { source: self.source.resolved()?, roots }))
    }

    fn has_dataset_splits(&self) -> Result<bool> {
        self.source.has_dataset_splits()
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let (extra, with): (Vec<_>, Vec<_>) =
            options.with.iter().cloned().partition(|kind| kind.extra_root().is_some());
        for (name, _) in &self.roots {
            if !extra.iter().any(|kind| kind.extra_root() == Some(name)) {
                let what = format!("--extra-root {name}: no component has its files there");
                return Err(Error::usage(what).help(format!(
                    "a pattern of --with begins with it, as in --with 'mask={{{name}}}/{{parent}}/*.png'"
                )));
            }
        }
        let has_extra = !extra.is_empty();
        let mut found = self.source.discover(&Options { with, has_extra, ..options.clone() }, monitor)?;
        let mut seen = Companions::default();
        let kinds: Vec<&Component> = extra.iter().collect();
        for one in &mut found {
            self.add(one, &kinds, options, &mut seen, monitor)?;
        }
        if let (Some(first), false) = (found.first_mut(), matches!(options.splits, Splits::Compared(_))) {
            self.see(&extra, &mut seen, first);
            let left_over: BTreeMap<String, u64> = seen.left_over(&extra, &PathFilter::new(options)?);
            for (reason, count) in left_over {
                *first.ignored.entry(reason).or_default() += count;
            }
        }
        Ok(found)
    }

    fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        let inner = self.source.open(split, listing, work, monitor)?;
        let kinds = &listing.components().kinds;
        let mut extra = Vec::new();
        for (name, root) in &self.roots {
            if kinds.iter().any(|kind| kind.extra_root() == Some(name)) {
                extra.push((start(name), FolderReader::open(root, listing)?));
            }
        }
        Ok(Box::new(ExtraReader { inner, listing, extra: Arc::new(extra) }))
    }

    fn unpacked_bytes(&self, split: Option<&str>, listing: &Listing) -> Result<u64> {
        self.source.unpacked_bytes(split, listing)
    }

    fn is_plain(&self) -> bool {
        self.source.is_plain()
    }

    fn can_peek(&self, split: Option<&str>) -> Result<bool> {
        self.source.can_peek(split)
    }

    fn first<'a>(&'a self, split: Option<&str>, listing: &'a Listing, most: usize) -> Result<Option<SomeSamples<'a>>> {
        self.source.first(split, listing, most)
    }

    fn list_file(&self) -> Option<&Path> {
        self.source.list_file()
    }

    fn has_annotations(&self) -> bool {
        self.source.has_annotations()
    }

    fn annotations(&self) -> Result<Option<Vec<u8>>> {
        self.source.annotations()
    }

    fn with_tables(&self, component: &str, read: &ReadTable<'_>) -> Result<Option<SharedSource>> {
        let Some(source) = self.source.with_tables(component, read)? else { return Ok(None) };
        Ok(Some(Arc::new(Self { source, roots: self.roots.clone() })))
    }
}

/// Reads samples of a source, and their files in folders outside.
struct ExtraReader<'a> {
    inner: Box<dyn SampleReader + 'a>,
    listing: &'a Listing,
    /// Each folder with the start of the paths in it.
    extra: Arc<Vec<(String, FolderReader<'a>)>>,
}

impl SampleReader for ExtraReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        self.inner.read(number, payload)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let is_extra = self.listing.components().kinds.get(which).is_some_and(|kind| kind.extra_root().is_some());
        let path = self.listing.component_file(number, which).filter(|_| is_extra);
        let Some((path, _)) = path else { return self.inner.read_component(number, which, out) };
        let below = |(start, reader): &'_ (String, FolderReader<'_>), out: &mut [u8]| {
            let below = path.strip_prefix(start.as_bytes())?;
            Some(patiently(|| reader.read_at(below, out)).map_err(|error| of_component(&path, error)))
        };
        self.extra
            .iter()
            .find_map(|one| below(one, out))
            .unwrap_or_else(|| self.inner.read_component(number, which, out))
    }

    fn can_coalesce(&self, first: u64, before: u64, next: u64) -> bool {
        self.inner.can_coalesce(first, before, next)
    }

    fn read_batch(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        let inner = self.inner.read_batch(numbers)?;
        Some(Box::new(ExtraReader { inner, listing: self.listing, extra: Arc::clone(&self.extra) }))
    }

    fn concurrency(&self) -> usize {
        self.inner.concurrency()
    }

    fn unchanged(&self) -> Result<()> {
        self.inner.unchanged()
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        self.inner.peek(number, first, look)
    }
}
