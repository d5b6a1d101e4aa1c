//! Copy moves images to the positions that the plan fixed, and passes finished shards on to be sealed.
//!
//! The unit of work is a span: consecutive samples of one shard, about 8 MiB, fewer bytes for small samples, so
//! that threads share a shard. Two orders of reading give the same bytes. *Stream* copies each span in plan
//! order through one small buffer that stays in the CPU cache. *Window* reads as many spans as fit the memory
//! budget in physical order, each image into its final place, and then writes the spans.
//!
//! Holds at all times: at most the memory budget of images in flight; each image is read once and hashed while
//! in cache; the bytes written do not depend on the number of threads. A shard with a bad sample is never
//! sealed with a hole: it is packed again without that sample, or not at all.

mod boxes;
mod in_order;
mod memory;
mod output;
mod record;
mod seal_shard;
mod sink;
mod span;
mod window;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
};

use rayon::prelude::*;
use shardpack_format::{
    Error, Result,
    formats::Format,
    index::{Index, Rows},
    threads::cannot_start,
};
use shardpack_runtime::threads;
use shardpack_storage::{Size, Storage};

use crate::{
    monitor::Monitor,
    plan::{Compression, Plan},
    source::{ReadError, Refusal, SampleReader, storage::ReadOrder},
    sys,
};
use in_order::{Ahead, Hashes, InOrder};
pub(crate) use memory::{fit, fit_any};
use output::{Output, Shared};
pub use record::RecordSpan;
use record::Renderer;
use sink::{Hashed, Sink};
use span::Span;

pub use seal_shard::{Sealed, ShardHashes, clear, recall};
pub(crate) use seal_shard::{index_file, ledger_part};

/// Policy for a sample that cannot be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBad {
    /// Finish all other shards, report all bad samples, seal nothing.
    Error,
    /// Leave bad samples out and record them in the ledger.
    Skip,
}

/// A copy of one dataset.
pub struct Copy<'a> {
    /// Assigns samples to shards.
    pub plan: &'a Plan,
    /// Reads the bytes of samples.
    pub source: &'a dyn SampleReader,
    /// Folder of the dataset. If DST is a URL: local folder that keeps the indexes until all is sealed.
    pub dst: &'a Path,
    /// Receives shards, and indexes if it is not `dst`.
    pub storage: &'a dyn Storage,
    /// Checked before a shard appears in `storage`: fails if another process packs something else there.
    pub guard: &'a (dyn Fn() -> Result<()> + Sync),
    /// Folder for unfinished files, on the same file system; this process alone uses it.
    pub work: &'a Path,
    /// Folder for records of finished shards that a later run needs; shared by all processes that pack into
    /// `dst`.
    pub shared: &'a Path,
    /// Names of the hashes of whole shards that are wanted: see [`Sealed::hashes`].
    pub hashes: &'a [String],
    /// Order of reading.
    pub read_order: ReadOrder,
    /// Number of threads that frame, hash and write.
    pub jobs: usize,
    /// Budget for images in flight, in bytes.
    pub memory_bytes: u64,
    /// Policy for bad samples.
    pub on_bad: OnBad,
    /// Receives progress.
    pub monitor: &'a dyn Monitor,
}

/// Result of a copy.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Sealed shards by number; all shards, unless a sample was bad and the policy is [`OnBad::Error`].
    pub shards: BTreeMap<usize, Sealed>,
    /// Samples that were not packed: number in the listing, and the reason.
    pub bad: BTreeMap<u64, Refusal>,
}

/// Results of earlier passes over a shard, by position of the sample.
#[derive(Default)]
struct PassResults {
    /// Samples that cannot be packed.
    bad: BTreeMap<u64, Refusal>,
    /// Bytes by which records are longer than their layout.
    grown: BTreeMap<u64, u32>,
}

impl PassResults {
    fn is_empty(&self) -> bool {
        self.bad.is_empty() && self.grown.is_empty()
    }
}

