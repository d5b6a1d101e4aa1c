//! Inspects foreign shards: framing, labels and image headers.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    ops::ControlFlow,
};

use rayon::prelude::*;
use shardpack_format::{Error, ErrorKind, Result, component::Type, size, text};

use super::{
    Class, Classes, Component, Overhead, Shards, Spread, Summary, Tar, What,
    images::Counter,
    scan::{self, FileFacts, Scanned, Tally},
};
use crate::{
    foreign::{ShardFile, files::NO_SAMPLE},
    monitor::{Monitor, Phase},
    shuffle_quality,
};

/// Maximum number of labels kept for the shuffle quality, from the first samples; more would need too much memory.
const KEPT_LABELS: usize = 20_000_000;

/// Maximum number of distinct interpretations kept.
const MAX_UNDERSTOOD: usize = 16;

/// Label number that means "no label".
const NONE: u32 = u32::MAX;

/// Counts over some files.
#[derive(Default)]
struct Facts {
    samples: u64,
    images: Counter,
    payload_bytes: u64,
    content_bytes: u64,
    components: BTreeMap<String, Counted>,
    labels: Labels,
    /// Length in bytes and number of samples of each file.
    files: Vec<(u64, u64)>,
    /// Number of files that could not be read to their end.
    unread: u64,
    /// Number of files per compression.
    packed: BTreeMap<&'static str, u64>,
    tar: Option<Tar>,
    /// Distinct interpretations of the files.
    understood: Vec<Vec<String>>,
    problems: Vec<Error>,
}

/// A component over some samples.
struct Counted {
    samples: u64,
    bytes: u64,
    /// Type of the component, if it is a value and all samples have one kind of content.
    kind: Option<Type>,
}

fn add(components: &mut BTreeMap<String, Counted>, name: String, more: Counted) {
    match components.entry(name) {
        Entry::Vacant(vacant) => drop(vacant.insert(more)),
        Entry::Occupied(mut known) => {
            let known = known.get_mut();
            let kind = known.kind.take().zip(more.kind).and_then(|(a, b)| a.join(b));
            *known = Counted { samples: known.samples + more.samples, bytes: known.bytes + more.bytes, kind };
        }
    }
}

/// The labels of samples in order, as indexes into a list of distinct labels.
#[derive(Default)]
struct Labels {
    /// Each distinct label with its number of samples.
    counts: Vec<(i64, u64)>,
    number: HashMap<i64, u32>,
    /// Class names by label, from the first sample with each label.
    names: HashMap<i64, String>,
    without: u64,
    /// Labels of the first samples, at most [`KEPT_LABELS`].
    order: Vec<u32>,
}

impl Labels {
    fn intern(&mut self, label: i64, count: u64) -> u32 {
        let next = self.counts.len() as u32;
        let number = *self.number.entry(label).or_insert(next);
        if number == next {
            self.counts.push((label, 0));
        }
        self.counts[number as usize].1 += count;
        number
    }

    fn add(&mut self, label: Option<i64>, class: Option<&str>) {
        if let (Some(label), Some(class)) = (label, class)
            && !self.names.contains_key(&label)
        {
            self.names.insert(label, class.to_owned());
        }
        let number = match label {
            Some(label) => self.intern(label, 1),
            None => {
                self.without += 1;
                NONE
            }
        };
        if self.order.len() < KEPT_LABELS {
            self.order.push(number);
        }
    }

    /// Adds the labels of later samples; `is_whole` is false if `order` already omits some samples.
    fn merge(&mut self, later: Self, is_whole: bool) {
        let numbers: Vec<u32> = later.counts.iter().map(|(label, count)| self.intern(*label, *count)).collect();
        self.without += later.without;
        for (label, name) in later.names {
            self.names.entry(label).or_insert(name);
        }
        if is_whole {
            let room = KEPT_LABELS.saturating_sub(self.order.len());
            let number = |own: &u32| numbers.get(*own as usize).copied().unwrap_or(NONE);
            self.order.extend(later.order.iter().take(room).map(number));
        }
    }

    fn mixes(&self) -> Vec<shuffle_quality::ShuffleQuality> {
        let none = self.counts.len() as u32;
        let class = |number: usize| self.order[number].min(none);
        let mut counts = vec![0; self.counts.len() + 1];
        (0..self.order.len()).for_each(|number| counts[class(number) as usize] += 1);
        let labels = shuffle_quality::Labels::new(self.order.len() as u64);
        // This closure never fails.
        let _ = labels.take(0..self.order.len() as u64, |number| Ok(class(number as usize)));
        labels.mixes(&counts)
    }

