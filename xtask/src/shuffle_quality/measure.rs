//! What an order is worth: R, DEFF, and what is repeated or dropped.
//!
//! R: of all pairs of samples that share a batch of a rank in one epoch, those that share one in the next as well, ÷ what chance
//! makes. DEFF_w: the variance of the mix of classes over batches of w ranks, ÷ that of draws without replacement; docs/order.md
//! has the formula.

use super::order::{Ranks, Setting};

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Quality {
    /// 1.0 for a true reshuffle.
    pub r: f64,
    /// DEFF of batches of one rank and of all ranks, in shards in the order of a global shuffle.
    pub deff_shuffled: [f64; 2],
    /// The same in shards sorted by class.
    pub deff_sorted: [f64; 2],
    /// Samples that come more than once in an epoch, counted each time after the first.
    pub repeated: u64,
    /// Samples that do not come at all, where ranks stop at the batches that all have.
    pub dropped: u64,
}

/// The batch of each sample: that in which it comes first, of the batches that all ranks have.
fn batches(ranks: &Ranks, samples: usize) -> (Vec<Option<u32>>, u64) {
    let common = ranks.iter().map(Vec::len).min().unwrap_or(0);
    let (mut of, mut repeated) = (vec![None; samples], 0);
    let all = ranks.iter().flat_map(|batches| &batches[..common]);
    for (number, batch) in all.enumerate() {
        for sample in batch {
            match &mut of[*sample as usize] {
                Some(_) => repeated += 1,
                none => *none = Some(number as u32),
            }
        }
    }
    (of, repeated)
}

/// Pairs within groups of equal numbers.
fn pairs<T: Ord>(mut numbers: Vec<T>) -> f64 {
    numbers.sort_unstable();
    numbers.chunk_by(PartialEq::eq).map(|group| group.len() as f64 * (group.len() as f64 - 1.0) / 2.0).sum()
}

fn r(first: &[Option<u32>], second: &[Option<u32>]) -> f64 {
    let both: Vec<(u32, u32)> = first.iter().zip(second).filter_map(|(first, second)| (*first).zip(*second)).collect();
    let all = both.len() as f64 * (both.len() as f64 - 1.0) / 2.0;
    let chance = pairs(both.iter().map(|batch| batch.0).collect()) / all;
    pairs(both.clone()) / (pairs(both.iter().map(|batch| batch.1).collect()) * chance)
}

/// DEFF over the batches of `together` ranks each; shorter batches are passed over. NaN where there is none.
fn deff(ranks: &Ranks, together: usize, batch: usize, labels: &[u32], classes: u32) -> f64 {
    let mut sizes = vec![0.0; classes as usize];
    labels.iter().for_each(|label| sizes[*label as usize] += 1.0);
    let n = labels.len() as f64;
    let p: Vec<f64> = sizes.iter().map(|size| size / n).collect();
    let squares: f64 = p.iter().map(|p| p * p).sum();
    let b = (together * batch) as f64;
    let (mut sum, mut count, mut found) = (0.0, 0.0, vec![0u32; classes as usize]);
    for group in ranks.chunks(together) {
        let common = group.iter().map(Vec::len).min().unwrap_or(0);
        for turn in 0..common {
            if group.iter().any(|batches| batches[turn].len() != batch) {
                continue;
            }
            let samples =
                || group.iter().flat_map(|batches| &batches[turn]).map(|sample| labels[*sample as usize] as usize);
            samples().for_each(|label| found[label] += 1);
            // Σ(c − Bp)², where all but the classes that are there give (Bp)².
            let mut variance = b * b * squares;
            for label in samples() {
                let c = f64::from(std::mem::take(&mut found[label]));
                variance += c * c - 2.0 * b * c * p[label];
            }
            sum += variance;
            count += 1.0;
        }
    }
    sum / count / (b * (1.0 - squares) * (n - b) / (n - 1.0))
}

/// Measures two epochs that follow each other, of shards whose samples have these labels.
pub fn quality(setting: &Setting, epochs: [&Ranks; 2], shuffled: &[u32], sorted: &[u32]) -> Quality {
    let (first, repeated) = batches(epochs[0], setting.samples as usize);
    let (second, _) = batches(epochs[1], setting.samples as usize);
    let deff = |labels| [1, setting.ranks].map(|ranks| deff(epochs[0], ranks, setting.batch, labels, setting.classes));
    Quality {
        r: r(&first, &second),
        deff_shuffled: deff(shuffled),
        deff_sorted: deff(sorted),
        repeated,
        dropped: first.iter().filter(|batch| batch.is_none()).count() as u64,
    }
}
