//! Compares a dataset with its source in both directions: each sample against the source, and the source for samples that are missing here.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rayon::prelude::*;
use shardpack_format::{
    Error, ErrorKind, Result,
    component::{Component, Kind},
    formats::{self, Format, foreign::FieldSelection},
    hash,
    index::{Index, RowRef},
    manifest,
    sample::{Extent, Sample},
    size, text,
};
use shardpack_reader::{StoreSettings, Transfers};

use super::{
    Opened, Options, Problem,
    same_labels::{ClassMatch, Seen},
};
use crate::{
    copy::RecordSpan,
    foreign::lmdb,
    ledger::{self, Fate, Unpacked},
    listing::Listing,
    monitor::{Monitor, Phase},
    source::{
        Divided, Division, LabelPattern, ReadError, Refusal, SampleReader, Shards, SharedSource, Source, SourceKind,
        SourceListing, boxes, list, merge_classes, npy,
        options::{self, Components, OnMissing, Splits},
        shared,
    },
};

/// Problem of a sample that the source does not have.
const NOT_IN_SOURCE: &str = "not in the source";

/// Lists `source` with the options these datasets were packed with: their splits and all other splits, without globs.
pub(super) fn discover(
    datasets: &[&Opened],
    source: &dyn Source,
    jobs: usize,
    monitor: &dyn Monitor,
) -> Result<Vec<SourceListing>> {
    let names: Vec<String> = datasets.iter().filter_map(|dataset| dataset.split().map(str::to_owned)).collect();
    let splits = if names.is_empty() { Splits::None } else { Splits::Compared(names) };
    // All splits of a dataset have the same components.
    let choice = datasets.first().map(|dataset| dataset.choice()).transpose()?;
    let payload = choice.as_ref().and_then(|choice| choice.payload.clone());
    let values = payload.clone().filter(|payload| payload.kind().is_some());
    let pattern = choice.as_ref().and_then(|choice| choice.label_pattern.as_deref());
    let label_pattern = pattern.map(LabelPattern::parse).transpose()?;
    let clues = |dataset: &&Opened| -> Result<Option<(String, list::Clues)>> {
        let Some(clues) = dataset.choice()?.list_clues else { return Ok(None) };
        Ok(Some((dataset.split().unwrap_or_default().to_owned(), list::Clues::of_text(&clues)?)))
    };
    let list_clues = datasets.iter().filter_map(|dataset| clues(dataset).transpose()).collect::<Result<_>>()?;
    let classes = choice.as_ref().map(|choice| choice.component_classes.clone()).unwrap_or_default();
    let (components, meta, files) =
        choice.map(|choice| (choice.components, choice.json, choice.files)).unwrap_or_default();
    // Extensions from the other splits, which decide how fields of this one are stored.
    let extensions = payload.iter().chain(&components).filter_map(|one| {
        let extension = match &one.kind()?.kind {
            Kind::Bytes => "bin",
            Kind::Text => "txt",
            Kind::Json | Kind::Int | Kind::Float => "json",
            // Single values are arrays without axes, too.
            Kind::Array { shape: Some(shape), .. } if shape.is_empty() => return None,
            Kind::Array { .. } => "npy",
        };
        Some((one.column().to_owned(), [extension].into()))
    });
    let options = options::Options {
        splits,
        extensions: extensions.collect(),
        threads: (2 * jobs).max(8),
        no_labels: datasets.iter().all(|dataset| dataset.manifest.classes.is_empty()),
        label_pattern,
        list_clues,
        components: Components::Named(payload.into_iter().chain(components.iter().cloned()).collect()),
        no_text: !components.iter().any(Component::is_text),
        meta: meta && components.iter().any(Component::is_text),
        files,
        with: components.into_iter().filter(|component| !component.is_text()).collect(),
        // The dataset says which components its samples have.
        on_missing: Some(OnMissing::Empty),
        ..options::Options::default()
    };
    let mut found = source.discover(&options, monitor)?;
    if let Some(payload) = values {
        npy::take(source, &mut found, &payload, monitor)?;
    }
    for one in &mut found {
        // Files with names of classes: their numbers are those of the dataset, whatever the names in other splits.
        let has_names = |kind: &&Component| kind.conversion().is_some_and(|one| one.file.has_names());
        for kind in options.with.iter().filter(has_names) {
            let Some(names) = classes.get(kind.name()) else { continue };
            one.component_classes.entry(kind.name().to_owned()).or_insert_with(|| names.clone());
        }
    }
    boxes::take(source, &mut found, &options, false, monitor)?;
    Ok(found)
}

