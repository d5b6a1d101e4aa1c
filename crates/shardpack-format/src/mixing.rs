//! How evenly batches mix classes: DEFF, the variance of the mix over batches against draws by chance. `docs/reference/order.md` defines it.
//!
//! Holds at all times: only this file computes it, for every caller and every kind of batch. With N samples in
//! all, n_k of class k, p_k = n_k / N, and c_bk samples of class k in batch b of B samples:
//! ```text
//!                    Σ_k (c_bk − B p_k)²
//! mean over b of ─────────────────────────────────
//!                B (1 − Σ_k p_k²) (N − B) / (N − 1)
//! ```
//! The denominator is the mean of the numerator if each set of B samples is a batch with equal chance: the
//! variance of the multivariate hypergeometric distribution, summed over the classes. So a true shuffle gives 1.00 on
//! average, for any N and classes; batches of one class each give about B. How far a true shuffle may be from 1.00
//! by chance is the standard deviation of the mean, from that of one batch,
//! ```text
//! √( 4 B (Σp³ − (Σp²)²) + 2 B (B − 1) (Σp² − 2 Σp³ + (Σp²)²) ) / ( B (1 − Σp²) ) / √batches
//! ```
//! which is exact for draws with replacement.

use serde::Serialize;

/// With fewer batches chance decides.
pub const FEWEST_BATCHES: u64 = 8;

/// A figure of an order, and how far chance may take a true shuffle from 1: one standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// The figure; 1 is a true shuffle.
    pub value: f64,
    /// One standard deviation of a true shuffle's.
    pub spread: f64,
}

/// DEFF of batches, added one by one.
#[derive(Clone, Debug)]
pub struct Deff {
    batch: f64,
    shares: Vec<f64>,
    /// Σp².
    squares: f64,
    /// Mean of Σ_k (c_k − B p_k)² over all sets of B samples; 0 where all are of one class.
    mean: f64,
    /// Standard deviation of the sum in units of its mean, drawn with replacement.
    deviation: f64,
    /// Of each class its samples in a batch; all zeros between batches.
    found: Vec<u32>,
    sum: f64,
    batches: u64,
}

impl Deff {
    /// For batches of `batch` samples, out of `counts[k]` of each class *k*; samples without a class are a class of their own.
    pub fn new(counts: &[u64], batch: u64) -> Self {
        let (samples, batch) = (counts.iter().map(|count| *count as f64).sum::<f64>(), batch as f64);
        let shares: Vec<f64> = counts.iter().map(|count| *count as f64 / samples.max(1.0)).collect();
        let power = |n: i32| shares.iter().map(|share| share.powi(n)).sum::<f64>();
        let (squares, cubes) = (power(2), power(3));
        let mean = match counts.iter().filter(|count| **count > 0).count() {
            0 | 1 => 0.0,
            _ => batch * (1.0 - squares) * (samples - batch).max(0.0) / (samples - 1.0),
        };
        let own = 4.0 * batch * (cubes - squares * squares);
        let pairs = 2.0 * batch * (batch - 1.0) * (squares - 2.0 * cubes + squares * squares);
        let deviation = (own + pairs).max(0.0).sqrt() / (batch * (1.0 - squares));
        Self { batch, found: vec![0; shares.len()], shares, squares, mean, deviation, sum: 0.0, batches: 0 }
    }

    /// Adds a batch of samples of these classes. One of another length, or with a class that there is not, is left out.
    pub fn add(&mut self, classes: impl Iterator<Item = usize> + Clone) {
        let mut len = 0_u64;
        let is_known = classes.clone().all(|class| {
            len += 1;
            class < self.shares.len()
        });
        if !is_known || len as f64 != self.batch {
            return;
        }
        for class in classes.clone() {
            self.found[class] += 1;
        }
        // As if no class were in it, mended for those that are: the time does not grow with the number of classes.
        self.sum += self.batch * self.batch * self.squares;
        for class in classes {
            let count = f64::from(std::mem::take(&mut self.found[class]));
            self.sum += count * (count - 2.0 * self.batch * self.shares[class]);
        }
        self.batches += 1;
    }

    /// Batches that were added.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// DEFF; `None` for samples of one class, or fewer than [`FEWEST_BATCHES`] batches.
    pub fn figure(&self) -> Option<Figure> {
        let batches = self.batches as f64;
        (self.batches >= FEWEST_BATCHES && self.mean > 0.0)
            .then(|| Figure { value: self.sum / batches / self.mean, spread: self.deviation / batches.sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deff(counts: &[u64], batches: &[Vec<usize>]) -> Deff {
        let mut deff = Deff::new(counts, batches.first().map_or(1, |batch| batch.len() as u64));
        batches.iter().for_each(|batch| deff.add(batch.iter().copied()));
        deff
    }

    proptest! {
        #[test]
        fn it_is_the_formula(labels in prop::collection::vec(0usize..6, 100..600), batch in 2usize..12) {
            let n = labels.len() as f64;
            let p: Vec<f64> = (0..6).map(|k| labels.iter().filter(|label| **label == k).count() as f64 / n).collect();
            let counts: Vec<u64> = p.iter().map(|p| (p * n).round() as u64).collect();
            let batches: Vec<Vec<usize>> = labels.chunks_exact(batch).map(<[usize]>::to_vec).collect();
            let b = batch as f64;
            let sums = batches.iter().map(|one| {
                let c = |k: usize| one.iter().filter(|label| **label == k).count() as f64;
                (0..6).map(|k| (c(k) - b * p[k]).powi(2)).sum::<f64>()
            });
            let squares: f64 = p.iter().map(|p| p * p).sum();
            let expected = sums.sum::<f64>() / batches.len() as f64 / (b * (1.0 - squares) * (n - b) / (n - 1.0));
            let found = deff(&counts, &batches).figure().unwrap().value;
            prop_assert!((found / expected - 1.0).abs() < 1e-9, "{} {}", found, expected);
        }
    }

    #[test]
    fn what_is_too_small_or_of_one_class_is_not_told() {
        let sorted: Vec<Vec<usize>> = (0..100).map(|class| vec![class; 64]).collect();
        let counts = vec![64; 100];
        assert!(deff(&counts, &sorted).figure().unwrap().value > 60.0);
        assert!(deff(&counts, &sorted[..7]).figure().is_none() && deff(&counts, &[]).figure().is_none());
        assert!(deff(&[6400], &vec![vec![0; 64]; 100]).figure().is_none());
        assert!(deff(&[0, 6400], &vec![vec![1; 64]; 100]).figure().is_none());
        assert!(deff(&[], &[]).figure().is_none());
    }

    #[test]
    fn batches_of_another_length_or_with_an_unknown_class_are_left_out() {
        let mut all = vec![vec![0, 1]; 20];
        all.extend([vec![0], vec![0, 1, 1], vec![0, 2]]);
        let found = deff(&[30, 30], &all);
        assert_eq!(found.batches(), 20);
        assert!(found.figure().unwrap().value < 1e-9, "as even as can be");
    }
}