/// A shard while its spans are copied.
#[derive(Default)]
struct Open {
    output: Option<Shared>,
    spans_left: usize,
    parts: BTreeMap<usize, SpanResult>,
    known: PassResults,
}

/// Result of one span.
struct SpanResult {
    rows: Rows,
    hashed: Hashed,
}

/// Bytes before the first record of a shard with this index.
pub fn head_of(format: &dyn Format, index: &Index<Vec<u8>>) -> Result<Vec<u8>> {
    let mut head = vec![0; format.head_bytes(index.len()) as usize];
    if !head.is_empty() {
        format.head(&mut lengths(index), &mut head)?;
    }
    Ok(head)
}

/// Bytes after the last record of a shard with this index, whose head and records are `records_end` long.
pub fn tail_of(format: &dyn Format, index: &Index<Vec<u8>>, records_end: u64) -> Result<Vec<u8>> {
    let mut tail = vec![0; format.tail_bytes(index.len(), records_end) as usize];
    format.tail(&mut lengths(index), &mut tail)?;
    Ok(tail)
}

/// Lengths of the records of a shard with this index.
fn lengths(index: &Index<Vec<u8>>) -> impl Iterator<Item = u32> {
    // An invalid row was found earlier, and makes a head or a tail that does not fit here.
    index.iter().map(|row| row.map_or(0, |row| row.record_bytes))
}

/// Bytes of shards that wait to be hashed in order may take the memory budget divided by this number, in addition to it.
const HASH_SHARE: u64 = 8;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Copy<'a> {
    /// Copies all shards of the plan except `sealed`, which an earlier run has finished.
    ///
    /// # Errors
    /// On I/O errors. Bad samples are not errors here.
    pub fn run(&self, sealed: BTreeMap<usize, Sealed>) -> Result<Outcome> {
        let todo: Vec<usize> = self.plan.held.clone().filter(|shard| !sealed.contains_key(shard)).collect();
        let spans = todo.par_iter().map(|shard| span::split(self.plan, *shard)).collect::<Result<Vec<_>>>()?;
        let opens = spans.iter().map(|spans| Open { spans_left: spans.len(), ..Open::default() });
        let (send, receive) = mpsc::sync_channel(4);
        let run = CopyState {
            copy: self,
            opens: todo.iter().copied().zip(opens.map(Mutex::new)).collect(),
            outcome: Mutex::new(Outcome { shards: sealed, bad: BTreeMap::new() }),
            failed: Mutex::new(None),
            stop: AtomicBool::new(false),
            ahead: Ahead::new(self.memory_bytes / HASH_SHARE),
        };
        let receive = Mutex::new(receive);
        threads::scope(|scope| {
            for number in 0..self.jobs.clamp(1, 4) {
                match threads::start(scope, || run.seal_all(&receive)) {
                    Ok(_) => {}
                    Err(error) if number == 0 => return run.fail(cannot_start(error)),
                    // One error is enough.
                    Err(_) => break,
                }
            }
            let spans: Vec<Span> = spans.into_iter().flatten().collect();
            match self.read_order {
                ReadOrder::Plan => run.stream_all(&spans, &send),
                ReadOrder::Physical { reads } => run.window_all(&spans, reads, &send),
            }
            // Ends the sealers after they have received all shards.
            drop(send);
        });
        let failed = lock(&run.failed).take();
        let outcome = run.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(changed) = self.source.unchanged() {
            // The source has changed, so these shards may hold either version: without its index a shard is not finished.
            for shard in todo.iter().filter(|shard| outcome.shards.contains_key(*shard)) {
                sys::remove_file(&self.dst.join(index_file(self.plan, *shard)))?;
            }
            return Err(changed);
        }
        failed.map_or(Ok(outcome), Err)
    }

    /// Number of threads whose buffers fit the budget.
    fn threads(&self) -> Result<usize> {
        fit(self.plan, self.memory_bytes).map(|fit| self.jobs.clamp(1, fit))
    }
}

