//! What lies in a store below [`WORK_FOLDER`] while a dataset is packed into it: the plan without its samples, and receipts of parts.
//!
//! What is not finished of a part, its machine knows, in a folder of that part. Needs nothing of a store but to put, read and list.
//!
//! Holds at all times: the plan is put before anything else, a receipt after all that it names; both are removed after the manifests are
//! there, and nothing else is; no shard becomes an object while another plan is there. So of two packs that begin at once the one whose plan
//! was put first ends with an error, and the other is sealed.

use std::{collections::BTreeMap, fs, path::PathBuf};

use shardpack_format::{
    Error, Result, hash,
    manifest::{Manifest, WORK_FOLDER},
};

use super::{
    bucket::Bucket,
    destination::{self, LOCK_FILE, PLAN_FILE},
    part::PlannedPart,
    receipt::{self, Found, Receipt},
};
use crate::{
    copy, own,
    part::Part,
    plan::Plan,
    plan_file::{self, Header},
    sidecars, sys,
    uploads::Uploads,
};

/// Name of the plan of what is packed.
pub(super) fn plan_name() -> String {
    format!("{WORK_FOLDER}/{PLAN_FILE}")
}

/// What names of receipts begin with.
fn receipts_folder() -> String {
    format!("{WORK_FOLDER}/{}/", receipt::FOLDER)
}

/// Name of the receipt of `part`.
pub(super) fn receipt_name(part: Part) -> String {
    receipts_folder() + &receipt::file(part)
}

/// What tells plans from others.
fn hashes(plans: &[Plan]) -> Result<Vec<(Option<String>, hash::FileHash)>> {
    plans.iter().map(|plan| Ok((plan.split.clone(), plan.hash()?))).collect()
}

fn gone(url: &str) -> Error {
    Error::usage(format!("{} was removed while shards were put", plan_name()))
        .in_file(url)
        .help("the same command begins or goes on")
}

impl Bucket {
    /// The folder of this machine for what is not finished of `part`.
    pub fn part_folder(&self, part: Part) -> PathBuf {
        self.work.join(format!("part-{}-of-{}", part.number, part.of))
    }

    /// The folder of this machine for what a merge makes.
    pub fn merge_folder(&self) -> PathBuf {
        self.work.join("merge")
    }

    /// Removes that of a part, unless another process is at the same part.
    ///
    /// # Errors
    /// When something of it cannot be removed.
    pub fn remove_part_folder(&self, part: Part) -> Result<()> {
        let folder = self.part_folder(part);
        if let Some(_alone) = sys::Lock::take_if_free(&folder.join(WORK_FOLDER).join(LOCK_FILE))? {
            destination::remove_folder(&folder)?;
        }
        self.remove_if_empty();
        Ok(())
    }

