//! A part to pack, and whether a plan file is of the same parts.

use std::path::{Path, PathBuf};

use shardpack_format::{Error, Result};

use super::{Planned, planned};
use crate::{
    part::Part,
    plan::Plan,
    plan_file::{self, Header, PlanFile},
};

/// A part to pack.
#[derive(Debug)]
pub struct PlannedPart {
    /// The part.
    pub part: Part,
    /// The source, and plans with only the samples of the part.
    pub planned: Planned,
    /// The common plan of all parts.
    pub(super) common: Common,
}

/// Where the plan of all parts comes from.
#[derive(Debug)]
pub(super) enum Common {
    /// A plan file.
    File(PathBuf, Box<Header>),
    /// A walk of the source: the complete plans.
    Walk(Vec<Plan>),
}

impl PlannedPart {
    /// Part `part` of the plan file `file`; only samples of the part are read from it.
    ///
    /// # Errors
    /// If the file is corrupt, or the source is missing.
    pub fn of_file(file: &Path, part: Part) -> Result<Self> {
        let (header, plans) = plan_file::read_part(file, part).map_err(planned::plan_again)?;
        let planned = planned::looked_at(header.source.clone(), plans)?;
        Ok(Self { part, planned, common: Common::File(file.to_path_buf(), Box::new(header)) })
    }

    /// Part `part` of a plan.
    ///
    /// # Errors
    /// If the part has more than 2^32 samples.
    pub fn of_walk(planned: Planned, part: Part) -> Result<Self> {
        let shards = part.shards(&planned.plans);
        let of_plans = || planned.plans.iter().zip(&shards);
        let plans = of_plans().map(|(plan, shards)| plan.part(shards.clone())).collect::<Result<_>>()?;
        let numbers = || of_plans().map(|(plan, shards)| plan.numbers(shards)).collect();
        let source = planned.source.subset(&numbers).unwrap_or_else(|| planned.source.clone());
        let whole = planned.plans;
        Ok(Self { part, planned: Planned { source, plans, ..planned }, common: Common::Walk(whole) })
    }

    pub(super) fn plans(&self) -> &[Plan] {
        &self.planned.plans
    }

    /// Number of shards of the part, and length of their images in bytes.
    pub fn extent(&self) -> (usize, u64) {
        let shards = self.plans().iter().map(|plan| plan.held.len()).sum();
        (shards, self.plans().iter().map(Plan::payload_bytes).sum())
    }
}

impl PlannedPart {
    /// A plan file without samples; `folder` holds it while it is written.
    pub(super) fn header(&self, folder: &Path) -> Result<Vec<u8>> {
        let path = folder.join("header");
        match &self.common {
            Common::File(_, header) => Ok(header.to_bytes()),
            Common::Walk(plans) => {
                plan_file::write_to(&path, self.planned.source.as_ref(), plans)?;
                Ok(plan_file::read_header(&path)?.to_bytes())
            }
        }
    }

    /// Fails if the plan file `plan` of the parts in `dst` differs from the plan of this part.
    pub(super) fn is_plan_at(&self, plan: &Path, dst: &Path) -> Result<()> {
        let header = plan_file::read_header(plan).map_err(|error| error.help("remove the folder to begin anew"))?;
        self.same_plan(&header, Some(plan), dst)
    }

    /// Fails if the plan of the parts in `dst`, with this header, differs from the plan of this part; `file`
    /// may have its samples.
    pub fn same_plan(&self, header: &Header, file: Option<&Path>, dst: &Path) -> Result<()> {
        let own = env!("CARGO_PKG_VERSION");
        if header.shardpack != own {
            let what = format!("holds parts that shardpack {} packs, this is {own}", header.shardpack);
            return Err(Error::usage(what)
                .in_file(dst)
                .help("use one version for all parts, or remove the folder to begin anew"));
        }
        let old = PlanFile { plans: header.plans()?, source: header.source.clone() };
        let what = match plan_file::request_difference(&old, self.planned.source.as_ref(), self.plans()) {
            None if same_hashes(&old.plans, self.plans())? => return Ok(()),
            Some(what) => what,
            None => {
                let whole = match (&self.common, file.filter(|_| header.has_samples)) {
                    (Common::Walk(plans), Some(file)) => {
                        plan_file::difference(&plan_file::read(file)?, self.planned.source.as_ref(), plans)
                    }
                    _ => None,
                };
                whole.unwrap_or_else(|| "its samples differ: names, lengths or classes".to_owned())
            }
        };
        Err(other_plan(dst, &what))
    }
}

pub(super) fn other_plan(dst: &Path, what: &str) -> Error {
    Error::usage(format!("holds parts of another plan: {what}")).in_file(dst).help(
        "pack all parts with one plan file, or from a source that does not change; another folder for another plan",
    )
}

fn same_hashes(old: &[Plan], new: &[Plan]) -> Result<bool> {
    let hashes = |plans: &[Plan]| plans.iter().map(Plan::hash).collect::<Result<Vec<_>>>();
    Ok(hashes(old)? == hashes(new)?)
}
