//! Simulates the requests of training ranks to a store, in the loader's own order.
//!
//! Lanes, runs, segments and the order of reads come from `shardpack_loader::order`. The only model of time is the rate at which a rank
//! takes samples. The length of runs follows from memory by the rule of docs/reference/order.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shardpack_loader::order::{Epoch, Last, Layout, Options, RankLanes, Share, Shuffle};

use crate::Result;

/// Dataset, ranks and memory of a training.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    /// Number of samples.
    pub samples: u64,
    /// Length of each sample in bytes.
    pub sample_bytes: u64,
    /// Samples in a shard.
    pub shard_samples: u64,
    /// Number of ranks.
    pub ranks: u64,
    /// Samples in a batch of one rank.
    pub batch: u64,
    /// Read-ahead memory of a rank in bytes.
    pub memory_bytes: u64,
    /// Samples a second that a rank takes.
    pub rate: u64,
}

/// Length in bytes of a block, and of the longest run below.
const BLOCK_BYTES: u64 = 512 << 10;
const MAX_RUN_BYTES: u64 = 8 << 20;

impl Training {
    /// Number of lanes of all ranks.
    pub fn lanes(&self) -> u64 {
        Options::lanes_for(self.ranks, self.batch)
    }

    /// Samples in a block.
    pub fn block_samples(&self) -> u64 {
        BLOCK_BYTES.div_ceil(self.sample_bytes).min(self.samples.max(1))
    }

    /// Blocks in a run: two runs of each lane fill the memory of a rank.
    pub fn run_blocks(&self) -> u64 {
        let open = self.lanes().div_ceil(self.ranks);
        let run_bytes = (self.memory_bytes / (2 * open)).min(MAX_RUN_BYTES);
        (run_bytes / (self.block_samples() * self.sample_bytes)).max(1)
    }

    /// Length in bytes of a run, except for the last run of a shard.
    pub fn run_bytes(&self) -> u64 {
        self.run_blocks() * self.block_samples() * self.sample_bytes
    }

    fn epoch(&self) -> Result<Arc<Epoch>> {
        let shards = self.samples.div_ceil(self.shard_samples);
        let left = |shard: u64| (self.samples - shard * self.shard_samples).min(self.shard_samples);
        let layout = Layout::new((0..shards).map(left), self.block_samples()).map_err(|error| error.to_string())?;
        let options = Options {
            shuffle: Shuffle::Lanes,
            seed: 0,
            lanes: self.lanes(),
            run_blocks: self.run_blocks(),
            ..Options::default()
        };
        Ok(Arc::new(Epoch::new(&layout, &options, 0).map_err(|error| error.to_string())?))
    }

    fn rank(&self, epoch: &Arc<Epoch>, rank: u64) -> Result<RankLanes> {
        let share = Share::new(epoch.len(), 0, (rank, self.ranks), self.batch, Last::Short);
        Ok(RankLanes::new(Arc::clone(epoch), share.map_err(|error| error.to_string())?))
    }

    /// Load on the store after the first second, during `seconds` of training, measured on `ranks` evenly spaced ranks.
    pub fn load(&self, seconds: u64, ranks: u64) -> Result<Load> {
        let epoch = self.epoch()?;
        let ranks = ranks.clamp(1, self.ranks);
        let (mut requests, mut bytes, mut busiest) = (0, 0, 0);
        for number in 0..ranks {
            let mut each = vec![0_u64; seconds as usize];
            for read in self.rank(&epoch, number * self.ranks / ranks)?.reads() {
                let second = read.first / self.rate;
                if second > seconds {
                    break;
                }
                // All lanes begin in the first second.
                if let Some(at) = second.checked_sub(1) {
                    each[at as usize] += read.segment.ranges().count() as u64;
                    bytes += read.segment.len() * self.sample_bytes;
                }
            }
            requests += each.iter().sum::<u64>();
            busiest = each.into_iter().fold(busiest, u64::max);
        }
        let of_rank = |all: u64| all as f64 / (ranks * seconds) as f64;
        let (requests, bytes, most_on_a_shard) = (of_rank(requests), of_rank(bytes), self.most_on_a_shard(&epoch));
        Ok(Load { requests, busiest, bytes, most_on_a_shard })
    }

