//! Measures the quality of an order: R, DEFF, and repeated or dropped samples.
//!
//! docs/reference/order.md defines R and DEFF; the loader's module `quality` computes them. R covers batches of all ranks together; DEFF
//! covers both those batches and batches of one rank.

use shardpack_loader::quality::{self, Deff};

use super::order::{Ranks, Setting};

/// Results of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Quality {
    /// 1.0 for a true reshuffle.
    pub r: f64,
    /// DEFF of batches of one rank and of all ranks; shards are stored in the order of a global shuffle.
    pub deff_shuffled: [f64; 2],
    /// The same DEFF, for shards sorted by class.
    pub deff_sorted: [f64; 2],
    /// Repeats of samples in an epoch, not counting each sample's first delivery.
    pub repeated: u64,
    /// Samples never delivered, if ranks stop after the last batch that all ranks have.
    pub dropped: u64,
}

/// Samples of all ranks at each step, up to the last step that all ranks have.
fn steps(ranks: &Ranks) -> Vec<Vec<u64>> {
    let common = ranks.iter().map(Vec::len).min().unwrap_or(0);
    (0..common)
        .map(|step| ranks.iter().flat_map(|batches| &batches[step]).map(|one| u64::from(*one)).collect())
        .collect()
}

/// The first step of each sample, and the number of repeats.
fn first_steps(steps: &[Vec<u64>], samples: usize) -> (Vec<Option<u64>>, u64) {
    let (mut of, mut repeated) = (vec![None; samples], 0);
    for (number, step) in steps.iter().enumerate() {
        for sample in step {
            match &mut of[*sample as usize] {
                Some(_) => repeated += 1,
                none => *none = Some(number as u64),
            }
        }
    }
    (of, repeated)
}

/// DEFF over the batches of `together` ranks each; NaN if there are too few batches.
fn deff(ranks: &Ranks, together: usize, batch: usize, labels: &[u32], classes: u32) -> f64 {
    let mut sizes = vec![0; classes as usize];
    labels.iter().for_each(|label| sizes[*label as usize] += 1);
    let mut deff = Deff::new(&sizes, (together * batch) as u64);
    for group in ranks.chunks(together) {
        let common = group.iter().map(Vec::len).min().unwrap_or(0);
        for step in 0..common {
            let samples = group.iter().flat_map(|batches| &batches[step]);
            deff.add(samples.map(|sample| labels[*sample as usize] as usize));
        }
    }
    deff.figure().map_or(f64::NAN, |figure| figure.value)
}

/// Measures two consecutive epochs of shards whose samples have these labels.
pub fn quality(setting: &Setting, epochs: [&Ranks; 2], shuffled: &[u32], sorted: &[u32]) -> Quality {
    let all = setting.samples as usize;
    let [first, second] = epochs.map(steps);
    let (seen, repeated) = first_steps(&first, all);
    let (again, _) = first_steps(&second, all);
    let batch = (setting.ranks * setting.batch) as u64;
    let r = quality::repeated_pairs(&first, setting.samples.into(), batch, |sample| again[sample as usize]);
    let deff = |labels| [1, setting.ranks].map(|ranks| deff(epochs[0], ranks, setting.batch, labels, setting.classes));
    Quality {
        r: r.map_or(f64::NAN, |figure| figure.value),
        deff_shuffled: deff(shuffled),
        deff_sorted: deff(sorted),
        repeated,
        dropped: seen.iter().filter(|step| step.is_none()).count() as u64,
    }
}