    /// Removes what no part and no merge of this machine has anything in.
    pub fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.work);
    }

    /// The plan that parts have in common here, if any have begun.
    ///
    /// # Errors
    /// When the store does not answer, or it is damaged.
    pub fn plan(&self) -> Result<Option<Header>> {
        let name = plan_name();
        let bytes = self.uploads.of_split(None).read_if_there(&name)?;
        let named = |error: Error| error.in_file(format!("{}/{name}", self.uploads.url().trim_end_matches('/')));
        bytes.map(|bytes| plan_file::header_in(&bytes).map_err(named)).transpose()
    }

    /// Fails where something else is here than parts of this plan; the first of them puts the plan, which `own` makes.
    ///
    /// # Errors
    /// As said, and when the store does not answer.
    pub fn join(&self, planned: &PlannedPart, own: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        if self.plan()?.is_none() && self.is_empty(&planned.planned.plans)? {
            self.put_plan(own()?)?;
        }
        match self.plan()? {
            Some(there) => planned.same_plan(&there, None, self.uploads.url().as_ref()),
            None => Err(gone(self.uploads.url())),
        }
    }

    /// Puts the plan, or replaces it.
    ///
    /// # Errors
    /// When the store does not take it.
    pub fn put_plan(&self, plan: Vec<u8>) -> Result<()> {
        self.uploads.of_split(None).put(&plan_name(), plan)
    }

    /// What shards of `plans` are put by: only as long as the plan here is of them.
    ///
    /// # Errors
    /// When a number or a name cannot be hashed, which never happens.
    pub fn guarded(&self, plans: &[Plan]) -> Result<Uploads> {
        let (own, url) = (hashes(plans)?, self.uploads.url().to_owned());
        Ok(self.uploads.guarded(plan_name(), move |there| {
            let there = there.ok_or_else(|| gone(&url))?;
            match hashes(&plan_file::header_in(&there)?.plans()?)? == own {
                true => Ok(()),
                false => Err(Error::usage("another pack has begun here while this one ran")
                    .in_file(&url)
                    .help("one of them at a time, or another prefix for one")),
            }
        }))
    }

    /// Whether the plan here is of these.
    ///
    /// # Errors
    /// When the store does not answer, or it is damaged.
    pub fn is_of(&self, plans: &[Plan]) -> Result<bool> {
        let there = self.plan()?.map(|header| hashes(&header.plans()?)).transpose()?;
        Ok(there == Some(hashes(plans)?))
    }

    /// Whether nothing lies here, so that this part is the first; fails where something does while no part has begun.
    fn is_empty(&self, plans: &[Plan]) -> Result<bool> {
        let refusal = match self.there(plans)?.manifests.is_empty() {
            false => "holds a dataset of something else".to_owned(),
            true => match self.uploads.first_other(|_| false)? {
                None => return Ok(true),
                Some(name) => format!("holds {name:?}"),
            },
        };
        // Another part may have begun meanwhile, and what is here is its own.
        match self.plan()? {
            Some(_) => Ok(false),
            None => {
                Err(Error::usage(refusal).in_file(self.uploads.url()).help("choose another prefix, or remove this"))
            }
        }
    }

    /// The manifests here, where these plans are sealed.
    ///
    /// # Errors
    /// When the store does not answer, or a file that they name is not as long as they say.
    pub fn sealed(&self, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
        let sealed = self.there(plans)?.sealed(plans)?;
        sealed.iter().try_for_each(|manifests| self.still_there(plans, manifests))?;
        Ok(sealed)
    }

    /// What `part` has sealed, where its receipt is right and all that it names is here, as long as it says.
    ///
    /// # Errors
    /// When the store does not answer.
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
            if self.uploads.of_split(plan.split.as_deref()).lengths(&names)? != files {
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
    /// When the store does not take it.
    pub fn put_receipt(&self, part: Part, receipt: &Receipt) -> Result<()> {
        self.uploads.of_split(None).put(&receipt_name(part), receipt.to_bytes()?)
    }

    /// The parts that have a receipt here, in order.
    ///
    /// # Errors
    /// When the store does not answer, or something else lies among them.
    pub fn receipts(&self) -> Result<Vec<Part>> {
        let folder = receipts_folder();
        receipt::parts_called(self.uploads.of_split(None).list(&folder)?.into_keys().map(|name| {
            let file = name.strip_prefix(&folder).unwrap_or(&name).to_owned();
            (file.into(), self.uploads.url().trim_end_matches('/').to_owned() + "/" + &name)
        }))
    }

    /// The receipt of `part` of these plans, if it is there and right.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn receipt(&self, part: Part, plans: &[Plan]) -> Result<Option<Found>> {
        let bytes = self.uploads.of_split(None).read_if_there(&receipt_name(part))?;
        Ok(bytes.and_then(|bytes| receipt::read(&bytes, part, plans).ok()))
    }

    /// Copies the receipts that are here to the folder for them in `work`, which has no others then.
    ///
    /// # Errors
    /// When the store does not answer, or they cannot be written.
    pub fn copy_receipts(&self, work: &std::path::Path) -> Result<()> {
        destination::remove_folder(&work.join(receipt::FOLDER))?;
        let folder = own::folder(work, receipt::FOLDER)?;
        crate::parallel::each(&self.receipts()?, 32, |part| {
            let bytes = self.uploads.of_split(None).read_if_there(&receipt_name(*part))?;
            let path = folder.join(receipt::file(*part));
            own::write(&path, &bytes.unwrap_or_default())
        })
    }

    /// Removes plan and receipts: the manifests are there.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn remove_shared(&self) -> Result<()> {
        let uploads = self.uploads.of_split(None);
        // Without it nothing looks unfinished.
        uploads.remove(&plan_name())?;
        uploads.remove_files(&self.receipts()?.into_iter().map(receipt_name).collect::<Vec<_>>())
    }
}
