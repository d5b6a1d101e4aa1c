//! A listing with fewer samples, or with all samples in another order.

use super::{Entry, Folder, Listing, name_of, packed_name};
use crate::component_table::ComponentTable;

impl Listing {
    /// The samples with these numbers, which must ascend.
    pub fn subset(&self, numbers: &[u64]) -> Self {
        let (folders, mut entries) = self.entries_of(numbers);
        let mut names = Vec::new();
        for entry in &mut entries {
            let name = name_of(&self.names, entry);
            // Not longer than the names that it is copied from.
            entry.name = packed_name(names.len() as u64, name.len() as u64).unwrap_or(0);
            names.extend_from_slice(name);
        }
        Self { folders, names, entries, ..self.beside(numbers) }
    }

    /// The samples in the order of these numbers. Each number must occur once, and folders must follow one
    /// another. Names are not moved.
    pub fn reordered(self, numbers: &[u64]) -> Self {
        let (folders, entries) = self.entries_of(numbers);
        let rest = self.beside(numbers);
        Self { folders, names: self.names, entries, ..rest }
    }

    /// A listing with the components of these samples and the shared fields, but without names.
    fn beside(&self, numbers: &[u64]) -> Self {
        let components = match self.components.is_empty() {
            true => self.components.clone(),
            false => self.components.chosen(numbers),
        };
        let classes = std::sync::Arc::clone(&self.classes);
        Self { classes, own_order: self.own_order, components, ..Self::default() }
    }

    /// The entries with these numbers, and their folders.
    fn entries_of(&self, numbers: &[u64]) -> (Vec<Folder>, Vec<Entry>) {
        let (mut folders, mut last) = (Vec::new(), None);
        let mut entries = Vec::with_capacity(numbers.len());
        for number in numbers {
            let entry = *self.entry(*number);
            if last != Some(entry.folder) {
                folders.push(self.folders[entry.folder as usize].clone());
                last = Some(entry.folder);
            }
            entries.push(Entry { folder: folders.len() as u32 - 1, ..entry });
        }
        (folders, entries)
    }
}

/// Samples in any order of names and folders, before they are sorted into a listing.
#[derive(Debug, Default)]
pub struct Unordered {
    /// Folders of the samples.
    pub folders: Vec<Folder>,
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// Further components, a row for each sample.
    pub components: ComponentTable,
}

impl Unordered {
    /// An empty collection for samples that have these components.
    pub fn new(components: ComponentTable) -> Self {
        Self { components, ..Self::default() }
    }

    /// Number of samples.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds a sample of folder `folder`. `None` if its name is too long.
    pub fn push(&mut self, folder: u32, name: &[u8], bytes: u32, place: u64, stamp: i64) -> Option<()> {
        let at = packed_name(self.names.len() as u64, name.len() as u64)?;
        self.names.extend_from_slice(name);
        self.entries.push(Entry { name: at, place, stamp, bytes, folder });
        Some(())
    }

    /// The collected entries and names, for [`Listing::from_parts`].
    pub fn into_parts(self) -> (Vec<Folder>, Vec<u8>, Vec<Entry>, ComponentTable) {
        (self.folders, self.names, self.entries, self.components)
    }
}
