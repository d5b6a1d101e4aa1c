//! A subset of a dataset, as given by the caller.

use std::ops::Range;

use shardpack_format::{Error, Result, permutation::Permutation};
use shardpack_reader::Dataset;

use crate::order::Selection;

/// Some of the samples of a dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Subset {
    /// All samples.
    #[default]
    All,
    /// The samples with these numbers.
    Range(Range<u64>),
    /// The samples of these classes; reads every label in the indexes.
    Classes(Vec<i64>),
    /// The samples with these numbers, in any order.
    Samples(Vec<u64>),
    /// A random part: the samples at ⌊S × start⌋ to ⌊S × end⌋, exclusive, in the order that `feistel-8` makes from the seed, for S
    /// samples. Parts with one seed and disjoint ranges have no sample in common: `0.0..0.9` to train and `0.9..1.0` to validate.
    Part {
        /// From 0 to 1.
        share: Range<f64>,
        /// Seed of the division.
        seed: u64,
    },
}

impl Subset {
    pub(crate) fn select(&self, dataset: &Dataset) -> Result<Selection> {
        let samples = dataset.len();
        let wrong = |what: String| Err(Error::usage(what).in_file(dataset.folder()));
        let selection = match self {
            Self::All => return Ok(Selection::All(samples)),
            Self::Range(range) if range.start <= range.end && range.end <= samples => {
                Selection::from_numbers(samples, range.clone())?
            }
            Self::Range(range) => return wrong(format!("samples {}–{} of {samples}", range.start, range.end)),
            Self::Classes(classes) => {
                if let Some(unknown) = classes.iter().find(|label| dataset.class(**label).is_none()) {
                    return wrong(format!("no class {unknown}: there are {}", dataset.classes().len()));
                }
                let mut numbers = Vec::new();
                for shard in dataset.shards() {
                    for row in 0..shard.len() {
                        let is_wanted = shard.row(row)?.label.is_some_and(|label| classes.contains(&label));
                        numbers.extend(is_wanted.then_some(shard.samples().start + row));
                    }
                }
                Selection::from_numbers(samples, numbers)?
            }
            Self::Samples(numbers) => Selection::from_numbers(samples, numbers.iter().copied())?,
            Self::Part { share, seed } => {
                if !(0.0 <= share.start && share.start <= share.end && share.end <= 1.0) {
                    return wrong(format!("a part from {} to {}: 0 to 1 are possible", share.start, share.end));
                }
                let order = Permutation::new(samples, *seed);
                let at = |share: f64| ((samples as f64 * share) as u64).min(samples);
                Selection::from_numbers(
                    samples,
                    (at(share.start)..at(share.end)).map(|position| order.sample_at(position)),
                )?
            }
        };
        match selection.is_empty() {
            true => wrong("the subset has no samples".to_owned()),
            false => Ok(selection),
        }
    }
}
