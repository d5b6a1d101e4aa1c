//! Walks a file tree from an object store's listing: names, lengths and versions by folder. The walk finds the same
//! samples as the walk over these files in a file system.
//!
//! Holds at all times: every listed object is a sample, counted, or reported with a reason, even if its name is not a
//! valid path.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shardpack_format::component::Component;

use super::{
    companions::{self, Refused},
    filter::{LEFT_OUT, PathFilter},
    names::{Name, cut, join, other_reason},
    outcome::{self, Outcome, sized, unpacked},
};
use crate::{
    component_table::{Cell, ComponentTable},
    ledger::Fate,
    listing::{self, Folder, FolderSamples},
};

/// The reason for an empty object that represents a folder.
const MARKER: &str = "folder marker";
/// The reason for an object with an invalid path.
const NO_PATH: &str = "its name is no path: it has empty parts, . or .., or control characters";

/// A file in a folder.
#[derive(Clone, Copy, Debug)]
struct File {
    /// End of its name in the folder's `names`.
    end: usize,
    bytes: u64,
    stamp: i64,
}

/// The entries of one folder.
#[derive(Debug, Default)]
struct Entries {
    names: Vec<u8>,
    files: Vec<File>,
    folders: BTreeSet<Box<[u8]>>,
}

impl Entries {
    fn files(&self) -> impl Iterator<Item = (&[u8], File)> {
        let starts = std::iter::once(0).chain(self.files.iter().map(|file| file.end));
        starts.zip(&self.files).map(|(start, file)| (&self.names[start..file.end], *file))
    }
}

/// A tree from a listing, see the module.
#[derive(Debug, Default)]
pub(super) struct ListedTree {
    folders: BTreeMap<Box<[u8]>, Entries>,
    /// Names of objects that are not valid paths.
    odd: Vec<Vec<u8>>,
    markers: u64,
}

/// Name of a folder entry, and whether it is a folder.
pub(super) type Named<'a> = (&'a [u8], bool);

impl ListedTree {
    /// Adds a file. Its path must have no empty parts.
    pub fn add(&mut self, path: &[u8], bytes: u64, stamp: i64) {
        let (folder, name) = cut(path);
        let entries = self.entries(folder);
        entries.names.extend_from_slice(name);
        entries.files.push(File { end: entries.names.len(), bytes, stamp });
    }

    /// Adds a folder marker, so that the folder exists as in a file system.
    pub fn add_marker(&mut self, path: &[u8]) {
        self.markers += 1;
        self.entries(path);
    }

    /// Adds a folder that exists without files.
    pub fn add_folder(&mut self, path: &[u8]) {
        self.entries(path);
    }

    /// Adds an object whose name is not a valid path.
    pub fn add_odd(&mut self, name: &[u8]) {
        self.odd.push(name.to_vec());
    }

    /// The entries of `folder`; creates the folder and its parents if missing.
    fn entries(&mut self, folder: &[u8]) -> &mut Entries {
        if !self.folders.contains_key(folder) {
            self.folders.insert(folder.into(), Entries::default());
            if !folder.is_empty() {
                let (above, name) = cut(folder);
                self.entries(above).folders.insert(name.into());
            }
        }
        self.folders.entry(folder.into()).or_default()
    }

    /// Whether the tree has no objects.
    pub fn is_empty(&self) -> bool {
        self.folders.values().all(|entries| entries.files.is_empty()) && self.odd.is_empty()
    }

