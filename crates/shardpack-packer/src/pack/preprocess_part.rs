//! Preprocesses one part of the images before planning, beside other parts.

use std::{sync::Arc, time::Duration};

use shardpack_format::Result;
use shardpack_runtime::Instant;
use shardpack_storage::{Storage, Transfers};

use super::{
    destination::{self, known_bad},
    part_session::PartSession,
    part_spools::{self, Request},
    path_prefix,
    planned_part::other_plan,
    site::Site,
    transformed::Outcomes,
};
use crate::{
    copy::OnBad,
    ledger::{Fate, Unpacked},
    monitor::Monitor,
    part::Part,
    plan_file::{self, PlanFile},
    source::transformed::Spools,
};

/// State of preprocessing by parts.
pub(super) enum PreprocessState {
    /// The dataset was merged before.
    Sealed,
    /// All parts have preprocessed their images.
    All(Outcomes, Spools),
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
    /// Network transfers of spools and lists, if the destination is a URL.
    pub transfers: Option<Transfers>,
    /// Duration of this run.
    pub elapsed: Duration,
}

/// Preprocesses the images of `part`, unless an earlier run did.
pub(super) fn change_part(
    request: &Request<'_>,
    part: Part,
    site: &Site,
    jobs: usize,
    on_bad: OnBad,
    monitor: &dyn Monitor,
) -> Result<PreprocessState> {
    let start = Instant::now();
    let Request { source, found, plans, .. } = *request;
    let folder = &site.part_folder(part);
    destination::refuse_inside(folder, source)?;
    destination::refuse_inside(site.storage.root(), source)?;
    let all: u64 = found.iter().map(|one| one.listing.len()).sum();
    let share = part.share(all);
    let changed = |missing, bad| {
        let images = share.end - share.start;
        let transfers = site.storage.transfers();
        PreprocessState::Some(ChangedPart { part, images, missing, bad, transfers, elapsed: start.elapsed() })
    };
    let known_bad = if on_bad == OnBad::Error { known_bad(plans) } else { Vec::new() };
    if !known_bad.is_empty() {
        return Ok(changed(vec![part], known_bad));
    }
    if site.sealed(plans)?.is_some() {
        return Ok(PreprocessState::Sealed);
    }
    site.make_work()?;
    let beside = PartSession::join(part, plans, (folder, site.storage.as_ref()), |_| {
        let Some(header) = site.plan_unless_empty(plans)? else { return Ok(()) };
        let old = PlanFile { plans: header.plans()?, source: header.source };
        plan_file::request_difference(&old, source, plans)
            .map_or(Ok(()), |what| Err(other_plan(site.storage.root(), &what)))
    })?;
    let storage = site.storage.with_work(&beside.run.folder);
    let made = make_beside(request, part, (&beside, &storage), jobs, on_bad, monitor)?;
    drop(beside);
    if let PreprocessedParts::All(..) | PreprocessedParts::Some(_) = &made {
        // After a refusal the spool stays on this machine, and is resumed.
        site.remove_part_folder(part)?;
    }
    Ok(match made {
        PreprocessedParts::All(outcomes, spools) => PreprocessState::All(outcomes, spools),
        PreprocessedParts::Some(missing) => changed(missing, Vec::new()),
        PreprocessedParts::Refused(missing, refused) => changed(missing, refused),
    })
}

/// Which images are preprocessed.
enum PreprocessedParts {
    All(Outcomes, Spools),
    /// Those of these parts are not.
    Some(Vec<Part>),
    /// As `Some`, and images of this part were refused.
    Refused(Vec<Part>, Vec<Unpacked>),
}

fn make_beside(
    request: &Request<'_>,
    part: Part,
    (beside, storage): (&PartSession, &Arc<dyn Storage>),
    jobs: usize,
    on_bad: OnBad,
    monitor: &dyn Monitor,
) -> Result<PreprocessedParts> {
    let missing = match part_spools::all(storage, part.of, request)? {
        Ok((outcomes, spools)) => return Ok(PreprocessedParts::All(outcomes, spools)),
        Err(missing) => missing,
    };
    if missing.contains(&part) {
        let (names_refused, folders) = (on_bad == OnBad::Error, (beside.work.as_path(), beside.run.folder.as_path()));
        let refused = part_spools::make(storage.as_ref(), folders, part, request, jobs, names_refused, monitor)?;
        if !refused.is_empty() {
            let of = |(split, number, reason): (usize, u64, String)| {
                let (plan, listing) = (&request.plans[split], &request.found[split].listing);
                let mut path = Vec::new();
                listing.path(number, &mut path);
                let path = [path_prefix(plan).as_bytes(), &path].concat();
                Unpacked { path, class: listing.class(number), fate: Fate::Skipped, reason: reason.into() }
            };
            return Ok(PreprocessedParts::Refused(missing, refused.into_iter().map(of).collect()));
        }
    }
    Ok(match part_spools::all(storage, part.of, request)? {
        Ok((outcomes, spools)) => PreprocessedParts::All(outcomes, spools),
        Err(missing) => PreprocessedParts::Some(missing),
    })
}
