//! A batch as handed out: the outputs of its samples, one after the other.

use std::sync::Arc;

use shardpack_format::Result;
use shardpack_imaging::training::Geometry;

use crate::{
    columns::Column,
    ring::Ring,
    run::Payload,
    slots::{Memory, Slots},
    state::State,
};

/// The label of a sample without one. No class has this value.
pub const NO_LABEL: i64 = i64::MIN;

/// A batch. Dropping it returns its memory to the ring: while the consumer keeps a batch, one batch fewer is made
/// ahead. A
/// consumer that keeps all batches and requests another one gets a batch in new memory.
#[derive(Debug)]
pub struct Batch {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) sources: Vec<usize>,
    pub(crate) samples: Vec<u64>,
    pub(crate) labels: Vec<i64>,
    /// Sealed; `Some` until the batch is dropped.
    pub(crate) slots: Option<Slots>,
    pub(crate) payloads: Vec<Payload>,
    /// For each view, the cut of each image.
    pub(crate) geometries: Vec<Vec<Geometry>>,
    pub(crate) mixed_labels: Option<Vec<f32>>,
    pub(crate) columns: Vec<Column>,
    pub(crate) state: State,
    pub(crate) ring: Arc<Ring>,
    /// Whether the batch was handed out.
    pub(crate) is_kept: bool,
}

impl Batch {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether the batch has no samples, for example because all were skipped.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The epoch of the batch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of the batch among those of this rank, from 0, since the start of the epoch or the resumed state.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// For a mix: the number of the dataset of each sample, from 0.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// The number of each sample in its dataset.
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// The label of each sample; [`NO_LABEL`] for samples without one.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// The labels of mixed images ([`Transform::mix`](crate::training::Transform::mix)) as shares of
    /// [`Options::mixed_classes`](crate::Options::mixed_classes) classes, `[len, classes]`, which add up to 1 for each image; `None`
    /// if the transform mixes no images.
    pub fn mixed_labels(&self) -> Option<&[f32]> {
        self.mixed_labels.as_deref()
    }

    /// The outputs: a contiguous array of [`Batch::len`] slots, with shape and dtype from the options of the output; of several
    /// views, the first. Empty for [`Output::Encoded`](crate::Output::Encoded).
    pub fn slots(&self) -> &[u8] {
        self.view(0)
    }

    /// As [`Batch::slots`], for view `number` of each image; empty if there is no such view.
    pub fn view(&self, number: usize) -> &[u8] {
        self.slots.as_ref().and_then(|slots| slots.all(number, self.len())).unwrap_or_default()
    }

    /// As [`Batch::view`], mutable: a batch belongs to the consumer.
    pub fn view_mut(&mut self, number: usize) -> &mut [u8] {
        let len = self.len();
        self.slots.as_mut().and_then(|slots| slots.all_mut(number, len)).unwrap_or_default()
    }

    /// Takes the memory of all views out of the ring for good. The new owner releases the returned memory.
    /// `memory` replaces it, and the next batch is made there. Returns `None` if there are no slots.
    ///
    /// # Errors
    /// If `memory` is shorter than [`Loader::batch_bytes`](crate::Loader::batch_bytes); the batch is unchanged.
    pub fn exchange(&mut self, memory: Box<dyn Memory>) -> Result<Option<Box<dyn Memory>>> {
        let Some(slots) = self.slots.as_mut() else { return Ok(None) };
        slots.exchange(memory).map(Some)
    }

    /// The payloads as stored; empty unless the output is [`Output::Encoded`](crate::Output::Encoded).
    pub fn payloads(&self) -> &[Payload] {
        &self.payloads
    }

    /// As [`Batch::payloads`], and removes them from the batch.
    pub fn take_payloads(&mut self) -> Vec<Payload> {
        std::mem::take(&mut self.payloads)
    }

    /// For each view the cut of each image, or nothing if operations of the view move pixels after the cut; empty unless the
    /// output is [`Output::Images`](crate::Output::Images).
    pub fn geometries(&self) -> &[Vec<Geometry>] {
        &self.geometries
    }

    /// As [`Batch::columns`], without a copy, and removes them from the batch.
    pub fn take_columns(&mut self) -> Vec<Column> {
        std::mem::take(&mut self.columns)
    }

    /// The requested components, in the order of [`Options::components`](crate::Options::components); then, for each further view,
    /// those that follow it.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The state that resumes right after this batch.
    pub fn state(&self) -> &State {
        &self.state
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            self.ring.give_back(slots, self.is_kept);
        }
    }
}
