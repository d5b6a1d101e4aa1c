//! The listing: every sample of a dataset in canonical order, in 32 bytes beside its name.
//!
//! Canonical order is that of torchvision's ImageFolder: by class, then folder path, then file name, each by bytes.
//! Names are relative to the dataset's root and kept as the file system gave them.

mod builder;
mod subset;

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result, component::Component, text};

pub use builder::{Builder, FolderSamples};
pub use subset::Unordered;

use crate::component_table::ComponentTable;

/// A folder that holds samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Path relative to the dataset's root, with `/` between folders; empty for the root itself.
    pub path: Box<[u8]>,
    /// Number of its class; `None` if samples have no class.
    pub class: Option<u32>,
}

/// The data of a sample except its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Start of its name in the names, times 2^16, plus the length of the name.
    name: u64,
    /// Physical place: neighbours on disk have neighbouring numbers. For a file, its inode. For a sample of
    /// shards, a number that its source defines.
    pub place: u64,
    /// Detects a change after planning. For a file, the time of its last change in nanoseconds since 1970.
    pub stamp: i64,
    /// Length in bytes.
    pub bytes: u32,
    /// Number of its folder.
    pub folder: u32,
}

impl Entry {
    fn name_start(&self) -> u64 {
        self.name >> 16
    }

    fn name_bytes(&self) -> u64 {
        self.name & 0xffff
    }

    /// Encodes the entry for a plan file, where names stand end to end in canonical order; advances `name_end`.
    pub fn to_bytes(&self, name_end: &mut u64) -> [u8; 32] {
        *name_end += self.name_bytes();
        let mut out = [0; 32];
        out[..8].copy_from_slice(&name_end.to_le_bytes());
        out[8..16].copy_from_slice(&self.place.to_le_bytes());
        out[16..24].copy_from_slice(&self.stamp.to_le_bytes());
        out[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        out[28..].copy_from_slice(&self.folder.to_le_bytes());
        out
    }

    /// Decodes the entry from a plan file; advances `name_start`. `None` if the name is invalid.
    pub fn from_bytes(bytes: &[u8; 32], name_start: &mut u64) -> Option<Self> {
        let (name_end, rest) = take(bytes);
        let (place, rest) = take(rest);
        let (stamp, rest) = take(rest);
        let (length, rest) = take(rest);
        let (folder, _) = take(rest);
        let start = std::mem::replace(name_start, u64::from_le_bytes(name_end));
        Some(Self {
            name: packed_name(start, name_start.checked_sub(start)?)?,
            place: u64::from_le_bytes(place),
            stamp: i64::from_le_bytes(stamp),
            bytes: u32::from_le_bytes(length),
            folder: u32::from_le_bytes(folder),
        })
    }
}

/// Start and length of a name in one number; `None` if they do not fit: no file system has such names.
fn packed_name(start: u64, bytes: u64) -> Option<u64> {
    (start < 1 << 48 && bytes < 1 << 16).then_some(start << 16 | bytes)
}

/// The first `N` bytes, padded with zeros, and the rest.
pub fn take<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    bytes.split_first_chunk().map_or(([0; N], &[]), |(first, rest)| (*first, rest))
}

/// All samples of one dataset.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Names of the classes in the order of their labels; shared by the splits of a source.
    pub classes: Arc<Vec<Box<[u8]>>>,
    folders: Vec<Folder>,
    /// Names of samples, in the order in which folders were added.
    names: Vec<u8>,
    /// Entries in canonical order.
    entries: Vec<Entry>,
    own_order: OwnOrder,
    components: ComponentTable,
}

/// The order that a source has by itself, for `--order source`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnOrder {
    /// Canonical order.
    #[default]
    Canonical,
    /// Order of the places of samples: stored order.
    Places,
    /// Order of keys, with numbers in them compared by value: `9` before `10`.
    Keys,
    /// Order of the lines of a list.
    Lines,
}

/// Replacement for `key` whose byte order is the order of the numbers in `key`.
fn natural(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 4);
    for run in key.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        if run.first().is_some_and(u8::is_ascii_digit) {
            let zeros = run.iter().take_while(|digit| **digit == b'0').count().min(run.len() - 1);
            // A digit first, so that numbers sort where digits do; then the length, so that longer numbers are
            // larger.
            out.push(b'0');
            out.extend_from_slice(&((run.len() - zeros) as u32).to_be_bytes());
            out.extend_from_slice(&run[zeros..]);
        } else {
            out.extend_from_slice(run);
        }
    }
    out
}

