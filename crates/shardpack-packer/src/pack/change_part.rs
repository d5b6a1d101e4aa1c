//! Preprocesses one part of the images before planning, beside other parts.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use shardpack_format::Result;

use super::{
    beside::Beside,
    destination::{self, known_bad, sealed},
    planned_part::other_plan,
    split_prefix,
    spools::{self, Request},
    transformed::Outcomes,
    work_folder::PLAN_FILE,
};
use crate::{
    copy::OnBad,
    ledger::{Fate, Unpacked},
    monitor::Monitor,
    part::Part,
    plan_file::{self, PlanFile},
    sys,
};

/// State of preprocessing by parts.
pub(super) enum Changed {
    /// The dataset was merged before.
    Sealed,
    /// All parts have preprocessed their images.
    All(Outcomes, Vec<PathBuf>),
    /// Some parts have not.
    Some(ChangedPart),
}

/// Result of a part that cannot be packed yet, because other parts have not preprocessed their images.
#[derive(Debug)]
pub struct ChangedPart {
    /// The part.
    pub part: Part,
    /// Images that this part has to preprocess.
    pub images: u64,
    /// Parts whose images are not preprocessed; includes this part if `bad` is not empty.
    pub missing: Vec<Part>,
    /// Images that cannot be packed, if the policy does not let the part continue without them.
    pub bad: Vec<Unpacked>,
    /// Duration of this run.
    pub elapsed: Duration,
}

/// Preprocesses the images of `part` in `dst`, unless an earlier run did.
pub(super) fn change_part(
    request: &Request<'_>,
    part: Part,
    dst: &Path,
    jobs: usize,
    on_bad: OnBad,
    monitor: &dyn Monitor,
) -> Result<Changed> {
    let start = Instant::now();
    let Request { origin, found, plans, .. } = *request;
    destination::refuse_inside(dst, origin)?;
    let all: u64 = found.iter().map(|one| one.listing.len()).sum();
    let share = part.share(all);
    let changed = |missing, bad| {
        let images = share.end - share.start;
        Changed::Some(ChangedPart { part, images, missing, bad, elapsed: start.elapsed() })
    };
    let known_bad = if on_bad == OnBad::Error { known_bad(plans) } else { Vec::new() };
    if !known_bad.is_empty() {
        return Ok(changed(vec![part], known_bad));
    }
    if sealed(dst, plans)?.is_some() {
        return Ok(Changed::Sealed);
    }
    let beside = Beside::join(part, plans, (dst, None), |beside| {
        let plan = beside.work.join(PLAN_FILE);
        if !sys::is_there(&plan)? {
            return Ok(());
        }
        let header = plan_file::read_header(&plan)?;
        let old = PlanFile { plans: header.plans()?, source: header.source };
        plan_file::request_difference(&old, origin, plans).map_or(Ok(()), |what| Err(other_plan(dst, &what)))
    })?;
    let missing = match spools::all(&beside.work, part.of, request)? {
        Ok((outcomes, spools)) => return Ok(Changed::All(outcomes, spools)),
        Err(missing) => missing,
    };
    if missing.contains(&part) {
        let names_refused = on_bad == OnBad::Error;
        let refused = spools::make(&beside.work, &beside.run.folder, part, request, jobs, names_refused, monitor)?;
        if !refused.is_empty() {
            let of = |(split, number, reason): (usize, u64, String)| {
                let (plan, listing) = (&plans[split], &found[split].listing);
                let mut path = Vec::new();
                listing.path(number, &mut path);
                let path = [split_prefix(plan).as_bytes(), &path].concat();
                Unpacked { path, class: listing.class(number), fate: Fate::Skipped, reason: reason.into() }
            };
            return Ok(changed(missing, refused.into_iter().map(of).collect()));
        }
    }
    Ok(match spools::all(&beside.work, part.of, request)? {
        Ok((outcomes, spools)) => Changed::All(outcomes, spools),
        Err(missing) => changed(missing, Vec::new()),
    })
}
