//! An ImageFolder tree: `SRC/<class>/**/<image>`, or `SRC/<split>/<class>/**/<image>`, as torchvision reads it.
//!
//! Classes are the sorted names of the first-level folders; splits share one list of classes.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, Dir, FileType},
    io::Errno,
};
use shardpack_format::{Error, Result};

use super::{
    Found,
    keep::{Keep, LEFT_OUT},
    layout,
    missing_components::lacking,
    names::{self, Name, as_path},
    options::{Options, SPLITS, Splits},
    payload,
    storage::listing_threads,
    walk::{self, Outcome},
};
use crate::{
    ledger::{Fate, Unpacked, order},
    monitor::{Monitor, Phase},
    sys,
};

/// Why a payload right in the source, or in a split of it, is passed over.
const OUTSIDE: &str = " outside a class folder";

/// What lies in a folder, by name: folders, and what else was found.
struct Level {
    folders: Vec<Vec<u8>>,
    ignored: BTreeMap<String, u64>,
    /// Links back to the folder itself that a person does not want.
    left_out: Vec<Unpacked>,
}

impl Level {
    /// Payloads right in the folder.
    fn payloads(&self) -> u64 {
        self.ignored.iter().filter(|(reason, _)| reason.ends_with(OUTSIDE)).map(|(_, files)| files).sum()
    }
}

/// Lists a source: one [`Found`] for each split, or one for all.
///
/// # Errors
/// When the folder cannot be read, has no classes, or its folders look like splits and classes at once.
pub fn discover(root: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
    let found = discover_as(root, options, monitor)?;
    match payload::told(root, &found, options)? {
        None => Ok(found),
        Some((options, notes)) => {
            let mut found = discover_as(root, &options, monitor)?;
            found[0].notes.splice(0..0, notes);
            Ok(found)
        }
    }
}

/// Lists a source where it is known which files are samples.
fn discover_as(root: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
    let keep = Keep::new(options)?;
    monitor.begin(Phase::Walking, 0, 0);
    let mut top = level(root, &keep)?;
    let splits = recognise(root, &top, options, &keep)?;
    let roots: Vec<(Option<String>, PathBuf)> = match &splits {
        None => vec![(None, root.to_path_buf())],
        Some(names) => {
            let others =
                top.folders.iter().filter(|folder| !names.iter().any(|name| name.as_bytes() == folder.as_slice()));
            let others = others.count() as u64;
            if others > 0 {
                top.ignored.insert("folder that is none of the splits".to_owned(), others);
            }
            names.iter().map(|name| (Some(name.clone()), root.join(name))).collect()
        }
    };
    let mut found = match options.no_labels {
        true => without_labels(roots, options, &keep, monitor)?,
        false => with_labels(root, roots, options, &keep, monitor)?,
    };
    if splits.is_some() {
        for (reason, count) in top.ignored {
            *found[0].ignored.entry(reason).or_default() += count;
        }
    } else if options.splits == Splits::Auto && !options.no_labels {
        layout::refuse_one_deep_class(root, &found)?;
        layout::refuse_splits_in_classes(root, &found)?;
    }
    Ok(found)
}

/// Lists images whose classes are the first folders that they are in.
fn with_labels(
    root: &Path,
    roots: Vec<(Option<String>, PathBuf)>,
    options: &Options,
    keep: &Keep,
    monitor: &dyn Monitor,
) -> Result<Vec<Found>> {
    let levels = roots.iter().map(|(_, path)| level(path, keep)).collect::<Result<Vec<_>>>()?;
    for ((split, path), level) in roots.iter().zip(&levels) {
        if let (Some(split), true, 1..) = (split, level.folders.is_empty(), level.payloads()) {
            return Err(layout::no_classes(root, split, path, level.payloads()));
        }
    }
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
        let threads = listing_threads(&path, options.threads);
        let mut outcome = walk::walk(&fd, &path, tasks.collect(), keep, &options.with, threads, monitor)?;
        for (reason, count) in level.ignored {
            *outcome.ignored.entry(reason).or_default() += count;
        }
        outcome.unpacked.extend(level.left_out);
        found.push(finish(split, &classes, outcome, keep));
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
        let tasks = vec![(Vec::new(), None)];
        let threads = listing_threads(&path, options.threads);
        let outcome = walk::walk(&open(&path)?, &path, tasks, keep, &options.with, threads, monitor)?;
        Ok(finish(split, &Arc::default(), outcome, keep))
    };
    roots.into_iter().map(list).collect()
}

