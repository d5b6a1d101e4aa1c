//! An ImageFolder tree: `SRC/<class>/**/<image>`, or `SRC/<split>/<class>/**/<image>`, as torchvision reads it.
//!
//! Classes are the sorted names of the first-level folders; splits share one list of classes.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use globset::{Glob, GlobSet, GlobSetBuilder};
use rustix::fs::{AtFlags, Dir, FileType};
use shardpack_format::{Error, Result, formats::Beside};

use super::{
    Found,
    walk::{self, Name, Outcome},
};
use crate::{
    ledger::Unpacked,
    listing::Listing,
    monitor::{Monitor, Phase},
    sys,
};

/// Names of folders that are taken for splits.
pub const SPLITS: [&str; 10] =
    ["train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval", "minival"];

/// Why an image right in the source, or in a split of it, is passed over.
const OUTSIDE: &str = "image outside a class folder";

/// Whether the first level of the source are splits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Splits {
    /// If every first-level folder has the name of a split.
    #[default]
    Auto,
    /// They are classes.
    None,
    /// These are splits; other folders are left alone.
    Names(Vec<String>),
}

/// How a source is walked.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// See [`Splits`].
    pub splits: Splits,
    /// Only images whose path matches one of these globs; all, if there are none.
    pub include: Vec<String>,
    /// No images whose path matches one of these globs.
    pub exclude: Vec<String>,
    /// Threads of the walk.
    pub threads: usize,
    /// Samples have no labels, whatever folders they are in.
    pub no_labels: bool,
    /// Files beside images that belong to the sample.
    pub beside: Vec<Beside>,
    /// Leave out what the source tells of samples beside that, and what a sealed dataset has of its own.
    pub no_text: bool,
    /// What it tells begins with class, label and path.
    pub meta: bool,
}

/// What lies in a folder, by name: folders, and what else was found.
struct Level {
    folders: Vec<Vec<u8>>,
    ignored: BTreeMap<String, u64>,
}

/// Lists a source: one [`Found`] for each split, or one for all.
///
/// # Errors
/// When the folder cannot be read, has no classes, or has links that lead in a circle.
pub fn discover(root: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
    let keep = Keep::new(options)?;
    monitor.begin(Phase::Walking, 0, 0);
    let top = level(root)?;
    let splits = recognise(root, &top, options)?;
    let roots: Vec<(Option<String>, PathBuf)> = match &splits {
        None => vec![(None, root.to_path_buf())],
        Some(names) => names.iter().map(|name| (Some(name.clone()), root.join(name))).collect(),
    };
    if options.no_labels {
        return without_labels(roots, options, &keep, monitor);
    }
    let levels = roots.iter().map(|(_, path)| level(path)).collect::<Result<Vec<_>>>()?;
    let names: BTreeSet<&Vec<u8>> = levels.iter().flat_map(|level| &level.folders).collect();
    if names.is_empty() {
        return Err(Error::usage("no class folders in here: an ImageFolder is SRC/<class>/<image>")
            .in_file(root)
            .help("--no-labels packs images that have no classes, wherever they lie"));
    }
    let classes: Arc<Vec<Box<[u8]>>> = Arc::new(names.iter().map(|name| name.as_slice().into()).collect());
    let mut found = Vec::new();
    for ((split, path), level) in roots.into_iter().zip(levels) {
        let fd = open(&path)?;
        let tasks = level.folders.into_iter().filter_map(|name| {
            let class = classes.binary_search_by(|known| known[..].cmp(&name[..])).ok()?;
            Some((name, Some(class as u32)))
        });
        let wanted = |path: &[u8]| keep.wants(path);
        let mut outcome = walk::walk(&fd, &path, tasks.collect(), &wanted, &options.beside, options.threads, monitor)?;
        for (reason, count) in level.ignored {
            *outcome.ignored.entry(reason).or_default() += count;
        }
        found.push(finish(split, &classes, outcome));
    }
    if splits.is_some() {
        for (reason, count) in top.ignored {
            *found[0].ignored.entry(reason).or_default() += count;
        }
    }
    Ok(found)
}

/// Lists images that have no classes, in whatever folders.
fn without_labels(
    roots: Vec<(Option<String>, PathBuf)>,
    options: &Options,
    keep: &Keep,
    monitor: &dyn Monitor,
) -> Result<Vec<Found>> {
    let list = |(split, path): (Option<String>, PathBuf)| {
        let (tasks, wanted) = (vec![(Vec::new(), None)], |path: &[u8]| keep.wants(path));
        let outcome = walk::walk(&open(&path)?, &path, tasks, &wanted, &options.beside, options.threads, monitor)?;
        Ok(finish(split, &Arc::default(), outcome))
    };
    roots.into_iter().map(list).collect()
}

