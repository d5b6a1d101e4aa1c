//! Shares one network request between threads that need the same data: the first thread sends it, the others wait for
//! the result.
//!
//! Holds at all times: no thread waits for another process or for a second attempt; if the first request fails, all
//! threads send their own at once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use shardpack_storage::Access;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Process of the thread that sends the request; 0 if there is none. A forked process copies the state, but not
    /// the thread.
    process: u32,
    has_ended: bool,
}

/// Ends a turn.
#[derive(Debug)]
pub(crate) struct FlightGuard<'a>(&'a SingleFlight);

impl SingleFlight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`SingleFlight::take`], without a wait if a second read of the same bytes costs little: `None` then.
    pub fn take_before(&self, access: Access) -> Option<FlightGuard<'_>> {
        if access.page_cache { None } else { self.take() }
    }

    /// Waits until no other thread is sending. A thread that gets `None` came later and has to check whether the first
    /// request brought the data.
    pub fn take(&self) -> Option<FlightGuard<'_>> {
        let process = shardpack_runtime::process_id();
        let mut state = self.state();
        while state.process == process && !state.has_ended {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_ended {
            return None;
        }
        state.process = process;
        Some(FlightGuard(self))
    }
}

impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering::SeqCst},
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn one_asks_and_the_others_wait_until_it_has_ended() {
        let (turn, asked, waited) = (SingleFlight::default(), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            let first = turn.take();
            assert!(first.is_some());
            for _ in 0..8 {
                scope.spawn(|| {
                    waited.fetch_add(1, SeqCst);
                    asked.fetch_add(u32::from(turn.take().is_some()), SeqCst);
                    waited.fetch_sub(1, SeqCst);
                });
            }
            while waited.load(SeqCst) < 8 {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(20));
            assert_eq!(waited.load(SeqCst), 8, "nobody goes on before it has ended");
            drop(first);
        });
        assert_eq!((asked.load(SeqCst), waited.load(SeqCst)), (0, 0));
        assert!(turn.take().is_none(), "whoever comes later asks at once");
    }

    #[test]
    fn a_process_that_was_forked_meanwhile_waits_for_nobody() {
        let turn = SingleFlight::default();
        turn.state().process = std::process::id() + 1;
        assert!(turn.take().is_some());
    }
}
