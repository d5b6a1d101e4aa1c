//! Batches of samples of similar length: a permutation of the positions of an epoch, inside windows.
//!
//! Holds at all times: a place and its position are in the same window and have the same remainder modulo the ranks, so a rank
//! reads its own lanes; the samples after the last whole step keep their positions, so [`super::Last::Drop`] drops the same
//! samples. Memory: 8 bytes for each position of a window of a rank. `docs/reference/order.md` specifies it.

use std::{collections::BTreeMap, sync::Arc};

use shardpack_format::{Error, Result, permutation::Permutation};

use super::{Epoch, Segment, options::gcd};

/// Windows in which samples are ordered by length: `batches` steps, each of `batch` samples on each of `world` ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    world: u64,
    batch: u64,
    batches: u64,
    /// Limit for the padded length of a batch.
    tokens: Option<u64>,
}

/// The length of a sample as a [`length_key`], by its number in the order.
pub type LengthOf = Arc<dyn Fn(u64) -> u32 + Send + Sync>;

/// A number above 0 that compares as `length` does; 0 for NaN, which is before all others.
pub fn length_key(length: f32) -> u32 {
    let bits = length.to_bits();
    match (length.is_nan(), length.is_sign_negative()) {
        (true, _) => 0,
        (false, true) => !bits,
        (false, false) => bits | 1 << 31,
    }
}

/// The length behind a [`length_key`]; 0 for negative ones and for NaN.
fn length_of_key(key: u32) -> f32 {
    // Keys of negative lengths lack the bit.
    if key >> 31 == 1 { f32::from_bits(key & !(1 << 31)) } else { 0.0 }
}

impl Buckets {
    /// Windows of `batches` batches of `batch` samples for `world` ranks.
    ///
    /// # Errors
    /// If a number is 0, or a window has 2^32 samples or more.
    pub fn new(world: u64, batch: u64, batches: u64) -> Result<Self> {
        let samples = world.checked_mul(batch).and_then(|step| step.checked_mul(batches));
        match samples {
            Some(1..=0xffff_ffff) => Ok(Self { world, batch, batches, tokens: None }),
            _ => Err(Error::usage(format!("windows of {batches} batches of {batch} samples for {world} ranks"))),
        }
    }

    /// The same windows, with batches that end before their longest sample times their number of samples exceeds `tokens`. A
    /// longer sample is a batch of its own. All ranks have batches of the same number of samples at each step.
    pub fn within(self, tokens: u64) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Samples of a rank in a unit of windows: a batch, or one sample if batches differ in length.
    fn unit(&self) -> u64 {
        if self.tokens.is_some() { 1 } else { self.batch }
    }

    /// Samples of a window, of all ranks together.
    pub fn samples(&self) -> u64 {
        self.world * self.batch * self.batches
    }

    /// Number of classes of lanes, if `world` ranks read `lanes`: each rank reads the lanes of one class.
    pub fn classes(&self, lanes: u64, world: u64) -> u64 {
        gcd(gcd(self.world, world), lanes)
    }
}

/// The places of an epoch and their positions. A rank takes place after place; the position is that of [`Epoch`].
pub struct Bucketed {
    epoch: Arc<Epoch>,
    buckets: Buckets,
    length_of: LengthOf,
    /// Number of whole units of all ranks.
    units: u64,
    /// Number of windows: their lengths differ by at most one unit.
    windows: u64,
    /// The windows in use, by number.
    known: BTreeMap<u64, Window>,
    /// For each lane, the segment of the latest sample.
    segments: BTreeMap<u64, Segment>,
}

impl std::fmt::Debug for Bucketed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucketed").field("buckets", &self.buckets).finish_non_exhaustive()
    }
}

struct Window {
    /// Number of a rank's first sample in the window.
    first: u64,
    cuts: Cuts,
    /// The samples of each rank, once they are needed.
    ranks: BTreeMap<u64, Sorted>,
}

/// The samples of one rank in a window.
struct Sorted {
    /// Their numbers in the window, by length; samples of one length keep their order.
    by_length: Box<[u32]>,
    /// The inverse.
    inverse: Box<[u32]>,
}

/// The batches of a window, the same for all ranks. Numbers of samples are those of one rank.
struct Cuts {
    /// The first sample of each batch, by length; and the end.
    sorted: Box<[u64]>,
    /// The first sample of each batch, by place; and the end.
    starts: Box<[u64]>,
    /// Maps batches by place to batches by length; `None` for stored order, where batches ascend.
    order: Option<Permutation>,
}

impl Cuts {
    fn new(sorted: Vec<u64>, key: Option<u64>) -> Self {
        let batches = sorted.len() as u64 - 1;
        let order = key.map(|key| Permutation::new(batches, key));
        let mut starts = vec![0];
        for at in 0..batches {
            let chosen = order.as_ref().map_or(at, |order| order.sample_at(at)) as usize;
            starts.push(starts[at as usize] + sorted[chosen + 1] - sorted[chosen]);
        }
        Self { sorted: sorted.into(), starts: starts.into(), order }
    }

