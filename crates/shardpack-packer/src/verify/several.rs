//! Several things at once: datasets, some shards of one, and files of other writers. A shard of a dataset is known by the
//! manifest beside it, which says what its bytes should be, however it was asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Instant,
};

use shardpack_format::{
    Error, Result,
    manifest::{self, Manifest},
};

use super::{Options, Problem, Report, foreign, from_error, open, shard, verify};
use crate::{
    foreign::{files::look, patterns::expanded},
    monitor::{Monitor, Phase},
    sys,
};

/// What some paths on a command line are.
#[derive(Debug, Default)]
pub struct Several {
    /// Folders of whole datasets.
    datasets: BTreeSet<PathBuf>,
    /// Names of shards by the folder of the dataset that they are of.
    shards: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Whatever else: of no dataset.
    others: Vec<PathBuf>,
}

impl Several {
    /// Sorts what `paths` stand for, globs and brace patterns among them.
    ///
    /// # Errors
    /// When a path is not there or cannot be looked at, or a manifest beside a shard cannot be read.
    pub fn of(paths: &[PathBuf]) -> Result<Self> {
        let mut several = Self::default();
        let mut named: BTreeMap<PathBuf, Option<BTreeSet<String>>> = BTreeMap::new();
        for path in paths {
            for path in expanded(path)? {
                several.sort(path, &mut named)?;
            }
        }
        // What is said of all of it is said of its shards.
        several.shards.retain(|folder, _| !several.datasets.contains(folder));
        let datasets = &several.datasets;
        several.others.retain(|path| !datasets.contains(&folder_of(path)));
        Ok(several)
    }

    fn sort(&mut self, path: PathBuf, named: &mut BTreeMap<PathBuf, Option<BTreeSet<String>>>) -> Result<()> {
        if path.is_dir() {
            match sys::metadata_if_there(&path.join(manifest::FILE))? {
                Some(_) => drop(self.datasets.insert(path)),
                None => self.others.push(path),
            }
            return Ok(());
        }
        let folder = folder_of(&path);
        if path.file_name().is_some_and(|name| name == manifest::FILE) {
            self.datasets.insert(folder);
            return Ok(());
        }
        if !named.contains_key(&folder) {
            let path = folder.join(manifest::FILE);
            let names = match sys::read_if_there(&path)? {
                Some(bytes) => {
                    let manifest = Manifest::read(&bytes).map_err(|error| error.in_file(&path))?;
                    Some(manifest.shards.into_iter().map(|shard| shard.file).collect())
                }
                None => None,
            };
            named.insert(folder.clone(), names);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match named.get(&folder).and_then(Option::as_ref).is_some_and(|names| names.contains(&name)) {
            true => {
                if !self.shards.entry(folder).or_default().insert(name) {
                    return Err(Error::usage("is given twice").in_file(path));
                }
            }
            false => self.others.push(path),
        }
        Ok(())
    }

    /// Whether there is no manifest to go by.
    pub fn is_foreign(&self) -> bool {
        self.datasets.is_empty() && self.shards.is_empty()
    }

    /// Verifies all of it.
    ///
    /// # Errors
    /// When there is nothing in a folder, or the machine is not right. Damage is in the report.
    pub fn verify(&self, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
        let start = Instant::now();
        let mut report = Report::default();
        for folder in &self.datasets {
            report.add(within(folder, verify(folder, options, monitor)?));
        }
        for (folder, names) in &self.shards {
            report.add(within(folder, some_of(folder, names, options, monitor)?));
        }
        if !self.others.is_empty() {
            report.add(foreign::verify(look(&self.others)?.some(&self.others)?, options, monitor)?);
        }
        report.elapsed = start.elapsed();
        Ok(report)
    }
}

/// Verifies the shards of these names, and nothing else of the dataset in `folder`.
fn some_of(folder: &Path, names: &BTreeSet<String>, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let (datasets, problems) = open(folder)?;
    let mut report = Report { problems, ..Report::default() };
    for mut dataset in datasets {
        if let Err(error) = dataset.manifest.check_id(&dataset.bytes) {
            report.problems.push(from_error(manifest::FILE.to_owned(), &error));
        }
        let all = dataset.manifest.shards.len();
        let meant = dataset.manifest.shards.iter().filter(|shard| names.contains(&shard.file));
        let (samples, bytes) =
            meant.fold((0, 0), |(samples, bytes), shard| (samples + shard.samples, bytes + shard.bytes));
        monitor.begin(Phase::Verifying, samples, bytes);
        dataset.only = Some(names.clone());
        (report.samples, report.shards) = (samples, names.len() as u64);
        match dataset.format() {
            Ok(format) => shard::verify_all(&dataset, format.as_ref(), options, monitor, &mut report)?,
            Err(error) => report.problems.push(dataset.problem(manifest::FILE, error.what())),
        }
        let what = format!("{} of {all} shards of a dataset, by its manifest; not its other files", names.len());
        report.notes.push(format!("{}: {what}", folder.display()));
    }
    Ok(report)
}

/// The report with files as they are called from outside of `folder`.
fn within(folder: &Path, report: Report) -> Report {
    let outside = |problem: Problem| Problem { file: folder.join(&problem.file).display().to_string(), ..problem };
    Report { problems: report.problems.into_iter().map(outside).collect(), ..report }
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}
