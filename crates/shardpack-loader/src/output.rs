//! What is made of samples, and what becomes of those that are not right.

use std::{fmt, sync::Arc};

use shardpack_format::Result;
use shardpack_imaging::training::{Transform, Worker};
use shardpack_reader::Sample;

/// What is made of the payload of each sample.
#[derive(Clone, Debug, Default)]
pub enum Output {
    /// Nothing: [`Batch::payloads`](crate::Batch::payloads) has the bytes as they are stored, without a copy. For decoders on a GPU.
    #[default]
    Encoded,
    /// Images, decoded and transformed.
    Images(Box<Transform>),
    /// What a function of the caller's makes of them.
    Own(Own),
}

/// What a caller makes of a sample: [`Own::make`] is given the sample, a decoder, the random key of seed, epoch and sample,
/// and a slot to fill wholly.
type Function = dyn Fn(&Sample<'_>, &mut Worker, u64, &mut [u8]) -> Result<()> + Send + Sync;

/// A function of the caller's own, called by many threads at once.
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
    /// `function` fills slots of `slot_bytes`. An error of the kind [`Data`](shardpack_format::ErrorKind::Data) means that the
    /// sample is not right.
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
    /// Bytes of a slot: 0 where there are none.
    pub fn slot_bytes(&self) -> usize {
        match self {
            Self::Encoded => 0,
            Self::Images(transform) => transform.slot_bytes(),
            Self::Own(own) => own.slot_bytes,
        }
    }
}

/// What becomes of a sample that is not right: damaged, too large, of a kind that cannot be decoded.
///
/// That the system cannot read it is an error, always: a disk that fails says nothing of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// An error instead of the batch.
    #[default]
    Error,
    /// It is left out of its batch, which is shorter, and named in the receipt.
    Skip,
    /// The next sample of its class that is right comes in its place, and both are named in the receipt.
    Replace,
}