    /// The batch that has place `place`, and the place's number by length.
    fn sorted(&self, place: u64) -> u64 {
        let batch = self.batch(place);
        let chosen = self.order.as_ref().map_or(batch as u64, |order| order.sample_at(batch as u64));
        self.sorted[chosen as usize] + (place - self.starts[batch])
    }

    /// The inverse of [`Cuts::sorted`].
    fn place(&self, sorted: u64) -> u64 {
        let chosen = self.sorted.partition_point(|start| *start <= sorted) - 1;
        let batch = self.order.as_ref().map_or(chosen as u64, |order| order.position_of(chosen as u64));
        self.starts[batch as usize] + (sorted - self.sorted[chosen])
    }

    /// The number of the batch that has place `place`.
    fn batch(&self, place: u64) -> usize {
        self.starts.partition_point(|start| *start <= place) - 1
    }
}

impl Bucketed {
    /// The places of `epoch`.
    pub fn new(epoch: Arc<Epoch>, buckets: Buckets, length_of: LengthOf) -> Self {
        let units = epoch.len() / (buckets.world * buckets.unit());
        let windows = units.div_ceil(buckets.batches * buckets.batch / buckets.unit());
        Self { epoch, buckets, length_of, units, windows, known: BTreeMap::new(), segments: BTreeMap::new() }
    }

    /// The position of `place`, which is less than [`Epoch::len`].
    pub fn position(&mut self, place: u64) -> u64 {
        let Some(number) = self.window_of(place) else { return place };
        let world = self.buckets.world;
        let (of_rank, rank) = (place / world, place % world);
        let window = self.window(number, rank);
        let sorted = window.cuts.sorted(of_rank - window.first);
        (window.first + u64::from(window.ranks[&rank].by_length[sorted as usize])) * world + rank
    }

    /// The place of `position`, which is less than [`Epoch::len`]; the inverse of [`Bucketed::position`].
    pub fn place(&mut self, position: u64) -> u64 {
        let Some(number) = self.window_of(position) else { return position };
        let world = self.buckets.world;
        let (of_rank, rank) = (position / world, position % world);
        let window = self.window(number, rank);
        let sorted = window.ranks[&rank].inverse[(of_rank - window.first) as usize];
        (window.first + window.cuts.place(u64::from(sorted))) * world + rank
    }

    /// Start and end of the batch that has a rank's sample `of_rank` since the start of the epoch, in the same count, if batches are
    /// limited by tokens. Samples of an incomplete last step are a batch.
    pub fn batch_of(&mut self, of_rank: u64) -> (u64, u64) {
        let Some(number) = self.window_of(of_rank.saturating_mul(self.buckets.world)) else {
            return (self.units, of_rank + 1);
        };
        let window = self.window(number, 0);
        let batch = window.cuts.batch(of_rank - window.first);
        (window.first + window.cuts.starts[batch], window.first + window.cuts.starts[batch + 1])
    }

    /// Number of batches from `place` on up to the last whole step of all ranks, if batches are limited by tokens.
    pub fn batches_from(&mut self, place: u64) -> u64 {
        let Some(first) = self.window_of(place) else { return 0 };
        let mut batches = 0;
        for number in first..self.windows {
            let world = self.buckets.world;
            let window = self.window(number, 0);
            let before = if number == first { window.cuts.batch(place / world - window.first) } else { 0 };
            batches += (window.cuts.starts.len() - 1 - before) as u64;
            self.known.remove(&number);
        }
        batches
    }

    /// The window of a place, which is also that of its position; `None` after the last whole unit.
    fn window_of(&self, place: u64) -> Option<u64> {
        let unit = place / (self.buckets.world * self.buckets.unit());
        // Less than the number of windows.
        let window = || (u128::from(unit) * u128::from(self.windows) / u128::from(self.units)) as u64;
        (unit < self.units).then(window)
    }

    /// Number of a rank's first sample in window `number`; for the number of windows, of the first sample in none.
    fn first(&self, number: u64) -> u64 {
        // At most the number of units. Rounded up, so that `window_of` is the inverse.
        let unit = (u128::from(number) * u128::from(self.units)).div_ceil(u128::from(self.windows.max(1))) as u64;
        unit * self.buckets.unit()
    }

    /// The first place of the window of `place`.
    pub(super) fn window_start(&self, place: u64) -> u64 {
        self.first(self.window_of(place).unwrap_or(self.windows)) * self.buckets.world
    }

