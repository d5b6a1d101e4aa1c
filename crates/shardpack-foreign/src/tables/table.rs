//! A table: an array of images, or several of values, and the arrays that accompany it.

use std::ops::Range;

use shardpack_format::{Error, Result};

use super::{
    Arrays,
    components::Component,
    seen::{Seen, TOLD},
    values,
};

/// An array of images and the arrays that accompany it, by path.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub images: String,
    /// Arrays whose rows are samples that are no images, with their names as components; then `images` is the first.
    pub values: Vec<(String, String)>,
    pub labels: Option<String>,
    pub filenames: Option<String>,
    /// The axes of each image, if rows are pixels of varying number.
    pub shapes: Option<String>,
    /// Arrays whose rows go with the images.
    pub beside: Vec<Component>,
    /// Unused arrays of the file.
    pub unused: Vec<String>,
    pub rows: Range<u64>,
    /// Rows in no split, if they are the first of the named rows.
    pub strays: Vec<Range<u64>>,
    pub split: Option<String>,
    /// Notes for the user about how the layout was interpreted.
    pub note: String,
}

impl Table {
    /// A table of samples without images; its rows are the rows of `values`, which holds paths and names; `all` counts the
    /// arrays that are reported.
    pub fn of_values(
        values: Vec<(String, String)>,
        label: Option<&Seen>,
        rows: u64,
        split: Option<String>,
        all: &[&Seen],
    ) -> Self {
        let told: Vec<_> = all.iter().take(TOLD).map(|one| one.describe()).collect();
        let mut note = format!("values {}", told.join(", "));
        if let Some(label) = label {
            note += &format!("; labels {}", label.describe());
        }
        Self {
            images: values.first().map(|(path, _)| path.clone()).unwrap_or_default(),
            labels: label.map(|one| one.path.clone()),
            filenames: None,
            shapes: None,
            beside: Vec::new(),
            unused: Vec::new(),
            rows: 0..rows,
            strays: Vec::new(),
            values,
            split,
            note,
        }
    }

    /// Paths of all arrays that the table uses; a path may repeat.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let own = [Some(&self.images), self.labels.as_ref()];
        let named = [self.filenames.as_ref(), self.shapes.as_ref()];
        let values = self.values.iter().map(|(path, _)| path);
        let beside = self.beside.iter().map(Component::path);
        own.into_iter().chain(named).flatten().chain(values).chain(beside).map(String::as_str)
    }

    /// The arrays beside the label whose values are an enum, and whose enum names are lost.
    ///
    /// # Errors
    /// If the file is corrupt.
    pub fn nameless<'t>(&'t self, file: &dyn Arrays) -> Result<Vec<&'t str>> {
        let mut found = Vec::new();
        for path in self.paths().filter(|path| self.labels.as_deref() != Some(path)) {
            if values::class_names(&file.item(path)?).is_some() {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Whether something is made of the array at `path`.
    pub fn uses(&self, path: &str) -> bool {
        self.paths().any(|used| used == path)
    }
}

/// Names of the splits of `tables`, sorted; empty if not each is of a split.
pub(crate) fn splits(tables: &[Table]) -> Vec<String> {
    let all: Option<Vec<String>> = tables.iter().map(|table| table.split.clone()).collect();
    let mut splits = all.unwrap_or_default();
    splits.sort_unstable();
    splits.dedup();
    splits
}

/// The tables of the split `part`.
///
/// # Errors
/// If the split does not exist.
pub(crate) fn of_split(mut tables: Vec<Table>, part: &str) -> Result<Vec<Table>> {
    tables.retain(|table| table.split.as_deref() == Some(part));
    if tables.is_empty() { Err(no_split(part)) } else { Ok(tables) }
}

/// The error for a split that a file does not have.
pub(crate) fn no_split(part: &str) -> Error {
    Error::usage(format!("no split {part:?} in it"))
}
