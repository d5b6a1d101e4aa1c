//! Walks shards and lists their samples, with classes and components.
//!
//! All files are walked first: labels, classes, components and the payload are settled over all of them. Then each split becomes a
//! listing. A record that cannot be a sample is in the result with its reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use rayon::prelude::*;
use shardpack_format::{Error, Result, formats::foreign::FieldSelection, help, size::counted};

use super::{
    File, Shards,
    class_trees::{self, Trees},
    components::{self, Settled},
    labels,
    scan::{self, Row, Scanned},
    shard_reader,
};
use crate::{
    SourceListing,
    classes::{Classes, Collector, Words},
    component_table::Cell,
    filter::PathFilter,
    foreign::files,
    ledger::{Fate, Unpacked, order},
    missing_components::lacking,
    monitor::{Monitor, Phase},
    options::{Components, Options},
};

/// Maximum number of per-file notes shown.
const NOTES: usize = 5;

/// What all files together have settled.
struct Decided<'a> {
    shards: &'a Shards,
    keep: PathFilter,
    words: Words,
    classes: Classes,
    settled: Settled,
    trees: Trees,
    /// Splits whose labels are all kept back: -1.
    kept_back: BTreeSet<Option<String>>,
    /// Field that is the label, if samples are values.
    label: Option<String>,
    /// The reason why samples have no labels, if known.
    no_label: Option<String>,
    /// Whether files number their classes differently.
    are_joined: bool,
    /// Whether the user named the components.
    is_asked: bool,
    no_labels: bool,
}

/// Location of a payload, as the listing stores it.
struct Payload {
    bytes: u32,
    offset: u64,
    recipe: u32,
    fetch_bytes: u32,
}

impl Shards {
    /// Walks all files and lists their samples: one [`SourceListing`] per split, or one for all.
    ///
    /// # Errors
    /// If a requested field is missing, or a name is too long. Problems of single records are in the result.
    pub(super) fn list(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let keep = PathFilter::new(options)?;
        monitor.begin(Phase::Walking, 0, 0);
        let wanted = FieldSelection { no_labels: self.wanted.no_labels || options.no_labels, ..self.wanted.clone() };
        let mut scanned = self.scan_all(&wanted, options, monitor)?;
        let mut words = joined_words(&mut scanned);
        let mut known =
            scanned.iter().map(|file| &file.known).max_by_key(|known| known.len()).cloned().unwrap_or_default();
        words.intern_all(&known);
        let are_joined = scanned.iter().any(|file| !known.starts_with(&file.known));
        if are_joined {
            known = self.join_classes(&mut scanned, &mut words)?;
        }
        self.check_label(&scanned)?;
        let are_values = scanned.iter().all(|file| file.rows.is_empty());
        let (label, no_label) = labels::decide_values(&mut scanned, &self.wanted);
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
        if wanted.label.is_none() && labels::are_values_in_part(&scanned) {
            let what = "labels of some samples can be no class, such as numbers with fractions: labels are a component, and no class";
            return self.discover_without_labels(what, options, monitor);
        }
        let kept_back = self.kept_back(&mut scanned);
        let trees = class_trees::find(&self.files, &mut scanned, &mut words, &wanted, &keep)?;
        let said = scanned.iter().flat_map(|file| file.rows.iter().map(|row| row.said));
        if let Some(what) = words.no_classes(said.clone()).filter(|_| known.is_empty()) {
            let what = format!("labels are {what}: a component, and no class");
            return self.discover_without_labels(&what, options, monitor);
        }
        let classes = Classes::decide(said, &words, &known);
        let is_asked = matches!(options.components, Components::Named(_));
        let settled = components::decide_components(&scanned, options, label.as_deref())
            .map_err(|error| error.in_file(&self.files[0].shard.path))?;
        if let (Some(payload), false) = (&settled.payload, is_asked) {
            let first =
                self.files.iter().zip(&scanned).find_map(|(file, one)| Some((file, one.name(one.rows.first()?))));
            if let Some((file, first)) = first {
                class_trees::refuse_archives(payload.name(), &file.shard.path, first)?;
            }
        }
        let no_labels = wanted.no_labels;
        let decided = Decided {
            shards: self,
            keep,
            words,
            classes,
            settled,
            trees,
            kept_back,
            label,
            no_label,
            are_joined,
            is_asked,
            no_labels,
        };
        decided.list(scanned)
    }

