//! Datasets that a destination holds, in a folder or at a URL: the record of splits, and the manifests.
//!
//! Reads only; [`super::existing_files`] and [`super::site`] decide which files may be replaced.

use std::{collections::BTreeSet, path::Path};

use shardpack_format::{
    Result,
    manifest::{self, Blake3, Manifest},
    splits::{self, Record},
};
use shardpack_storage::{Local, Storage};

use super::present::files_of;
use crate::{plan::Plan, plan_file, seal_dataset, source::strangers::crop_files};

/// The datasets of a destination.
#[derive(Debug)]
pub(super) struct Existing {
    /// Bytes of the record of splits.
    record: Option<Vec<u8>>,
    /// Manifests by split; `None` for one that cannot be read.
    pub manifests: Vec<(Option<String>, Option<Manifest>)>,
}

/// Prefix of the names of a split, or of a dataset without splits.
pub(super) fn below(split: Option<&str>) -> String {
    split.map_or_else(String::new, |split| format!("{split}/"))
}

/// Prefix of paths of images relative to the source: empty, or `train/` if the split is that folder.
pub(super) fn path_prefix(plan: &Plan) -> String {
    let format = &plan.options.format;
    let is_divided = format.fractions.is_some() || format.split_folders.is_some();
    below(plan.split.as_deref().filter(|_| !is_divided))
}

/// The manifests in `folder`, if it holds the datasets of exactly these plans.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn sealed_in(folder: &Path, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
    Existing::look(&Local::new(folder), plans)?.whole(plans)
}