/// Record options that the datasets in `dst` were made with, without the choice of components; their targets; the names of their
/// components, which files that may be samples or rows need; and the network transfers needed to read them.
///
/// `label_file` is the current location of the label file, if the labels came from a file.
///
/// # Errors
/// If there is no dataset, or exactly one of the dataset and the caller has a label file.
pub fn said_of_records(
    dst: &Path,
    settings: &StoreSettings,
    label_file: Option<&Path>,
) -> Result<(FieldSelection, Vec<String>, Option<Transfers>)> {
    let files = shardpack_storage::open(dst, settings)?;
    let (datasets, _) = super::open(&files)?;
    let (mut said, mut names) = (FieldSelection::default(), Vec::new());
    if let Some(dataset) = datasets.first() {
        let choice = dataset.choice()?;
        said = choice.wanted;
        said.targets = choice.components.iter().filter_map(Component::listed).map(str::to_owned).collect();
        names.extend(choice.payload.iter().chain(&choice.components).map(|one| one.column().to_owned()));
    }
    match (label_file, lmdb::label_file(&said.entries)) {
        (None, None) => {}
        (Some(file), Some(_)) => {
            let text = file.to_str().ok_or_else(|| Error::usage("a path that is not UTF-8").in_file(file))?;
            said.entries.label_from = Some(text.to_owned());
        }
        (None, Some(_)) => {
            return Err(Error::usage("its labels came from a file, and are not in the source")
                .in_file(dst)
                .help("give the file with --label-from FILE, as for convert"));
        }
        (Some(file), None) => {
            return Err(Error::usage("--label-from: the labels of this dataset did not come from a file").in_file(file));
        }
    }
    Ok((said, names, files.transfers()))
}

/// `source` as it was read for `dataset`: as records even if it could be a list, and divided into splits if it was.
pub(super) fn as_read(dataset: Option<&Opened>, source: &SharedSource) -> Result<SharedSource> {
    let Some(choice) = dataset.map(|dataset| dataset.choice()).transpose()? else { return Ok(source.clone()) };
    let payload = choice.payload.as_ref().filter(|payload| payload.kind().is_some());
    // A table of values may have a column with the name of a path column.
    let read =
        |table: &Path| Shards::find(&[table.to_path_buf()], None, choice.wanted.clone(), &Splits::None).map(shared);
    let as_values = payload.map(|payload| {
        let renamed = choice.wanted.renames.iter().find(|(_, name)| name == payload.column());
        source.with_tables(renamed.map_or(payload.column(), |(field, _)| field), &read)
    });
    let source = as_values.transpose()?.flatten().unwrap_or_else(|| source.clone());
    Ok(match Division::of_choice(&choice)? {
        // The splits of a dataset are divided already.
        Some(_) if source.has_dataset_splits()? => source,
        Some(division) => shared(Divided::new(source, division)),
        None => source,
    })
}

/// Split name of `dataset`. A dataset made by dividing the source into splits has the name in its manifest.
pub(super) fn split_of<'d>(dataset: &'d Opened, source: &dyn Source) -> Option<&'d str> {
    let own = || (source.kind() == SourceKind::Parted).then_some(dataset.manifest.name.as_str());
    dataset.split().or_else(own)
}

/// The source data for a dataset, with its reader.
pub(super) struct Original<'a> {
    pub found: &'a SourceListing,
    pub reader: &'a dyn SampleReader,
    /// For each label of the dataset, the class number in the listing: classes match by name.
    classes: Vec<Option<u32>>,
    /// Class names of the dataset, by label.
    names: Vec<Vec<u8>>,
    /// For each folder path, the numbers of the classes with samples in that folder.
    of_folders: OnceLock<HashMap<&'a [u8], Vec<Option<u32>>>>,
}

impl<'a> Original<'a> {
    pub fn new(dataset: &Opened, found: &'a SourceListing, reader: &'a dyn SampleReader) -> Self {
        let names: Vec<Vec<u8>> = dataset.manifest.classes.iter().map(|class| class.name_bytes().to_vec()).collect();
        let classes = merge_classes::numbers(&names, &found.listing.classes);
        Self { found, reader, classes, names, of_folders: OnceLock::new() }
    }

