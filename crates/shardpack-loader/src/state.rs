//! The position of a run as a small value, to store with a checkpoint.

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result, manifest::Blake3};
use shardpack_reader::Dataset;

use crate::{
    bucket::Bucketing,
    order::{Options, Shuffle},
    plan::Plan,
};

/// Version of the fields that follow; increases when their meaning changes.
const VERSION: u32 = 2;
/// States of this version have the same fields, and their runs are not rotated.
const NOT_ROTATED: u32 = 1;

/// The position of a run: all ranks have the same state after the same number of batches. Any number of ranks can resume from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    version: u32,
    /// Id of the dataset; for a mix, of the first one.
    dataset: Blake3,
    shuffle: String,
    seed: u64,
    lanes: u64,
    run_blocks: u64,
    /// Fingerprint of the samples and their counts, unless the run has every sample of one dataset once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subset: Option<String>,
    /// Batches by length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket: Option<Bucketing>,
    /// The current epoch, from 0.
    pub epoch: u64,
    /// Number of positions of the epoch that all ranks together have taken.
    pub position: u64,
}

impl State {
    pub(crate) fn new(plan: &Plan, epoch: u64, position: u64) -> Self {
        let order = &plan.order;
        Self {
            version: if order.rotated { VERSION } else { NOT_ROTATED },
            dataset: plan.id(),
            subset: plan.subset.clone(),
            bucket: plan.bucketing.clone(),
            shuffle: order.shuffle.name().to_owned(),
            seed: order.seed,
            lanes: order.lanes,
            run_blocks: order.run_blocks,
            epoch,
            position,
        }
    }

    /// The options of the order, if the state is of `dataset`.
    ///
    /// # Errors
    /// If the state is of another dataset, has a later version, or is invalid.
    pub fn order(&self, dataset: &Dataset) -> Result<Options> {
        if ![VERSION, NOT_ROTATED].contains(&self.version) {
            let what = format!("a state of version {}, this program reads {NOT_ROTATED} and {VERSION}", self.version);
            return Err(Error::data(what));
        }
        if self.dataset != dataset.manifest().id {
            let what = "the state is of another dataset: the ids in it and in the manifest differ";
            return Err(Error::usage(what)
                .in_file(dataset.folder())
                .help("a dataset that was packed anew begins at epoch 0"));
        }
        let shuffle = Shuffle::parse(&self.shuffle)
            .ok_or_else(|| Error::data(format!("a state with the shuffle {:?}, which is not known", self.shuffle)))?;
        let &Self { version, seed, lanes, run_blocks, .. } = self;
        Ok(Options { shuffle, seed, lanes, run_blocks, rotated: version != NOT_ROTATED })
    }

    /// Batches by length, if the run has them.
    pub(crate) fn bucketing(&self) -> Option<&Bucketing> {
        self.bucket.as_ref()
    }

    /// Whether the state is of a run with this plan.
    pub(crate) fn is_of(&self, plan: &Plan) -> Result<bool> {
        let samples = plan.content(self.epoch)?.layout.samples();
        if self.position > samples {
            return Err(Error::data(format!("a state at position {} of {samples} samples", self.position)));
        }
        let Some(first) = plan.sources.first() else { return Ok(false) };
        let is_order = self.order(&first.dataset)? == plan.order && self.bucket == plan.bucketing;
        Ok(is_order && self.subset == plan.subset)
    }

    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        // Cannot fail: the fields are numbers and strings.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the JSON from [`State::to_json`].
    ///
    /// # Errors
    /// If `text` is not such JSON.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::data(format!("no state of a loader: {error}")))
    }
}
