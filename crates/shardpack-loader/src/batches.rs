//! Batches that threads make ahead and hand out in order.
//!
//! Holds at all times: the content of a batch is a function of the order, the transform, the seed, the epoch and the
//! dataset, and does not depend on the number of threads. Each expected sample is in the batch, or the receipt names it
//! as skipped or replaced.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread::JoinHandle,
    time::Duration,
};

use shardpack_format::{Error, ErrorKind, Result, threads::cannot_start};
use shardpack_imaging::training::{Transform, Worker};
use shardpack_runtime::{Instant, threads};

use crate::{
    Output,
    advice::Facts,
    batch::Batch,
    columns::{Column, Gathered, Wanted},
    facts,
    feed::{Feed, Handle, Next},
    fill_slot::{KeptSample, Making, Slotted},
    fork_guard,
    order::{RankBatch, RankBatches, Share},
    receipt::{Bad, Receipt},
    ring::{Finished, Outlet, Ring},
    run::{Fetched, fetch_lines},
    slots::Slots,
    state::State,
    stats::Stats,
};

struct Shared {
    making: Making,
    ring: Arc<Ring>,
    outlet: Outlet<FinishedBatch>,
    front: Mutex<Front>,
    /// The error that ended the work, until it is reported.
    failure: Mutex<Option<Error>>,
}

/// Assigns samples to batches, one thread at a time.
struct Front {
    feed: Feed,
    building: Option<Arc<Building>>,
    next_slot: usize,
    /// The current epoch, once it has begun.
    epoch: Option<FrontEpoch>,
    /// Sequence number of the next finished item.
    sequence: u64,
    has_ended: bool,
}

/// The batches of an epoch.
struct FrontEpoch {
    epoch: u64,
    share: Share,
    batches: RankBatches,
    /// Number of the next batch in the epoch.
    number: u64,
}

/// A batch in progress. The thread that drops the last reference finishes it.
struct Building {
    sequence: u64,
    epoch: u64,
    number: u64,
    share: Share,
    batch: RankBatch,
    slots: Slots,
    /// Number of samples in the batch.
    len: usize,
    /// The parts that are finished.
    parts: Mutex<Vec<BatchPiece>>,
    error: Mutex<Option<Error>>,
}

/// Consecutive samples of a batch, made by one thread.
struct BatchPiece {
    /// The slot of the first.
    first: usize,
    slotted: Vec<Slotted>,
    columns: Vec<Gathered>,
}

/// Samples that a thread makes at a time for [`Output::Encoded`](crate::Output::Encoded), where each sample is little
/// work.
const TOGETHER: usize = 32;

/// A batch, and its entries for the receipt.
#[derive(Debug)]
pub(crate) struct FinishedBatch {
    batch: Batch,
    wanted: Vec<(usize, u64)>,
    repeated: u64,
    bad: Vec<Bad>,
}

