//! Window: reads as many spans as fit half of the budget in physical order into their final places, then writes
//! the spans while the next window is read.

use std::{
    collections::BTreeMap,
    iter::Peekable,
    sync::{Mutex, mpsc},
};

use shardpack_format::{Result, threads::cannot_start};
use shardpack_imaging::{Budget, Reservation};
use shardpack_runtime::threads;

use super::{
    CopyState, PassResults, Span, SpanResult, Streamed, lock,
    record::{RecordSpan, Renderer},
    seal_shard::Finished,
    sink::Sink,
};
use crate::{
    parallel::steps,
    source::{ReadError, Refusal},
};

/// Memory of one more concurrent read, with thread and connection (measured: docs/explain/performance.md,
/// buckets).
const READ_BYTES: u64 = 512 << 10;
/// Additional reads may take the budget divided by this number.
const MORE_SHARE: u64 = 8;

/// A span whose images are being read.
struct Loaded {
    span: Span,
    places: Vec<RecordSpan>,
    records: Vec<u8>,
    refused: Mutex<BTreeMap<u64, Refusal>>,
}

/// An image to read: its physical place and its destination.
struct Read<'w> {
    lies_at: u64,
    place: RecordSpan,
    record: &'w mut [u8],
    refused: &'w Mutex<BTreeMap<u64, Refusal>>,
}

/// Spans that were read together, and their share of the memory budget.
struct Window<'b> {
    loaded: Vec<Loaded>,
    taken: Reservation<'b>,
}

impl CopyState<'_, '_> {
    /// Copies `spans` window by window, with `reads` reads in flight. The next window is read while one is
    /// written; each has half of the memory budget, or more if a single span needs more.
    pub(super) fn window_all(&self, spans: &[Span], reads: usize, send: &mpsc::SyncSender<Finished>) {
        let jobs = match self.copy.threads() {
            Ok(jobs) => jobs,
            Err(error) => return self.fail(error),
        };
        let budget = Budget::new(self.copy.memory_bytes);
        // The channel holds no window: the budget limits how far reads run ahead.
        let (give, take) = mpsc::channel::<Window<'_>>();
        threads::scope(|scope| {
            let writer = threads::start(scope, || {
                for Window { loaded, taken } in take {
                    self.write_all(loaded, jobs, send);
                    drop(taken);
                }
            });
            if let Err(error) = writer {
                return self.fail(cannot_start(error));
            }
            // Moved in, so that the writer ends with this thread.
            let give = give;
            let mut rest = spans;
            while !rest.is_empty() && self.goes_on() {
                let mut bytes = 0;
                let fit = rest.iter().take_while(|span| {
                    bytes += span.records_bytes;
                    bytes <= budget.bytes() / 2
                });
                let (window, after) = rest.split_at(fit.count().max(1));
                rest = after;
                let bytes = window.iter().map(|span| span.records_bytes).sum();
                if bytes > budget.bytes() {
                    // A compressed shard that is longer than the budget: the windows in memory are written
                    // first.
                    let _all = budget.take(budget.bytes());
                    self.in_threads(1, window, |span, buffer| self.stream_one(*span, buffer, send));
                    continue;
                }
                let taken = budget.take(bytes);
                match self.read_window(window, reads) {
                    // The writer receives windows until the channel closes.
                    Ok(loaded) => drop(give.send(Window { loaded, taken })),
                    Err(error) => self.fail(error),
                }
            }
        });
    }

    fn read_window(&self, spans: &[Span], reads: usize) -> Result<Vec<Loaded>> {
        let mut loaded = spans.iter().map(|span| self.allocate(*span)).collect::<Result<Vec<_>>>()?;
        let listing = &self.copy.plan.listing;
        let mut todo = Vec::with_capacity(loaded.iter().map(|loaded| loaded.places.len()).sum());
        for Loaded { places, records, refused, .. } in &mut loaded {
            let mut rest = records.as_mut_slice();
            for place in places {
                let (record, after) = rest.split_at_mut(place.record_bytes() as usize);
                rest = after;
                let lies_at = listing.entry(place.number).place;
                todo.push(Read { lies_at, place: *place, record, refused });
            }
        }
        todo.sort_unstable_by_key(|read| read.lies_at);
        self.read_all(todo, reads);
        Ok(loaded)
    }

    fn write_all(&self, loaded: Vec<Loaded>, threads: usize, send: &mpsc::SyncSender<Finished>) {
        let loaded: Vec<Mutex<Option<Loaded>>> = loaded.into_iter().map(|loaded| Mutex::new(Some(loaded))).collect();
        self.in_threads(threads, &loaded, |loaded, buffer| match lock(loaded).take() {
            Some(loaded) => {
                let (span, streamed) = (loaded.span, self.write(loaded)?);
                self.finish_span(span, streamed, buffer, send)
            }
            None => Ok(()),
        });
    }