fn finish(split: Option<String>, classes: &Arc<Vec<Box<[u8]>>>, mut outcome: Outcome, keep: &Keep) -> Found {
    outcome.unpacked.sort_unstable_by(order);
    let listing = Arc::new(outcome.samples.finish(Arc::clone(classes)));
    let noun = if keep.payloads().payload().is_none() { "image" } else { "sample" };
    let (notes, payload) = (lacking(&listing, noun), keep.payloads().payload().cloned());
    let files = keep.payloads().patterns().to_vec();
    let Outcome { unpacked, ignored, .. } = outcome;
    Found { split, listing, unpacked, ignored, notes, payload, files, ..Found::default() }
}

fn open(path: &Path) -> Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt;
    walk::open_folder(rustix::fs::CWD, path.as_os_str().as_bytes())
        .map_err(|error| sys::io_error("cannot open folder", path, error.into()))
}

/// Looks at one folder without going down.
fn level(path: &Path, keep: &Keep) -> Result<Level> {
    let fd = open(path)?;
    let failed = |error: Errno| sys::io_error("cannot read folder", path, error.into());
    let own = rustix::fs::fstat(&fd).map_err(failed)?;
    let mut level = Level { folders: Vec::new(), ignored: BTreeMap::new(), left_out: Vec::new() };
    for entry in Dir::read_from(&fd).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let reason = match keep.classify(name) {
            Name::Hidden => "hidden".to_owned(),
            Name::System => "system".to_owned(),
            class_of_name => {
                let (mut is_folder, mut is_broken) = (entry.file_type() == FileType::Directory, false);
                if matches!(entry.file_type(), FileType::Symlink | FileType::Unknown) {
                    match rustix::fs::statat(&fd, entry.file_name(), AtFlags::empty()) {
                        Ok(stat) => {
                            is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                            is_broken = (stat.st_dev, stat.st_ino) == (own.st_dev, own.st_ino);
                        }
                        // Taken for a class, or the labels of all that follow would be others. The walk names it.
                        Err(error) if walk::is_of_path(error) => {
                            (is_folder, is_broken) = (!matches!(class_of_name, Name::Payload), true);
                        }
                        Err(error) => {
                            return Err(sys::io_error("cannot look at", &path.join(as_path(name)), error.into()));
                        }
                    }
                }
                match class_of_name {
                    _ if is_folder && is_broken && keep.leaves_out(name) => {
                        let (path, reason) = (name.to_vec(), LEFT_OUT.into());
                        level.left_out.push(Unpacked { path, class: None, fate: Fate::Filtered, reason });
                        continue;
                    }
                    _ if is_folder => {
                        level.folders.push(name.to_vec());
                        continue;
                    }
                    Name::Payload => format!("{}{OUTSIDE}", keep.payload()),
                    _ => names::other_reason(name),
                }
            }
        };
        *level.ignored.entry(reason).or_default() += 1;
    }
    level.folders.sort_unstable();
    Ok(level)
}

/// The names of the splits, in the order of [`SPLITS`] or as given; `None` where the first level are classes.
fn recognise(root: &Path, top: &Level, options: &Options, keep: &Keep) -> Result<Option<Vec<String>>> {
    let is_there = |name: &str| top.folders.iter().any(|folder| folder == name.as_bytes());
    // Of a folder that is a split.
    let has_classes = |name: &[u8]| -> Result<bool> {
        Ok(options.no_labels || !level(&root.join(as_path(name)), keep)?.folders.is_empty())
    };
    let known = || SPLITS.into_iter().filter(|split| is_there(split));
    match &options.splits {
        Splits::None => Ok(None),
        Splits::Names(names) => match names.iter().find(|name| !is_there(name)) {
            Some(missing) => Err(Error::usage(format!("no folder {missing:?}, which --splits names")).in_file(root)),
            None => Ok(Some(names.clone())),
        },
        Splits::Compared(names) => {
            let mut names: Vec<String> = names.iter().filter(|name| is_there(name)).cloned().collect();
            for split in known() {
                if !names.iter().any(|name| name == split) && has_classes(split.as_bytes())? {
                    names.push(split.to_owned());
                }
            }
            Ok((!names.is_empty()).then_some(names))
        }
        Splits::Auto => {
            let (mut parted, mut flat, mut others) = (Vec::new(), Vec::new(), Vec::new());
            for folder in &top.folders {
                match layout::is_called_like_a_split(folder) {
                    true if has_classes(folder)? => parted.push(folder),
                    true => flat.push(folder),
                    false => others.push(folder),
                }
            }
            let are_exact = known().count() == top.folders.len();
            let images_outside = options.no_labels && top.payloads() > 0;
            match (parted.len(), flat.len(), others.len()) {
                (1.., 0, 0) if are_exact && !images_outside => Ok(Some(known().map(str::to_owned).collect())),
                // A class may happen to be called `test`; without labels nothing is mixed but splits.
                (0, 0, _) | (0, _, 1..) => Ok(None),
                (1, ..) if options.no_labels => Ok(None),
                _ => Err(layout::are_they_splits(root, &layout::Seen { parted, flat, others }, options.no_labels)),
            }
        }
    }
}
