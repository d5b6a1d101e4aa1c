//! Verifies the files beside the shards: sidecars, the ledger, crop tables.

use std::collections::BTreeMap;

use shardpack_format::{
    Result, hash,
    manifest::{self, Counts},
};
use shardpack_reader::{Dataset, Shard, Transfers};
use shardpack_storage::Storage;

use super::{Opened, Options, Problem, from_error, shard};
use crate::{crops, ledger, source::strangers::crop_files};

/// Checks the sidecars against the manifest; for a part, only every `part.of`-th sidecar.
pub(super) fn check_sidecars(dataset: &Opened, options: &Options) -> Result<Vec<Problem>> {
    let (first, step) = options.part.map_or((0, 1), |part| (part.number as usize - 1, part.of as usize));
    let all: Vec<_> = dataset.manifest.sidecars.iter().skip(first).step_by(step).collect();
    let check = |number: usize| {
        let what = wrong_file(dataset.files.as_ref(), all[number], "the manifest")?;
        Ok(what.map(|what| dataset.problem(&all[number].file, what)))
    };
    Ok(shard::in_order(all.len(), options.jobs, check)?.into_iter().flatten().collect())
}

/// How `expected` differs from the file in `files`; `of` names the file that has its hash.
pub(super) fn wrong_file(files: &dyn Storage, expected: &manifest::File, of: &str) -> Result<Option<String>> {
    let is_right = |found: &[u8]| found.len() as u64 == expected.bytes && hash::file(found) == expected.blake3.0;
    Ok(match files.read_right(&expected.file, Some(expected.bytes), is_right)? {
        None => Some("missing".to_owned()),
        Some(found) if !is_right(&found) => {
            Some(format!("BLAKE3 differs: {} bytes, {} in {of}", found.len(), expected.bytes))
        }
        Some(_) => None,
    })
}

/// Checks the ledger against the manifest: its hash and the counts of its lines.
pub(super) fn check_ledger(dataset: &Opened) -> Result<Vec<Problem>> {
    let Some(expected) = &dataset.manifest.ledger.file else { return Ok(Vec::new()) };
    let problem = |what: String| dataset.problem(manifest::LEDGER_FILE, what);
    let is_right = |bytes: &[u8]| bytes.len() as u64 == expected.bytes && hash::file(bytes) == expected.blake3.0;
    let Some(bytes) = dataset.files.read_right(manifest::LEDGER_FILE, Some(expected.bytes), is_right)? else {
        return Ok(vec![problem("missing".to_owned())]);
    };
    let mut problems = Vec::new();
    if !is_right(&bytes) {
        problems.push(problem(format!("BLAKE3 differs: {} bytes, {} in the manifest", bytes.len(), expected.bytes)));
    }
    match ledger::read(&bytes) {
        Err(error) => problems.push(from_error(format!("{}{}", dataset.prefix, manifest::LEDGER_FILE), &error)),
        Ok(lines) => {
            let mut counts: BTreeMap<Option<u32>, Counts> = BTreeMap::new();
            for line in lines {
                line.fate.count(counts.entry(line.class).or_default());
            }
            let classes = dataset.manifest.classes.iter().enumerate();
            let classes = classes.map(|(label, class)| (Some(label as u32), &*class.name, class.counts));
            for (label, class, expected) in classes.chain([(None, "unknown", dataset.manifest.ledger.unclassified)]) {
                let lines = counts.remove(&label).unwrap_or_default();
                let numbers = |of: Counts| [of.skipped, of.filtered, of.duplicates];
                if numbers(lines) != numbers(expected) {
                    let [skipped, filtered, duplicates] = numbers(lines);
                    let said = numbers(expected).map(|number| number.to_string()).join(", ");
                    problems.push(problem(format!(
                        "class {class}: {skipped} skipped, {filtered} filtered, {duplicates} duplicates; {said} in \
                         the manifest"
                    )));
                }
            }
            let strange = counts.keys().flatten();
            problems.extend(strange.map(|label| problem(format!("label {label}: there is no such class"))));
        }
    }
    Ok(problems)
}

/// Checks crop tables, if any, against this dataset's images; also returns the network transfers.
pub(super) fn check_crops(dataset: &Opened, options: &Options) -> Result<(Vec<Problem>, Option<Transfers>)> {
    // A dataset that cannot be opened was already reported.
    let Ok(opened) = Dataset::open_with(dataset.files.root(), &options.store) else { return Ok((Vec::new(), None)) };
    let is_meant = |shard: &Shard<'_>| dataset.only.as_ref().is_none_or(|only| only.contains(&shard.entry().file));
    let shards: Vec<_> = opened.shards().filter(is_meant).collect();
    let found = shard::in_order(shards.len(), options.jobs, |number| crops::check(&shards[number], options.quick))?;
    let mut problems = Vec::new();
    for (shard, error) in shards.iter().zip(found) {
        if let Some(error) = error {
            let [name, _] = crop_files(&shard.entry().index.file);
            let problem = from_error(format!("{}{name}", dataset.prefix), &error);
            problems.push(Problem { help: error.help_text().map(str::to_owned), ..problem });
        }
    }
    Ok((problems, opened.transfers()))
}
