//! The share of one rank in an epoch: its batches and their positions.
//!
//! Holds at all times: all ranks have the same number of batches; together they take every position once, except at the end,
//! where [`Last`] decides.

use shardpack_format::{Error, Result};

/// Policy for the end of an epoch, if the samples do not fill the batches of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Last {
    /// Every sample once: the last batch is shorter, and its length may differ by one sample between ranks. Every rank gets a
    /// sample: if the last step has fewer samples than ranks, the step before gives some of its samples. If that step has none to
    /// spare, because batches have one sample or the epoch has fewer samples than ranks, the first samples come again, as with
    /// [`Last::Pad`].
    #[default]
    Short,
    /// Only whole batches: the rest is not seen in this epoch.
    Drop,
    /// The same number of samples for all ranks: the first samples of the epoch come again at its end, as in the
    /// `DistributedSampler` of PyTorch. The last batch is shorter, with the same length on all ranks.
    Pad,
}

impl Last {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Short, Self::Drop, Self::Pad];

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Drop => "drop",
            Self::Pad => "pad",
        }
    }

    /// The policy with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|last| last.name() == name)
    }
}

/// The share of one rank: from position `start + rank`, every `world`-th position, `batch` at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    samples: u64,
    start: u64,
    rank: u64,
    world: u64,
    batch: u64,
    last: Last,
}

impl Share {
    /// The share of rank `rank` of `world` in an epoch of `samples`, if `start` positions have been taken before.
    ///
    /// # Errors
    /// If the numbers are inconsistent or out of range.
    pub fn new(samples: u64, start: u64, (rank, world): (u64, u64), batch: u64, last: Last) -> Result<Self> {
        let wrong = |what: String| Err(Error::usage(what));
        if rank >= world {
            return wrong(format!("rank {rank} of {world}: ranks count from 0"));
        }
        if batch == 0 {
            return wrong("batches of 0 samples".to_owned());
        }
        if start > samples {
            return wrong(format!("position {start} of an epoch of {samples}"));
        }
        if batch.checked_mul(world).is_none() {
            return wrong(format!("{world} ranks of {batch} samples"));
        }
        Ok(Self { samples, start, rank, world, batch, last })
    }

    /// Number of samples that all ranks together take in one step.
    fn step(&self) -> u64 {
        self.world * self.batch
    }

    fn left(&self) -> u64 {
        self.samples - self.start
    }

    /// Number of samples that the step before the last gives to the last step, so that each rank has a sample there.
    fn lent(&self) -> u64 {
        let rest = self.left() % self.step();
        if self.last == Last::Short && 0 < rest && rest < self.world { self.world - rest } else { 0 }
    }

    /// Whether the first samples come again at the end.
    fn pads(&self) -> bool {
        // A step with one sample per rank has none to give, and the first step has no step before it.
        self.last == Last::Pad || self.lent() > 0 && (self.batch == 1 || self.left() < self.world)
    }

    /// Number of batches, the same for all ranks.
    pub fn batches(&self) -> u64 {
        match self.last {
            Last::Drop => self.left() / self.step(),
            Last::Pad | Last::Short => self.left().div_ceil(self.world).div_ceil(self.batch),
        }
    }

    /// Number of samples in all batches of this rank.
    pub fn len(&self) -> u64 {
        match self.last {
            Last::Drop => self.batches() * self.batch,
            _ if self.pads() => self.left().div_ceil(self.world),
            _ => self.left().saturating_sub(self.rank).div_ceil(self.world),
        }
    }

    /// Whether this rank has no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of this rank's first sample in batch `batch`. For the last batch, at most the last sample; after the last
    /// batch, [`Share::len`].
    pub fn batch_start(&self, batch: u64) -> u64 {
        let (start, len) = (batch.saturating_mul(self.batch), self.len());
        // The last batch always holds the last sample, even if that sample belongs to an earlier step.
        start.min(if batch.checked_add(1) == Some(self.batches()) { len.saturating_sub(1) } else { len })
    }

