//! Lists an ImageFolder tree: `SRC/<class>/**/<image>`, or `SRC/<split>/<class>/**/<image>`, by the rules of
//! torchvision.
//!
//! Classes are the sorted names of the first-level folders. All splits share one list of classes.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, Dir, FileType},
    io::Errno,
};
use shardpack_format::{Error, ErrorKind, Result};

use super::{
    SourceListing,
    filter::{LEFT_OUT, PathFilter},
    label_pattern,
    layout::{self, Likeness},
    links::NOT_FOLLOWED,
    listed_tree::ListedTree,
    missing_components::lacking,
    names::{self, Name, as_path},
    options::{OnMissing, Options, SPLITS, Splits},
    outcome::{Outcome, unpacked},
    sample_files,
    storage::listing_threads,
    tree::{Tree, below},
    walk,
};
use crate::{
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    sys,
};

/// The reason for ignored payloads right in the source or in a split.
const OUTSIDE: &str = " outside a class folder";
/// Levels of single subfolders to enter when searching for classes.
const DEEPEST: usize = 3;

/// The entries of one folder: subfolders by name, and counts of other entries.
struct Level {
    folders: Vec<Vec<u8>>,
    ignored: BTreeMap<String, u64>,
    /// Links back to the folder itself that the user excluded.
    left_out: Vec<Unpacked>,
}

impl Level {
    /// Number of payloads right in the folder.
    fn payloads(&self) -> u64 {
        self.ignored.iter().filter(|(reason, _)| reason.ends_with(OUTSIDE)).map(|(_, files)| files).sum()
    }
}

/// Lists a source: one [`SourceListing`] for each split, or one for all.
///
/// # Errors
/// If the folder cannot be read or has no classes, or the roles of its folders are ambiguous.
pub fn discover(root: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
    discover_in(Tree { root, listed: None }, options, monitor)
}

/// Like [`discover`], for any tree.
pub(super) fn discover_in(tree: Tree<'_>, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
    if let Some(pattern) = &options.label_pattern {
        let options = Options { no_labels: true, label_pattern: None, ..options.clone() };
        let found = discover_in(tree, &options, monitor)?;
        if options.guess && !options.has_files() && options.include.is_empty() {
            layout::pairs::refuse_folders(tree, &found)?;
        }
        // The listing may be of other files than images.
        let files = found.first().map_or(&options.files, |one| &one.files).clone();
        return Ok(pattern.classify(found, &PathFilter::new(&Options { files, ..options })?));
    }
    let found = discover_as(tree, options, monitor);
    // After the walk, which reports folders that cannot be read. Options that choose folders or files are an answer to this question.
    let is_question = found.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Usage);
    let is_empty = found.as_ref().is_ok_and(|found| found.iter().all(|one| one.listing.is_empty()));
    if options.guess && is_question && options.files.is_empty() && (is_empty || found.is_err()) {
        layout::known::refuse_rows(tree)?;
    }
    if options.guess && is_question && !options.no_labels && !options.has_files() && options.files.is_empty() {
        match &options.splits {
            Splits::Auto => layout::known::ask(tree, &[])?,
            Splits::Names(names) => layout::known::ask(tree, names)?,
            Splits::None | Splits::Compared(_) => {}
        }
    }
    let mut found = found?;
    if !matches!(options.splits, Splits::Compared(_)) {
        refuse_images_outside(tree, &found, options)?;
        layout::refuse_empty_splits(tree.root, &found)?;
    }
    if options.guess && !options.groups && !options.has_files() && options.files.is_empty() {
        let note = layout::known::note_texts(tree, &found);
        found.first_mut().into_iter().for_each(|first| first.notes.extend(note.clone()));
    }
    match sample_files::decide_payload(tree, &found, options)? {
        None => Ok(found),
        Some((options, notes)) => {
            let mut found = discover_as(tree, &options, monitor)?;
            found[0].notes.splice(0..0, notes);
            Ok(found)
        }
    }
}

