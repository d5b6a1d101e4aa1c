//! How the samples of a file are kept: as rows of datasets, as a dataset each, or as a group each.

use super::{super::tables::table::Table, names::Members};

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