    /// Number of samples in batch `batch`: at least 1 for every existing batch.
    pub fn batch_len(&self, batch: u64) -> u64 {
        self.batch_start(batch.saturating_add(1)) - self.batch_start(batch)
    }

    /// Largest number of samples in a batch.
    pub fn most_in_batch(&self) -> u64 {
        self.batch.min(self.left().div_ceil(self.world))
    }

    /// The position in the epoch of this rank's sample `number`, which is less than [`Share::len`].
    pub fn position(&self, number: u64) -> u64 {
        // `number` times `world` is at most `samples + world`, which overflows 64 bits for a padded epoch of almost 2^64.
        let position = u128::from(self.start) + u128::from(number) * u128::from(self.world) + u128::from(self.rank);
        // Only padding goes past the end, and then there is at least one sample.
        (position % u128::from(self.samples.max(1))) as u64
    }

    /// Number of this rank's samples without repeated ones.
    pub fn own(&self) -> u64 {
        match self.last {
            Last::Drop => self.len(),
            _ => self.left().saturating_sub(self.rank).div_ceil(self.world),
        }
    }

    /// Number of repeated samples of this rank, at its end: at most one.
    pub fn padded(&self) -> u64 {
        self.len() - self.own()
    }

    /// The position after batch `batches - 1`, for all ranks: a run that stopped there resumes at this position.
    pub fn position_after(&self, batches: u64) -> u64 {
        let lends = batches.checked_add(1) == Some(self.batches()) && !self.pads();
        let lent = if lends { self.lent() } else { 0 };
        let taken = u128::from(batches) * u128::from(self.step()) - u128::from(lent);
        let after = u128::from(self.start) + taken;
        u64::try_from(after).map_or(self.samples, |after| after.min(self.samples))
    }

    /// Samples of the epoch.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The rank.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Number of ranks.
    pub fn world(&self) -> u64 {
        self.world
    }

