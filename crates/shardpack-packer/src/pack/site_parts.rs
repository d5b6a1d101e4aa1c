//! Files that parts and merges share below [`WORK_FOLDER`] of a destination while a dataset is packed: the plan, and receipts of parts.
//!
//! In a folder, locks keep others out. At a URL there are no locks, and the plan has no samples; the machine of a part keeps its
//! unfinished files in a local folder of that part. A store needs only put, read and list.
//!
//! Holds at all times at a URL: the plan is put before all other objects, and a receipt after all objects that it lists.
//! Plan and receipts are removed after the manifests are put; no other object is removed. No shard becomes an
//! object while another plan is at the prefix. So if two packs start at once, the one whose plan was put first
//! fails, and the other is sealed.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, ErrorKind, Result, hash,
    manifest::{Manifest, WORK_FOLDER},
};
use shardpack_storage::{Storage, own};

use super::{
    destination, part_spools,
    planned_part::PlannedPart,
    present, receipt,
    site::Site,
    work_folder::{LOCK_FILE, plan_name, spools_folder},
};
use crate::{
    copy,
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

/// The header of the plan at a destination; `None` if no pack has begun there.
///
/// # Errors
/// If the storage fails, or the plan is corrupt.
pub(super) fn plan(storage: &dyn Storage) -> Result<Option<Header>> {
    let name = plan_name();
    // In a folder the plan has its samples, too.
    if let Some(folder) = storage.local() {
        return match plan_file::read_header(&folder.join(name)) {
            // A merge may remove it at any time.
            Err(error) if error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound) => Ok(None),
            header => header.map(Some),
        };
    }
    let bytes = storage.read_small(&name)?;
    let named = |error: Error| error.in_file(storage.path_of(&name));
    bytes.map(|bytes| plan_file::header_in(&bytes).map_err(named)).transpose()
}

impl Site {
    /// The folder that `part` packs into: the destination, or at a URL a local folder for unfinished files.
    pub fn part_folder(&self, part: Part) -> PathBuf {
        self.folder_called(&format!("part-{}-of-{}", part.number, part.of))
    }

    /// The folder that a merge writes into: the destination, or at a URL a local folder.
    pub fn merge_folder(&self) -> PathBuf {
        self.folder_called("merge")
    }

    fn folder_called(&self, name: &str) -> PathBuf {
        self.storage.local().map_or_else(|| self.work.join(name), Path::to_path_buf)
    }

    /// Removes the local folder of a part at a URL, unless another process packs the same part.
    ///
    /// # Errors
    /// If a file in it cannot be removed.
    pub fn remove_part_folder(&self, part: Part) -> Result<()> {
        if self.storage.local().is_some() {
            return Ok(());
        }
        let folder = self.part_folder(part);
        if let Some(_alone) = sys::Lock::take_if_free(&folder.join(WORK_FOLDER).join(LOCK_FILE))? {
            own::remove_folder(&folder)?;
        }
        self.remove_if_empty();
        Ok(())
    }

    /// Removes local folders of a URL that no part and no merge of this machine uses.
    pub fn remove_if_empty(&self) {
        if self.storage.local().is_none() {
            let _ = own::remove_empty_folder(&self.work);
        }
    }

    /// Whether a part that failed with `error` may have failed because all parts were merged meanwhile.
    pub fn may_be_ended(&self, error: &Error) -> bool {
        match self.storage.local() {
            Some(_) => error.kind() == ErrorKind::System,
            // A store that does not answer gets no second request.
            None => error.kind() == ErrorKind::Usage && self.plan().is_ok_and(|plan| plan.is_none()),
        }
    }

    /// The common plan of the parts at this prefix; `None` if no part has started.
    ///
    /// # Errors
    /// If the store does not answer, or the plan is corrupt.
    pub fn plan(&self) -> Result<Option<Header>> {
        plan(self.storage.as_ref())
    }

    /// The common plan of the parts at this prefix; `None` if no part has started to pack. Then the prefix must be empty, apart from
    /// images that parts have changed.
    ///
    /// # Errors
    /// If it is not, and if the store does not answer.
    pub fn plan_unless_empty(&self, plans: &[Plan]) -> Result<Option<Header>> {
        match self.plan()? {
            // Its files were looked at when its work folder was joined.
            None if self.storage.local().is_some() => Ok(None),
            None if self.is_empty(plans)? => Ok(None),
            None => self.plan(),
            there => Ok(there),
        }
    }

    /// Fails if the prefix of a URL holds anything but parts of this plan; the first part puts the plan, which `own`
    /// makes.
    ///
    /// # Errors
    /// If it does, and if the store does not answer.
    pub fn join(&self, planned: &PlannedPart, own: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        if self.storage.local().is_some() {
            return Ok(());
        }
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

    /// A check that fails once the plan at a URL is not that of `plans`. Locks protect the plan in a folder.
    ///
    /// # Errors
    /// If a number or a name cannot be hashed, which never happens.
    pub fn guard(&self, plans: &[Plan]) -> Result<Box<dyn Fn() -> Result<()> + Sync + '_>> {
        if self.storage.local().is_some() {
            return Ok(Box::new(|| Ok(())));
        }
        let own = hashes(plans)?;
        Ok(Box::new(move || match self.holds(&own)? {
            Some(true) => Ok(()),
            Some(false) => Err(self.replaced_by_another()),
            None => Err(gone(self.storage.root())),
        }))
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
        let existing = self.existing(plans)?;
        let refusal = match existing.manifests.is_empty() {
            false => format!("holds another dataset: {}", existing.difference(plans)),
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

    /// The manifests there, if they are those of these plans.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn manifests(&self, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
        self.existing(plans)?.sealed(plans)
    }

    /// As [`Site::manifests`]; in a folder, if no pack is unfinished there.
    ///
    /// # Errors
    /// As [`Site::manifests`], and if a file in a manifest has another length.
    pub fn sealed(&self, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
        if self.storage.local().is_some() && self.storage.length(&plan_name())?.is_some() {
            return Ok(None);
        }
        let there = self.existing(plans)?;
        let Some(manifests) = there.whole(plans)? else { return Ok(None) };
        // A merge that was stopped before the record of splits has its plan there.
        if !there.has_record_of(plans) && self.storage.length(&plan_name())?.is_some() {
            return Ok(None);
        }
        present::check(&self.storage, plans, &manifests)?;
        Ok(Some(manifests))
    }

    /// Shards that `part` has sealed at a URL, if its receipt is valid and all files in it exist with their lengths. In a folder, the
    /// shards themselves show it.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn received(
        &self,
        part: Part,
        plans: &[Plan],
        choice: &sidecars::Choice,
    ) -> Result<Option<Vec<copy::Outcome>>> {
        if self.storage.local().is_some() {
            return Ok(None);
        }
        let Some(found) = receipt::valid(self.storage.as_ref(), part, plans)? else { return Ok(None) };
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

    /// Removes plan, receipts and spools, once the manifests are there.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn remove_shared(&self) -> Result<()> {
        // Without the plan nothing looks unfinished, even if the rest cannot be removed completely.
        self.storage.remove(&plan_name())?;
        if let Some(folder) = self.storage.local() {
            own::remove_folder(&folder.join(WORK_FOLDER))?;
            return destination::make_durable(folder);
        }
        receipt::remove_all(self.storage.as_ref())?;
        remove_files(self.storage.as_ref(), &part_spools::all_names(self.storage.as_ref())?)
    }
}
