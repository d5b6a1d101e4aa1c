//! Shuffle quality of delivered batches: R, DEFF and two correlations. `docs/reference/order.md` defines them.
//!
//! Holds at all times: measures the given batches, not the formula of an order.

use std::collections::HashMap;

use crate::order::Epoch;

pub use shardpack_format::mixing::{Deff, FEWEST_BATCHES, Figure};

/// R: how much more often than by chance two samples from one batch of an epoch share a batch in another epoch.
///
/// A batch is one step of all ranks: `batch` samples of `samples` in all. `batches` are those of the first epoch; `batch_of`
/// returns the batch of a sample in the other epoch, if the sample is in one.
/// Returns `None` for fewer than 8 batches, or if chance predicts fewer than 20 such pairs.
pub fn repeated_pairs(
    batches: &[Vec<u64>],
    samples: u64,
    batch: u64,
    batch_of: impl Fn(u64) -> Option<u64>,
) -> Option<Figure> {
    let (mut pairs, mut shared) = (0_u64, 0_u64);
    let mut of_batch: HashMap<u64, u64> = HashMap::new();
    for one in batches {
        of_batch.clear();
        let mut found = 0_u64;
        for number in one.iter().filter_map(|sample| batch_of(*sample)) {
            found += 1;
            let before = of_batch.entry(number).or_default();
            shared += *before;
            *before += 1;
        }
        pairs += found * u64::saturating_sub(found, 1) / 2;
    }
    // Probability that a pair shares a batch in the other epoch.
    let chance = batch.saturating_sub(1) as f64 / samples.saturating_sub(1).max(1) as f64;
    let expected = pairs as f64 * chance;
    (expected >= 20.0 && batches.len() as u64 >= FEWEST_BATCHES)
        .then(|| Figure { value: shared as f64 / expected, spread: 1.0 / expected.sqrt() })
}

/// Two correlations that are 0 for a true shuffle, with their standard deviation by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Between the stored place of a sample in its run and the time at which the sample comes.
    pub place: Figure,
    /// Between the times at which a sample comes in two epochs.
    pub epochs: Figure,
}

/// With fewer runs, chance dominates.
const FEWEST_RUNS: u64 = 20;

impl Times {
    /// For samples by number, each with its position in epoch `epoch` and in another epoch. `None` if there are too few runs.
    pub fn measure(epoch: &Epoch, samples: impl Iterator<Item = (u64, u64, u64)> + Clone) -> Option<Self> {
        // Samples of one run come close together: runs are independent, samples are not.
        let spread = 1.0 / (epoch.run_count() as f64).sqrt();
        let place = correlation(samples.clone().map(|(number, at, _)| (epoch.place_in_run(number), at as f64)));
        let epochs = correlation(samples.map(|(_, at, other)| (at as f64, other as f64)))?;
        // A run of one sample has no places.
        let [place, epochs] = [place.unwrap_or(0.0), epochs].map(|value| Figure { value, spread });
        (epoch.run_count() >= FEWEST_RUNS).then_some(Self { place, epochs })
    }
}

