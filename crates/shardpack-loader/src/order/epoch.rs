//! One epoch: a bijection between positions and samples, and the segments of each lane.
//!
//! Holds at all times: every sample has one position and every position one sample; lanes differ by at most one sample in
//! length; a segment is consecutive samples of one rotated run, and no two segments share a sample, so each byte is read
//! once. In addition to the layout, an epoch keeps 24 bytes per shard.

use std::ops::Range;

use shardpack_format::{
    Result,
    permutation::{Permutation, mix},
};

use super::{
    GOLDEN, Layout, Options, Shuffle,
    layout::{RunSpan, Runs},
};

/// The key of an epoch, from which all of its random choices follow.
pub(super) fn epoch_key(seed: u64, epoch: u64) -> u64 {
    mix(mix(seed.wrapping_add(GOLDEN)).wrapping_add(epoch.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// The key that selects, for part `part` of a mix, the samples that come once more than others in an epoch.
pub(crate) fn part_key(seed: u64, epoch: u64, part: u64) -> u64 {
    mix(mix(epoch_key(seed, epoch) ^ GOLDEN).wrapping_add(part.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// The order of one epoch.
#[derive(Clone, Debug)]
pub struct Epoch {
    layout: Layout,
    runs: Runs,
    /// Maps slots to runs; `None` for stored order.
    slots: Option<Permutation>,
    is_rotated: bool,
    key: u64,
    lanes: u64,
    /// Slots of runs that are shorter than the others, ascending.
    short: Box<[Short]>,
}

#[derive(Clone, Copy, Debug)]
struct Short {
    slot: u64,
    /// End of the slot in the sequence.
    end: u64,
    /// Number of samples that this run and all short runs before it lack together.
    missing: u64,
}

impl Epoch {
    /// The order of epoch `epoch`.
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn new(layout: &Layout, options: &Options, epoch: u64) -> Result<Self> {
        options.check()?;
        let run_samples = match options.shuffle {
            Shuffle::Full => 1,
            // A run never has more than all samples; the cap also keeps every product below small.
            _ => options.run_blocks.saturating_mul(layout.block_samples()).min(layout.samples().max(1)),
        };
        let runs = Runs::new(layout, run_samples);
        let key = epoch_key(options.seed, epoch);
        let slots = (options.shuffle != Shuffle::None).then(|| Permutation::new(runs.len(), key));
        let slot_of = |run: u64| slots.as_ref().map_or(run, |slots| slots.position_of(run));
        let mut short: Vec<_> =
            runs.short(layout).map(|(run, missing)| Short { slot: slot_of(run), end: 0, missing }).collect();
        short.sort_unstable_by_key(|short| short.slot);
        let mut missing = 0;
        for short in &mut short {
            missing += short.missing;
            short.missing = missing;
            // Exact modulo 2^64, and less than the number of samples.
            short.end = (short.slot + 1).wrapping_mul(run_samples).wrapping_sub(missing);
        }
        let lanes = if options.shuffle == Shuffle::Lanes { options.lanes } else { 1 };
        let is_rotated = options.rotated && slots.is_some();
        Ok(Self { layout: layout.clone(), runs, slots, is_rotated, key, lanes, short: short.into() })
    }

    /// Number of positions, equal to the number of samples.
    pub fn len(&self) -> u64 {
        self.layout.samples()
    }

    /// Whether the epoch has no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of lanes.
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    /// Samples of a run, except for the last run of each shard.
    pub fn run_samples(&self) -> u64 {
        self.runs.samples()
    }

    /// The layout of the dataset.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of the sample at `position`, which is less than [`Epoch::len`].
    pub fn sample_at(&self, position: u64) -> u64 {
        let index = self.lane_start(position % self.lanes) + position / self.lanes;
        let segment = self.segment(index);
        segment.sample(index - segment.start)
    }

    /// The position of sample `number`, which is less than [`Epoch::len`].
    pub fn position_of(&self, number: u64) -> u64 {
        let run = self.runs.of_sample(&self.layout, number);
        let slot = self.slots.as_ref().map_or(run, |slots| slots.position_of(run));
        let run = self.runs.run(&self.layout, run).samples;
        let place = forward(number - run.start, (run.end - run.start) - self.first_of(&run), run.end - run.start);
        let segment = self.segment(self.slot_start(slot) + place);
        let index = segment.start + segment.number_of(number);
        let lane = self.lane_of(index);
        (index - self.lane_start(lane)) * self.lanes + lane
    }

    /// The stored place of sample `number` in its run, from 0 at the start to 1, exclusive. `number` is less than [`Epoch::len`].
    pub fn place_in_run(&self, number: u64) -> f64 {
        let run = self.runs.run(&self.layout, self.runs.of_sample(&self.layout, number)).samples;
        (number - run.start) as f64 / (run.end - run.start) as f64
    }

    /// Number of runs.
    pub fn run_count(&self) -> u64 {
        self.runs.len()
    }

    /// Number of samples in `lane`.
    pub fn lane_len(&self, lane: u64) -> u64 {
        self.lane_start(lane + 1) - self.lane_start(lane)
    }

    /// The segment of `lane` that holds sample `step` of the lane, which is less than [`Epoch::lane_len`].
    pub(super) fn lane_segment(&self, lane: u64, step: u64) -> Segment {
        let start = self.lane_start(lane);
        let mut segment = self.segment(start + step);
        segment.start -= start;
        segment
    }

    /// The segments of `lane`, from the segment that holds sample `from` of the lane.
    pub fn segments(&self, lane: u64, from: u64) -> Segments<'_> {
        Segments { epoch: self, lane, next: from, end: self.lane_len(lane) }
    }

    /// The key of window `number` of [`super::Buckets`]; `None` for stored order.
    pub(super) fn window_key(&self, number: u64) -> Option<u64> {
        let key = mix(mix(self.key.wrapping_add(GOLDEN.wrapping_mul(2)))
            .wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN)));
        self.slots.is_some().then_some(key)
    }

    /// The segment that holds index `index` of the sequence. Its `start` is an index in the sequence, not in the lane.
    fn segment(&self, index: u64) -> Segment {
        let before = self.short.partition_point(|short| short.end <= index);
        let missing = before.checked_sub(1).map_or(0, |last| self.short[last].missing);
        // Less than the number of runs.
        let slot = ((u128::from(index) + u128::from(missing)) / u128::from(self.runs.samples())) as u64;
        let run = self.slots.as_ref().map_or(slot, |slots| slots.sample_at(slot));
        let RunSpan { shard, samples } = self.runs.run(&self.layout, run);
        let run_start = self.slot_start(slot);
        let run_end = run_start + (samples.end - samples.start);
        let lane = self.lane_of(index);
        let (start, end) = (run_start.max(self.lane_start(lane)), run_end.min(self.lane_start(lane + 1)));
        let from = forward(start - run_start, self.first_of(&samples), samples.end - samples.start);
        let order = (self.slots.is_some() && end - start > 1)
            .then(|| Permutation::new(end - start, segment_key(self.key, samples.start + from)));
        Segment { shard, run: samples, from, len: end - start, start, order }
    }

    /// The offset, in samples, at which a rotated run begins.
    fn first_of(&self, run: &Range<u64>) -> u64 {
        if !self.is_rotated {
            return 0;
        }
        // Less than the length of the run.
        ((u128::from(rotation_key(self.key, run.start)) * u128::from(run.end - run.start)) >> 64) as u64
    }

    /// Start of slot `slot` in the sequence.
    fn slot_start(&self, slot: u64) -> u64 {
        let before = self.short.partition_point(|short| short.slot < slot);
        let missing = before.checked_sub(1).map_or(0, |last| self.short[last].missing);
        // Exact modulo 2^64, and less than the number of samples.
        slot.wrapping_mul(self.runs.samples()).wrapping_sub(missing)
    }

    /// Start of lane `lane` in the sequence; for the number of lanes, the end of the sequence.
    fn lane_start(&self, lane: u64) -> u64 {
        let (each, more) = (self.len() / self.lanes, self.len() % self.lanes);
        lane * each + lane.min(more)
    }

    fn lane_of(&self, index: u64) -> u64 {
        let (each, more) = (self.len() / self.lanes, self.len() % self.lanes);
        // At most the number of samples.
        let in_longer = more * (each + 1);
        if index < in_longer { index / (each + 1) } else { more + (index - in_longer) / each }
    }
}

fn segment_key(epoch_key: u64, first: u64) -> u64 {
    mix(mix(epoch_key).wrapping_add(first.wrapping_add(1).wrapping_mul(GOLDEN)))
}

fn rotation_key(epoch_key: u64, first: u64) -> u64 {
    mix(mix(epoch_key.wrapping_add(GOLDEN)).wrapping_add(first.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// `(place + by) % len` without overflow, for `place` below `len` and `by` at most `len`.
fn forward(place: u64, by: u64, len: u64) -> u64 {
    let left = len - place;
    if by < left { place + by } else { by - left }
}

/// Consecutive samples of one run in one lane.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The shard that holds the samples.
    pub shard: usize,
    /// The run: sample numbers in the dataset.
    run: Range<u64>,
    /// Offset of the first sample in the run. The run wraps around: its first sample follows its last.
    from: u64,
    len: u64,
    /// The index in the lane, from 0, of the first sample.
    pub start: u64,
    /// `None` for stored order.
    order: Option<Permutation>,
}

impl Segment {
    /// Number of samples, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The sample numbers in the dataset, ascending: one range, or two ranges with other samples of the run between.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let Range { start, end } = self.run;
        // Samples from the first one to the end of the run.
        let behind = (end - start) - self.from;
        let ranges = if self.len == end - start {
            [start..end, end..end]
        } else if self.len <= behind {
            [start + self.from..start + self.from + self.len, end..end]
        } else {
            [start..start + (self.len - behind), start + self.from..end]
        };
        ranges.into_iter().filter(|range| !range.is_empty())
    }

    /// The number in the dataset of sample `number` of the segment, which is less than [`Segment::len`].
    pub fn sample(&self, number: u64) -> u64 {
        let number = self.order.as_ref().map_or(number, |order| order.sample_at(number));
        self.run.start + forward(self.from, number, self.run.end - self.run.start)
    }

    fn number_of(&self, sample: u64) -> u64 {
        let run = self.run.end - self.run.start;
        let number = forward(sample - self.run.start, run - self.from, run);
        self.order.as_ref().map_or(number, |order| order.position_of(number))
    }
}

/// The segments of a lane.
#[derive(Clone, Debug)]
pub struct Segments<'e> {
    epoch: &'e Epoch,
    lane: u64,
    next: u64,
    end: u64,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if self.next >= self.end {
            return None;
        }
        let segment = self.epoch.lane_segment(self.lane, self.next);
        self.next = segment.start + segment.len();
        Some(segment)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn epoch(shards: &[u64], block: u64, options: Options, number: u64) -> Epoch {
        Epoch::new(&Layout::new(shards.iter().copied(), block).unwrap(), &options, number).unwrap()
    }

    /// The order as `docs/reference/order.md` defines it: all runs in a list, joined, cut into lanes, each piece of a run permuted.
    fn twin(shards: &[u64], block: u64, options: &Options, number: u64) -> Vec<u64> {
        let key = epoch_key(options.seed, number);
        let total: u64 = shards.iter().sum();
        let run = match options.shuffle {
            Shuffle::Full => 1,
            _ => (options.run_blocks * block).min(total.max(1)),
        };
        let is_shuffled = options.shuffle != Shuffle::None;
        let mut runs = Vec::new();
        let mut start = 0;
        for samples in shards {
            let all: Vec<u64> = (start..start + samples).collect();
            runs.extend(all.chunks(run as usize).map(<[u64]>::to_vec));
            start += samples;
        }
        for run in runs.iter_mut().filter(|_| is_shuffled && options.rotated) {
            let first = (u128::from(rotation_key(key, run[0])) * run.len() as u128) >> 64;
            run.rotate_left(first as usize);
        }
        let permutation = Permutation::new(runs.len() as u64, key);
        let slots = (0..runs.len() as u64).map(|slot| if is_shuffled { permutation.sample_at(slot) } else { slot });
        let sequence: Vec<(u64, u64)> = slots
            .flat_map(|run| runs[run as usize].iter().map(move |sample| (run, *sample)).collect::<Vec<_>>())
            .collect();
        let lanes = if options.shuffle == Shuffle::Lanes { options.lanes as usize } else { 1 };
        let (each, more) = (sequence.len() / lanes, sequence.len() % lanes);
        let mut rest = &sequence[..];
        let mut lane_samples = Vec::new();
        for lane in 0..lanes {
            let (here, after) = rest.split_at(each + usize::from(lane < more));
            rest = after;
            let mut samples = Vec::new();
            for piece in here.chunk_by(|a, b| a.0 == b.0) {
                let order = Permutation::new(piece.len() as u64, segment_key(key, piece[0].1));
                samples.extend(
                    (0..piece.len())
                        .map(|at| piece[if is_shuffled { order.sample_at(at as u64) as usize } else { at }].1),
                );
            }
            lane_samples.push(samples);
        }
        (0..sequence.len()).map(|position| lane_samples[position % lanes][position / lanes]).collect()
    }

    proptest! {
        #[test]
        fn it_is_the_order_of_the_page_and_its_inverse(
            shards in proptest::collection::vec(0u64..40, 0..8),
            block in 1u64..6,
            run_blocks in 1u64..5,
            lanes in 1u64..20,
            shuffle in 0usize..3,
            seed: u64,
            rotated: bool,
            number in 0u64..3,
        ) {
            let options = Options { shuffle: Shuffle::ALL[shuffle], seed, lanes, run_blocks, rotated };
            let epoch = epoch(&shards, block, options, number);
            let expected = twin(&shards, block, &options, number);
            prop_assert_eq!(epoch.len(), expected.len() as u64);
            let found: Vec<_> = (0..epoch.len()).map(|position| epoch.sample_at(position)).collect();
            prop_assert_eq!(&found, &expected);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..epoch.len()).collect::<Vec<_>>());
            for (position, sample) in found.iter().enumerate() {
                prop_assert_eq!(epoch.position_of(*sample), position as u64);
            }
            // The segments of the lanes give the same order, from any sample of a lane.
            for lane in 0..epoch.lanes() {
                let all: Vec<_> = (0..epoch.lane_len(lane)).map(|at| found[(at * epoch.lanes() + lane) as usize]).collect();
                for from in [0, 1, all.len() / 2, all.len()] {
                    let mut next = None;
                    for segment in epoch.segments(lane, from as u64) {
                        prop_assert!(next.is_none_or(|next| next == segment.start));
                        prop_assert!(next.is_some() || (segment.start..segment.start + segment.len()).contains(&(from as u64)));
                        for at in 0..segment.len() {
                            prop_assert_eq!(segment.sample(at), all[(segment.start + at) as usize]);
                            prop_assert_eq!(epoch.layout().place(segment.sample(at)).0, segment.shard);
                        }
                        let mut samples: Vec<_> = (0..segment.len()).map(|at| segment.sample(at)).collect();
                        samples.sort_unstable();
                        prop_assert_eq!(samples, segment.ranges().flatten().collect::<Vec<_>>());
                        next = Some(segment.start + segment.len());
                    }
                    prop_assert_eq!(next.unwrap_or(all.len() as u64), all.len() as u64);
                }
            }
        }
    }

    /// The lines of the page: the expected values and the computed values.
    #[test]
    fn vectors_of_the_documentation() {
        let page = include_str!("../../../../docs/reference/order.md");
        let block = page.split_once("```epochs\n").unwrap().1.split_once("```").unwrap().0;
        let mut lines = 0;
        for line in block.lines() {
            let [shards, rest] = line.split("; ").collect::<Vec<_>>()[..] else { panic!("{line}") };
            let (options, expected) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
            let shards: Vec<u64> = shards.split(' ').map(|count| count.parse().unwrap()).collect();
            let [block, shuffle, lanes, run_blocks, seed, number] = options.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let [block, lanes, run_blocks, seed, number] =
                [block, lanes, run_blocks, seed, number].map(|number| number.parse().unwrap());
            let options = Options { shuffle: Shuffle::parse(shuffle).unwrap(), seed, lanes, run_blocks, rotated: true };
            let epoch = epoch(&shards, block, options, number);
            let last = epoch.len() - 1;
            let found: Vec<_> =
                (0..8.min(last)).chain([last]).map(|position| epoch.sample_at(position).to_string()).collect();
            assert_eq!(found.join(" "), expected, "{line}");
            lines += 1;
        }
        assert!(lines >= 8);
    }

    #[test]
    fn stored_order_is_that_of_the_numbers_and_epochs_differ_otherwise() {
        let shards = [30, 1, 29];
        let order = |shuffle, seed, number| {
            let options = Options { shuffle, seed, lanes: 5, run_blocks: 2, ..Options::default() };
            let epoch = epoch(&shards, 4, options, number);
            (0..epoch.len()).map(|position| epoch.sample_at(position)).collect::<Vec<_>>()
        };
        assert_eq!(order(Shuffle::None, 3, 9), (0..60).collect::<Vec<_>>());
        for shuffle in [Shuffle::Lanes, Shuffle::Full] {
            assert_ne!(order(shuffle, 0, 0), order(shuffle, 0, 1));
            assert_ne!(order(shuffle, 0, 0), order(shuffle, 1, 0));
        }
        assert_ne!(order(Shuffle::Full, 0, 0), order(Shuffle::Lanes, 0, 0));
    }

    /// With as many lanes as samples in a batch, no batch has two samples of one run, except for runs that a lane end cuts.
    #[test]
    fn a_batch_has_one_sample_of_each_lane() {
        let options = Options { lanes: 48, run_blocks: 2, ..Options::default() };
        let epoch = epoch(&[997; 40], 5, options, 3);
        for position in (0..epoch.len() - 48).step_by(37) {
            let lanes: std::collections::HashSet<_> = (position..position + 48).map(|at| at % 48).collect();
            let samples: std::collections::HashSet<_> =
                (position..position + 48).map(|at| epoch.sample_at(at)).collect();
            assert_eq!((lanes.len(), samples.len()), (48, 48));
        }
    }

    #[test]
    fn numbers_near_the_limit_do_not_overflow() {
        let huge = [u64::MAX - 1000, 0, 999];
        for shuffle in Shuffle::ALL {
            let options = Options { shuffle, seed: 1, lanes: 264, run_blocks: u64::MAX, ..Options::default() };
            for block in [1, 1000, u64::MAX] {
                let options = Options { run_blocks: if block == 1 { 7 } else { options.run_blocks }, ..options };
                let epoch = epoch(&huge, block, options, u64::MAX);
                for position in [0, 1, 263, 264, epoch.len() / 2, epoch.len() - 1] {
                    assert_eq!(epoch.position_of(epoch.sample_at(position)), position, "{shuffle:?}, {block}");
                }
            }
        }
        for options in [Options { lanes: 0, ..Options::default() }, Options { run_blocks: 0, ..Options::default() }] {
            assert!(Epoch::new(&Layout::new([1], 1).unwrap(), &options, 0).is_err());
        }
        let more_lanes = Options { lanes: u64::MAX, ..Options::default() };
        let epoch = epoch(&[3], 1, more_lanes, 0);
        assert_eq!((0..3).map(|at| epoch.position_of(epoch.sample_at(at))).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
