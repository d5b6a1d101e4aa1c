//! Checks that the files of a sealed dataset exist with the lengths in its manifest, in a folder or at a URL.

use std::{path::Path, sync::Arc};

use shardpack_format::{
    Error, Result, help,
    manifest::{LEDGER_FILE, Manifest, SUMS_FILE},
    shell, splits, text,
};
use shardpack_storage::Storage;

use super::{existing::Existing, split_prefix};
use crate::{
    plan::Plan,
    seal_dataset,
    transfer::{lengths, of_split},
};

/// Files of the manifest's dataset, with their lengths in bytes.
pub(super) fn files_of(manifest: &Manifest) -> Vec<(String, u64)> {
    let shards = manifest.shards.iter().map(|shard| (shard.file.clone(), shard.bytes));
    let others = manifest.shards.iter().map(|shard| &shard.index).chain(&manifest.sidecars);
    let others = others.chain(&manifest.ledger.file).map(|file| (file.file.clone(), file.bytes));
    shards.chain(others).chain([(SUMS_FILE.to_owned(), manifest.sums().len() as u64)]).collect()
}

/// Fails if a file in the manifests of a dataset is missing or has another length.
pub(super) fn check(storage: &Arc<dyn Storage>, plans: &[Plan], manifests: &[Manifest]) -> Result<()> {
    let dst = storage.root();
    let (mut wrong, mut source_mends) = (Vec::new(), true);
    for (plan, manifest) in plans.iter().zip(manifests) {
        let expected = files_of(manifest);
        let names: Vec<&str> = expected.iter().map(|(file, _)| file.as_str()).collect();
        let found = lengths(of_split(storage, plan.split.as_deref())?.as_ref(), &names)?;
        for (file, bytes) in &expected {
            let what = match found.get(file.as_str()) {
                Some(found) if found == bytes => continue,
                Some(found) => format!("is {found} bytes, {bytes} in the manifest"),
                None => "is missing".to_owned(),
            };
            source_mends &= manifest.recipe.is_none() && file != LEDGER_FILE;
            let path = split_prefix(plan) + file;
            wrong.push(format!("{} {what}", text::path(Path::new(&path))));
        }
    }
    wrong.extend(wrong_beside(storage, plans, manifests)?);
    let Some(first) = wrong.first() else { return Ok(()) };
    let more = if wrong.len() > 1 { format!(", and {} more", wrong.len() - 1) } else { String::new() };
    let error = Error::data(format!("was packed from this source, and is damaged now: {first}{more}")).in_file(dst);
    Err(match source_mends {
        true => {
            error.help(format!("shardpack verify {} --repair SRC mends it, --force packs it anew", shell::path(dst)))
        }
        false => error.help(help::PACK_ANEW),
    })
}

/// Describes the files beside splits that are missing or have another length.
fn wrong_beside(storage: &Arc<dyn Storage>, plans: &[Plan], manifests: &[Manifest]) -> Result<Vec<String>> {
    let Some(splits) = seal_dataset::splits_of(plans, manifests) else { return Ok(Vec::new()) };
    if seal_dataset::names_beside(&splits)?.is_empty() {
        return Ok(Vec::new());
    }
    let files = Existing::look(storage.as_ref(), &[])?.files_beside();
    let names: Vec<&str> = files.iter().map(|file| file.file.as_str()).collect();
    let found = lengths(storage.as_ref(), &names)?;
    let wrong = files.iter().filter_map(|file| match found.get(file.file.as_str()) {
        Some(found) if *found == file.bytes => None,
        Some(found) => Some(format!("{} is {found} bytes, {} in {}", file.file, file.bytes, splits::FILE)),
        None => Some(format!("{} is missing", file.file)),
    });
    Ok(wrong.collect())
}
