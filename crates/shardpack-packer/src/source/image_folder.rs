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
use rustix::{
    fs::{AtFlags, Dir, FileType},
    io::Errno,
};
use shardpack_format::{Error, Result, component::Component, splits};

use super::{
    Found, layout, payload,
    payload::Payloads,
    walk::{self, Name, Outcome},
};
use crate::{
    ledger::{Fate, Unpacked},
    listing::Listing,
    monitor::{Monitor, Phase},
    sys,
};

/// Names of folders that are taken for splits.
pub const SPLITS: [&str; 10] = splits::KNOWN;

/// Why a payload right in the source, or in a split of it, is passed over.
const OUTSIDE: &str = " outside a class folder";
/// Why what a person does not want is left out.
pub(super) const LEFT_OUT: &str = "left out by --include or --exclude";

/// Features of TFRecord that say what the image's own first bytes do, and that TFRecord files written here have anew: they go
/// along only where they are asked for.
const OF_THE_IMAGE: [&str; 5] = ["image/format", "image/height", "image/width", "image/channels", "image/colorspace"];

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
    /// What a dataset of these splits is compared with: these as far as they are there, and all others that there are.
    Compared(Vec<String>),
}

/// Which components of a source of samples go along, beside image and label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Components {
    /// All that can.
    #[default]
    All,
    /// None.
    None,
    /// These, by their names.
    Named(Vec<Component>),
}

impl Components {
    /// Whether the field `field` of a record does, if it can.
    pub fn wants_field(&self, field: &str) -> bool {
        match self {
            Self::All => !OF_THE_IMAGE.contains(&field),
            Self::None => false,
            Self::Named(_) => Component::field(field).is_ok_and(|kind| self.wants(kind.name())),
        }
    }

    /// Whether that called `name` does, if it can.
    pub fn wants(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Named(kinds) => kinds.iter().any(|kind| kind.name() == name),
        }
    }
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
    /// Files that come with images.
    pub with: Vec<Component>,
    /// Which further components of samples go along, where the source is a dataset or shards.
    pub components: Components,
    /// Leave out what the source tells of samples beside that, and what a sealed dataset has of its own.
    pub no_text: bool,
    /// What it tells begins with class, label and path.
    pub meta: bool,
    /// Which files of a tree are payloads, by extension or pattern; images, if there are none.
    pub files: Vec<String>,
    /// All files of the same name but for the extension are one sample.
    pub groups: bool,
    /// Where a tree has no images, files of another kind are taken, if there is but one that can be meant.
    pub guess: bool,
}

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
        let mut outcome = walk::walk(&fd, &path, tasks.collect(), keep, &options.with, options.threads, monitor)?;
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
        let outcome = walk::walk(&open(&path)?, &path, tasks, keep, &options.with, options.threads, monitor)?;
        Ok(finish(split, &Arc::default(), outcome, keep))
    };
    roots.into_iter().map(list).collect()
}

fn finish(split: Option<String>, classes: &Arc<Vec<Box<[u8]>>>, mut outcome: Outcome, keep: &Keep) -> Found {
    outcome.unpacked.sort_unstable_by(order);
    let listing = Arc::new(outcome.samples.finish(Arc::clone(classes)));
    let noun = if keep.payloads.payload().is_none() { "image" } else { "sample" };
    let (notes, payload) = (lacking(&listing, noun), keep.payloads.payload().cloned());
    let files = keep.payloads.patterns().to_vec();
    let Outcome { unpacked, ignored, .. } = outcome;
    Found { split, listing, unpacked, ignored, notes, payload, files, ..Found::default() }
}

/// How many samples, each of them a `noun`, lack what others have beside them.
pub(super) fn lacking(listing: &Listing, noun: &str) -> Vec<String> {
    let components = listing.components();
    let lacking = |(which, kind): (usize, &Component)| {
        let cells = components.cells.iter().skip(which).step_by(components.kinds.len());
        let without = cells.filter(|cell| cell.length().is_none()).count() as u64;
        let all = if without == listing.len() { ": none has one" } else { "" };
        (without > 0)
            .then(|| format!("{without} of {} {noun}s without {} beside them{all}", listing.len(), kind.name()))
    };
    components.kinds.iter().enumerate().filter_map(lacking).collect()
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
                            return Err(sys::io_error("cannot look at", &path.join(walk::as_path(name)), error.into()));
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
fn recognise(root: &Path, top: &Level, options: &Options, keep: &Keep) -> Result<Option<Vec<String>>> {
    let is_there = |name: &str| top.folders.iter().any(|folder| folder == name.as_bytes());
    // Of a folder that is a split.
    let has_classes = |name: &[u8]| -> Result<bool> {
        Ok(options.no_labels || !level(&root.join(walk::as_path(name)), keep)?.folders.is_empty())
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

/// The globs of `--include` and `--exclude`, and which files are payloads.
pub(super) struct Keep {
    payloads: Payloads,
    include: GlobSet,
    exclude: GlobSet,
}

impl Keep {
    pub fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            payloads: Payloads::new(&options.files)?,
            include: globs("--include", &options.include)?,
            exclude: globs("--exclude", &options.exclude)?,
        })
    }

    /// What an entry of a folder is, by its name alone.
    pub fn classify(&self, name: &[u8]) -> Name {
        walk::classify(name, |name| self.payloads.takes(name))
    }

    /// What payloads are called: `image`, or the extension of the files.
    pub fn payload(&self) -> &str {
        self.payloads.payload().map_or("image", Component::name)
    }

    /// Whether the person wants nothing that is at `path`, as far as can be told of what cannot be looked at.
    pub fn leaves_out(&self, path: &[u8]) -> bool {
        // What fits a file of any name is of the folder.
        let (inside, path) = (walk::join(path, b"\x01"), walk::as_path(path));
        self.exclude.is_match(path) || self.exclude.is_match(walk::as_path(&inside))
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
