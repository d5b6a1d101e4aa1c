//! Class names of objects: from the file that describes a YOLO dataset, as `data.yaml`, `classes.txt` or `obj.names` in the source.
//!
//! Holds at all times: names come from one description, or from several that agree. Names that cannot be read, or that differ, are left out
//! with a note.

mod yolo_names;

use std::{collections::BTreeSet, path::Path};

use shardpack_format::{
    Error, ErrorKind, Result,
    component::{Component, ObjectArray},
    formats::ComponentClasses,
    regular, text,
};

use super::{api::SourceListing, options::Options, sample_files, tree::Tree};
use crate::sys;

/// Descriptions by name; other YAML files are read only if there is none of these.
const DESCRIPTIONS: [&str; 4] = ["data.yaml", "data.yml", "dataset.yaml", "dataset.yml"];
/// A file with one name in each line.
const LINES: &str = "classes.txt";
/// The end of the name of such a file of darknet: `obj.names`.
const DARKNET: &str = ".names";
/// Files that are requested if the source cannot be listed.
pub(super) const KNOWN: [&str; 5] = [DESCRIPTIONS[0], DESCRIPTIONS[1], DESCRIPTIONS[2], DESCRIPTIONS[3], LINES];
/// Most other YAML files that are read.
const MAX_OTHERS: usize = 16;
/// Longest description in bytes.
pub(super) const MAX_BYTES: u64 = 4 << 20;

/// Reads a file of the source; `None` if there is none.
pub(super) type Read<'r> = &'r dyn Fn(&str) -> Result<Option<Vec<u8>>>;

/// Sets the class names of the components of class numbers among `options.with`. `files` are the files right in the source.
///
/// # Errors
/// If the machine cannot read a file.
pub(super) fn take(found: &mut [SourceListing], options: &Options, files: &[String], read: Read<'_>) -> Result<()> {
    let is_described =
        |kind: &&Component| is_labels(kind) && kind.conversion().is_some_and(|one| !one.file.lists_classes());
    let kinds: Vec<&Component> = options.with.iter().filter(is_described).collect();
    if kinds.is_empty() || found.is_empty() {
        return Ok(());
    }
    let names = match described(found, &kinds, files, read)? {
        Ok(names) => names,
        Err(why) => {
            let columns: Vec<_> = kinds.iter().filter(|kind| has_numbers(kind)).map(|kind| kind.column()).collect();
            if columns.is_empty() {
                return Ok(());
            }
            found[0].notes.push(format!("{} has no class names: {why}", columns.join(", ")));
            return Ok(());
        }
    };
    for one in found {
        one.component_classes.extend(kinds.iter().map(|kind| (kind.name().to_owned(), names.clone())));
    }
    Ok(())
}

/// As [`take`], for a source in a folder of this machine.
///
/// # Errors
/// As [`take`].
pub(super) fn take_in(root: &Path, found: &mut [SourceListing], options: &Options) -> Result<()> {
    if !options.with.iter().any(is_labels) {
        return Ok(());
    }
    let read = |name: &str| {
        let path = root.join(name);
        if options.no_follow && path.is_symlink() {
            return Err(Error::data("a symbolic link, which --no-follow does not follow").in_file(name));
        }
        match regular::read_at_most(&path, MAX_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) if sys::is_of_machine(&error) => Err(sys::io_error("cannot read", &path, error)),
            Err(error) => Err(Error::data(format!("cannot be read: {error}")).in_file(name)),
        }
    };
    let files = sample_files::entries(Tree { root, listed: None }, root).into_iter();
    let files = files.filter_map(|(name, is_folder)| String::from_utf8(name).ok().filter(|_| !is_folder));
    take(found, options, &files.collect::<Vec<_>>(), &read)
}

/// Whether `kind` is made of the class numbers of objects.
pub(super) fn is_labels(kind: &Component) -> bool {
    kind.conversion().is_some_and(|one| one.array == ObjectArray::Labels)
}

/// Whether its label files have numbers of classes; others have names.
fn has_numbers(kind: &Component) -> bool {
    kind.conversion().is_some_and(|one| !one.file.has_names())
}

/// The files that may describe a source of these files, in the order of their names.
fn candidates(files: &[String]) -> Result<BTreeSet<&str>, String> {
    let of = |wanted: &dyn Fn(&str) -> bool| files.iter().map(String::as_str).filter(|name| wanted(name)).collect();
    let known: BTreeSet<&str> = of(&|name| DESCRIPTIONS.contains(&name));
    if !known.is_empty() {
        return Ok(known);
    }
    let is_yaml = |name: &str| {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        !name.starts_with('.') && extension.is_some_and(|extension| extension == "yaml" || extension == "yml")
    };
    let others: BTreeSet<&str> = of(&is_yaml);
    match others.len() > MAX_OTHERS {
        true => Err(format!("the source has no data.yaml, and {} other YAML files", others.len())),
        false => Ok(others),
    }
}

