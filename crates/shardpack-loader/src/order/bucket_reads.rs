//! The reads of a rank in an epoch with batches by length.
//!
//! Holds at all times: a read has the samples that the rank takes from its segment, and each of them is taken once; a read stays
//! open until its last sample is taken.

use std::collections::BTreeMap;

use super::{Bucketed, RankLanes, Segment};

/// A read of a rank: a segment, and the samples that the rank needs from it.
#[derive(Clone, Debug)]
pub struct BucketRead {
    /// The segment to read.
    pub segment: Segment,
    /// The samples, by their index in the lane as [`Segment::start`]: ascending, at least one.
    pub steps: Box<[u64]>,
}

/// A sample of a rank, in the order in which the rank takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Number of its read, from 0.
    pub read: u64,
    /// Its index in the lane.
    pub step: u64,
    /// Whether it is the last one from this read.
    pub is_last: bool,
}

/// The reads of one rank in an epoch, in the order in which the rank needs them, and the order of its samples.
#[derive(Debug)]
pub struct BucketReads {
    lanes: RankLanes,
    bucketed: Bucketed,
    /// Number of the rank's next sample.
    next: u64,
    /// Number of reads so far.
    reads: u64,
    /// Reads with samples left, by lane and start of the segment.
    open: BTreeMap<(u64, u64), Open>,
}

#[derive(Debug)]
struct Open {
    read: u64,
    /// End of the segment in its lane.
    end: u64,
    left: u64,
}

impl BucketReads {
    /// The reads of the share of `lanes`, whose epoch is that of `bucketed`.
    pub fn new(lanes: RankLanes, bucketed: Bucketed) -> Self {
        Self { lanes, bucketed, next: 0, reads: 0, open: BTreeMap::new() }
    }

    /// The next read; `None` after the last one. Adds the samples up to its first one to `taken`; after the last read, all
    /// samples that are left.
    pub fn next_read(&mut self, taken: &mut Vec<Taken>) -> Option<BucketRead> {
        let (share, lanes) = (*self.lanes.share(), self.lanes.epoch().lanes());
        while self.next < share.len() {
            let number = self.next;
            self.next += 1;
            let place = share.position(number);
            let position = self.bucketed.position(place);
            let (lane, step) = (position % lanes, position / lanes);
            let is_own = number < share.own();
            if is_own {
                self.bucketed.forget_before(place);
                if let Some(one) = self.take_open(lane, step) {
                    taken.push(one);
                    continue;
                }
            }
            let segment = self.lanes.epoch().lane_segment(lane, step);
            // A sample that comes again at the end has a read of its own.
            let steps = if is_own { self.needed(lane, &segment, place) } else { [step].into() };
            let (read, left) = (self.reads, steps.len() as u64 - 1);
            self.reads += 1;
            taken.push(Taken { read, step, is_last: left == 0 });
            if left > 0 {
                self.open.insert((lane, segment.start), Open { read, end: segment.start + segment.len(), left });
            }
            return Some(BucketRead { segment, steps });
        }
        None
    }

    /// Takes a sample from an open read, if one has it.
    fn take_open(&mut self, lane: u64, step: u64) -> Option<Taken> {
        let (key, open) = self.open.range_mut((lane, 0)..=(lane, step)).next_back()?;
        if step >= open.end {
            return None;
        }
        open.left -= 1;
        let (key, taken) = (*key, Taken { read: open.read, step, is_last: open.left == 0 });
        if taken.is_last {
            self.open.remove(&key);
        }
        Some(taken)
    }

    /// The samples of a segment that the rank takes from `place` on. None is in an earlier window: it would have opened the read.
    fn needed(&mut self, lane: u64, segment: &Segment, place: u64) -> Box<[u64]> {
        let (share, lanes) = (*self.lanes.share(), self.lanes.epoch().lanes());
        let first = self.bucketed.window_start(place);
        let mut is_needed = |step: &u64| {
            let position = *step * lanes + lane;
            let place = if position < first { return false } else { self.bucketed.place(position) };
            let Some(after) = place.checked_sub(share.start()) else { return false };
            after % share.world() == share.rank() && after / share.world() < share.own()
        };
        (segment.start..segment.start + segment.len()).filter(|step| is_needed(step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::{
        super::{
            Buckets, Last, Share, Shuffle,
            buckets::tests::{epoch, length_of, twin, windows},
        },
        *,
    };

    proptest! {
        /// Also if the run goes on with other ranks and batches, in the middle of a window.
        #[test]
        fn reads_have_each_sample_of_the_rank_once_in_its_order(
            (epoch, buckets) in windows(),
            (ranks, of_rank, start) in (1u64..5, 1u64..5, 0u64..100),
            last in 0usize..3,
        ) {
            let bucketed = || Bucketed::new(Arc::clone(&epoch), buckets, Arc::new(length_of));
            let positions = twin(&epoch, buckets);
            for rank in 0..ranks {
                let start = start.min(epoch.len());
                let share = Share::new(epoch.len(), start, (rank, ranks), of_rank, Last::ALL[last]).unwrap();
                let mut reads = BucketReads::new(RankLanes::new(Arc::clone(&epoch), share), bucketed());
                let (mut all, mut found, mut taken) = (Vec::new(), Vec::new(), Vec::new());
                loop {
                    let read = reads.next_read(&mut taken);
                    let has_ended = read.is_none();
                    all.extend(read.map(|read| (read.segment, read.steps.to_vec())));
                    for one in taken.drain(..) {
                        let (segment, left) = &mut all[one.read as usize];
                        let at = left.iter().position(|step| *step == one.step);
                        prop_assert!(at.is_some(), "a sample that its read lacks");
                        left.remove(at.unwrap());
                        prop_assert_eq!(left.is_empty(), one.is_last);
                        found.push(segment.sample(one.step - segment.start));
                    }
                    if has_ended {
                        break;
                    }
                }
                prop_assert!(all.iter().all(|(_, left)| left.is_empty()), "a sample that nobody takes");
                let expected = |number| epoch.sample_at(positions[share.position(number) as usize]);
                prop_assert_eq!(found, (0..share.len()).map(expected).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn ranks_read_no_segment_of_another_rank() {
        let epoch = epoch(&[100, 57, 200], 12, Shuffle::Lanes);
        for (world, ranks) in [(4, 4), (4, 2), (6, 3)] {
            let buckets = Buckets::new(world, 3, 5).unwrap();
            assert_eq!(buckets.classes(12, ranks), ranks);
            let mut read = vec![0; 357];
            for rank in 0..ranks {
                let share = Share::new(357, 0, (rank, ranks), 4, Last::Short).unwrap();
                let bucketed = Bucketed::new(Arc::clone(&epoch), buckets, Arc::new(length_of));
                let mut reads = BucketReads::new(RankLanes::new(Arc::clone(&epoch), share), bucketed);
                while let Some(one) = reads.next_read(&mut Vec::new()) {
                    one.segment.ranges().flatten().for_each(|sample| read[sample as usize] += 1);
                }
            }
            assert_eq!(read, [1; 357], "{ranks} ranks");
        }
    }
}