    /// Compares the class of source sample `number` with the class of `row`.
    pub fn label_of(&self, row: &RowRef<'_>, number: u64) -> ClassMatch {
        let (listing, here) = (&self.found.listing, self.number_of(row.label));
        match (row.label, listing.class(number)) {
            _ if self.names.is_empty() => ClassMatch::Same,
            (None, None) => ClassMatch::Same,
            (Some(_), None) if listing.classes.is_empty() => ClassMatch::Nothing,
            (Some(_), Some(there)) if here == Some(there) => ClassMatch::Same,
            // A class with a name of its own in the dataset is that class; other classes may have been renamed to a shared name.
            (Some(_), Some(there)) if !self.classes.contains(&Some(there)) => ClassMatch::Renamed(there),
            (label, there) => ClassMatch::Other(self.differs(label, there)),
        }
    }

    /// Message for a sample with `label` whose class in the source is `there`.
    pub fn differs(&self, label: Option<i64>, there: Option<u32>) -> String {
        let name = |name: Option<&[u8]>| name.map_or_else(|| "none".to_owned(), |name| text::shown(name).to_string());
        let here = label.and_then(|label| self.names.get(usize::try_from(label).ok()?)).map(Vec::as_slice);
        let there = there.and_then(|there| self.found.listing.classes.get(there as usize)).map(|there| &there[..]);
        format!("its class is {}, {} in the source", name(here), name(there))
    }

    /// Class number in the listing for a label of the dataset, if the listing has a class with that name.
    fn number_of(&self, label: Option<i64>) -> Option<u32> {
        *self.classes.get(usize::try_from(label?).ok()?)?
    }

    /// Listing numbers of the samples that `row` may come from: one, or several if a list has a file more than once.
    pub fn find(&self, row: &RowRef<'_>) -> Range<u64> {
        let class = row.label.map(|label| usize::try_from(label).ok().and_then(|label| *self.classes.get(label)?));
        let found = match class {
            Some(None) => 0..0,
            Some(class) => self.found.listing.find(class, row.path),
            None => self.found.listing.find(None, row.path),
        };
        if found.is_empty() { self.find_renamed(row.path) } else { found }
    }

    /// The samples at `path`, whatever their class name, if only one class has that path: classes may have been renamed.
    fn find_renamed(&self, path: &[u8]) -> Range<u64> {
        let listing = &self.found.listing;
        let of_folders = self.of_folders.get_or_init(|| {
            let mut of_folders: HashMap<&[u8], Vec<Option<u32>>> = HashMap::new();
            for folder in listing.folders() {
                of_folders.entry(&folder.path).or_default().push(folder.class);
            }
            of_folders
        });
        let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        let classes = cuts.chain([&[][..]]).filter_map(|folder| of_folders.get(folder)).flatten();
        let mut found = classes.map(|class| listing.find(*class, path)).filter(|found| !found.is_empty());
        let first = found.next().unwrap_or(0..0);
        if found.all(|other| other == first) { first } else { 0..0 }
    }

