//! How well an order mixes, measured on the batches that were delivered: R and DEFF. `docs/order.md` defines both.
//!
//! Holds at all times: what is measured is the batches that are given, not the formula of an order.

use std::collections::HashMap;

pub use shardpack_format::mixing::{Deff, FEWEST_BATCHES, Figure};

/// R: how much more often than by chance two samples that shared a batch in one epoch share one in another.
///
/// A batch is what all ranks take at one step, `batch` samples of `samples` in all. `batches` are those of the first epoch;
/// `batch_of` tells in which batch of the other epoch a sample was, if it was in any.
/// `None` for fewer than 8 batches, or where chance expects fewer than 20 such pairs.
pub fn again(batches: &[Vec<u64>], samples: u64, batch: u64, batch_of: impl Fn(u64) -> Option<u64>) -> Option<Figure> {
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
    // A pair shares one of the others' batches with this chance.
    let chance = batch.saturating_sub(1) as f64 / samples.saturating_sub(1).max(1) as f64;
    let expected = pairs as f64 * chance;
    (expected >= 20.0 && batches.len() as u64 >= FEWEST_BATCHES)
        .then(|| Figure { value: shared as f64 / expected, spread: 1.0 / expected.sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Epoch, Layout, Options, Shuffle};

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
        let r = again(&first, SAMPLES, BATCH, |sample| Some(epochs[1].position_of(sample) / BATCH)).unwrap();
        // 100 classes, as a global shuffle at packing spreads them: by the sample's number.
        let mut deff = Deff::new(&[SAMPLES / 100; 100], BATCH);
        first.iter().for_each(|one| deff.add(one.iter().map(|sample| (sample * 7919 % 100) as usize)));
        (r, deff.figure().unwrap())
    }

    #[test]
    fn lanes_as_many_as_a_batch_mix_as_a_true_shuffle_does() {
        for shuffle in [Shuffle::Lanes, Shuffle::Full] {
            let lanes = Options::lanes_for(1, BATCH);
            let (r, deff) = measured(Options { shuffle, lanes, run_blocks: 1, seed: 5 });
            assert!(r.value < 1.10 && (r.value - 1.0).abs() < 5.0 * r.spread, "{shuffle:?}: {r:?}");
            assert!(deff.value < 1.05, "{shuffle:?}: {deff:?}");
        }
    }

    #[test]
    fn too_few_lanes_and_stored_order_show() {
        let (r, _) = measured(Options { lanes: 8, ..Options::default() });
        assert!(r.value > 5.0, "{r:?}");
        let (r, _) = measured(Options { shuffle: Shuffle::None, ..Options::default() });
        assert!((r.value - (SAMPLES - 1) as f64 / (BATCH - 1) as f64).abs() < 1.0 + r.value / 100.0, "{r:?}");
        assert!(again(&[vec![0, 1]], 100, 2, Some).is_none());
        assert!(again(&vec![(0..100).collect(); 7], 100, 100, Some).is_none());
    }
}
