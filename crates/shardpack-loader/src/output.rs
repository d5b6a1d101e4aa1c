//! The output of a loader per sample, and the policy for bad samples.

use std::{fmt, sync::Arc};

use shardpack_format::Result;
use shardpack_imaging::training::{Transform, Worker};
use shardpack_reader::Sample;

use crate::slots::Views;

/// The output for the payload of each sample.
#[derive(Clone, Debug, Default)]
pub enum Output {
    /// No output: [`Batch::payloads`](crate::Batch::payloads) has the bytes as stored, without a copy. For decoders on
    /// a GPU.
    #[default]
    Encoded,
    /// Decoded and transformed images: one view of each image, or several of one decode.
    Images(Arc<[Transform]>),
    /// The result of a function of the caller.
    Own(Own),
}

/// A caller's function for one sample. [`Own::make`] passes it the sample, a decoder, the random key of seed, epoch and
/// sample,
/// and a slot, which the function must fill completely.
type Function = dyn Fn(&Sample<'_>, &mut Worker, u64, &mut [u8]) -> Result<()> + Send + Sync;

/// A function of the caller. Many threads call it at once.
#[derive(Clone)]
pub struct Own {
    slot_bytes: usize,
    function: Arc<Function>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("slot_bytes", &self.slot_bytes).finish_non_exhaustive()
    }
}

impl Own {
    /// `function` fills slots of `slot_bytes`. An error of the kind [`Data`](shardpack_format::ErrorKind::Data) marks
    /// the sample
    /// as bad.
    pub fn new(
        slot_bytes: usize,
        function: impl Fn(&Sample<'_>, &mut Worker, u64, &mut [u8]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { slot_bytes, function: Arc::new(function) }
    }

    pub(crate) fn make(&self, sample: &Sample<'_>, worker: &mut Worker, key: u64, slot: &mut [u8]) -> Result<()> {
        (self.function)(sample, worker, key, slot)
    }
}

impl Output {
    /// Images with one view.
    pub fn images(transform: Transform) -> Self {
        Self::Images(Arc::new([transform]))
    }

    /// Whether samples have bytes in a slot.
    pub(crate) fn has_slots(&self) -> bool {
        match self {
            Self::Encoded => false,
            Self::Images(_) => true,
            Self::Own(own) => own.slot_bytes > 0,
        }
    }

    /// Bytes of each view in a slot; none for [`Output::Encoded`].
    pub fn views(&self) -> Views {
        match self {
            Self::Encoded => Views::new([]),
            Self::Images(views) => Views::new(views.iter().map(Transform::slot_bytes)),
            Self::Own(own) => Views::new([own.slot_bytes]),
        }
    }
}

/// Policy for a bad sample: damaged, too large, or of a kind that cannot be decoded.
///
/// A read that the system fails is always an error: a failing disk does not make a sample bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// Return an error instead of the batch.
    #[default]
    Error,
    /// Leave the sample out of its batch, which is shorter, and name the sample in the receipt.
    Skip,
    /// Use the next good sample of the same class instead, and name both in the receipt.
    Replace,
}
