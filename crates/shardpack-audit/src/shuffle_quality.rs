//! Shuffle quality: the variance of the class mix of batches in a stored order, against independent draws.
//!
//! A batch is B = [`BATCH_SAMPLES`] samples, drawn by w readers at evenly spaced places of the stored order of
//! N samples: reader j, from 0, begins at sample ⌊j N / w⌋ and gives each batch its next r = B / w samples. So
//! batch b, from 0, holds samples ⌊j N / w⌋ + b r up to ⌊j N / w⌋ + b r + r − 1 of all j. There are ⌊⌊N / w⌋ /
//! r⌋ batches, and no two share a sample. If there are more than [`MAX_BATCHES`], that many are evaluated,
//! evenly spaced.
//!
//! DEFF_w is [`shardpack_format::mixing::Deff`] of these batches.
//!
//! Holds at all times: the labels of at most 3 × 4,096 × 256 samples are kept, 12 MiB.

use std::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use serde::Serialize;
use shardpack_format::{Result, mixing::Deff};

pub use shardpack_format::mixing::FEWEST_BATCHES;

/// Samples of a batch.
pub const BATCH_SAMPLES: u64 = 256;
/// Evaluated numbers of readers; each divides [`BATCH_SAMPLES`].
pub const READERS: [u64; 3] = [1, 8, 64];
/// Maximum number of batches that are evaluated.
pub const MAX_BATCHES: u64 = 4096;

/// Value of a label that was not read.
const UNREAD: u32 = u32::MAX;

/// Mixing of batches for one number of readers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShuffleQuality {
    /// Number of readers, w.
    pub readers: u64,
    /// DEFF_w of docs/reference/order.md; `None` if there are too few samples.
    pub deff: Option<f64>,
    /// Standard deviation of DEFF_w from 1.00 for a true shuffle.
    pub spread: Option<f64>,
    /// Number of evaluated batches.
    pub batches: u64,
}

/// The samples that are evaluated for one number of readers.
#[derive(Clone, Copy, Debug)]
struct Places {
    samples: u64,
    readers: u64,
    /// Number of all batches.
    all: u64,
    /// Number of evaluated batches.
    batches: u64,
}

impl Places {
    fn new(samples: u64, readers: u64) -> Self {
        let all = samples / readers / (BATCH_SAMPLES / readers);
        let batches = if all < FEWEST_BATCHES { 0 } else { all.min(MAX_BATCHES) };
        Self { samples, readers, all, batches }
    }

    /// Samples that a reader gives to a batch.
    fn run_samples(&self) -> u64 {
        BATCH_SAMPLES / self.readers
    }

    /// First sample that `reader` gives to the evaluated batch with number `ordinal`.
    fn run(&self, reader: u64, ordinal: u64) -> u64 {
        let start = u128::from(reader) * u128::from(self.samples) / u128::from(self.readers);
        let batch = u128::from(ordinal) * u128::from(self.all) / u128::from(self.batches.max(1));
        // Less than `samples`.
        (start + batch * u128::from(self.run_samples())) as u64
    }

    /// Calls `found` for each evaluated sample in `span`: with its place among the labels, batch by batch, and
    /// its number.
    fn each_in(&self, span: Range<u64>, mut found: impl FnMut(usize, u64) -> Result<()>) -> Result<()> {
        let run_samples = self.run_samples();
        for reader in 0..self.readers {
            // The first batch whose run does not end before the span.
            let (mut low, mut high) = (0, self.batches);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.run(reader, middle) + run_samples > span.start { high = middle } else { low = middle + 1 }
            }
            for ordinal in low..self.batches {
                let run = self.run(reader, ordinal);
                if run >= span.end {
                    break;
                }
                for number in run.max(span.start)..(run + run_samples).min(span.end) {
                    let place = ordinal * BATCH_SAMPLES + reader * run_samples + (number - run);
                    found(place as usize, number)?;
                }
            }
        }
        Ok(())
    }
}

/// The labels of the evaluated samples; any number of threads may fill it.
pub struct Labels {
    of: [(Places, Vec<AtomicU32>); READERS.len()],
}

