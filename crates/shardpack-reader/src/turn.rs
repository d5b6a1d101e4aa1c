//! Of many threads that want the same over a network one asks for it, and the others wait for what it brings.
//!
//! Holds at all times: nobody waits for another process, nor for who asks again: where the first fails, all ask at once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The process of who asks; 0 where nobody does. One that was forked has the state of any moment, but not the thread.
    process: u32,
    has_ended: bool,
}

/// Ends a turn.
#[derive(Debug)]
pub(crate) struct Taken<'a>(&'a Turn);

impl Turn {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else asks. Who gets `None` came after the first, and has to look whether that brought what is wanted.
    pub fn take(&self) -> Option<Taken<'_>> {
        let process = std::process::id();
        let mut state = self.state();
        while state.process == process && !state.has_ended {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_ended {
            return None;
        }
        state.process = process;
        Some(Taken(self))
    }
}

impl Drop for Taken<'_> {
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
        let (turn, asked, waited) = (Turn::default(), AtomicU32::new(0), AtomicU32::new(0));
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
        let turn = Turn::default();
        turn.state().process = std::process::id() + 1;
        assert!(turn.take().is_some());
    }
}
