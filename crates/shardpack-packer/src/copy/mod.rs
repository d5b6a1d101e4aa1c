//! Copy moves the images to the places that the plan has fixed, and hands finished shards to be sealed.
//!
//! The unit of work is a span: consecutive samples of one shard, about 8 MiB, less of small ones, so that threads share a
//! shard. Two ways give the same bytes: *stream* carries each span in plan order through one small buffer that stays in
//! the cache; *window* reads as many spans as fit the memory budget in physical order, each image into its final place,
//! and then writes them.
//!
//! Holds at all times: at most the memory budget of images in flight; each image is read once and hashed while in
//! cache; the bytes written do not depend on the number of threads. A shard in which a sample turns out to be bad is
//! never sealed with a hole: it is packed again without that sample, or not at all.

mod memory;
mod output;
mod record;
mod sealer;
mod sink;
mod span;
mod window;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
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
    threads,
};

use crate::{
    monitor::Monitor,
    plan::{Compression, Plan},
    source::{ReadError, Refusal, Source, storage::ReadOrder},
    sys,
    uploads::Uploads,
};
pub(crate) use memory::{fit, fit_any};
use output::Output;
pub(crate) use record::Place;
use record::Renderer;
use sink::{Hashed, Sink};
use span::Span;

pub use sealer::{Sealed, clear, recall};
pub(crate) use sealer::{index_file, ledger_part};

/// What to do about a sample that cannot be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBad {
    /// Finish all other shards, name them all, seal nothing.
    Error,
    /// Leave them out, and say so in the ledger.
    Skip,
}

/// A copy of one dataset.
pub struct Copy<'a> {
    /// Who goes where.
    pub plan: &'a Plan,
    /// Hands out the bytes.
    pub source: &'a dyn Source,
    /// Folder of the dataset; of one at a URL, where its indexes are kept meanwhile.
    pub dst: &'a Path,
    /// Where shards and indexes go, if not into that folder.
    pub uploads: Option<&'a Uploads>,
    /// Folder for what is not finished, on the same file system; of this process alone.
    pub work: &'a Path,
    /// Folder for what a later run has to know of finished shards; of all that pack into `dst`.
    pub shared: &'a Path,
    /// Order of reading.
    pub read_order: ReadOrder,
    /// Threads that frame, hash and write.
    pub jobs: usize,
    /// Budget for images in flight, in bytes.
    pub memory_bytes: u64,
    /// What to do about bad samples.
    pub on_bad: OnBad,
    /// Is told of progress.
    pub monitor: &'a dyn Monitor,
}

/// What came of a copy.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Sealed shards by number; all of them, unless a sample was bad and the policy is [`OnBad::Error`].
    pub shards: BTreeMap<usize, Sealed>,
    /// Samples that were not packed: number in the listing, and why.
    pub bad: BTreeMap<u64, Refusal>,
}

/// What an earlier pass over a shard has found out about its samples, by position.
#[derive(Default)]
struct Known {
    /// Those that cannot be packed.
    bad: BTreeMap<u64, Refusal>,
    /// By how many bytes records are longer than their layout.
    grown: BTreeMap<u64, u32>,
}

impl Known {
    fn is_empty(&self) -> bool {
        self.bad.is_empty() && self.grown.is_empty()
    }
}

/// A shard while its spans are copied.
#[derive(Default)]
struct Open {
    output: Option<Output>,
    spans_left: usize,
    parts: BTreeMap<usize, Part>,
    known: Known,
}

/// What one span came to.
struct Part {
    rows: Rows,
    hashed: Hashed,
}

