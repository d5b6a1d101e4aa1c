//! Checks the labels of records against the labels of all other records, and reports what `convert` would refuse.

use std::collections::BTreeMap;

use shardpack_format::formats::foreign::FieldSelection;

use super::{Walked, keys_at, of_sample};
use crate::{
    foreign::ShardFile,
    source::classes::{Classes, NO_LABEL, Words},
};

/// Reports samples without a valid class. All files of one format count as one dataset.
pub(super) fn find_unfit(files: &[ShardFile], walked: &mut [Walked]) {
    let mut formats: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        formats.entry(file.kind.name()).or_default().push(number);
    }
    for numbers in formats.into_values() {
        let (mut words, mut known) = (Words::default(), Vec::new());
        for number in &numbers {
            let new = words.merge(&walked[*number].words);
            for (said, _) in &mut walked[*number].said {
                *said = said.renumbered(&new);
            }
            // Unreadable class names were already reported.
            let names = files[*number].classes(&FieldSelection::default()).unwrap_or_default();
            if names.len() > known.len() {
                known = names;
            }
        }
        words.intern_all(&known);
        let said = numbers.iter().flat_map(|number| walked[*number].said.iter().map(|(said, _)| *said));
        let classes = Classes::decide(said, &words, &known);
        for number in numbers {
            let (file, walked) = (&files[number], &mut walked[number]);
            // A file of a test split with withheld labels.
            if walked.said.iter().all(|(said, _)| said.number == Some(NO_LABEL)) {
                walked.said.clear();
                continue;
            }
            let unfit = |(said, offset)| Some((offset, classes.number(said, &words).err()?));
            let unfit: BTreeMap<u64, String> = std::mem::take(&mut walked.said).into_iter().filter_map(unfit).collect();
            if unfit.is_empty() {
                continue;
            }
            let mut keys = keys_at(file, unfit.keys().copied().collect());
            for (offset, why) in unfit {
                walked.add(of_sample(file, &keys.remove(&offset).unwrap_or_default(), offset, why));
            }
        }
    }
}
