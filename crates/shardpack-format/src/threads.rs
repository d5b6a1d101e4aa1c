//! Threads that a limit of the system may refuse: a pool runs with fewer threads, and a thread that must exist is an error.
//!
//! The one part of this crate that starts threads, for all crates above it.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicBool, Ordering},
    thread::{Builder, Scope, ScopedJoinHandle, scope},
};

use crate::{Error, ErrorKind, help};

/// Whether somebody who cannot say so could start no thread.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Notes that a third-party crate failed to start a thread, and may report its input as damaged.
pub fn refused() {
    REFUSED.store(true, Ordering::Relaxed);
}

/// Whether all threads were started; to be checked before results are used.
///
/// # Errors
/// When [`refused`] was called; once.
pub fn check() -> Result<(), Error> {
    match REFUSED.load(Ordering::Relaxed) && REFUSED.swap(false, Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Error::new(ErrorKind::System, "cannot start a thread to decode an image").help(help::THREADS)),
    }
}

/// The error where a thread cannot be started.
pub fn cannot_start(error: std::io::Error) -> Error {
    Error::io("cannot start a thread", error).help(help::THREADS)
}

/// Runs `work` on up to `most` threads, at least on this one, and returns their results in no order.
pub fn gather<T: Send>(most: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    scope(|scope| {
        let threads: Vec<_> = (0..most.max(1)).map_while(|_| Builder::new().spawn_scoped(scope, &work).ok()).collect();
        match threads.is_empty() {
            true => vec![work()],
            false => {
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
            }
        }
    })
}

/// As [`gather`], of work that gives nothing.
pub fn each(most: usize, work: impl Fn() + Sync) {
    gather(most, work);
}

/// A thread of `scope` that does `work`.
///
/// # Errors
/// When it cannot be started; `work` is dropped.
pub fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Error> {
    Builder::new().spawn_scoped(scope, work).map_err(cannot_start)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn all_threads_do_the_work_and_give_what_they_have() {
        let next = AtomicU64::new(0);
        let mut all = gather(4, || next.fetch_add(1, Relaxed));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(gather(0, || 7), [7]);
        each(3, || {
            next.fetch_add(1, Relaxed);
        });
        assert_eq!(next.load(Relaxed), 7);
    }

    #[test]
    fn a_panic_of_a_thread_is_that_of_the_caller() {
        let panic = crate::catch_panic::caught(|| each(2, || panic!("out of bounds"))).unwrap_err();
        assert_eq!(crate::catch_panic::message(&*panic), Some("out of bounds"));
    }
}