    /// A path that was added twice.
    pub fn listed_twice(&self) -> Option<Vec<u8>> {
        self.folders.iter().find_map(|(folder, entries)| {
            let mut names: Vec<_> = entries.files().map(|(name, _)| name).collect();
            names.sort_unstable();
            names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| join(folder, pair[0]))
        })
    }

    /// Names of the entries in `folder`.
    pub fn names(&self, folder: &[u8]) -> impl Iterator<Item = Named<'_>> {
        let entries = self.folders.get(folder).into_iter();
        entries.flat_map(|entries| {
            let folders = entries.folders.iter().map(|name| (&name[..], true));
            folders.chain(entries.files().map(|(name, _)| (name, false)))
        })
    }

    /// Adds folder markers and invalid names to the counts or reports of `split`. `is_first` marks the first split or
    /// the whole source.
    pub fn rest(&self, split: Option<&str>, is_first: bool, keep: &PathFilter, outcome: &mut Outcome) {
        if is_first && self.markers > 0 {
            *outcome.ignored.entry(MARKER.to_owned()).or_default() += self.markers;
        }
        for name in &self.odd {
            let own = split.and_then(|split| name.strip_prefix(split.as_bytes())?.strip_prefix(b"/"));
            let name = match (split, own, is_first) {
                (None, ..) => name.as_slice(),
                (Some(_), Some(own), _) => own,
                // A name outside all splits. A name in another split is reported there.
                (Some(_), None, true) if !self.is_of_folder(name) => name,
                _ => continue,
            };
            let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            match keep.classify(last) {
                Name::Hidden if ![b".".as_slice(), b".."].contains(&last) => outcome.ignore("hidden".to_owned()),
                Name::System => outcome.ignore("system".to_owned()),
                Name::Other if !last.is_empty() => outcome.ignore(other_reason(last)),
                _ if keep.leaves_out(name) => {
                    outcome.unpacked.push(unpacked(name.to_vec(), None, Fate::Filtered, LEFT_OUT));
                }
                _ => outcome.unpacked.push(unpacked(name.to_vec(), None, Fate::Skipped, NO_PATH)),
            }
        }
    }

    /// Whether the first part of `name` is a listed folder.
    fn is_of_folder(&self, name: &[u8]) -> bool {
        let first = name.split(|byte| *byte == b'/').next().unwrap_or_default();
        !first.is_empty() && self.folders.contains_key(first)
    }

    /// Lists `classes` below `root` like [`walk::walk`]. Each entry is a folder path, empty for the root itself, and a
    /// class number.
    pub fn walk(
        &self,
        root: &[u8],
        classes: Vec<(Vec<u8>, Option<u32>)>,
        keep: &PathFilter,
        components: &[Component],
    ) -> Outcome {
        let samples = listing::Builder::with(ComponentTable::new(components.to_vec()));
        let mut outcome = Outcome { samples, ..Outcome::default() };
        let mut place = 0;
        // The files by name of each folder that has files of components.
        let mut by_name = HashMap::<&[u8], HashMap<&[u8], File>>::new();
        let mut elsewhere = |path: &[u8]| {
            let path = join_path(root, path);
            let (folder, name) = cut(&path);
            if !by_name.contains_key(folder) {
                let (folder, entries) = self.folders.get_key_value(folder)?;
                by_name.insert(folder, entries.files().collect());
            }
            by_name.get(folder)?.get(name).copied()
        };
        for (path, class) in classes {
            let mut todo = vec![path];
            while let Some(path) = todo.pop() {
                let Some(entries) = self.folders.get(join_path(root, &path).as_slice()) else { continue };
                for name in &entries.folders {
                    match keep.classify(name) {
                        Name::Hidden => outcome.ignore("hidden".to_owned()),
                        Name::System => outcome.ignore("system".to_owned()),
                        Name::Payload | Name::Other => todo.push(join(&path, name)),
                    }
                }
                let components = (components, &mut elsewhere as ByPath<'_>);
                let samples = folder((&path, class), entries, keep, components, &mut outcome, &mut place);
                if !samples.is_empty() {
                    outcome.samples.add(Folder { path: path.as_slice().into(), class }, &samples);
                }
            }
        }
        outcome
    }
}

fn join_path(root: &[u8], path: &[u8]) -> Vec<u8> {
    match (root, path) {
        (root, []) => root.to_vec(),
        (root, path) => join(root, path),
    }
}

/// The file at a path below the root of the walk.
type ByPath<'a> = &'a mut dyn FnMut(&[u8]) -> Option<File>;

