//! The report of a pack: what was sealed, and the images that were found but are not in the shards.

use std::{path::PathBuf, time::Duration};

use shardpack_format::{
    Error, Result,
    image_header::Kind,
    manifest::{LEDGER_FILE, Manifest},
};
use shardpack_reader::Transfers;
use shardpack_runtime::Instant;

use super::{existing::path_prefix, split_prefix};
use crate::{
    copy,
    ledger::{self, Fate, Unpacked},
    plan::Plan,
    source::Refusal,
};

/// Result of a pack.
#[derive(Debug)]
pub struct Report {
    /// Manifests of the datasets, if they were sealed.
    pub manifests: Vec<Manifest>,
    /// The same command had sealed the datasets before: nothing was done.
    pub already_sealed: bool,
    /// Images whose files were changed after sealing: number, and the path of the first. Names and lengths have
    /// not changed.
    pub newer: Option<(u64, Vec<u8>)>,
    /// The sealed datasets have other sidecars than requested now.
    pub other_sidecars: bool,
    /// Images that were found but could not be packed.
    pub bad: Vec<Unpacked>,
    /// All images that were found but are not in the shards, for any reason; includes `bad`.
    pub unpacked: Vec<Unpacked>,
    /// Whether the policy let the pack continue without bad images.
    pub sealed: bool,
    /// Folder that keeps the replaced dataset, if there is one and nothing is sealed.
    pub replaced: Option<PathBuf>,
    /// Changes of the source since an earlier run, and their effect on its finished shards.
    pub changed: Option<String>,
    /// Number of shards that an earlier run had finished.
    pub resumed_shards: usize,
    /// Number of all shards.
    pub shards: usize,
    /// Images whose kind differs from the extension, the first few: path and kind.
    pub strays: Vec<(Vec<u8>, Kind)>,
    /// Number of all such images.
    pub stray_samples: u64,
    /// Objects with parts from an earlier run that may remain in the store, because the store refuses to abort
    /// their uploads.
    pub left_uploads: Vec<String>,
    /// Network transfers of writing, if the destination is a URL.
    pub transfers: Option<Transfers>,
    /// Duration without walk and plan.
    pub elapsed: Duration,
}

/// All images that were found but are not in the shards.
pub(super) fn left_out(plans: &[Plan], outcomes: &[copy::Outcome]) -> Vec<Unpacked> {
    let mut unpacked: Vec<Unpacked> = Vec::new();
    for (plan, outcome) in plans.iter().zip(outcomes) {
        let prefix = path_prefix(plan);
        let known = plan.unpacked.iter().filter(|entry| entry.fate != Fate::Kept).cloned();
        let recalled = outcome.shards.values().flat_map(|shard| &shard.unpacked).cloned();
        let found = outcome.bad.iter().map(|(number, Refusal(reason))| {
            let mut path = Vec::new();
            plan.listing.path(*number, &mut path);
            Unpacked { path, class: plan.listing.class(*number), fate: Fate::Skipped, reason: reason.as_str().into() }
        });
        let mut of_plan: Vec<Unpacked> = known.chain(recalled).chain(found).collect();
        of_plan.sort_by(ledger::order);
        of_plan.dedup();
        unpacked.extend(
            of_plan.into_iter().map(|entry| Unpacked { path: [prefix.as_bytes(), &entry.path].concat(), ..entry }),
        );
    }
    unpacked
}

/// Images that the ledgers of sealed datasets list as not in the shards; `read` returns the ledger of a plan.
pub(super) fn in_ledgers(
    plans: &[Plan],
    manifests: &[Manifest],
    read: impl Fn(&Plan) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<Unpacked>> {
    let mut unpacked = Vec::new();
    for (plan, _) in plans.iter().zip(manifests).filter(|(_, manifest)| manifest.ledger.file.is_some()) {
        let lines = read(plan)?.unwrap_or_default();
        let prefix = path_prefix(plan);
        let named = |error: Error| error.in_file(format!("{}{LEDGER_FILE}", split_prefix(plan)));
        let lines = ledger::read(&lines).map_err(named)?.into_iter();
        let lines = lines.filter(|line| line.fate != Fate::Kept);
        unpacked.extend(lines.map(|line| Unpacked { path: [prefix.as_bytes(), &line.path].concat(), ..line }));
    }
    Ok(unpacked)
}

/// Samples in the shards of a dataset.
pub(super) fn samples_of(outcome: &copy::Outcome) -> u64 {
    outcome.shards.values().map(|shard| shard.entry.samples).sum()
}

/// The strays of a shard of `plan`, by their paths from the source.
pub(super) fn strays(plan: &Plan, outcome: &copy::Outcome) -> Vec<(Vec<u8>, Kind)> {
    let prefix = path_prefix(plan);
    let strays = outcome.shards.values().flat_map(|shard| &shard.strays);
    strays.map(|(path, kind)| ([prefix.as_bytes(), path].concat(), *kind)).collect()
}

/// The report of a pack that began at `start`.
pub(super) fn report(
    manifests: Vec<Manifest>,
    already_sealed: bool,
    unpacked: Vec<Unpacked>,
    outcomes: &[copy::Outcome],
    plans: &[Plan],
    resumed_shards: usize,
    start: Instant,
) -> Report {
    let shards = || outcomes.iter().flat_map(|outcome| outcome.shards.values());
    let stray_samples = shards().map(|shard| shard.stray_samples).sum();
    Report {
        sealed: !manifests.is_empty(),
        manifests,
        already_sealed,
        newer: None,
        other_sidecars: false,
        bad: unpacked.iter().filter(|entry| entry.fate == Fate::Skipped).cloned().collect(),
        unpacked,
        replaced: None,
        changed: None,
        resumed_shards,
        shards: plans.iter().map(|plan| plan.shards.len()).sum(),
        strays: plans.iter().zip(outcomes).flat_map(|(plan, outcome)| strays(plan, outcome)).collect(),
        stray_samples,
        left_uploads: Vec::new(),
        transfers: None,
        elapsed: start.elapsed(),
    }
}