/// What stands before the first record of a shard with this index.
pub(crate) fn head_of(format: &dyn Format, index: &Index<Vec<u8>>) -> Result<Vec<u8>> {
    let mut head = vec![0; format.head_bytes(index.len()) as usize];
    if !head.is_empty() {
        // A row that cannot be read has been found before, and makes a head that does not fit here.
        let mut lengths = index.iter().map(|row| row.map_or(0, |row| row.record_bytes));
        format.head(&mut lengths, &mut head)?;
    }
    Ok(head)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Copy<'a> {
    /// Copies all shards that the plan holds but those in `sealed`, which an earlier run has finished.
    ///
    /// # Errors
    /// When the machine is not right. Bad samples are no error here.
    pub fn run(&self, sealed: BTreeMap<usize, Sealed>) -> Result<Outcome> {
        let todo: Vec<usize> = self.plan.held.clone().filter(|shard| !sealed.contains_key(shard)).collect();
        let spans = todo.par_iter().map(|shard| span::split(self.plan, *shard)).collect::<Result<Vec<_>>>()?;
        let opens = spans.iter().map(|spans| Open { spans_left: spans.len(), ..Open::default() });
        let (send, receive) = mpsc::sync_channel(4);
        let run = Run {
            copy: self,
            opens: todo.iter().copied().zip(opens.map(Mutex::new)).collect(),
            outcome: Mutex::new(Outcome { shards: sealed, bad: BTreeMap::new() }),
            failed: Mutex::new(None),
            stop: AtomicBool::new(false),
        };
        let receive = Mutex::new(receive);
        std::thread::scope(|scope| {
            for number in 0..self.jobs.clamp(1, 4) {
                match threads::start(scope, || run.seal_all(&receive)) {
                    Ok(_) => {}
                    Err(error) if number == 0 => return run.fail(error),
                    // One is enough.
                    Err(_) => break,
                }
            }
            let spans: Vec<Span> = spans.into_iter().flatten().collect();
            match self.read_order {
                ReadOrder::Plan => run.stream_all(&spans, &send),
                ReadOrder::Physical { reads } => run.window_all(&spans, reads, &send),
            }
            // Ends the sealers once they have taken all.
            drop(send);
        });
        let failed = lock(&run.failed).take();
        let outcome = run.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(changed) = self.source.unchanged() {
            // Nobody can tell which version they hold: without its index a shard is not finished.
            for shard in todo.iter().filter(|shard| outcome.shards.contains_key(*shard)) {
                sys::remove_file(&self.dst.join(index_file(self.plan, *shard)))?;
            }
            return Err(changed);
        }
        failed.map_or(Ok(outcome), Err)
    }

    /// Threads that may each hold a buffer within the budget.
    fn threads(&self) -> Result<usize> {
        fit(self.plan, self.memory_bytes).map(|fit| self.jobs.clamp(1, fit))
    }

    fn temporary(&self, shard: usize) -> PathBuf {
        self.work.join(self.plan.shard_file(shard) + ".part")
    }
}

/// What the threads of a copy share.
struct Run<'c, 'a> {
    copy: &'c Copy<'a>,
    opens: BTreeMap<usize, Mutex<Open>>,
    outcome: Mutex<Outcome>,
    failed: Mutex<Option<Error>>,
    stop: AtomicBool,
}

