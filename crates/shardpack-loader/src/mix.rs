//! Mixes: several datasets in one order, and classes with adjusted frequencies.

use std::collections::{BTreeMap, BTreeSet};

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
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Times {
    /// Once each.
    #[default]
    Once,
    /// This many in all: the counts of samples differ by at most one, and each epoch repeats other samples.
    Total(u64),
    /// As [`Times::Total`], by epoch: each total applies from its epoch on, ascending from epoch 0. All epochs of a mix have the
    /// same number of samples.
    Totals(Vec<(u64, u64)>),
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
        Self::by_weights(parts.into_iter().map(|(part, weight)| (part, vec![(0, weight)])).collect(), samples)
    }

    /// As [`MixPart::by_weight`], with weights that change: each applies from its epoch on.
    ///
    /// # Errors
    /// If the epochs of a part do not ascend from 0, a weight is not finite or negative, a part always has 0, or all parts have 0
    /// in one epoch.
    pub fn by_weights(parts: Vec<(Self, Vec<(u64, f64)>)>, samples: u64) -> Result<Vec<Self>> {
        let mut epochs = BTreeSet::new();
        for (_, steps) in &parts {
            if steps.first().is_none_or(|first| first.0 != 0) || !steps.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(Error::usage("weights by epoch: the epochs have to ascend from 0"));
            }
            if let Some((_, weight)) = steps.iter().find(|(_, weight)| !(weight.is_finite() && *weight >= 0.0)) {
                return Err(Error::usage(format!("a weight of {weight}: it has to be 0 or above")));
            }
            if steps.iter().all(|(_, weight)| *weight == 0.0) {
                return Err(Error::usage("a weight of 0: it has to be above 0"));
            }
            epochs.extend(steps.iter().map(|(epoch, _)| *epoch));
        }
        let mut totals: Vec<Vec<(u64, u64)>> = vec![Vec::new(); parts.len()];
        for epoch in epochs {
            let weights: Vec<f64> = parts.iter().filter_map(|(_, steps)| of_epoch(steps, epoch)).collect();
            if weights.iter().sum::<f64>() == 0.0 {
                return Err(Error::usage(format!("the weights of all parts are 0 from epoch {epoch} on")));
            }
            totals.iter_mut().zip(divide(samples, &weights)).for_each(|(totals, total)| totals.push((epoch, total)));
        }
        let times = |totals: Vec<(u64, u64)>| match totals[..] {
            [(_, total)] => Times::Total(total),
            _ => Times::Totals(totals),
        };
        Ok(parts.into_iter().zip(totals).map(|((part, _), totals)| Self { times: times(totals), ..part }).collect())
    }
}

/// The value that applies in `epoch`.
fn of_epoch<T: Copy>(steps: &[(u64, T)], epoch: u64) -> Option<T> {
    steps.iter().rev().find(|(first, _)| *first <= epoch).map(|(_, value)| *value)
}

/// Limit for the occurrences of a sample in an epoch: each occurrence is a copy in memory.
const MAX_COPIES: u64 = 10_000;

/// How often the samples of a part come, in the form that the order needs.
#[derive(Clone, Debug)]
pub(crate) enum Quotas {
    All(Quota),
    /// By epoch: each quota applies from its epoch on.
    ByEpoch(Vec<(u64, Quota)>),
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
            Times::Totals(ref totals) => {
                if totals.first().is_none_or(|first| first.0 != 0) || !totals.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err(Error::usage("totals by epoch: the epochs have to ascend from 0"));
                }
                let quotas = totals.iter().map(|(epoch, total)| Ok((*epoch, few(Quota::new(*total, samples))?)));
                return Ok(Self::ByEpoch(quotas.collect::<Result<_>>()?));
            }
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

    /// Whether no sample comes twice in an epoch.
    pub fn are_once(&self) -> bool {
        matches!(self, Self::All(Quota { rounds: 0, .. } | Quota { rounds: 1, rest: 0 }))
    }

    /// Whether the counts of all samples are the same in every epoch.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::All(quota) => quota.rest == 0,
            Self::ByEpoch(_) => false,
            Self::Groups(groups) => groups.iter().all(|group| group.quota.rest == 0),
        }
    }

    /// For all samples together, how often they come in `epoch`; `None` if that differs by group.
    pub fn of_all(&self, epoch: u64) -> Option<Quota> {
        match self {
            Self::All(quota) => Some(*quota),
            Self::ByEpoch(quotas) => of_epoch(quotas, epoch),
            Self::Groups(_) => None,
        }
    }

    /// The epochs from which on a quota changes.
    pub fn changes(&self) -> impl Iterator<Item = u64> {
        let quotas = if let Self::ByEpoch(quotas) = self { &quotas[..] } else { &[] };
        quotas.iter().map(|(epoch, _)| *epoch)
    }

    /// The numbers for the fingerprint.
    pub fn numbers(&self) -> Vec<u64> {
        let of = |quota: &Quota| [quota.rounds, quota.rest];
        match self {
            Self::All(quota) => of(quota).to_vec(),
            Self::ByEpoch(quotas) => {
                quotas.iter().flat_map(|(epoch, quota)| std::iter::once(*epoch).chain(of(quota))).collect()
            }
            Self::Groups(groups) => groups.iter().flat_map(|group| of(&group.quota)).collect(),
        }
    }
}