/// Fails if a source with classes has most of its images outside folders. Without a class they would be ignored.
fn refuse_images_outside(tree: Tree<'_>, found: &[SourceListing], options: &Options) -> Result<()> {
    let outside = |one: &SourceListing| one.ignored.get(&format!("image{OUTSIDE}")).copied().unwrap_or(0);
    let (images, packed) = (found.iter().map(outside).sum::<u64>(), found.iter().map(|one| one.listing.len()).sum());
    match options.files.is_empty() && images > packed {
        true => Err(layout::images_outside(tree.root, images, packed, labels_in_names(tree, found, options)?)),
        false => Ok(()),
    }
}

/// Help that names a pattern for labels in the names of images, in the folders of `found` and outside.
fn labels_in_names(tree: Tree<'_>, found: &[SourceListing], options: &Options) -> Result<Option<String>> {
    let mut images = sample_files::files_right_in(tree, tree.root);
    for one in found {
        if let Some(split) = &one.split {
            images.extend(sample_files::files_right_in(tree, &tree.root.join(split)));
        }
        images.extend((0..one.listing.len()).map(|number| one.listing.name(number).to_vec()));
        let left_out = one.unpacked.iter().filter(|one| one.fate != Fate::Filtered);
        images.extend(left_out.map(|one| names::cut(&one.path).1.to_vec()));
    }
    Ok(pattern_for(&images, &PathFilter::new(options)?))
}

/// Help that names a pattern for labels in the names of the images among `files`.
fn pattern_for(files: &[Vec<u8>], keep: &PathFilter) -> Option<String> {
    let images = files.iter().filter(|name| matches!(keep.classify(name), Name::Payload));
    label_pattern::suggestion(images.map(Vec::as_slice))
}

/// Lists a source with fixed payload rules.
fn discover_as(tree: Tree<'_>, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
    let keep = PathFilter::new(options)?;
    if tree.listed.is_none() {
        monitor.begin(Phase::Walking, 0, 0);
    }
    let mut top = level(tree, b"", &keep)?;
    tree.refuse_packed(&top.folders)?;
    let splits = recognise(tree, &top, options, &keep)?;
    let roots: Vec<Option<String>> = match &splits {
        None => vec![None],
        Some(names) => {
            let others =
                top.folders.iter().filter(|folder| !names.iter().any(|name| name.as_bytes() == folder.as_slice()));
            let others = others.count() as u64;
            if others > 0 {
                top.ignored.insert("folder that is not a split".to_owned(), others);
            }
            names.iter().cloned().map(Some).collect()
        }
    };
    let mut found = match options.no_labels {
        true => without_labels(tree, roots, options, &keep, monitor)?,
        false => with_labels(tree, roots, options, &keep, monitor)?,
    };
    if splits.is_some() {
        for (reason, count) in top.ignored {
            *found[0].ignored.entry(reason).or_default() += count;
        }
    }
    if !options.no_labels {
        refuse_what_are_no_classes(tree, &found, options)?;
        let note = layout::deeper_folders(&found);
        found[0].notes.extend(note);
    }
    Ok(found)
}

/// Fails if class or split folders look like something else and the user has not confirmed them.
fn refuse_what_are_no_classes(tree: Tree<'_>, found: &[SourceListing], options: &Options) -> Result<()> {
    let (root, are_splits) = (tree.root, found.iter().any(|one| one.split.is_some()));
    if are_splits && !matches!(options.splits, Splits::Compared(_)) {
        layout::refuse_strange_splits(root, found, options.splits != Splits::Auto)?;
    }
    if options.splits == Splits::Auto {
        if !are_splits {
            layout::refuse_one_deep_class(root, found)?;
            layout::refuse_splits_in_classes(root, found)?;
        }
        layout::pairs::refuse(tree, found)?;
        layout::refuse_same_folders(root, found)?;
        layout::refuse_copies(root, found)?;
        layout::containers::refuse(root, found)?;
        layout::refuse_letters(root, found)?;
    }
    // Options that choose files are an answer to this question; masks that `--with` packs are not listed.
    let is_open = options.guess && options.include.is_empty() && options.files.is_empty();
    if is_open && matches!(options.splits, Splits::Auto | Splits::Names(_)) {
        layout::known::refuse_masks(tree, found)?;
        // Groups are the files of a name, with a payload that is asked for.
        if !options.groups {
            layout::known::refuse_same_names(tree, found)?;
        }
    }
    Ok(())
}