/// The lists of names among `files`: `classes.txt`, and the only one that is called as darknet does.
fn lists_of_names(files: &[String]) -> impl Iterator<Item = &str> {
    let of_darknet: Vec<&str> = files.iter().map(String::as_str).filter(|name| name.ends_with(DARKNET)).collect();
    let only = of_darknet.first().filter(|_| of_darknet.len() == 1).copied();
    files.iter().map(String::as_str).filter(|name| *name == LINES).chain(only)
}

/// Whether a file of this name has one name in each line.
fn is_list(file: &str) -> bool {
    file.rsplit('/').next() == Some(LINES) || file.ends_with(DARKNET)
}

/// The names that files right in the source give, or those in the folders of the label files; or the reason why there are none.
fn described(
    found: &[SourceListing],
    kinds: &[&Component],
    files: &[String],
    read: Read<'_>,
) -> Result<Result<Vec<String>, String>> {
    let descriptions: Vec<String> = match candidates(files) {
        Ok(candidates) => candidates.into_iter().map(str::to_owned).collect(),
        Err(why) => return Ok(Err(why)),
    };
    // Other label files have names of their own.
    let is_wanted = |name: &&str| *name == LINES || kinds.iter().all(|kind| has_numbers(kind));
    let lists = lists_of_names(files).filter(is_wanted).map(|name| vec![name.to_owned()]);
    for group in std::iter::once(descriptions).chain(lists).chain([beside_labels(found, kinds)]) {
        match agreed(&group, read)? {
            Ok(None) => {}
            Ok(Some(names)) => return Ok(Ok(names)),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Err("no data.yaml in the source names them, and no classes.txt".to_owned()))
}

/// Lists of names in the folders of the label files, as LabelImg writes them.
fn beside_labels(found: &[SourceListing], kinds: &[&Component]) -> Vec<String> {
    let mut files = BTreeSet::new();
    for one in found.iter().filter(|one| !one.listing.is_empty()) {
        let (folder, image) = (&one.listing.folder(0).path, one.listing.name(0));
        for kind in kinds.iter().filter(|kind| has_numbers(kind) && kind.extra_root().is_none()) {
            let file = kind.path_of(folder, image).and_then(|path| String::from_utf8(path).ok()).unwrap_or_default();
            let folder = file.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
            files.insert(format!("{}{folder}{LINES}", one.prefix()));
        }
    }
    // Without a folder, it is right in the source.
    files.into_iter().filter(|file| file != LINES).collect()
}

/// The names that `files` have in common, or the reason why there are none; `None` if no file has names.
fn agreed(files: &[String], read: Read<'_>) -> Result<Result<Option<Vec<String>>, String>> {
    let mut known: Option<(&str, Vec<String>)> = None;
    for name in files {
        let bytes = match read(name) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => continue,
            Err(error) if error.kind() == ErrorKind::Data => return Ok(Err(error.to_string())),
            Err(error) => return Err(error),
        };
        let names = match names_in(name, &bytes) {
            Ok(Some(names)) => names,
            Ok(None) => continue,
            Err(why) => return Ok(Err(format!("{}: {why}", text::shown(name.as_bytes())))),
        };
        match &known {
            Some((other, same)) if *same != names => {
                let [name, other] = [name, *other].map(|name| text::shown(name.as_bytes()).to_string());
                return Ok(Err(format!("{other} and {name} have different names")));
            }
            Some(_) => {}
            None => known = Some((name, names)),
        }
    }
    Ok(Ok(known.map(|(_, names)| names)))
}

fn names_in(file: &str, bytes: &[u8]) -> Result<Option<Vec<String>>, String> {
    let content = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    if !is_list(file) {
        return yolo_names::names(content);
    }
    let content = content.strip_prefix('\u{feff}').unwrap_or(content).trim_end();
    let names: Vec<String> = content.lines().map(|line| line.trim().to_owned()).collect();
    match names.iter().position(String::is_empty) {
        // The number of a line is the number of its class.
        Some(line) => Err(format!("line {} is empty", line + 1)),
        None => Ok(Some(names).filter(|names| !names.is_empty())),
    }
}

/// A source of several that are packed as one: its name for messages, its components, and their class names.
pub(super) type Part<'p> = (&'p str, &'p [Component], &'p ComponentClasses);

