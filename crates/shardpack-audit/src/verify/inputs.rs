//! Verifies several inputs: datasets, single shards of a dataset, and foreign files.
//!
//! A shard of a dataset is always checked against the manifest in its folder, however it was named.

use std::{collections::BTreeSet, path::Path};

use shardpack_format::{Result, manifest, size, text};
use shardpack_runtime::Instant;

use super::{Options, Problem, Report, foreign, from_error, open, shard, verify};
use crate::{
    monitor::{Monitor, Phase},
    source::{DatasetLocation, inputs::Inputs, strangers::STRANGER},
};

/// Verifies all of `given`.
///
/// # Errors
/// If a folder has nothing to verify, or the machine fails. Damage is in the report.
pub fn all(given: &Inputs, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let start = Instant::now();
    options.check()?;
    let mut report = Report::default();
    for DatasetLocation { folder, only, .. } in &given.roots {
        let of_root = match only {
            None => verify(folder, options, monitor)?,
            Some(names) => some_of(folder, names, options, monitor)?,
        };
        report.add(within(folder, of_root));
    }
    if given.others.is_empty() {
        report = report.with_transfers(given.transfers());
    } else {
        let looked = given.look()?.some(&given.others)?;
        report.add(foreign::verify(looked, options, monitor)?);
    }
    report.elapsed = start.elapsed();
    Ok(report)
}

/// Verifies only the shards with these names in the dataset in `folder`.
fn some_of(folder: &Path, names: &BTreeSet<String>, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let files = shardpack_storage::open(folder, &options.store)?;
    let options = &options.for_files(&files);
    let (mut datasets, problems) = open(&files)?;
    let mut report = Report { problems, ..Report::default() };
    for dataset in &mut datasets {
        if let Err(error) = dataset.manifest.check_id(&dataset.bytes) {
            report.problems.push(from_error(manifest::FILE.to_owned(), &error));
        }
        let all = dataset.manifest.shards.len();
        let listed = dataset.manifest.shards.clone();
        let meant = || listed.iter().filter(|shard| names.contains(&shard.file));
        let (samples, bytes) =
            meant().fold((0, 0), |(samples, bytes), shard| (samples + shard.samples, bytes + shard.bytes));
        monitor.begin(Phase::Verifying, samples, bytes);
        dataset.only = Some(names.clone());
        let shards = meant().count();
        (report.samples, report.shards) = (samples, shards as u64);
        let strange = names.iter().filter(|name| !meant().any(|shard| shard.file == **name));
        report.problems.extend(strange.map(|name| dataset.problem(name, STRANGER)));
        match dataset.format() {
            Ok(format) => shard::verify_all(dataset, format.as_ref(), options, monitor, &mut report)?,
            Err(error) => report.problems.push(dataset.problem(manifest::FILE, error.what())),
        }
        let what = format!(
            "{shards} of {} of a dataset, by its manifest; not its other files",
            size::counted(all as u64, "shard")
        );
        report.notes.push(format!("{}: {what}", text::path(&folder)));
    }
    report.add_transfers(files.transfers());
    Ok(report)
}

/// The report with `folder` added to each file path.
fn within(folder: &Path, report: Report) -> Report {
    let outside = |problem: Problem| Problem { file: text::path(&folder.join(&problem.file)).to_string(), ..problem };
    Report { problems: report.problems.into_iter().map(outside).collect(), ..report }
}