fn finish(split: Option<String>, classes: &Arc<Vec<Box<[u8]>>>, mut outcome: Outcome) -> Found {
    outcome.unpacked.sort_unstable_by(order);
    let listing = Arc::new(outcome.samples.finish(Arc::clone(classes)));
    let notes = lacking(&listing);
    Found { split, listing, unpacked: outcome.unpacked, ignored: outcome.ignored, notes, ..Found::default() }
}

/// How many samples lack what others have beside their images.
pub(super) fn lacking(listing: &Listing) -> Vec<String> {
    let extra = listing.extra();
    let lacking = |(which, kind): (usize, &Beside)| {
        let pieces = extra.pieces.iter().skip(which).step_by(extra.kinds.len());
        let without = pieces.filter(|piece| piece.length().is_none()).count() as u64;
        let all = if without == listing.len() { ": none has one" } else { "" };
        (without > 0).then(|| format!("{without} of {} images without {} beside them{all}", listing.len(), kind.name()))
    };
    extra.kinds.iter().enumerate().filter_map(lacking).collect()
}

/// Order of the ledger: by class, then path.
pub fn order(a: &Unpacked, b: &Unpacked) -> std::cmp::Ordering {
    (a.class, &a.path).cmp(&(b.class, &b.path))
}

fn open(path: &Path) -> Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt;
    walk::open_folder(rustix::fs::CWD, path.as_os_str().as_bytes())
        .map_err(|error| sys::io_error("cannot open folder", path, error.into()))
}

/// Looks at one folder without going down.
fn level(path: &Path) -> Result<Level> {
    let fd = open(path)?;
    let failed = |error: rustix::io::Errno| sys::io_error("cannot read folder", path, error.into());
    let mut level = Level { folders: Vec::new(), ignored: BTreeMap::new() };
    for entry in Dir::read_from(&fd).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let reason = match walk::classify(name) {
            Name::Hidden => "hidden".to_owned(),
            Name::System => "system".to_owned(),
            class_of_name => {
                let folder = match entry.file_type() {
                    FileType::Directory => true,
                    FileType::Symlink | FileType::Unknown => {
                        rustix::fs::statat(&fd, entry.file_name(), AtFlags::empty())
                            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
                    }
                    _ => false,
                };
                match class_of_name {
                    _ if folder => {
                        level.folders.push(name.to_vec());
                        continue;
                    }
                    Name::Image => OUTSIDE.to_owned(),
                    _ => walk::other_reason(name),
                }
            }
        };
        *level.ignored.entry(reason).or_default() += 1;
    }
    level.folders.sort_unstable();
    Ok(level)
}

/// The names of the splits, in the order of [`SPLITS`] or as given; `None` where the first level are classes.
fn recognise(root: &Path, top: &Level, options: &Options) -> Result<Option<Vec<String>>> {
    match &options.splits {
        Splits::None => Ok(None),
        Splits::Names(names) => match names.iter().find(|name| !top.folders.iter().any(|f| f == name.as_bytes())) {
            Some(missing) => Err(Error::usage(format!("no folder {missing:?}, which --splits names")).in_file(root)),
            None => Ok(Some(names.clone())),
        },
        Splits::Auto => {
            let known = |folder: &Vec<u8>| SPLITS.iter().any(|split| split.as_bytes() == folder.as_slice());
            let images_outside = options.no_labels && top.ignored.contains_key(OUTSIDE);
            if top.folders.is_empty() || images_outside || !top.folders.iter().all(known) {
                return Ok(None);
            }
            // `train/` with images and no folders is a class that happens to be called so.
            for folder in &top.folders {
                if !options.no_labels && level(&root.join(walk::as_path(folder)))?.folders.is_empty() {
                    return Ok(None);
                }
            }
            Ok(Some(
                SPLITS
                    .iter()
                    .filter(|split| top.folders.iter().any(|folder| folder == split.as_bytes()))
                    .map(|split| (*split).to_owned())
                    .collect(),
            ))
        }
    }
}

/// The globs of `--include` and `--exclude`.
pub(super) struct Keep {
    include: GlobSet,
    exclude: GlobSet,
}

impl Keep {
    pub fn new(options: &Options) -> Result<Self> {
        Ok(Self { include: globs("--include", &options.include)?, exclude: globs("--exclude", &options.exclude)? })
    }

    /// Whether the person wants the sample at `path`.
    pub fn wants(&self, path: &[u8]) -> bool {
        let path = walk::as_path(path);
        (self.include.is_empty() || self.include.is_match(path)) && !self.exclude.is_match(path)
    }
}

fn globs(option: &str, patterns: &[String]) -> Result<GlobSet> {
    let wrong = |error: globset::Error| Error::usage(format!("{option}: {error}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(wrong)?);
    }
    set.build().map_err(wrong)
}
