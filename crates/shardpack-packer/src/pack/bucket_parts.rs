//! Objects in a store below [`WORK_FOLDER`] while a dataset is packed: the plan without its samples, and
//! receipts of parts.
//!
//! The machine of a part keeps its unfinished files in a local folder of that part. A store needs only put,
//! read and list.
//!
//! Holds at all times: the plan is put before all other objects, and a receipt after all objects that it lists.
//! Plan and receipts are removed after the manifests are put; no other object is removed. No shard becomes an
//! object while another plan is at the prefix. So if two packs start at once, the one whose plan was put first
//! fails, and the other is sealed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, Result, hash,
    manifest::{Manifest, WORK_FOLDER},
};

use super::{
    bucket::Bucket,
    planned_part::PlannedPart,
    receipt::{self, Found, Receipt},
    spools,
    work_folder::{self, LOCK_FILE, plan_name, receipt_name, receipts_folder, spools_folder},
};
use crate::{
    copy, own,
    part::Part,
    plan::Plan,
    plan_file::{self, Header},
    sidecars, sys,
    transfer::{lengths, of_split, remove_files},
};

/// Split and hash of each plan, which identify plans.
type Hashes = Vec<(Option<String>, hash::FileHash)>;

fn hashes(plans: &[Plan]) -> Result<Hashes> {
    plans.iter().map(|plan| Ok((plan.split.clone(), plan.hash()?))).collect()
}

/// Whether a file holds images that a part has changed, or is a list of them.
pub(super) fn is_spool(name: &str) -> bool {
    name.starts_with(&spools_folder())
}

fn gone(url: &Path) -> Error {
    Error::usage(format!("{} was removed while shards were uploaded", plan_name()))
        .in_file(url)
        .help("the same command starts or resumes")
}

/// A check that fails once a process packs something else into `bucket`; if there is no bucket, it always succeeds.
///
/// # Errors
/// As [`Bucket::guard`].
pub(super) fn guard<'b>(bucket: Option<&'b Bucket>, plans: &[Plan]) -> Result<Box<dyn Fn() -> Result<()> + Sync + 'b>> {
    match bucket {
        None => Ok(Box::new(|| Ok(()))),
        Some(bucket) => Ok(Box::new(bucket.guard(plans)?)),
    }
}

impl Bucket {
    /// Local folder for unfinished files of `part`.
    pub fn part_folder(&self, part: Part) -> PathBuf {
        self.work.join(format!("part-{}-of-{}", part.number, part.of))
    }

    /// Local folder for the files that a merge writes.
    pub fn merge_folder(&self) -> PathBuf {
        self.work.join("merge")
    }

    /// Removes the local folder of a part, unless another process packs the same part.
    ///
    /// # Errors
    /// If a file in it cannot be removed.
    pub fn remove_part_folder(&self, part: Part) -> Result<()> {
        let folder = self.part_folder(part);
        if let Some(_alone) = sys::Lock::take_if_free(&folder.join(WORK_FOLDER).join(LOCK_FILE))? {
            work_folder::remove_folder(&folder)?;
        }
        self.remove_if_empty();
        Ok(())
    }

