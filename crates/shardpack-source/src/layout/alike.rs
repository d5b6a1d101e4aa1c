//! Detects folder trees whose first level is not the classes: folders with equal subfolders, nested copies of the tree,
//! folders of first letters, and splits with disjoint classes.
//!
//! If all first-level folders have the same subfolders, the subfolders are the classes and the first level is the
//! origin. If a split shares no class with any other split, its folders are not classes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use shardpack_format::{Error, shell, splits};

use super::{
    super::{SourceListing, names::as_path},
    help_classes, option, part, shown, splits_of, with_list,
};
use crate::{Result, filter::below_bytes};

/// Subfolders by the path of their parent folder.
type Inside<'f> = BTreeMap<Vec<u8>, BTreeSet<&'f [u8]>>;

/// The subfolders in each class. A subfolder without siblings or images beside it is entered.
fn inside(found: &SourceListing) -> Inside<'_> {
    let mut classes = BTreeMap::<&[u8], Vec<&[u8]>>::new();
    for folder in found.listing.folders() {
        let (class, below) = cut(&folder.path);
        classes.entry(class).or_default().push(below);
    }
    classes.into_iter().map(|(class, below)| deepest(class, below)).collect()
}

/// The first folder at or below `class` with images or with several subfolders, and the names in it. Images count as
/// one empty name.
fn deepest<'f>(class: &[u8], mut below: Vec<&'f [u8]>) -> (Vec<u8>, BTreeSet<&'f [u8]>) {
    let mut path = class.to_vec();
    loop {
        let firsts: BTreeSet<&[u8]> = below.iter().map(|below| cut(below).0).collect();
        let only = firsts.first().copied().filter(|first| firsts.len() == 1 && !first.is_empty());
        match only {
            Some(only) if below.iter().all(|below| !cut(below).1.is_empty()) => {
                path = [&path, b"/".as_slice(), only].concat();
                below = below.iter().map(|below| cut(below).1).collect();
            }
            _ => return (path, firsts),
        }
    }
}

/// Splits a path into its first part and the rest.
fn cut(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (path, b""),
    }
}

/// Fails if the first-level folders have the same subfolders and no images beside the subfolders.
///
/// # Errors
/// The error names the folders and the subfolders.
pub(crate) fn refuse_same_folders(root: &Path, found: &[SourceListing]) -> Result<()> {
    for one in found {
        let all = inside(one);
        let mut sets = all.values();
        let Some(first) = sets.next().filter(|first| first.len() > 1 && all.len() > 1) else { continue };
        // Sets match if they share 90 %, or if both are subsets of the largest. Numbered folders, such as Omniglot's
        // characters, share their first numbers whatever their count, and one of a few folders may be missing.
        let most = all.values().max_by_key(|set| set.len()).unwrap_or(first);
        let is_same = |set: &BTreeSet<&[u8]>| {
            let shared = set.intersection(first).count();
            shared > 1 && (shared * 10 >= set.union(first).count() * 9 || set.is_subset(most) && first.is_subset(most))
        };
        if first.contains(b"".as_slice()) || !sets.all(is_same) {
            continue;
        }
        let tops: Vec<Vec<u8>> = all.keys().map(|path| cut(path).0.to_vec()).collect();
        let shared: Vec<Vec<u8>> = first.iter().map(|name| name.to_vec()).collect();
        let folder = one.split.as_ref().map_or_else(|| root.to_path_buf(), |split| root.join(split));
        let help = match one.split.is_some() {
            true => help_classes(&splits_of(found)),
            false => format!("{}; {}", help_splits(root, all.keys()), help_classes(&splits_of(found))),
        };
        return Err(Error::usage(format!(
            "{} have the same folders in them: {}",
            shown(&tops.iter().collect::<Vec<_>>()),
            shown(&shared.iter().collect::<Vec<_>>())
        ))
        .in_file(folder)
        .help(help));
    }
    Ok(())
}

