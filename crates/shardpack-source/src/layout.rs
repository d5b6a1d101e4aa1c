//! Detects ambiguous source trees, and builds the errors that list the options to resolve them.
//!
//! A split that is packed as a class gives wrong labels, and no later step would detect them. So `pack` refuses
//! ambiguous trees before it packs anything, and the user decides.

mod alike;
pub(super) mod containers;
pub(super) mod known;
pub(super) mod pairs;
mod split_names;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use shardpack_format::{Error, shell, size, splits, text};

use super::{SourceListing, names};
use crate::{Result, filter::below_bytes, ledger::Fate};

pub(super) use alike::{deeper_folders, refuse_copies, refuse_letters, refuse_same_folders, refuse_strange_splits};
pub(super) use split_names::Likeness;

/// Number of folder names to show.
const SHOWN: usize = 5;

/// The first-level folders by kind.
#[derive(Default)]
pub(super) struct Seen<'a> {
    /// Folders with split names and subfolders.
    pub parted: Vec<&'a Vec<u8>>,
    /// Folders with split names, without subfolders.
    pub flat: Vec<&'a Vec<u8>>,
    pub others: Vec<&'a Vec<u8>>,
    /// For each folder in `parted`, the folder with its classes: the folder itself, or its only subfolder.
    pub paths: Vec<Vec<u8>>,
}

fn shown(names: &[&Vec<u8>]) -> String {
    let few: Vec<_> = names.iter().take(SHOWN).map(|name| text::shown(name).to_string()).collect();
    match names.len() - few.len() {
        0 => few.join(", "),
        more => format!("{} and {more} more", few.join(", ")),
    }
}

/// Singular or plural, by the number of names.
fn by_count<'w>(names: &[&Vec<u8>], one: &'w str, several: &'w str) -> &'w str {
    if names.len() == 1 { one } else { several }
}

/// The names as the value of `--splits`.
fn option(names: &[&Vec<u8>]) -> String {
    shell::word(names::as_path(&names.iter().map(|name| name.as_slice()).collect::<Vec<_>>().join(&b',')))
}

/// A value of `--split`: a name and its source `path` in `root`.
fn part(root: &Path, name: &[u8], path: &[u8]) -> String {
    let of_name = [name, b"="].concat();
    let mut text = names::as_path(&of_name).as_os_str().to_owned();
    text.push(root.join(names::as_path(path)));
    shell::word(text)
}

/// A value of `--split` with a placeholder for a list.
fn with_list(name: &[u8]) -> String {
    shell::word(names::as_path(&[name, b"=LIST"].concat()))
}

/// Help text: the option that declares folders to be classes, for a source with these splits or without splits.
fn help_classes(splits: &[&str]) -> String {
    match splits.is_empty() {
        true => "--splits none packs all as classes".to_owned(),
        false => format!("--splits {} packs them as classes of these splits", splits.join(",")),
    }
}

/// The names of the splits of a source.
fn splits_of(found: &[SourceListing]) -> Vec<&str> {
    found.iter().filter_map(|one| one.split.as_deref()).collect()
}

/// Help text: the option that makes folders without classes splits.
fn help_flat(options: &str) -> String {
    format!("--no-labels{options} packs them as splits without labels")
}

/// The options beside `--no-labels` if names do not identify the splits.
fn flat_options(root: &Path, flat: &[&Vec<u8>], are_all: bool) -> String {
    let are_exact = flat.iter().all(|name| splits::KNOWN.iter().any(|known| known.as_bytes() == name.as_slice()));
    match are_all && are_exact {
        true => String::new(),
        false => format!(" {}", alike::split_options(root, flat.iter().copied())),
    }
}

/// The error for first-level folders with split names, with other folders beside them or without classes.
/// `in_names` is help about labels in the names of images.
pub(super) fn are_they_splits(root: &Path, seen: &Seen<'_>, no_labels: bool, in_names: Option<String>) -> Error {
    let Seen { parted, flat, others, paths } = seen;
    let splits: Vec<&Vec<u8>> = parted.iter().chain(flat).copied().collect();
    let (mut what, mut help) = (Vec::new(), Vec::new());
    match (parted.is_empty(), flat.is_empty()) {
        (true, _) => {
            what.push(format!(
                "{} {} without classes",
                shown(flat),
                by_count(flat, "looks like a split", "look like splits")
            ));
            let options = flat_options(root, flat, others.is_empty());
            // A pattern that fits; without one, names only mention the option.
            let is_pattern = |help: &String| options.is_empty() || help.starts_with("--label-pattern '");
            let after_options = |help: String| format!("{options} {help}").trim_start().to_owned();
            help.extend(in_names.filter(is_pattern).map(after_options));
            help.push(help_flat(&options));
        }
        (false, true) => {
            what.push(format!("{} {}", shown(parted), by_count(parted, "looks like a split", "look like splits")));
            help.push(alike::help_splits(root, paths.iter()));
        }
        (false, false) => {
            what.push(format!(
                "{} {} with class folders, {} {} none",
                shown(parted),
                by_count(parted, "looks like a split", "look like splits"),
                shown(flat),
                by_count(flat, "has", "have")
            ));
            let other = text::shown(flat[0]);
            let path = paths.first().unwrap_or(parted[0]);
            help.push(alike::help_splits(root, paths.iter()));
            help.push(format!(
                "--split {} --split {} takes the labels of {other} from a list, as docs/how-to/recipes.md shows it \
                 for ImageNet",
                part(root, parted[0], path),
                with_list(flat[0]),
            ));
        }
    }
    if !others.is_empty() {
        what.push(format!("{} {} not", shown(others), by_count(others, "does", "do")));
    }
    if no_labels {
        help = vec![alike::help_splits(root, splits.iter().copied())];
        help.push("--splits none packs all as one set".to_owned());
    } else {
        help.push(help_classes(&[]));
    }
    Error::usage(what.join("; ")).in_file(root).help(help.join("; "))
}

