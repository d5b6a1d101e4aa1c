//! What is in tar files that somebody else wrote: all that their headers, labels and images' first bytes say.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use shardpack_format::{Error, ErrorKind, Result, formats::webdataset, formats::webdataset::reader::Ending};

use super::{
    Class, Classes, Component, Overhead, Shards, Spread, Summary, Tar, What, go_on,
    images::Counter,
    scan::{self, FileFacts, Scanned},
};
use crate::{
    mix,
    monitor::{Monitor, Phase},
};

/// Labels that are kept for the mix, of the first samples; more would be too much memory.
const KEPT_LABELS: usize = 20_000_000;

/// Stands for no label among the numbers of labels.
const NONE: u32 = u32::MAX;

/// What some files come to.
#[derive(Default)]
struct Facts {
    samples: u64,
    images: Counter,
    payload_bytes: u64,
    content_bytes: u64,
    components: BTreeMap<Vec<u8>, (u64, u64)>,
    labels: Labels,
    files: Vec<(u64, u64)>,
    compressed_files: u64,
    tar: Tar,
    problems: Vec<Error>,
}

/// The labels of samples in order, as numbers in a list of those that came up.
#[derive(Default)]
struct Labels {
    /// Each label that came up, and how often.
    counts: Vec<(i64, u64)>,
    number: HashMap<i64, u32>,
    without: u64,
    /// Of the first samples; shorter than they are once it holds [`KEPT_LABELS`].
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

    fn add(&mut self, label: Option<i64>) {
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

    /// Adds those of later samples; `is_whole` unless some of these samples were left out of the order already.
    fn merge(&mut self, later: Self, is_whole: bool) {
        let numbers: Vec<u32> = later.counts.iter().map(|(label, count)| self.intern(*label, *count)).collect();
        self.without += later.without;
        if is_whole {
            let room = KEPT_LABELS.saturating_sub(self.order.len());
            let number = |own: &u32| numbers.get(*own as usize).copied().unwrap_or(NONE);
            self.order.extend(later.order.iter().take(room).map(number));
        }
    }

    fn mixes(&self) -> Vec<mix::Mix> {
        let none = self.counts.len() as u32;
        let class = |number: usize| self.order[number].min(none);
        let mut counts = vec![0; self.counts.len() + 1];
        (0..self.order.len()).for_each(|number| counts[class(number) as usize] += 1);
        let labels = mix::Labels::new(self.order.len() as u64);
        // Nothing fails here.
        let _ = labels.take(0..self.order.len() as u64, |number| Ok(class(number as usize)));
        labels.mixes(&counts)
    }

    fn classes(&self) -> Classes {
        // Without labels there are no classes, and so no samples that lack one.
        let unlabelled = if self.counts.is_empty() { 0 } else { self.without };
        let mut list: Vec<_> =
            self.counts.iter().map(|(label, samples)| Class { label: *label, name: None, samples: *samples }).collect();
        list.sort_by_key(|class| class.label);
        Classes::new(list, unlabelled)
    }
}

impl Facts {
    fn add(&mut self, scanned: &Scanned) {
        self.samples += 1;
        for component in &scanned.sample.components {
            let counts = self.components.entry(component.extension.clone()).or_default();
            *counts = (counts.0 + 1, counts.1 + component.bytes);
        }
        for (number, header) in &scanned.images {
            let Some(component) = scanned.sample.components.get(*number) else { continue };
            let extension = scan::last_extension(&component.extension);
            self.images.add(header, std::str::from_utf8(extension).ok());
            self.payload_bytes += component.bytes;
        }
        self.labels.add(scanned.label);
    }

    fn add_file(&mut self, file: FileFacts, samples: u64) {
        self.files.push((file.bytes, samples));
        self.content_bytes += file.content_bytes;
        self.compressed_files += u64::from(file.is_compressed);
        let is_terminated = file.ending.is_none_or(|ending| ending == Ending::Marker);
        let of_file = Tar {
            members: file.members,
            plain_members: file.plain_members,
            dropped: file.dropped,
            unterminated_files: u64::from(!is_terminated),
            trailing_files: u64::from(file.has_trailing),
            unreadable_files: u64::from(file.problem.is_some()),
        };
        self.add_tar(of_file);
        self.problems.extend(file.problem);
    }

    fn add_tar(&mut self, tar: Tar) {
        let mine = &mut self.tar;
        mine.members += tar.members;
        mine.plain_members += tar.plain_members;
        mine.unterminated_files += tar.unterminated_files;
        mine.trailing_files += tar.trailing_files;
        mine.unreadable_files += tar.unreadable_files;
        tar.dropped.into_iter().for_each(|(issue, count)| *mine.dropped.entry(issue).or_default() += count);
    }