/// Fails if a first-level folder has subfolders with the names of the first-level folders: a copy of the tree, unpacked
/// into itself.
///
/// # Errors
/// The error names the folder and the subfolders.
pub(crate) fn refuse_copies(root: &Path, found: &[SourceListing]) -> Result<()> {
    for one in found {
        let all = inside(one);
        let tops: BTreeSet<&[u8]> = all.keys().map(|path| cut(path).0).collect();
        let is_copy = |(path, names): &(&Vec<u8>, &BTreeSet<&[u8]>)| {
            let own = cut(path).0;
            let shared = names.iter().filter(|name| **name != own && tops.contains(**name)).count();
            shared > 1 && shared * 10 >= names.len() * 9
        };
        let Some((path, names)) = all.iter().find(is_copy) else { continue };
        let (copy, names) = (cut(path).0.to_vec(), names.iter().map(|name| name.to_vec()).collect::<Vec<_>>());
        let pattern = below_bytes(&copy);
        return Err(Error::usage(format!(
            "{} has subfolders with the names of the folders beside it: {}",
            shown(&[&copy]),
            shown(&names.iter().collect::<Vec<_>>())
        ))
        .in_file(one.split.as_ref().map_or_else(|| root.to_path_buf(), |split| root.join(split)))
        .help(format!(
            "--exclude {} leaves its images out; {}",
            shell::word(as_path(&pattern)),
            help_classes(&splits_of(found))
        )));
    }
    Ok(())
}

/// A note, if every class has several subfolders and no images outside them.
pub(crate) fn deeper_folders(found: &[SourceListing]) -> Option<String> {
    let all: Vec<_> = found.iter().flat_map(inside).collect();
    let below: usize = all.iter().map(|(_, names)| names.len()).sum();
    let are_deeper = all.len() > 1 && all.iter().all(|(_, names)| names.len() > 1 && !names.contains(b"".as_slice()));
    are_deeper.then(|| format!("classes are the first-level folders; the {below} folders in them are not classes"))
}

/// Fails if the first-level folders are the first letters of the class folders in them, as in Places.
///
/// # Errors
/// The error names some letters and some classes.
pub(crate) fn refuse_letters(root: &Path, found: &[SourceListing]) -> Result<()> {
    let is_letter = |class: &[u8], below: &[u8]| {
        class.len() == 1 && below.first().is_some_and(|first| class[0].eq_ignore_ascii_case(first))
    };
    for one in found {
        let folders: Vec<_> = one.listing.folders().iter().map(|folder| cut(&folder.path)).collect();
        let letters: BTreeSet<&[u8]> = folders.iter().map(|(class, _)| *class).collect();
        if letters.len() > 1 && folders.iter().all(|(class, below)| is_letter(class, below)) {
            let letters: Vec<_> = letters.iter().map(|letter| letter.to_vec()).collect();
            let classes: BTreeSet<_> = folders.iter().map(|(_, below)| cut(below).0.to_vec()).collect();
            return Err(Error::usage(format!(
                "{} are first letters of the folders in them: {}",
                shown(&letters.iter().collect::<Vec<_>>()),
                shown(&classes.iter().collect::<Vec<_>>())
            ))
            .in_file(root)
            .help(format!("a list of paths and labels gives the classes; {}", help_classes(&splits_of(found)))));
        }
    }
    Ok(())
}

/// Help text: the options that make `folders` splits, if the classes are right in them.
pub(super) fn help_splits<'p>(root: &Path, folders: impl Iterator<Item = &'p Vec<u8>> + Clone) -> String {
    format!("{} packs only these", split_options(root, folders))
}

/// `--splits NAMES`; or `--split NAME=FOLDER` for each folder, if a path is nested or not a valid split name.
pub(super) fn split_options<'p>(root: &Path, folders: impl Iterator<Item = &'p Vec<u8>> + Clone) -> String {
    let are_fit =
        folders.clone().all(|path| std::str::from_utf8(path).is_ok_and(|name| splits::check_name(name).is_ok()));
    let one = |path: &Vec<u8>| format!("--split {}", part(root, split_name(path).as_bytes(), path));
    match are_fit {
        true => format!("--splits {}", option(&folders.collect::<Vec<_>>())),
        false => folders.map(one).collect::<Vec<_>>().join(" "),
    }
}

