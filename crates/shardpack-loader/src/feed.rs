//! Samples of a rank in order: threads read the runs of all lanes ahead, within a memory budget.
//!
//! Holds at all times: reads begin in the order in which they are needed (see [`crate::order::Reads`]). Each read is one
//! call of the store, or two if the end of a lane cuts a run. A run stays in memory until its last sample has been taken and
//! released. A separate thread computes the samples and the order of the next epoch while this one is read. If the number of
//! epochs is known, epochs follow each other without a pause; otherwise nothing of an epoch is read before
//! [`Handle::begin`] has named it.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    thread::JoinHandle,
    time::Duration,
};

use shardpack_format::{Error, ErrorKind, Result, threads::cannot_start};
use shardpack_reader::{CacheUse, Scratch, Transfers};
use shardpack_runtime::{Instant, sleep, threads};

use crate::{
    budget::Budget,
    epoch_runs::EpochRuns,
    order::{RankBatches, RankLanes},
    plan::{self, Plan},
    run::{Fetched, Piece, Run, spans},
    stats::Counters,
};

/// The number of epochs of a run that ends at any time.
pub(crate) const UNKNOWN_EPOCHS: u64 = u64::MAX;

/// Limit for the time that dropping a feed waits for threads that read from servers.
const SERVER_GRACE: Duration = Duration::from_secs(1);

/// The next item.
#[derive(Debug)]
pub(crate) enum Next {
    Samples,
    /// All samples of this epoch have been taken.
    EpochEnd,
    /// All epochs have ended.
    End,
}

/// The consumer's side.
pub(crate) struct Feed {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
    /// Number of the rank's next sample in the current epoch.
    number: u64,
}

struct Shared {
    plan: Plan,
    budget: Arc<Budget>,
    counters: Arc<Counters>,
    state: Mutex<State>,
    /// A run has been read, or the consumer must check its condition again.
    ready: Condvar,
    /// An epoch was computed, or has begun or ended.
    turned: Condvar,
}

struct State {
    /// Epochs that are being read or consumed; readers are at the last, the consumer is at the first.
    epochs: VecDeque<EpochRuns>,
    /// The next epoch, once it is computed.
    coming: Option<EpochRuns>,
    /// Number of the epoch after the last one that is read.
    next: u64,
    /// Number of the last epoch, exclusive; [`UNKNOWN_EPOCHS`] if it is unknown.
    end: u64,
    /// Number of the first epoch that may not be read yet.
    closed: u64,
    tickets: u64,
    is_stopped: bool,
    failure: Option<String>,
}

impl Feed {
    /// Starts to read at position `start` of epoch `epoch`, up to epoch `end`, exclusive.
    pub fn start(
        plan: Plan,
        (epoch, start, end): (u64, u64, u64),
        memory_bytes: usize,
        threads: usize,
        counters: Arc<Counters>,
    ) -> Result<Self> {
        let mut epochs = VecDeque::new();
        if epoch < end {
            let (content, lanes) = plan.lanes(epoch, start)?;
            epochs.push_back(EpochRuns::new(&plan, epoch, content, lanes));
        }
        let next = epoch.saturating_add(1);
        let closed = if end == UNKNOWN_EPOCHS { next } else { end };
        let state = State { epochs, coming: None, next, end, closed, tickets: 0, is_stopped: false, failure: None };
        let shared = Arc::new(Shared {
            plan,
            budget: Arc::new(Budget::new(memory_bytes)),
            counters,
            state: Mutex::new(state),
            ready: Condvar::new(),
            turned: Condvar::new(),
        });
        let mut feed = Self { shared, threads: Vec::new(), process: shardpack_runtime::process_id(), number: 0 };
        // Ends at once if there is no further epoch.
        feed.thread("shardpack-order".to_owned(), make_epochs)?;
        feed.thread("shardpack-read-0".to_owned(), read_all)?;
        for number in 1..threads {
            // The first threads may have taken the memory that the next ones need.
            if feed.thread(format!("shardpack-read-{number}"), read_all).is_err() {
                break;
            }
        }
        Ok(feed)
    }

    fn thread(&mut self, name: String, work: fn(&Shared) -> Result<()>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = threads::spawn(Some(name), move || shared.contained(work));
        self.threads.push(thread.map_err(cannot_start)?);
        Ok(())
    }

