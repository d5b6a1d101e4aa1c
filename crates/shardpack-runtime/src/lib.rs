//! Clock, randomness, threads and timed waits of all crates, in one place that a simulator can replace.
//!
//! Holds at all times: no function allocates or takes a lock beyond those of the standard library. clippy's `disallowed-methods`
//! (clippy.toml) refuses the functions of the standard library in all other crates, except in tests.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]
#![allow(clippy::disallowed_methods, reason = "the only crate that calls them")]

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Condvar, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

mod instant;
pub mod threads;

pub use instant::Instant;

/// The time of day. It may jump: [`Instant`] measures durations.
pub fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Blocks this thread for `duration`.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// A random number, not for cryptography: the keys of a hash map are random for each process and call.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The number of this process. It differs on both sides of a fork.
pub fn process_id() -> u32 {
    std::process::id()
}

/// Waits for `changed` for at most `timeout`; the caller checks its condition again.
pub fn wait_timeout<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
    changed.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}

/// Waits for `changed` while `is_waiting`, for at most `timeout`.
pub fn wait_timeout_while<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
    is_waiting: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    changed.wait_timeout_while(guard, timeout, is_waiting).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }

    #[test]
    fn a_sleep_and_a_wait_take_their_time() {
        let (start, pause) = (Instant::now(), Duration::from_millis(5));
        sleep(pause);
        assert!(start.elapsed() >= pause);
        assert!(Instant::now() >= start + pause);
        let (state, changed) = (Mutex::new(7), Condvar::new());
        assert_eq!(*wait_timeout(&changed, state.lock().unwrap(), pause), 7);
        assert_eq!(*wait_timeout_while(&changed, state.lock().unwrap(), pause, |state| *state == 7), 7);
    }
}
