//! A subset of a dataset, as given by the caller.

use std::{collections::BTreeSet, ops::Range};

use shardpack_format::{Error, Result, permutation::Permutation};
use shardpack_reader::Dataset;

use crate::{condition::Condition, order::Selection};

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
    /// The samples for which a condition is true. Reads the indexes, and the components that the condition names.
    Where(Condition),
    /// The samples that are in all these subsets of the dataset. A condition is evaluated for the samples of the others only.
    Each(Vec<Subset>),
    /// A selection of the same dataset that was made before: see [`Loader::selection`](crate::Loader::selection).
    Selected(Selection),
}

impl Subset {
    /// The classes in [`Subset::Classes`], each once, in their order; `None` if the subset does not list classes.
    pub(crate) fn classes(&self) -> Option<Vec<i64>> {
        match self {
            Self::Classes(classes) => {
                let mut seen = BTreeSet::new();
                Some(classes.iter().copied().filter(|label| seen.insert(*label)).collect())
            }
            Self::Each(all) => all.iter().find_map(Self::classes),
            _ => None,
        }
    }

    pub(crate) fn select(&self, dataset: &Dataset) -> Result<Selection> {
        let all = Selection::All(dataset.len());
        let selection = self.within(dataset, all)?;
        match selection.is_empty() && *self != Self::All {
            true => Err(Error::usage("the subset has no samples").in_file(dataset.folder())),
            false => Ok(selection),
        }
    }

    /// The samples of `of` that are in this subset of `dataset`.
    fn within(&self, dataset: &Dataset, of: Selection) -> Result<Selection> {
        let samples = dataset.len();
        let wrong = |what: String| Err(Error::usage(what).in_file(dataset.folder()));
        match self {
            Self::All => Ok(of),
            Self::Range(range) if range.start <= range.end && range.end <= samples => of.among(samples, range.clone()),
            Self::Range(range) => wrong(format!("samples {}–{} of {samples}", range.start, range.end)),
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
                of.among(samples, numbers)
            }
            Self::Samples(numbers) => {
                if let Some(number) = numbers.iter().find(|number| **number >= samples) {
                    return wrong(format!("sample {number} of a dataset of {samples}"));
                }
                of.among(samples, numbers.iter().copied())
            }
            Self::Part { share, seed } => {
                if !(0.0 <= share.start && share.start <= share.end && share.end <= 1.0) {
                    return wrong(format!("a part from {} to {}: 0 to 1 are possible", share.start, share.end));
                }
                let order = Permutation::new(samples, *seed);
                let at = |share: f64| ((samples as f64 * share) as u64).min(samples);
                let positions = at(share.start)..at(share.end);
                of.among(samples, positions.map(|position| order.sample_at(position)))
            }
            Self::Where(condition) => condition.select(dataset, &of),
            Self::Each(all) => {
                let is_condition = |one: &&Self| matches!(one, Self::Where(_));
                let others = all.iter().filter(|one| !is_condition(one));
                others.chain(all.iter().filter(is_condition)).try_fold(of, |of, one| one.within(dataset, of))
            }
            Self::Selected(selection) if matches!(of, Selection::All(_)) => Ok(selection.clone()),
            Self::Selected(selection) => of.among(samples, selection.numbers()),
        }
    }
}
