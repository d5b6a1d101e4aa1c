//! Values that are taken apart together, by all threads.
//!
//! A batch has [`BATCH_BYTES`] and one value more at most; its samples keep the order of its entries.

use std::{
    ops::Range,
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use shardpack_format::formats::foreign::FieldSelection;
use shardpack_runtime::threads;

use super::{
    super::MissingImage,
    Entry,
    coding::Coding,
    values::{ValueSample, of_image},
};

/// Bytes of values parsed together: enough to make the cost of starting threads negligible.
pub(super) const BATCH_BYTES: usize = 1 << 19;
/// Values that are, at most.
pub(super) const BATCH_ENTRIES: usize = 1 << 12;
/// Values for which another thread is begun.
const THREAD_ENTRIES: usize = 64;
/// How values are taken apart.
pub(super) struct Decode {
    pub coding: Coding,
    /// Length in bytes of the header before the content of each value.
    pub header_bytes: u64,
    pub wanted: FieldSelection,
}

impl Decode {
    /// The samples of a value of `bytes` bytes that begins with `value`.
    pub fn found(&self, value: &[u8], bytes: u64) -> Vec<ValueSample> {
        let header_bytes = self.header_bytes;
        match value.get(header_bytes as usize..) {
            None => {
                let what = format!("{bytes} bytes, but {header_bytes} are skipped before the image");
                vec![ValueSample::nothing(MissingImage::Damaged(what))]
            }
            Some(input) => match self.coding {
                Coding::Image => vec![of_image(input, bytes - header_bytes)],
                coding => coding.samples(input, &self.wanted),
            },
        }
    }
}

/// Values that are taken apart together.
#[derive(Default)]
pub(super) struct Batch {
    /// The values, concatenated.
    pub values: Vec<u8>,
    /// The entries, each with the range of its value in `values`.
    pub entries: Vec<(Entry, Range<usize>)>,
    /// The samples of each.
    pub found: Vec<Vec<ValueSample>>,
}

/// A batch whose samples a thread finds meanwhile.
pub enum Ahead {
    Thread(JoinHandle<Option<Batch>>),
    /// No thread could be started.
    Done(Box<Batch>),
}

impl Ahead {
    pub fn begin(batch: Batch, decode: Arc<Decode>, threads: usize) -> Self {
        // The batch is still available if the thread cannot start.
        let batch = Arc::new(Mutex::new(Some(batch)));
        let take = |batch: &Mutex<Option<Batch>>| batch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (given, of_thread) = (Arc::clone(&batch), Arc::clone(&decode));
        let work = move || take(&given).map(|batch| batch.decoded(&of_thread, threads));
        match threads::spawn(None, work) {
            Ok(thread) => Self::Thread(thread),
            Err(_) => Self::Done(Box::new(take(&batch).unwrap_or_default().decoded(&decode, 1))),
        }
    }

    /// Waits for its samples.
    pub fn end(self) -> Batch {
        match self {
            Self::Thread(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)).unwrap_or_default(),
            Self::Done(batch) => *batch,
        }
    }
}

impl Batch {
    /// The same batch with its samples.
    pub fn decoded(self, decode: &Decode, threads: usize) -> Self {
        let found_in = |part: &[(Entry, Range<usize>)]| -> Vec<_> {
            part.iter().map(|(_, place)| decode.found(&self.values[place.clone()], place.len() as u64)).collect()
        };
        let threads = threads.min(self.entries.len() / THREAD_ENTRIES).max(1);
        // Not threads of rayon: one that waits there may begin another file, and in that another.
        let found = threads::scope(|scope| {
            let mut parts = self.entries.chunks(self.entries.len().div_ceil(threads).max(1));
            let first = parts.next().unwrap_or_default();
            let start = |part| threads::start(scope, move || found_in(part)).map_err(|_| part);
            let others: Vec<_> = parts.map(start).collect();
            let mut found = found_in(first);
            for other in others {
                found.extend(match other {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // The system cannot start more threads.
                    Err(part) => found_in(part),
                });
            }
            found
        });
        Self { found, ..self }
    }
}
