//! A part of the work of many machines: one of N contiguous runs of shards of about equal bytes.

use std::{fmt, ops::Range, str::FromStr};

use shardpack_format::{Error, Result};

use crate::plan::Plan;

/// Maximum number of parts, larger than any real use.
const MAX_PARTS: u32 = 1_000_000;

/// One of several parts, from `--part I/N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Counted from 1, at most [`Part::of`].
    pub number: u32,
    /// Number of parts.
    pub of: u32,
}

impl Part {
    /// Part `number` of `of`.
    ///
    /// # Errors
    /// If there is no such part.
    pub fn new(number: u32, of: u32) -> Result<Self> {
        match (1..=MAX_PARTS).contains(&of) && (1..=of).contains(&number) {
            true => Ok(Self { number, of }),
            false => Err(Error::usage(format!("part {number} of {of}: parts are 1 to N, of N up to {MAX_PARTS}"))),
        }
    }

    /// All parts of `of`.
    pub fn all(of: u32) -> impl Iterator<Item = Self> {
        (1..=of).map(move |number| Self { number, of })
    }

    /// Numbers of the images that this part preprocesses before planning.
    pub fn share(self, images: u64) -> Range<u64> {
        // At most `images`.
        let end = |number: u32| (u128::from(images) * u128::from(number) / u128::from(self.of)) as u64;
        end(self.number - 1)..end(self.number)
    }

    /// The shards of this part, for each plan: a shard belongs to the part whose share of all bytes contains
    /// its middle.
    pub fn shards(self, plans: &[Plan]) -> Vec<Range<usize>> {
        let range = |owners: Vec<u32>| {
            owners.partition_point(|owner| *owner < self.number)..owners.partition_point(|owner| *owner <= self.number)
        };
        owners(self.of, plans).into_iter().map(range).collect()
    }
}

/// The number of the part for each shard of each plan, with `of` parts; never decreases.
pub fn owners(of: u32, plans: &[Plan]) -> Vec<Vec<u32>> {
    let bytes = |plan: &Plan| plan.shards.iter().map(|shard| plan.content_bytes(shard)).collect();
    share_out(of, &plans.iter().map(bytes).collect::<Vec<_>>())
}

/// The number of the part for each shard, from the lengths in bytes of the shards of several datasets: the part
/// whose share of all bytes contains the middle of the shard.
pub fn share_out(of: u32, bytes: &[Vec<u64>]) -> Vec<Vec<u32>> {
    let total = bytes.iter().flatten().map(|bytes| u128::from(*bytes)).sum::<u128>().max(1);
    // Twice the bytes before a shard, so that its middle is an integer.
    let mut before = 0u128;
    let mut owner = |bytes: &u64| {
        let middle = before + u128::from(*bytes);
        before += 2 * u128::from(*bytes);
        // Below `of`, which is a u32.
        (middle * u128::from(of) / (2 * total)).min(u128::from(of) - 1) as u32 + 1
    };
    bytes.iter().map(|of_dataset| of_dataset.iter().map(&mut owner).collect()).collect()
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let (number, of) = numbers.ok_or_else(|| Error::usage(format!("{text:?} is no part: write I/N, as 3/8")))?;
        Self::new(number, of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::{Cut, tests};

    #[test]
    fn what_is_no_part_is_refused() {
        assert_eq!("3/8".parse::<Part>().unwrap(), Part { number: 3, of: 8 });
        for text in ["", "3", "0/8", "9/8", "1/0", "-1/8", "3/8/2", "a/b", "1/1000001", "99999999999/99999999999"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parts_hold_each_shard_once_in_order_and_none_more_than_its_share_and_a_shard(
            sizes in prop::collection::vec(prop::collection::vec(1u32..100_000, 1..40), 1..3),
            of in 1u32..50,
        ) {
            let plans: Vec<Plan> = sizes
                .iter()
                .map(|sizes| Plan::new(tests::found(sizes), tests::options(Cut::ShardSamples(2))).unwrap())
                .collect();
            let bytes = |number: usize, range: &Range<usize>| -> u64 {
                plans[number].shards[range.clone()].iter().map(|shard| plans[number].content_bytes(shard)).sum()
            };
            let longest = plans.iter().flat_map(|plan| plan.shards.iter().map(|shard| plan.content_bytes(shard))).max().unwrap();
            let total: u64 = plans.iter().map(Plan::shard_bytes).sum();
            let mut ends = vec![0; plans.len()];
            for part in Part::all(of) {
                let ranges = part.shards(&plans);
                let own: u64 = ranges.iter().enumerate().map(|(number, range)| bytes(number, range)).sum();
                prop_assert!(own <= total / u64::from(of) + longest + 1);
                for (end, range) in ends.iter_mut().zip(&ranges).filter(|(_, range)| !range.is_empty()) {
                    prop_assert_eq!(*end, range.start);
                    *end = range.end;
                }
            }
            prop_assert_eq!(ends, plans.iter().map(|plan| plan.shards.len()).collect::<Vec<_>>());
        }
    }
}