    fn classes(&self) -> Classes {
        // Without labels there are no classes, and so no samples that lack a class.
        let unlabelled = if self.counts.is_empty() { 0 } else { self.without };
        let class = |(label, samples): &(i64, u64)| {
            let name = self.names.get(label).cloned();
            Class { label: *label, name, samples: *samples }
        };
        let mut list: Vec<_> = self.counts.iter().map(class).collect();
        list.sort_by_key(|class| class.label);
        Classes::new(list, unlabelled)
    }
}

impl Facts {
    fn add(&mut self, scanned: Scanned) {
        self.samples += 1;
        for (name, bytes, form) in scanned.components {
            let kind = form.as_ref().map(Type::from_form);
            add(&mut self.components, name, Counted { samples: 1, bytes, kind });
        }
        for image in &scanned.images {
            self.images.add(&image.header, image.extension.as_deref());
            self.payload_bytes += image.bytes;
        }
        self.labels.add(scanned.label, scanned.class.as_deref());
    }

    fn add_file(&mut self, file: &ShardFile, of_file: FileFacts, samples: u64) {
        self.files.push((file.bytes, samples));
        self.content_bytes += of_file.content_bytes;
        if let Some(packed) = file.packed {
            *self.packed.entry(packed.name()).or_default() += 1;
        }
        self.add_tar(of_file.tar);
        self.add_understood(of_file.understood);
        self.unread += u64::from(of_file.is_cut);
        self.problems.extend(of_file.problem);
        self.problems.extend(of_file.remarks);
    }

    fn add_understood(&mut self, words: Vec<String>) {
        if !words.is_empty() && self.understood.len() < MAX_UNDERSTOOD && !self.understood.contains(&words) {
            self.understood.push(words);
        }
    }

    fn add_tar(&mut self, tar: Option<Tar>) {
        let Some(tar) = tar else { return };
        let mine = self.tar.get_or_insert_default();
        mine.members += tar.members;
        mine.plain_members += tar.plain_members;
        mine.unterminated_files += tar.unterminated_files;
        mine.trailing_files += tar.trailing_files;
        mine.unreadable_files += tar.unreadable_files;
        tar.dropped.into_iter().for_each(|(issue, count)| *mine.dropped.entry(issue).or_default() += count);
    }

    /// Adds the counts of later files.
    fn merge(mut self, later: Self) -> Self {
        let is_whole = self.labels.order.len() as u64 == self.samples;
        self.labels.merge(later.labels, is_whole);
        self.samples += later.samples;
        self.images.merge(later.images);
        self.payload_bytes += later.payload_bytes;
        self.content_bytes += later.content_bytes;
        later.components.into_iter().for_each(|(name, more)| add(&mut self.components, name, more));
        self.files.extend(later.files);
        self.unread += later.unread;
        for (name, files) in later.packed {
            *self.packed.entry(name).or_default() += files;
        }
        self.add_tar(later.tar);
        later.understood.into_iter().for_each(|words| self.add_understood(words));
        self.problems.extend(later.problems);
        self
    }
}

/// Inspects foreign files of one format in parallel.
///
/// # Errors
/// If the user cancels, or no file can be read at all.
pub(super) fn inspect(files: &[ShardFile], monitor: &dyn Monitor) -> Result<(Summary, Vec<Error>)> {
    monitor.begin(Phase::Verifying, 0, files.iter().map(|file| file.bytes).sum());
    let mut facts = files
        .par_iter()
        .try_fold(Facts::default, |mut facts, file| {
            look_at(file, &mut facts, monitor)?;
            Ok(facts)
        })
        // Neighbours are merged in order, so samples and problems are in file order.
        .try_reduce(Facts::default, |earlier, later| Ok(earlier.merge(later)))?;
    let mut problems = std::mem::take(&mut facts.problems);
    if facts.samples == 0 && problems.is_empty() {
        problems.extend(files.first().map(|file| Error::data(NO_SAMPLE).in_file(&file.path)));
    }
    let has_members = facts.tar.as_ref().is_some_and(|tar| tar.members > 0);
    if facts.samples == 0 && !has_members && !problems.is_empty() {
        return Err(no_shard(problems.swap_remove(0), files));
    }
    Ok((summary(files, facts), problems))
}

/// Adds a remark to the error if a `.tar` file does not start as a tar does.
fn no_shard(error: Error, files: &[ShardFile]) -> Error {
    let is_tar = files.first().is_some_and(|file| file.kind.is_tar());
    match error.location().byte {
        Some(0..512) if error.kind() == ErrorKind::Data && is_tar => {
            error.and("named as a tar file, but does not begin as one")
        }
        _ => error,
    }
}

