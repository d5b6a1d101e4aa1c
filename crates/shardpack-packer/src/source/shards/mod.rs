//! Shards written by other tools as a source.
//!
//! Each file is walked once. The listing orders samples by class, then by name, and holds the location of each record. The copy reads
//! images from those locations in any order and checks the record's own checksum again. A compressed file has no such locations and
//! is unpacked into the work folder first.

mod class_trees;
mod components;
mod first;
mod labels;
mod open;
mod preview;
mod samples;
mod scan;
mod splits;
mod stored;
#[cfg_attr(not(feature = "cloud"), path = "no_urls.rs")]
mod urls;

use std::{
    collections::BTreeMap,
    collections::BTreeSet,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rayon::prelude::*;
use shardpack_format::{
    Error, ErrorKind, Result,
    formats::foreign::{Entries, Wanted},
    help,
    size::counted,
};
use shardpack_reader::Transfers;

use super::{
    Found,
    classes::{Classes, Collector, Words},
    keep::Keep,
    missing_components::lacking,
    options::{Components, Options, SPLITS, Splits},
    packed,
};
use crate::{
    foreign::{Kind, ShardFile, files, lmdb},
    ledger::{Fate, Unpacked, order},
    monitor::{Monitor, Phase},
    sys,
};
pub use open::ShardReader;
pub use preview::{Preview, SamplePreview};
use scan::Scanned;
pub(super) use splits::holds;
pub(crate) use stored::Stored;
pub(super) use urls::Urls;

/// Maximum number of per-file notes shown.
const NOTES: usize = 5;

/// Detected shards and the options for reading their records.
#[derive(Clone, Debug)]
pub struct Shards {
    files: Vec<File>,
    wanted: Wanted,
    ignored: BTreeMap<String, u64>,
    /// Missing files, and files that should be shards and are not: name and problem.
    lost: Vec<(Vec<u8>, String)>,
    /// Notes about the files.
    notes: Vec<String>,
    /// Reader of the URLs, if the files are at URLs; shared by all clones.
    urls: Option<Arc<Urls>>,
}

#[derive(Clone, Debug)]
struct File {
    shard: ShardFile,
    /// Path relative to the common folder of all files.
    name: String,
    split: Option<String>,
}

impl Shards {
    /// Finds the shards that `sources` name: files, folders, globs, brace patterns.
    ///
    /// # Errors
    /// If a source matches nothing, or matches files of an unknown format.
    pub fn find(sources: &[PathBuf], from: Option<Kind>, wanted: Wanted, splits: &Splits) -> Result<Self> {
        let mut found = Vec::new();
        for source in sources {
            if sys::is_folder(source)? {
                packed::refuse_unfinished(source)?;
            }
            found.extend(splits::of_source(source, from, splits)?);
        }
        // Files matched by a glob can lie in an unfinished pack, too.
        let folders: BTreeSet<PathBuf> = found
            .iter()
            .flat_map(|(_, files)| &files.shards)
            .filter(|shard| shard.remote.is_none())
            .map(|shard| packed::folder_of(&shard.path))
            .collect();
        folders.iter().try_for_each(|folder| packed::refuse_unfinished(folder))?;
        Self::of_found(sources, found, wanted, splits)
    }

    /// As [`Shards::find`], for URLs: objects, brace patterns, and, in buckets only, folders and globs.
    ///
    /// # Errors
    /// As [`Shards::find`]; also if a server does not answer or cannot list.
    pub(super) fn at_urls(
        sources: &[PathBuf],
        urls: Arc<Urls>,
        from: Option<Kind>,
        wanted: Wanted,
        splits: &Splits,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for source in sources {
            let url = source.to_str().ok_or_else(|| Error::usage("a URL that is not UTF-8").in_file(source))?;
            found.extend(urls.of_source(url, from, splits)?);
        }
        Ok(Self { urls: Some(urls), ..Self::of_found(sources, found, wanted, splits)? })
    }

    /// Builds the source from detected files, each with its split.
    fn of_found(
        sources: &[PathBuf],
        of_splits: Vec<(Option<String>, files::Files)>,
        wanted: Wanted,
        splits: &Splits,
    ) -> Result<Self> {
        let mut found = files::Files::default();
        let mut split_of = Vec::new();
        for (split, more) in of_splits {
            split_of.extend(more.shards.iter().map(|_| split.clone()));
            found.append(more);
        }
        let mut found = found.checked()?;
        // A file that the system cannot read may be anything.
        if let Some(at) = found.problems.iter().position(|error| error.kind() != ErrorKind::Data) {
            return Err(found.problems.swap_remove(at));
        }
        if found.shards.is_empty() && !found.problems.is_empty() {
            return Err(found.problems.swap_remove(0));
        }
        if found.shards.is_empty() {
            let ignored: u64 =
                found.ignored.iter().filter(|(reason, _)| *reason != files::FOLDER).map(|(_, files)| files).sum();
            return Err(Error::usage(match ignored {
                0 => "no shards in here".to_owned(),
                1 => "the one file in here is no shard".to_owned(),
                files => format!("none of the {files} files in here is a shard"),
            })
            .in_file(sources.first().cloned().unwrap_or_default())
            .help(
                "shards are webdataset tar, TFRecord, RecordIO, MDS, parquet, LMDB or HDF5 files; a tree of images is packed with \
                 `shardpack pack SRC DST`",
            ));
        }
        let common = common_folder(&found.shards);
        let lost = found.problems.iter().map(|problem| {
            let path = Path::new(problem.location().file.as_deref().unwrap_or_default());
            // The path on this machine stays private.
            let name = path.strip_prefix(&common).ok().or(path.file_name().map(Path::new)).unwrap_or(path);
            (name.as_os_str().as_bytes().to_vec(), problem.what())
        });
        let lost = lost.collect();
        let mut files: Vec<File> = found
            .shards
            .into_iter()
            .zip(split_of)
            .map(|(shard, split)| {
                let name = shard.path.strip_prefix(&common).unwrap_or(&shard.path).to_string_lossy().into_owned();
                File { shard, name, split }
            })
            .collect();
        samples::check(files.iter().map(|file| &file.shard), &wanted)?;
        splits::inside(&mut files, &wanted, splits)?;
        splits::by_name(&mut files, splits)?;
        lmdb::check(&wanted.entries)?;
        // HDF5 image datasets have names, so a label file can name them.
        let names_suffice = wanted.entries
            == Entries { label_from: wanted.entries.label_from.clone(), ..Entries::default() }
            && lmdb::label_file(&wanted.entries).is_some();
        let of_keys = Entries { label_from: None, key_pattern: None, ..wanted.entries.clone() }.is_unsaid()
            && wanted.entries.label_from.as_deref().is_none_or(|from| from == "key");
        let has_keys = |kind: Kind| match kind {
            Kind::Lmdb => true,
            Kind::Hdf5 => names_suffice,
            kind => of_keys && kind.has_member_names(),
        };
        if let Some(other) = files.iter().find(|file| !wanted.entries.is_unsaid() && !has_keys(file.shard.kind)) {
            let what = format!("{}, which has no keys with values", other.shard.kind.name());
            return Err(Error::usage(what).in_file(&other.shard.path).help(
                "--label-from and --skip-header are for LMDBs; for tar, --label-from key and --key-pattern work too",
            ));
        }
        if files.len() > open::MOST_FILES || files.iter().any(|file| file.shard.bytes > open::MOST_FILE_BYTES) {
            return Err(Error::usage("more than 16 million files, or one of more than 1 TiB"));
        }
        Ok(Self { files, wanted, ignored: found.ignored, lost, notes: found.notes, urls: None })
    }

    /// Whether the files are at URLs.
    pub fn is_remote(&self) -> bool {
        self.urls.is_some()
    }

    /// Network transfers so far; `None` for local files.
    pub fn transfers(&self) -> Option<Transfers> {
        self.urls.as_ref().map(|urls| urls.transfers())
    }

    /// Folders that contain the files, sorted.
    pub fn folders(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> = self.files.iter().map(folder_of).collect();
        folders.sort_unstable();
        folders.dedup();
        folders
    }

    /// The files, in order.
    pub(crate) fn shard_files(&self) -> Vec<&ShardFile> {
        self.files.iter().map(|file| &file.shard).collect()
    }

    /// File number and offset in the file for a place in a listing of these shards.
    pub(crate) fn of_place(&self, place: u64) -> (usize, u64) {
        open::of_place(place)
    }

    /// Whether a listing entry is stored bytes that need no conversion, as opposed to pixels that an image is made from.
    pub(crate) fn is_as_it_lies(&self, stamp: i64) -> bool {
        open::of_stamp(stamp).1 == 0
    }

    /// Whether all images can be read in place, without unpacking.
    pub fn is_plain(&self) -> bool {
        self.files.iter().all(|file| file.shard.is_plain())
    }

    /// Split names in canonical order; a single `None` if there are no splits.
    fn splits(&self) -> Vec<Option<String>> {
        let place = |split: &Option<String>| {
            let known = split.as_ref().and_then(|name| SPLITS.iter().position(|known| known == name));
            (known.unwrap_or(SPLITS.len()), split.clone())
        };
        let mut splits: Vec<_> = self.files.iter().map(|file| file.split.clone()).collect();
        splits.sort_by_key(place);
        splits.dedup();
        splits
    }

    /// Walks all files and lists their samples: one [`Found`] per split, or one for all.
    ///
    /// # Errors
    /// If a requested field is missing, or a name is too long. Problems of single records are in the result.
    pub fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
        let keep = Keep::new(options)?;
        monitor.begin(Phase::Walking, 0, 0);
        let wanted = Wanted { no_labels: self.wanted.no_labels || options.no_labels, ..self.wanted.clone() };
        let looks = (scan::LOOKS / self.files.len()).max(1);
        let scanned = self.files.par_iter().map(|file| {
            monitor.go_on()?;
            let look = || scan::scan(&file.shard, &file.name, &wanted, options, looks, monitor);
            match look()? {
                // Data corrupted in transit is correct on a second read.
                scanned if file.shard.remote.is_some() && scanned.is_damaged => look(),
                scanned => Ok(scanned),
            }
        });
        let mut scanned: Vec<Scanned> = scanned.collect::<Result<_>>()?;
        let (mut words, mut known) = (Words::default(), Vec::new());
        for file in &mut scanned {
            let numbers = words.merge(&file.words);
            let values = file.values.iter_mut().map(|(row, _)| row);
            file.rows.iter_mut().chain(values).for_each(|row| row.said = row.said.renumbered(&numbers));
            file.refused
                .iter_mut()
                .for_each(|refused| refused.said = refused.said.map(|said| said.renumbered(&numbers)));
        }
        if let Some(longest) = scanned.iter().map(|file| &file.known).max_by_key(|known| known.len()) {
            known.clone_from(longest);
        }
        words.intern_all(&known);
        let are_joined = scanned.iter().any(|file| !known.starts_with(&file.known));
        if are_joined {
            known = self.join_classes(&mut scanned, &mut words)?;
        }
        self.check_label(&scanned)?;
        let are_values = scanned.iter().all(|file| file.rows.is_empty());
        let (label, no_label) = labels::settle_values(&mut scanned, &self.wanted);
        if are_values && label.is_none() {
            // The class names belong to a field that is not the label.
            known.clear();
        }
        let several: u64 = scanned.iter().map(|file| file.several).sum();
        if several > 0 && !wanted.no_labels && wanted.takes_one_label() {
            let samples = counted(several, "sample");
            let mut what = format!("{samples} with several labels: labels are a component, and no class");
            if !known.is_empty() {
                what.push_str(&format!("; the names of {} are left out", counted(known.len() as u64, "class")));
            }
            return self.discover_without_labels(&what, options, monitor);
        }
        let kept_back = self.kept_back(&mut scanned);
        let trees = class_trees::find(&self.files, &mut scanned, &mut words, &wanted, &keep)?;
        let said = scanned.iter().flat_map(|file| file.rows.iter().map(|row| row.said));
        if let Some(what) = words.no_classes(said.clone()).filter(|_| known.is_empty()) {
            let what = format!("labels are {what}: a component, and no class");
            return self.discover_without_labels(&what, options, monitor);
        }
        let classes = Classes::settle(said, &words, &known);
        let is_asked = matches!(options.components, Components::Named(_));
        let settled = components::settle(&scanned, options, label.as_deref())
            .map_err(|error| error.in_file(&self.files[0].shard.path))?;
        if let (Some(payload), false) = (&settled.payload, is_asked) {
            let first =
                self.files.iter().zip(&scanned).find_map(|(file, one)| Some((file, one.name(one.rows.first()?))));
            if let Some((file, first)) = first {
                class_trees::refuse_archives(payload.name(), &file.shard.path, first)?;
            }
        }
        let mut scanned: Vec<Option<Scanned>> = scanned.into_iter().map(Some).collect();
        let mut found = Vec::new();
        let mut lost = self.lost.iter();
        for split in self.splits() {
            let payload = settled.payload.clone();
            let extensions = settled.extensions.clone();
            let is_kept_back = kept_back.contains(&split);
            let is_numbered = classes.is_numbered && !is_kept_back;
            let mut one = Found { split, payload, extensions, is_numbered, ..Found::default() };
            // The split of a missing file is unknown: the first split reports all of them.
            one.unpacked.extend(lost.by_ref().map(|(path, reason)| Unpacked {
                path: path.clone(),
                class: None,
                fate: Fate::Skipped,
                reason: reason.as_str().into(),
            }));
            let names = if is_kept_back { Arc::default() } else { Arc::clone(&classes.names) };
            let mut collector = Collector::with(&names, settled.component_table());
            let mut notes = Vec::new();
            let of_split =
                self.files.iter().zip(&mut scanned).enumerate().filter(|(_, (file, _))| file.split == one.split);
            for (number, (file, scanned)) in of_split {
                let Some(scanned) = scanned.take() else { continue };
                let refuse = |class: Option<u32>, name: &[u8], fate, reason: String| Unpacked {
                    // A record without a name of its own already has its file's name as prefix.
                    path: match name.strip_prefix(file.name.as_bytes()) {
                        Some([b'/', ..]) => name.to_vec(),
                        _ => [file.name.as_bytes(), b"/", name].concat(),
                    },
                    class,
                    fate,
                    reason: reason.into(),
                };
                if scanned.rows.is_empty() && scanned.refused.is_empty() {
                    *one.ignored.entry(files::WITHOUT_SAMPLES.to_owned()).or_default() += 1;
                }
                settled.count(number, &scanned, label.as_deref(), &mut one.ignored, &mut one.carried);
                let mut fields_end = 0;
                for row in &scanned.rows {
                    let name = &*settled.name_of(scanned.name(row));
                    let fields_start = std::mem::replace(&mut fields_end, row.fields_end);
                    match if is_kept_back { Ok(None) } else { classes.number(row.said, &words) } {
                        Err(reason) => {
                            let reason = format!("{reason} ({})", file.shard.place(&file.name, row.offset));
                            one.unpacked.push(refuse(None, name, Fate::Skipped, reason));
                        }
                        Ok(class)
                            if !keep.wants(if trees.are_classes { name } else { collector.path(class, name) }) =>
                        {
                            let why = "left out by --include or --exclude".to_owned();
                            one.unpacked.push(refuse(class, name, Fate::Filtered, why));
                        }
                        Ok(class) => {
                            if classes.loses_name(row.said, class, &words) {
                                *one.ignored.entry("name of a class".to_owned()).or_default() += 1;
                            }
                            let (payload, cells) = settled.cells(number, &scanned.fields, fields_start, fields_end);
                            let (bytes, offset, recipe, fetch_bytes) = match (&settled.payload, payload) {
                                // A requested component that no sample has is reported later.
                                (None, _) if row.bytes == 0 && !is_asked => {
                                    let reason = "it has nothing that can be a component".to_owned();
                                    one.unpacked.push(refuse(class, name, Fate::Skipped, reason));
                                    continue;
                                }
                                (None, _) => (row.bytes, row.offset, row.recipe, row.fetch_bytes),
                                (Some(kind), Some(payload)) if kind.kind().is_none() && payload.bytes == 0 => {
                                    let reason = format!("empty {}", kind.name());
                                    one.unpacked.push(refuse(class, name, Fate::Skipped, reason));
                                    continue;
                                }
                                (Some(kind), Some(payload)) => {
                                    if kind.kind().is_some() {
                                        collector.add_payload_form(payload.form);
                                    }
                                    let (offset, recipe) = open::of_component_stamp(payload.stamp);
                                    // A payload stored as is gets fetched from its own location.
                                    let fetch_bytes = match row.fetch_bytes {
                                        0 => file.shard.component_bytes(recipe, payload.bytes as usize, 0) as u32,
                                        bytes => bytes,
                                    };
                                    (payload.bytes, offset, recipe, fetch_bytes)
                                }
                                (Some(kind), None) => {
                                    let reason = format!("has no {}, which others have", kind.column());
                                    one.unpacked.push(refuse(class, name, Fate::Skipped, reason));
                                    continue;
                                }
                            };
                            let place = open::place(number, offset);
                            let stamp = open::stamp(fetch_bytes, recipe);
                            match trees.are_classes {
                                true => collector.add_path(class, name, bytes, place, stamp)?,
                                false => collector.add(class, name, bytes, place, stamp)?,
                            }
                            if !settled.kinds.is_empty() {
                                collector.add_components(&cells, None);
                            }
                        }
                    }
                }
                for scan::Refused { name, said, offset, reason } in scanned.refused {
                    let class = said.and_then(|said| classes.number(said, &words).ok().flatten());
                    let reason = format!("{reason} ({})", file.shard.place(&file.name, offset));
                    one.unpacked.push(refuse(class, &name, Fate::Skipped, reason));
                }
                for (kind, images) in scanned.kinds {
                    *one.kinds.entry(kind).or_default() += images;
                }
                for (what, entries) in scanned.passed {
                    *one.ignored.entry(what).or_default() += entries;
                }
                notes.extend(scanned.remarks.into_iter().map(|remark| format!("{}: {remark}", file.name)));
            }
            let mut listing = collector.finish();
            listing.part_namesakes(|place, name| {
                let (file, offset) = open::of_place(place);
                [format!("{}@{offset}/", self.files[file].name).as_bytes(), name].concat()
            })?;
            if self.files.iter().all(|file| file.split != one.split || file.shard.kind == Kind::Lmdb) {
                // The page order of an LMDB has no meaning.
                listing.order_by_keys();
            }
            one.notes.extend(lacking(&listing, if settled.payload.is_none() { "image" } else { "sample" }));
            one.listing = Arc::new(listing);
            one.unpacked.sort_unstable_by(order);
            if is_kept_back {
                one.notes.push("every label is -1: samples have no labels, and there are no classes".to_owned());
            }
            if classes.is_unlabelled && !wanted.no_labels && !one.listing.is_empty() {
                one.notes.push(match &no_label {
                    Some(why) => format!("{why}: samples have no labels, and there are no classes"),
                    None => "no record has a label: samples have none, and there are no classes".to_owned(),
                });
            }
            if notes.len() > NOTES {
                let more = notes.len() - NOTES;
                notes.truncate(NOTES);
                notes.push(format!("… and {more} more such notes: shardpack verify lists all"));
            }
            one.notes.append(&mut notes);
            one.notes.extend(classes.note.iter().chain(&trees.note).cloned());
            if are_joined && found.is_empty() && !classes.is_unlabelled {
                one.notes.push("files number their classes differently: classes are joined by name".to_owned());
            }
            if found.is_empty() {
                one.notes.extend_from_slice(&settled.notes);
            }
            self.check_any(&one)?;
            found.push(one);
        }
        if let Some(first) = found.first_mut() {
            for (reason, files) in &self.ignored {
                *first.ignored.entry(reason.clone()).or_default() += files;
            }
            first.notes.extend_from_slice(&self.notes);
        }
        Ok(found)
    }
}

