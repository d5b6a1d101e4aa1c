//! Some of the samples of a dataset, and the index of each in the selection.
//!
//! Holds at all times: an order numbers the selected samples from 0, in the order of their numbers in the dataset. Memory is
//! one bit per sample of the dataset and one number per 512 samples, or the list of numbers if that is smaller. No memory is
//! needed if all samples are selected, or if a formula selects them.

use std::{ops::Range, sync::Arc};

use shardpack_format::{Error, Result};

use super::Rest;

/// Bits of a group. The selected samples before each group are counted.
const GROUP_BITS: u64 = 512;
const GROUP_WORDS: usize = (GROUP_BITS / 64) as usize;

/// The samples of a dataset that an order has. Clones share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All samples, with their number.
    All(u64),
    /// A large part, as a bit set.
    Some(Picked),
    /// Few samples: their numbers, ascending.
    Few(Arc<[u64]>),
    /// The samples of a selection that a formula picks.
    Rest(Arc<Selection>, Rest),
}

/// Samples that were picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    words: Arc<[u64]>,
    /// Selected samples before each group, and in total.
    before: Arc<[u64]>,
}

impl Selection {
    /// Selects `numbers`, in any order, from a dataset of `samples`.
    ///
    /// # Errors
    /// If a number is out of range or comes twice.
    pub fn from_numbers(samples: u64, numbers: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut numbers = numbers.into_iter().peekable();
        let mut few = Vec::new();
        // A number takes as much memory as 64 bits.
        while few.len() as u64 <= samples / 64
            && let Some(number) = numbers.next()
        {
            few.push(number);
        }
        if numbers.peek().is_none() && (few.len() as u64) < samples {
            few.sort_unstable();
            if let Some(number) = few.last().filter(|last| **last >= samples) {
                return Err(Error::usage(format!("sample {number} of a dataset of {samples}")));
            }
            if let Some(two) = few.windows(2).find(|two| two[0] == two[1]) {
                return Err(Error::usage(format!("sample {} is selected twice", two[0])));
            }
            return Ok(Self::Few(few.into()));
        }
        let numbers = few.into_iter().chain(numbers);
        let words = usize::try_from(samples.div_ceil(64)).map_err(|_| Error::usage(format!("{samples} samples")))?;
        let mut words = vec![0_u64; words];
        for number in numbers {
            if number >= samples {
                return Err(Error::usage(format!("sample {number} of a dataset of {samples}")));
            }
            let (word, bit) = (&mut words[(number / 64) as usize], 1 << (number % 64));
            if *word & bit != 0 {
                return Err(Error::usage(format!("sample {number} is selected twice")));
            }
            *word |= bit;
        }
        let mut all = 0;
        let mut before = Vec::with_capacity(words.len() / GROUP_WORDS + 2);
        for group in words.chunks(GROUP_WORDS) {
            before.push(all);
            all += group.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        before.push(all);
        Ok(if all == samples {
            Self::All(samples)
        } else {
            Self::Some(Picked { words: words.into(), before: before.into() })
        })
    }

    /// Number of selected samples.
    pub fn len(&self) -> u64 {
        match self {
            Self::All(samples) => *samples,
            Self::Some(Picked { before, .. }) => before.last().copied().unwrap_or(0),
            Self::Few(numbers) => numbers.len() as u64,
            Self::Rest(_, rest) => rest.len(),
        }
    }

    /// Whether no sample is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number in the dataset of the sample with index `selected`, which is less than [`Selection::len`].
    pub fn number(&self, selected: u64) -> u64 {
        let Picked { words, before } = match self {
            Self::All(_) => return selected,
            Self::Few(numbers) => return numbers[selected as usize],
            Self::Rest(of, rest) => return of.number(rest.number(selected)),
            Self::Some(picked) => picked,
        };
        let group = before.partition_point(|before| *before <= selected).saturating_sub(1);
        let mut left = selected - before[group];
        for (at, word) in words.iter().enumerate().skip(group * GROUP_WORDS) {
            let ones = u64::from(word.count_ones());
            if left < ones {
                // Clear the lowest set bits until the wanted bit is the lowest.
                let word = (0..left).fold(*word, |word, _| word & (word - 1));
                return at as u64 * 64 + u64::from(word.trailing_zeros());
            }
            left -= ones;
        }
        debug_assert!(false, "{selected} of {}", self.len());
        0
    }

    /// Number of selected samples below `number`, which is at most the number of samples.
    pub fn before(&self, number: u64) -> u64 {
        let Picked { words, before } = match self {
            Self::All(_) => return number,
            Self::Few(numbers) => return numbers.partition_point(|few| *few < number) as u64,
            Self::Rest(of, rest) => return rest.before(of.before(number)),
            Self::Some(picked) => picked,
        };
        let group = (number / GROUP_BITS) as usize;
        let (word, bit) = ((number / 64) as usize, number % 64);
        let whole = words[(group * GROUP_WORDS).min(words.len())..word.min(words.len())].iter();
        let rest = words.get(word).map_or(0, |word| (word & ((1 << bit) - 1)).count_ones());
        before[group.min(before.len() - 1)]
            + whole.map(|word| u64::from(word.count_ones())).sum::<u64>()
            + u64::from(rest)
    }

    /// The numbers in the dataset of all selected samples, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map(|selected| self.number(selected))
    }