    /// Of the lanes that begin at the same time, the maximum number in one shard.
    fn most_on_a_shard(&self, epoch: &Epoch) -> u64 {
        let mut lanes = BTreeMap::new();
        for lane in 0..epoch.lanes() {
            if let Some(segment) = epoch.segments(lane, 0).next() {
                *lanes.entry(segment.shard).or_insert(0) += 1;
            }
        }
        lanes.into_values().max().unwrap_or(0)
    }

    /// Reads of each rank in a whole epoch.
    pub fn shares(&self) -> Result<Vec<Reading>> {
        let epoch = self.epoch()?;
        let of_rank = |rank| {
            let (mut samples, mut read, mut shards) = (0, 0, BTreeSet::new());
            for one in self.rank(&epoch, rank)?.reads() {
                samples += one.samples;
                read += one.segment.len();
                shards.insert(one.segment.shard);
            }
            Ok(Reading { samples, read, shards: shards.len() as u64 })
        };
        (0..self.ranks).map(of_rank).collect()
    }

    /// Number of ranks that read each byte if `ranks` ranks resume with these lanes.
    pub fn readers(&self, ranks: u64) -> Result<u64> {
        let epoch = self.epoch()?;
        Ok(Self { ranks, ..*self }.rank(&epoch, 0)?.readers())
    }
}

/// Requests of one rank to the store in a second.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Mean number of runs read.
    pub requests: f64,
    /// Runs read in the busiest second of any rank.
    pub busiest: u64,
    /// Mean number of bytes read.
    pub bytes: f64,
    /// Maximum number of lanes of all ranks that begin in one shard.
    pub most_on_a_shard: u64,
}

/// Reads of a rank in an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Samples that the rank takes.
    pub samples: u64,
    /// Samples in the ranges read.
    pub read: u64,
    /// Shards of these samples.
    pub shards: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Training = Training {
        samples: 10_000,
        sample_bytes: 256 << 10,
        shard_samples: 1_000,
        ranks: 2,
        batch: 12,
        memory_bytes: 48 << 20,
        rate: 12,
    };

    #[test]
    fn lanes_blocks_and_runs_are_what_a_hand_computes() {
        // 24 lanes, 12 a rank; blocks of two; 2 MiB for each of 24 runs in memory: four blocks.
        assert_eq!((SMALL.lanes(), SMALL.block_samples(), SMALL.run_blocks(), SMALL.run_bytes()), (24, 2, 4, 2 << 20));
        // At least one block, at most 8 MiB.
        assert_eq!(Training { memory_bytes: 1, ..SMALL }.run_blocks(), 1);
        assert_eq!(Training { memory_bytes: 1 << 40, ..SMALL }.run_bytes(), 8 << 20);
        // A sample longer than a block forms a block.
        assert_eq!(Training { sample_bytes: 1 << 20, ..SMALL }.block_samples(), 1);
    }

    #[test]
    fn a_rank_reads_a_run_for_as_many_samples_as_are_in_it() {
        // Twelve samples a second, one per lane; runs of eight: each lane reads once in eight seconds, 1.5 in all.
        let load = SMALL.load(300, 2).unwrap();
        assert!((1.45..1.55).contains(&load.requests), "{load:?}");
        assert!((load.bytes / f64::from(12 << 18) - 1.0).abs() < 0.03, "{load:?}");
        assert!(load.busiest >= 2 && load.busiest <= 12 && load.most_on_a_shard >= 3, "{load:?}");
    }

    #[test]
    fn ranks_take_as_many_samples_and_read_no_more_however_few_the_shards() {
        for shard_samples in [10_000, 5_000, 3_000, 999, 10] {
            let shares = Training { shard_samples, ..SMALL }.shares().unwrap();
            let samples: Vec<u64> = shares.iter().map(|share| share.samples).collect();
            assert_eq!(samples, [5_000, 5_000], "{shard_samples}");
            assert!(shares.iter().all(|share| share.read == share.samples), "{shares:?}");
        }
        assert_eq!([1, 2, 3, 4, 5, 7].map(|ranks| SMALL.readers(ranks).unwrap()), [1, 1, 1, 1, 5, 7]);
    }
}