impl Shards {
    /// Lists the samples again without classes; labels become a component. `what` is the reason, given in a note.
    fn discover_without_labels(&self, what: &str, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
        if self.wanted.label.is_some() || !self.wanted.entries.is_unsaid() {
            let error = Error::usage(what).in_file(&self.files[0].shard.path);
            return Err(error.help(help::NO_LABELS));
        }
        let mut found = self.discover(&Options { no_labels: true, ..options.clone() }, monitor)?;
        if let Some(first) = found.first_mut() {
            first.notes.push(what.to_owned());
        }
        Ok(found)
    }

    /// Fails if there is no sample to pack.
    fn check_any(&self, found: &Found) -> Result<()> {
        if !found.listing.is_empty() {
            return Ok(());
        }
        let mut skipped = found.unpacked.iter().filter(|unpacked| unpacked.fate == Fate::Skipped);
        let error = match (skipped.next(), skipped.count()) {
            (None, _) if found.unpacked.is_empty() => Error::data("no samples in here"),
            (None, _) => Error::usage("--include and --exclude leave no samples"),
            (Some(first), others) => {
                let what = match others {
                    0 => first.reason.to_string(),
                    _ => format!("none of {} records can be packed, the first: {}", others + 1, first.reason),
                };
                // With record options set, the options are to blame, not the records.
                if (Wanted { components: None, ..self.wanted.clone() }) == Wanted::default() {
                    Error::data(what)
                } else {
                    Error::usage(what)
                }
            }
        };
        let file = self.files.iter().find(|file| file.split == found.split);
        Err(error.in_file(file.map_or(Path::new(""), |file| &file.shard.path)))
    }
}

/// The folder that contains a file; `.` for a bare file name.
fn folder_of(file: &File) -> &Path {
    file.shard.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The longest common folder of all files.
fn common_folder(shards: &[ShardFile]) -> PathBuf {
    let mut folders = shards.iter().map(|shard| shard.path.parent().unwrap_or(Path::new("")));
    let first = folders.next().unwrap_or(Path::new(""));
    folders.fold(first.to_path_buf(), |common, folder| {
        common.components().zip(folder.components()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
    })
}
