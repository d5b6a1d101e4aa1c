//! Identities of samples, 128 bits each. Their sum proves which samples were seen.
//!
//! An identity is a function of the id of the dataset and the number of the sample. The sum is modulo 2^128, independent of the
//! order, and additive over ranks. It equals the sum of an epoch only if every sample was seen as often as it should be,
//! except with probability 2^-128.

use shardpack_format::permutation::mix;

use super::GOLDEN;

/// The identities of the samples of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identities {
    keys: [u64; 2],
}

impl Identities {
    /// Identities for the dataset with this id, a BLAKE3 hash.
    pub fn new(dataset: &[u8; 32]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| dataset[at + byte]));
        Self { keys: [word(0), word(8)] }
    }

    /// The identity of sample `number`.
    pub fn get(&self, number: u64) -> u128 {
        let step = number.wrapping_add(1).wrapping_mul(GOLDEN);
        let [high, low] = self.keys.map(|key| mix(mix(key.wrapping_add(step)) ^ key));
        u128::from(high) << 64 | u128::from(low)
    }

    /// The key for all random choices of a sample, derived from the seed, the epoch and the identity.
    pub fn random_key(&self, number: u64, seed: u64, epoch: u64) -> u64 {
        let identity = self.get(number);
        mix(super::epoch::epoch_key(seed, epoch) ^ (identity >> 64) as u64 ^ mix(identity as u64))
    }
}

/// How many samples were seen, and the sum of their identities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of samples.
    pub samples: u64,
    /// Sum of their identities, modulo 2^128.
    pub identities: u128,
}

impl Sum {
    /// Adds a sample.
    pub fn add(&mut self, identity: u128) {
        self.samples += 1;
        self.identities = self.identities.wrapping_add(identity);
    }

    /// Adds the sum of another rank, or of another part of the run.
    pub fn join(&mut self, other: &Self) {
        self.samples += other.samples;
        self.identities = self.identities.wrapping_add(other.identities);
    }
}

impl FromIterator<u128> for Sum {
    fn from_iter<I: IntoIterator<Item = u128>>(identities: I) -> Self {
        let mut sum = Self::default();
        identities.into_iter().for_each(|identity| sum.add(identity));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_tells_what_is_missing_twice_or_of_another_dataset() {
        let identities = Identities::new(&[7; 32]);
        let sum =
            |numbers: &mut dyn Iterator<Item = u64>| numbers.map(|number| identities.get(number)).collect::<Sum>();
        let all = sum(&mut (0..100));
        assert_eq!(sum(&mut (0..100).rev()), all);
        let mut parts = sum(&mut (0..40));
        parts.join(&sum(&mut (40..100)));
        assert_eq!(parts, all);
        assert_ne!(sum(&mut (0..99).chain([0])).identities, all.identities);
        assert_ne!(sum(&mut (0..101)).identities, all.identities);
        let other = Identities::new(&[8; 32]);
        assert_ne!((0..100).map(|number| other.get(number)).collect::<Sum>(), all);
    }

    #[test]
    fn random_keys_differ_with_seed_epoch_and_sample() {
        let identities = Identities::new(&std::array::from_fn(|at| at as u8));
        let keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
            .map(|(number, seed, epoch)| identities.random_key(number, seed, epoch));
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(key));
        }
    }
}
