//! A memory budget shared by threads: each thread takes all it needs at once, in request order, and returns it.
//!
//! Holds at all times: at most the budget is taken; a waiting thread holds nothing, so no thread waits forever.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Limits, Refused};

/// From this size on, an allocation is tried before a decoder starts: decoders abort on a failed allocation.
const ASKED_BYTES: u64 = 4 << 20;

/// Memory that several threads share; see [`Budget::for_decode`].
#[derive(Debug)]
pub struct Budget {
    bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// Ticket number of the next request.
    asks: u64,
    /// Ticket number that is served next.
    serves: u64,
}

impl Budget {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, state: Mutex::new(State { free: bytes, asks: 0, serves: 0 }), changed: Condvar::new() }
    }

    /// The whole budget in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The usual limits, with image memory bounded by this budget.
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits { bytes: usual.bytes.min(self.bytes), ..usual }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `bytes` are free (all of the budget if it is smaller), and takes them until the result is dropped.
    ///
    /// Requests are served in order: many small requests do not delay a large one.
    pub fn take(&self, bytes: u64) -> Reservation<'_> {
        let bytes = bytes.min(self.bytes);
        let mut state = self.state();
        let number = state.asks;
        state.asks += 1;
        while state.serves != number || state.free < bytes {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.serves += 1;
        state.free -= bytes;
        if state.serves != state.asks {
            self.changed.notify_all();
        }
        Reservation { budget: self, bytes }
    }

    /// Takes `needed` bytes for decoders, which abort the process if the system has no memory; takes the whole budget
    /// if the need is unknown.
    pub(crate) fn for_work(&self, needed: Option<u64>) -> Result<Reservation<'_>, Refused> {
        let Some(needed) = needed else { return Ok(self.take(self.bytes)) };
        if needed > self.bytes {
            return Err(Refused::OverBudget { needed, allowed: self.bytes });
        }
        let taken = self.take(needed);
        let in_use = self.bytes - self.state().free;
        if needed < ASKED_BYTES || can_allocate(in_use) {
            return Ok(taken);
        }
        // Other threads may or may not have allocated their share: only a single decode can be checked.
        drop(taken);
        let all = self.take(self.bytes);
        if can_allocate(needed) { Ok(all) } else { Err(Refused::NoMemory { needed }) }
    }
}

/// Whether the system can allocate `bytes`.
fn can_allocate(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| {
        let mut asked = Vec::<u8>::new();
        let is_there = asked.try_reserve_exact(bytes).is_ok();
        // A compiler may remove an allocation that is never used.
        std::hint::black_box(&mut asked);
        is_there
    })
}

/// A part of a [`Budget`].
#[derive(Debug)]
pub struct Reservation<'b> {
    budget: &'b Budget,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.free += self.bytes;
        if state.serves != state.asks {
            self.budget.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_is_taken_at_a_time_than_there_is_and_all_are_served() {
        let (budget, held, served) = (Budget::new(10), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (budget, held, served) = (&budget, &held, &served);
                scope.spawn(move || {
                    for bytes in (0..200).map(|round| (thread + round) % 13) {
                        let taken = budget.take(bytes);
                        let bytes = bytes.min(10);
                        assert!(held.fetch_add(bytes, Ordering::SeqCst) + bytes <= 10);
                        std::thread::yield_now();
                        held.fetch_sub(bytes, Ordering::SeqCst);
                        drop(taken);
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(served.into_inner(), 800);
        assert_eq!(budget.state().free, 10);
    }

    #[test]
    fn what_is_more_than_all_is_refused_and_what_the_system_lacks_too() {
        let budget = Budget::new(1 << 60);
        let refused = Budget::new(100).for_work(Some(101)).unwrap_err();
        assert_eq!(refused, Refused::OverBudget { needed: 101, allowed: 100 });
        assert_eq!(budget.for_work(Some(1 << 50)).unwrap_err(), Refused::NoMemory { needed: 1 << 50 });
        // The whole budget is free again.
        assert_eq!(budget.state().free, 1 << 60);
        assert!(budget.for_work(Some(1 << 20)).is_ok());
    }
}
