//! A batch as it is handed out: what was made of its samples, side by side.

use std::sync::Arc;

use shardpack_format::{Result, component::Form};

use crate::{
    ring::Ring,
    run::Payload,
    slots::{Memory, Slots},
    state::State,
};

/// The label of a sample that has none: what no class can be.
pub const NO_LABEL: i64 = i64::MIN;

/// A batch. Its memory is used again when it is dropped: as long as it is kept, one batch fewer is made ahead. Who keeps all
/// of them and asks for another gets one in new memory.
#[derive(Debug)]
pub struct Batch {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) sources: Vec<usize>,
    pub(crate) samples: Vec<u64>,
    pub(crate) labels: Vec<i64>,
    /// Sealed; there until it is dropped.
    pub(crate) slots: Option<Slots>,
    pub(crate) payloads: Vec<Payload>,
    pub(crate) columns: Vec<Column>,
    pub(crate) state: State,
    pub(crate) ring: Arc<Ring>,
    /// Whether it was handed out.
    pub(crate) is_kept: bool,
}

/// A component beside the payload, of all samples of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name in the manifest.
    pub name: String,
    /// What it holds.
    pub values: Values,
}

/// The values of a [`Column`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Every sample has an array of this form: their items, one array behind the other, in C order.
    Stacked {
        /// dtype as numpy writes it (`<f4`), and shape of one array.
        form: Form,
        /// The items of all, little-endian unless the dtype says otherwise.
        items: Vec<u8>,
    },
    /// As they are: a file, text, JSON, `.npy`, as the form says; `None` for samples without it.
    Each(Vec<Option<(Form, Vec<u8>)>>),
}

impl Batch {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there is none, as of a batch whose samples were all skipped.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The epoch that it is of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Its number among the rank's batches since the start of the epoch, or since the state that was gone on from.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Of a mix, which of its datasets each sample is of, from 0.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// The numbers in the dataset of its samples.
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// Their labels; [`NO_LABEL`] for those without.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// What was made of the payloads: a contiguous array of [`Batch::len`] slots, each of the shape and dtype that the output
    /// says. Empty where nothing is made of them.
    pub fn slots(&self) -> &[u8] {
        self.slots.as_ref().and_then(|slots| slots.all(self.len())).unwrap_or_default()
    }

    /// As [`Batch::slots`], to be changed: a batch is the consumer's.
    pub fn slots_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        self.slots.as_mut().and_then(|slots| slots.all_mut(len)).unwrap_or_default()
    }

    /// Takes the memory of [`Batch::slots`] out of the ring for good and puts `memory` in its place, where the next batch is made:
    /// what the caller has allocated for one batch, and somebody else is to release. `None` where there are no slots.
    ///
    /// # Errors
    /// When it is shorter than [`Options::batch`](crate::Options::batch) slots; the batch is as it was.
    pub fn exchange(&mut self, memory: Box<dyn Memory>) -> Result<Option<Box<dyn Memory>>> {
        let Some(slots) = self.slots.as_mut() else { return Ok(None) };
        slots.exchange(memory).map(Some)
    }

    /// The payloads as they are stored; empty where they were not asked for.
    pub fn payloads(&self) -> &[Payload] {
        &self.payloads
    }

    /// As [`Batch::payloads`]: nothing of them is left in the batch.
    pub fn take_payloads(&mut self) -> Vec<Payload> {
        std::mem::take(&mut self.payloads)
    }

    /// As [`Batch::columns`], without a copy: nothing of them is left in the batch.
    pub fn take_columns(&mut self) -> Vec<Column> {
        std::mem::take(&mut self.columns)
    }

    /// The components that were asked for, in that order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Where a run goes on that ends after this batch.
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
