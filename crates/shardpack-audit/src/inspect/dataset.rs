//! Reads the indexes of a dataset in parallel and compares them with the manifest.

use rayon::prelude::*;
use shardpack_format::{
    Error, ErrorKind, Result,
    formats::{self, Choice},
    hash,
    manifest::BY_KIND,
    size, text,
};
use shardpack_reader::Shard;

use super::{
    Class, Classes, Component, Overhead, Shards, Spread, Summary, View, What, crop_tables::CropTables, images::Counter,
};
use crate::{
    monitor::{Monitor, Phase},
    shuffle_quality,
};

/// Rows between two checks for cancellation.
const ROWS_AT_ONCE: u64 = 4096;

/// Counts over the rows of some shards.
struct Facts {
    images: Counter,
    payload_bytes: u64,
    content_bytes: u64,
    /// Number of samples and total bytes of each component.
    components: Vec<(u64, u64)>,
    /// Samples per class; the last entry counts samples without a class.
    classes: Vec<u64>,
    crops: CropTables,
    /// Number of shards whose rows could not all be read.
    unread: u64,
    problems: Vec<Error>,
}

impl Facts {
    fn new(view: &View) -> Self {
        let manifest = view.dataset.manifest();
        Self {
            images: Counter::default(),
            payload_bytes: 0,
            content_bytes: 0,
            components: vec![(0, 0); manifest.components.len()],
            classes: vec![0; manifest.classes.len() + 1],
            crops: CropTables::default(),
            unread: 0,
            problems: Vec::new(),
        }
    }

    /// Adds the counts of later shards.
    fn merge(mut self, later: Self) -> Self {
        self.images.merge(later.images);
        self.payload_bytes += later.payload_bytes;
        self.content_bytes += later.content_bytes;
        for (mine, other) in self.components.iter_mut().zip(later.components) {
            *mine = (mine.0 + other.0, mine.1 + other.1);
        }
        for (mine, other) in self.classes.iter_mut().zip(later.classes) {
            *mine += other;
        }
        self.crops.merge(later.crops);
        self.unread += later.unread;
        self.problems.extend(later.problems);
        self
    }
}

/// The extension that all images of a dataset share, if any.
pub(super) fn image_extension(view: &View) -> Option<&str> {
    let manifest = view.dataset.manifest();
    // If components are features or columns, no extension identifies the images.
    formats::entry(&manifest.format.name).ok().filter(|entry| entry.has_extensions)?;
    manifest.components.first().map(String::as_str).filter(|name| *name != BY_KIND)
}

/// Inspects a dataset, or some of its shards.
pub(super) fn inspect(view: &View, monitor: &dyn Monitor) -> Result<(Summary, Vec<Error>)> {
    let index_bytes = view.shards().map(|shard| shard.entry().index.bytes).sum();
    monitor.begin(Phase::Verifying, view.samples(), index_bytes);
    let labels = shuffle_quality::Labels::new(view.samples());
    let firsts = view.shards().scan(0, |next, shard| {
        let first = *next;
        *next += shard.len();
        Some((shard, first))
    });
    let parts: Vec<_> = firsts.collect();
    let facts = parts
        .par_iter()
        .try_fold(
            || Facts::new(view),
            |mut facts, (shard, first)| {
                look_at(view, *shard, *first, &labels, &mut facts, monitor)?;
                Ok(facts)
            },
        )
        // Neighbours are merged in order, so problems are in shard order.
        .try_reduce(|| Facts::new(view), |earlier, later| Ok(earlier.merge(later)))?;
    Ok(summary(view, facts, &labels, index_bytes))
}

/// Adds one shard; its first sample is number `first` among the inspected samples.
fn look_at(
    view: &View,
    shard: Shard<'_>,
    first: u64,
    labels: &shuffle_quality::Labels,
    facts: &mut Facts,
    monitor: &dyn Monitor,
) -> Result<()> {
    monitor.check_cancelled()?;
    if let Err(error) = shard.look_for() {
        facts.problems.push(error);
    }
    match read_rows(view, shard, first, labels, facts, monitor) {
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
        Err(error) => {
            facts.unread += 1;
            facts.problems.push(error);
        }
        Ok(()) => match facts.crops.look_at(shard) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => facts.problems.push(error),
            Ok(()) => {}
        },
    }
    monitor.advance(0, shard.entry().index.bytes);
    Ok(())
}

