//! Repeated and reduced samples of an epoch, expressed as copies, where each copy is a selection.
//!
//! Holds at all times: counts are exact, and the same in every epoch; a key decides which samples of a group come once more
//! than the others. Copy *k* has the samples that come more than *k* times.

use std::sync::Arc;

use shardpack_format::Result;

use super::{Rest, Selection};

/// A total of samples as whole rounds and a rest: each sample comes `rounds` times, and `rest` samples come once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How often each sample comes.
    pub rounds: u64,
    /// Number of samples that come once more: less than the number of samples.
    pub rest: u64,
}

impl Quota {
    /// `total` occurrences of `samples` samples; `samples` is not 0.
    pub fn new(total: u64, samples: u64) -> Self {
        Self { rounds: total / samples.max(1), rest: total % samples.max(1) }
    }

    /// Number of copies needed.
    fn copies(self) -> u64 {
        self.rounds + u64::from(self.rest > 0)
    }
}

/// The copies of `selection`. The rest consists of blocks of `block_samples` selected samples, so that reads are large:
/// [`Rest`] picks them by `key`. Time and memory do not grow with the number of samples.
pub fn of_all(selection: &Selection, quota: Quota, block_samples: u64, key: u64) -> Vec<Selection> {
    let mut copies: Vec<_> = (0..quota.rounds).map(|_| selection.clone()).collect();
    if quota.rest > 0 {
        let rest = Rest::new(selection.len(), quota.rest, block_samples, key);
        copies.push(Selection::Rest(Arc::new(selection.clone()), rest));
    }
    copies
}

/// A group of samples, for example a class, and how often they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Numbers of the samples, ascending.
    pub numbers: Vec<u64>,
    /// How often the samples come.
    pub quota: Quota,
}

/// The copies of disjoint groups of a dataset of `samples`. [`Rest`] picks the rest of each group in blocks of one, with
/// `key` plus the number of the group. Takes a few nanoseconds per sample.
///
/// # Errors
/// If groups share a sample, or a sample number is out of range.
pub fn of_groups(groups: &[Group], samples: u64, key: u64) -> Result<Vec<Selection>> {
    let copies = groups.iter().map(|group| group.quota.copies()).max().unwrap_or(0);
    let of_copy = |copy: u64| {
        let numbers = groups.iter().enumerate().flat_map(|(number, Group { numbers, quota })| {
            let of_group = numbers.len() as u64;
            let has_rest = copy == quota.rounds && quota.rest > 0;
            let rest = has_rest.then(|| Rest::new(of_group, quota.rest, 1, key.wrapping_add(number as u64)));
            let taken = match &rest {
                Some(rest) => rest.len(),
                None if copy < quota.rounds => of_group,
                None => 0,
            };
            (0..taken).map(move |at| numbers[rest.as_ref().map_or(at, |rest| rest.number(at)) as usize])
        });
        Selection::from_numbers(samples, numbers)
    };
    (0..copies).map(of_copy).collect()
}

/// Divides `total` in proportion to `shares` into whole numbers. The parts are rounded down; the remainder goes to the parts
/// with the largest fractions, one each, and among equal fractions to the first.
pub fn divide(total: u64, shares: &[f64]) -> Vec<u64> {
    let sum: f64 = shares.iter().sum();
    let exact: Vec<f64> = shares.iter().map(|share| total as f64 * share / sum).collect();
    let mut parts: Vec<u64> = exact.iter().map(|exact| *exact as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|a, b| (exact[*b].fract()).total_cmp(&exact[*a].fract()));
    let left = total.saturating_sub(parts.iter().sum());
    for at in order.into_iter().cycle().take(usize::try_from(left).unwrap_or(0)) {
        parts[at] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(copies: &[Selection], samples: u64) -> Vec<u64> {
        let mut times = vec![0; samples as usize];
        for copy in copies {
            (0..copy.len()).for_each(|selected| times[copy.number(selected) as usize] += 1);
        }
        times
    }

    #[test]
    fn counts_are_exact_and_the_rest_differs_with_the_key() {
        let selection = Selection::from_numbers(100, (0..100).filter(|number| number % 3 > 0)).unwrap();
        let n = selection.len();
        for total in [0, 1, 20, n, n + 1, 2 * n + 7, 5 * n] {
            let quota = Quota::new(total, n);
            let found = times(&of_all(&selection, quota, 4, 9), 100);
            assert_eq!(found.iter().sum::<u64>(), total);
            for (number, times) in found.iter().enumerate() {
                let least = if number % 3 > 0 { quota.rounds } else { 0 };
                assert!((least..=least + u64::from(number % 3 > 0 && quota.rest > 0)).contains(times));
            }
        }
        let quota = Quota::new(20, n);
        assert_ne!(of_all(&selection, quota, 4, 9), of_all(&selection, quota, 4, 10));
    }

    #[test]
    fn groups_come_as_often_as_they_should() {
        let group = |range: std::ops::Range<u64>, total| {
            let numbers: Vec<u64> = range.collect();
            Group { quota: Quota::new(total, numbers.len() as u64), numbers }
        };
        // Balanced: a large class, a small one, one of a single sample.
        let groups = [group(0..80, 30), group(80..95, 30), group(95..96, 30)];
        for key in [1, 2] {
            let found = times(&of_groups(&groups, 100, key).unwrap(), 100);
            for (Group { numbers, quota }, total) in groups.iter().zip([30, 30, 30]) {
                let of_group: Vec<u64> = numbers.iter().map(|number| found[*number as usize]).collect();
                assert_eq!(of_group.iter().sum::<u64>(), total);
                assert!(of_group.iter().all(|times| (quota.rounds..=quota.rounds + 1).contains(times)));
            }
            assert!(found[96..].iter().all(|times| *times == 0));
        }
        assert_ne!(of_groups(&groups, 100, 1).unwrap(), of_groups(&groups, 100, 2).unwrap());
        assert!(of_groups(&[group(0..5, 5), group(4..6, 2)], 100, 1).is_err());
        assert!(of_groups(&[], 100, 1).unwrap().is_empty());
    }

    #[test]
    fn totals_are_divided_without_loss() {
        for (total, shares, parts) in [
            (10, vec![1.0, 1.0, 1.0], vec![4, 3, 3]),
            (7, vec![0.5, 0.25, 0.25], vec![3, 2, 2]),
            (0, vec![1.0, 2.0], vec![0, 0]),
            (1_000_000_007, vec![1e-3, 1.0], vec![999_001, 999_001_006]),
        ] {
            let found = divide(total, &shares);
            assert_eq!(found.iter().sum::<u64>(), total);
            assert_eq!(found, parts);
        }
    }
}
