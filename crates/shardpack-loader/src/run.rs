//! A run in memory: the pieces of a shard that were read together, and their samples.
//!
//! Holds at all times: a run stays in memory until its last sample is taken and released, and then returns its windows.

use std::{
    ops::{Deref, Range},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use shardpack_format::Result;
use shardpack_reader::{Sample, Shard, Window};

use crate::{
    budget::Budget,
    order::{Segment, Selection},
    plan::{Content, Copy, PlanSource},
};

/// A run in memory, or being read.
#[derive(Debug)]
pub(crate) struct Run {
    pub ticket: u64,
    pub sources: Arc<[PlanSource]>,
    pub content: Arc<Content>,
    pub segment: Segment,
    /// The samples that the rank needs.
    pub steps: Steps,
    /// The pieces that hold the samples, in shard order; `None` if the run has no valid ranges to read.
    pub pieces: OnceLock<Option<Vec<Piece>>>,
    /// Whether all samples were compared with their hashes and match; set before `pieces`.
    pub is_checked: AtomicBool,
    pub budget: Arc<Budget>,
}

/// Samples of a segment, by their index in the lane as [`Segment::start`].
#[derive(Debug)]
pub(crate) enum Steps {
    /// `samples` of them, from `first`, every `stride`-th.
    Every { first: u64, stride: u64, samples: u64 },
    /// These, ascending.
    These(Box<[u64]>),
}

impl Steps {
    /// Number of samples.
    pub fn len(&self) -> u64 {
        match self {
            Self::Every { samples, .. } => *samples,
            Self::These(steps) => steps.len() as u64,
        }
    }

    /// The sample with index `at`, which is less than [`Steps::len`].
    fn step(&self, at: u64) -> u64 {
        match self {
            Self::Every { first, stride, .. } => first + at * stride,
            Self::These(steps) => steps[at as usize],
        }
    }

    /// Whether the rank needs all samples of the segment, or all but the first ones.
    fn are_all(&self, segment: &Segment) -> bool {
        match self {
            Self::Every { stride, .. } => *stride == 1,
            Self::These(steps) => steps.len() as u64 == segment.len(),
        }
    }
}

/// Consecutive bytes of a shard, in memory.
#[derive(Debug)]
pub(crate) struct Piece {
    /// End of the piece in the shard.
    pub end: u64,
    pub window: Window,
    /// Capacity of the window when it was granted.
    pub granted_bytes: usize,
}

impl Drop for Run {
    fn drop(&mut self) {
        for piece in self.pieces.take().flatten().into_iter().flatten() {
            self.budget.give_back(piece.window, piece.granted_bytes);
        }
    }
}

/// Gaps up to this size are read together with their neighbours.
const MAX_GAP_BYTES: u64 = 64 * 1024;

impl Run {
    /// The samples that the rank needs, by their numbers in the content.
    fn needed(&self) -> impl Iterator<Item = u64> {
        (0..self.steps.len()).map(|at| self.segment.sample(self.steps.step(at) - self.segment.start))
    }

    /// The rows of `shard` with these samples, ascending.
    fn rows(&self, shard: Shard<'_>, copy: &Copy) -> Vec<u64> {
        let first = shard.samples().start;
        let mut rows: Vec<u64> = self.needed().map(|index| copy.number(index) - first).collect();
        rows.sort_unstable();
        rows
    }

    /// Compares all needed samples in `pieces` with their hashes, while the data is in the cache of a core.
    pub fn check(&self, shard: Shard<'_>, copy: &Copy, pieces: &[Piece]) {
        let is_right = |row| {
            let offset = shard.row(row).ok()?.offset;
            let piece = pieces.get(pieces.partition_point(|piece| piece.end <= offset))?;
            let sample = shard.sample_in(&piece.window, row).ok()??;
            shard.check(&sample).ok()
        };
        let are_right = self.rows(shard, copy).into_iter().all(|row| is_right(row).is_some());
        self.is_checked.store(are_right, Relaxed);
    }
}

/// A sample whose run is in memory.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub(crate) run: Arc<Run>,
    pub(crate) source: usize,
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) check_content: bool,
    /// Whether the sample replaces another one; then the run may not hold it.
    pub(crate) is_other: bool,
}

impl Fetched {
    /// Number of the sample in its dataset.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// For a mix: the number of the dataset, from 0.
    pub fn source(&self) -> usize {
        self.source
    }

    /// The epoch of the sample.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Replaces the sample by sample `number` of the same dataset.
    pub(crate) fn other(&self, number: u64) -> Self {
        Self { number, is_other: true, ..self.clone() }
    }

