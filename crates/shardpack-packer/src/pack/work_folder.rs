//! Names in the work folder of a destination, in a folder or at a URL; lists and removes folders there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::{Result, manifest::WORK_FOLDER};

use crate::{part::Part, sys};

/// The plan of the pack.
pub(super) const PLAN_FILE: &str = "plan";
/// The lock of the process that packs.
pub(super) const LOCK_FILE: &str = "lock";
/// The sealed dataset that is being replaced, complete, until the new one is sealed.
pub(super) const REPLACED_FOLDER: &str = "replaced";
/// The replaced dataset while its files are moved; these files belong back in their places.
pub(super) const ASIDE_FOLDER: &str = "replaced.part";
/// Preprocessed images of one process, which a later run reuses by their inputs.
pub(super) const SPOOL_FILE: &str = "made";
/// Folder of the receipts of parts.
pub(super) const RECEIPTS_FOLDER: &str = "parts";
/// Folder of the spools of parts.
pub(super) const SPOOLS_FOLDER: &str = "spools";
/// Help if the folder has other files: parts replace nothing.
pub(super) const OTHER_FOLDER: &str = "choose another folder, or remove this";

/// Whether the work folder `work` holds anything of a pack that goes on if its command is repeated.
///
/// # Errors
/// If a file in it cannot be inspected.
pub fn has_pack(work: &Path) -> Result<bool> {
    for name in [PLAN_FILE, ASIDE_FOLDER, REPLACED_FOLDER, SPOOL_FILE] {
        if sys::exists(&work.join(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Name of the plan object.
pub(super) fn plan_name() -> String {
    format!("{WORK_FOLDER}/{PLAN_FILE}")
}

/// Name of the object that names the objects of replaced datasets, one a line.
pub(super) fn replaced_name() -> String {
    format!("{WORK_FOLDER}/replaced")
}

/// Prefix of the names of receipts.
pub(super) fn receipts_folder() -> String {
    format!("{WORK_FOLDER}/{RECEIPTS_FOLDER}/")
}

/// The part of the receipt `name`, as in [`receipt_name`].
pub(super) fn part_of_receipt(name: &str) -> Option<Part> {
    let file = name.strip_prefix(&receipts_folder())?;
    let (number, of) = file.strip_suffix(".json")?.split_once("-of-")?;
    Part::new(number.parse().ok()?, of.parse().ok()?).ok().filter(|part| receipt_name(*part) == name)
}

/// Prefix of the names of spools and their lists.
pub(super) fn spools_folder() -> String {
    format!("{WORK_FOLDER}/{SPOOLS_FOLDER}/")
}

/// Name of the receipt of `part`.
pub(super) fn receipt_name(part: Part) -> String {
    format!("{}{}-of-{}.json", receipts_folder(), part.number, part.of)
}

/// The files in a folder and below, by relative path.
pub(super) fn files_in(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut todo) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = todo.pop() {
        let full = root.join(&folder);
        let failed = |error| sys::io_error("cannot read folder", &full, error);
        for entry in fs::read_dir(&full).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = folder.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_dir() { todo.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}