/// Shared by the threads of a copy.
struct CopyState<'c, 'a> {
    copy: &'c Copy<'a>,
    opens: BTreeMap<usize, Mutex<Open>>,
    outcome: Mutex<Outcome>,
    failed: Mutex<Option<Error>>,
    stop: AtomicBool,
    ahead: Arc<Ahead>,
}

impl CopyState<'_, '_> {
    fn fail(&self, error: Error) {
        lock(&self.failed).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
        self.ahead.stop();
    }

    /// Whether to continue; checks for cancellation too.
    fn goes_on(&self) -> bool {
        if let Err(error) = self.copy.monitor.check_cancelled()
            && !self.stop.load(Ordering::Relaxed)
        {
            self.fail(error);
        }
        !self.stop.load(Ordering::Relaxed)
    }

    /// Seals finished shards until all senders are gone.
    fn seal_all(&self, receive: &Mutex<mpsc::Receiver<seal_shard::Finished>>) {
        loop {
            let next = lock(receive).recv();
            let Ok(finished) = next else { return };
            if self.stop.load(Ordering::Relaxed) {
                continue;
            }
            let shard = finished.shard;
            match seal_shard::seal(self.copy, finished) {
                Ok(sealed) => {
                    lock(&self.outcome).shards.insert(shard, sealed);
                }
                Err(error) => self.fail(error),
            }
        }
    }

    fn stream_all(&self, spans: &[Span], send: &mpsc::SyncSender<seal_shard::Finished>) {
        let threads = match self.copy.threads() {
            Ok(threads) => threads,
            Err(error) => return self.fail(error),
        };
        self.in_threads(threads, spans, |span, buffer| self.stream_one(*span, buffer, send));
    }

    /// Copies a span of which nothing was read before.
    fn stream_one(
        &self,
        span: Span,
        buffer: &mut Vec<u8>,
        send: &mpsc::SyncSender<seal_shard::Finished>,
    ) -> Result<()> {
        let streamed = self.stream(span, &PassResults::default(), buffer)?;
        self.finish_span(span, streamed, buffer, send)
    }