fn name_of<'n>(names: &'n [u8], entry: &Entry) -> &'n [u8] {
    &names[entry.name_start() as usize..(entry.name_start() + entry.name_bytes()) as usize]
}

fn sort_by_name(names: &[u8], entries: &mut [Entry]) {
    entries.par_sort_unstable_by(|a, b| {
        let by_name = a.folder.cmp(&b.folder).then_with(|| name_of(names, a).cmp(name_of(names, b)));
        // A file may be listed twice.
        by_name.then(a.place.cmp(&b.place)).then(a.name.cmp(&b.name))
    });
}

/// Sorts entries together with their components.
fn sort_with(entries: &mut [Entry], components: &mut ComponentTable, sort: impl FnOnce(&mut [Entry])) {
    if components.is_empty() {
        return sort(entries);
    }
    // No two names start at the same byte.
    let mut before: Vec<(u64, u64)> = entries.iter().map(|entry| entry.name).zip(0..).collect();
    before.par_sort_unstable();
    sort(entries);
    let number = |entry: &Entry| {
        let at = before.partition_point(|(name, _)| *name < entry.name);
        before.get(at).map_or(0, |(_, number)| *number)
    };
    *components = components.chosen(&entries.iter().map(number).collect::<Vec<_>>());
}

impl Listing {
    /// A listing of these folders.
    pub fn new(classes: Arc<Vec<Box<[u8]>>>, folders: Vec<(Folder, FolderSamples)>) -> Self {
        let mut builder = Builder::default();
        folders.into_iter().for_each(|(folder, samples)| builder.add(folder, &samples));
        builder.finish(classes)
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entry of sample `number`, which must be below [`Listing::len`].
    pub fn entry(&self, number: u64) -> &Entry {
        &self.entries[number as usize]
    }

    /// A listing from its parts, as stored in a file.
    ///
    /// # Errors
    /// If a number in one part is out of range for another.
    pub fn from_parts(
        classes: Arc<Vec<Box<[u8]>>>,
        folders: Vec<Folder>,
        names: Vec<u8>,
        entries: Vec<Entry>,
        own_order: OwnOrder,
        components: ComponentTable,
    ) -> Result<Self> {
        components.check(entries.len() as u64)?;
        let lines_fit = (own_order == OwnOrder::Lines) != components.lines.is_empty() || entries.is_empty();
        let end = |entry: &Entry| entry.name_start() + entry.name_bytes();
        let names_fit = entries.iter().all(|entry| end(entry) <= names.len() as u64);
        let folders_fit = entries.iter().all(|entry| (entry.folder as usize) < folders.len());
        let class_fits = |class: Option<u32>| class.is_none_or(|class| (class as usize) < classes.len());
        let classes_fit = folders.iter().all(|folder| class_fits(folder.class));
        if !(names_fit && folders_fit && classes_fit && lines_fit) {
            return Err(Error::data("a name, folder or class of the listing points outside it"));
        }
        Ok(Self { classes, folders, names, entries, own_order, components })
    }

    /// All entries in canonical order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// File name of sample `number`.
    pub fn name(&self, number: u64) -> &[u8] {
        name_of(&self.names, self.entry(number))
    }

    /// Folder of sample `number`.
    pub fn folder(&self, number: u64) -> &Folder {
        &self.folders[self.entry(number).folder as usize]
    }

    /// All folders in canonical order.
    pub fn folders(&self) -> &[Folder] {
        &self.folders
    }

    /// Writes the path of sample `number` relative to the dataset's root over `out`.
    pub fn path(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.folder(number).path);
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(self.name(number));
    }

    /// The path in the source and the stamp of the file that is component `which` of sample `number`; `None` if it is no file.
    pub fn component_file(&self, number: u64, which: usize) -> Option<(Vec<u8>, i64)> {
        let (kind, cell) = (self.components.kinds.get(which)?, self.components.cells_of(number).get(which)?);
        match kind.file_column() {
            Some(_) => self.components.named_file(*cell).map(|(path, stamp)| (path.to_vec(), stamp)),
            None => kind.path_of(&self.folder(number).path, self.name(number)).map(|path| (path, cell.stamp)),
        }
    }

    /// The path for messages.
    pub fn shown(&self, number: u64) -> String {
        let mut path = Vec::new();
        self.path(number, &mut path);
        text::shown(&path).to_string()
    }

    /// Components of the samples beside image, name and class.
    pub fn components(&self) -> &ComponentTable {
        &self.components
    }

