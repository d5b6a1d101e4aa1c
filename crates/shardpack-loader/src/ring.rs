//! The batches that are made ahead: their memory, and the finished batches in their order.
//!
//! Holds at all times: the number of batches stays within the limit, including those that the consumer keeps. The one
//! exception: a consumer that keeps all batches and waits for another one gets it in memory that the ring allocates.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use shardpack_format::{Error, ErrorKind, Result};
use shardpack_runtime::wait_timeout_while;

use crate::slots::{Memory, Slots, Views};

/// An item from the ring, in the order of its numbers.
#[derive(Debug)]
pub(crate) enum Finished<T> {
    Batch(T),
    EpochEnd,
    /// The batch could not be made.
    Failed(Error),
    End,
    /// As `End`, but early: the failed part has reported the error.
    Broken,
}

/// See the module; the ring identifies finished batches only by their number.
#[derive(Debug)]
pub(crate) struct Ring {
    batch: usize,
    views: Views,
    /// Whether batches are made in memory of the caller.
    is_callers: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: Vec<Slots>,
    /// Number of batches that may still be allocated.
    unmade: usize,
    /// Number of batches that exist or may still be allocated.
    total: usize,
    /// Number of batches that the consumer keeps.
    kept: usize,
    consumer_waits: bool,
    is_stopped: bool,
}

impl Ring {
    /// A ring of `batches` batches of `batch` slots with these views, in `memories`, or in memory of the ring if `memories`
    /// is empty.
    pub fn new(batch: usize, views: Views, batches: usize, memories: Vec<Box<dyn Memory>>) -> Result<Self> {
        let is_callers = !memories.is_empty();
        let unmade = if is_callers { 0 } else { batches.max(2) };
        let free: Vec<_> =
            memories.into_iter().map(|memory| Slots::new(memory, batch, views.clone())).collect::<Result<_>>()?;
        let total = unmade + free.len();
        let state = State { free, unmade, total, kept: 0, consumer_waits: false, is_stopped: false };
        Ok(Self { batch, views, is_callers, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a batch; blocks until some is free. `None` after [`Ring::stop`].
    ///
    /// # Errors
    /// If allocation fails, or if the consumer waits and keeps all memory of the caller.
    pub fn take(&self) -> Result<Option<Slots>> {
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return Ok(None);
            }
            if let Some(slots) = state.free.pop() {
                return Ok(Some(slots));
            }
            if state.consumer_waits && state.kept == state.total {
                if self.is_callers {
                    let what = format!("all {} memories belong to batches that are still held", state.total);
                    return Err(
                        Error::usage(what).help("drop a batch before requesting the next, or give more memories")
                    );
                }
                state.unmade += 1;
                state.total += 1;
            }
            if state.unmade > 0 {
                state.unmade -= 1;
                drop(state);
                return self.make().map(Some);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn make(&self) -> Result<Slots> {
        let bytes = self.views.bytes(self.batch).unwrap_or(usize::MAX);
        let mut memory: Vec<u8> = Vec::new();
        let no_memory = |_| Error::new(ErrorKind::System, format!("no memory for a batch of {bytes} bytes"));
        memory.try_reserve_exact(bytes).map_err(no_memory)?;
        memory.resize(bytes, 0);
        Slots::new(Box::new(memory.into_boxed_slice()), self.batch, self.views.clone())
    }

    /// Takes back the memory of a batch. `was_kept`: whether the consumer had received the batch.
    pub fn give_back(&self, mut slots: Slots, was_kept: bool) {
        slots.reset();
        let mut state = self.state();
        state.kept -= usize::from(was_kept);
        state.free.push(slots);
        drop(state);
        self.changed.notify_one();
    }

    /// The consumer starts to wait for a batch.
    pub fn wait_begins(&self) {
        self.state().consumer_waits = true;
        self.changed.notify_all();
    }

    /// The consumer stops waiting. `is_kept`: whether it has received a batch.
    pub fn wait_ends(&self, is_kept: bool) {
        let mut state = self.state();
        state.consumer_waits = false;
        state.kept += usize::from(is_kept);
    }

    /// Wakes all waiting threads for good.
    pub fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }
}

/// Finished items that were not handed out yet.
#[derive(Debug)]
pub(crate) struct Outlet<T> {
    finished: Mutex<BTreeMap<u64, Finished<T>>>,
    changed: Condvar,
}

impl<T> Default for Outlet<T> {
    fn default() -> Self {
        Self { finished: Mutex::default(), changed: Condvar::new() }
    }
}

impl<T> Outlet<T> {
    /// Adds item `number`.
    pub fn put(&self, number: u64, finished: Finished<T>) {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).insert(number, finished);
        self.changed.notify_all();
    }

    /// Waits at most `timeout` for item `number`, and returns whether it is finished.
    pub fn wait_finished(&self, number: u64, timeout: Duration) -> bool {
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |finished: &mut BTreeMap<u64, Finished<T>>| !finished.contains_key(&number);
        wait_timeout_while(&self.changed, finished, timeout, is_missing).contains_key(&number)
    }

    /// Waits for item `number` and removes it. `End` and `Broken` stay.
    pub fn take(&self, number: u64) -> Finished<T> {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match finished.remove(&number) {
                Some(end @ (Finished::End | Finished::Broken)) => {
                    let is_broken = matches!(end, Finished::Broken);
                    finished.insert(number, end);
                    return if is_broken { Finished::Broken } else { Finished::End };
                }
                Some(one) => return one,
                None => finished = self.changed.wait(finished).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_batches_exist_than_are_allowed() {
        let ring = Ring::new(2, Views::new([3]), 2, Vec::new()).unwrap();
        let (one, two) = (ring.take().unwrap().unwrap(), ring.take().unwrap().unwrap());
        std::thread::scope(|scope| {
            let third = scope.spawn(|| ring.take().unwrap().is_some());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!third.is_finished());
            ring.give_back(one, false);
            assert!(third.join().unwrap());
        });
        // The consumer keeps both batches and requests a third one.
        ring.wait_ends(true);
        ring.wait_ends(true);
        ring.wait_begins();
        assert!(ring.take().unwrap().is_some());
        ring.stop();
        assert!(ring.take().unwrap().is_none());
        drop(two);
        let memory: Box<dyn Memory> = Box::new(vec![0_u8; 6].into_boxed_slice());
        let ring = Ring::new(2, Views::new([3]), 0, vec![memory]).unwrap();
        ring.take().unwrap().unwrap();
        ring.wait_ends(true);
        ring.wait_begins();
        assert!(ring.take().unwrap_err().to_string().contains("all 1 memories"));
        let short: Box<dyn Memory> = Box::new(vec![0_u8; 5].into_boxed_slice());
        assert!(Ring::new(2, Views::new([3]), 2, vec![short]).is_err());
    }

    #[test]
    fn what_is_finished_comes_out_in_order() {
        let outlet = Outlet::default();
        outlet.put(1, Finished::Batch("second"));
        outlet.put(0, Finished::Batch("first"));
        outlet.put(2, Finished::End);
        assert!(outlet.wait_finished(0, Duration::ZERO) && !outlet.wait_finished(3, Duration::from_millis(1)));
        for (number, expected) in [(0, "first"), (1, "second")] {
            assert!(matches!(outlet.take(number), Finished::Batch(found) if found == expected));
        }
        outlet.put(3, Finished::Broken);
        for _ in 0..2 {
            assert!(matches!(outlet.take(2), Finished::End) && matches!(outlet.take(3), Finished::Broken));
        }
    }
}
