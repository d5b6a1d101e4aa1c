//! Threads that a limit of the system may refuse: a pool runs with fewer threads, and a thread that must exist is an error.

use std::{
    io,
    panic::resume_unwind,
    thread::{self, Builder, JoinHandle, Scope, ScopedJoinHandle},
};

/// One thread for each core that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A thread that does `work`, with this name.
///
/// # Errors
/// If it cannot be started; `work` is dropped.
pub fn spawn<T: Send + 'static>(
    name: Option<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = Builder::new();
    name.into_iter().fold(builder, Builder::name).spawn(work)
}

/// Runs `f` with a scope whose threads may borrow from the caller, and waits for all its threads.
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    thread::scope(f)
}

/// A thread of `scope` that does `work`.
///
/// # Errors
/// If it cannot be started; `work` is dropped.
pub fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work)
}

/// Runs `work` on up to `most` threads, at least on this one, and returns their results in no order.
pub fn gather<T: Send>(most: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    scope(|scope| {
        let threads: Vec<_> = (0..most.max(1)).map_while(|_| start(scope, &work).ok()).collect();
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
        let panic = std::panic::catch_unwind(|| each(2, || panic!("out of bounds"))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"out of bounds"));
    }

    #[test]
    fn a_thread_has_its_name() {
        let name = |given: Option<&str>| {
            let of_thread = || thread::current().name().map(str::to_owned);
            spawn(given.map(str::to_owned), of_thread).unwrap().join().unwrap()
        };
        assert_eq!(name(Some("reader")).as_deref(), Some("reader"));
        assert_eq!(name(None), None);
    }
}