    /// The samples for which `keep` is true, by number. Their class `n` becomes class `class_of(n)` of
    /// `classes`; a sample is left out if its class becomes none. Samples without a class keep none.
    pub fn chosen(
        &self,
        classes: &Arc<Vec<Box<[u8]>>>,
        class_of: impl Fn(u32) -> Option<u32>,
        keep: impl Fn(u64) -> bool,
    ) -> Self {
        // If two classes become one, their folders may have the same path, as records of shards have.
        let mut together: BTreeMap<(Option<u32>, &[u8]), Vec<Range<u64>>> = BTreeMap::new();
        for (folder, numbers) in self.folders.iter().zip(self.samples_by_folder()) {
            let class = folder.class.map(&class_of);
            if class != Some(None) {
                together.entry((class.flatten(), &folder.path)).or_default().push(numbers);
            }
        }
        let mut kept = Vec::new();
        let folders = together.into_iter().map(|((class, path), ranges)| {
            let mut numbers: Vec<u64> = ranges.iter().cloned().flatten().filter(|number| keep(*number)).collect();
            if ranges.len() > 1 {
                numbers.sort_by_key(|number| self.name(*number));
            }
            let mut samples = FolderSamples::default();
            for number in numbers {
                let Entry { bytes, place, stamp, .. } = *self.entry(number);
                samples.push(self.name(number), bytes, place, stamp);
                kept.push(number);
            }
            (Folder { path: path.into(), class }, samples)
        });
        let folders = folders.filter(|(_, samples)| !samples.is_empty()).collect();
        let listing = Self::new(Arc::clone(classes), folders);
        Self { own_order: self.own_order, components: self.components.chosen(&kept), ..listing }
    }

    /// The same samples, which have no classes, in the classes that `class_of` gives their numbers; samples without one
    /// are left out.
    pub fn classified(&self, classes: &Arc<Vec<Box<[u8]>>>, class_of: impl Fn(u64) -> Option<u32>) -> Self {
        let numbers = (0..self.len()).filter_map(|number| class_of(number).map(|class| (class, number)));
        let mut numbers: Vec<(u32, u64)> = numbers.collect();
        // Within a class, canonical order stays.
        numbers.sort_unstable();
        let is_same = |a: &(u32, u64), b: &(u32, u64)| a.0 == b.0 && self.entry(a.1).folder == self.entry(b.1).folder;
        let folders = numbers.chunk_by(is_same).map(|of_folder| {
            let mut samples = FolderSamples::default();
            for (_, number) in of_folder {
                let Entry { bytes, place, stamp, .. } = *self.entry(*number);
                samples.push(self.name(*number), bytes, place, stamp);
            }
            let (class, first) = of_folder[0];
            (Folder { path: self.folder(first).path.clone(), class: Some(class) }, samples)
        });
        let listing = Self::new(Arc::clone(classes), folders.collect());
        let kept: Vec<u64> = numbers.iter().map(|(_, number)| *number).collect();
        Self { own_order: self.own_order, components: self.components.chosen(&kept), ..listing }
    }

    /// The same samples with other lengths: `bytes` gets a sample's number and present length in bytes.
    pub fn with_bytes(&self, bytes: impl Fn(u64, u32) -> u32) -> Self {
        let mut listing = self.clone();
        let entries = listing.entries.iter_mut().enumerate();
        entries.for_each(|(number, entry)| entry.bytes = bytes(number as u64, entry.bytes));
        listing
    }

    /// The same samples as values of these lengths, one each, with these components.
    pub fn with_values(&self, bytes: &[u32], components: ComponentTable) -> Self {
        let listing = self.with_bytes(|number, before| bytes.get(number as usize).copied().unwrap_or(before));
        Self { components, ..listing }
    }

    /// The same samples with columns for all these kinds, their own among them.
    pub fn with_more_kinds(&self, kinds: &[Component]) -> Self {
        Self { components: self.components.with(kinds, self.len()), ..self.clone() }
    }

    /// The same samples with components of these types.
    pub fn with_types(&self, kinds: Vec<Component>, payload: Option<Component>) -> Self {
        Self { components: ComponentTable { kinds, payload, ..self.components.clone() }, ..self.clone() }
    }

    /// The same samples with components of these kinds only.
    pub fn with_kinds(&self, kinds: &[Component]) -> Self {
        Self { components: self.components.only(kinds), ..self.clone() }
    }

    /// The samples for which `keep` of their path is true.
    pub fn filtered(&self, keep: impl Fn(&[u8]) -> bool) -> Self {
        let path = |number| {
            let mut path = Vec::new();
            self.path(number, &mut path);
            path
        };
        self.chosen(&self.classes, Some, |number| keep(&path(number)))
    }