/// A split as a part.
fn part(found: &SourceListing) -> Part<'_> {
    let split = found.split.as_deref().unwrap_or_default();
    (split, &found.listing.components().kinds, &found.component_classes)
}

/// Gives all splits the class names that they have in common.
///
/// # Errors
/// As [`join`].
pub(super) fn join_splits(found: &mut [SourceListing]) -> Result<()> {
    let (classes, notes) = join(&found.iter().map(part).collect::<Vec<_>>())?;
    found.iter_mut().for_each(|one| one.component_classes.clone_from(&classes));
    if let Some(first) = found.first_mut() {
        first.notes.extend(notes);
    }
    Ok(())
}

/// The class names that `parts` have in common, and notes on names that are left out.
///
/// # Errors
/// If two parts have different names for a component: a class number would have two meanings.
pub(super) fn join(parts: &[Part<'_>]) -> Result<(ComponentClasses, Vec<String>)> {
    let (mut joined, mut notes) = (ComponentClasses::new(), Vec::new());
    let components: BTreeSet<&String> = parts.iter().flat_map(|(_, _, classes)| classes.keys()).collect();
    for component in components {
        let of_part = |(who, kinds, classes): &Part<'_>| {
            kinds
                .iter()
                .any(|kind| kind.name() == component)
                .then(|| (who.to_string(), classes.get(component).cloned()))
        };
        let all: Vec<(String, Option<Vec<String>>)> = parts.iter().filter_map(of_part).collect();
        let mut named = all.iter().filter_map(|(who, names)| Some((who, names.as_ref()?)));
        let Some((first, names)) = named.next() else { continue };
        if let Some((other, _)) = named.find(|(_, others)| *others != names) {
            return Err(Error::usage(format!(
                "the class names of {component} differ: those of {first} and of {other}"
            ))
            .help("pack them as datasets of their own, or give both the same names"));
        }
        match all.iter().find(|(_, names)| names.is_none()) {
            Some((who, _)) => {
                notes.push(format!("{component} has no class names: {first} has them, and {who} has none"))
            }
            None => drop(joined.insert(component.clone(), names.clone())),
        }
    }
    Ok((joined, notes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let contents: BTreeMap<_, _> = files.iter().copied().collect();
        let names: Vec<String> = contents.keys().map(|name| (*name).to_owned()).collect();
        described(&[], &[], &names, &|name| Ok(contents.get(name).map(|content| content.as_bytes().to_vec()))).unwrap()
    }

    #[test]
    fn names_come_from_descriptions_that_agree() {
        assert_eq!(of(&[("data.yaml", "names: [a]"), ("z.yaml", "names: [b]")]).unwrap(), ["a"]);
        assert_eq!(of(&[("coco8.YML", "names: [a]"), ("hyp.yaml", "lr: 1")]).unwrap(), ["a"]);
        assert_eq!(of(&[("classes.txt", "a\r\nb c\n\n")]).unwrap(), ["a", "b c"]);
        assert_eq!(of(&[("classes.txt", "x"), ("data.yaml", "names: [a]")]).unwrap(), ["a"]);
        for (files, why) in [
            (&[("x.txt", "a")][..], "no data.yaml"),
            (&[("data.yaml", "nc: 3")], "no data.yaml"),
            (&[("a.yaml", "names: [a]"), ("b.yaml", "names: [b]")], "a.yaml and b.yaml have different names"),
            (&[("data.yaml", "names: x"), ("classes.txt", "a")], "data.yaml: names is x"),
            (&[("classes.txt", "a\n\nb")], "classes.txt: line 2 is empty"),
            (&[("classes.txt", "")], "no data.yaml"),
        ] {
            let error = of(files).unwrap_err();
            assert!(error.contains(why), "{files:?}: {error}");
        }
    }

    #[test]
    fn parts_share_names_or_have_none() {
        let kinds = [Component::field("box_labels.npy").unwrap()];
        let classes = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            ComponentClasses::from([("box_labels.npy".to_owned(), names)])
        };
        let (one, other, none) = (classes(&["a"]), classes(&["b"]), ComponentClasses::new());
        let of = |parts: &[Part<'_>]| join(parts).map(|(classes, notes)| (classes, notes.len()));
        assert_eq!(of(&[("x", &kinds, &one), ("y", &kinds, &one)]).unwrap(), (one.clone(), 0));
        assert_eq!(of(&[("x", &kinds, &one), ("y", &[], &none)]).unwrap(), (one.clone(), 0));
        assert_eq!(of(&[("x", &kinds, &none), ("y", &kinds, &one)]).unwrap(), (none.clone(), 1));
        assert!(of(&[("x", &kinds, &one), ("y", &kinds, &other)]).is_err());
    }
}
