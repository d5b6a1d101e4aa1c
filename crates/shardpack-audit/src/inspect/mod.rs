//! Inspects a dataset, some of its shards, or foreign shards.
//!
//! Holds at all times: only [`crate::table`] writes anything; memory does not grow with the samples of a dataset, and grows by 4 bytes
//! per sample of foreign files; after a problem the rest is still inspected, with at most one problem per file, in shard order.

mod crop_tables;
mod dataset;
mod extract;
mod foreign;
mod histogram;
mod images;
mod samples;
mod scan;
mod target;

use std::collections::BTreeMap;

use serde::Serialize;
use shardpack_format::{
    Error, Result,
    manifest::{Counts, Order},
};

use crate::{monitor::Monitor, parallel::in_pool, shuffle_quality::ShuffleQuality};

pub use crop_tables::CropTables;
pub use extract::{Extracted, extract};
pub use histogram::Spread;
pub use images::{Images, kind_of_name};
pub use samples::{Filter, Sample, samples};
pub use target::{Resolved, Target, View, resolve};

/// Concurrent requests for a dataset at a URL.
pub const REQUESTS: usize = 16;

/// Result of an inspection.
#[derive(Debug)]
pub struct Report {
    /// One summary per dataset and per group of foreign files.
    pub datasets: Vec<Summary>,
    /// Problems, in shard order.
    pub problems: Vec<Error>,
}

/// Subject of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A whole dataset, from its manifest and indexes.
    Dataset,
    /// Some shards of a dataset.
    Shards,
    /// Shards without a manifest, all of one format.
    Foreign,
}

/// Content of one dataset or one group of foreign files.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The subject.
    pub what: What,
    /// Folder of the dataset, or path of the first foreign file.
    pub path: String,
    /// Name of the dataset, or of the foreign files (their number is in `shards`).
    pub name: String,
    /// Id of the dataset in hexadecimal.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[0-9a-f]{64}$")))]
    pub id: Option<String>,
    /// Name of the format.
    pub format: String,
    /// `none`, or the compression of the shards.
    pub compression: String,
    /// Order of the samples; `None` if unknown.
    pub order: Option<Order>,
    /// Changes made to images before they were packed, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// Number of samples.
    pub samples: u64,
    /// Total length of the images in bytes.
    pub payload_bytes: u64,
    /// The shard files.
    pub shards: Shards,
    /// Space used besides the images.
    pub overhead: Overhead,
    /// Samples per block; for datasets only.
    pub block_samples: Option<u64>,
    /// Components of the samples. In a dataset the image comes first; for foreign files they are sorted by name and may omit labels.
    pub components: Vec<Component>,
    /// Image kinds and dimensions.
    pub images: Images,
    /// Crop tables, if any.
    pub crops: Option<CropTables>,
    /// Classes.
    pub classes: Classes,
    /// Shuffle quality of the stored order for a few numbers of readers.
    pub mix: Vec<ShuffleQuality>,
    /// Counts from the ledger; for whole datasets only.
    pub ledger: Option<Counts>,
    /// Files of the source that were not samples; for whole datasets only.
    pub ignored_files: BTreeMap<String, u64>,
    /// Structure of foreign tar files.
    pub tar: Option<Tar>,
    /// Distinct interpretations of foreign files whose format leaves a choice, a few words each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub understood: Vec<Vec<String>>,
}

/// Totals over shard files.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shards {
    /// Number of files.
    pub count: u64,
    /// Number of files that could not be read, or not to their end: classes, kinds, components and shuffle quality lack their samples.
    pub unread: u64,
    /// Total length in bytes.
    pub bytes: u64,
    /// Lengths in bytes; `None` if there are no shards.
    pub size: Option<Spread>,
    /// Samples per file.
    pub samples: Option<Spread>,
}

/// Space that a dataset uses besides its images.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overhead {
    /// Unpacked length in bytes of headers, padding and ends in the shards.
    pub framing_bytes: u64,
    /// Length in bytes of the components besides the image; 0 if samples are values.
    pub other_bytes: u64,
    /// Length of the indexes in bytes.
    pub index_bytes: u64,
    /// Size of the shards relative to the images alone (or to all values), minus 1. Negative if compression saves more than the overhead;
    /// `None` if there is no payload.
    pub share: Option<f64>,
}

/// One component of the samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Component {
    /// Extension, feature or column.
    pub name: String,
    /// Type of a value component: `<f4[?x64]`. Other components have none.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Number of samples with the component.
    pub samples: u64,
    /// Total length in bytes.
    pub bytes: u64,
    /// Names of the class numbers in the component, if they have names: number 0 is the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
}

/// Classes and their distribution.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Classes {
    /// Number of classes; for foreign files the number of distinct labels.
    pub count: u64,
    /// Number of classes without samples.
    pub empty: u64,
    /// Number of samples without a class.
    pub unlabelled_samples: u64,
    /// Samples of the largest class divided by samples of the smallest non-empty class.
    pub imbalance: Option<f64>,
    /// All classes, by label.
    pub list: Vec<Class>,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Class {
    /// Class number.
    pub label: i64,
    /// Class name, if known.
    pub name: Option<String>,
    /// Number of samples.
    pub samples: u64,
}

/// Structure of foreign tar files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tar {
    /// Number of members, including folders and links.
    pub members: u64,
    /// Members with a single plain USTAR header; wids reads no others correctly.
    pub plain_members: u64,
    /// Members that belong to no sample, counted by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Files without the two zero blocks at the end.
    pub unterminated_files: u64,
    /// Files with data after the end marker, which no reader sees.
    pub trailing_files: u64,
    /// Files that could not be read to their end.
    pub unreadable_files: u64,
}

impl Classes {
    fn new(list: Vec<Class>, unlabelled_samples: u64) -> Self {
        let full = || list.iter().map(|class| class.samples).filter(|samples| *samples > 0);
        let imbalance = full().max().zip(full().min()).map(|(most, fewest)| most as f64 / fewest as f64);
        let empty = (list.len() - full().count()) as u64;
        Self { count: list.len() as u64, empty, unlabelled_samples, imbalance, list }
    }
}

impl Overhead {
    fn new(
        content_bytes: u64,
        components: &[Component],
        payload_bytes: u64,
        shard_bytes: u64,
        index_bytes: u64,
    ) -> Self {
        let component_bytes: u64 = components.iter().map(|component| component.bytes).sum();
        // If samples are values, all components are payload.
        let is_of_values = payload_bytes == 0 || components.first().is_some_and(|first| first.kind.is_some());
        let payload_bytes = if is_of_values { component_bytes } else { payload_bytes };
        Self {
            framing_bytes: content_bytes.saturating_sub(component_bytes),
            other_bytes: component_bytes.saturating_sub(payload_bytes),
            index_bytes,
            share: (payload_bytes > 0).then(|| shard_bytes as f64 / payload_bytes as f64 - 1.0),
        }
    }
}

/// Inspects `targets` with `jobs` threads.
///
/// # Errors
/// If the user cancels, or nothing can be read at all. Other problems are in the report.
pub fn inspect(targets: &[Target], jobs: usize, monitor: &dyn Monitor) -> Result<Report> {
    in_pool(jobs, || {
        let mut report = Report { datasets: Vec::new(), problems: Vec::new() };
        for target in targets {
            let (summary, problems) = match target {
                Target::Dataset(view) => dataset::inspect(view, monitor)?,
                Target::Foreign(files) => foreign::inspect(files, monitor)?,
            };
            report.datasets.push(summary);
            report.problems.extend(problems);
        }
        Ok(report)
    })
}
