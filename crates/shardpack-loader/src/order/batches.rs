//! The batches of a rank in an epoch, one after the other, and the state after each.
//!
//! Holds at all times: all ranks have the same number of batches; together the batches have each sample of the share once.

use super::{Bucketed, Share};

/// A batch of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankBatch {
    /// Number of its first sample in the share.
    pub start: u64,
    /// Number of its samples.
    pub len: u64,
    /// The position after it, for all ranks: a run that stops here resumes at this position.
    pub after: u64,
}

/// See the module.
#[derive(Debug)]
pub struct RankBatches {
    share: Share,
    /// If batches differ in length.
    bucketed: Option<Bucketed>,
    /// Number of the next batch.
    number: u64,
    /// Number of the rank's next sample.
    next: u64,
}

impl RankBatches {
    /// The batches of `share`; with `bucketed`, those that it limits by tokens. Then `share` begins with one of them.
    pub fn new(share: Share, bucketed: Option<Bucketed>) -> Self {
        Self { share, bucketed, number: 0, next: 0 }
    }
}

impl Iterator for RankBatches {
    type Item = RankBatch;

    fn next(&mut self) -> Option<RankBatch> {
        let share = &self.share;
        let Some(bucketed) = &mut self.bucketed else {
            let number = self.number;
            if number == share.batches() {
                return None;
            }
            self.number += 1;
            let (start, len) = (share.batch_start(number), share.batch_len(number));
            return Some(RankBatch { start, len, after: share.position_after(number + 1) });
        };
        let (start, world) = (self.next, share.world());
        if start == share.len() {
            return None;
        }
        let before = share.start() / world;
        bucketed.forget_before((before + start).saturating_mul(world));
        let (_, end) = bucketed.batch_of(before + start);
        self.next = (end - before).min(share.len());
        let after = end.saturating_mul(world).min(share.samples());
        Some(RankBatch { start, len: self.next - start, after })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::order::{Buckets, Epoch, Last, Layout, Options, Shuffle, length_key};

    fn length_of(sample: u64) -> u64 {
        shardpack_format::permutation::mix(sample) % 9
    }

    proptest! {
        #[test]
        fn batches_by_tokens_are_within_the_limit_and_equal_for_all_ranks(
            samples in 0u64..400,
            world in 1u64..5,
            (batch, batches) in (1u64..7, 1u64..7),
            tokens in 1u64..40,
            shuffle in 0usize..3,
            last in 0usize..3,
            resumed: prop::sample::Index,
        ) {
            let options = Options { shuffle: Shuffle::ALL[shuffle], seed: 5, lanes: 12, ..Options::default() };
            let epoch = Arc::new(Epoch::new(&Layout::new([samples / 3, samples - samples / 3], 4).unwrap(), &options, 1).unwrap());
            let buckets = Buckets::new(world, batch, batches).unwrap().within(tokens);
            let bucketed = || {
                let length_of = |sample| length_key(length_of(sample) as f32);
                Bucketed::new(Arc::clone(&epoch), buckets, Arc::new(length_of))
            };
            let of_rank = |rank, start| {
                let share = Share::new(samples, start, (rank, world), 1, Last::ALL[last]).unwrap();
                (share, RankBatches::new(share, Some(bucketed())).collect::<Vec<_>>())
            };
            let mut seen = vec![0; samples as usize];
            let mut places = bucketed();
            let (first_share, first) = of_rank(0, 0);
            for rank in 0..world {
                let (share, found) = of_rank(rank, 0);
                prop_assert_eq!(share.batches(), share.len());
                let mut next = 0;
                prop_assert_eq!(found.len(), first.len());
                for (one, other) in found.iter().zip(&first) {
                    prop_assert_eq!((one.start, one.len, one.after), (next, other.len, other.after));
                    prop_assert!((1..=batch).contains(&one.len));
                    next += one.len;
                    let samples = (one.start..one.start + one.len).map(|number| {
                        epoch.sample_at(places.position(share.position(number)))
                    });
                    let samples: Vec<u64> = samples.collect();
                    let longest = samples.iter().map(|sample| length_of(*sample)).max().unwrap();
                    prop_assert!(one.len == 1 || longest * one.len <= tokens, "{} of {longest}", one.len);
                    samples.iter().for_each(|sample| seen[*sample as usize] += 1);
                }
                prop_assert_eq!(next, share.len());
            }
            match Last::ALL[last] {
                Last::Drop => prop_assert!(seen.iter().filter(|times| **times == 0).count() as u64 == samples % world),
                _ => prop_assert!(seen.iter().all(|times| *times >= 1)),
            }
            let whole = first_share.len().min(samples / world);
            prop_assert_eq!(bucketed().batches_from(0), first.iter().take_while(|one| one.start < whole).count() as u64);
            // From the state after any batch, the rest is the same.
            if !first.is_empty() {
                let at = resumed.index(first.len());
                let (start, state) = (first[at].start + first[at].len, first[at].after);
                let (_, rest) = of_rank(0, state);
                let expected = first[at + 1..].iter().map(|one| RankBatch { start: one.start - start, ..*one });
                prop_assert_eq!(rest, expected.collect::<Vec<_>>());
            }
        }
    }
}
