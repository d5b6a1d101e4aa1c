//! Samples of a rank, one after the other: threads read the runs of all lanes ahead, within the budget of memory.
//!
//! Holds at all times: reads begin in the order in which they are needed, which [`crate::order::Reads`] tells; each is one
//! call of the store; a run stays in memory as long as a sample of it is left or in use. One epoch follows the other
//! without a pause.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, atomic::Ordering::Relaxed},
    thread::JoinHandle,
    time::Instant,
};

use shardpack_format::{Error, ErrorKind, Result};
use shardpack_reader::{Sample, Scratch, Shard, Window};

use crate::{
    budget::Budget,
    order::{RankLanes, Read, Reads, Segment, Selection},
    plan::{self, Content, Copy, Plan, Source},
    stats::Counters,
};

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    Sample(Fetched),
    /// All samples of this epoch have come.
    EpochEnd,
    /// All epochs have.
    End,
}

/// The consumer's side.
pub(crate) struct Feed {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
    /// Number of the next sample of the rank in the epoch under way.
    number: u64,
    /// How many samples have been taken of the front run of each lane.
    taken: Vec<u64>,
}

struct Shared {
    plan: Plan,
    budget: Arc<Budget>,
    counters: Arc<Counters>,
    state: Mutex<State>,
    /// A run has been read, or there is another reason to look again.
    ready: Condvar,
}

struct State {
    /// Epochs that are read or consumed; readers are at the last, the consumer at the first.
    epochs: VecDeque<EpochState>,
    reads: Option<Reads>,
    /// Number of the last epoch, exclusive.
    end: u64,
    tickets: u64,
    is_stopped: bool,
    failure: Option<String>,
}

struct EpochState {
    number: u64,
    content: Arc<Content>,
    lanes: RankLanes,
    /// For each lane, its runs that have been begun and are not used up.
    runs: Vec<VecDeque<Arc<Run>>>,
}

/// A run in memory, or on the way there.
#[derive(Debug)]
struct Run {
    ticket: u64,
    content: Arc<Content>,
    segment: Segment,
    /// How many samples of the rank are in it.
    samples: u64,
    /// How many steps of its lane the rank makes at a time.
    stride: u64,
    /// The first step of the rank in it.
    first: u64,
    /// The pieces that its samples are in, as they lie in the shard; `None` where they could not be read.
    pieces: OnceLock<Option<Vec<Piece>>>,
    budget: Arc<Budget>,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}

/// Consecutive bytes of a shard, in memory.
#[derive(Debug)]
struct Piece {
    /// Where they end in the shard.
    end: u64,
    window: Window,
    /// Capacity of the window when it was granted.
    granted_bytes: usize,
}

impl Drop for Run {
    fn drop(&mut self) {
        for piece in self.pieces.take().flatten().into_iter().flatten() {
            self.budget.give_back(piece.window, piece.granted_bytes);
        }
    }
}

/// As many bytes that nobody needs are read with what is before and behind them.
const MOST_GAP_BYTES: u64 = 64 * 1024;

impl Run {
    /// The samples of it that the rank needs, by their numbers in the content.
    fn needed(&self) -> impl Iterator<Item = u64> {
        (0..self.samples).map(|at| self.segment.sample(self.first + at * self.stride - self.segment.start))
    }
}

/// A sample whose run is in memory.
#[derive(Clone, Debug)]
pub struct Fetched {
    sources: Arc<[Source]>,
    run: Arc<Run>,
    source: usize,
    number: u64,
    epoch: u64,
    check_content: bool,
}

impl Fetched {
    /// Its number in the dataset.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Which dataset of a mix it is of, from 0.
    pub fn source(&self) -> usize {
        self.source
    }

    /// The epoch that it is of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sample `number` of the same dataset in its place.
    pub(crate) fn other(&self, number: u64) -> Self {
        Self { number, ..self.clone() }
    }

    /// Its bytes, borrowed from the run that it was read with, and all that is known of it.
    ///
    /// # Errors
    /// When its index, shard or content is not right.
    pub fn sample(&self) -> Result<Sample<'_>> {
        let shard = self.sources[self.source].dataset.shard_of(self.number)?;
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
            Some(sample) => sample,
            // Only what cannot be read is lost, not what is beside it.
            None => shard.sample_alone(row)?,
        };
        if self.check_content {
            sample.check_content()?;
        }
        Ok(sample)
    }
}

