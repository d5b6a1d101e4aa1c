//! Mixes: several datasets in one order, and classes with adjusted frequencies.

use std::collections::BTreeMap;

use shardpack_format::{Error, Result};
use shardpack_reader::Dataset;

use crate::{
    Subset,
    order::{Group, Quota, Selection, divide},
};

/// A dataset in a mix.
#[derive(Debug)]
pub struct MixPart {
    /// The dataset.
    pub dataset: Dataset,
    /// Which samples to use.
    pub subset: Subset,
    /// How often the samples come in an epoch.
    pub times: Times,
}

/// How often the samples of a [`MixPart`] come in an epoch: the counts are exact in every epoch, by a formula and not by draws.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Times {
    /// Once each.
    #[default]
    Once,
    /// This many in all: the counts of samples differ by at most one, and each epoch repeats other samples.
    Total(u64),
    /// As many in all as there are samples, divided among the classes in proportion to (samples of the class) to this power: 1
    /// keeps the frequencies, 0 makes all classes equal, and 1 / T has the effect of a temperature of T. Samples without a class
    /// form one class.
    Classes(f64),
}

impl MixPart {
    /// All of `dataset`, once.
    pub fn new(dataset: Dataset) -> Self {
        Self { dataset, subset: Subset::All, times: Times::Once }
    }

    /// Parts that share an epoch of `samples` in proportion to their weights.
    ///
    /// # Errors
    /// If a weight is not finite or not above 0.
    pub fn by_weight(parts: Vec<(Self, f64)>, samples: u64) -> Result<Vec<Self>> {
        if let Some((_, weight)) = parts.iter().find(|(_, weight)| !(weight.is_finite() && *weight > 0.0)) {
            return Err(Error::usage(format!("a weight of {weight}: it has to be above 0")));
        }
        let weights: Vec<f64> = parts.iter().map(|(_, weight)| *weight).collect();
        let totals = divide(samples, &weights);
        Ok(parts
            .into_iter()
            .zip(totals)
            .map(|((part, _), total)| Self { times: Times::Total(total), ..part })
            .collect())
    }
}

/// Limit for the occurrences of a sample in an epoch: each occurrence is a copy in memory.
const MAX_COPIES: u64 = 10_000;

/// How often the samples of a part come, in the form that the order needs.
#[derive(Clone, Debug)]
pub(crate) enum Quotas {
    All(Quota),
    Groups(Vec<Group>),
}

fn few(quota: Quota) -> Result<Quota> {
    match quota.rounds {
        0..MAX_COPIES => Ok(quota),
        rounds => Err(Error::usage(format!("samples that come {rounds} times in an epoch: {MAX_COPIES} are possible"))),
    }
}

impl Quotas {
    pub fn new(part: &MixPart, selection: &Selection) -> Result<Self> {
        let samples = selection.len();
        let power = match part.times {
            Times::Once => return Ok(Self::All(Quota { rounds: 1, rest: 0 })),
            Times::Total(total) => return Ok(Self::All(few(Quota::new(total, samples))?)),
            Times::Classes(power) => power,
        };
        if !(0.0..=1.0).contains(&power) {
            return Err(Error::usage(format!("classes to the power of {power}: 0 to 1 are possible")));
        }
        let mut classes: BTreeMap<Option<i64>, Vec<u64>> = BTreeMap::new();
        for selected in 0..samples {
            let number = selection.number(selected);
            classes.entry(part.dataset.row(number)?.label).or_default().push(number);
        }
        let shares: Vec<f64> = classes.values().map(|numbers| (numbers.len() as f64).powf(power)).collect();
        let totals = divide(samples, &shares);
        let groups = classes.into_values().zip(totals).map(|(numbers, total)| {
            let quota = few(Quota::new(total, numbers.len() as u64))?;
            Ok(Group { numbers, quota })
        });
        Ok(Self::Groups(groups.collect::<Result<_>>()?))
    }

    /// Whether the counts of all samples are the same in every epoch.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::All(quota) => quota.rest == 0,
            Self::Groups(groups) => groups.iter().all(|group| group.quota.rest == 0),
        }
    }

    /// The numbers for the fingerprint.
    pub fn numbers(&self) -> Vec<u64> {
        let of = |quota: &Quota| [quota.rounds, quota.rest];
        match self {
            Self::All(quota) => of(quota).to_vec(),
            Self::Groups(groups) => groups.iter().flat_map(|group| of(&group.quota)).collect(),
        }
    }
}