    /// Samples of a batch.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// The first position of the share in the epoch.
    pub fn start(&self) -> u64 {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// PyTorch's `DistributedSampler` without shuffling.
    fn distributed_sampler(samples: u64, rank: u64, world: u64) -> Vec<u64> {
        let each = samples.div_ceil(world);
        let mut indices: Vec<u64> = (0..samples).collect();
        let mut padding = each * world - samples;
        while padding > 0 && samples > 0 {
            let more: Vec<u64> = (0..samples.min(padding)).collect();
            padding -= more.len() as u64;
            indices.extend(more);
        }
        indices.into_iter().skip(rank as usize).step_by(world as usize).collect()
    }

    #[test]
    fn padding_is_that_of_the_distributed_sampler() {
        for samples in [0, 1, 2, 5, 16, 17] {
            for world in [1, 2, 3, 7, 40] {
                for rank in 0..world {
                    let share = Share::new(samples, 0, (rank, world), 4, Last::Pad).unwrap();
                    let positions: Vec<_> = (0..share.len()).map(|number| share.position(number)).collect();
                    assert_eq!(positions, distributed_sampler(samples, rank, world), "{samples}, {rank} of {world}");
                }
            }
        }
    }

    #[test]
    fn no_rank_is_left_without_a_sample() {
        for (samples, start, world, batch, expected) in [
            (17, 0, 2, 4, &[&[4, 4, 1][..], &[4, 3, 1]][..]),
            (17, 8, 2, 4, &[&[4, 1], &[3, 1]]),
            (17, 15, 2, 4, &[&[1], &[1]]),
            (18, 0, 2, 4, &[&[4, 4, 1], &[4, 4, 1]]),
            (13, 0, 4, 3, &[&[3, 1], &[2, 1], &[2, 1], &[2, 1]]),
            (5, 0, 2, 9, &[&[3], &[2]]),
            // No step has samples to give: the first samples come again.
            (5, 0, 2, 1, &[&[1, 1, 1], &[1, 1, 1]]),
            (2, 0, 3, 4, &[&[1], &[1], &[1]]),
            (17, 15, 3, 4, &[&[1], &[1], &[1]]),
        ] {
            for (rank, expected) in (0..world).zip(expected) {
                let share = Share::new(samples, start, (rank, world), batch, Last::Short).unwrap();
                let found: Vec<_> = (0..share.batches()).map(|number| share.batch_len(number)).collect();
                assert_eq!(found, *expected, "{samples} from {start}, rank {rank} of {world}");
                assert!(found.iter().all(|len| *len <= share.most_in_batch()));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (samples, start, ranks, batch) in [
            (10, 11, (0, 1), 1),
            (10, 0, (1, 1), 1),
            (10, 0, (0, 0), 1),
            (10, 0, (0, 1), 0),
            (1, 0, (0, 1 << 40), 1 << 40),
        ] {
            assert!(Share::new(samples, start, ranks, batch, Last::Short).is_err());
        }
    }

    proptest! {
        #[test]
        fn ranks_have_equal_batches_and_take_all(samples in 0u64..300, start in 0u64..300, world in 1u64..9, batch in 1u64..9) {
            prop_assume!(start <= samples);
            for last in Last::ALL {
                let shares: Vec<_> = (0..world)
                    .map(|rank| Share::new(samples, start, (rank, world), batch, last).unwrap())
                    .collect();
                let mut seen = vec![0u64; samples as usize];
                let mut padded = 0;
                for share in &shares {
                    prop_assert_eq!(share.batches(), shares[0].batches());
                    prop_assert_eq!((0..share.batches()).map(|batch| share.batch_len(batch)).sum::<u64>(), share.len());
                    prop_assert_eq!(share.batch_len(share.batches()), 0);
                    (0..share.len()).for_each(|number| seen[share.position(number) as usize] += 1);
                    padded += share.padded();
                }
                let total: u64 = shares.iter().map(Share::len).sum();
                let (lens, left) = (shares.iter().map(Share::len), samples - start);
                match last {
                    Last::Drop => {
                        prop_assert!(total == left / (world * batch) * (world * batch));
                        prop_assert!(seen.iter().all(|times| *times <= 1));
                    }
                    Last::Short => {
                        let is_padded = padded > 0;
                        prop_assert!(seen[start as usize..].iter().all(|times| *times == 1 || is_padded && *times >= 1));
                        prop_assert_eq!(total - padded, left);
                        // Never, if each rank can have a sample in each batch without repeats.
                        prop_assert!(!is_padded || left < world || batch == 1 && left % world > 0);
                        for number in 0..shares[0].batches() {
                            let lens = || shares.iter().map(|share| share.batch_len(number));
                            prop_assert!(lens().min() >= Some(1) && lens().max() <= Some(batch));
                            prop_assert!(lens().max().unwrap() - lens().min().unwrap() <= 1);
                        }
                    }
                    Last::Pad => {
                        prop_assert!(lens.clone().all(|len| len == shares[0].len()));
                        prop_assert!(seen[start as usize..].iter().all(|times| *times >= 1) && padded < world);
                        prop_assert_eq!(total - padded, left);
                    }
                }
                // The position after a step is the number of positions that all ranks have taken.
                for batches in 0..=shares[0].batches() {
                    let end = |share: &Share| share.batch_start(batches).min(share.own());
                    let taken: u64 = shares.iter().map(end).sum();
                    prop_assert_eq!(shares[0].position_after(batches), start + taken);
                    let taken = |share: &Share| (0..end(share)).map(|number| share.position(number)).max();
                    prop_assert!(shares.iter().filter_map(taken).all(|last| last < shares[0].position_after(batches)));
                }
                prop_assert_eq!(shares[0].position_after(u64::MAX), samples);
            }
        }
    }
}