impl Feed {
    /// Starts to read: from position `start` of epoch `epoch` on, up to epoch `end`, exclusive.
    pub fn start(
        plan: Plan,
        (epoch, start, end): (u64, u64, u64),
        memory_bytes: usize,
        threads: usize,
        counters: Arc<Counters>,
    ) -> Result<Self> {
        let mut epochs = VecDeque::new();
        let mut reads = None;
        let mut taken = Vec::new();
        if epoch < end {
            let (content, lanes) = plan.lanes(epoch, start)?;
            let first = EpochState::new(epoch, content, lanes);
            reads = Some(first.lanes.reads());
            taken = vec![0; first.runs.len()];
            epochs.push_back(first);
        }
        let state = State { epochs, reads, end, tickets: 0, is_stopped: false, failure: None };
        let shared = Arc::new(Shared {
            plan,
            budget: Arc::new(Budget::new(memory_bytes)),
            counters,
            state: Mutex::new(state),
            ready: Condvar::new(),
        });
        let mut feed = Self { shared, threads: Vec::new(), process: std::process::id(), number: 0, taken };
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&feed.shared);
            let thread = std::thread::Builder::new()
                .name(format!("shardpack-read-{number}"))
                .spawn(move || shared.contained(read_all))
                .map_err(|error| Error::io("cannot start a thread", error))?;
            feed.threads.push(thread);
        }
        Ok(feed)
    }

    /// The next sample; waits until it has been read.
    ///
    /// # Errors
    /// When no order can be made of the next epoch, or a thread has failed.
    pub fn next(&mut self) -> Result<Next> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        let Some(epoch) = state.epochs.front() else { return Ok(Next::End) };
        if self.number == epoch.lanes.share().len() {
            self.end_epoch(&mut state)?;
            return Ok(Next::EpochEnd);
        }
        let (lanes, number) = (epoch.lanes.clone(), epoch.number);
        let lane = lanes.lane_of(self.number);
        let mut waited: Option<Instant> = None;
        let run = loop {
            if state.is_stopped {
                return Ok(Next::End);
            }
            if let Some(failure) = &state.failure {
                return Err(Error::new(ErrorKind::System, format!("a thread that reads has failed: {failure}")));
            }
            let front = state.epochs.front().and_then(|epoch| epoch.runs[lane].front());
            if let Some(run) = front.filter(|run| run.pieces.get().is_some()) {
                break Arc::clone(run);
            }
            let ticket = front.map_or(state.tickets, |run| run.ticket);
            waited.get_or_insert_with(Instant::now);
            shared.budget.want(ticket);
            state = shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        if let Some(since) = waited {
            shared.counters.disk_wait_ns.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        }
        let step = lanes.step_of(self.number);
        let (source, sample) = run.content.place(run.segment.sample(step - run.segment.start));
        self.number += 1;
        self.taken[lane] += 1;
        if self.taken[lane] == run.samples {
            self.taken[lane] = 0;
            if let Some(epoch) = state.epochs.front_mut() {
                epoch.runs[lane].pop_front();
            }
        }
        drop(state);
        let plan = &shared.plan;
        Ok(Next::Sample(Fetched {
            sources: Arc::clone(&plan.sources),
            run,
            source,
            number: sample,
            epoch: number,
            check_content: plan.check_content,
        }))
    }

    /// Goes on to the next epoch, which the readers may be at already.
    fn end_epoch(&mut self, state: &mut State) -> Result<()> {
        if state.epochs.len() == 1 {
            self.shared.begin_epoch(state)?;
        }
        state.epochs.pop_front();
        self.number = 0;
        self.taken = vec![0; state.epochs.front().map_or(0, |epoch| epoch.runs.len())];
        self.shared.ready.notify_all();
        Ok(())
    }

    /// The lanes of the epoch under way; `None` after the last.
    pub fn lanes(&self) -> Option<(u64, RankLanes)> {
        self.shared.state().epochs.front().map(|epoch| (epoch.number, epoch.lanes.clone()))
    }

    /// What others than its consumer may do.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }
}

/// What others than the consumer of a [`Feed`] may do.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    /// Ends all waiting: nothing comes any more.
    pub fn stop(&self) {
        self.0.state().is_stopped = true;
        self.0.budget.stop();
        self.0.ready.notify_all();
    }

    /// Most bytes that all runs in memory had together.
    pub fn peak_bytes(&self) -> u64 {
        self.0.budget.peak_bytes()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // After a fork the child has none of the threads, and locks may be as they were at any moment.
        if self.process != std::process::id() {
            std::mem::take(&mut self.threads).into_iter().for_each(std::mem::forget);
            return;
        }
        self.handle().stop();
        for thread in self.threads.drain(..) {
            // What it had to say is in the state.
            let _ = thread.join();
        }
    }
}