    /// The order of the source itself.
    pub fn own_order(&self) -> OwnOrder {
        self.own_order
    }

    /// Sets the order of the source to the order of keys.
    pub fn order_by_keys(&mut self) {
        self.own_order = OwnOrder::Keys;
    }

    /// The samples in the order of the source, if it is not canonical order.
    pub fn stored_order(&self) -> Option<Vec<u64>> {
        let mut order: Vec<u64> = (0..self.len()).collect();
        match self.own_order {
            OwnOrder::Canonical => return None,
            OwnOrder::Lines => order.par_sort_unstable_by_key(|number| self.components.lines.get(*number as usize)),
            OwnOrder::Places => order.par_sort_unstable_by_key(|number| self.entry(*number).place),
            OwnOrder::Keys => order.par_sort_by_cached_key(|number| {
                let class = self.class(*number).map_or(0, |class| self.classes[class as usize].len());
                let mut path = Vec::new();
                self.path(*number, &mut path);
                (natural(&path[class..]), self.entry(*number).place)
            }),
        }
        Some(order)
    }

    /// Renames samples that share folder and name: `unlike` makes a name from their place and present name.
    ///
    /// # Errors
    /// If a new name is too long.
    pub fn disambiguate_keys(&mut self, unlike: impl Fn(u64, &[u8]) -> Vec<u8>) -> Result<()> {
        let same = |a: &Entry, b: &Entry| a.folder == b.folder && name_of(&self.names, a) == name_of(&self.names, b);
        let groups = self.entries.chunk_by(same).scan(0, |at, group| {
            *at += group.len();
            Some((*at - group.len()..*at, group.len()))
        });
        let namesakes: Vec<_> = groups.filter(|(_, count)| *count > 1).flat_map(|(range, _)| range).collect();
        for number in &namesakes {
            let entry = self.entries[*number];
            let name = unlike(entry.place, name_of(&self.names, &entry));
            let too_long = || Error::data(format!("a name of {} bytes", name.len()));
            self.entries[*number].name =
                packed_name(self.names.len() as u64, name.len() as u64).ok_or_else(too_long)?;
            self.names.extend_from_slice(&name);
        }
        if !namesakes.is_empty() {
            let Self { names, entries, components, .. } = self;
            sort_with(entries, components, |entries| sort_by_name(names, entries));
        }
        Ok(())
    }

    /// Numbers of the samples of class number `class` whose path relative to the dataset's root is `path`: at
    /// most one, except for a list that names a file more than once.
    pub fn find(&self, class: Option<u32>, path: &[u8]) -> Range<u64> {
        // A name of a sample of shards may contain `/`, a file name cannot.
        let cuts = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        let cuts = cuts.map(|(at, _)| (&path[..at], &path[at + 1..])).chain([(&[][..], path)]);
        cuts.map(|(folder, name)| self.find_in(class, folder, name)).find(|found| !found.is_empty()).unwrap_or(0..0)
    }

    fn find_in(&self, class: Option<u32>, folder: &[u8], name: &[u8]) -> Range<u64> {
        let found = self.folders.binary_search_by(|known| (known.class, &known.path[..]).cmp(&(class, folder)));
        let Ok(found) = found.map(|found| found as u32) else { return 0..0 };
        let of_entry = |entry: &Entry| (entry.folder, name_of(&self.names, entry));
        let first = self.entries.partition_point(|entry| of_entry(entry) < (found, name));
        let end = self.entries.partition_point(|entry| of_entry(entry) <= (found, name));
        first as u64..end as u64
    }

    /// Class of sample `number`, if it has one.
    pub fn class(&self, number: u64) -> Option<u32> {
        self.folder(number).class
    }

    /// Name of the class of sample `number`; empty if it has no class.
    pub fn class_name(&self, number: u64) -> &[u8] {
        self.class(number).map_or(&[], |class| &self.classes[class as usize])
    }

    /// Bytes that the listing takes in memory, names included.
    pub fn memory_bytes(&self) -> u64 {
        let folders: usize = self.folders.iter().map(|folder| folder.path.len() + size_of::<Folder>()).sum();
        (self.entries.capacity() * size_of::<Entry>() + self.names.capacity() + folders) as u64
    }

    /// Length of the names in bytes.
    pub fn name_bytes(&self) -> u64 {
        self.names.len() as u64
    }