/// The batches of one rank, epoch after epoch, made ahead by threads.
///
/// Dropping it ends its threads. After a fork, the child has no such threads and gets an error instead of batches.
pub struct Batches {
    shared: Arc<Shared>,
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    process: u32,
    started: Instant,
    /// Since when the consumer has waited for the next batch.
    asked: Option<Instant>,
    sequence: u64,
    receipt: Receipt,
    /// Whether the epoch of the receipt has ended.
    has_ended: bool,
    /// Whether the end of an epoch is still to be returned, after its error.
    owes_end: bool,
    /// Whether the current epoch was resumed after its begin.
    is_resumed: bool,
    state: State,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Batches {
    pub(crate) fn start(making: Making, feed: Feed, ring: Ring, state: State, jobs: usize) -> Result<Self> {
        let handle = feed.handle();
        let receipt = Receipt::new(making.plan.id(), state.epoch);
        let front = Front { feed, building: None, next_slot: 0, epoch: None, sequence: 0, has_ended: false };
        let shared = Arc::new(Shared {
            making,
            ring: Arc::new(ring),
            outlet: Outlet::default(),
            front: Mutex::new(front),
            failure: Mutex::default(),
        });
        let mut batches = Self {
            shared,
            handle,
            threads: Vec::new(),
            process: shardpack_runtime::process_id(),
            started: Instant::now(),
            asked: None,
            sequence: 0,
            receipt,
            has_ended: false,
            owes_end: false,
            is_resumed: state.position > 0,
            state,
        };
        for number in 0..jobs.max(1) {
            let shared = Arc::clone(&batches.shared);
            match threads::spawn(Some(format!("shardpack-make-{number}")), move || shared.work()) {
                Ok(thread) => batches.threads.push(thread),
                Err(error) if batches.threads.is_empty() => return Err(cannot_start(error)),
                // The first threads may have taken the memory that the next ones need.
                Err(_) => break,
            }
        }
        Ok(batches)
    }

    /// The next batch; `None` once at the end of each epoch, and always after the last.
    ///
    /// # Errors
    /// - If a sample of the batch is bad and the policy is [`OnBad::Error`](crate::OnBad::Error), or the system cannot
    ///   read it. The next call continues with the following batch, and the receipt lacks this one.
    /// - If all samples of an epoch were bad and skipped. The next call returns the end of the epoch.
    /// - If no more batches can be made. Then each call fails, because `None` would look like the end of an epoch.
    /// - If this process is a fork of the process that made it.
    #[expect(clippy::should_implement_trait, reason = "it ends at each epoch, and goes on")]
    pub fn next(&mut self) -> Result<Option<Batch>> {
        fork_guard::check(self.process)?;
        if std::mem::take(&mut self.owes_end) {
            return Ok(None);
        }
        let counters = Arc::clone(&self.shared.making.counters);
        let asked = self.asked.take().unwrap_or_else(Instant::now);
        self.begin_epoch();
        self.shared.ring.wait_begins();
        let finished = self.shared.outlet.take(self.sequence);
        self.shared.ring.wait_ends(matches!(finished, Finished::Batch(_)));
        counters.waited(asked.elapsed().as_nanos() as u64);
        if !matches!(finished, Finished::End | Finished::Broken) {
            self.sequence += 1;
        }
        match finished {
            Finished::End => Ok(None),
            Finished::Broken => {
                let what = "an earlier error ended the batches: start again from the state after the last batch";
                Err(Error::new(ErrorKind::System, what))
            }
            Finished::Failed(error) => Err(error),
            Finished::EpochEnd => {
                self.begin_receipt();
                self.has_ended = true;
                let plan = &self.shared.making.plan;
                self.state = State::new(plan, self.state.epoch + 1, 0);
                match self.all_bad() {
                    None => Ok(None),
                    Some(error) => {
                        self.owes_end = true;
                        Err(error)
                    }
                }
            }
            Finished::Batch(mut made) => {
                made.batch.is_kept = true;
                self.begin_receipt();
                counters.batches.fetch_add(1, Relaxed);
                let plan = &self.shared.making.plan;
                made.wanted.iter().for_each(|wanted| self.receipt.add(plan.identity(*wanted)));
                self.receipt.repeated += made.repeated;
                for bad in made.bad {
                    let list = if bad.by.is_some() { &mut self.receipt.replaced } else { &mut self.receipt.skipped };
                    list.push(bad);
                }
                self.state = made.batch.state.clone();
                Ok(Some(made.batch))
            }
        }
    }

    /// Waits at most `timeout` for the next result of [`Batches::next`], and returns whether it is ready. For callers
    /// with other
    /// work in between, such as Python, which checks for signals.
    ///
    /// # Errors
    /// If this process is a fork of the process that made it.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        fork_guard::check(self.process)?;
        if self.owes_end {
            return Ok(true);
        }
        self.asked.get_or_insert_with(Instant::now);
        self.begin_epoch();
        self.shared.ring.wait_begins();
        let is_there = self.shared.outlet.wait_finished(self.sequence, timeout);
        self.shared.ring.wait_ends(false);
        Ok(is_there)
    }