fn read_rows(
    view: &View,
    shard: Shard<'_>,
    first: u64,
    labels: &shuffle_quality::Labels,
    facts: &mut Facts,
    monitor: &dyn Monitor,
) -> Result<()> {
    facts.content_bytes += shard.index()?.summary().content_bytes;
    let (extension, classes) = (image_extension(view), facts.classes.len() - 1);
    let choice = Choice::of_manifest(view.dataset.manifest())?;
    let mut beyond = None;
    for number in 0..shard.len() {
        let row = shard.row(number)?;
        match &choice.payload {
            None => facts.images.add(&row.image, extension),
            Some(payload) => {
                let kind = choice.kind_of(&row.image, row.path);
                facts.images.add_other(&kind, payload, &row.image, extension);
            }
        }
        facts.payload_bytes += u64::from(row.content_bytes(0).unwrap_or(0));
        for (component, (samples, bytes)) in facts.components.iter_mut().enumerate() {
            if let Some(extent) = row.component(component) {
                *samples += 1;
                *bytes += u64::from(extent.bytes);
            }
        }
        if row.label.is_some() && class(row.label, classes) == classes {
            beyond.get_or_insert_with(|| {
                let label = row.label.unwrap_or_default();
                let what = format!(
                    "label {label}, but there {}",
                    if classes == 1 { "is 1 class".to_owned() } else { format!("are {classes} classes") }
                );
                Error::data(what).in_file(shard.index_path()).in_sample(row.name())
            });
        }
        facts.classes[class(row.label, classes)] += 1;
        if (number + 1).is_multiple_of(ROWS_AT_ONCE) {
            monitor.advance(ROWS_AT_ONCE, 0);
            monitor.check_cancelled()?;
        }
    }
    monitor.advance(shard.len() % ROWS_AT_ONCE, 0);
    labels.take(first..first + shard.len(), |number| {
        Ok(u32::try_from(class(shard.row(number - first)?.label, classes)).unwrap_or(u32::MAX))
    })?;
    facts.problems.extend(beyond);
    Ok(())
}

/// Index of a label among `classes` classes; `classes` itself if the label is not a class.
fn class(label: Option<i64>, classes: usize) -> usize {
    label.and_then(|label| usize::try_from(label).ok()).map_or(classes, |label| label.min(classes))
}

fn summary(view: &View, facts: Facts, labels: &shuffle_quality::Labels, index_bytes: u64) -> (Summary, Vec<Error>) {
    let manifest = view.dataset.manifest();
    let is_whole = view.is_whole();
    let mut problems = facts.problems;
    let images = facts.images.finish();
    let mix = labels.mixes(&facts.classes);
    let mut counts = facts.classes;
    let unlabelled = counts.pop().unwrap_or_default();
    if is_whole && problems.is_empty() {
        let differs = manifest.classes.iter().zip(&counts).find(|(class, count)| class.counts.packed != **count);
        let path = || view.dataset.folder().join(shardpack_format::manifest::FILE);
        if let Some((class, count)) = differs {
            let packed = class.counts.packed;
            let what = format!("class {}: {}, the indexes have {count}", class.name, size::counted(packed, "sample"));
            problems.push(Error::data(what).in_file(path()));
        }
        if images.kinds != manifest.kinds {
            let what = "the kinds of images differ from the indexes";
            problems.push(Error::data(what).in_file(path()));
        }
    }
    let list = manifest.classes.iter().zip(&counts).enumerate().map(|(label, (class, count))| Class {
        label: label as i64,
        name: Some(class.name.clone()),
        samples: *count,
    });
    let named = manifest.components.iter().zip(&facts.components);
    let choice = Choice::of_manifest(manifest).ok();
    let kind = |name: &str| {
        let choice = choice.as_ref()?;
        let one = choice.payload.iter().chain(&choice.components).find(|one| one.name() == name)?;
        one.kind().map(ToString::to_string)
    };
    let names =
        |name: &str| choice.as_ref().and_then(|choice| choice.component_classes.get(name)).cloned().unwrap_or_default();
    let components: Vec<_> = named
        .map(|(name, (samples, bytes))| Component {
            name: name.clone(),
            kind: kind(name),
            samples: *samples,
            bytes: *bytes,
            classes: names(name),
        })
        .collect();
    let shards = Shards {
        count: view.shards.len() as u64,
        unread: facts.unread,
        bytes: view.shards().map(|shard| shard.entry().bytes).sum(),
        size: Spread::from_numbers(view.shards().map(|shard| shard.entry().bytes).collect()),
        samples: Spread::from_numbers(view.shards().map(|shard| shard.len()).collect()),
    };
    let payload_bytes = if is_whole { manifest.payload_bytes } else { facts.payload_bytes };
    let summary = Summary {
        what: if is_whole { What::Dataset } else { What::Shards },
        path: text::path(&view.dataset.folder()).to_string(),
        name: manifest.name.clone(),
        id: Some(hash::hex(&manifest.id.0)),
        format: manifest.format.name.clone(),
        compression: manifest.format.compression.clone(),
        order: Some(manifest.order.clone()),
        recipe: manifest.recipe.clone(),
        samples: view.samples(),
        payload_bytes,
        overhead: Overhead::new(facts.content_bytes, &components, payload_bytes, shards.bytes, index_bytes),
        shards,
        block_samples: Some(manifest.block_samples),
        components,
        images,
        crops: facts.crops.if_any(),
        classes: Classes::new(list.collect(), unlabelled),
        mix,
        ledger: is_whole.then_some(manifest.ledger.counts),
        ignored_files: if is_whole { manifest.ignored_files.clone() } else { Default::default() },
        tar: None,
        understood: Vec::new(),
    };
    (summary, problems)
}