fn look_at(file: &ShardFile, facts: &mut Facts, monitor: &dyn Monitor) -> Result<()> {
    let (mut samples, mut told) = (0, 0);
    let mut empty = Tally::default();
    let scanned = scan::scan(file, monitor, &mut |scanned| {
        monitor.check_cancelled()?;
        samples += 1;
        // Offsets in a compressed file are unpacked offsets and may exceed its length.
        let at = scanned.offset.min(file.bytes).max(told);
        monitor.advance(1, at - told);
        told = at;
        if scanned.images.iter().any(|image| image.bytes == 0) {
            let key = text::shown(&scanned.key).to_string();
            empty.add(|| Error::data("an empty image").at_byte(scanned.offset).in_sample(key));
        }
        facts.add(scanned);
        Ok(ControlFlow::Continue(()))
    });
    facts.problems.extend(empty.problem(file, "images in this file are empty"));
    monitor.advance(0, file.bytes - told);
    // Hashes are checked by `verify` only.
    facts.problems.extend(file.compare(true, &|| monitor.check_cancelled())?.problems);
    match scanned {
        Ok(of_file) => {
            facts.add_file(file, of_file, samples);
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
        Err(error) => {
            facts.unread += 1;
            facts.problems.push(error);
        }
    }
    Ok(())
}

/// `none`, or the compressions with the number of files each.
fn compression(packed: &BTreeMap<&str, u64>, files: u64) -> String {
    match packed.iter().next() {
        None => "none".to_owned(),
        Some((name, all)) if *all == files => (*name).to_owned(),
        Some(_) => {
            let some = packed.iter().map(|(name, some)| format!("{name}, {some} of {}", size::counted(files, "file")));
            some.collect::<Vec<_>>().join("; ")
        }
    }
}

fn summary(files: &[ShardFile], facts: Facts) -> Summary {
    let name = |file: &ShardFile| file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = match files {
        [] => String::new(),
        [one] => name(one),
        [first, .., last] => format!("{} … {}", name(first), name(last)),
    };
    let components: Vec<_> = facts
        .components
        .iter()
        .map(|(name, Counted { samples, bytes, kind })| {
            let typed = |kind: &Type| Type { is_optional: *samples < facts.samples, ..kind.clone() }.to_string();
            Component {
                name: name.clone(),
                kind: kind.as_ref().map(typed),
                samples: *samples,
                bytes: *bytes,
                classes: Vec::new(),
            }
        })
        .collect();
    let shards = Shards {
        count: facts.files.len() as u64,
        unread: facts.unread,
        bytes: facts.files.iter().map(|(bytes, _)| bytes).sum(),
        size: Spread::from_numbers(facts.files.iter().map(|(bytes, _)| *bytes).collect()),
        samples: Spread::from_numbers(facts.files.iter().map(|(_, samples)| *samples).collect()),
    };
    Summary {
        what: What::Foreign,
        path: files.first().map_or_else(String::new, |file| text::path(&file.path).to_string()),
        name,
        id: None,
        format: files.first().map_or("", |file| file.kind.name()).to_owned(),
        compression: compression(&facts.packed, shards.count),
        order: None,
        recipe: None,
        samples: facts.samples,
        payload_bytes: facts.payload_bytes,
        overhead: Overhead::new(facts.content_bytes, &components, facts.payload_bytes, shards.bytes, 0),
        shards,
        block_samples: None,
        components,
        images: facts.images.finish(),
        crops: None,
        mix: facts.labels.mixes(),
        classes: facts.labels.classes(),
        ledger: None,
        ignored_files: BTreeMap::new(),
        tar: facts.tar,
        understood: facts.understood,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_of_parts_are_those_of_the_whole(
            all in prop::collection::vec(prop::option::of(prop_oneof![-2i64..6, any::<i64>()]), 0..60),
            cut: prop::sample::Index,
        ) {
            let count = |all: &[Option<i64>]| {
                let mut labels = Labels::default();
                all.iter().for_each(|label| labels.add(*label, None));
                labels
            };
            let (first, second) = all.split_at(if all.is_empty() { 0 } else { cut.index(all.len()) });
            let mut merged = count(first);
            merged.merge(count(second), true);
            let order = |labels: &Labels| -> Vec<Option<i64>> {
                labels.order.iter().map(|number| labels.counts.get(*number as usize).map(|(label, _)| *label)).collect()
            };
            prop_assert_eq!(order(&merged), all.clone());
            prop_assert_eq!(merged.classes().list, count(&all).classes().list);
            prop_assert_eq!(merged.without, all.iter().filter(|label| label.is_none()).count() as u64);
        }
    }
}