    /// Forgets the windows before `place`.
    pub fn forget_before(&mut self, place: u64) {
        let window = self.window_of(place).unwrap_or(self.windows);
        if self.known.first_key_value().is_some_and(|(first, _)| *first < window) {
            self.known = self.known.split_off(&window);
        }
    }

    /// Window `number`, with the samples of `rank`.
    fn window(&mut self, number: u64, rank: u64) -> &Window {
        if !self.known.contains_key(&number) {
            let made = self.make(number);
            self.known.insert(number, made);
        }
        if !self.known[&number].ranks.contains_key(&rank) {
            let sorted = Sorted::new(&self.keys(number, rank));
            if let Some(window) = self.known.get_mut(&number) {
                window.ranks.insert(rank, sorted);
            }
        }
        &self.known[&number]
    }

    fn make(&mut self, number: u64) -> Window {
        let (first, end) = (self.first(number), self.first(number + 1));
        let key = self.epoch.window_key(number);
        let Buckets { world, batch, tokens, .. } = self.buckets;
        let Some(tokens) = tokens else {
            let sorted = (0..=(end - first) / batch).map(|number| number * batch).collect();
            return Window { first, cuts: Cuts::new(sorted, key), ranks: BTreeMap::new() };
        };
        // For each number by length, the longest sample of all ranks.
        let mut longest = vec![0; (end - first) as usize];
        let mut ranks = BTreeMap::new();
        for rank in 0..world {
            let keys = self.keys(number, rank);
            longest.iter_mut().zip(&keys).for_each(|(longest, (key, _))| *longest = (*key).max(*longest));
            ranks.insert(rank, Sorted::new(&keys));
        }
        let (mut sorted, mut start) = (vec![0], 0);
        for (at, key) in (0_u64..).zip(&longest) {
            let samples = at + 1 - start;
            let padded = f64::from(length_of_key(*key)) * samples as f64;
            if samples > 1 && (samples > batch || padded > tokens as f64) {
                sorted.push(at);
                start = at;
            }
        }
        sorted.push(longest.len() as u64);
        Window { first, cuts: Cuts::new(sorted, key), ranks }
    }

    /// Lengths and numbers of the samples of `rank` in window `number`, by length.
    fn keys(&mut self, number: u64, rank: u64) -> Vec<(u32, u32)> {
        let (first, end, world) = (self.first(number), self.first(number + 1), self.buckets.world);
        // Fits: [`Buckets::new`] limits the samples of a window.
        let mut keys: Vec<(u32, u32)> = Vec::with_capacity((end - first) as usize);
        for at in 0..end - first {
            let sample = self.sample_at((first + at) * world + rank);
            keys.push(((self.length_of)(sample), at as u32));
        }
        keys.sort_unstable();
        keys
    }

    /// As [`Epoch::sample_at`], and faster for positions one after the other.
    fn sample_at(&mut self, position: u64) -> u64 {
        let (lane, step) = (position % self.epoch.lanes(), position / self.epoch.lanes());
        let known = self.segments.get(&lane).filter(|one| (one.start..one.start + one.len()).contains(&step));
        if let Some(segment) = known {
            return segment.sample(step - segment.start);
        }
        let segment = self.epoch.lane_segment(lane, step);
        let sample = segment.sample(step - segment.start);
        self.segments.insert(lane, segment);
        sample
    }
}