    /// Removes local folders that no part and no merge of this machine uses.
    pub fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.work);
    }

    /// The common plan of the parts at this prefix; `None` if no part has started.
    ///
    /// # Errors
    /// If the store does not answer, or the plan is corrupt.
    pub fn plan(&self) -> Result<Option<Header>> {
        let name = plan_name();
        let bytes = self.storage.read_small(&name)?;
        let named = |error: Error| error.in_file(self.storage.path_of(&name));
        bytes.map(|bytes| plan_file::header_in(&bytes).map_err(named)).transpose()
    }

    /// The common plan of the parts at this prefix; `None` if no part has started to pack. Then the prefix must be empty, apart from
    /// images that parts have changed.
    ///
    /// # Errors
    /// If it is not, and if the store does not answer.
    pub fn plan_unless_empty(&self, plans: &[Plan]) -> Result<Option<Header>> {
        match self.plan()? {
            None if self.is_empty(plans)? => Ok(None),
            None => self.plan(),
            there => Ok(there),
        }
    }

    /// Fails if the prefix holds anything but parts of this plan; the first part puts the plan, which `own`
    /// makes.
    ///
    /// # Errors
    /// If it does, and if the store does not answer.
    pub fn join(&self, planned: &PlannedPart, own: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        if self.plan()?.is_none() && self.is_empty(&planned.planned.plans)? {
            self.put_plan(own()?)?;
            self.refuse_sealed_meanwhile(&planned.planned.plans)?;
        }
        match self.plan()? {
            Some(there) => planned.same_plan(&there, None, self.storage.root()),
            None => Err(gone(self.storage.root())),
        }
    }

    /// Puts or replaces the plan.
    ///
    /// # Errors
    /// If the store refuses it.
    pub fn put_plan(&self, plan: Vec<u8>) -> Result<()> {
        self.storage.put(&plan_name(), plan)
    }

    /// A check that fails once the plan at the prefix is not that of `plans`.
    ///
    /// # Errors
    /// If a number or a name cannot be hashed, which never happens.
    pub fn guard(&self, plans: &[Plan]) -> Result<impl Fn() -> Result<()> + Sync + use<'_>> {
        let own = hashes(plans)?;
        Ok(move || match self.holds(&own)? {
            Some(true) => Ok(()),
            Some(false) => Err(self.replaced_by_another()),
            None => Err(gone(self.storage.root())),
        })
    }

    /// The error of a pack whose plan another process has replaced.
    pub fn replaced_by_another(&self) -> Error {
        Error::usage("another pack has begun here while this one ran")
            .in_file(self.storage.root())
            .help("run one pack at a time, or choose another prefix")
    }

    /// Whether the plan at the prefix is one of `own`; `None` if there is no plan.
    fn holds(&self, own: &Hashes) -> Result<Option<bool>> {
        self.plan()?.map(|header| Ok(hashes(&header.plans()?)? == *own)).transpose()
    }

    /// Whether the plan at the prefix belongs to these plans; `None` if there is no plan.
    ///
    /// # Errors
    /// If the store does not answer, or the plan is corrupt.
    pub fn plan_is_of(&self, plans: &[Plan]) -> Result<Option<bool>> {
        self.holds(&hashes(plans)?)
    }

    /// Whether the prefix is empty, so that this part is the first; fails if there are objects but no part has
    /// started.
    fn is_empty(&self, plans: &[Plan]) -> Result<bool> {
        let refusal = match self.there(plans)?.manifests.is_empty() {
            false => "holds a dataset of something else".to_owned(),
            true => match self.first_other(is_spool)? {
                None => return Ok(true),
                Some(name) => format!("holds {name:?}"),
            },
        };
        // Another part may have started meanwhile, and the objects are its own.
        match self.plan()? {
            Some(_) => Ok(false),
            None => {
                Err(Error::usage(refusal).in_file(self.storage.root()).help("choose another prefix, or remove this"))
            }
        }
    }

    /// The manifests at the prefix, if these plans are sealed.
    ///
    /// # Errors
    /// If the store does not answer, or a file in a manifest has another length.
    pub fn sealed(&self, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
        let sealed = self.there(plans)?.sealed(plans)?;
        sealed.iter().try_for_each(|manifests| self.still_there(plans, manifests))?;
        Ok(sealed)
    }

    /// Shards that `part` has sealed, if its receipt is valid and all files in it exist with their lengths.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn received(
        &self,
        part: Part,
        plans: &[Plan],
        choice: &sidecars::Choice,
    ) -> Result<Option<Vec<copy::Outcome>>> {
        let Some(found) = self.receipt(part, plans)? else { return Ok(None) };
        let names = plans.iter().map(|plan| choice.names(plan)).collect::<Result<Vec<_>>>()?;
        let is_asked_for = names.iter().all(|names| found.sidecars.iter().eq(names));
        let is_whole =
            plans.iter().zip(&found.shards).all(|(plan, shards)| plan.held.clone().eq(shards.keys().copied()));
        if !is_asked_for || !is_whole {
            return Ok(None);
        }
        for (plan, shards) in plans.iter().zip(&found.shards) {
            let files: BTreeMap<&str, u64> = shards.values().flat_map(receipt::Received::files).collect();
            let names: Vec<&str> = files.keys().copied().collect();
            if lengths(of_split(&self.storage, plan.split.as_deref())?.as_ref(), &names)? != files {
                return Ok(None);
            }
        }
        let outcome = |shards: BTreeMap<usize, receipt::Received>| copy::Outcome {
            shards: shards.into_iter().map(|(number, shard)| (number, shard.sealed)).collect(),
            ..copy::Outcome::default()
        };
        Ok(Some(found.shards.into_iter().map(outcome).collect()))
    }

    /// Puts the receipt of `part`.
    ///
    /// # Errors
    /// If the store refuses it.
    pub fn put_receipt(&self, part: Part, receipt: &Receipt) -> Result<()> {
        self.storage.put(&receipt_name(part), receipt.to_bytes()?)
    }

    /// The parts that have a receipt at the prefix, in order.
    ///
    /// # Errors
    /// If the store does not answer, or there are other objects among the receipts.
    pub fn receipts(&self) -> Result<Vec<Part>> {
        let folder = receipts_folder();
        let mut names = BTreeSet::new();
        self.storage.walk(&folder, &mut |name, _| {
            names.insert(name.to_owned());
            ControlFlow::Continue(())
        })?;
        receipt::parts_called(names.into_iter().map(|name| {
            let path = self.storage.path_of(&name).to_string_lossy().into_owned();
            (name.strip_prefix(&folder).unwrap_or(&name).into(), path)
        }))
    }

    /// The receipt of `part` of these plans; `None` if it is missing or invalid.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn receipt(&self, part: Part, plans: &[Plan]) -> Result<Option<Found>> {
        let bytes = self.storage.read_small(&receipt_name(part))?;
        Ok(bytes.and_then(|bytes| receipt::read(&bytes, part, plans).ok()))
    }

    /// Copies the receipts from the store into their folder in `work`, and removes others there.
    ///
    /// # Errors
    /// If the store does not answer, or a receipt cannot be written.
    pub fn copy_receipts(&self, work: &Path) -> Result<()> {
        work_folder::remove_folder(&work.join(receipt::FOLDER))?;
        let folder = own::folder(work, receipt::FOLDER)?;
        crate::parallel::each(&self.receipts()?, 32, |part| {
            let bytes = self.storage.read_small(&receipt_name(*part))?;
            let path = folder.join(receipt::file(*part));
            own::write(&path, &bytes.unwrap_or_default())
        })
    }

    /// Removes plan, receipts and spools, once the manifests are there.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn remove_shared(&self) -> Result<()> {
        // Without the plan the prefix does not look unfinished.
        self.storage.remove(&plan_name())?;
        self.remove_receipts()?;
        remove_files(self.storage.as_ref(), &spools::all_names(self.storage.as_ref())?)
    }

    /// Removes the receipts of all parts.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn remove_receipts(&self) -> Result<()> {
        remove_files(self.storage.as_ref(), &self.receipts()?.into_iter().map(receipt_name).collect::<Vec<_>>())
    }
}
