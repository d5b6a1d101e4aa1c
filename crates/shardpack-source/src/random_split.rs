//! Chooses splits at random, sample by sample.
//!
//! The split of a sample depends on the seed and its path only. So added or removed samples move no other sample. Each
//! class is divided in the same fractions, apart from chance. Samples that share a path share a split.

use std::fmt;

use shardpack_format::{Error, Result, splits};

use super::options::by_usual_order;

/// The split of the remaining samples.
const REST: &str = "train";
/// Separates this choice from other choices with the same seed.
const CONTEXT: &str = "shardpack 1: split of a sample by its path";

/// Splits with their fractions of all samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fractions {
    /// The option text: `val=0.05,test=0.05`.
    text: String,
    seed: u64,
    /// Splits in option order, each with the exclusive upper bound of its hash numbers.
    bounds: Vec<(String, u128)>,
}

impl Fractions {
    /// Parses `val=0.05,test=0.05`; the rest is `train`.
    ///
    /// # Errors
    /// If a split name is invalid or repeated, or no fraction remains.
    pub fn new(text: &str, seed: u64) -> Result<Self> {
        let wrong = |what: String| Error::usage(format!("--split-fraction {text:?}: {what}"));
        let (mut bounds, mut sum) = (Vec::<(String, u128)>::new(), 0.0);
        for part in text.split(',') {
            let (name, number) = part.split_once('=').ok_or_else(|| wrong("write val=0.05,test=0.05".to_owned()))?;
            splits::check_name(name)?;
            if name == REST || bounds.iter().any(|(known, _)| known == name) {
                return Err(wrong(format!(
                    "split {name} is {}",
                    if name == REST { "the remainder" } else { "there twice" }
                )));
            }
            let fraction: f64 =
                number.parse().ok().filter(|number| *number > 0.0 && *number < 1.0).ok_or_else(|| {
                    wrong(format!("{number:?} is no fraction: write a number between 0 and 1, as in {name}=0.05"))
                })?;
            sum += fraction;
            // Exact, because the factor is a power of two.
            bounds.push((name.to_owned(), (sum * 2f64.powi(64)) as u128));
        }
        if sum >= 1.0 {
            return Err(wrong(format!("nothing is left for {REST}")));
        }
        Ok(Self { text: text.to_owned(), seed, bounds })
    }

    /// Parses the text that `Display` writes.
    ///
    /// # Errors
    /// If the text is invalid.
    pub fn of_text(text: &str) -> Result<Self> {
        let parts = text.split_once(";seed=").and_then(|(text, seed)| Some((text, seed.parse().ok()?)));
        let (text, seed) = parts.ok_or_else(|| Error::data(format!("{text:?} are no fractions of splits")))?;
        Self::new(text, seed)
    }

    /// Split names: known names first, in their usual order.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.bounds.iter().map(|(name, _)| name.as_str()).chain([REST]).collect();
        names.sort_by_key(|name| by_usual_order(name));
        names
    }

    /// Returns a function from path to split. The hash key is derived once.
    pub(super) fn chooser<'f>(&'f self) -> impl Fn(&[u8]) -> &'f str {
        let key = blake3::derive_key(CONTEXT, &self.seed.to_le_bytes());
        move |path| {
            let hash = blake3::keyed_hash(&key, path);
            let number = hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
            let bound = self.bounds.iter().find(|(_, bound)| u128::from(number) < *bound);
            bound.map_or(REST, |(name, _)| name)
        }
    }
}

impl fmt::Display for Fractions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};seed={}", self.text, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_read_and_written() {
        let fractions = Fractions::new("val=0.05,test=0.2", 7).unwrap();
        assert_eq!(fractions.names(), ["train", "val", "test"]);
        assert_eq!(Fractions::of_text(&fractions.to_string()).unwrap(), fractions);
        for wrong in
            ["", "val", "val=0", "val=1", "val=-1", "val=nan", "train=0.1", "a=0.1,a=0.1", "a=0.5,b=0.5", "a b=0.1"]
        {
            assert!(Fractions::new(wrong, 0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sample_is_of_the_split_that_its_path_and_the_seed_say() {
        let count = |seed: u64, text: &str| {
            let fractions = Fractions::new(text, seed).unwrap();
            let split_of = fractions.chooser();
            let splits = (0..10_000).map(|number| split_of(format!("c/{number}.jpg").as_bytes()).to_owned());
            splits.collect::<Vec<_>>()
        };
        let (first, second, more) = (count(0, "val=0.1"), count(1, "val=0.1"), count(0, "val=0.1,test=0.1"));
        for splits in [&first, &second, &more] {
            let val = splits.iter().filter(|split| *split == "val").count();
            assert!((900..1100).contains(&val), "{val}");
        }
        assert_ne!(first, second);
        // Another split takes samples from the rest only.
        assert!(first.iter().zip(&more).all(|(one, other)| one == other || (one == "train" && other == "test")));
    }
}