    /// Puts the next samples into `into`, at most `most`; waits until the epoch has begun, and the first sample has been
    /// read.
    ///
    /// # Errors
    /// If a thread has failed: it could not read on, or could not compute the order of the next epoch.
    pub fn next(&mut self, most: usize, into: &mut Vec<Fetched>) -> Result<Next> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.begun()?;
        let Some(epoch) = state.epochs.front() else { return Ok(Next::End) };
        let left = epoch.lanes.share().len() - self.number;
        if left == 0 {
            // The readers may have begun the next epoch.
            state.epochs.pop_front();
            self.number = 0;
            shared.turned.notify_all();
            return Ok(Next::EpochEnd);
        }
        let number = epoch.number;
        let mut waited: Option<Instant> = None;
        for taken in 0..left.min(most.max(1) as u64) {
            let (run, step) = loop {
                if state.is_stopped {
                    return Ok(Next::End);
                }
                state.check()?;
                let front = state.epochs.front().and_then(|epoch| epoch.front(self.number));
                if let Some((run, step)) = front.filter(|(run, _)| run.pieces.get().is_some()) {
                    break (Arc::clone(run), step);
                }
                if taken > 0 {
                    return Ok(Next::Samples);
                }
                let tickets = state.tickets;
                let ticket = state.epochs.front().and_then(|epoch| epoch.wanted(self.number, tickets));
                waited.get_or_insert_with(Instant::now);
                if let Some(ticket) = ticket {
                    shared.budget.want(ticket);
                }
                state = shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            if let Some(since) = waited.take() {
                shared.counters.disk_wait_ns.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
            }
            let (source, sample) = run.content.place(run.segment.sample(step - run.segment.start));
            if let Some(epoch) = state.epochs.front_mut() {
                epoch.take(self.number);
            }
            self.number += 1;
            let check_content = shared.plan.check_content;
            into.push(Fetched { run, source, number: sample, epoch: number, check_content, is_other: false });
        }
        Ok(Next::Samples)
    }

    /// The batches of the current epoch and its lanes, once it has begun; `None` after the last, or after a stop.
    ///
    /// # Errors
    /// If a thread has failed.
    pub fn lanes(&mut self) -> Result<Option<(u64, RankLanes, RankBatches)>> {
        let state = self.shared.begun()?;
        let epoch = state.epochs.front();
        Ok(epoch.map(|one| (one.number, one.lanes.clone(), self.shared.plan.batches(&one.content, &one.lanes))))
    }

    /// Allows the feed to read the next epoch, if the current one has ended. For a consumer that does not read ahead.
    pub fn begin_next(&self) {
        let mut state = self.shared.state();
        if state.epochs.is_empty() {
            state.closed = state.closed.max(state.next.saturating_add(1));
            self.shared.turned.notify_all();
        }
    }

    /// Whether the epoch after those being read has been computed.
    #[cfg(test)]
    pub fn is_next_made(&self) -> bool {
        self.shared.state().coming.is_some()
    }

    /// A handle for threads other than the consumer.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }
}

/// The operations on a [`Feed`] that are open to threads other than its consumer.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    /// Allows the feed to read epoch `epoch`. Needed for each epoch after the first, if the number of epochs is unknown.
    pub fn begin(&self, epoch: u64) {
        let mut state = self.0.state();
        if state.closed <= epoch {
            state.closed = epoch.saturating_add(1);
            self.0.turned.notify_all();
        }
    }

    /// Stops the feed and wakes all waiting threads.
    pub fn stop(&self) {
        self.0.state().is_stopped = true;
        self.0.budget.stop();
        self.0.ready.notify_all();
        self.0.turned.notify_all();
    }

    /// Network transfers of all datasets together; `None` if all data is in files.
    pub fn transfers(&self) -> Option<Transfers> {
        self.0.plan.sources.iter().filter_map(|source| source.dataset.transfers()).reduce(Transfers::and)
    }

    /// Cache use of all datasets together; `None` if there is no cache.
    pub fn cache(&self) -> Option<CacheUse> {
        self.0.plan.sources.iter().filter_map(|source| source.dataset.cache()).reduce(CacheUse::and)
    }

    /// Peak number of bytes of all runs in memory.
    pub fn peak_bytes(&self) -> u64 {
        self.0.budget.peak_bytes()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // After a fork the child has none of the threads, and locks may be in any state.
        if self.process != shardpack_runtime::process_id() {
            std::mem::take(&mut self.threads).into_iter().for_each(std::mem::forget);
            return;
        }
        self.handle().stop();
        let until = self.handle().transfers().map(|_| Instant::now() + SERVER_GRACE);
        for thread in self.threads.drain(..) {
            // A thread that waits for a silent server ends when its request times out; the drop does not wait for that.
            while until.is_some_and(|until| Instant::now() < until) && !thread.is_finished() {
                sleep(Duration::from_millis(1));
            }
            if until.is_none() || thread.is_finished() {
                // The state already has its error.
                let _ = thread.join();
            }
        }
    }
}