impl Sorted {
    fn new(keys: &[(u32, u32)]) -> Self {
        let by_length: Box<[u32]> = keys.iter().map(|(_, at)| *at).collect();
        let mut inverse = vec![0; by_length.len()];
        by_length.iter().zip(0..).for_each(|(at, rank)| inverse[*at as usize] = rank);
        Self { by_length, inverse: inverse.into() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::order::{Layout, Options, Shuffle};

    pub fn length_of(sample: u64) -> u32 {
        (shardpack_format::permutation::mix(sample) % 7) as u32
    }

    pub fn epoch(shards: &[u64], lanes: u64, shuffle: Shuffle) -> Arc<Epoch> {
        let options = Options { shuffle, seed: 5, lanes, run_blocks: 2, ..Options::default() };
        Arc::new(Epoch::new(&Layout::new(shards.iter().copied(), 3).unwrap(), &options, 1).unwrap())
    }

    /// The positions of all places as `docs/reference/order.md` defines them: lists of each window and rank, sorted and cut.
    pub fn twin(epoch: &Epoch, buckets: Buckets) -> Vec<u64> {
        let (world, batch) = (buckets.world as usize, buckets.batch as usize);
        let steps = epoch.len() as usize / (world * batch);
        let windows = steps.div_ceil(buckets.batches as usize);
        let mut positions: Vec<u64> = (0..epoch.len()).collect();
        for window in 0..windows {
            let [first, end] = [window, window + 1].map(|window| (window * steps).div_ceil(windows));
            for rank in 0..world {
                let all = (first * batch..end * batch).map(|number| (number * world + rank) as u64);
                let mut all: Vec<u64> = all.collect();
                all.sort_by_key(|position| length_of(epoch.sample_at(*position)));
                let key = epoch.window_key(window as u64);
                for step in 0..end - first {
                    let order = key.map(|key| Permutation::new((end - first) as u64, key));
                    let sorted = order.map_or(step as u64, |order| order.sample_at(step as u64)) as usize;
                    for at in 0..batch {
                        positions[((first + step) * batch + at) * world + rank] = all[sorted * batch + at];
                    }
                }
            }
        }
        positions
    }

    /// Epochs of a few shards in each order, and windows of a few samples.
    pub fn windows() -> impl Strategy<Value = (Arc<Epoch>, Buckets)> {
        let shards = proptest::collection::vec(0u64..80, 0..6);
        (shards, 1u64..20, 0usize..3, 1u64..5, 1u64..5, 1u64..7).prop_map(
            |(shards, lanes, shuffle, world, batch, batches)| {
                (epoch(&shards, lanes, Shuffle::ALL[shuffle]), Buckets::new(world, batch, batches).unwrap())
            },
        )
    }

    /// The lines of the page: the expected samples and the computed ones.
    #[test]
    fn vectors_of_the_documentation() {
        let page = include_str!("../../../../docs/reference/order.md");
        let block = page.split_once("```buckets\n").unwrap().1.split_once("```").unwrap().0;
        for line in block.lines().filter(|line| !line.starts_with('#')) {
            let (options, expected) = line.split_once(": ").unwrap();
            let [shards, order, buckets] = options.split("; ").collect::<Vec<_>>()[..] else { panic!("{line}") };
            let numbers = |text: &str| text.split(' ').map(|one| one.parse().unwrap()).collect::<Vec<u64>>();
            let (block, rest) = order.split_once(' ').unwrap();
            let (shuffle, rest) = rest.split_once(' ').unwrap();
            let [lanes, run_blocks, seed, number] = numbers(rest)[..] else { panic!("{line}") };
            let [world, batch, batches, ref tokens @ ..] = numbers(buckets)[..] else { panic!("{line}") };
            let options = Options { shuffle: Shuffle::parse(shuffle).unwrap(), seed, lanes, run_blocks, rotated: true };
            let layout = Layout::new(numbers(shards), block.parse().unwrap()).unwrap();
            let epoch = Arc::new(Epoch::new(&layout, &options, number).unwrap());
            let buckets = Buckets::new(world, batch, batches).unwrap();
            let buckets = tokens.iter().fold(buckets, |buckets, tokens| buckets.within(*tokens));
            let length_of = |sample| length_key((sample % 7) as f32);
            let mut bucketed = Bucketed::new(Arc::clone(&epoch), buckets, Arc::new(length_of));
            let last = epoch.len() - 1;
            let mut sample = |place| epoch.sample_at(bucketed.position(place)).to_string();
            let found: Vec<_> = (0..8.min(last)).chain([last]).map(&mut sample).collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
        assert!(block.lines().count() > 6);
    }

    proptest! {
        #[test]
        fn places_are_those_of_the_page_and_of_their_positions((epoch, buckets) in windows()) {
            let world = buckets.world;
            let mut bucketed = Bucketed::new(Arc::clone(&epoch), buckets, Arc::new(length_of));
            let found: Vec<_> = (0..epoch.len()).map(|place| bucketed.position(place)).collect();
            prop_assert_eq!(&found, &twin(&epoch, buckets));
            for (place, position) in (0..).zip(found) {
                prop_assert_eq!(bucketed.place(position), place);
                prop_assert_eq!(position % world, place % world);
            }
        }
    }

    #[test]
    fn keys_compare_as_their_lengths_and_what_has_none_is_first() {
        let ascending = [f32::NEG_INFINITY, -3.5, -0.0, 0.0, 1e-9, 0.5, 1.0, 7.0, 4e9, f32::INFINITY];
        assert!(ascending.is_sorted_by(|one, other| length_key(*one) < length_key(*other)));
        assert!(ascending.iter().all(|length| length_key(*length) > length_key(f32::NAN)));
        let lengths = ascending.map(|length| length_of_key(length_key(length)));
        assert_eq!(lengths, [0.0, 0.0, 0.0, 0.0, 1e-9, 0.5, 1.0, 7.0, 4e9, f32::INFINITY]);
        assert_eq!(length_of_key(0), 0.0);
    }

    #[test]
    fn windows_out_of_range_are_refused() {
        for (world, batch, batches) in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1 << 20, 1 << 20, 1), (u64::MAX, 2, 2)] {
            assert!(Buckets::new(world, batch, batches).is_err());
        }
        assert_eq!(Buckets::new(2, 3, 4).unwrap().samples(), 24);
    }
}
