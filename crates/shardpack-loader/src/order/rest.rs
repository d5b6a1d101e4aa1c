//! Picks the samples that come once more than others: an exact number, in whole blocks, evenly spread, different for each key.
//!
//! Holds at all times: a pick is a function of four numbers, computed and inverted in a few steps without tables, for any
//! number of samples; over all keys, each sample is picked with the same probability. `docs/reference/order.md` specifies it.

use shardpack_format::permutation::mix;

use super::GOLDEN;

/// A pick of `len` numbers from `0..samples`.
///
/// Marks the smaller of the two sets (picked, not picked): one block per stretch of equal length. The whole pattern is rotated
/// by a random number of samples, so that no position is favoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    samples: u64,
    len: u64,
    marked: u64,
    block: u64,
    blocks: u64,
    stretches: u64,
    turn: u64,
    key: u64,
    /// Count of picked numbers that the rotation moved from the end to the start.
    low: u64,
}

/// Scales 64 random bits to a number below `end`.
fn below(bits: u64, end: u64) -> u64 {
    // Less than `end`.
    ((u128::from(bits) * u128::from(end)) >> 64) as u64
}

/// ⌈`a` × `b` / `c`⌉; the caller ensures that the result fits.
fn scaled_up(a: u64, b: u64, c: u64) -> u64 {
    (u128::from(a) * u128::from(b)).div_ceil(u128::from(c)) as u64
}

impl Rest {
    /// Picks `len` of `samples`, more than 0 and fewer than all, in blocks of `block`, by `key`.
    pub fn new(samples: u64, len: u64, block: u64, key: u64) -> Self {
        debug_assert!(0 < len && len < samples, "{len} of {samples}");
        let block = block.clamp(1, samples);
        let marked = len.min(samples - len);
        // At most half of the samples are marked, so there are no more stretches than whole blocks.
        let (blocks, stretches) = (samples / block, marked.div_ceil(block));
        let turn = below(mix(key), samples);
        let mut rest = Self { samples, len, marked, block, blocks, stretches, turn, key, low: 0 };
        rest.low = len - rest.picked_before(samples - turn);
        rest
    }

    /// Number of picked samples.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The picked number with index `number` in ascending order; `number` is less than [`Rest::len`].
    pub fn number(&self, number: u64) -> u64 {
        let end = self.samples - self.turn;
        match number.checked_sub(self.low) {
            // Numbers that the rotation moved from the end to the start.
            None => self.picked(self.len - self.low + number) - end,
            Some(number) => self.picked(number) + self.turn,
        }
    }

    /// Count of picked numbers below `number`, which is at most the number of samples.
    pub fn before(&self, number: u64) -> u64 {
        match number.checked_sub(self.turn) {
            None => self.picked_before(self.samples - self.turn + number) - (self.len - self.low),
            Some(number) => self.low + self.picked_before(number),
        }
    }

    fn picks_marked(&self) -> bool {
        self.len == self.marked
    }

    /// The first block of a stretch.
    fn stretch(&self, number: u64) -> u64 {
        // At most the number of blocks.
        (u128::from(number) * u128::from(self.blocks) / u128::from(self.stretches)) as u64
    }

    /// The first marked number of a stretch, and the length of its mark; without the rotation, like all functions below.
    fn mark(&self, stretch: u64) -> (u64, u64) {
        let start = self.stretch(stretch);
        let bits = mix(self.key.wrapping_add(stretch.wrapping_add(1).wrapping_mul(GOLDEN)));
        let block = start + below(bits, self.stretch(stretch + 1) - start);
        (block * self.block, self.block.min(self.marked - stretch * self.block))
    }

    fn picked_before(&self, number: u64) -> u64 {
        let block = number / self.block;
        let marked = if block < self.blocks {
            let stretch = scaled_up(block + 1, self.stretches, self.blocks) - 1;
            let (start, len) = self.mark(stretch);
            stretch * self.block + number.saturating_sub(start).min(len)
        } else {
            self.marked
        };
        if self.picks_marked() { marked } else { number - marked }
    }