/// Walks the folders `classes` of `split`.
fn walked(
    tree: Tree<'_>,
    (split, is_first): (Option<&str>, bool),
    classes: Vec<(Vec<u8>, Option<u32>)>,
    options: &Options,
    keep: &PathFilter,
    monitor: &dyn Monitor,
) -> Result<Outcome> {
    let path = tree.path(below(split));
    match tree.listed {
        Some((listed, _)) => {
            let mut outcome = listed.walk(below(split), classes, keep, &options.with);
            listed.rest(split, is_first, keep, &mut outcome);
            Ok(outcome)
        }
        None if !keep.follows() && split.is_some() && path.is_symlink() => {
            Err(Error::data(NOT_FOLLOWED).in_file(&path))
        }
        None => {
            let threads = listing_threads(&path, options.threads);
            walk::walk(tree.root, &open(&path)?, &path, classes, keep, &options.with, threads, monitor)
        }
    }
}

/// Lists images with labels: the class is the first folder of the path.
fn with_labels(
    tree: Tree<'_>,
    splits: Vec<Option<String>>,
    options: &Options,
    keep: &PathFilter,
    monitor: &dyn Monitor,
) -> Result<Vec<SourceListing>> {
    let root = tree.root;
    let levels = splits.iter().map(|split| level(tree, below(split.as_deref()), keep)).collect::<Result<Vec<_>>>()?;
    for (split, level) in splits.iter().zip(&levels) {
        if let (Some(split), true, 1..) = (split, level.folders.is_empty(), level.payloads()) {
            return Err(layout::no_classes(root, split, &root.join(split), level.payloads()));
        }
    }
    let has_companions = |name: &Vec<u8>| options.with.iter().any(|kind| kind.has_folder(name));
    let names = levels.iter().flat_map(|level| &level.folders).filter(|name| !has_companions(name));
    let names: BTreeSet<&Vec<u8>> = names.collect();
    if names.is_empty() {
        let in_names = labels_in_names(tree, &[], options)?.map_or_else(String::new, |help| format!("{help}; "));
        return Err(Error::usage("no class folders in here: an ImageFolder is SRC/<class>/<image>")
            .in_file(root)
            .help(format!("{in_names}--no-labels packs images from any folder, without classes")));
    }
    let classes: Arc<Vec<Box<[u8]>>> = Arc::new(names.iter().map(|name| name.as_slice().into()).collect());
    let mut found = Vec::new();
    for (number, (split, level)) in splits.into_iter().zip(levels).enumerate() {
        let (companions, folders): (Vec<_>, Vec<_>) = level.folders.into_iter().partition(has_companions);
        let tasks = folders.into_iter().filter_map(|name| {
            let class = classes.binary_search_by(|known| known[..].cmp(&name[..])).ok()?;
            Some((name, Some(class as u32)))
        });
        let split_of = (split.as_deref(), number == 0);
        let mut outcome = walked(tree, split_of, tasks.collect(), options, keep, monitor)?;
        if !companions.is_empty() {
            let folders = companions.iter().map(|name| (name.clone(), None)).collect();
            // An image there has no companion of its own.
            let all = PathFilter::new(&Options { on_missing: Some(OnMissing::Empty), ..options.clone() })?;
            let mut beside = walked(tree, (split_of.0, false), folders, options, &all, monitor)?;
            outcome.companions.append(&mut beside.companions);
            outcome.unpacked.append(&mut beside.unpacked);
            for (reason, count) in beside.ignored {
                *outcome.ignored.entry(reason).or_default() += count;
            }
            let strange = beside.samples.finish(Arc::default());
            // Only the packer asks; a comparison knows what was packed.
            if options.guess {
                refuse_strange_companions(&tree.path(below(split_of.0)), &strange)?;
            }
            let paths =
                (0..strange.len()).map(|number| names::join(&strange.folder(number).path, strange.name(number)));
            outcome.unpacked.extend(paths.map(|path| unpacked(path, None, Fate::Filtered, NO_IMAGE)));
        }
        for (reason, count) in level.ignored {
            *outcome.ignored.entry(reason).or_default() += count;
        }
        outcome.unpacked.extend(level.left_out);
        found.push(finish(split, &classes, outcome, keep));
    }
    Ok(found)
}