    /// The error of an epoch of this rank that had no sample to hand out. A receipt after a resume lacks the samples before it.
    fn all_bad(&self) -> Option<Error> {
        let Receipt { epoch, samples, skipped, repeated, .. } = &self.receipt;
        let are_all = !self.is_resumed && skipped.len() as u64 == *samples && *repeated == 0;
        let first = skipped.first().filter(|_| are_all)?;
        let what = format!("epoch {epoch} has no good sample among the {samples} of this rank");
        Some(Error::data(format!("{what}: the first is sample {}: {}", first.sample, first.reason)))
    }

    /// Begins the current epoch, if the last one has ended: the feed may not read it before, if the number of epochs is
    /// unknown.
    fn begin_epoch(&self) {
        if self.has_ended {
            self.handle.begin(self.state.epoch);
        }
    }

    /// Begins the receipt of the current epoch, if the last one has ended.
    fn begin_receipt(&mut self) {
        if std::mem::take(&mut self.has_ended) {
            self.is_resumed = false;
            self.receipt = Receipt::new(self.receipt.dataset, self.state.epoch);
        }
    }

    /// The state that resumes right after the last batch that was handed out.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The receipt of the current epoch, or of the whole epoch at its end, since the start or the resumed state. The
    /// receipts of
    /// all ranks add up to [`Loader::expected`](crate::Loader::expected).
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Facts about the run so far, for [`advice::advise`](crate::advice::advise).
    pub fn facts(&self) -> Facts {
        facts::collect(&self.shared.making, &self.stats(), self.threads.len())
    }

