//! Random numbers that are the same on every machine.
#![cfg_attr(not(feature = "simulate"), allow(dead_code, reason = "the simulations draw in more ways"))]

/// SplitMix64. Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
pub struct Random(u64);

impl Random {
    /// A generator with initial state `state`.
    pub fn new(state: u64) -> Self {
        Self(state)
    }

    /// A generator seeded with these numbers.
    pub fn from_seeds(numbers: &[u64]) -> Self {
        let mut random = Self(0);
        for number in numbers {
            random.0 ^= number.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            random.0 = random.next();
        }
        random
    }

    /// The next number, uniform over 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`, which must not be 0. Not exactly uniform, by one part in 2^64 / count.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// A number in 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Shuffles `items`; every order has the same chance.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
