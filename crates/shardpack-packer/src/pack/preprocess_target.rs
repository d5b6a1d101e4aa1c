//! Where images are preprocessed before there is a plan: the work folder of the last destination.

use std::path::PathBuf;

use shardpack_format::{Result, manifest::WORK_FOLDER};

use super::{Options, site::Site, work_folder::LOCK_FILE};
use crate::{own, plan::Plan, source::Source, sys};

/// Place for preprocessing.
#[derive(Debug)]
pub struct PreprocessTarget {
    /// Destinations of the datasets, one for each format. The last has the spool: a destination that is sealed removes its work folder.
    pub(super) sites: Vec<Site>,
    /// Replace the contents of the destinations.
    pub(super) force: bool,
    /// Budget of the pack that follows, in bytes: if it is too small for any sample, preprocessing does not
    /// start.
    pub(super) memory_bytes: u64,
    /// Number of threads that preprocess images.
    pub(super) jobs: usize,
}

impl PreprocessTarget {
    /// The place for packs into `dsts` with `options`. Sends no request.
    ///
    /// # Errors
    /// If a URL cannot be written, or there is no folder for unfinished files.
    pub fn open(dsts: impl IntoIterator<Item = PathBuf>, options: &Options) -> Result<Self> {
        let site = |dst: PathBuf| Site::open(&dst, &options.store, options.work.as_deref());
        Ok(Self {
            sites: dsts.into_iter().map(site).collect::<Result<_>>()?,
            force: options.force,
            memory_bytes: options.memory_bytes,
            jobs: options.jobs,
        })
    }
}

/// A folder where work may start before there is a plan.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The work folder.
    pub work: PathBuf,
    _lock: sys::Lock,
}

/// Prepares the last of the destinations for work before the plan, if all may be packed into; `None` if each already holds the
/// dataset of these plans. On failure nothing has changed.
pub(super) fn prepare(place: &PreprocessTarget, source: &dyn Source, plans: &[Vec<Plan>]) -> Result<Option<Prepared>> {
    let mut are_sealed = true;
    for (site, plans) in place.sites.iter().zip(plans) {
        are_sealed &= site.check(source, plans, place.force, false)?;
    }
    let Some(last) = place.sites.last().filter(|_| !are_sealed) else { return Ok(None) };
    let work = own::work_folder(&last.folder(), WORK_FOLDER)?;
    let lock = sys::Lock::take(&work.join(LOCK_FILE))?;
    Ok(Some(Prepared { work, _lock: lock }))
}