    fn picked(&self, number: u64) -> u64 {
        let (block, row) = (number / self.block, number % self.block);
        if self.picks_marked() {
            return self.mark(block).0 + row;
        }
        // The last stretch with at most `number` unmarked numbers before its mark.
        let others = self.blocks - self.stretches;
        let last = self.stretches - 1;
        let stretch = if others == 0 { last } else { (scaled_up(block + 1, self.stretches, others) - 1).min(last) };
        let (start, len) = self.mark(stretch);
        let number = number + stretch * self.block;
        if number < start { number } else { number + len }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition in `docs/reference/order.md`, with lists.
    fn twin(samples: u64, len: u64, block: u64, key: u64) -> Vec<u64> {
        let (block, marked) = (block.clamp(1, samples), len.min(samples - len));
        let (blocks, stretches) = (samples / block, marked.div_ceil(block));
        let mut is_marked = vec![false; samples as usize];
        for stretch in 0..stretches {
            let (start, end) = (stretch * blocks / stretches, (stretch + 1) * blocks / stretches);
            let chosen = start + below(mix(key.wrapping_add((stretch + 1).wrapping_mul(GOLDEN))), end - start);
            for row in 0..block.min(marked - stretch * block) {
                is_marked[((chosen * block + row + below(mix(key), samples)) % samples) as usize] = true;
            }
        }
        (0..samples).filter(|number| is_marked[*number as usize] == (len == marked)).collect()
    }

    proptest! {
        #[test]
        fn it_is_what_the_page_says_and_its_inverse(
            samples in 2u64..300,
            len: prop::sample::Index,
            block in 1u64..40,
            key: u64,
        ) {
            let len = 1 + len.index(samples as usize - 1) as u64;
            let rest = Rest::new(samples, len, block, key);
            let found: Vec<_> = (0..len).map(|number| rest.number(number)).collect();
            prop_assert_eq!(&found, &twin(samples, len, block, key));
            prop_assert_eq!(found.len() as u64, rest.len());
            for number in 0..=samples {
                prop_assert_eq!(rest.before(number), found.partition_point(|picked| *picked < number) as u64);
            }
        }

        #[test]
        fn of_huge_numbers_forward_and_inverse_agree(
            samples in 2u64..,
            len in 1u64..,
            block in 1u64..,
            key: u64,
            at: u64,
        ) {
            let rest = Rest::new(samples, 1 + len % (samples - 1), block, key);
            for at in [0, at % rest.len(), rest.len() - 1] {
                let number = rest.number(at);
                prop_assert!(number < samples);
                prop_assert_eq!((rest.before(number), rest.before(number + 1)), (at, at + 1));
            }
            prop_assert_eq!((rest.before(0), rest.before(samples)), (0, rest.len()));
        }
    }

    #[test]
    fn every_small_case_is_what_the_page_says() {
        for samples in 2..20 {
            for (len, block, key) in (1..samples).flat_map(|len| (1..22).map(move |block| (len, block, len * block))) {
                let rest = Rest::new(samples, len, block, key);
                let found: Vec<_> = (0..len).map(|number| rest.number(number)).collect();
                assert_eq!(found, twin(samples, len, block, key), "{len} of {samples} in blocks of {block}, key {key}");
            }
        }
    }

    #[test]
    fn over_many_keys_each_sample_comes_equally_often() {
        for (samples, len, block) in [(100, 37, 1), (103, 90, 1), (103, 50, 8), (103, 71, 8), (10, 3, 20)] {
            let mut times = vec![0_u32; samples as usize];
            let keys = 20_000;
            for key in 0..keys {
                let rest = Rest::new(samples, len, block, mix(key));
                (0..len).for_each(|number| times[rest.number(number) as usize] += 1);
            }
            let chance = len as f64 / samples as f64;
            let spread = (keys as f64 * chance * (1.0 - chance)).sqrt();
            for (sample, times) in times.iter().enumerate() {
                let off = (f64::from(*times) - keys as f64 * chance).abs() / spread;
                assert!(off < 5.0, "sample {sample} of {samples}: {times} times, {off:.1} deviations off");
            }
        }
    }
}