    /// Makes the record of `row` from the first matching sample in `numbers`, and returns its number.
    ///
    /// # Errors
    /// As [`Original::render`], for the last sample tried.
    pub fn render_any(
        &self,
        row: &RowRef<'_>,
        numbers: Range<u64>,
        format: &dyn Format,
        record: &mut Vec<u8>,
    ) -> Result<u64> {
        record.resize(row.record_bytes as usize, 0);
        let mut failed = Error::data("the source does not have this image any more").in_sample(row.name());
        for number in numbers {
            match self.render(row, number, format, record) {
                Ok(()) => return Ok(number),
                Err(error) if error.kind() == ErrorKind::Data => failed = error,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    /// Makes the record of `row` from sample `number` of the source. `record` must have the length of the record.
    ///
    /// # Errors
    /// With [`ErrorKind::Data`] if the source does not match the packed sample.
    pub fn render(&self, row: &RowRef<'_>, number: u64, format: &dyn Format, record: &mut [u8]) -> Result<()> {
        let wrong = |what: &str| Error::data(what).in_sample(row.name());
        let listing = &self.found.listing;
        let (table, payload_bytes) = (listing.components(), listing.entry(number).bytes);
        let components: Vec<_> = table.cells_of(number).iter().map(|cell| cell.length()).collect();
        let forms: Vec<_> = table.cells_of(number).iter().map(|cell| cell.form).collect();
        let sample = Sample {
            key: std::str::from_utf8(row.key).map_err(|_| wrong("its key is no text"))?,
            label: row.label,
            class: listing.class_name(number),
            path: row.path,
            payload_bytes,
            components: &components,
            forms: table.forms_of(number, &forms),
        };
        let layout = format.layout(&sample)?;
        // These checks need no read from the source.
        let bytes = |number: usize| row.component(number).map(|extent| extent.bytes);
        let planned = |number: usize| {
            Some(layout.components[number]).filter(|extent| *extent != Extent::ABSENT).map(|extent| extent.bytes)
        };
        if bytes(0) != planned(0) {
            return Err(wrong("the source has another image of this name now"));
        }
        let differing = (1..format.components().len()).filter(|number| bytes(*number) != planned(*number));
        let differing: Vec<&str> = differing.map(|number| format.components()[number].as_str()).collect();
        if !differing.is_empty() {
            let names = differing.join(", ");
            return Err(wrong(&format!("the source has other components beside this image now: {names}")));
        }
        if layout.record_bytes as usize > record.len() {
            return Err(wrong("its record would have another length"));
        }
        let place = RecordSpan::new(format, (0, number), row.offset, layout, 0);
        match place.read(self.reader, listing, format, record) {
            Ok(()) => {}
            Err(ReadError::Fatal(error)) => return Err(error),
            Err(ReadError::Refused(Refusal(reason))) => return Err(wrong(&reason)),
        }
        let growth = format.growth(place.payload(record)?);
        if RecordSpan::new(format, (0, number), row.offset, layout, growth).record_bytes() as usize != record.len() {
            return Err(wrong("its record would have another length"));
        }
        format.render(row.offset, &sample, &row.image, record)?;
        match is_right(format, row, record) {
            true => Ok(()),
            false => match other_component(format, row, record) {
                Some(name) => Err(wrong(&format!("the source has another value of component {name} now"))),
                None => Err(wrong("the source has other bytes now")),
            },
        }
    }
}

/// Compares each dataset with its split of `source`.
pub(super) fn compare(
    datasets: &[Opened],
    source: &SharedSource,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Vec<Problem>> {
    datasets.iter().try_for_each(Opened::has_bytes_of_source)?;
    let source = as_read(datasets.first(), source)?;
    let source = source.as_ref();
    let found = discover(&datasets.iter().collect::<Vec<_>>(), source, options.jobs, monitor)?;
    let mut problems = Vec::new();
    for dataset in datasets {
        let name = split_of(dataset, source);
        let Some(found) = found.iter().find(|found| found.split.as_deref() == name) else {
            let what = match name {
                Some(_) => "this split is not in the source",
                None => "has no splits, but the source has splits",
            };
            problems.push(dataset.problem(manifest::FILE, what));
            continue;
        };
        problems.extend(other_class_names(dataset, found)?);
        let reader = source.open(name, &found.listing, None, monitor)?;
        monitor.begin(Phase::Comparing, dataset.manifest.samples, dataset.manifest.payload_bytes);
        let original = Original::new(dataset, found, reader.as_ref());
        problems.extend(dataset_against(dataset, &original, monitor)?);
    }
    // A single split implies nothing about the other splits that the source was divided into.
    let is_one = source.kind() == SourceKind::Parted && datasets.iter().all(|dataset| dataset.split().is_none());
    let is_here =
        |found: &&SourceListing| is_one || datasets.iter().any(|one| split_of(one, source) == found.split.as_deref());
    // A folder without images is no split that was forgotten.
    let has_any = |found: &&SourceListing| !found.listing.is_empty() || !found.unpacked.is_empty();
    for new in found.iter().filter(|found| has_any(found) && !is_here(found)) {
        let images = new.listing.len();
        problems.push(match &new.split {
            Some(split) => Problem {
                file: split.clone(),
                what: format!("this split of the source is not here; it has {}", size::counted(images, "image")),
                help: Some(
                    "pack all splits anew; or verify DST/SPLIT --against SRC/SPLIT compares a split packed alone"
                        .to_owned(),
                ),
                ..Problem::default()
            },
            None => Problem {
                file: text::path(&source.path()).to_string(),
                what: format!("{} in no split; the packed dataset has splits", size::counted(images, "image")),
                ..Problem::default()
            },
        });
    }
    Ok(problems)
}

fn dataset_against(dataset: &Opened, original: &Original<'_>, monitor: &dyn Monitor) -> Result<Vec<Problem>> {
    let Original { found, .. } = original;
    let listing = &found.listing;
    let seen: Vec<AtomicBool> = (0..listing.len()).map(|_| AtomicBool::new(false)).collect();
    let per_shard = dataset.manifest.shards.par_iter().map(|shard| {
        let is_right = |bytes: &[u8]| hash::file(bytes) == shard.index.blake3.0;
        // An unreadable index was already reported.
        let Some(index) = dataset
            .files
            .read_right(&shard.index.file, Some(shard.index.bytes), is_right)?
            .and_then(|bytes| Index::open(bytes).ok())
        else {
            return Ok((Vec::new(), Seen::default()));
        };
        shard_against(dataset, shard, &index, original, &seen, monitor)
    });
    let (mut problems, mut labels) = (Vec::new(), Seen::default());
    for (of_shard, seen) in per_shard.collect::<Result<Vec<_>>>()? {
        problems.extend(of_shard);
        labels.add(seen);
    }
    problems.extend(labels.finish(dataset, original));
    let gone = lacking(dataset, listing)?;
    problems.extend(gone.iter().map(|kind| {
        dataset.problem(manifest::FILE, format!("the source does not have the component {} any more", kind.name()))
    }));
    let lines = dataset.files.read_right(manifest::LEDGER_FILE, None, |lines| ledger::read(lines).is_ok())?;
    let lines = lines.unwrap_or_default();
    let lines = ledger::read(&lines).unwrap_or_default().into_iter().filter(|line| line.fate != Fate::Kept);
    let known: HashSet<Vec<u8>> = lines.map(|line| line.path).collect();
    let mut path = Vec::new();
    for (number, seen) in seen.iter().enumerate() {
        if !seen.load(Ordering::Relaxed) {
            listing.path(number as u64, &mut path);
            if !known.contains(&path) {
                problems.push(missing(dataset, path.clone(), "in the source and not in the shards"));
            }
        }
    }
    let is_told = with_reasons(&mut problems, found);
    let is_new = |refused: &&Unpacked| !known.contains(&refused.path) && !is_told.contains(&refused.path);
    for refused in found.unpacked.iter().filter(is_new) {
        problems.push(missing(
            dataset,
            refused.path.clone(),
            &format!("in the source and not in the shards: {}", refused.reason),
        ));
    }
    Ok(problems)
}

pub(super) fn is_right(format: &dyn Format, row: &RowRef<'_>, record: &[u8]) -> bool {
    let is_right = |(_, at, expected): (usize, Extent, u64)| {
        at.slice(record).is_some_and(|stored| hash::component(stored) == expected)
    };
    formats::whole(format, row, record).is_some_and(|image| hash::content(&image) == row.content_hash)
        && row.hashed().all(is_right)
        && row.frame_hash_of(record) == row.frame_hash
}

/// The first component whose bytes in `record` are other than the index says, if the image is the same.
fn other_component<'f>(format: &'f dyn Format, row: &RowRef<'_>, record: &[u8]) -> Option<&'f str> {
    let image = formats::whole(format, row, record)?;
    let is_other = |(_, at, expected): &(usize, Extent, u64)| {
        at.slice(record).is_none_or(|stored| hash::component(stored) != *expected)
    };
    let (number, ..) = row.hashed().filter(|_| hash::content(&image) == row.content_hash).find(is_other)?;
    format.components().get(number).map(String::as_str)
}

/// Components that the dataset has and the listing lacks.
fn lacking(dataset: &Opened, listing: &Listing) -> Result<Vec<Component>> {
    let kinds = &listing.components().kinds;
    let is_there = |own: &Component| kinds.iter().any(|kind| kind.name() == own.name());
    Ok(dataset.choice()?.components.into_iter().filter(|own| !is_there(own)).collect())
}

/// Adds the reason to problems of samples that the source does not have, if the source names their files; returns their paths.
fn with_reasons(problems: &mut [Problem], found: &SourceListing) -> HashSet<Vec<u8>> {
    let bad = found.unpacked.iter().filter(|refused| refused.fate == Fate::Skipped);
    let reasons: HashMap<&[u8], &str> = bad.map(|refused| (refused.path.as_slice(), &*refused.reason)).collect();
    let mut told = HashSet::new();
    for problem in problems.iter_mut().filter(|problem| problem.what == NOT_IN_SOURCE) {
        let Some(path) = &problem.path else { continue };
        if let Some(reason) = reasons.get(path.as_slice()) {
            problem.what = format!("{NOT_IN_SOURCE}: {reason}");
            told.insert(path.clone());
        }
    }
    told
}

/// Components whose objects have other class names in the source.
fn other_class_names(dataset: &Opened, found: &SourceListing) -> Result<Vec<Problem>> {
    let (choice, mut problems) = (dataset.choice()?, Vec::new());
    let is_there = |own: &&Component| found.listing.components().kinds.iter().any(|kind| kind.name() == own.name());
    for own in choice.components.iter().filter(is_there) {
        let none = Vec::new();
        let of = |classes: &formats::ComponentClasses| classes.get(own.name()).unwrap_or(&none).clone();
        let (here, there) = (of(&choice.component_classes), of(&found.component_classes));
        let Some(at) = (0..here.len().max(there.len())).find(|at| here.get(*at) != there.get(*at)) else { continue };
        let name = |names: &[String]| {
            names.get(at).map_or_else(|| "none".to_owned(), |name| text::shown(name.as_bytes()).to_string())
        };
        let what = format!("{}: the name of class {at} is {}, {} in the source", own.name(), name(&here), name(&there));
        problems.push(dataset.problem(manifest::FILE, what));
    }
    Ok(problems)
}

fn missing(dataset: &Opened, path: Vec<u8>, what: &str) -> Problem {
    Problem { path: Some(path), ..dataset.problem(manifest::FILE, what) }
}

fn shard_against(
    dataset: &Opened,
    shard: &manifest::Shard,
    index: &Index<Vec<u8>>,
    original: &Original<'_>,
    seen: &[AtomicBool],
    monitor: &dyn Monitor,
) -> Result<(Vec<Problem>, Seen)> {
    let (mut problems, mut labels, listing) = (Vec::new(), Seen::default(), &original.found.listing);
    let of_row = |row: &RowRef<'_>, what: String| {
        let (start, bytes) = row.payload();
        Problem {
            bytes: Some(start..start + u64::from(bytes)),
            key: Some(text::shown(row.key).to_string()),
            path: Some(row.path.to_vec()),
            ..dataset.problem(&shard.file, what)
        }
    };
    let mut rows = Vec::new();
    for row in index.iter() {
        let Ok(row) = row else { continue };
        let numbers = original.find(&row);
        match numbers.is_empty() {
            false => rows.push((listing.entry(numbers.start).place, numbers, row)),
            true => problems.push(of_row(&row, NOT_IN_SOURCE.to_owned())),
        }
    }
    // The index hash covers the image only; with components, the whole record is made again and compared.
    let is_image_alone = listing.components().kinds.is_empty() && listing.components().payload.is_none();
    let format = match is_image_alone || !lacking(dataset, listing)?.is_empty() {
        true => None,
        false => Some(dataset.format()?),
    };
    rows.sort_unstable_by_key(|(place, ..)| *place);
    let mut payload = Vec::new();
    for (_, numbers, row) in rows {
        monitor.check_cancelled()?;
        problems.extend(labels.take(original, &row, numbers.start, |what| of_row(&row, what)));
        if let Some(format) = &format {
            match original.render_any(&row, numbers.clone(), format.as_ref(), &mut payload) {
                Ok(number) => seen[number as usize].store(true, Ordering::Relaxed),
                Err(error) if error.kind() == ErrorKind::Data => {
                    // The sample is here, and changed: it is not missing as well.
                    let is_new = |number: &u64| !seen[*number as usize].swap(true, Ordering::Relaxed);
                    let _ = numbers.clone().find(is_new);
                    problems.push(of_row(&row, error.what()));
                }
                Err(error) => return Err(error),
            }
            monitor.advance(1, u64::from(row.payload().1));
            continue;
        }
        let number = numbers.start;
        numbers.for_each(|number| seen[number as usize].store(true, Ordering::Relaxed));
        let bytes = listing.entry(number).bytes;
        let expected = row.payload().1;
        if bytes != expected {
            problems.push(of_row(&row, format!("{expected} bytes, the source has {bytes}")));
            continue;
        }
        payload.resize(bytes as usize, 0);
        match original.reader.read(number, &mut payload) {
            Ok(()) if hash::content(&payload) == row.content_hash => {}
            Ok(()) => problems.push(of_row(&row, "the source has other bytes".to_owned())),
            Err(ReadError::Refused(Refusal(reason))) => problems.push(of_row(&row, format!("the source {reason}"))),
            Err(ReadError::Fatal(error)) => return Err(error),
        }
        monitor.advance(1, u64::from(bytes));
    }
    Ok((problems, labels))
}