    /// Runs `work` on `items` in order in `jobs` threads, each with its own buffer, until all are done or one
    /// fails.
    fn in_threads<T: Sync>(&self, jobs: usize, items: &[T], work: impl Fn(&T, &mut Vec<u8>) -> Result<()> + Sync) {
        let next = AtomicUsize::new(0);
        threads::each(jobs, || {
            let mut buffer = Vec::new();
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !self.goes_on() {
                    return;
                }
                if let Err(error) = work(item, &mut buffer) {
                    return self.fail(error);
                }
            }
        });
    }

    /// Output of a shard, created by the first caller; the shard has `content_bytes` before compression.
    fn output(&self, shard: usize, content_bytes: u64) -> Result<Shared> {
        let mut open = lock(&self.opens[&shard]);
        if let Some(output) = &open.output {
            return Ok(Arc::clone(output));
        }
        let plan = self.copy.plan;
        let size = match plan.options.compression {
            Compression::None => Size::Known(content_bytes),
            Compression::Zstd(_) => Size::Content(content_bytes),
        };
        let file = self.copy.storage.create(&plan.shard_file(shard), size)?;
        // If a sample is known to be missing, so are bytes.
        let is_hashed = !self.copy.hashes.is_empty() && open.known.is_empty();
        let hashes = is_hashed.then(|| InOrder::new(self.copy.hashes, &self.ahead)).transpose()?;
        Ok(Arc::clone(open.output.insert(Arc::new(Output { file, hashes }))))
    }

    /// Copies a span in plan order through `buffer` into its shard. If `known` is not empty, the span must be
    /// the whole shard.
    fn stream(&self, span: Span, known: &PassResults, buffer: &mut Vec<u8>) -> Result<Streamed> {
        let copy = self.copy;
        let mut renderer = Renderer::new(copy.plan);
        let mut found = Streamed::default();
        let output = self.output(span.shard, span.content_bytes)?;
        let mut sink = Sink::new(copy, output, span.start(), span.content_bytes)?;
        sink.write_head(&self.head(&span, known)?)?;
        let (mut filled, mut held, mut offset) = (0, 0, span.offset);
        for position in span.first..span.first + span.samples {
            if !self.goes_on() {
                return Ok(found);
            }
            if known.bad.contains_key(&position) {
                continue;
            }
            let growth = known.grown.get(&position).copied().unwrap_or(0);
            let place = renderer.place(position, offset, growth)?;
            let end = filled + place.record_bytes() as usize;
            if buffer.len() < end {
                buffer.resize(end, 0);
            }
            let record = &mut buffer[filled..end];
            match place.read(copy.source, &copy.plan.listing, copy.plan.format(), record) {
                Ok(()) => {}
                Err(ReadError::Fatal(error)) => return Err(error),
                Err(ReadError::Refused(refusal)) => {
                    found.refused.insert(position, refusal);
                    continue;
                }
            }
            if known.is_empty() {
                copy.monitor.advance(1, place.payload_bytes());
            }
            let grows = copy.plan.format().growth(place.payload(record)?);
            if grows != growth {
                found.grown.insert(position, grows);
            }
            // A shard with a bad sample is not sealed: this pass only has to find the other bad samples.
            if !found.is_whole() {
                continue;
            }
            renderer.render(&place, record)?;
            (filled, held, offset) = (end, held + 1, offset + u64::from(place.record_bytes()));
            if sink.is_full(filled, held) {
                sink.write(&buffer[..filled])?;
                (filled, held) = (0, 0);
            }
        }
        if !found.is_whole() {
            return Ok(found);
        }
        sink.write(&buffer[..filled])?;
        if span.last {
            sink.write(&self.tail(&span, known)?)?;
        }
        found.part = Some(SpanResult { rows: renderer.rows, hashed: sink.finish()? });
        Ok(found)
    }

    /// Bytes before the first record of the shard, if `span` is its first; empty for other spans.
    fn head(&self, span: &Span, known: &PassResults) -> Result<Vec<u8>> {
        let (plan, planned) = (self.copy.plan, self.copy.plan.shards[span.shard]);
        let format = plan.format();
        let samples = planned.samples - known.bad.len() as u64;
        let head_bytes = format.head_bytes(samples);
        if span.number > 0 || head_bytes == 0 {
            return Ok(Vec::new());
        }
        let mut head = vec![0; head_bytes as usize];
        format.head(&mut self.lengths(span.shard, known)?, &mut head)?;
        Ok(head)
    }

    /// Bytes after the last record of the shard, for its last span.
    fn tail(&self, span: &Span, known: &PassResults) -> Result<Vec<u8>> {
        let format = self.copy.plan.format();
        let samples = self.copy.plan.shards[span.shard].samples - known.bad.len() as u64;
        let mut tail = vec![0; format.tail_bytes(samples, span.offset + span.records_bytes) as usize];
        format.tail(&mut self.lengths(span.shard, known)?, &mut tail)?;
        Ok(tail)
    }

    /// Lengths of the records of a shard in order, without bad samples.
    fn lengths<'l>(&'l self, shard: usize, known: &'l PassResults) -> Result<impl Iterator<Item = u32> + 'l> {
        let (plan, planned) = (self.copy.plan, self.copy.plan.shards[shard]);
        let all = plan.record_bytes()?;
        let positions = planned.positions().filter(|position| !known.bad.contains_key(position));
        let plain = positions.map(|position| {
            let growth = known.grown.get(&position).copied().unwrap_or(0);
            all[plan.sample_at(position) as usize] + growth
        });
        Ok(plan.placed(planned.samples - known.bad.len() as u64, plain))
    }

    /// Records the result of a span; the last span of a shard sends the shard to be sealed.
    fn finish_span(
        &self,
        span: Span,
        streamed: Streamed,
        buffer: &mut Vec<u8>,
        send: &mpsc::SyncSender<seal_shard::Finished>,
    ) -> Result<()> {
        let open = {
            let mut open = lock(&self.opens[&span.shard]);
            open.known.bad.extend(streamed.refused);
            open.known.grown.extend(streamed.grown);
            if let Some(hashes) = open.output.as_ref().and_then(|output| output.hashes.as_ref())
                && !open.known.is_empty()
            {
                hashes.give_up();
            }
            open.parts.extend(streamed.part.map(|part| (span.number, part)));
            open.spans_left -= 1;
            if open.spans_left > 0 || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::mem::take(&mut *open)
        };
        let numbered = |bad: &BTreeMap<u64, Refusal>| -> Vec<(u64, Refusal)> {
            bad.iter().map(|(position, refusal)| (self.copy.plan.sample_at(*position), refusal.clone())).collect()
        };
        if open.known.is_empty() {
            return self.send(span.shard, open.output, open.parts, BTreeMap::new(), send);
        }
        lock(&self.outcome).bad.extend(numbered(&open.known.bad));
        open.output.map_or(Ok(()), |output| output.file.abort())?;
        if self.copy.on_bad == OnBad::Error && !open.known.bad.is_empty() {
            return Ok(());
        }
        // Repeats with the new results until a pass finds no more.
        let mut known = open.known;
        loop {
            let whole = self.knowing(span.shard, &known)?;
            let streamed = self.stream(whole, &known, buffer)?;
            let output = lock(&self.opens[&span.shard]).output.take();
            if let Some(part) = streamed.part {
                return self.send(span.shard, output, BTreeMap::from([(0, part)]), known.bad, send);
            }
            output.map_or(Ok(()), |output| output.file.abort())?;
            if streamed.is_whole() {
                return Ok(());
            }
            lock(&self.outcome).bad.extend(numbered(&streamed.refused));
            if self.copy.on_bad == OnBad::Error && !streamed.refused.is_empty() {
                return Ok(());
            }
            known.bad.extend(streamed.refused);
            known.grown.extend(streamed.grown);
        }
    }

    /// The whole shard as one span, without bad samples and with the real lengths of records.
    fn knowing(&self, shard: usize, known: &PassResults) -> Result<Span> {
        let planned = self.copy.plan.shards[shard];
        let records_bytes = self.lengths(shard, known)?.map(u64::from).sum();
        let (first, samples) = (planned.first, planned.samples);
        let left = samples - known.bad.len() as u64;
        let content_bytes = self.copy.plan.whole_bytes(left, records_bytes);
        let offset = self.copy.plan.format().head_bytes(left);
        Ok(Span { shard, number: 0, first, samples, offset, records_bytes, content_bytes, last: true })
    }

    fn send(
        &self,
        shard: usize,
        output: Option<Shared>,
        parts: BTreeMap<usize, SpanResult>,
        bad: BTreeMap<u64, Refusal>,
        send: &mpsc::SyncSender<seal_shard::Finished>,
    ) -> Result<()> {
        let nothing = || Error::data("nothing was written to this shard").in_file(self.copy.plan.shard_file(shard));
        let output = output.ok_or_else(nothing)?;
        // The sealers end only after the last send.
        let _ = send.send(seal_shard::Finished { shard, output, parts: parts.into_values().collect(), bad });
        Ok(())
    }
}

/// Result of streaming a span.
#[derive(Default)]
struct Streamed {
    /// Refused samples by position.
    refused: BTreeMap<u64, Refusal>,
    /// Growth that was not known before, by position.
    grown: BTreeMap<u64, u32>,
    /// `None` if a sample was refused, or the copy was cancelled.
    part: Option<SpanResult>,
}

impl Streamed {
    /// Whether no other pass is needed.
    fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.grown.is_empty()
    }
}