/// The reason for images in folders with the files of components.
const NO_IMAGE: &str = "belongs to no image by the pattern of --with";

/// Fails if folders with the files of components have other images.
fn refuse_strange_companions(root: &Path, strange: &Listing) -> Result<()> {
    if strange.is_empty() {
        return Ok(());
    }
    let first = names::join(&strange.folder(0).path, strange.name(0));
    let what = match strange.len() {
        1 => NO_IMAGE.to_owned(),
        more => format!("{NO_IMAGE}, nor do {} others", more - 1),
    };
    Err(Error::usage(what)
        .in_file(root.join(as_path(&first)))
        .help("--exclude leaves them out; without labels (--no-labels) they are samples"))
}

/// Lists images without labels, in any folders.
fn without_labels(
    tree: Tree<'_>,
    splits: Vec<Option<String>>,
    options: &Options,
    keep: &PathFilter,
    monitor: &dyn Monitor,
) -> Result<Vec<SourceListing>> {
    let list = |(number, split): (usize, Option<String>)| {
        let of_split = (split.as_deref(), number == 0);
        let outcome = walked(tree, of_split, vec![(Vec::new(), None)], options, keep, monitor)?;
        Ok(finish(split, &Arc::default(), outcome, keep))
    };
    splits.into_iter().enumerate().map(list).collect()
}

fn finish(
    split: Option<String>,
    classes: &Arc<Vec<Box<[u8]>>>,
    mut outcome: Outcome,
    keep: &PathFilter,
) -> SourceListing {
    outcome.unpacked.sort_unstable_by(order);
    let listing = Arc::new(outcome.samples.finish(Arc::clone(classes)));
    let noun = if keep.payloads().payload().is_none() { "image" } else { "sample" };
    let (mut notes, payload) = (lacking(&listing, noun), keep.payloads().payload().cloned());
    notes.extend(outcome.outside.note(noun));
    let files = keep.payloads().patterns().to_vec();
    let Outcome { unpacked, mut ignored, companions, .. } = outcome;
    for (reason, count) in companions.left_over(&listing.components().kinds, keep) {
        *ignored.entry(reason).or_default() += count;
    }
    SourceListing { split, listing, unpacked, ignored, notes, payload, files, ..SourceListing::default() }
}

fn open(path: &Path) -> Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt;
    walk::open_folder(rustix::fs::CWD, path.as_os_str().as_bytes())
        .map_err(|error| sys::io_error("cannot open folder", path, error.into()))
}

/// Reads the entries of one folder, without recursion.
fn level(tree: Tree<'_>, below: &[u8], keep: &PathFilter) -> Result<Level> {
    match tree.listed {
        Some((listed, _)) => Ok(listed_level(listed, below, keep)),
        None => level_of(&tree.path(below), keep),
    }
}

fn listed_level(listed: &ListedTree, below: &[u8], keep: &PathFilter) -> Level {
    let mut level = Level { folders: Vec::new(), ignored: BTreeMap::new(), left_out: Vec::new() };
    for (name, is_folder) in listed.names(below) {
        let reason = match keep.classify(name) {
            Name::Hidden => "hidden".to_owned(),
            Name::System => "system".to_owned(),
            _ if is_folder => {
                level.folders.push(name.to_vec());
                continue;
            }
            Name::Payload => format!("{}{OUTSIDE}", keep.payload()),
            Name::Other => names::other_reason(name),
        };
        *level.ignored.entry(reason).or_default() += 1;
    }
    level
}