/// The samples of one folder. Other entries are counted or reported.
fn folder(
    (path, class): (&[u8], Option<u32>),
    entries: &Entries,
    keep: &PathFilter,
    (components, elsewhere): (&[Component], ByPath<'_>),
    outcome: &mut Outcome,
    place: &mut u64,
) -> FolderSamples {
    let mut images = Vec::new();
    // Component files, and whether an image uses the file.
    let mut beside: BTreeMap<&[u8], (File, bool)> = BTreeMap::new();
    for (name, file) in entries.files() {
        match keep.classify(name) {
            Name::Hidden => outcome.ignore("hidden".to_owned()),
            Name::System => outcome.ignore("system".to_owned()),
            _ if outcome.companions.sees(components, path, name) => {}
            _ if components.iter().any(|kind| !kind.is_path() && kind.takes(path, name)) => {
                beside.insert(name, (file, false));
            }
            Name::Other => outcome.ignore(other_reason(name)),
            Name::Payload if !keep.wants(&join(path, name)) => {
                outcome.companions.claim(components, path, name);
                outcome.unpacked.push(unpacked(join(path, name), class, Fate::Filtered, LEFT_OUT));
            }
            Name::Payload => images.push((name, file)),
        }
    }
    images.sort_unstable_by_key(|(name, _)| *name);
    let mut samples = FolderSamples::default();
    for (name, file) in images {
        outcome.companions.claim(components, path, name);
        let mut cell = |kind: &Component| {
            let at = kind.path_of(path, name);
            let found = match kind.file_of(name) {
                Some(file) => beside.get_mut(file.as_slice()).map(|(found, claimed)| {
                    *claimed = true;
                    *found
                }),
                None => at.as_deref().and_then(&mut *elsewhere),
            };
            match (found, &at) {
                (Some(found), Some(at)) => Ok(Cell::file(outcome::beside(cut(at).1, found.bytes)?, found.stamp)),
                _ => companions::missing(kind, at.as_deref(), keep.on_missing()),
            }
        };
        let cells: Vec<_> = components.iter().filter(|kind| !kind.is_text()).map(&mut cell).collect();
        let cells = cells.into_iter().collect::<Result<Vec<_>, Refused>>();
        match sized(file.bytes).map_err(Refused::from).and_then(|bytes| Ok((bytes, cells?))) {
            Err(Refused { fate, why }) => outcome.unpacked.push(unpacked(join(path, name), class, fate, &why)),
            Ok((bytes, cells)) => {
                samples.push(name, bytes, *place, file.stamp);
                samples.push_cells(&cells);
                *place += 1;
            }
        }
    }
    for name in beside.iter().filter(|(_, (_, claimed))| !claimed).map(|(name, _)| name) {
        let kind = components.iter().find(|kind| !kind.is_path() && kind.takes(path, name));
        let kind = kind.map_or("", Component::name);
        outcome.ignore(format!("{kind} without its {}", keep.payload()));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_hold_what_was_added_below_them() {
        let mut listed = ListedTree::default();
        for path in ["a/b/c.jpg", "a/d.jpg", "e.txt", "a-b/x.png"] {
            listed.add(path.as_bytes(), 7, 1);
        }
        listed.add_marker(b"z/y");
        let names = |folder: &str| {
            let named = listed.names(folder.as_bytes());
            named.map(|(name, is)| format!("{}{}", String::from_utf8_lossy(name), if is { "/" } else { "" })).collect()
        };
        let names: [Vec<String>; 5] = ["", "a", "a/b", "z", "nothing"].map(names);
        assert_eq!(names[0], ["a/", "a-b/", "z/", "e.txt"]);
        assert_eq!(names[1], ["b/", "d.jpg"]);
        assert_eq!((names[2].as_slice(), names[3].as_slice()), (&["c.jpg".to_owned()][..], &["y/".to_owned()][..]));
        assert!(names[4].is_empty() && !listed.is_empty() && ListedTree::default().is_empty());
        assert_eq!(listed.listed_twice(), None);
        listed.add(b"a-b/b/c.jpg", 7, 1);
        assert_eq!(listed.listed_twice(), None);
        listed.add(b"a/b/c.jpg", 8, 2);
        assert_eq!(listed.listed_twice().as_deref(), Some(&b"a/b/c.jpg"[..]));
    }
}