/// Pearson's correlation; `None` if one of the two variables is constant.
fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let (mut count, mut x, mut y) = (0.0_f64, 0.0, 0.0);
    pairs.clone().for_each(|(a, b)| (count, x, y) = (count + 1.0, x + a, y + b));
    let (x, y) = (x / count.max(1.0), y / count.max(1.0));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    pairs.for_each(|(a, b)| {
        (xx, yy, xy) = (xx + (a - x) * (a - x), yy + (b - y) * (b - y), xy + (a - x) * (b - y));
    });
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Layout, Options, Shuffle};

    const SAMPLES: u64 = 60_000;
    const BATCH: u64 = 64;

    /// The batches of an epoch.
    fn batches(epoch: &Epoch) -> Vec<Vec<u64>> {
        let all: Vec<u64> = (0..epoch.len()).map(|position| epoch.sample_at(position)).collect();
        all.chunks(BATCH as usize).map(<[u64]>::to_vec).collect()
    }

    fn measured(options: Options) -> (Figure, Figure) {
        let layout = Layout::new([SAMPLES / 20; 20], 18).unwrap();
        let epochs = [0, 1].map(|number| Epoch::new(&layout, &options, number).unwrap());
        let first = batches(&epochs[0]);
        let r = repeated_pairs(&first, SAMPLES, BATCH, |sample| Some(epochs[1].position_of(sample) / BATCH)).unwrap();
        // 100 classes, spread as a global shuffle at packing does: by the number of the sample.
        let mut deff = Deff::new(&[SAMPLES / 100; 100], BATCH);
        first.iter().for_each(|one| deff.add(one.iter().map(|sample| (sample * 7919 % 100) as usize)));
        (r, deff.figure().unwrap())
    }

    #[test]
    fn lanes_as_many_as_a_batch_mix_as_a_true_shuffle_does() {
        for shuffle in [Shuffle::Lanes, Shuffle::Full] {
            let lanes = Options::lanes_for(1, BATCH);
            let (r, deff) = measured(Options { shuffle, lanes, run_blocks: 1, seed: 5, ..Options::default() });
            assert!(r.value < 1.10 && (r.value - 1.0).abs() < 5.0 * r.spread, "{shuffle:?}: {r:?}");
            assert!(deff.value < 1.05, "{shuffle:?}: {deff:?}");
        }
    }

    /// Mean of both correlations over `epochs` epochs of one shard, and the ratio to chance at which the first sample of a run
    /// comes in the last twentieth of an epoch.
    fn times(samples: u64, lanes: u64, run: u64, rotated: bool, epochs: u64) -> [f64; 3] {
        let layout = Layout::new([samples], 1).unwrap();
        let options = Options { lanes, run_blocks: run, rotated, ..Options::default() };
        let (mut before, mut sums, mut late, mut firsts) = (Vec::new(), [0.0; 2], 0, 0);
        for number in 0..=epochs {
            let epoch = Epoch::new(&layout, &options, number).unwrap();
            let mut at = vec![0; samples as usize];
            for lane in 0..lanes {
                for segment in epoch.segments(lane, 0) {
                    (0..segment.len())
                        .for_each(|n| at[segment.sample(n) as usize] = (segment.start + n) * lanes + lane);
                }
            }
            for sample in (0..samples).step_by(run as usize) {
                late += u64::from(at[sample as usize] >= samples - samples / 20);
                firsts += 1;
            }
            if number > 0 {
                let all = (0..samples).zip(&at).zip(&before).map(|((number, at), before)| (number, *at, *before));
                let Times { place, epochs } = Times::measure(&epoch, all).unwrap();
                sums = [sums[0] + place.value, sums[1] + epochs.value];
            }
            before = at;
        }
        [sums[0] / epochs as f64, sums[1] / epochs as f64, late as f64 / (firsts as f64 / 20.0)]
    }

    /// For lanes of one rank and of eight.
    #[test]
    fn a_place_in_a_run_does_not_decide_when_a_sample_comes() {
        for (samples, lanes) in [(4_800, 96), (9_600, 384)] {
            let lane = (samples / lanes) as f64;
            for ratio in [0.05, 0.2, 0.5, 0.7, 1.3, 2.0, 5.0] {
                let run = ((lane * ratio) as u64).max(1);
                let epochs = 96_000 / samples;
                let [place, epochs, late] = times(samples, lanes, run, true, epochs);
                let what = format!("{lanes} lanes, runs of {run}: {place:.4}, {epochs:.4}, {late:.2}");
                assert!(place.abs() < 0.02 && epochs.abs() < 0.01 && (0.7..1.45).contains(&late), "{what}");
            }
            let run = (lane * 0.7) as u64;
            let [place, epochs, late] = times(samples, lanes, run, false, 20);
            assert!(place < -0.2 && epochs > 0.1 && late > 2.0, "without rotation: {place} {epochs} {late}");
        }
    }

    #[test]
    fn too_few_lanes_and_stored_order_show() {
        let (r, _) = measured(Options { lanes: 8, ..Options::default() });
        assert!(r.value > 5.0, "{r:?}");
        let (r, _) = measured(Options { shuffle: Shuffle::None, ..Options::default() });
        assert!((r.value - (SAMPLES - 1) as f64 / (BATCH - 1) as f64).abs() < 1.0 + r.value / 100.0, "{r:?}");
        assert!(repeated_pairs(&[vec![0, 1]], 100, 2, Some).is_none());
        assert!(repeated_pairs(&vec![(0..100).collect(); 7], 100, 100, Some).is_none());
    }
}
