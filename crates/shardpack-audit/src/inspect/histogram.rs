//! Histogram of lengths in pixels: exact up to 8,191, then to one part in 4,096, with at most 86,000 bars.

use std::collections::HashMap;

use serde::Serialize;

/// Lengths below this have one bar each.
const EXACT: u32 = 8192;

/// Minimum, median and maximum of many numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The minimum.
    pub smallest: u64,
    /// The median; the lower of the two middle values for an even count.
    pub median: u64,
    /// The maximum.
    pub largest: u64,
}

impl Spread {
    /// Computes the exact values; `None` if `numbers` is empty.
    pub fn from_numbers(mut numbers: Vec<u64>) -> Option<Self> {
        numbers.sort_unstable();
        let median = *numbers.get(numbers.len().checked_sub(1)? / 2)?;
        Some(Self { smallest: *numbers.first()?, median, largest: *numbers.last()? })
    }
}

/// Counts of lengths.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    bars: HashMap<u32, u64>,
    ends: Option<(u32, u32)>,
}

impl Histogram {
    /// Adds `length`.
    pub fn add(&mut self, length: u32) {
        *self.bars.entry(bar(length)).or_default() += 1;
        let (smallest, largest) = self.ends.unwrap_or((length, length));
        self.ends = Some((smallest.min(length), largest.max(length)));
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: Self) {
        for (bar, count) in other.bars {
            *self.bars.entry(bar).or_default() += count;
        }
        self.ends = match (self.ends, other.ends) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }

    /// Minimum and maximum, both exact, and the approximate median.
    pub fn spread(&self) -> Option<Spread> {
        let (smallest, largest) = self.ends?;
        let mut bars: Vec<_> = self.bars.iter().collect();
        bars.sort_unstable();
        let before_middle = (bars.iter().map(|(_, count)| **count).sum::<u64>() - 1) / 2;
        let mut seen = 0;
        let middle = bars.iter().find(|(_, count)| {
            seen += **count;
            seen > before_middle
        });
        let median = middle.map_or(smallest, |(bar, _)| **bar).clamp(smallest, largest);
        Some(Spread { smallest: smallest.into(), median: median.into(), largest: largest.into() })
    }
}

/// The smallest length in the bar of `length`: all but the leading 13 binary digits are cleared.
fn bar(length: u32) -> u32 {
    let digits = u32::BITS - length.leading_zeros();
    let dropped = digits.saturating_sub(EXACT.trailing_zeros());
    length >> dropped << dropped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_numbers_have_a_bar_each_and_large_ones_share_few() {
        for length in [0, 1, 100, 8191, 8192, 8194, 16384, 1 << 31] {
            assert_eq!(bar(length), length);
        }
        assert_eq!((bar(8193), bar(16387), bar(u32::MAX)), (8192, 16384, 0xfff8_0000));
        assert!(Histogram::default().spread().is_none());
        assert!(Spread::from_numbers(Vec::new()).is_none());
    }

    proptest! {
        #[test]
        fn it_agrees_with_sorting_whatever_the_parts(
            lengths in prop::collection::vec(prop_oneof![0u32..20, 0u32..20_000, any::<u32>()], 1..60),
            cut: prop::sample::Index,
        ) {
            let (first, second) = lengths.split_at(cut.index(lengths.len()));
            let count = |lengths: &[u32]| {
                let mut histogram = Histogram::default();
                lengths.iter().for_each(|length| histogram.add(*length));
                histogram
            };
            let mut whole = count(first);
            whole.merge(count(second));
            let (found, exact) = (whole.spread().unwrap(), Spread::from_numbers(lengths.iter().map(|n| u64::from(*n)).collect()).unwrap());
            prop_assert_eq!((found.smallest, found.largest), (exact.smallest, exact.largest));
            prop_assert!(found.median <= exact.median);
            prop_assert!(exact.median - found.median <= exact.median / 4096);
        }
    }
}
