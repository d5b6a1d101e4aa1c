//! Inspect tells what is in a dataset, in some shards of it, or in shards that somebody else wrote.
//!
//! Holds at all times: nothing is written but by [`crate::table`]; what is kept does not grow with the number of samples
//! of a dataset, and by 4 bytes a sample for foreign files; a problem is noted and the rest is looked at, one problem a
//! file, in the order of the shards.

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
pub(crate) use images::is_stray_payload;
pub use images::{Images, kind_of_name};
pub use samples::{Filter, Sample, samples};
pub use target::{Resolved, Target, View, resolve};

/// Requests that are in flight at a time, of a dataset at a URL.
pub const REQUESTS: usize = 16;

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// One for each dataset, and for each group of foreign files.
    pub datasets: Vec<Summary>,
    /// What is not right, in the order of the shards.
    pub problems: Vec<Error>,
}

/// What a summary is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A whole dataset, by its manifest and its indexes.
    Dataset,
    /// Some shards of a dataset.
    Shards,
    /// Shards without a manifest, all of one format.
    Foreign,
}

/// What is in one dataset, or in one group of foreign files. Fields in the order in which JSON has them.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What this is of.
    pub what: What,
    /// The folder of a dataset; the first of foreign files.
    pub path: String,
    /// Name of the dataset; of foreign files, how many more there are is in `shards`.
    pub name: String,
    /// Id of the dataset, in hexadecimal.
    pub id: Option<String>,
    /// Name of the format.
    pub format: String,
    /// `none`, or what the shards are compressed with.
    pub compression: String,
    /// How the samples were ordered; `None` where nobody says.
    pub order: Option<Order>,
    /// How images were changed before they were packed, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// Number of samples.
    pub samples: u64,
    /// Length of all images together in bytes.
    pub payload_bytes: u64,
    /// The files.
    pub shards: Shards,
    /// What it takes beside the images.
    pub overhead: Overhead,
    /// Samples of a block, of a dataset.
    pub block_samples: Option<u64>,
    /// Components of samples, the image first in a dataset, by name in foreign files, where labels may be left out.
    pub components: Vec<Component>,
    /// Formats and dimensions.
    pub images: Images,
    /// Crop tables beside the indexes, where there are some.
    pub crops: Option<CropTables>,
    /// Classes.
    pub classes: Classes,
    /// How well the stored order is shuffled, for a few numbers of readers.
    pub mix: Vec<ShuffleQuality>,
    /// What became of the images that were found, of a whole dataset.
    pub ledger: Option<Counts>,
    /// Files of the source that were no samples, of a whole dataset.
    pub ignored_files: BTreeMap<String, u64>,
    /// How foreign tar files are made.
    pub tar: Option<Tar>,
    /// How foreign files were understood that do not say so themselves: a few words each, each way once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub understood: Vec<Vec<String>>,
}

/// The files of shards.
#[derive(Clone, Debug, Serialize)]
pub struct Shards {
    /// How many.
    pub count: u64,
    /// Length of all together in bytes.
    pub bytes: u64,
    /// Lengths in bytes; `None` if there are no shards.
    pub size: Option<Spread>,
    /// Numbers of samples in one.
    pub samples: Option<Spread>,
}

/// What a dataset takes beside its images.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Overhead {
    /// Length of headers, padding and ends in the shards, unpacked, in bytes.
    pub framing_bytes: u64,
    /// Length of the components beside the image, in bytes; 0 where samples are values.
    pub other_bytes: u64,
    /// Length of the indexes in bytes.
    pub index_bytes: u64,
    /// By what share the shards are longer than the images alone, or all values; below 0 where compression makes up for it,
    /// `None` if there are none.
    pub share: Option<f64>,
}

/// One component of samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Component {
    /// Extension, feature or column.
    pub name: String,
    /// What it is, of values: `<f4[?x64]`, see [`shardpack_format::component::Type`].
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Samples that have it.
    pub samples: u64,
    /// Length of all together in bytes.
    pub bytes: u64,
}

/// Classes and how they are spread.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Classes {
    /// Number of classes; of foreign files, that of different labels.
    pub count: u64,
    /// Classes without samples.
    pub empty: u64,
    /// Samples without a class.
    pub unlabelled_samples: u64,
    /// Samples of the largest class for each of the smallest that is not empty.
    pub imbalance: Option<f64>,
    /// All of them, by label.
    pub list: Vec<Class>,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Its number.
    pub label: i64,
    /// Its name, if one is known.
    pub name: Option<String>,
    /// Its samples.
    pub samples: u64,
}

/// How foreign tar files are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tar {
    /// Members, folders and links too.
    pub members: u64,
    /// Members that one plain USTAR header describes; wids reads no others right.
    pub plain_members: u64,
    /// Members that are in no sample, by the reason.
    pub dropped: BTreeMap<String, u64>,
    /// Files without the two zero blocks at the end.
    pub unterminated_files: u64,
    /// Files with something behind their end that no reader sees.
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
        // Samples of values are all of them.
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

/// Looks at `targets` with `jobs` threads.
///
/// # Errors
/// When the person interrupts it, or nothing at all can be read. Other problems are in the report.
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
