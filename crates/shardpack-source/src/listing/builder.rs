//! Builds a listing from folders and samples in the order of a walk.

use std::sync::Arc;

use rayon::prelude::*;
use shardpack_format::{Error, Result, component::Form};

use super::{Entry, Folder, Listing, OwnOrder, packed_name, sort_by_name, sort_with};
use crate::component_table::{Cell, ComponentTable};

/// Samples of one folder, in order of their names, before they join a listing.
#[derive(Debug, Default)]
pub struct FolderSamples {
    names: Vec<u8>,
    entries: Vec<Entry>,
    cells: Vec<Cell>,
}

impl FolderSamples {
    /// Adds a sample; the caller keeps them in order of their names.
    pub fn push(&mut self, name: &[u8], bytes: u32, place: u64, stamp: i64) {
        // A name is one component of a path from the system: far below 2^16 bytes.
        let name_at = packed_name(self.names.len() as u64, name.len() as u64).unwrap_or(0);
        self.names.extend_from_slice(name);
        self.entries.push(Entry { name: name_at, place, stamp, bytes, folder: 0 });
    }

    /// Adds the components of the sample that was added last: one cell for each.
    pub fn push_cells(&mut self, cells: &[Cell]) {
        self.cells.extend_from_slice(cells);
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Collects folders in the order of a walk, and sorts the samples in place: memory never holds them twice.
#[derive(Debug, Default)]
pub struct Builder {
    folders: Vec<Folder>,
    names: Vec<u8>,
    entries: Vec<Entry>,
    own_order: OwnOrder,
    components: ComponentTable,
}

impl Builder {
    /// An empty builder for samples that have these components beside their images.
    pub fn with(components: ComponentTable) -> Self {
        Self { components, ..Self::default() }
    }

    /// Adds the components of the sample that was added last, one cell for each, and its line in a list.
    pub fn add_components(&mut self, cells: &[Cell], line: Option<u64>) {
        self.components.cells.extend_from_slice(cells);
        self.components.lines.extend(line);
        if line.is_some() {
            self.own_order = OwnOrder::Lines;
        }
    }

    /// Adds the form of the payload of the sample that was added last.
    pub fn add_payload_form(&mut self, form: u32) {
        self.components.payload_forms.push(form);
    }

    /// Sets the forms that the numbers of cells and payloads refer to.
    pub fn set_forms(&mut self, forms: Arc<Vec<Form>>) {
        self.components.forms = forms;
    }

    /// Adds the samples of a folder.
    pub fn add(&mut self, folder: Folder, samples: &FolderSamples) {
        let (number, before) = (self.folders.len() as u32, self.names.len() as u64);
        self.names.extend_from_slice(&samples.names);
        let moved = |entry: &Entry| Entry { name: entry.name + (before << 16), folder: number, ..*entry };
        self.entries.extend(samples.entries.iter().map(moved));
        self.components.cells.extend_from_slice(&samples.cells);
        self.folders.push(folder);
    }

    /// Adds a folder whose samples follow one by one; returns its number.
    pub fn add_folder(&mut self, folder: Folder) -> u32 {
        self.folders.push(folder);
        self.folders.len() as u32 - 1
    }

    /// Adds a sample of folder `folder`, in any order of names. The listing's own order then becomes the order
    /// of places.
    ///
    /// # Errors
    /// If the name is too long.
    pub fn add_sample(&mut self, folder: u32, name: &[u8], bytes: u32, place: u64, stamp: i64) -> Result<()> {
        let too_long = || Error::data(format!("a name of {} bytes", name.len()));
        let at = packed_name(self.names.len() as u64, name.len() as u64).ok_or_else(too_long)?;
        self.names.extend_from_slice(name);
        self.entries.push(Entry { name: at, place, stamp, bytes, folder });
        if self.own_order == OwnOrder::Canonical {
            self.own_order = OwnOrder::Places;
        }
        Ok(())
    }

    /// The listing of all added samples.
    pub fn finish(self, classes: Arc<Vec<Box<[u8]>>>) -> Listing {
        let Self { folders, names, mut entries, own_order, mut components } = self;
        let mut order: Vec<u32> = (0..folders.len() as u32).collect();
        let key = |number: &u32| (folders[*number as usize].class, &folders[*number as usize].path);
        order.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, number)| places[*number as usize] = place as u32);
        entries.par_iter_mut().for_each(|entry| entry.folder = places[entry.folder as usize]);
        sort_with(&mut entries, &mut components, |entries| match own_order {
            OwnOrder::Places | OwnOrder::Keys | OwnOrder::Lines => sort_by_name(&names, entries),
            // Within a folder, names were added in order.
            OwnOrder::Canonical => entries.par_sort_unstable_by_key(|entry| (entry.folder, entry.name)),
        });
        let mut folders: Vec<Option<Folder>> = folders.into_iter().map(Some).collect();
        let folders = order.iter().filter_map(|number| folders[*number as usize].take()).collect();
        entries.shrink_to_fit();
        Listing { classes, folders, names, entries, own_order, components }
    }
}
