//! A part of a plan: the samples of some of its shards, and totals over all samples.
//!
//! A part lays out its shards as the whole plan does: names, keys and bytes do not depend on the machine.

use std::{ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result,
    manifest::{Blake3, Counts},
};

use super::{Arrangement, Options, Order, Plan, Shard};
use crate::source::SourceListing;

/// Totals over all samples of a plan, for a part that does not have all samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whole {
    /// [`Plan::hash`].
    pub plan: Blake3,
    /// Number of samples.
    pub samples: u64,
    /// [`Plan::counts`]: for each class.
    pub counts: Vec<Counts>,
    /// [`Plan::counts`]: for samples without a class.
    pub unclassified: Counts,
}

impl Whole {
    /// The totals of `plan`, from its samples or from its own totals.
    ///
    /// # Errors
    /// Never for numbers and text; the type is that of the JSON writer.
    pub fn from_plan(plan: &Plan) -> Result<Self> {
        let (counts, unclassified) = plan.counts();
        Ok(Self { plan: Blake3(plan.hash()?), samples: plan.samples(), counts, unclassified })
    }
}

/// A plan from a file, before its samples are read.
pub(crate) struct Restored {
    pub options: Options,
    pub shards: Vec<Shard>,
    pub block_samples: u64,
    pub longest_record_bytes: u32,
    pub whole: Whole,
}

impl Plan {
    /// Whether the plan has all of its samples.
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

    /// The same plan with only the samples of these shards, which it must have.
    ///
    /// # Errors
    /// If the part has more than 2^32 samples.
    pub fn part(&self, shards: Range<usize>) -> Result<Self> {
        let positions = self.positions(&shards);
        let numbers: Vec<u64> = positions.clone().map(|position| self.sample_at(position)).collect();
        let (sorted, order) = ranked(&numbers)?;
        let found = SourceListing {
            split: self.split.clone(),
            listing: Arc::new(self.listing.subset(&sorted)),
            unpacked: self.unpacked.clone(),
            ignored: self.ignored.clone(),
            before: self.before.clone(),
            ..SourceListing::default()
        };
        let restored = Restored {
            options: self.options.clone(),
            shards: self.shards.clone(),
            block_samples: self.block_samples,
            longest_record_bytes: self.longest_record_bytes,
            whole: Whole::from_plan(self)?,
        };
        Self::of_part(found, restored, shards, order)
    }

    /// A plan from a file, with only the samples of `held`: the samples of `found`, whose numbers by position
    /// are in `order`.
    pub(crate) fn of_part(
        found: SourceListing,
        restored: Restored,
        held: Range<usize>,
        order: Vec<u32>,
    ) -> Result<Self> {
        let Restored { options, shards, block_samples, longest_record_bytes, whole } = restored;
        let plan = Self::arranged(found, options, whole.samples, Arrangement::Part(0, Vec::new()))?;
        let plan = Self { shards, block_samples, longest_record_bytes, whole: Some(whole), ..plan };
        let positions = plan.positions(&held);
        if order.len() as u64 != positions.end - positions.start || order.len() as u64 != plan.listing.len() {
            return Err(Error::data("the shards do not hold the samples of the listing"));
        }
        Ok(Self { held, arrangement: Arrangement::Part(positions.start, order), ..plan })
    }

    /// A plan from a file with all samples, in `found`; `stored` is the order if it is not canonical or the
    /// keyed bijection.
    pub(crate) fn of_all(found: SourceListing, restored: Restored, stored: Option<Vec<u64>>) -> Result<Self> {
        let Restored { options, shards, block_samples, longest_record_bytes, whole } = restored;
        let arrangement = match (options.order, stored) {
            (Order::Source, Some(order)) => Arrangement::Stored(order),
            (Order::Source, None) => Arrangement::Canonical,
            (Order::Shuffled, _) => Arrangement::Shuffled(super::Permutation::new(found.listing.len(), options.seed)),
        };
        let plan = Self::arranged(found, options, whole.samples, arrangement)?;
        // Totals are computed from the samples on demand: the values in the file are not trusted.
        Ok(Self { held: 0..shards.len(), shards, block_samples, longest_record_bytes, ..plan })
    }

    /// Number in the whole listing by position, if it is not the position itself or the keyed bijection.
    pub(crate) fn stored_order(&self) -> Option<&[u64]> {
        match &self.arrangement {
            Arrangement::Stored(order) => Some(order),
            _ => None,
        }
    }
}

/// `numbers` in order, and the rank of each number.
///
/// # Errors
/// If a number repeats, or there are more than 2^32.
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