    /// The samples of `folder`, by number.
    pub fn samples_by_folder(&self) -> Vec<Range<u64>> {
        let mut ranges = vec![0..0; self.folders.len()];
        let mut start = 0;
        for (number, entry) in self.entries.iter().enumerate() {
            if number == 0 || self.entries[number - 1].folder != entry.folder {
                start = number as u64;
            }
            ranges[entry.folder as usize] = start..number as u64 + 1;
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_source_with_an_order_are_listed_by_name_and_namesakes_are_parted() {
        let mut builder = Builder::default();
        let folder = builder.add_folder(Folder { path: b"a".as_slice().into(), class: Some(0) });
        for (name, place) in [(b"x".as_slice(), 7), (b"b", 5), (b"x", 3)] {
            builder.add_sample(folder, name, 1, place, 0).unwrap();
        }
        let mut listing = builder.finish(Arc::new(vec![b"a".as_slice().into()]));
        listing.disambiguate_keys(|place, name| [format!("{place}/").as_bytes(), name].concat()).unwrap();
        let names: Vec<_> = (0..3).map(|number| listing.name(number)).collect();
        assert_eq!(names, [b"3/x".as_slice(), b"7/x", b"b"]);
        assert_eq!(listing.stored_order().unwrap(), [0, 2, 1]);
        assert_eq!([b"a/3/x".as_slice(), b"a/x"].map(|path| listing.find(Some(0), path)), [0..1, 0..0]);
    }

    #[test]
    fn numbers_in_keys_count_by_their_value() {
        let mut keys = ["10", "9", "a10", "a9", "009", "image-2", "image-10", "b", "1/10", "1/9", "0"];
        keys.sort_by_key(|key| natural(key.as_bytes()));
        assert_eq!(keys, ["0", "1/9", "1/10", "9", "009", "10", "a9", "a10", "b", "image-2", "image-10"]);
    }

    #[test]
    fn an_entry_is_32_bytes() {
        assert_eq!(size_of::<Entry>(), 32);
    }

    #[test]
    fn samples_are_found_by_number() {
        let folder = |path: &[u8], class| Folder { path: path.into(), class: Some(class) };
        let mut first = FolderSamples::default();
        first.push(b"1.jpg", 10, 100, -5);
        first.push(b"22.jpg", 20, 99, 5);
        let mut second = FolderSamples::default();
        second.push(b"\xff.png", 30, 7, 0);
        let classes = Arc::new(vec![b"a".as_slice().into(), b"b".as_slice().into()]);
        let listing = Listing::new(classes, vec![(folder(b"a/x", 0), first), (folder(b"b", 1), second)]);
        let mut path = Vec::new();
        let paths: Vec<Vec<u8>> = (0..3)
            .map(|number| {
                listing.path(number, &mut path);
                path.clone()
            })
            .collect();
        assert_eq!(paths, [b"a/x/1.jpg".to_vec(), b"a/x/22.jpg".to_vec(), b"b/\xff.png".to_vec()]);
        assert_eq!((listing.class(1), listing.class(2)), (Some(0), Some(1)));
        assert_eq!(listing.samples_by_folder(), [0..2, 2..3]);
        assert_eq!(listing.entry(2).bytes, 30);
        assert_eq!(
            [(0, b"a/x/22.jpg".as_slice()), (1, b"b/\xff.png"), (1, b"a/x/22.jpg"), (0, b"a/1.jpg"), (2, b"x")]
                .map(|(class, path)| listing.find(Some(class), path)),
            [1..2, 2..3, 0..0, 0..0, 0..0]
        );
    }

    #[test]
    fn lines_of_a_list_stay_with_their_samples() {
        let mut builder = Builder::default();
        let root = builder.add_folder(Folder { path: b"".as_slice().into(), class: None });
        for (name, line) in [(b"b".as_slice(), 4), (b"a", 7), (b"b", 2), (b"c", 5)] {
            builder.add_sample(root, name, 1, u64::from(name[0]), 0).unwrap();
            builder.add_components(&[], Some(line));
        }
        let listing = builder.finish(Arc::default());
        let mut path = Vec::new();
        listing.path(0, &mut path);
        assert_eq!(path, b"a");
        assert_eq!(listing.components().lines, [7, 4, 2, 5]);
        assert_eq!(listing.stored_order().unwrap(), [2, 1, 3, 0]);
        assert_eq!([b"b".as_slice(), b"c", b"d"].map(|path| listing.find(None, path)), [1..3, 3..4, 0..0]);
        assert_eq!(listing.filtered(|path| path != b"a").components().lines, [4, 2, 5]);
    }
}
