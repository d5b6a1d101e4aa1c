//! The memory budget: how many samples in flight fit it.

use std::sync::{Condvar, Mutex, PoisonError};

use shardpack_format::{Error, Result, size};

use crate::plan::Plan;

/// The stream buffer is written out when it holds this much: half of a usual L2 cache.
pub(super) const FLUSH_BYTES: usize = 256 << 10;

/// Memory that several threads share out among themselves.
pub(super) struct Budget {
    /// All of it, in bytes.
    pub bytes: u64,
    free: Mutex<u64>,
    more: Condvar,
}

impl Budget {
    pub fn new(bytes: u64) -> Self {
        Self { bytes, free: Mutex::new(bytes), more: Condvar::new() }
    }

    /// Waits until so many bytes are free, which are no more than there are, and takes them until the answer is dropped.
    pub fn take(&self, bytes: u64) -> Taken<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.more.wait_while(free, |free| *free < bytes).unwrap_or_else(PoisonError::into_inner);
        *free -= bytes;
        Taken { budget: self, bytes }
    }
}

/// A part of a [`Budget`].
pub(super) struct Taken<'b> {
    budget: &'b Budget,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.budget.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.budget.more.notify_all();
    }
}

/// How many buffers for samples of `plan` fit `memory_bytes`; at least one.
///
/// # Errors
/// When not even one does.
pub(crate) fn fit(plan: &Plan, memory_bytes: u64) -> Result<usize> {
    let buffer = FLUSH_BYTES as u64 + u64::from(plan.longest_record_bytes);
    match memory_bytes / buffer {
        0 => Err(too_little(memory_bytes, "the longest sample alone takes", buffer)),
        fit => Ok(usize::try_from(fit).unwrap_or(usize::MAX)),
    }
}

/// Fails where no sample at all fits, however short it will be.
pub(crate) fn fit_any(memory_bytes: u64) -> Result<()> {
    match memory_bytes <= FLUSH_BYTES as u64 {
        true => Err(too_little(memory_bytes, "any sample takes more than", FLUSH_BYTES as u64)),
        false => Ok(()),
    }
}

fn too_little(memory_bytes: u64, what: &str, needed: u64) -> Error {
    Error::usage(format!("--memory {}: {what} {}", size::text(memory_bytes), size::text(needed)))
        .help(format!("use --memory {}MiB or more", needed.div_ceil(1 << 20)))
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
                    for bytes in (0..200).map(|round| (thread + round) % 11) {
                        let taken = budget.take(bytes);
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
        assert_eq!(*budget.free.lock().unwrap(), 10);
    }
}