/// A valid split name from the first part of a path.
fn split_name(path: &[u8]) -> String {
    let fit = |byte: &u8| if byte.is_ascii_alphanumeric() || *byte == b'-' { char::from(*byte) } else { '_' };
    cut(path).0.iter().take(100).map(fit).collect()
}

fn help_deep(root: &Path, folders: &[Vec<u8>]) -> String {
    format!("{} takes their subfolders as classes", split_options(root, folders.iter()))
}

/// Fails if a split has classes and shares none with the largest split: its folders are not classes.
///
/// # Errors
/// The error names both splits and a class from each.
pub(crate) fn refuse_strange_splits(root: &Path, found: &[SourceListing], are_named: bool) -> Result<()> {
    let used: Vec<BTreeSet<u32>> =
        found.iter().map(|one| one.listing.folders().iter().filter_map(|folder| folder.class).collect()).collect();
    if used.iter().filter(|used| !used.is_empty()).count() < 2 {
        return Ok(());
    }
    // The splits are one folder too high: the classes are the subfolders.
    let deep: Vec<Vec<u8>> = found.iter().filter_map(deep_class).collect();
    if !are_named && deep.len() == found.len() && used.iter().all(|one| *one == used[0]) {
        let class = cut(&deep[0]).1.to_vec();
        let what = format!("all images of each split would be of one class, {}", shown(&[&class]));
        let help = help_deep(root, &deep);
        return Err(Error::usage(what).in_file(root).help(help));
    }
    let most = used.iter().map(BTreeSet::len).max().unwrap_or_default();
    let other = used.iter().position(|used| used.len() == most).unwrap_or_default();
    // Splits with one class each give no evidence, unless every split has all its images in subfolders of that class.
    let are_told = most > 1 || deep.len() == found.len();
    // In few-shot sets the splits have disjoint classes on purpose, so splits named by the user are accepted.
    let is_strange = |at: &usize| {
        let own = &used[*at];
        *at != other && are_told && !own.is_empty() && own.is_disjoint(&used[other]) && (!are_named || own.len() == 1)
    };
    let all: Vec<usize> = (0..found.len()).filter(is_strange).collect();
    let Some(strange) = all.first().copied() else { return Ok(()) };
    let split = |at: usize| found[at].split.clone().unwrap_or_default();
    let class = |at: usize| {
        let name = used[at].first().and_then(|class| found[at].listing.classes.get(*class as usize));
        String::from_utf8_lossy(name.map_or(&[][..], |name| name)).into_owned()
    };
    let help = if deep.len() == found.len() {
        help_deep(root, &deep)
    } else {
        let alone: Vec<_> = (0..found.len()).filter(|at| !all.contains(at)).map(split).collect();
        format!(
            "--splits {} leaves it out; --split {} takes its labels from a list (docs/how-to/recipes.md shows it for \
             ImageNet), with --split {} for the others; --no-labels packs all without labels",
            alone.join(","),
            with_list(split(strange).as_bytes()),
            part(root, b"NAME", b"NAME"),
        )
    };
    let what = format!(
        "split {} shares no class with split {}: {:?} there, {:?} here",
        split(strange),
        split(other),
        class(other),
        class(strange)
    );
    Err(Error::usage(what).in_file(root).help(help))
}

/// The folder of a split's only class, if all its images are in subfolders.
fn deep_class(found: &SourceListing) -> Option<Vec<u8>> {
    let inside = inside(found);
    let is_deep = |folders: &BTreeSet<&[u8]>| inside.len() == 1 && !folders.contains(b"".as_slice());
    let (path, _) = inside.first_key_value().filter(|(_, folders)| is_deep(folders))?;
    Some([found.split.as_deref()?.as_bytes(), b"/", path].concat())
}
