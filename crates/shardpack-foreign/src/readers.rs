//! Threads that read ahead.
//!
//! There are never more threads than concurrent requests, and at most [`MAX_THREADS`]; they end with their last user.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
    mpsc::{Receiver, Sender, channel},
};

use shardpack_runtime::threads;

/// Most threads: they wait, and take no time of the processor.
const MAX_THREADS: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Debug)]
pub struct Readers {
    give: Mutex<Sender<Work>>,
    take: Arc<Mutex<Receiver<Work>>>,
    threads: AtomicUsize,
    /// Work that has begun or waits, and is not done.
    wanted: Arc<AtomicUsize>,
}

impl Default for Readers {
    fn default() -> Self {
        let (give, take) = channel();
        let (give, take) = (Mutex::new(give), Arc::new(Mutex::new(take)));
        Self { give, take, threads: AtomicUsize::new(0), wanted: Arc::default() }
    }
}

impl Readers {
    /// Runs `work` on an idle thread, or on a new one. If no thread can start, the work is dropped.
    pub(crate) fn begin(&self, work: Work) {
        let wanted = self.wanted.fetch_add(1, Ordering::Relaxed) + 1;
        let threads = self.threads.load(Ordering::Relaxed);
        if threads < wanted.min(MAX_THREADS)
            && self.threads.compare_exchange(threads, threads + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let (take, wanted) = (Arc::clone(&self.take), Arc::clone(&self.wanted));
            let thread = threads::spawn(Some("read ahead".to_owned()), move || work_off(&take, &wanted));
            if thread.is_err() {
                self.threads.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if self.threads.load(Ordering::Relaxed) == 0 {
            self.wanted.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let give = self.give.lock().unwrap_or_else(PoisonError::into_inner);
        // The threads have the other end as long as this one is there.
        drop(give.send(work));
    }
}

/// Applies `look` to each of `all` in parallel, since the calls wait for I/O; results are in order.
pub fn many<P: Sync, T: Send>(all: &[P], look: impl Fn(&P) -> T + Sync) -> Vec<T> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(all.len())));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at).map(|one| (at, look(one))) else { return };
            found.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
    };
    threads::each(all.len().min(MAX_THREADS), work);
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, one)| one).collect()
}

fn work_off(take: &Mutex<Receiver<Work>>, wanted: &AtomicUsize) {
    loop {
        // The lock is let go of before the work.
        let work = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = work else { return };
        work();
        wanted.fetch_sub(1, Ordering::Relaxed);
    }
}
