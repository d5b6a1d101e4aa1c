//! The reads of one rank in an epoch, in the order in which the rank needs them.
//!
//! Holds at all times: a read is a whole segment; reads are ordered by the first sample that needs them; each sample of the
//! rank is in exactly one read of its lane. Memory: 24 bytes for each lane of the rank.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use super::{Epoch, Segment, Share, options::gcd};

/// The lanes of one rank.
///
/// If the number of lanes is a multiple of the number of ranks, each lane belongs to one rank. Otherwise several ranks share
/// each lane, and every one reads the whole lane: see [`RankLanes::readers`].
#[derive(Clone, Debug)]
pub struct RankLanes {
    epoch: Arc<Epoch>,
    share: Share,
    /// Number of lanes of the rank, before they repeat.
    lanes: u64,
    /// Steps in a lane between two samples of the rank.
    stride: u64,
}

impl RankLanes {
    /// The lanes of `share` in `epoch`. `share` must be a share of `epoch`.
    pub fn new(epoch: Arc<Epoch>, share: Share) -> Self {
        let common = gcd(epoch.lanes(), share.world());
        Self { lanes: epoch.lanes() / common, stride: share.world() / common, epoch, share }
    }

    /// The epoch.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The epoch, to share it.
    pub(crate) fn shared_epoch(&self) -> Arc<Epoch> {
        Arc::clone(&self.epoch)
    }

    /// The share of this rank.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Number of ranks that read each byte: 1 if the number of lanes is a multiple of the number of ranks.
    pub fn readers(&self) -> u64 {
        self.stride
    }

    /// Number of lanes with samples of the rank, plus one for a repeated sample at the end.
    pub fn len(&self) -> usize {
        usize::try_from(self.lanes.min(self.share.own())).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// Whether the rank has no sample.
    pub fn is_empty(&self) -> bool {
        self.share.is_empty()
    }

    /// The lane of the rank, from 0, that holds its sample `number`; the last lane for a repeated sample.
    pub fn lane_of(&self, number: u64) -> usize {
        if number < self.share.own() { (number % self.lanes) as usize } else { self.len() - 1 }
    }

    /// The index of sample `number` in its lane of the epoch, in the same count as [`Segment::start`].
    pub fn step_of(&self, number: u64) -> u64 {
        self.share.position(number) / self.epoch.lanes()
    }

    /// All reads.
    pub fn reads(&self) -> Reads {
        let own = self.share.own();
        let mut next: BinaryHeap<_> =
            (0..self.lanes.min(own)).map(|number| Reverse((number, number as usize))).collect();
        if self.share.padded() > 0 {
            next.push(Reverse((own, self.len() - 1)));
        }
        Reads { lanes: self.clone(), next }
    }
}

/// A read: a segment, and the samples that the rank needs from it.
#[derive(Clone, Debug)]
pub struct Read {
    /// The lane of the rank, from 0; see [`RankLanes::lane_of`].
    pub lane: usize,
    /// The segment to read.
    pub segment: Segment,
    /// The first sample of the rank in the segment.
    pub first: u64,
    /// Number of samples of the rank in the segment, at least one.
    pub samples: u64,
}

/// Reads in the order in which the rank needs them.
#[derive(Clone, Debug)]
pub struct Reads {
    lanes: RankLanes,
    /// For each lane: the sample of the rank that needs the next segment, and the lane.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Iterator for Reads {
    type Item = Read;

    fn next(&mut self) -> Option<Read> {
        let Reverse((first, lane)) = self.next.pop()?;
        let RankLanes { epoch, share, lanes, stride } = &self.lanes;
        let step = self.lanes.step_of(first);
        let segment = epoch.lane_segment(share.position(first) % epoch.lanes(), step);
        if first >= share.own() {
            return Some(Read { lane, segment, first, samples: 1 });
        }
        let in_segment = (segment.start + segment.len() - step).div_ceil(*stride);
        let in_share = (share.own() - first).div_ceil(*lanes);
        if in_segment < in_share {
            self.next.push(Reverse((first + in_segment * lanes, lane)));
        }
        Some(Read { lane, segment, first, samples: in_segment.min(in_share) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::order::{Last, Layout, Options, Shuffle};

    proptest! {
        #[test]
        fn every_sample_of_a_rank_is_in_the_next_read_of_its_lane(
            shards in proptest::collection::vec(0u64..40, 0..6),
            block in 1u64..6,
            lanes in 1u64..20,
            shuffle in 0usize..3,
            world in 1u64..7,
            batch in 1u64..5,
            start in 0u64..50,
            last in 0usize..3,
        ) {
            let layout = Layout::new(shards, block).unwrap();
            let options = Options { shuffle: Shuffle::ALL[shuffle], seed: 5, lanes, run_blocks: 2, ..Options::default() };
            let epoch = Arc::new(Epoch::new(&layout, &options, 1).unwrap());
            let start = start.min(epoch.len());
            for rank in 0..world {
                let share = Share::new(epoch.len(), start, (rank, world), batch, Last::ALL[last]).unwrap();
                let lanes = RankLanes::new(Arc::clone(&epoch), share);
                let mut of_lane: Vec<Vec<Read>> = vec![Vec::new(); lanes.len()];
                let mut before = 0;
                for read in lanes.reads() {
                    prop_assert!(read.first >= before && read.samples > 0);
                    before = read.first;
                    of_lane[read.lane].push(read);
                }
                let mut taken = vec![0; lanes.len()];
                for number in 0..share.len() {
                    let lane = lanes.lane_of(number);
                    let read = &of_lane[lane][0];
                    let sample = read.segment.sample(lanes.step_of(number) - read.segment.start);
                    prop_assert_eq!(sample, epoch.sample_at(share.position(number)));
                    prop_assert!(taken[lane] > 0 || read.first == number);
                    taken[lane] += 1;
                    if taken[lane] == read.samples {
                        taken[lane] = 0;
                        of_lane[lane].remove(0);
                    }
                }
                prop_assert!(of_lane.iter().all(Vec::is_empty), "a read that nobody needs");
            }
        }
    }

    /// If the number of lanes is a multiple of the number of ranks, exactly one rank reads each sample, once.
    #[test]
    fn ranks_share_the_reads_without_overlap() {
        let layout = Layout::new([100, 57, 200], 7).unwrap();
        let epoch = Arc::new(Epoch::new(&layout, &Options { lanes: 12, ..Options::default() }, 0).unwrap());
        for (world, readers) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 5), (8, 2)] {
            let mut read = vec![0; 357];
            for rank in 0..world {
                let share = Share::new(357, 0, (rank, world), 4, Last::Short).unwrap();
                let lanes = RankLanes::new(Arc::clone(&epoch), share);
                assert_eq!(lanes.readers(), readers, "{world} ranks");
                lanes
                    .reads()
                    .flat_map(|one| one.segment.ranges())
                    .flatten()
                    .for_each(|sample| read[sample as usize] += 1);
            }
            assert!(read.iter().all(|times| *times >= 1 && *times <= readers), "{world} ranks: {read:?}");
        }
    }
}