impl State {
    /// Number of the epoch after the last one that is read, if there is one.
    fn next_epoch(&self) -> Option<u64> {
        Some(self.next).filter(|next| *next < self.end)
    }

    /// Whether the next epoch may be read.
    fn is_open(&self) -> bool {
        self.next < self.closed
    }

    /// Adds the next epoch, if it is computed and may be read.
    fn begin_epoch(&mut self) -> bool {
        if !self.is_open() {
            return false;
        }
        let Some(epoch) = self.coming.take() else { return false };
        self.next += 1;
        self.epochs.push_back(epoch);
        true
    }

    /// Fails if a thread has failed.
    fn check(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(Error::new(ErrorKind::System, format!("a thread that reads has failed: {failure}"))),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, once the current epoch has begun; without an epoch after the last, or after a stop.
    fn begun(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        let mut waited: Option<Instant> = None;
        while state.epochs.is_empty() && state.next_epoch().is_some() && !state.is_stopped {
            if state.begin_epoch() {
                // The readers wait for it.
                self.turned.notify_all();
                break;
            }
            state.check()?;
            if state.is_open() {
                waited.get_or_insert_with(Instant::now);
            }
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(since) = waited {
            self.counters.disk_wait_ns.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        }
        Ok(state)
    }

    /// Runs `work`, and reports an error or a panic to the consumer.
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
        self.turned.notify_all();
    }

    /// The next run to read; `None` after the last run, or after a stop.
    fn next_run(&self) -> Result<Option<Arc<Run>>> {
        let mut state = self.state();
        loop {
            if state.is_stopped || state.failure.is_some() {
                return Ok(None);
            }
            let ticket = state.tickets;
            let run = state.epochs.back_mut().and_then(|one| one.next_run(&self.plan, &self.budget, ticket));
            // Samples of other runs may have been listed.
            self.ready.notify_all();
            if let Some(run) = run {
                state.tickets += 1;
                return Ok(Some(run));
            }
            if state.next_epoch().is_none() {
                return Ok(None);
            }
            // At most one epoch ahead.
            if state.epochs.len() > 1 || !state.begin_epoch() {
                state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                self.turned.notify_all();
            }
        }
    }
}

/// Computes each epoch as soon as the one before is read. For a mix this may take seconds, and no reader waits for it.
fn make_epochs(shared: &Shared) -> Result<()> {
    let mut state = shared.state();
    loop {
        if state.is_stopped || state.failure.is_some() {
            return Ok(());
        }
        let Some(number) = state.next_epoch() else { return Ok(()) };
        if state.coming.is_some() {
            state = shared.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        drop(state);
        let (content, lanes) = shared.plan.lanes(number, 0)?;
        let epoch = EpochRuns::new(&shared.plan, number, content, lanes);
        state = shared.state();
        state.coming = Some(epoch);
        shared.turned.notify_all();
    }
}

/// Reads runs until there are no more.
fn read_all(shared: &Shared) -> Result<()> {
    let mut scratch = Scratch::default();
    while let Some(run) = shared.next_run()? {
        // If an index or a range cannot be read, each of its samples returns the error.
        let (copy, number) = run.content.shard(run.segment.shard);
        let shard = plan::shard(&shared.plan.sources, copy, number)?;
        let may_damage = shard.dataset().access().may_damage;
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
                let mut filled = shard.fill(&mut window, &mut scratch, span.clone());
                // Damaged data fails to decompress; a second read may return it intact.
                if may_damage && filled.as_ref().is_err_and(|error| error.kind() == ErrorKind::Data) {
                    filled = shard.fill(&mut window, &mut scratch, span);
                }
                is_whole &= filled.is_ok();
                pieces.push(Piece { end, window, granted_bytes });
            }
            shared.counters.read_ns.fetch_add(reading.elapsed().as_nanos() as u64, Relaxed);
            shared.counters.reads.fetch_add(pieces.len() as u64, Relaxed);
            if is_whole {
                shared.counters.read_bytes.fetch_add(lengths.iter().sum(), Relaxed);
                // Other files are hashed only on request, and then by the threads that decode them.
                if may_damage {
                    run.check(shard, copy, &pieces);
                }
            }
            // If a read fails, the window is empty, and each sample is read on its own.
            Some(pieces)
        };
        let _ = run.pieces.set(pieces);
        // Under the lock, so that a consumer that is about to wait does not miss the notification.
        let state = shared.state();
        shared.ready.notify_all();
        drop(state);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{PoisonError, mpsc},
        time::{Duration, Instant},
    };

