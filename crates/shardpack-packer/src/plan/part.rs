//! A part of a plan: the samples of some of its shards, and what is true of all.
//!
//! A part lays out its shards as the whole plan does: names, keys and bytes are the same, whoever computes them.

use std::{ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result,
    manifest::{Blake3, Counts},
};

use super::{Arrangement, Options, Order, Plan, Shard};
use crate::source::Found;

/// What is true of all samples of a plan, for who does not have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whole {
    /// [`Plan::hash`].
    pub plan: Blake3,
    /// Number of samples.
    pub samples: u64,
    /// [`Plan::counts`]: of each class.
    pub counts: Vec<Counts>,
    /// [`Plan::counts`]: of what has no class.
    pub unclassified: Counts,
}

impl Whole {
    /// Of the samples of `plan`, which has all of them or knows it of them.
    ///
    /// # Errors
    /// Never for numbers and text; the type is that of the JSON writer.
    pub fn of(plan: &Plan) -> Result<Self> {
        let (counts, unclassified) = plan.counts();
        Ok(Self { plan: Blake3(plan.hash()?), samples: plan.samples(), counts, unclassified })
    }
}

/// A plan as a file has it, before its samples are known.
pub(crate) struct Restored {
    pub options: Options,
    pub shards: Vec<Shard>,
    pub block_samples: u64,
    pub longest_record_bytes: u32,
    pub whole: Whole,
}

impl Plan {
    /// Whether it has all of its samples.
    pub fn has_all(&self) -> bool {
        self.held == (0..self.shards.len())
    }

    /// Positions of the samples of these shards.
    pub(crate) fn positions(&self, shards: &Range<usize>) -> Range<u64> {
        let end = |shard: &Shard| shard.first + shard.samples;
        let first = self.shards.get(shards.start).map_or(0, |shard| shard.first);
        first..shards.clone().last().and_then(|last| self.shards.get(last)).map_or(first, end)
    }

    /// Numbers of the samples of these shards in its listing, in order.
    pub(crate) fn numbers(&self, shards: &Range<usize>) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.positions(shards).map(|position| self.sample_at(position)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The same plan with the samples of these shards alone, which are some of those that it has.
    ///
    /// # Errors
    /// When the part has more than 2^32 samples.
    pub fn part(&self, shards: Range<usize>) -> Result<Self> {
        let positions = self.positions(&shards);
        let numbers: Vec<u64> = positions.clone().map(|position| self.sample_at(position)).collect();
        let (sorted, order) = ranked(&numbers)?;
        let found = Found {
            split: self.split.clone(),
            listing: Arc::new(self.listing.subset(&sorted)),
            unpacked: self.unpacked.clone(),
            ignored: self.ignored.clone(),
            before: self.before.clone(),
            ..Found::default()
        };
        let restored = Restored {
            options: self.options.clone(),
            shards: self.shards.clone(),
            block_samples: self.block_samples,
            longest_record_bytes: self.longest_record_bytes,
            whole: Whole::of(self)?,
        };
        Self::of_part(found, restored, shards, order)
    }

    /// A plan that was computed before, with the samples of `held` alone: those of `found`, of which `order` says the numbers
    /// by position.
    pub(crate) fn of_part(found: Found, restored: Restored, held: Range<usize>, order: Vec<u32>) -> Result<Self> {
        let Restored { options, shards, block_samples, longest_record_bytes, whole } = restored;
        let plan = Self::arranged(found, options, whole.samples, Arrangement::Part(0, Vec::new()))?;
        let plan = Self { shards, block_samples, longest_record_bytes, whole: Some(whole), ..plan };
        let positions = plan.positions(&held);
        if order.len() as u64 != positions.end - positions.start || order.len() as u64 != plan.listing.len() {
            return Err(Error::data("the shards do not hold the samples of the listing"));
        }
        Ok(Self { held, arrangement: Arrangement::Part(positions.start, order), ..plan })
    }

    /// A plan that was computed before, with all samples: those of `found`, which stand in this order where that is not
    /// known otherwise.
    pub(crate) fn of_all(found: Found, restored: Restored, stored: Option<Vec<u64>>) -> Result<Self> {
        let Restored { options, shards, block_samples, longest_record_bytes, whole } = restored;
        let arrangement = match (options.order, stored) {
            (Order::Source, Some(order)) => Arrangement::Stored(order),
            (Order::Source, None) => Arrangement::Canonical,
            (Order::Shuffled, _) => Arrangement::Shuffled(super::Permutation::new(found.listing.len(), options.seed)),
        };
        let plan = Self::arranged(found, options, whole.samples, arrangement)?;
        // What it says of all samples is computed of them where it is asked for: the file is not trusted for it.
        Ok(Self { held: 0..shards.len(), shards, block_samples, longest_record_bytes, ..plan })
    }

    /// Number in the whole listing by position, where it is not that of the position itself or of the keyed bijection.
    pub(crate) fn stored_order(&self) -> Option<&[u64]> {
        match &self.arrangement {
            Arrangement::Stored(order) => Some(order),
            _ => None,
        }
    }
}

/// `numbers` in order, and the rank of each of them in it.
///
/// # Errors
/// When one is there twice, or there are more than 2^32.
pub(crate) fn ranked(numbers: &[u64]) -> Result<(Vec<u64>, Vec<u32>)> {
    let count = u32::try_from(numbers.len())
        .map_err(|_| Error::usage("more than 2^32 samples in a part").help("make more parts"))?;
    let mut by_number: Vec<u32> = (0..count).collect();
    by_number.sort_unstable_by_key(|at| numbers[*at as usize]);
    let sorted: Vec<u64> = by_number.iter().map(|at| numbers[*at as usize]).collect();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::data("a sample of the plan is there twice"));
    }
    let mut order = vec![0; numbers.len()];
    by_number.iter().zip(0..).for_each(|(at, rank)| order[*at as usize] = rank);
    Ok((sorted, order))
}
