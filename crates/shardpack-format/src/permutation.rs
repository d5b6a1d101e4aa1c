//! The keyed bijection that shuffles: position in the packed order ↔ number of the sample in canonical order.
//!
//! Nothing is kept but the seed and the count. An alternating Feistel network over the smallest power of two, 256
//! or more, that holds the count, walked until it lands inside (under two steps on average where the count is above 128). `docs/reference/order.md` specifies it with test
//! vectors, so that it can be written in any language.

/// Name of the algorithm in a manifest.
pub const ALGORITHM: &str = "feistel-8";

const ROUNDS: usize = 8;
/// Width of the network at least: halves of fewer bits have too few round functions to reach every order.
const MIN_BITS: u32 = 8;

/// A bijection over `0..count`, fixed by `count` and a seed.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    /// Bits of the upper and of the lower half.
    upper: u32,
    lower: u32,
    keys: [u64; ROUNDS],
}

/// SplitMix64's output function: a bijection whose output looks random. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Permutation {
    /// The bijection over `0..count` for `seed`.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(MIN_BITS);
        let mut state = seed;
        let keys = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        });
        Self { count, upper: bits / 2, lower: bits - bits / 2, keys }
    }

    /// Which sample stands at `position`; `position` is below the count.
    pub fn sample_at(&self, position: u64) -> u64 {
        debug_assert!(position < self.count);
        self.walk(position, Self::forward)
    }

    /// Where `sample` stands; the inverse of [`Permutation::sample_at`].
    pub fn position_of(&self, sample: u64) -> u64 {
        debug_assert!(sample < self.count);
        self.walk(sample, Self::backward)
    }

    fn walk(&self, mut x: u64, step: impl Fn(&Self, u64) -> u64) -> u64 {
        if self.count < 2 {
            return x;
        }
        loop {
            x = step(self, x);
            if x < self.count {
                return x;
            }
        }
    }

    fn forward(&self, x: u64) -> u64 {
        let (mut high, mut low) = self.split(x);
        for (round, key) in self.keys.iter().enumerate() {
            self.round(round, *key, &mut high, &mut low);
        }
        high << self.lower | low
    }

    fn backward(&self, x: u64) -> u64 {
        let (mut high, mut low) = self.split(x);
        for (round, key) in self.keys.iter().enumerate().rev() {
            self.round(round, *key, &mut high, &mut low);
        }
        high << self.lower | low
    }

    fn split(&self, x: u64) -> (u64, u64) {
        (x >> self.lower, x & ((1 << self.lower) - 1))
    }

    /// One round, its own inverse: even rounds change the upper half, odd rounds the lower.
    fn round(&self, round: usize, key: u64, high: &mut u64, low: &mut u64) {
        if round.is_multiple_of(2) {
            *high ^= mix(*low ^ key) >> (u64::BITS - self.upper);
        } else {
            *low ^= mix(*high ^ key) >> (u64::BITS - self.lower);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn vectors_of_the_documentation() {
        let order = |count, seed| {
            let permutation = Permutation::new(count, seed);
            (0..count.min(8)).map(|position| permutation.sample_at(position)).collect::<Vec<_>>()
        };
        assert_eq!(order(1, 0), [0]);
        assert_eq!(order(2, 0), VECTORS[0]);
        assert_eq!(order(10, 0), VECTORS[1]);
        assert_eq!(order(10, 1), VECTORS[2]);
        assert_eq!(order(1_281_167, 0), VECTORS[3]);
        assert_eq!(order(100_000_000, 42), VECTORS[4]);
        assert_eq!(order(u64::MAX, u64::MAX), VECTORS[5]);
    }

    const VECTORS: [&[u64]; 6] = [
        &[0, 1],
        &[3, 6, 7, 8, 9, 0, 4, 1],
        &[7, 2, 8, 9, 1, 6, 5, 3],
        &[513_637, 527_999, 1_238_656, 256_962, 512_013, 821_528, 826_237, 47_807],
        &[54_436_062, 7_711_462, 64_127_190, 82_229_951, 73_132_393, 91_725_898, 33_773_674, 24_982_875],
        &[
            13_050_650_820_075_040_171,
            3_220_109_313_384_404_319,
            2_856_360_471_612_874_225,
            3_776_363_729_601_301_315,
            9_572_513_257_831_326_382,
            4_500_867_212_301_712_489,
            1_749_068_570_964_864_170,
            8_731_848_673_367_239_759,
        ],
    ];

    #[test]
    fn every_position_is_taken_once() {
        for count in (0..70).chain([255, 256, 257, 1000, 65_536, 65_537]) {
            let permutation = Permutation::new(count, 7);
            let mut seen = vec![false; count as usize];
            for position in 0..count {
                let sample = permutation.sample_at(position);
                assert!(!std::mem::replace(&mut seen[sample as usize], true));
                assert_eq!(permutation.position_of(sample), position);
            }
        }
    }

    /// Over seeds, each order of a few samples comes up equally often: chi-square within five standard deviations.
    #[test]
    fn small_orders_are_uniform_over_seeds() {
        for (count, orders) in [(2u64, 2u64), (3, 6), (4, 24), (5, 120)] {
            let trials = orders * 100;
            let mut seen: HashMap<Vec<u64>, u64> = HashMap::new();
            for seed in 0..trials {
                let permutation = Permutation::new(count, seed);
                *seen.entry((0..count).map(|p| permutation.sample_at(p)).collect()).or_default() += 1;
            }
            let missing = (orders - seen.len() as u64) as f64 * 100.0;
            let chi: f64 = seen.values().map(|&n| (n as f64 - 100.0).powi(2) / 100.0).sum::<f64>() + missing;
            let freedom = (orders - 1) as f64;
            assert!(chi < freedom + 5.0 * (2.0 * freedom).sqrt(), "{count}: {chi} for {freedom} degrees of freedom");
        }
    }

    /// At a larger count: where a sample lands, and how far apart neighbours land, is uniform over 64 cells.
    #[test]
    fn places_and_distances_are_uniform() {
        let count = 100_003u64;
        let (mut places, mut distances) = (HashMap::new(), HashMap::new());
        for seed in 0..40 {
            let permutation = Permutation::new(count, seed);
            for position in (0..count - 1).step_by(97) {
                let (here, next) = (permutation.sample_at(position), permutation.sample_at(position + 1));
                *places.entry((position * 8 / count, here * 8 / count)).or_insert(0u64) += 1;
                *distances.entry((next + count - here) % count * 64 / count).or_insert(0u64) += 1;
            }
        }
        for cells in [places.values().copied().collect::<Vec<u64>>(), distances.values().copied().collect()] {
            let expected = cells.iter().sum::<u64>() as f64 / 64.0;
            let chi: f64 = cells.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
            assert_eq!(cells.len(), 64);
            assert!(chi < 63.0 + 5.0 * 126f64.sqrt(), "{chi}");
        }
    }

    proptest! {
        #[test]
        fn the_inverse_undoes_it(count in 1u64.., seed: u64, at: u64) {
            let permutation = Permutation::new(count, seed);
            let sample = permutation.sample_at(at % count);
            prop_assert!(sample < count);
            prop_assert_eq!(permutation.position_of(sample), at % count);
        }
    }
}