impl Run<'_, '_> {
    fn fail(&self, error: Error) {
        lock(&self.failed).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether to go on; asks the person too.
    fn goes_on(&self) -> bool {
        if let Err(error) = self.copy.monitor.go_on()
            && !self.stop.load(Ordering::Relaxed)
        {
            self.fail(error);
        }
        !self.stop.load(Ordering::Relaxed)
    }

    /// Takes finished shards until there are no more senders.
    fn seal_all(&self, receive: &Mutex<mpsc::Receiver<sealer::Finished>>) {
        loop {
            let next = lock(receive).recv();
            let Ok(finished) = next else { return };
            if self.stop.load(Ordering::Relaxed) {
                continue;
            }
            let shard = finished.shard;
            match sealer::seal(self.copy, finished) {
                Ok(sealed) => {
                    lock(&self.outcome).shards.insert(shard, sealed);
                }
                Err(error) => self.fail(error),
            }
        }
    }

    fn stream_all(&self, spans: &[Span], send: &mpsc::SyncSender<sealer::Finished>) {
        let threads = match self.copy.threads() {
            Ok(threads) => threads,
            Err(error) => return self.fail(error),
        };
        self.in_threads(threads, spans, |span, buffer| {
            let streamed = self.stream(*span, &Known::default(), buffer)?;
            self.spent(*span, streamed, buffer, send)
        });
    }

    /// Hands out `items` in order to so many threads, each with a buffer of its own, until all are done or one fails.
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

    /// Where a shard goes, begun by whoever comes first; it is `content_bytes` long before compression.
    fn output(&self, shard: usize, content_bytes: u64) -> Result<Output> {
        let mut open = lock(&self.opens[&shard]);
        if let Some(output) = &open.output {
            return Ok(output.clone());
        }
        let plan = self.copy.plan;
        let output = match self.copy.uploads {
            None => Output::file(self.copy.temporary(shard))?,
            Some(uploads) => {
                let is_compressed = plan.options.compression != Compression::None;
                Output::Object(Arc::new(uploads.shard(&plan.shard_file(shard), content_bytes, is_compressed)))
            }
        };
        Ok(open.output.insert(output).clone())
    }

    /// Carries a span in plan order through `buffer` into its shard, given what is known of the shard. Where anything
    /// is known, the span is the whole shard.
    fn stream(&self, span: Span, known: &Known, buffer: &mut Vec<u8>) -> Result<Streamed> {
        let copy = self.copy;
        let mut renderer = Renderer::new(copy.plan);
        let mut found = Streamed::default();
        let output = self.output(span.shard, span.content_bytes)?;
        let mut sink = Sink::new(copy.plan, output, span.start(), span.content_bytes)?;
        sink.write_head(&self.head(&span, known)?)?;
        let (mut filled, mut held) = (0, 0);
        for position in span.first..span.first + span.samples {
            if !self.goes_on() {
                return Ok(found);
            }
            if known.bad.contains_key(&position) {
                continue;
            }
            let growth = known.grown.get(&position).copied().unwrap_or(0);
            let place = renderer.place(position, growth)?;
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
            // A shard with a bad sample is not sealed as it is: what is left to do is to find the others.
            if !found.is_whole() {
                continue;
            }
            renderer.render(&place, record)?;
            (filled, held) = (end, held + 1);
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
            sink.write(&self.tail(&span))?;
        }
        found.part = Some(Part { rows: renderer.rows, hashed: sink.finish()? });
        Ok(found)
    }

    /// What stands before the first record of the shard that `span` begins; nothing for other spans.
    fn head(&self, span: &Span, known: &Known) -> Result<Vec<u8>> {
        let (plan, planned) = (self.copy.plan, self.copy.plan.shards[span.shard]);
        let format = plan.format();
        let samples = planned.samples - known.bad.len() as u64;
        let head_bytes = format.head_bytes(samples);
        if span.number > 0 || head_bytes == 0 {
            return Ok(Vec::new());
        }
        let record_bytes = plan.record_bytes()?;
        let positions = planned.positions().filter(|position| !known.bad.contains_key(position));
        let mut lengths = positions.map(|position| {
            let growth = known.grown.get(&position).copied().unwrap_or(0);
            record_bytes[plan.sample_at(position) as usize] + growth
        });
        let mut head = vec![0; head_bytes as usize];
        format.head(&mut lengths, &mut head)?;
        Ok(head)
    }

    /// What follows the last record, which `span` holds.
    fn tail(&self, span: &Span) -> Vec<u8> {
        vec![0; self.copy.plan.format().tail_bytes(span.offset + span.records_bytes) as usize]
    }

    /// Files what a span came to; the last span of a shard sends it off to be sealed.
    fn spent(
        &self,
        span: Span,
        streamed: Streamed,
        buffer: &mut Vec<u8>,
        send: &mpsc::SyncSender<sealer::Finished>,
    ) -> Result<()> {
        let open = {
            let mut open = lock(&self.opens[&span.shard]);
            open.known.bad.extend(streamed.refused);
            open.known.grown.extend(streamed.grown);
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
        open.output.map_or(Ok(()), |output| output.give_up())?;
        if self.copy.on_bad == OnBad::Error && !open.known.bad.is_empty() {
            return Ok(());
        }
        // Again with what is known now, until a pass finds no more.
        let mut known = open.known;
        loop {
            let whole = self.knowing(span.shard, &known)?;
            let streamed = self.stream(whole, &known, buffer)?;
            let output = lock(&self.opens[&span.shard]).output.take();
            if let Some(part) = streamed.part {
                return self.send(span.shard, output, BTreeMap::from([(0, part)]), known.bad, send);
            }
            output.map_or(Ok(()), |output| output.give_up())?;
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

    /// The whole of a shard as one span, its records those that are left, as long as they really are.
    fn knowing(&self, shard: usize, known: &Known) -> Result<Span> {
        let planned = self.copy.plan.shards[shard];
        let all = self.copy.plan.record_bytes()?;
        let mut records_bytes = planned.records_bytes;
        for (_, growth) in known.grown.iter().filter(|(position, _)| !known.bad.contains_key(position)) {
            records_bytes += u64::from(*growth);
        }
        for position in known.bad.keys() {
            records_bytes -= u64::from(all[self.copy.plan.sample_at(*position) as usize]);
        }
        let (first, samples) = (planned.first, planned.samples);
        let left = samples - known.bad.len() as u64;
        let content_bytes = self.copy.plan.whole_bytes(left, records_bytes);
        let offset = self.copy.plan.format().head_bytes(left);
        Ok(Span { shard, number: 0, first, samples, offset, records_bytes, content_bytes, last: true })
    }

    fn send(
        &self,
        shard: usize,
        output: Option<Output>,
        parts: BTreeMap<usize, Part>,
        bad: BTreeMap<u64, Refusal>,
        send: &mpsc::SyncSender<sealer::Finished>,
    ) -> Result<()> {
        let nothing = || Error::data("a shard of which nothing was written").in_file(self.copy.temporary(shard));
        let output = output.ok_or_else(nothing)?;
        // The sealers are gone only when all is over.
        let _ = send.send(sealer::Finished { shard, output, parts: parts.into_values().collect(), bad });
        Ok(())
    }
}

/// What came of streaming a span.
#[derive(Default)]
struct Streamed {
    /// By position.
    refused: BTreeMap<u64, Refusal>,
    /// Growth that was not known, by position.
    grown: BTreeMap<u64, u32>,
    /// `None` when a sample was refused, or all was stopped.
    part: Option<Part>,
}

impl Streamed {
    /// Whether nothing has come up that asks for another pass.
    fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.grown.is_empty()
    }
}
