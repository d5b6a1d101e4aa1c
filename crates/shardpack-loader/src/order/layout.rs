//! The samples per shard, and the runs that are read.
//!
//! Holds at all times: samples are numbered from 0 through the shards; a run is consecutive samples of one shard; all runs
//! have the same length, except the last of a shard, which may be shorter.

use std::{ops::Range, sync::Arc};

use shardpack_format::{Error, Result};

/// The number of samples in each shard, and in a block. Clones share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of the first sample of each shard, and of all samples at the end; ascending, with equal values for empty shards.
    starts: Arc<[u64]>,
    block_samples: u64,
}

impl Layout {
    /// `shards` has the number of samples per shard. A block has `block_samples`; runs consist of whole blocks.
    ///
    /// # Errors
    /// If a block has no sample, or there are 2^64 samples or more.
    pub fn new(shards: impl IntoIterator<Item = u64>, block_samples: u64) -> Result<Self> {
        if block_samples == 0 {
            return Err(Error::usage("blocks of 0 samples"));
        }
        let mut starts = vec![0_u64];
        for samples in shards {
            let start = starts.last().copied().unwrap_or(0);
            starts.push(start.checked_add(samples).ok_or_else(|| Error::usage("2^64 samples or more"))?);
        }
        Ok(Self { starts: starts.into(), block_samples })
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.starts.len() - 1
    }

    /// Samples of a block.
    pub fn block_samples(&self) -> u64 {
        self.block_samples
    }

    /// The shard, and the row from 0 in the shard, of sample `number`, which is less than [`Layout::samples`].
    pub fn place(&self, number: u64) -> (usize, u64) {
        // The last shard that begins at or before the sample: this skips empty shards.
        let shard = self.starts.partition_point(|start| *start <= number).saturating_sub(1);
        (shard, number - self.starts[shard])
    }

    pub(super) fn shard_samples(&self, shard: usize) -> Range<u64> {
        self.starts[shard]..self.starts[shard + 1]
    }
}

/// A run: samples that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunSpan {
    pub shard: usize,
    /// Numbers of the samples in the dataset.
    pub samples: Range<u64>,
}

/// The runs of a layout, numbered from 0 through the shards.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// Samples of a run.
    samples: u64,
    /// Number of the first run of each shard, and of all runs at the end.
    starts: Arc<[u64]>,
}

impl Runs {
    /// Runs of `samples`, at least 1.
    pub fn new(layout: &Layout, samples: u64) -> Self {
        let mut starts = Vec::with_capacity(layout.shards() + 1);
        let mut next = 0;
        starts.push(next);
        for shard in 0..layout.shards() {
            let range = layout.shard_samples(shard);
            // At most the number of samples.
            next += (range.end - range.start).div_ceil(samples);
            starts.push(next);
        }
        Self { samples, starts: starts.into() }
    }

    /// Number of runs.
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Samples of every run, except the last of a shard.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Run `number`, which is less than [`Runs::len`].
    pub fn run(&self, layout: &Layout, number: u64) -> RunSpan {
        let shard = self.starts.partition_point(|start| *start <= number).saturating_sub(1);
        let all = layout.shard_samples(shard);
        let start = all.start + (number - self.starts[shard]) * self.samples;
        RunSpan { shard, samples: start..all.end.min(start.saturating_add(self.samples)) }
    }

    /// Number of the run that holds sample `number`.
    pub fn of_sample(&self, layout: &Layout, number: u64) -> u64 {
        let (shard, row) = layout.place(number);
        self.starts[shard] + row / self.samples
    }

    /// Numbers of the runs that are shorter than the others, and the number of samples that each lacks.
    pub fn short<'r>(&'r self, layout: &'r Layout) -> impl Iterator<Item = (u64, u64)> + 'r {
        (0..layout.shards()).filter_map(|shard| {
            let range = layout.shard_samples(shard);
            match (range.end - range.start) % self.samples {
                0 => None,
                rest => Some((self.starts[shard + 1] - 1, self.samples - rest)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_in_one_run_of_its_shard() {
        for (shards, block, run) in [
            (vec![], 1, 1),
            (vec![0, 0], 1, 3),
            (vec![1], 1, 1),
            (vec![10], 3, 3),
            (vec![10, 0, 7, 1], 2, 4),
            (vec![9, 9, 9], 3, 3),
            (vec![5, 5], 100, u64::MAX),
        ] {
            let layout = Layout::new(shards.clone(), block).unwrap();
            let runs = Runs::new(&layout, run);
            let mut next = 0;
            for number in 0..runs.len() {
                let RunSpan { shard, samples } = runs.run(&layout, number);
                assert_eq!(samples.start, next, "{shards:?}");
                assert!(samples.end > samples.start && samples.end - samples.start <= run);
                for sample in samples.clone() {
                    assert_eq!(runs.of_sample(&layout, sample), number);
                    assert_eq!(layout.place(sample).0, shard);
                }
                next = samples.end;
            }
            assert_eq!(next, layout.samples());
            for (number, missing) in runs.short(&layout) {
                let RunSpan { samples, .. } = runs.run(&layout, number);
                assert_eq!(samples.end - samples.start, run - missing);
            }
        }
    }

    #[test]
    fn blocks_of_nothing_and_too_many_samples_are_refused() {
        assert!(Layout::new([1], 0).is_err());
        assert!(Layout::new([u64::MAX, 1], 1).is_err());
        assert_eq!(Layout::new([u64::MAX], 1).unwrap().samples(), u64::MAX);
    }
}