/// The error for a split that has images and no class folders.
pub(super) fn no_classes(root: &Path, split: &str, path: &Path, images: u64) -> Error {
    Error::usage(format!("split {split} has {} directly in it and no class folders", size::counted(images, "image")))
        .in_file(path)
        .help(format!(
            "--split {} takes its labels from a list (docs/how-to/recipes.md shows it for ImageNet), with --split {} for \
             the others; --splits without its name leaves it out; --no-labels packs all without labels",
            with_list(split.as_bytes()),
            part(root, b"NAME", b"NAME"),
        ))
}

/// Fails if some splits have no images at all, and others have.
///
/// # Errors
/// The error names the splits, and the option that packs the others.
pub(super) fn refuse_empty_splits(root: &Path, found: &[SourceListing]) -> Result<()> {
    // The plan has the reasons for files that were left out.
    let is_empty = |one: &&SourceListing| one.listing.is_empty() && one.unpacked.is_empty();
    let (empty, others): (Vec<&SourceListing>, Vec<&SourceListing>) = found.iter().partition(is_empty);
    let names = |of: &[&SourceListing]| of.iter().filter_map(|one| one.split.as_deref()).collect::<Vec<_>>().join(",");
    let (empty, others) = (names(&empty), names(&others));
    if empty.is_empty() || others.is_empty() {
        return Ok(());
    }
    let what = format!("no images in {} {}", if empty.contains(',') { "splits" } else { "split" }, empty);
    Err(Error::usage(what).in_file(root).help(format!("--splits {} packs the others", shell::word(others))))
}

/// Fails if all images have one class and all are in subfolders of the class folder. This happens if the source path is
/// one folder too high.
///
/// # Errors
/// The error names the class and the folder that may be the intended source.
pub(super) fn refuse_one_deep_class(root: &Path, found: &[SourceListing]) -> Result<()> {
    let (mut class, mut first) = (None, Vec::new());
    for one in found {
        let listed = one.listing.folders().iter().map(|folder| (folder.class, folder.path.to_vec()));
        // Left-out files would be samples too.
        let others = one.unpacked.iter().filter(|unpacked| unpacked.class.is_some());
        let others = others.map(|unpacked| (unpacked.class, parent(&unpacked.path).to_vec()));
        for (of, folder) in listed.chain(others) {
            if !folder.contains(&b'/') || class.is_some_and(|class| class != of) {
                return Ok(());
            }
            class = Some(of);
            if first.is_empty() || folder < first {
                first = folder;
            }
        }
    }
    let Some(name) = first.split(|byte| *byte == b'/').next().filter(|_| class.is_some()) else { return Ok(()) };
    let inside = root.join(names::as_path(name));
    Err(Error::usage(format!(
        "all images would be of one class, {}, and are in its subfolders, the first in {}",
        text::shown(name),
        text::shown(&first)
    ))
    .in_file(root)
    .help(format!(
        "give {} if its folders are classes or splits; --splits none packs all as this one class",
        shell::path(&inside)
    )))
}

/// Fails if classes contain folders with split names. Packed as classes, test images would be used for training.
///
/// # Errors
/// The error names the first such folders.
pub(super) fn refuse_splits_in_classes(root: &Path, found: &[SourceListing]) -> Result<()> {
    let (mut seen, mut all_are) = (BTreeMap::<Vec<u8>, BTreeSet<Vec<u8>>>::new(), true);
    for one in found {
        let listed = one.listing.folders().iter().map(|folder| folder.path.to_vec());
        let others = one.unpacked.iter().filter(|unpacked| unpacked.fate != Fate::Filtered);
        for folder in listed.chain(others.map(|unpacked| parent(&unpacked.path).to_vec())) {
            let mut parts = folder.split(|byte| *byte == b'/');
            let (class, inside) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            match Likeness::classify(inside).is_sure() {
                true => drop(seen.entry(class.to_vec()).or_default().insert(inside.to_vec())),
                false => all_are = false,
            }
        }
    }
    let names: BTreeSet<&Vec<u8>> = seen.values().flatten().collect();
    // A single such folder in one class may have another meaning.
    if names.len() < 2 || !(all_are || seen.values().any(|inside| inside.len() > 1)) {
        return Ok(());
    }
    let paths: Vec<_> =
        seen.iter().flat_map(|(class, inside)| inside.iter().map(|name| names::join(class, name))).collect();
    let (names, one) = (names.into_iter().collect::<Vec<_>>(), paths.iter().collect::<Vec<_>>());
    Err(Error::usage(format!("{} look like splits inside of classes: {}", shown(&names), shown(&one)))
        .in_file(root)
        .help(format!(
            "--splits none packs all as classes; --include {} packs one split; a list with a column split assigns \
             each image to its split, as docs/how-to/recipes.md shows",
            shell::word(names::as_path(&[b"*/", &below_bytes(names[0])[..]].concat()))
        )))
}

/// The error for a source with more images outside folders than inside.
/// `in_names` is help about labels in their names.
pub(super) fn images_outside(root: &Path, images: u64, packed: u64, in_names: Option<String>) -> Error {
    let what = match packed {
        0 => format!("{} directly in this folder, and none in its subfolders", size::counted(images, "image")),
        packed => format!(
            "{} directly in this folder, in no class, and {} in its subfolders",
            size::counted(images, "image"),
            size::counted(packed, "image")
        ),
    };
    Error::usage(what).in_file(root).help(format!(
        "{}--no-labels packs images from any folder, without classes; a list gives them classes",
        in_names.map_or_else(String::new, |help| format!("{help}; "))
    ))
}

fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}
