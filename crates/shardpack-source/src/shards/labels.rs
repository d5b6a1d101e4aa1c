//! Merges the labels of all files of a source: one class list, label fields, and withheld labels.
//!
//! Holds at all times: a number means one class, whichever file it comes from.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use shardpack_format::{Error, Result, formats::foreign::FieldSelection};

use super::{
    super::{
        classes::{LabelInfo, NO_LABEL, Words},
        merge_classes,
    },
    Scanned, Shards,
    scan::Row,
};
use crate::foreign::LABEL_BESIDE_IMAGE;

impl Shards {
    /// Replaces class numbers by class names if files number their classes differently. Returns all names without duplicates.
    ///
    /// # Errors
    /// If a file has class numbers but no names, or two classes with one name.
    pub(super) fn join_classes(&self, scanned: &mut [Scanned], words: &mut Words) -> Result<Vec<Vec<u8>>> {
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        for (file, scanned) in self.files.iter().zip(scanned) {
            merge_classes::refuse_double(&file.name, &scanned.known)?;
            let names: Vec<_> = scanned.known.iter().map(|name| words.intern(name)).collect();
            let new = names.iter().zip(&scanned.known).filter(|(word, _)| seen.insert(**word));
            all.extend(new.map(|(_, name)| name.clone()));
            let values = scanned.values.iter_mut().map(|(row, _)| row);
            for row in scanned.rows.iter_mut().chain(values) {
                let Some(number) = row.said.number.filter(|number| *number >= 0) else { continue };
                if names.is_empty() {
                    let what = "has numeric labels but no names of classes, and other files number classes differently";
                    return Err(Error::usage(what).in_file(&file.shard.path).help("convert these files by themselves"));
                }
                let name = usize::try_from(number).ok().and_then(|number| names.get(number));
                row.said = LabelInfo { word: name.copied(), ..LabelInfo::NOTHING };
            }
        }
        Ok(all)
    }

    /// Fails if no sample has a label in the requested field: all samples would be in one class.
    pub(super) fn check_label(&self, scanned: &[Scanned]) -> Result<()> {
        let Some(wanted) = &self.wanted.label else { return Ok(()) };
        // Extensions of tar members are lower case.
        let is_wanted = |field: &String| field == wanted || *field == wanted.to_lowercase();
        if scanned.iter().all(|file| file.rows.is_empty() && file.values.is_empty())
            || scanned.iter().any(|file| file.used.iter().any(is_wanted))
        {
            return Ok(());
        }
        let fields: BTreeSet<&str> =
            scanned.iter().flat_map(|file| file.used.iter().chain(file.others.keys())).map(String::as_str).collect();
        let have = match fields.is_empty() {
            true => "their fields have no names".to_owned(),
            false => format!("they have {}", fields.into_iter().collect::<Vec<_>>().join(", ")),
        };
        Err(Error::usage(format!("no record has a label {wanted:?}: {have}"))
            .in_file(self.files[0].shard.path.as_path()))
    }
}

impl Shards {
    /// Returns the splits in which every label is −1, meaning "no label". Also converts the text label `-1` to that number.
    pub(super) fn kept_back(&self, scanned: &mut [Scanned]) -> BTreeSet<Option<String>> {
        let mut kept: BTreeSet<Option<String>> = self.splits().into_iter().collect();
        let mut labelled = BTreeSet::new();
        for (file, scanned) in self.files.iter().zip(&mut *scanned) {
            if scanned.rows.iter().any(|row| row.said.number != Some(NO_LABEL)) {
                kept.remove(&file.split);
            }
            if !scanned.rows.is_empty() {
                labelled.insert(file.split.clone());
            }
        }
        kept.retain(|split| labelled.contains(split));
        for (file, scanned) in self.files.iter().zip(scanned) {
            if kept.contains(&file.split) {
                let none =
                    |said: LabelInfo| LabelInfo { number: Some(NO_LABEL), naming: said.naming, ..LabelInfo::NOTHING };
                scanned.rows.iter_mut().for_each(|row| row.said = none(row.said));
            }
        }
        kept
    }
}

/// Whether some images have a label, and all others have a value that can be no class in its place, which is a field beside the image. A
/// reader decides about each record by itself, and cannot see that the labels of all are measured values.
pub(super) fn are_values_in_part(scanned: &[Scanned]) -> bool {
    let says = |row: &&Row| row.said.number.is_some() || row.said.word.is_some();
    let rows = || scanned.iter().flat_map(|file| &file.rows);
    let (samples, labelled) = (rows().count() as u64, rows().filter(says).count() as u64);
    let values: u64 = scanned.iter().filter_map(|file| file.others.get(LABEL_BESIDE_IMAGE)).sum();
    labelled > 0 && values > 0 && labelled + values == samples
}

/// Decides whether records without an image are samples; returns the label field and the reason for not using a label.
///
/// If no record has an image, records with fields become samples. Their label is the `wanted` field, or a field that every record has
/// and whose values are valid classes. Otherwise those records are refused. The second value is the reason why a field named like a
/// label is not the label.
pub(super) fn decide_values(scanned: &mut [Scanned], wanted: &FieldSelection) -> (Option<String>, Option<String>) {
    if scanned.iter().any(|file| !file.rows.is_empty()) {
        scanned.iter_mut().for_each(Scanned::refuse_values);
        return (None, None);
    }
    scanned.iter_mut().for_each(Scanned::take_values);
    let samples: u64 = scanned.iter().map(|file| file.rows.len() as u64).sum();
    let mut labels = BTreeMap::<&str, u64>::new();
    for (name, samples) in scanned.iter().flat_map(|file| &file.labels) {
        *labels.entry(name).or_default() += samples;
    }
    let is_believed = || scanned.iter().flat_map(|file| &file.rows).all(|row| row.said.is_believed(samples));
    let says = |row: &&Row| row.said.number.is_some() || row.said.word.is_some();
    let Some((name, count)) = labels.first_key_value().map(|(name, count)| ((*name).to_owned(), *count)) else {
        if !scanned.iter().all(|file| file.fields.are_files) || !wanted.entries.is_unsaid() {
            return (None, None);
        }
        // A json member may hold any content.
        let saying = scanned.iter().flat_map(|file| &file.rows).filter(says).count() as u64;
        if saying == 0 || saying == samples && is_believed() {
            return (None, None);
        }
        scanned.iter_mut().flat_map(|file| &mut file.rows).for_each(|row| row.said = LabelInfo::NOTHING);
        let why = format!("{saying} of {samples} samples have a usable label or class");
        return (None, Some(why));
    };
    // With an explicit label field, a sample without a valid label is reported as that sample's problem.
    if wanted.label.is_some() {
        return (Some(name), None);
    }
    let why = match count == samples {
        true if is_believed() => return (Some(name), None),
        true => format!("field {name:?} is a component, because its numbers are not valid class numbers"),
        false => format!("field {name:?} is a component, not a label, because {count} of {samples} samples have it"),
    };
    scanned.iter_mut().flat_map(|file| &mut file.rows).for_each(|row| row.said = LabelInfo::NOTHING);
    (None, Some(why))
}
