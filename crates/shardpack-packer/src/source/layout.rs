//! Trees that may be meant in more than one way: what is seen, and which options say how it is meant.
//!
//! A folder that is taken for a class and is a split gives a dataset of wrong labels, and nothing later would show it. So
//! what looks like both is a question to the person, before anything is packed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use shardpack_format::{Error, shell, size, splits::KNOWN, text};

use super::{Found, names};
use crate::{Result, ledger::Fate};

/// Folders that are shown by name.
const SHOWN: usize = 5;

/// The folders of the first level.
pub(super) struct Seen<'a> {
    /// Called like splits, with folders in them.
    pub parted: Vec<&'a Vec<u8>>,
    /// Called like splits, without folders in them.
    pub flat: Vec<&'a Vec<u8>>,
    pub others: Vec<&'a Vec<u8>>,
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

/// The value of `--split`: a name and its source, which is `name` in `root` unless another one is given.
fn part(root: &Path, name: &[u8]) -> String {
    let of_name = [names::as_path(name).as_os_str().as_encoded_bytes(), b"="].concat();
    let mut text = names::as_path(&of_name).as_os_str().to_owned();
    text.push(root.join(names::as_path(name)));
    shell::word(text)
}

/// The same with a list that is to be named.
fn with_list(name: &[u8]) -> String {
    shell::word(names::as_path(&[name, b"=LIST"].concat()))
}

fn help_alone(splits: &[&Vec<u8>]) -> String {
    format!("--splits {} takes these alone", option(splits))
}

/// Folders that look like splits, and more that does not.
pub(super) fn are_they_splits(root: &Path, seen: &Seen<'_>, no_labels: bool) -> Error {
    let Seen { parted, flat, others } = seen;
    let splits: Vec<&Vec<u8>> = parted.iter().chain(flat).copied().collect();
    let (mut what, mut help) = (Vec::new(), Vec::new());
    match (parted.is_empty(), flat.is_empty()) {
        (true, _) => {
            what.push(format!(
                "{} {} without classes",
                shown(flat),
                by_count(flat, "looks like a split", "look like splits")
            ));
            help.push("--no-labels packs them as splits without labels".to_owned());
        }
        (false, true) => {
            what.push(format!("{} {}", shown(parted), by_count(parted, "looks like a split", "look like splits")));
            help.push(help_alone(parted));
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
            help.push(help_alone(parted));
            help.push(format!(
                "--split {} --split {} takes the labels of {other} from a list, as docs/recipes.md has it for ImageNet",
                part(root, parted[0]),
                with_list(flat[0]),
            ));
        }
    }
    if !others.is_empty() {
        what.push(format!("{} {} not", shown(others), by_count(others, "does", "do")));
    }
    if no_labels {
        help = vec![help_alone(&splits)];
        help.push("--splits none takes all as one set".to_owned());
    } else {
        help.push("--splits none says that all are classes".to_owned());
    }
    Error::usage(what.join("; ")).in_file(root).help(help.join("; "))
}

/// A split with images right in it and no class folders.
pub(super) fn no_classes(root: &Path, split: &str, path: &Path, images: u64) -> Error {
    Error::usage(format!("split {split} has {} right in it and no class folders", size::counted(images, "image")))
        .in_file(path)
        .help(format!(
            "--split {} takes its labels from a list (docs/recipes.md has it for ImageNet), beside --split {} for the \
             others; without it in --splits it is left out; --no-labels packs all without labels",
            with_list(split.as_bytes()),
            part(root, b"NAME"),
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
            match is_called_like_a_split(inside) {
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
             column split gives each its own, as docs/recipes.md has it",
            shell::word(names::as_path(&[b"*/", names[0].as_slice(), b"/**"].concat()))
        )))
}

/// Whether a folder has a name of a split, in any case.
pub(super) fn is_called_like_a_split(name: &[u8]) -> bool {
    KNOWN.iter().any(|split| split.as_bytes().eq_ignore_ascii_case(name))
}

fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}