impl Existing {
    /// The datasets in `storage`: those of the record, and those of `plans` that no record names.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn look(storage: &dyn Storage, plans: &[Plan]) -> Result<Self> {
        Self::of_splits(storage, plans.iter().map(|plan| plan.split.clone()))
    }

    /// The datasets in `storage`: those of the record, and those of `splits`.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn of_splits(storage: &dyn Storage, splits: impl Iterator<Item = Option<String>>) -> Result<Self> {
        let record = storage.read_small(splits::FILE)?;
        let read = record.as_ref().and_then(|bytes| Record::read(bytes).ok());
        let of_record = read.into_iter().flat_map(|record| record.splits).map(|split| Some(split.name));
        let mut manifests = Vec::new();
        for split in of_record.chain(splits).chain([None]).collect::<BTreeSet<_>>() {
            if let Some(bytes) = storage.read_small(&(below(split.as_deref()) + manifest::FILE))? {
                manifests.push((split, Manifest::read(&bytes).ok()));
            }
        }
        Ok(Self { record, manifests })
    }

    /// Whether all manifests belong to these plans.
    pub fn are_of(&self, plans: &[Plan]) -> Result<bool> {
        for (split, manifest) in &self.manifests {
            let plan = plans.iter().find(|plan| plan.split == *split);
            let Some((plan, manifest)) = plan.zip(manifest.as_ref()) else { return Ok(false) };
            if manifest.plan != Blake3(plan.hash()?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Name of the only file, if it has the name of a manifest or a record of splits and is none: another tool may have made it. Other
    /// files are not looked for.
    pub fn stray(&self) -> Option<String> {
        match (&self.record, self.manifests.as_slice()) {
            (Some(record), []) if Record::read(record).is_err() => Some(splits::FILE.to_owned()),
            (None, [(split, None)]) => Some(below(split.as_deref()) + manifest::FILE),
            _ => None,
        }
    }

    /// The manifests in the order of the plans, if each plan has one, there are no others, and no record of other splits.
    pub fn whole(&self, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
        if self.manifests.len() != plans.len() || !self.are_of(plans)? {
            return Ok(None);
        }
        Ok(if self.has_other_record(plans)? { None } else { self.all_of(plans) })
    }

    /// The manifests in the order of the plans, if each plan has one.
    fn all_of(&self, plans: &[Plan]) -> Option<Vec<Manifest>> {
        let of_plan = |plan: &Plan| self.manifests.iter().find(|(split, _)| *split == plan.split)?.1.clone();
        plans.iter().map(of_plan).collect()
    }

    /// Whether each plan has a manifest, and the record of splits is damaged or lists other datasets.
    pub fn has_other_record(&self, plans: &[Plan]) -> Result<bool> {
        let Some(record) = &self.record else { return Ok(false) };
        let Some(manifests) = self.all_of(plans) else { return Ok(false) };
        // Another version may write other files beside the same splits.
        let files = Record::read(record).map(|record| record.files).unwrap_or_default();
        let Some(splits) = seal_dataset::splits_of(plans, &manifests) else { return Ok(true) };
        if !files.iter().map(|file| file.file.as_str()).eq(seal_dataset::names_beside(&splits)?) {
            return Ok(true);
        }
        Ok(seal_dataset::record(&splits, files)?.to_bytes()? != *record)
    }

    /// As [`Existing::whole`]; without the record of splits the dataset is incomplete.
    pub fn sealed(&self, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
        if self.has_record_of(plans) { self.whole(plans) } else { Ok(None) }
    }

    /// Whether these plans need no record of splits, or there is one.
    pub fn has_record_of(&self, plans: &[Plan]) -> bool {
        self.record.is_some() || plans.iter().all(|plan| plan.split.is_none())
    }

    /// Names of all its files that manifests name, and of crop tables.
    pub fn names(&self) -> Vec<String> {
        let tables = self.manifests.iter().flat_map(|(split, manifest)| {
            let indexes = manifest.iter().flat_map(|manifest| &manifest.shards).map(|shard| &shard.index.file);
            indexes.flat_map(|index| crop_files(index)).map(|file| below(split.as_deref()) + &file)
        });
        self.files().into_iter().chain(tables).collect()
    }

    /// Names of the record of splits, the manifests, and all files that they name.
    pub fn files(&self) -> Vec<String> {
        let record = self.record.as_ref().map(|_| splits::FILE.to_owned());
        let beside = self.files_beside().into_iter().map(|file| file.file);
        let manifests = self.manifests.iter().map(|(split, _)| below(split.as_deref()) + manifest::FILE);
        let files = self.manifests.iter().flat_map(|(split, manifest)| {
            manifest.iter().flat_map(files_of).map(|(file, _)| below(split.as_deref()) + &file)
        });
        record.into_iter().chain(beside).chain(manifests).chain(files).collect()
    }

    /// The files that the record of splits names.
    pub fn files_beside(&self) -> Vec<manifest::File> {
        let record = self.record.as_ref().and_then(|bytes| Record::read(bytes).ok());
        record.map(|record| record.files).unwrap_or_default()
    }

    /// Describes how the datasets differ from those of `plans`, which are others.
    pub fn difference(&self, plans: &[Plan]) -> String {
        let of_plan = |plan: &Plan| {
            let (_, manifest) = self.manifests.iter().find(|(split, _)| *split == plan.split)?;
            plan_file::sealed_difference(manifest.as_ref()?, plan)
        };
        let unreadable = || {
            let (split, _) = self.manifests.iter().find(|(_, manifest)| manifest.is_none())?;
            Some(format!("its {}{} is damaged", below(split.as_deref()), manifest::FILE))
        };
        let what = self.other_splits(plans).or_else(|| plans.iter().find_map(of_plan)).or_else(unreadable);
        what.unwrap_or_else(|| match self.has_other_record(plans) {
            Ok(true) if self.are_of(plans).unwrap_or(false) => {
                format!("its {} is damaged, or lists other splits", splits::FILE)
            }
            _ => "names or lengths of its images, or an option that its manifest does not have, differ".to_owned(),
        })
    }

    /// Describes how the splits differ from the splits of `plans`.
    fn other_splits(&self, plans: &[Plan]) -> Option<String> {
        let was: BTreeSet<String> = self.manifests.iter().map(|(split, _)| split.clone().unwrap_or_default()).collect();
        let now: BTreeSet<String> = plans.iter().map(|plan| plan.split.clone().unwrap_or_default()).collect();
        let words = |names: &BTreeSet<String>| match names.first().is_none_or(String::is_empty) {
            true => "none".to_owned(),
            false => names.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        (was != now).then(|| format!("splits: was {}, is now {}", words(&was), words(&now)))
    }
}