    fn allocate(&self, span: Span) -> Result<Loaded> {
        let mut renderer = Renderer::new(self.copy.plan);
        let mut offset = span.offset;
        let places = (span.first..span.first + span.samples).map(|position| {
            let place = renderer.place(position, offset, 0)?;
            offset += u64::from(place.record_bytes());
            Ok(place)
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        Ok(Loaded { span, places, records: vec![0; span.records_bytes as usize], refused: Mutex::default() })
    }

    /// Reads all images in the given order, `reads` at a time. If the source measures latency, it adapts the
    /// number.
    fn read_all(&self, todo: Vec<Read<'_>>, reads: usize) {
        let (listing, format, source) = (&self.copy.plan.listing, self.copy.plan.format(), self.copy.source);
        let queue = Mutex::new(todo.into_iter().peekable());
        let more = self.copy.memory_bytes / MORE_SHARE / READ_BYTES;
        let most = reads.saturating_add(usize::try_from(more).unwrap_or(usize::MAX));
        let helping = || source.concurrency().min(most);
        steps(reads.max(helping()), &helping, &|| {
            let mut group = Vec::new();
            if self.goes_on() {
                // The lock is released before the read.
                self.next_group(&mut lock(&queue), &mut group);
            }
            let together = match group.as_slice() {
                [] => return false,
                [_] => None,
                several => {
                    let numbers: Vec<_> = several.iter().map(|read| read.place.number).collect();
                    source.read_batch(&numbers)
                }
            };
            let source = together.as_deref().unwrap_or(source);
            for read in group {
                match read.place.read(source, listing, format, read.record) {
                    Ok(()) => self.copy.monitor.advance(1, read.place.payload_bytes()),
                    Err(ReadError::Refused(refusal)) => {
                        lock(read.refused).insert(read.place.position, refusal);
                    }
                    Err(ReadError::Fatal(error)) => {
                        self.fail(error);
                        return false;
                    }
                }
            }
            true
        });
    }

    /// Moves the next read, and the reads to combine with it, from `queue` to `group`.
    fn next_group<'w>(&self, queue: &mut Peekable<impl Iterator<Item = Read<'w>>>, group: &mut Vec<Read<'w>>) {
        let Some(first) = queue.next() else { return };
        let (first_number, mut before) = (first.place.number, first.place.number);
        group.push(first);
        while let Some(next) =
            queue.next_if(|next| self.copy.source.can_coalesce(first_number, before, next.place.number))
        {
            before = next.place.number;
            group.push(next);
        }
    }

    /// Frames, hashes and writes a span that was read.
    fn write(&self, loaded: Loaded) -> Result<Streamed> {
        let Loaded { span, places, mut records, refused } = loaded;
        let refused = std::mem::take(&mut *lock(&refused));
        if !refused.is_empty() || !self.goes_on() {
            return Ok(Streamed { refused, ..Streamed::default() });
        }
        let plan = self.copy.plan;
        let grown = self.grown(&places, &records)?;
        if !grown.is_empty() {
            return Ok(Streamed { grown, ..Streamed::default() });
        }
        let output = self.output(span.shard, span.content_bytes)?;
        let mut sink = Sink::new(self.copy, output, span.start(), span.content_bytes)?;
        sink.write_head(&self.head(&span, &PassResults::default())?)?;
        let mut renderer = Renderer::new(plan);
        let (mut start, mut end, mut held) = (0, 0, 0);
        for place in &places {
            let next = end + place.record_bytes() as usize;
            renderer.render(place, &mut records[end..next])?;
            (end, held) = (next, held + 1);
            if sink.is_full(end - start, held) {
                sink.write(&records[start..end])?;
                (start, held) = (end, 0);
            }
        }
        sink.write(&records[start..end])?;
        if span.last {
            sink.write(&self.tail(&span, &PassResults::default())?)?;
        }
        Ok(Streamed { part: Some(SpanResult { rows: renderer.rows, hashed: sink.finish()? }), ..Streamed::default() })
    }

    /// The images among `records` whose records are longer than their layout, by position.
    fn grown(&self, places: &[RecordSpan], mut records: &[u8]) -> Result<BTreeMap<u64, u32>> {
        let mut grown = BTreeMap::new();
        for place in places {
            let (record, rest) = records.split_at(place.record_bytes() as usize);
            records = rest;
            let payload = place.layout.components[0].slice(record);
            let growth = self.copy.plan.format().growth(payload.unwrap_or_default());
            if growth > 0 {
                grown.insert(place.position, growth);
            }
        }
        Ok(grown)
    }
}
