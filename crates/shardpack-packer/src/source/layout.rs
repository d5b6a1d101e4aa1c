//! Trees that may be meant in more than one way: what is seen, and which options say how it is meant.
//!
//! A folder that is taken for a class and is a split gives a dataset of wrong labels, and nothing later would show it. So
//! what looks like both is a question to the person, before anything is packed.

mod alike;
pub(super) mod containers;
pub(super) mod pairs;
mod split_names;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use shardpack_format::{Error, shell, size, splits, text};

use super::{Found, names};
use crate::{Result, ledger::Fate};

pub(super) use alike::{deeper_folders, refuse_copies, refuse_letters, refuse_same_folders, refuse_strange_splits};
pub(super) use split_names::Likeness;

/// Folders that are shown by name.
const SHOWN: usize = 5;

/// The folders of the first level.
#[derive(Default)]
pub(super) struct Seen<'a> {
    /// Called like splits, with folders in them.
    pub parted: Vec<&'a Vec<u8>>,
    /// Called like splits, without folders in them.
    pub flat: Vec<&'a Vec<u8>>,
    pub others: Vec<&'a Vec<u8>>,
    /// Where the classes of the parted lie: in them, or in the one folder that is in them.
    pub paths: Vec<Vec<u8>>,
}

fn shown(names: &[&Vec<u8>]) -> String {
    let few: Vec<_> = names.iter().take(SHOWN).map(|name| text::shown(name).to_string()).collect();
    match names.len() - few.len() {
        0 => few.join(", "),
        more => format!("{} and {more} more", few.join(", ")),
    }
}

/// One of two words, by how many there are.
fn by_count<'w>(names: &[&Vec<u8>], one: &'w str, several: &'w str) -> &'w str {
    if names.len() == 1 { one } else { several }
}

/// The names as `--splits` takes them.
fn option(names: &[&Vec<u8>]) -> String {
    shell::word(names::as_path(&names.iter().map(|name| name.as_slice()).collect::<Vec<_>>().join(&b',')))
}

/// The value of `--split`: a name and its source, which is at `path` in `root`.
fn part(root: &Path, name: &[u8], path: &[u8]) -> String {
    let of_name = [name, b"="].concat();
    let mut text = names::as_path(&of_name).as_os_str().to_owned();
    text.push(root.join(names::as_path(path)));
    shell::word(text)
}

/// The same with a list that is to be named.
fn with_list(name: &[u8]) -> String {
    shell::word(names::as_path(&[name, b"=LIST"].concat()))
}

/// What says that folders are classes all the same: those of these splits, or of a source without splits.
fn help_classes(splits: &[&str]) -> String {
    match splits.is_empty() {
        true => "--splits none says that all are classes".to_owned(),
        false => format!("--splits {} says that they are classes of these splits", splits.join(",")),
    }
}

/// The names of the splits of a source.
fn splits_of(found: &[Found]) -> Vec<&str> {
    found.iter().filter_map(|one| one.split.as_deref()).collect()
}

/// What takes folders without classes for splits.
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

/// Folders that look like splits, and more that does not.
pub(super) fn are_they_splits(root: &Path, seen: &Seen<'_>, no_labels: bool) -> Error {
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
            help.push(help_flat(&flat_options(root, flat, others.is_empty())));
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
                "--split {} --split {} takes the labels of {other} from a list, as docs/how-to/recipes.md has it for ImageNet",
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
        help.push("--splits none takes all as one set".to_owned());
    } else {
        help.push(help_classes(&[]));
    }
    Error::usage(what.join("; ")).in_file(root).help(help.join("; "))
}

/// A split with images right in it and no class folders.
pub(super) fn no_classes(root: &Path, split: &str, path: &Path, images: u64) -> Error {
    Error::usage(format!("split {split} has {} right in it and no class folders", size::counted(images, "image")))
        .in_file(path)
        .help(format!(
            "--split {} takes its labels from a list (docs/how-to/recipes.md has it for ImageNet), beside --split {} for the \
             others; without it in --splits it is left out; --no-labels packs all without labels",
            with_list(split.as_bytes()),
            part(root, b"NAME", b"NAME"),
        ))
}

/// Fails where all images are of one class and none lies right in its folder: that is how a source looks that was given one
/// folder too high.
///
/// # Errors
/// Names the class, and the folder that may have been meant.
pub(super) fn refuse_one_deep_class(root: &Path, found: &[Found]) -> Result<()> {
    let (mut class, mut first) = (None, Vec::new());
    for one in found {
        let listed = one.listing.folders().iter().map(|folder| (folder.class, folder.path.to_vec()));
        // What is left out would have been a sample too.
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
        "all images would be of one class, {}, and lie in folders of it, the first in {}",
        text::shown(name),
        text::shown(&first)
    ))
    .in_file(root)
    .help(format!(
        "give {} where its folders are classes or splits; --splits none says that this is the one class",
        shell::path(&inside)
    )))
}

/// Fails where classes hold folders that are called like splits: packed as classes, what is to be tested would be trained on.
///
/// # Errors
/// Names the first such folders.
pub(super) fn refuse_splits_in_classes(root: &Path, found: &[Found]) -> Result<()> {
    let (mut seen, mut all_are) = (BTreeMap::<Vec<u8>, BTreeSet<Vec<u8>>>::new(), true);
    for one in found {
        let listed = one.listing.folders().iter().map(|folder| folder.path.to_vec());
        let others = one.unpacked.iter().filter(|unpacked| unpacked.fate != Fate::Filtered);
        for folder in listed.chain(others.map(|unpacked| parent(&unpacked.path).to_vec())) {
            let mut parts = folder.split(|byte| *byte == b'/');
            let (class, inside) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            match Likeness::of(inside).is_sure() {
                true => drop(seen.entry(class.to_vec()).or_default().insert(inside.to_vec())),
                false => all_are = false,
            }
        }
    }
    let names: BTreeSet<&Vec<u8>> = seen.values().flatten().collect();
    // One class may have one such folder for reasons of its own.
    if names.len() < 2 || !(all_are || seen.values().any(|inside| inside.len() > 1)) {
        return Ok(());
    }
    let paths: Vec<_> =
        seen.iter().flat_map(|(class, inside)| inside.iter().map(|name| names::join(class, name))).collect();
    let (names, one) = (names.into_iter().collect::<Vec<_>>(), paths.iter().collect::<Vec<_>>());
    Err(Error::usage(format!("{} look like splits inside of classes: {}", shown(&names), shown(&one)))
        .in_file(root)
        .help(format!(
            "--splits none packs them together, as classes; --include {} takes one of them alone; a list with a \
             column split gives each its own, as docs/how-to/recipes.md has it",
            shell::word(names::as_path(&[b"*/", names[0].as_slice(), b"/**"].concat()))
        )))
}

/// Images right in a source whose folders have none.
pub(super) fn images_outside(root: &Path, images: u64, packed: u64) -> Error {
    let what = match packed {
        0 => format!("{} right in here, and none in its folders", size::counted(images, "image")),
        packed => format!(
            "{} right in here, in no class, and {} in its folders",
            size::counted(images, "image"),
            size::counted(packed, "image")
        ),
    };
    Error::usage(what)
        .in_file(root)
        .help("--no-labels packs images that have no classes, wherever they lie; a list says what they are")
}

fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}
