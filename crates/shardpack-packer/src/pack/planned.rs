//! Plans from a file, and a look at the samples of plans in storage.

use std::{collections::BTreeMap, path::Path};

use shardpack_format::{Error, ErrorKind, Result};

use super::{Planned, warnings};
use crate::{
    listing::Listing,
    plan::Plan,
    plan_file,
    source::{
        ReadError, Refusal, SharedSource, Source,
        storage::{self, Sniffed},
    },
};

/// Loads a plan from a file.
///
/// # Errors
/// If the file is corrupt, or the source is missing.
pub fn planned(file: &Path) -> Result<Planned> {
    let plan_file::PlanFile { source, plans } = plan_file::read(file).map_err(plan_again)?;
    looked_at(source, plans)
}

/// An error of a plan file, with help.
pub(super) fn plan_again(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Data => error.help("run `shardpack plan` again"),
        _ => error,
    }
}

/// Plans from a file, with the storage of the source.
pub(super) fn looked_at(source: SharedSource, plans: Vec<Plan>) -> Result<Planned> {
    let sniffed = plans.iter().map(|plan| look(source.as_ref(), plan.split.as_deref(), &plan.listing, true));
    let sniffed = merge_sniffed(sniffed.collect::<Result<_>>()?);
    let storage = storage::describe(source.read_at(), &sniffed);
    let notes = warnings::notes(plans.iter().filter(|plan| plan.has_all()), &sniffed.kinds);
    Ok(Planned { source, plans, storage, kinds: sniffed.kinds, notes })
}

/// Inspects a few samples of one dataset in storage; `is_copied` if the images are read next.
pub(super) fn look(source: &dyn Source, split: Option<&str>, listing: &Listing, is_copied: bool) -> Result<Sniffed> {
    source.peeker(split, listing)?.map_or_else(
        || Ok(Sniffed { kinds: BTreeMap::new(), cached: 0.0, latency: None }),
        |reader| storage::sniff(reader.as_ref(), listing, is_copied, source.access()).map_err(fatal),
    )
}

fn fatal(error: ReadError) -> Error {
    match error {
        ReadError::Fatal(error) => error,
        ReadError::Refused(Refusal(reason)) => Error::data(reason),
    }
}

/// Joins the looks at several datasets: all kinds, the worst storage.
pub(super) fn merge_sniffed(looks: Vec<Sniffed>) -> Sniffed {
    let mut all = Sniffed { kinds: BTreeMap::new(), cached: 1.0, latency: None };
    for look in looks {
        for (kind, samples) in look.kinds {
            *all.kinds.entry(kind).or_default() += samples;
        }
        all.cached = all.cached.min(look.cached);
        all.latency = all.latency.max(look.latency);
    }
    all
}