    use shardpack_reader::Dataset;
    use shardpack_testing::Packing;

    use crate::{Loader, MixPart, Options, Times};

    const LONG: Duration = Duration::from_secs(60);

    /// Two parts that repeat other samples in each epoch; returns the samples of an epoch.
    fn mix(folder: &Path, epochs: u64) -> (Loader, u64) {
        let payloads: Vec<_> = (0..300_u32).map(|number| number.to_le_bytes().to_vec()).collect();
        Packing { shard_samples: 61, block_samples: 3, ..Packing::default() }.pack(folder, &payloads);
        let part = |times| MixPart { times, ..MixPart::new(Dataset::open(folder).unwrap()) };
        let parts = vec![part(Times::Total(400)), part(Times::Classes(0.0))];
        let options = Options { batch: 8, epochs, seed: 1, ..Options::default() };
        (Loader::mix(parts, options).unwrap(), 700)
    }

    #[test]
    fn an_epoch_is_delivered_to_its_end_while_the_next_cannot_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let (loader, samples) = mix(folder.path(), 2);
        let gate = loader.plan().gate.clone();
        // The loader computed the first epoch when it was created.
        let held = gate.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ours = loader.samples(&loader.beginning()).unwrap();
        let (said, heard) = mpsc::channel();
        let consumer = std::thread::spawn(move || {
            for epoch in 0..2 {
                for _ in 0..samples {
                    assert_eq!(ours.next().unwrap().unwrap().epoch(), epoch);
                }
                said.send(epoch).unwrap();
                assert!(ours.next().unwrap().is_none());
            }
        });
        assert_eq!(heard.recv_timeout(LONG), Ok(0), "the end of an epoch waits for the next one");
        drop(held);
        assert_eq!(heard.recv_timeout(LONG), Ok(1));
        consumer.join().unwrap();
    }

    #[test]
    fn samples_of_an_unknown_number_of_epochs_are_read_epoch_by_epoch() {
        let folder = tempfile::tempdir().unwrap();
        let (loader, samples) = mix(folder.path(), u64::MAX);
        let mut ours = loader.samples(&loader.beginning()).unwrap();
        let mut read_bytes = Vec::new();
        for epoch in 0..3 {
            for _ in 0..samples {
                assert_eq!(ours.next().unwrap().unwrap().epoch(), epoch);
            }
            assert!(ours.next().unwrap().is_none());
            while !ours.is_next_made() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            let all: u64 = read_bytes.iter().sum();
            read_bytes.push(ours.stats().read_bytes - all);
        }
        let (one, _) = mix(folder.path(), 1);
        let mut alone = one.samples(&one.beginning()).unwrap();
        (0..samples).for_each(|_| drop(alone.next().unwrap().unwrap()));
        assert_eq!(read_bytes[0], alone.stats().read_bytes);
    }

    #[test]
    fn the_next_epoch_is_made_while_the_first_is_hardly_begun() {
        let folder = tempfile::tempdir().unwrap();
        let (loader, _) = mix(folder.path(), u64::MAX);
        let mut samples = loader.samples(&loader.beginning()).unwrap();
        samples.next().unwrap().unwrap();
        let since = Instant::now();
        while !samples.is_next_made() {
            assert!(since.elapsed() < LONG, "it is made only when it is needed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