    /// Counts and times so far.
    pub fn stats(&self) -> Stats {
        let elapsed_ms = self.started.elapsed().as_secs_f64() * 1e3;
        self.shared.making.counters.stats(elapsed_ms, &self.handle)
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if self.process != shardpack_runtime::process_id() {
            // The threads do not exist in this process, and their locks may stay held forever.
            std::mem::take(&mut self.threads).into_iter().for_each(std::mem::forget);
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.handle.stop();
        self.shared.ring.stop();
        for thread in self.threads.drain(..) {
            // The outlet already has its error.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The work of each thread.
    fn work(&self) {
        let Err(error) = self.make_all() else { return };
        let mut front = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut front.has_ended, true) {
            return;
        }
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        // The consumer would wait for every unfinished batch. A batch shared with other threads ends when they finish.
        let number = match front.building.take() {
            None => front.sequence,
            Some(building) => {
                let number = building.sequence;
                if let Some(building) = Arc::into_inner(building) {
                    self.finish(building);
                }
                return self.outlet.put(number + 1, Finished::Broken);
            }
        };
        self.outlet.put(number, Finished::Failed(self.ended()));
        self.outlet.put(number + 1, Finished::Broken);
    }

    /// The error for an unfinished batch.
    fn ended(&self) -> Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.unwrap_or_else(|| Error::new(ErrorKind::System, "stopped in mid-batch"))
    }

    fn make_all(&self) -> Result<()> {
        let mut worker = Worker::within(self.making.limits, Arc::clone(&self.making.decoding));
        let mut fetched = Vec::new();
        while let Some((building, first)) = self.next_samples(&mut fetched)? {
            let started = Instant::now();
            let made = self.part(&mut worker, &building, first, &fetched);
            self.making.counters.work_ns.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
            // Release the runs of these samples before waiting for the next ones.
            fetched.clear();
            match made {
                Ok(part) => building.parts.lock().unwrap_or_else(PoisonError::into_inner).push(part),
                Err(error) => {
                    building.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
            if let Some(building) = Arc::into_inner(building) {
                self.finish(building);
            }
        }
        Ok(())
    }

    /// Makes consecutive samples of a batch.
    fn part(&self, worker: &mut Worker, building: &Building, first: usize, fetched: &[Fetched]) -> Result<BatchPiece> {
        let columns = self.making.columns.iter().map(Wanted::begin).collect();
        // Payloads alone are handed out without reading them.
        if !self.making.columns.is_empty() && fetched.len() > 1 {
            fetch_lines(fetched);
        }
        let mut part = BatchPiece { first, slotted: Vec::with_capacity(fetched.len()), columns };
        for (slot, fetched) in (first..).zip(fetched) {
            let Some(mut lent) = building.slots.lend(slot) else {
                return Err(Error::new(ErrorKind::System, "a slot that was lent twice"));
            };
            let views = &mut lent.views;
            let make = AssertUnwindSafe(|| self.making.slotted(worker, fetched, views, &mut part.columns));
            // A function of the caller may panic; the worker is fully usable for the next image.
            let made = catch_unwind(make)
                .unwrap_or_else(|_| Err(Error::new(ErrorKind::System, "a panic while a sample was made")));
            part.slotted.push(made?);
        }
        Ok(part)
    }

    /// Puts the next samples into `fetched`. Returns their batch and the slot of the first sample; `None` after the
    /// last sample.
    fn next_samples(&self, fetched: &mut Vec<Fetched>) -> Result<Option<(Arc<Building>, usize)>> {
        let mut front = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if front.has_ended {
                return Ok(None);
            }
            let building = match &front.building {
                Some(building) => Arc::clone(building),
                None => match self.begin(&mut front)? {
                    Some(building) => building,
                    None => continue,
                },
            };
            let together = if self.making.output.has_slots() { 1 } else { TOGETHER };
            let most = together.min(building.len - front.next_slot);
            let Next::Samples = front.feed.next(most, fetched)? else {
                // Happens only after a stop: a batch has exactly the samples of its share.
                front.has_ended = true;
                continue;
            };
            let slot = front.next_slot;
            front.next_slot += fetched.len();
            if front.next_slot == building.len {
                front.building = None;
            }
            return Ok(Some((building, slot)));
        }
    }

    /// Begins the next batch; `None` if an end came instead.
    fn begin(&self, front: &mut Front) -> Result<Option<Arc<Building>>> {
        if front.epoch.is_none() {
            let Some((epoch, lanes, batches)) = front.feed.lanes()? else {
                front.has_ended = true;
                self.outlet.put(front.sequence, Finished::End);
                return Ok(None);
            };
            front.epoch = Some(FrontEpoch { epoch, share: *lanes.share(), batches, number: 0 });
        }
        let Front { feed, epoch: Some(current), sequence: next, .. } = front else { return Ok(None) };
        let sequence = *next;
        let Some(batch) = current.batches.next() else {
            // Returns at once: all samples of the epoch have been taken.
            feed.next(1, &mut Vec::new())?;
            self.outlet.put(sequence, Finished::EpochEnd);
            (front.sequence, front.epoch) = (sequence + 1, None);
            return Ok(None);
        };
        let (epoch, number, share) = (current.epoch, current.number, current.share);
        current.number += 1;
        let waiting = Instant::now();
        let slots = self.ring.take()?;
        self.making.counters.full_ns.fetch_add(waiting.elapsed().as_nanos() as u64, Relaxed);
        let Some(slots) = slots else {
            front.has_ended = true;
            return Ok(None);
        };
        let len = usize::try_from(batch.len).unwrap_or(usize::MAX);
        let (parts, error) = (Mutex::default(), Mutex::default());
        let building = Building { sequence, epoch, number, share, batch, slots, len, parts, error };
        (front.sequence, front.next_slot) = (sequence + 1, 0);
        if len == 0 {
            self.finish(building);
            return Ok(None);
        }
        let building = Arc::new(building);
        front.building = Some(Arc::clone(&building));
        Ok(Some(building))
    }

    /// Assembles a batch from its parts.
    fn finish(&self, building: Building) {
        let Building { sequence, epoch, number, share, batch, mut slots, len, parts, error } = building;
        let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
        parts.sort_unstable_by_key(|part| part.first);
        let made: usize = parts.iter().map(|part| part.slotted.len()).sum();
        let stopped = || (made < len).then(|| self.ended());
        let error = error.into_inner().unwrap_or_else(PoisonError::into_inner).or_else(stopped);
        if let Some(error) = error {
            self.ring.give_back(slots, false);
            self.outlet.put(sequence, Finished::Failed(error));
            return;
        }
        let own = share.own().saturating_sub(batch.start);
        let making = &self.making;
        let mut made_of = Vec::with_capacity(len);
        let mut columns: Vec<_> = making.columns.iter().map(Wanted::begin).collect();
        let mut all = Vec::with_capacity(len);
        for part in parts {
            all.extend(part.slotted);
            columns.iter_mut().zip(part.columns).for_each(|(column, part)| column.append(part));
        }
        let (mut wanted, mut bad, mut repeated, mut kept_slots) = (Vec::new(), Vec::new(), 0, Vec::new());
        for (slot, slotted) in all.into_iter().enumerate() {
            if (slot as u64) < own {
                wanted.push(slotted.wanted);
                bad.extend(slotted.bad);
            } else {
                // A skipped repeat is already named at its first occurrence.
                repeated += u64::from(slotted.kept.is_some());
            }
            if let Some(kept) = slotted.kept {
                kept_slots.push(slot);
                made_of.push(kept);
            }
        }
        making.counters.repeated.fetch_add(repeated, Relaxed);
        slots.seal();
        slots.keep(&kept_slots);
        let (samples, labels) = made_of.iter().map(|kept| (kept.sample, kept.label)).unzip();
        let sources = made_of.iter().map(|kept| kept.source).collect();
        let views: &[Transform] = if let Output::Images(views) = &making.output { views } else { &[] };
        let cuts = |(number, view): (usize, &Transform)| match view.moves() {
            true => Vec::new(),
            false => made_of.iter().filter_map(|kept| kept.geometries.get(number).copied()).collect(),
        };
        let geometries = views.iter().enumerate().map(cuts).collect();
        let mixed_labels = match views {
            // Mixing is for one view.
            [view] if !view.mixing().is_empty() => Some(mixed(view, making.mixed_classes, &made_of, &mut slots)),
            _ => None,
        };
        let payloads = made_of.into_iter().filter_map(|kept| kept.payload).collect();
        let columns = making.columns.iter().zip(columns).map(|(wanted, column)| Column {
            name: wanted.name.clone(),
            view: wanted.view,
            values: column.into_values(),
        });
        let columns = columns.collect();
        let plan = &making.plan;
        let state = State::new(plan, epoch, batch.after);
        let ring = Arc::clone(&self.ring);
        let batch = Batch {
            epoch,
            number,
            sources,
            samples,
            labels,
            slots: Some(slots),
            payloads,
            geometries,
            mixed_labels,
            columns,
            state,
            ring,
            is_kept: false,
        };
        self.outlet.put(sequence, Finished::Batch(FinishedBatch { batch, wanted, repeated, bad }));
    }
}

/// Mixes the images of a batch. Returns their labels as shares of `classes` classes; [`Making::slotted`] has checked the labels.
fn mixed(view: &Transform, classes: usize, made_of: &[KeptSample], slots: &mut Slots) -> Vec<f32> {
    let mut shares = vec![0.0; made_of.len() * classes];
    let (Some(first), Some(last)) = (made_of.first(), made_of.last()) else { return shares };
    let own = slots.all_mut(0, made_of.len()).map_or(1.0, |images| view.mix(first.random_key, images));
    let before = std::iter::once(last).chain(made_of);
    for ((row, kept), before) in shares.chunks_mut(classes).zip(made_of).zip(before) {
        for (label, share) in [(kept.label, own), (before.label, 1.0 - own)] {
            let share_of = usize::try_from(label).ok().and_then(|label| row.get_mut(label));
            share_of.into_iter().for_each(|sum| *sum += share as f32);
        }
    }
    shares
}