    /// The sample, with its bytes borrowed from the run.
    ///
    /// # Errors
    /// If the index, shard or content is invalid.
    pub fn sample(&self) -> Result<Sample<'_>> {
        let shard = self.run.sources[self.source].dataset.shard_of(self.number)?;
        let row = self.number - shard.samples().start;
        let pieces = self.run.pieces.get().and_then(Option::as_ref);
        let (copy, of_run) = self.run.content.shard(self.run.segment.shard);
        let pieces = pieces.filter(|_| (copy.source, of_run) == (self.source, shard.number()));
        let held = match pieces {
            None => None,
            Some(pieces) => {
                let offset = shard.row(row)?.offset;
                let piece = pieces.get(pieces.partition_point(|piece| piece.end <= offset));
                piece.map(|piece| shard.sample_in(&piece.window, row)).transpose()?.flatten()
            }
        };
        let sample = match held {
            Some(sample) if !self.is_other && self.run.is_checked.load(Relaxed) => return Ok(sample),
            Some(sample) => sample,
            // Read alone: then only an unreadable sample is lost, not its neighbours.
            None => shard.sample_alone(row)?,
        };
        shard.accept(sample, self.check_content || shard.dataset().checks_content())
    }
}

/// Bytes of a CPU cache line.
const LINE_BYTES: usize = 64;

/// Reads a byte of each cache line of small samples, so that the cache misses of all samples overlap.
pub(crate) fn fetch_lines(fetched: &[Fetched]) {
    let record = |one: &Fetched| {
        let shard = one.run.sources.get(one.source)?.dataset.shard_of(one.number).ok()?;
        shard.index().ok()?.record_hint(one.number - shard.samples().start)
    };
    let records: Vec<_> = fetched.iter().map(record).collect();
    let lines = |(one, record): (&Fetched, Option<Range<u64>>)| {
        let (pieces, record) = (one.run.pieces.get()?.as_ref()?, record?);
        let piece = pieces.get(pieces.partition_point(|piece| piece.end <= record.start))?;
        let bytes = piece.window.get(record)?;
        Some(bytes.iter().step_by(LINE_BYTES).fold(0, |sum: u8, byte| sum.wrapping_add(*byte)))
    };
    std::hint::black_box(fetched.iter().zip(records).filter_map(lines).fold(0, u8::wrapping_add));
}

/// The payload of a sample as stored. Keeps the run of the sample in memory, which holds more samples.
#[derive(Clone)]
pub struct Payload(PayloadBytes);

#[derive(Clone)]
enum PayloadBytes {
    /// A range of the shard, in a piece of the run.
    Of { run: Arc<Run>, piece: usize, range: Range<u64> },
    /// Bytes that were read alone, or joined from several ranges.
    Own(Arc<[u8]>),
}

impl Payload {
    /// The payload of `sample`, which must be the result of [`Fetched::sample`].
    pub(crate) fn new(fetched: &Fetched, sample: &Sample<'_>) -> Self {
        let (bytes, range) = (sample.bytes(), sample.image_range());
        let pieces = fetched.run.pieces.get().and_then(Option::as_ref).map_or(&[][..], Vec::as_slice);
        let is_in = |piece: &Piece| piece.window.get(range.clone()).is_some_and(|held| std::ptr::eq(held, bytes));
        match pieces.iter().position(is_in) {
            Some(piece) => Self(PayloadBytes::Of { run: Arc::clone(&fetched.run), piece, range }),
            None => Self(PayloadBytes::Own(bytes.into())),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            // Present, because `new` has found it: pieces are set once.
            PayloadBytes::Of { run, piece, range } => {
                let pieces = run.pieces.get().and_then(Option::as_ref);
                let held = pieces.and_then(|pieces| pieces.get(*piece)?.window.get(range.clone()));
                held.unwrap_or_default()
            }
            PayloadBytes::Own(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload").field("bytes", &self.len()).finish_non_exhaustive()
    }
}

/// The byte ranges of the needed samples of a run, ascending; close ranges are merged. Invalid rows are left out.
pub(crate) fn spans(shard: Shard<'_>, run: &Run, copy: &Copy) -> Vec<Range<u64>> {
    let (rows, most_gap): (Vec<Range<u64>>, u64) =
        if run.steps.are_all(&run.segment) && matches!(copy.selection, Selection::All(_)) {
            let row = |index: u64| index - copy.start - shard.samples().start;
            // The bytes between two ranges belong to another segment, which reads them.
            (run.segment.ranges().map(|range| row(range.start)..row(range.end)).collect(), 0)
        } else {
            (run.rows(shard, copy).into_iter().map(|row| row..row + 1).collect(), MAX_GAP_BYTES)
        };
    let mut spans: Vec<Range<u64>> = Vec::new();
    for span in rows.into_iter().filter_map(|rows| shard.span(rows).ok().flatten()) {
        match spans.last_mut() {
            Some(last) if span.start >= last.start && span.start <= last.end.saturating_add(most_gap) => {
                last.end = last.end.max(span.end);
            }
            _ => spans.push(span),
        }
    }
    spans.sort_unstable_by_key(|span| span.start);
    spans
}