    /// Adds what was counted of later files.
    fn merge(mut self, later: Self) -> Self {
        let is_whole = self.labels.order.len() as u64 == self.samples;
        self.labels.merge(later.labels, is_whole);
        self.samples += later.samples;
        self.images.merge(later.images);
        self.payload_bytes += later.payload_bytes;
        self.content_bytes += later.content_bytes;
        for (name, (samples, bytes)) in later.components {
            let counts = self.components.entry(name).or_default();
            *counts = (counts.0 + samples, counts.1 + bytes);
        }
        self.files.extend(later.files);
        self.compressed_files += later.compressed_files;
        self.add_tar(later.tar);
        self.problems.extend(later.problems);
        self
    }
}

/// Looks at foreign tar files, side by side.
///
/// # Errors
/// When the person interrupts it, or no file is a tar file that can be read.
pub(super) fn inspect(files: &[PathBuf], monitor: &dyn Monitor) -> Result<(Summary, Vec<Error>)> {
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |meta| meta.len());
    monitor.begin(Phase::Verifying, 0, files.iter().map(length).sum());
    let mut facts = files
        .par_iter()
        .try_fold(Facts::default, |mut facts, path| {
            look_at(path, &mut facts, monitor)?;
            Ok(facts)
        })
        // Neighbours are merged in order, so samples and problems are in the order of the files.
        .try_reduce(Facts::default, |earlier, later| Ok(earlier.merge(later)))?;
    let mut problems = std::mem::take(&mut facts.problems);
    if facts.tar.members == 0 && !problems.is_empty() {
        return Err(no_tar(problems.swap_remove(0)));
    }
    Ok((summary(files, facts), problems))
}

/// Says so where a file does not even begin as a tar file.
fn no_tar(error: Error) -> Error {
    match error.location().byte {
        Some(0..512) if error.kind() == ErrorKind::Data => error.help("is this a tar file? others are not read"),
        _ => error,
    }
}

fn look_at(path: &Path, facts: &mut Facts, monitor: &dyn Monitor) -> Result<()> {
    let (mut samples, mut told) = (0, 0);
    let length = fs::metadata(path).map_or(0, |meta| meta.len());
    let scanned = scan::scan(path, &mut |scanned| {
        go_on(monitor)?;
        facts.add(&scanned);
        samples += 1;
        // Offsets in a compressed file count unpacked, so they may go beyond its length.
        let at = scanned.sample.offset.min(length);
        monitor.advance(1, at - told);
        told = at;
        Ok(ControlFlow::Continue(()))
    });
    monitor.advance(0, length - told);
    match scanned {
        Ok(file) => facts.add_file(file, samples),
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
        Err(error) => facts.problems.push(error),
    }
    Ok(())
}

fn summary(files: &[PathBuf], facts: Facts) -> Summary {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = match files {
        [] => String::new(),
        [one] => name(one),
        [first, .., last] => format!("{} … {}", name(first), name(last)),
    };
    let components: Vec<_> = facts
        .components
        .iter()
        .map(|(name, (samples, bytes))| Component {
            name: String::from_utf8_lossy(name).into_owned(),
            samples: *samples,
            bytes: *bytes,
        })
        .collect();
    let shards = Shards {
        count: facts.files.len() as u64,
        bytes: facts.files.iter().map(|(bytes, _)| bytes).sum(),
        size: Spread::of(facts.files.iter().map(|(bytes, _)| *bytes).collect()),
        samples: Spread::of(facts.files.iter().map(|(_, samples)| *samples).collect()),
    };
    Summary {
        what: What::Foreign,
        path: files.first().map_or_else(String::new, |path| path.display().to_string()),
        name,
        id: None,
        format: webdataset::NAME.to_owned(),
        compression: match facts.compressed_files {
            0 => "none".to_owned(),
            all if all == shards.count => "zstd".to_owned(),
            some => format!("zstd, {some} of {} files", shards.count),
        },
        order: None,
        samples: facts.samples,
        payload_bytes: facts.payload_bytes,
        overhead: Overhead::new(facts.content_bytes, &components, facts.payload_bytes, shards.bytes, 0),
        shards,
        block_samples: None,
        components,
        images: facts.images.finish(),
        mix: facts.labels.mixes(),
        classes: facts.labels.classes(),
        ledger: None,
        ignored_files: BTreeMap::new(),
        tar: Some(facts.tar),
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
                all.iter().for_each(|label| labels.add(*label));
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
