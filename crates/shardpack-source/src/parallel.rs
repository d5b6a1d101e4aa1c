//! Concurrent requests: one function for all items, on threads that wait for responses and use no CPU time.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    thread::Scope,
};

use rayon::{ThreadBuilder, ThreadPoolBuilder};
use shardpack_format::{Error, ErrorKind, Result, help, threads::cannot_start};
use shardpack_runtime::threads;

/// Starts the threads for parallel iterators outside of `in_pool`: one per core, or as many as can be started.
/// Without this call, the first parallel iterator panics if threads cannot be started.
///
/// # Errors
/// If no thread can be started.
pub fn start_pool() -> Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        let (threads, give) = waiting(threads::cores())?;
        // Fails if the user of this crate has started the pool before, which is fine. A failed start cannot be
        // repeated.
        let builder = ThreadPoolBuilder::new().num_threads(threads);
        let _ = builder
            .spawn_handler(|thread| give.send(thread).map_err(|_| io::Error::other("no thread waits for it")))
            .build_global();
        *started = true;
    }
    Ok(())
}

/// Runs `work` with `jobs` threads for parallel iterators, or as many as can be started.
///
/// # Errors
/// The error of `work`; if no thread can be started.
pub fn in_pool<T: Send>(jobs: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let (threads, give) = waiting(jobs)?;
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    let pool = builder
        .spawn_handler(|thread| give.send(thread).map_err(|_| io::Error::other("no thread waits for it")))
        .build();
    let failed = |error| Error::new(ErrorKind::System, format!("cannot start a thread: {error}")).help(help::THREADS);
    pool.map_err(failed)?.install(work)
}

/// Starts up to `most` threads and returns their number. Each becomes the pool thread that it receives, and
/// ends if the sender is dropped.
///
/// A pool that starts its threads itself fails completely if one thread fails.
fn waiting(most: usize) -> Result<(usize, Sender<ThreadBuilder>)> {
    let (give, take) = mpsc::channel::<ThreadBuilder>();
    let take = Arc::new(Mutex::new(take));
    let mut threads = 0;
    while threads < most.max(1) {
        let take = Arc::clone(&take);
        let work = move || {
            let given = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
            given.into_iter().for_each(ThreadBuilder::run);
        };
        match threads::spawn(None, work) {
            Ok(_) => threads += 1,
            Err(error) if threads == 0 => return Err(cannot_start(error)),
            Err(_) => break,
        }
    }
    Ok((threads, give))
}

/// Runs `step` repeatedly on `threads` threads, each until it returns false; adds a thread while `helping`
/// returns a larger number.
pub fn steps(threads: usize, helping: &(dyn Fn() -> usize + Sync), step: &(dyn Fn() -> bool + Sync)) {
    if threads == 0 {
        return;
    }
    let running = AtomicUsize::new(threads);
    threads::scope(|scope| {
        let start = |_: &usize| threads::start(scope, || take_steps(scope, &running, helping, step)).is_ok();
        if (0..threads).take_while(start).count() == 0 {
            take_steps(scope, &running, helping, step);
        }
    });
}

fn take_steps<'scope>(
    scope: &'scope Scope<'scope, '_>,
    running: &'scope AtomicUsize,
    helping: &'scope (dyn Fn() -> usize + Sync),
    step: &'scope (dyn Fn() -> bool + Sync),
) {
    while step() {
        let one_more = |running: usize| (running < helping()).then_some(running + 1);
        if running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok() {
            // If the system refuses a new thread, the existing threads do the work.
            let _ = threads::start(scope, move || take_steps(scope, running, helping, step));
        }
    }
}

/// Runs `work` on all `items` with `threads` threads; the error of the first failed item ends it.
pub fn each<T: Sync>(items: &[T], threads: usize, work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    for_each_adaptive(items, threads, &|| 0, work)
}

/// As [`each`], with more threads if `helping` returns a larger number.
pub(crate) fn for_each_adaptive<T: Sync>(
    items: &[T],
    threads: usize,
    helping: &(dyn Fn() -> usize + Sync),
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, Error)>));
    steps(items.len().min(threads), helping, &|| {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(at) else { return false };
        if let Err(error) = work(item) {
            next.store(items.len(), Ordering::Relaxed);
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            // As if the items were run in order.
            if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                *failed = Some((at, error));
            }
        }
        true
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_are_done_and_the_first_error_is_told() {
        let items: Vec<u64> = (0..500).collect();
        let done = Mutex::new(BTreeSet::new());
        each(&items, 8, |item| {
            done.lock().unwrap().insert(*item);
            Ok(())
        })
        .unwrap();
        assert_eq!(done.into_inner().unwrap().len(), 500);
        let error = each(&items, 1, |item| match item {
            7.. => Err(Error::usage(item.to_string())),
            _ => Ok(()),
        });
        assert_eq!(error.unwrap_err().what(), "7");
        each(&[], 8, |_: &u64| Err(Error::usage("nothing"))).unwrap();
    }

    #[test]
    fn more_threads_help_where_they_are_said_to() {
        let (running, most, left) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(200));
        steps(2, &|| if left.load(Ordering::Relaxed) > 150 { 0 } else { 6 }, &|| {
            let now = running.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            if left.load(Ordering::Relaxed) > 150 {
                assert!(now <= 2);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            running.fetch_sub(1, Ordering::Relaxed);
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        });
        assert!((3..=6).contains(&most.into_inner()));
    }
}