impl Labels {
    /// For an order of `samples` samples.
    pub fn new(samples: u64) -> Self {
        let of = READERS.map(|readers| {
            let places = Places::new(samples, readers);
            (places, (0..places.batches * BATCH_SAMPLES).map(|_| AtomicU32::new(UNREAD)).collect())
        });
        Self { of }
    }

    /// Stores the needed labels of the samples in `span`; `label` returns the class of a sample by its number.
    ///
    /// # Errors
    /// The first error of `label`.
    pub fn take(&self, span: Range<u64>, mut label: impl FnMut(u64) -> Result<u32>) -> Result<()> {
        for (places, labels) in &self.of {
            places.each_in(span.clone(), |place, number| {
                labels[place].store(label(number)?, Ordering::Relaxed);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The results, if `counts` has the number of samples of each class in the whole order. Batches with a
    /// missing or unknown label are left out.
    pub fn mixes(&self, counts: &[u64]) -> Vec<ShuffleQuality> {
        let chance = Deff::new(counts, BATCH_SAMPLES);
        let mix = |(places, labels): &(Places, Vec<AtomicU32>)| {
            let mut deff = chance.clone();
            for batch in labels.chunks_exact(BATCH_SAMPLES as usize) {
                // A label that was not read is not a class.
                deff.add(batch.iter().map(|label| label.load(Ordering::Relaxed) as usize));
            }
            let figure = deff.figure();
            ShuffleQuality {
                readers: places.readers,
                deff: figure.map(|figure| figure.value),
                spread: figure.map(|figure| figure.spread),
                batches: deff.batches(),
            }
        };
        self.of.iter().map(mix).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count(labels: &[u32]) -> Vec<u64> {
        let mut counts = vec![0; labels.iter().max().map_or(0, |label| *label as usize + 1)];
        labels.iter().for_each(|label| counts[*label as usize] += 1);
        counts
    }

    fn mixes(labels: &[u32]) -> Vec<ShuffleQuality> {
        let kept = Labels::new(labels.len() as u64);
        kept.take(0..labels.len() as u64, |number| Ok(labels[number as usize])).unwrap();
        kept.mixes(&count(labels))
    }

    /// The formula in its plain form, over all batches.
    fn twin(labels: &[u32], readers: usize) -> f64 {
        let (samples, run) = (labels.len(), 256 / readers);
        let counts = count(labels);
        let (n, b) = (samples as f64, 256.0);
        let p = |k: usize| counts[k] as f64 / n;
        let (mut sum, mut batches) = (0.0, 0);
        while (batches + 1) * run <= samples / readers {
            let mut c = vec![0.0; counts.len()];
            for j in 0..readers {
                for i in 0..run {
                    c[labels[j * samples / readers + batches * run + i] as usize] += 1.0;
                }
            }
            sum += (0..c.len()).map(|k| (c[k] - b * p(k)).powi(2)).sum::<f64>();
            batches += 1;
        }
        let squares: f64 = (0..counts.len()).map(|k| p(k).powi(2)).sum();
        sum / batches as f64 / (b * (1.0 - squares) * (n - b) / (n - 1.0))
    }

    fn shuffled(mut labels: Vec<u32>, seed: u64) -> Vec<u32> {
        let order = shardpack_format::permutation::Permutation::new(labels.len() as u64, seed);
        let sorted = labels.clone();
        for (position, label) in labels.iter_mut().enumerate() {
            *label = sorted[order.sample_at(position as u64) as usize];
        }
        labels
    }

    /// Labels in order, class `k` a little larger than the one before.
    fn sorted(samples: usize, classes: u32) -> Vec<u32> {
        let weight = |k: u32| 1.0 + f64::from(k) / f64::from(classes);
        let total: f64 = (0..classes).map(weight).sum();
        let mut labels: Vec<u32> =
            (0..classes).flat_map(|k| vec![k; (weight(k) / total * samples as f64) as usize]).collect();
        labels.resize(samples, classes - 1);
        labels
    }

    #[test]
    fn a_true_shuffle_gives_one_on_average() {
        for (samples, classes) in [(2_600, 2), (10_000, 5), (20_000, 1000)] {
            let runs = 40;
            let all: Vec<_> = (0..runs).map(|seed| mixes(&shuffled(sorted(samples, classes), seed))).collect();
            for (at, readers) in READERS.iter().enumerate() {
                let deffs: Vec<f64> = all.iter().map(|mixes| mixes[at].deff.unwrap()).collect();
                let (mean, spread) = (deffs.iter().sum::<f64>() / runs as f64, all[0][at].spread.unwrap());
                let bound = 4.0 * spread / (runs as f64).sqrt();
                assert!((mean - 1.0).abs() < bound, "{samples} {classes} {readers}: {mean} ± {bound}");
                let deviation = (deffs.iter().map(|d| (d - 1.0).powi(2)).sum::<f64>() / runs as f64).sqrt();
                assert!((0.5..1.6).contains(&(deviation / spread)), "{samples} {classes}: {deviation}, said {spread}");
            }
        }
    }

    #[test]
    fn a_sorted_order_is_far_from_mixed_and_more_readers_mix_it_better() {
        let found = mixes(&sorted(100_000, 100));
        let deffs: Vec<f64> = found.iter().map(|mix| mix.deff.unwrap()).collect();
        assert!(deffs[0] > 200.0 && deffs[1] > 20.0 && deffs[2] > 1.2, "{deffs:?}");
        assert!(deffs[0] > deffs[1] && deffs[1] > deffs[2], "{deffs:?}");
        assert!(found.iter().all(|mix| mix.spread.unwrap() < 0.05));
    }

    #[test]
    fn what_is_too_small_is_not_told() {
        let two = |samples: usize| (0..samples).map(|n| n as u32 % 2).collect::<Vec<_>>();
        assert!(mixes(&[]).iter().all(|mix| mix.deff.is_none() && mix.batches == 0));
        assert!(mixes(&two(2047)).iter().all(|mix| mix.deff.is_none()));
        assert!(mixes(&two(2048)).iter().all(|mix| mix.deff.is_some()));
        assert!(mixes(&vec![0; 10_000]).iter().all(|mix| mix.deff.is_none()), "one class");
        assert!(mixes(&vec![3; 10_000]).iter().all(|mix| mix.deff.is_none()), "one class of four");
    }

    #[test]
    fn of_a_large_order_a_bounded_number_of_batches_is_looked_at() {
        let samples = 3 * MAX_BATCHES * BATCH_SAMPLES + 77;
        let kept = Labels::new(samples);
        let mut asked = 0;
        kept.take(0..samples, |number| {
            asked += 1;
            assert!(number < samples);
            Ok((number % 5) as u32)
        })
        .unwrap();
        assert_eq!(asked, 3 * MAX_BATCHES * BATCH_SAMPLES);
        let found = kept.mixes(&[samples / 5; 5]);
        assert!(found.iter().all(|mix| mix.batches == MAX_BATCHES && mix.deff.unwrap() < 0.1), "{found:?}");
        // The places of the largest possible order can be computed.
        let places = Places::new(u64::MAX, 64);
        places.each_in(u64::MAX - 1000..u64::MAX, |_, _| Ok(())).unwrap();
    }

    #[test]
    fn batches_with_a_label_that_was_not_read_are_left_out() {
        let labels = shuffled(sorted(10_000, 7), 1);
        let kept = Labels::new(10_000);
        kept.take(0..5_000, |number| Ok(labels[number as usize])).unwrap();
        let found = kept.mixes(&count(&labels));
        assert_eq!(found.iter().map(|mix| mix.batches).collect::<Vec<_>>(), [19, 0, 0]);
        assert!(found[0].deff.is_some() && found[1].deff.is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn it_is_the_formula_however_the_order_is_cut(
            labels in prop::collection::vec(0u32..6, 2048..6000),
            sort: bool,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut labels = labels;
            if sort {
                labels.sort();
            }
            let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut.index(labels.len()) as u64).collect();
            cuts.extend([0, labels.len() as u64]);
            cuts.sort();
            let kept = Labels::new(labels.len() as u64);
            for cut in cuts.windows(2) {
                kept.take(cut[0]..cut[1], |number| Ok(labels[number as usize])).unwrap();
            }
            for (mix, readers) in kept.mixes(&count(&labels)).into_iter().zip(READERS) {
                let (found, expected) = (mix.deff.unwrap(), twin(&labels, readers as usize));
                prop_assert!((found - expected).abs() < 1e-6 * expected, "{} readers: {} {}", readers, found, expected);
            }
        }
    }
}