impl EpochState {
    fn new(number: u64, content: Arc<Content>, lanes: RankLanes) -> Self {
        Self { number, content, runs: (0..lanes.len()).map(|_| VecDeque::new()).collect(), lanes }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`; the consumer hears of a panic.
    fn contained(&self, work: fn(&Self) -> Result<()>) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self)));
        let failure = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a panic".to_owned(),
        };
        self.state().failure.get_or_insert(failure);
        self.budget.stop();
        self.ready.notify_all();
    }

    /// Adds the epoch after the last, if there is to be one.
    fn begin_epoch(&self, state: &mut State) -> Result<()> {
        let next = state.epochs.back().map(|epoch| epoch.number + 1).filter(|next| *next < state.end);
        state.reads = None;
        if let Some(number) = next {
            let (content, lanes) = self.plan.lanes(number, 0)?;
            let epoch = EpochState::new(number, content, lanes);
            state.reads = Some(epoch.lanes.reads());
            state.epochs.push_back(epoch);
        }
        Ok(())
    }

    /// The next run to be read; `None` when there is none, or nobody wants it any more.
    fn next_run(&self) -> Result<Option<Arc<Run>>> {
        let mut state = self.state();
        loop {
            if state.is_stopped || state.failure.is_some() {
                return Ok(None);
            }
            let Some(reads) = &mut state.reads else { return Ok(None) };
            if let (Some(read), Some(epoch)) = (reads.next(), state.epochs.back()) {
                let Read { lane, segment, samples, first } = read;
                let run = Arc::new(Run {
                    ticket: state.tickets,
                    content: Arc::clone(&epoch.content),
                    segment,
                    samples,
                    first: epoch.lanes.step_of(first),
                    stride: epoch.lanes.readers(),
                    pieces: OnceLock::new(),
                    budget: Arc::clone(&self.budget),
                });
                state.tickets += 1;
                if let Some(epoch) = state.epochs.back_mut() {
                    epoch.runs[lane].push_back(Arc::clone(&run));
                }
                return Ok(Some(run));
            }
            // No more than one epoch ahead.
            if state.epochs.len() > 1 {
                state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                self.begin_epoch(&mut state)?;
            }
        }
    }
}

/// Reads runs until there are no more.
fn read_all(shared: &Shared) -> Result<()> {
    let mut scratch = Scratch::default();
    while let Some(run) = shared.next_run()? {
        // An index that cannot be read, or a range that cannot, is told by each of the samples that it is of.
        let (copy, number) = run.content.shard(run.segment.shard);
        let shard = plan::shard(&shared.plan.sources, copy, number)?;
        let spans = spans(shard, &run, copy);
        let pieces = if spans.is_empty() {
            shared.budget.pass(run.ticket);
            None
        } else {
            let lengths: Vec<u64> = spans.iter().map(|span| span.end - span.start).collect();
            let Some(windows) = shared.budget.take(run.ticket, &lengths) else { return Ok(()) };
            let reading = Instant::now();
            let mut is_whole = true;
            let mut pieces = Vec::with_capacity(spans.len());
            for (span, mut window) in spans.into_iter().zip(windows) {
                let granted_bytes = window.capacity();
                let end = span.end;
                is_whole &= shard.fill(&mut window, &mut scratch, span).is_ok();
                pieces.push(Piece { end, window, granted_bytes });
            }
            shared.counters.read_ns.fetch_add(reading.elapsed().as_nanos() as u64, Relaxed);
            shared.counters.reads.fetch_add(pieces.len() as u64, Relaxed);
            if is_whole {
                shared.counters.read_bytes.fetch_add(lengths.iter().sum(), Relaxed);
            }
            // Of one that could not be read, the window is empty, and each sample is read by itself.
            Some(pieces)
        };
        let _ = run.pieces.set(pieces);
        // Under the lock, so that a consumer that is about to wait does not miss it.
        let state = shared.state();
        shared.ready.notify_all();
        drop(state);
    }
    Ok(())
}

/// The ranges of bytes that have the samples that are needed of a run, ascending; those that are near each other are one.
/// Rows that are not right are left out.
fn spans(shard: Shard<'_>, run: &Run, copy: &Copy) -> Vec<Range<u64>> {
    let first = shard.samples().start;
    if run.stride == 1 && matches!(copy.selection, Selection::All(_)) {
        let row = |index: u64| index - copy.start - first;
        let rows = row(run.segment.samples.start)..row(run.segment.samples.end);
        return shard.span(rows).unwrap_or_default().into_iter().collect();
    }
    let mut rows: Vec<u64> = run.needed().map(|index| copy.number(index) - first).collect();
    rows.sort_unstable();
    let mut spans: Vec<Range<u64>> = Vec::new();
    for span in rows.into_iter().filter_map(|row| shard.span(row..row + 1).ok().flatten()) {
        match spans.last_mut() {
            Some(last) if span.start >= last.start && span.start <= last.end.saturating_add(MOST_GAP_BYTES) => {
                last.end = last.end.max(span.end);
            }
            _ => spans.push(span),
        }
    }
    spans.sort_unstable_by_key(|span| span.start);
    spans
}
