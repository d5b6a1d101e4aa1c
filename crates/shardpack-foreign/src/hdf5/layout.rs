//! How the samples of a file are kept: as rows of datasets, as a dataset each, or as a group each.

use std::ops::Range;

use hdf5_reader::Hdf5File;
use shardpack_format::Result;

use super::{
    components::Component,
    description::{Seen, TOLD},
    names::Members,
    open, values,
};

/// How images are kept.
#[derive(Debug)]
pub(super) enum Layout {
    /// As rows of datasets.
    Rows(Vec<Table>),
    /// A dataset each, in groups that may be classes.
    ImageDatasets(Vec<Members>),
    /// One group per sample, of values or of an image and its fields.
    SampleGroups(Samples),
}

/// Groups of samples, and datasets of the file outside all groups.
#[derive(Debug)]
pub(super) struct Samples {
    pub groups: Vec<Members>,
    /// The dataset of each that is its image, if one is.
    pub image: Option<String>,
    pub unused: Vec<String>,
}

/// A dataset of images and the datasets that accompany it, by path.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub images: String,
    /// Datasets whose rows are samples that are no images, with their names as components; then `images` is the first.
    pub values: Vec<(String, String)>,
    pub labels: Option<String>,
    pub filenames: Option<String>,
    /// The axes of each image, if rows are pixels of varying number.
    pub shapes: Option<String>,
    /// Datasets whose rows go with the images.
    pub beside: Vec<Component>,
    /// Unused datasets of the file.
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
    /// datasets that are reported.
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

    /// Paths of all datasets that the table uses; a path may repeat.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let own = [Some(&self.images), self.labels.as_ref()];
        let named = [self.filenames.as_ref(), self.shapes.as_ref()];
        let values = self.values.iter().map(|(path, _)| path);
        let beside = self.beside.iter().map(Component::path);
        own.into_iter().chain(named).flatten().chain(values).chain(beside).map(String::as_str)
    }

    /// The datasets beside the label whose values are an enum, and whose enum names are lost.
    ///
    /// # Errors
    /// If the file is corrupt.
    pub fn nameless<'t>(&'t self, file: &Hdf5File) -> Result<Vec<&'t str>> {
        let mut found = Vec::new();
        for path in self.paths().filter(|path| self.labels.as_deref() != Some(path)) {
            if values::class_names(file.dataset(path).map_err(open::to_error)?.dtype()).is_some() {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Whether something is made of the dataset at `path`.
    pub fn uses(&self, path: &str) -> bool {
        self.paths().any(|used| used == path)
    }
}