    /// Whether sample `number` is selected; it is less than the number of samples.
    pub fn has(&self, number: u64) -> bool {
        self.within(number..number + 1) > 0
    }

    /// Those of `numbers`, in any order, that this selection of a dataset of `samples` has.
    ///
    /// # Errors
    /// If a number is out of range, or comes twice.
    pub fn among(&self, samples: u64, numbers: impl IntoIterator<Item = u64>) -> Result<Self> {
        let is_all = matches!(self, Self::All(_));
        Self::from_numbers(samples, numbers.into_iter().filter(|number| is_all || self.has(*number)))
    }

    /// Number of selected samples in this range.
    pub fn within(&self, numbers: Range<u64>) -> u64 {
        self.before(numbers.end) - self.before(numbers.start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_counts_are_those_of_a_list(samples in 0u64..3000, every in 1u64..200, seed: u64) {
            let picked: Vec<u64> = (0..samples)
                .filter(|number| shardpack_format::permutation::mix(seed ^ number).is_multiple_of(every))
                .collect();
            let selection = Selection::from_numbers(samples, picked.iter().copied().rev()).unwrap();
            prop_assert_eq!(selection.len(), picked.len() as u64);
            for (at, number) in picked.iter().enumerate() {
                prop_assert_eq!(selection.number(at as u64), *number);
            }
            prop_assert_eq!(selection.numbers().collect::<Vec<_>>(), picked.clone());
            let thirds = selection.among(samples, (0..samples).filter(|number| number % 3 == 0)).unwrap();
            let both: Vec<u64> = picked.iter().copied().filter(|number| number % 3 == 0).collect();
            prop_assert_eq!(thirds.numbers().collect::<Vec<_>>(), both);
            for number in (0..=samples).step_by(7).chain([samples]) {
                prop_assert_eq!(selection.before(number), picked.partition_point(|picked| *picked < number) as u64);
            }
        }
    }

    #[test]
    fn what_is_not_there_or_twice_is_refused() {
        assert!(Selection::from_numbers(10, [10]).is_err());
        assert!(Selection::from_numbers(10, [3, 3]).is_err());
        assert!(Selection::from_numbers(1000, [3, 3]).is_err());
        assert!(Selection::from_numbers(1000, [3, 1000]).is_err());
        assert_eq!(Selection::from_numbers(3, [2, 0, 1]).unwrap(), Selection::All(3));
        assert!(Selection::from_numbers(3, []).unwrap().is_empty());
        assert_eq!(Selection::from_numbers(0, []).unwrap(), Selection::All(0));
    }
}
