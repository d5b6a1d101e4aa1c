//! Retry budget of a request: a maximum time without progress, and waits that grow.

use std::time::Duration;

use shardpack_runtime::{Instant, random};

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The remaining patience of one request.
#[derive(Debug)]
pub(crate) struct Patience {
    budget: Duration,
    since: Instant,
    next: Duration,
    /// Number of failed attempts.
    pub failed: u32,
}

impl Patience {
    /// Gives up after `budget` without progress.
    pub fn new(budget: Duration) -> Self {
        Self { budget, since: Instant::now(), next: FIRST_WAIT, failed: 0 }
    }

    /// Records progress: resets everything but the counters.
    pub fn progress(&mut self) {
        (self.since, self.next) = (Instant::now(), FIRST_WAIT);
    }

    /// Time since the last progress.
    pub fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    /// The wait before the next attempt, at least as long as the server requests; `None` if the patience ends before
    /// the wait does. Each wait is drawn from the second half of its range, so that requests that fail together are
    /// not retried together.
    pub fn wait(&mut self, asked: Option<Duration>) -> Option<Duration> {
        self.failed += 1;
        let random = random() as f64 / u64::MAX as f64;
        let drawn = self.next.mul_f64(0.5 + random / 2.0);
        self.next = (self.next * 2).min(LONGEST_WAIT);
        let wait = drawn.max(asked.unwrap_or_default());
        (self.waited() + wait <= self.budget).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_are_as_long_as_the_server_asks() {
        let mut patience = Patience::new(Duration::from_secs(1000));
        let waits: Vec<_> = (0..12).map(|_| patience.wait(None).unwrap()).collect();
        for (number, wait) in waits.iter().enumerate() {
            let most = FIRST_WAIT.mul_f64(2f64.powi(number as i32)).min(LONGEST_WAIT);
            assert!(*wait <= most && *wait >= most / 2, "{number}: {wait:?}");
        }
        assert!(patience.wait(Some(Duration::from_secs(60))).unwrap() >= Duration::from_secs(60));
        assert_eq!(patience.wait(Some(Duration::from_secs(1001))), None);
        assert_eq!(patience.failed, 14);
        patience.progress();
        assert!(patience.wait(None).unwrap() <= FIRST_WAIT);
    }
}