    /// Walks all files.
    fn scan_all(&self, wanted: &FieldSelection, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Scanned>> {
        let looks = (scan::LOOKS / self.files.len()).max(1);
        let scanned = self.files.par_iter().map(|file| {
            monitor.check_cancelled()?;
            let look = || scan::scan(&file.shard, &file.name, wanted, options, looks, monitor);
            match look()? {
                // Data corrupted in transit is correct on a second read.
                scanned if file.shard.remote.is_some() && scanned.is_damaged => look(),
                scanned => Ok(scanned),
            }
        });
        scanned.collect()
    }

    /// Lists the samples again without classes; labels become a component. `what` is the reason, given in a note.
    fn discover_without_labels(
        &self,
        what: &str,
        options: &Options,
        monitor: &dyn Monitor,
    ) -> Result<Vec<SourceListing>> {
        if self.wanted.label.is_some() || !self.wanted.entries.is_unsaid() {
            let error = Error::usage(what).in_file(&self.files[0].shard.path);
            return Err(error.help(help::NO_LABELS));
        }
        let mut found = self.list(&Options { no_labels: true, ..options.clone() }, monitor)?;
        if let Some(first) = found.first_mut() {
            first.notes.push(what.to_owned());
        }
        Ok(found)
    }

    /// Fails if there is no sample to pack.
    fn check_any(&self, found: &SourceListing) -> Result<()> {
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
                if (FieldSelection { components: None, keeps_archives: false, ..self.wanted.clone() })
                    == FieldSelection::default()
                {
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

/// The words of all files, by which their rows are renumbered.
fn joined_words(scanned: &mut [Scanned]) -> Words {
    let mut words = Words::default();
    for file in scanned {
        let numbers = words.merge(&file.words);
        let values = file.values.iter_mut().map(|(row, _)| row);
        file.rows.iter_mut().chain(values).for_each(|row| row.said = row.said.renumbered(&numbers));
        file.refused.iter_mut().for_each(|refused| refused.said = refused.said.map(|said| said.renumbered(&numbers)));
    }
    words
}

impl Decided<'_> {
    /// Lists the samples of each split.
    fn list(&self, scanned: Vec<Scanned>) -> Result<Vec<SourceListing>> {
        let mut scanned: Vec<Option<Scanned>> = scanned.into_iter().map(Some).collect();
        let mut all = Vec::new();
        for split in self.shards.splits() {
            let found = self.split(split, &mut scanned, all.is_empty())?;
            self.shards.check_any(&found)?;
            all.push(found);
        }
        if let Some(first) = all.first_mut() {
            for (reason, files) in &self.shards.ignored {
                *first.ignored.entry(reason.clone()).or_default() += files;
            }
            first.notes.extend_from_slice(&self.shards.notes);
        }
        Ok(all)
    }

    /// Lists the samples of one split, and takes its files from `scanned`.
    fn split(&self, split: Option<String>, scanned: &mut [Option<Scanned>], is_first: bool) -> Result<SourceListing> {
        let (shards, settled) = (self.shards, &self.settled);
        let is_kept_back = self.kept_back.contains(&split);
        let mut found = SourceListing {
            split,
            payload: settled.payload.clone(),
            extensions: settled.extensions.clone(),
            is_numbered: self.classes.is_numbered && !is_kept_back,
            ..SourceListing::default()
        };
        // The split of a missing file is unknown: the first split reports all of them.
        let lost = shards.lost.iter().filter(|_| is_first);
        found.unpacked.extend(lost.map(|(path, reason)| Unpacked {
            path: path.clone(),
            class: None,
            fate: Fate::Skipped,
            reason: reason.as_str().into(),
        }));
        let names = if is_kept_back { Arc::default() } else { Arc::clone(&self.classes.names) };
        let mut collector = Collector::with(&names, settled.component_table());
        let mut remarks = Vec::new();
        for (number, (file, scanned)) in shards.files.iter().zip(scanned).enumerate() {
            if file.split != found.split {
                continue;
            }
            let Some(scanned) = scanned.take() else { continue };
            self.file(number, &scanned, is_kept_back, &mut collector, &mut found)?;
            remarks.extend(scanned.remarks.into_iter().map(|remark| format!("{}: {remark}", file.name)));
        }
        let mut listing = collector.finish();
        listing.disambiguate_keys(|place, name| {
            let (file, offset) = shard_reader::of_place(place);
            [format!("{}@{offset}/", shards.files[file].name).as_bytes(), name].concat()
        })?;
        if shards.files.iter().all(|file| file.split != found.split || file.shard.kind.is_unordered()) {
            listing.order_by_keys();
        }
        found.notes.extend(lacking(&listing, if settled.payload.is_none() { "image" } else { "sample" }));
        found.listing = Arc::new(listing);
        found.unpacked.sort_unstable_by(order);
        self.add_notes(remarks, is_kept_back, is_first, &mut found);
        Ok(found)
    }

    fn add_notes(&self, mut remarks: Vec<String>, is_kept_back: bool, is_first: bool, found: &mut SourceListing) {
        if is_kept_back {
            found.notes.push("every label is -1: samples have no labels, and there are no classes".to_owned());
        }
        if self.classes.is_unlabelled && !self.no_labels && !found.listing.is_empty() {
            found.notes.push(match &self.no_label {
                Some(why) => format!("{why}: samples have no labels, and there are no classes"),
                None => "no record has a label: samples have none, and there are no classes".to_owned(),
            });
        }
        if remarks.len() > NOTES {
            let more = remarks.len() - NOTES;
            remarks.truncate(NOTES);
            remarks.push(format!("… and {more} more such notes: shardpack verify lists all"));
        }
        found.notes.append(&mut remarks);
        found.notes.extend(self.classes.note.iter().chain(&self.trees.note).cloned());
        if self.are_joined && is_first && !self.classes.is_unlabelled {
            found.notes.push("files number their classes differently: classes are joined by name".to_owned());
        }
        if is_first {
            found.notes.extend_from_slice(&self.settled.notes);
        }
    }

    /// Adds the samples of file `number`.
    fn file(
        &self,
        number: usize,
        scanned: &Scanned,
        is_kept_back: bool,
        collector: &mut Collector,
        found: &mut SourceListing,
    ) -> Result<()> {
        let file = &self.shards.files[number];
        if scanned.rows.is_empty() && scanned.refused.is_empty() {
            *found.ignored.entry(files::WITHOUT_SAMPLES.to_owned()).or_default() += 1;
        }
        self.settled.count(number, scanned, self.label.as_deref(), &mut found.ignored, &mut found.carried);
        let mut fields_end = 0;
        for row in &scanned.rows {
            let fields_start = std::mem::replace(&mut fields_end, row.fields_end);
            let name = &*self.settled.name_of(scanned.name(row));
            let class = if is_kept_back { Ok(None) } else { self.classes.number(row.said, &self.words) };
            let class = match class {
                Ok(class) => class,
                Err(reason) => {
                    let reason = format!("{reason} ({})", file.shard.place(&file.name, row.offset));
                    found.unpacked.push(refused(file, None, name, Fate::Skipped, reason));
                    continue;
                }
            };
            if !self.keep.wants(if self.trees.are_classes { name } else { collector.path(class, name) }) {
                let why = "left out by --include or --exclude".to_owned();
                found.unpacked.push(refused(file, class, name, Fate::Filtered, why));
                continue;
            }
            if self.classes.loses_name(row.said, class, &self.words) {
                *found.ignored.entry("name of a class".to_owned()).or_default() += 1;
            }
            let (payload, cells) = self.settled.cells(number, &scanned.fields, fields_start, fields_end);
            match self.payload(file, row, payload, collector) {
                Ok(payload) => self.add(number, (class, name), &payload, &cells, collector)?,
                Err(reason) => found.unpacked.push(refused(file, class, name, Fate::Skipped, reason)),
            }
        }
        for scan::Refused { name, said, offset, reason } in &scanned.refused {
            let class = said.and_then(|said| self.classes.number(said, &self.words).ok().flatten());
            let reason = format!("{reason} ({})", file.shard.place(&file.name, *offset));
            found.unpacked.push(refused(file, class, name, Fate::Skipped, reason));
        }
        add_counts(&mut found.kinds, &scanned.kinds);
        add_counts(&mut found.ignored, &scanned.passed);
        Ok(())
    }

    /// Location of the payload of `row`, or the reason why the record cannot be a sample.
    fn payload(
        &self,
        file: &File,
        row: &Row,
        payload: Option<Cell>,
        collector: &mut Collector,
    ) -> Result<Payload, String> {
        let Some(kind) = &self.settled.payload else {
            // A requested component that no sample has is reported later.
            if row.bytes == 0 && !self.is_asked {
                return Err("it has nothing that can be a component".to_owned());
            }
            let Row { bytes, offset, recipe, fetch_bytes, .. } = *row;
            return Ok(Payload { bytes, offset, recipe, fetch_bytes });
        };
        let payload = payload.ok_or_else(|| format!("has no {}, which others have", kind.column()))?;
        if kind.kind().is_none() && payload.bytes == 0 {
            return Err(format!("empty {}", kind.name()));
        }
        if kind.kind().is_some() {
            collector.add_payload_form(payload.form);
        }
        let (offset, recipe) = shard_reader::of_component_stamp(payload.stamp);
        // A payload stored as is gets fetched from its own location.
        let fetch_bytes = match row.fetch_bytes {
            0 => file.shard.component_bytes(recipe, payload.bytes as usize, 0) as u32,
            bytes => bytes,
        };
        Ok(Payload { bytes: payload.bytes, offset, recipe, fetch_bytes })
    }

    /// Adds a sample of file `number` with its class and name.
    fn add(
        &self,
        number: usize,
        (class, name): (Option<u32>, &[u8]),
        payload: &Payload,
        cells: &[Cell],
        collector: &mut Collector,
    ) -> Result<()> {
        let place = shard_reader::place(number, payload.offset);
        let stamp = shard_reader::stamp(payload.fetch_bytes, payload.recipe);
        match self.trees.are_classes {
            true => collector.add_path(class, name, payload.bytes, place, stamp)?,
            false => collector.add(class, name, payload.bytes, place, stamp)?,
        }
        if !self.settled.kinds.is_empty() {
            collector.add_components(cells, None);
        }
        Ok(())
    }
}

/// A record of `file` that is not listed.
pub(super) fn refused(file: &File, class: Option<u32>, name: &[u8], fate: Fate, reason: String) -> Unpacked {
    // A record without a name of its own already has its file's name as prefix.
    let path = match name.strip_prefix(file.name.as_bytes()) {
        Some([b'/', ..]) => name.to_vec(),
        _ => [file.name.as_bytes(), b"/", name].concat(),
    };
    Unpacked { path, class, fate, reason: reason.into() }
}

fn add_counts<K: Ord + Clone>(all: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *all.entry(key.clone()).or_default() += count;
    }
}
