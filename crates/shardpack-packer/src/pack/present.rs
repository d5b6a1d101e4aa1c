//! Checks that the files of a sealed dataset exist with the lengths in its manifest, in a folder or at a URL.

use std::{collections::BTreeMap, path::Path};

use shardpack_format::{
    Error, Result, help,
    manifest::{LEDGER_FILE, Manifest, SUMS_FILE},
    shell, text,
};

use super::split_prefix;
use crate::plan::Plan;

/// Files of the manifest's dataset, with their lengths in bytes.
pub(super) fn files_of(manifest: &Manifest) -> Vec<(String, u64)> {
    let shards = manifest.shards.iter().map(|shard| (shard.file.clone(), shard.bytes));
    let others = manifest.shards.iter().map(|shard| &shard.index).chain(&manifest.sidecars);
    let others = others.chain(&manifest.ledger.file).map(|file| (file.file.clone(), file.bytes));
    shards.chain(others).chain([(SUMS_FILE.to_owned(), manifest.sums().len() as u64)]).collect()
}

/// Fails if a file in the manifests of the dataset at `dst`, a folder or a URL, is missing or has another length.
///
/// `lengths` returns the lengths of those files of a plan that exist, in bytes.
pub(super) fn check(
    dst: &Path,
    plans: &[Plan],
    manifests: &[Manifest],
    lengths: impl for<'f> Fn(&Plan, &[&'f str]) -> Result<BTreeMap<&'f str, u64>>,
) -> Result<()> {
    let (mut wrong, mut source_mends) = (Vec::new(), true);
    for (plan, manifest) in plans.iter().zip(manifests) {
        let expected = files_of(manifest);
        let names: Vec<&str> = expected.iter().map(|(file, _)| file.as_str()).collect();
        let found = lengths(plan, &names)?;
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
