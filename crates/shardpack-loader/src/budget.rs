//! The memory for runs: reusable windows within a limit in bytes.
//!
//! Holds at all times: windows are granted in the order of their tickets. Granted and free windows together stay within the
//! limit, except for windows that a consumer waits for; these are counted too.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use shardpack_reader::Window;

/// See the module.
pub(crate) struct Budget {
    limit_bytes: usize,
    state: Mutex<State>,
    /// Ticket *t* waits on condition *t* mod [`QUEUES`], so that a change wakes only the next ticket.
    changed: [Condvar; QUEUES],
}

/// Usually more than the number of threads that read.
const QUEUES: usize = 16;

#[derive(Default)]
struct State {
    /// Windows that are free.
    free: Vec<Window>,
    /// Bytes of all windows, including free ones.
    bytes: usize,
    peak_bytes: usize,
    /// The next ticket to be granted.
    next: u64,
    /// Tickets below this one are granted even beyond the limit.
    wanted: u64,
    is_stopped: bool,
}

impl State {
    /// Moves the smallest free window that fits into `windows`, for each piece that has none, until a piece has no such window.
    fn reuse(&mut self, needed: &[usize], windows: &mut Vec<Window>) {
        while let Some(bytes) = needed.get(windows.len()) {
            let fits = self.free.iter().enumerate().filter(|(_, window)| window.capacity() >= *bytes);
            let Some((at, _)) = fits.min_by_key(|(_, window)| window.capacity()) else { break };
            windows.push(self.free.swap_remove(at));
        }
    }

    /// Frees unused windows until all together have at most `bytes`, if that is possible.
    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes {
            let Some(window) = self.free.pop() else { break };
            self.bytes -= window.capacity();
        }
    }

    fn allocate(&mut self, bytes: usize) -> Window {
        let window = Window::with_capacity(bytes);
        self.bytes += window.capacity();
        window
    }
}

/// Capacities are multiples of this, and of an eighth of the size rounded up to a power of two.
const GRAIN_BYTES: usize = 4 * 1024;

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}

impl Budget {
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, state: Mutex::default(), changed: [const { Condvar::new() }; QUEUES] }
    }

    fn queue(&self, ticket: u64) -> &Condvar {
        &self.changed[(ticket % QUEUES as u64) as usize]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Windows for pieces of these lengths. Waits until all tickets before have their windows and there is room; `None` after
    /// [`Budget::stop`]. The caller must pass the capacity of each window to [`Budget::give_back`].
    pub fn take(&self, ticket: u64, pieces: &[u64]) -> Option<Vec<Window>> {
        let grains = |bytes: &u64| {
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
            // Run lengths vary by some tenths; rounding up lets the next run use the same window.
            let grain = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 8).max(GRAIN_BYTES);
            bytes.div_ceil(grain).saturating_mul(grain)
        };
        let needed: Vec<usize> = pieces.iter().map(grains).collect();
        let mut windows: Vec<Window> = Vec::with_capacity(needed.len());
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return None;
            }
            if state.next == ticket {
                state.reuse(&needed, &mut windows);
                let rest = &needed[windows.len()..];
                let more = rest.iter().fold(0_usize, |sum, bytes| sum.saturating_add(*bytes));
                state.shrink_to(self.limit_bytes.saturating_sub(more));
                let has_room = state.bytes.saturating_add(more) <= self.limit_bytes;
                if more == 0 || has_room || ticket < state.wanted || state.bytes == 0 {
                    windows.extend(rest.iter().map(|bytes| state.allocate(*bytes)));
                    state.peak_bytes = state.peak_bytes.max(state.bytes);
                    self.granted(&mut state);
                    return Some(windows);
                }
            }
            state = self.queue(ticket).wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn granted(&self, state: &mut State) {
        state.next += 1;
        self.queue(state.next).notify_all();
    }

    /// Skips a ticket that needs no window.
    pub fn pass(&self, ticket: u64) {
        let mut state = self.state();
        while state.next != ticket && !state.is_stopped {
            state = self.queue(ticket).wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.granted(&mut state);
    }

    /// Takes back a window that was granted with a capacity of `granted_bytes`.
    pub fn give_back(&self, mut window: Window, granted_bytes: usize) {
        window.clear();
        let mut state = self.state();
        // The window may have grown: a frame of a compressed shard can begin before the requested range.
        state.bytes = (state.bytes + window.capacity()).saturating_sub(granted_bytes);
        state.peak_bytes = state.peak_bytes.max(state.bytes);
        if state.bytes > self.limit_bytes {
            state.bytes -= window.capacity();
        } else {
            state.free.push(window);
        }
        let next = state.next;
        drop(state);
        self.queue(next).notify_all();
    }

    /// Registers that a consumer waits for the run of ticket `ticket`.
    pub fn want(&self, ticket: u64) {
        let mut state = self.state();
        if state.wanted <= ticket {
            state.wanted = ticket + 1;
            self.queue(state.next).notify_all();
        }
    }

    /// Wakes all waiting threads for good.
    pub fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.iter().for_each(Condvar::notify_all);
    }

    /// Peak number of bytes of all windows.
    pub fn peak_bytes(&self) -> u64 {
        self.state().peak_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Duration};

    use super::*;

    #[test]
    fn windows_are_used_again_and_stay_within_the_limit() {
        let budget = Budget::new(4 * GRAIN_BYTES);
        let one = |ticket, bytes: usize| budget.take(ticket, &[bytes as u64]).unwrap().pop().unwrap();
        let first = one(0, 3 * GRAIN_BYTES);
        let second = one(1, 1);
        let (a, b) = (first.capacity(), second.capacity());
        assert!(a >= 3 * GRAIN_BYTES && b >= GRAIN_BYTES);
        budget.give_back(first, a);
        budget.give_back(second, b);
        // The small one is taken, and both make room for one that is larger.
        let third = one(2, GRAIN_BYTES);
        assert_eq!(third.capacity(), b);
        let c = third.capacity();
        budget.give_back(third, c);
        assert!(budget.take(3, &[3 * GRAIN_BYTES as u64, 1]).is_some_and(|windows| windows.len() == 2));
        assert_eq!(budget.peak_bytes(), 4 * GRAIN_BYTES as u64);
    }

    #[test]
    fn tickets_wait_for_those_before_and_for_room_unless_they_are_wanted() {
        let budget = Arc::new(Budget::new(GRAIN_BYTES));
        let taker = |ticket| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || budget.take(ticket, &[GRAIN_BYTES as u64]).is_some())
        };
        let second = taker(1);
        thread::sleep(Duration::from_millis(20));
        assert!(!second.is_finished(), "before its turn");
        let first = budget.take(0, &[1]).unwrap().pop().unwrap();
        thread::sleep(Duration::from_millis(20));
        assert!(!second.is_finished(), "without room");
        budget.want(1);
        assert!(second.join().unwrap());
        assert!(budget.peak_bytes() > GRAIN_BYTES as u64);
        let third = taker(2);
        let bytes = first.capacity();
        budget.stop();
        assert!(!third.join().unwrap());
        budget.give_back(first, bytes);
    }
}
