//! Samples one by one, in the order of a rank, borrowed from the runs that hold them.

use std::sync::Arc;

use shardpack_format::Result;
use shardpack_runtime::Instant;

use crate::{
    feed::{Feed, Next},
    fork_guard,
    run::Fetched,
    stats::{Counters, Stats},
};

/// The samples of one rank, epoch after epoch, read ahead by threads.
///
/// A run stays in memory as long as the caller keeps a [`Fetched`] from it.
pub struct Samples {
    feed: Feed,
    /// Buffer for the next sample from the feed; empty between calls.
    next: Vec<Fetched>,
    counters: Arc<Counters>,
    started: Instant,
    process: u32,
}

impl std::fmt::Debug for Samples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Samples").finish_non_exhaustive()
    }
}

impl Samples {
    pub(crate) fn new(feed: Feed, counters: Arc<Counters>) -> Self {
        Self { feed, next: Vec::new(), counters, started: Instant::now(), process: shardpack_runtime::process_id() }
    }

    /// The next sample; `None` once at the end of each epoch, and always after the last.
    ///
    /// # Errors
    /// If this process is a fork of the process that made it, or a thread has failed. [`Fetched::sample`] reports
    /// errors of the
    /// sample itself.
    #[expect(clippy::should_implement_trait, reason = "it ends at each epoch, and goes on")]
    pub fn next(&mut self) -> Result<Option<Fetched>> {
        fork_guard::check(self.process)?;
        self.feed.begin_next();
        let next = self.feed.next(1, &mut self.next)?;
        Ok(matches!(next, Next::Samples).then(|| self.next.pop()).flatten())
    }

    #[cfg(test)]
    pub(crate) fn is_next_made(&self) -> bool {
        self.feed.is_next_made()
    }

    /// Counts and times so far.
    pub fn stats(&self) -> Stats {
        let (elapsed_ms, feed) = (self.started.elapsed().as_secs_f64() * 1e3, self.feed.handle());
        self.counters.stats(elapsed_ms, &feed)
    }
}