fn level_of(path: &Path, keep: &PathFilter) -> Result<Level> {
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
                        // A broken entry counts as a class, to keep the labels of later classes. The walk reports it.
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

/// Split names in the order of [`SPLITS`] or as requested; `None` if the first-level folders are classes.
fn recognise(tree: Tree<'_>, top: &Level, options: &Options, keep: &PathFilter) -> Result<Option<Vec<String>>> {
    let root = tree.root;
    let is_there = |name: &str| top.folders.iter().any(|folder| folder == name.as_bytes());
    // Argument: a folder that is a split.
    let has_classes =
        |name: &[u8]| -> Result<bool> { Ok(options.no_labels || !level(tree, name, keep)?.folders.is_empty()) };
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
            let seen = likeness(tree, top, options, keep)?;
            let are_exact = known().count() == top.folders.len();
            let images_outside = options.no_labels && top.payloads() > 0;
            match (seen.parted.len(), seen.flat.len(), seen.others.len()) {
                (1.., 0, 0) if are_exact && !images_outside => Ok(Some(known().map(str::to_owned).collect())),
                (0, 0, _) => Ok(None),
                // A single class may be called `test`. Without labels, only several splits are ambiguous.
                (0, 1, 1..) if !matches!(Likeness::classify(seen.flat[0]), Likeness::Set(_)) => Ok(None),
                (1, ..) if options.no_labels => Ok(None),
                _ => {
                    let names = || sample_files::files_in(tree, root);
                    let in_names = (!options.no_labels).then(|| pattern_for(&names(), keep)).flatten();
                    Err(layout::are_they_splits(root, &seen, options.no_labels, in_names))
                }
            }
        }
    }
}

/// Sorts the first-level folders by the likeness of their names to split names.
fn likeness<'t>(tree: Tree<'_>, top: &'t Level, options: &Options, keep: &PathFilter) -> Result<layout::Seen<'t>> {
    let like: Vec<_> = top.folders.iter().map(|folder| (folder, Likeness::classify(folder))).collect();
    // One class name with a split word is chance. Two different split words, in a fifth of the folders, are not.
    let words: BTreeSet<_> = like.iter().filter_map(|(_, like)| like.word()).collect();
    let named = like.iter().filter(|(_, like)| like.word().is_some()).count();
    let with_parts = words.len() > 1 && named * 5 >= like.len();
    let mut seen = layout::Seen::default();
    for (folder, like) in like {
        if !(like.is_sure() || with_parts && like.word().is_some()) {
            seen.others.push(folder);
            continue;
        }
        let path = if options.no_labels { Some(folder.clone()) } else { with_classes(tree, folder, keep)? };
        match path {
            None => seen.flat.push(folder),
            Some(path) => {
                seen.parted.push(folder);
                seen.paths.push(path);
            }
        }
    }
    // A split whose only subfolder holds its images has no classes.
    if seen.paths.iter().any(|path| path.contains(&b'/')) {
        seen.paths.retain(|path| path.contains(&b'/'));
    }
    Ok(seen)
}

/// The folder that holds the classes of a split: `folder`, or the end of a chain of up to [`DEEPEST`] single subfolders
/// in it. Returns `None` if `folder` has no subfolders, or only one with its own name and no subfolders.
fn with_classes(tree: Tree<'_>, folder: &[u8], keep: &PathFilter) -> Result<Option<Vec<u8>>> {
    let mut at = folder.to_vec();
    let mut here = level(tree, &at, keep)?;
    if here.folders.is_empty() {
        return Ok(None);
    }
    // Some archives unpack into a folder of their own name.
    if here.folders.len() == 1
        && here.folders[0] == folder
        && level(tree, &names::join(folder, folder), keep)?.folders.is_empty()
    {
        return Ok(None);
    }
    for _ in 0..DEEPEST {
        let [only] = here.folders.as_slice() else { break };
        let below = names::join(&at, only);
        let inner = level(tree, &below, keep)?;
        if here.payloads() > 0 || inner.folders.is_empty() {
            break;
        }
        (at, here) = (below, inner);
    }
    Ok(Some(at))
}
