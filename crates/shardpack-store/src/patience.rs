//! How long a server is asked again: a budget of time in which nothing came, and waits that grow.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, Instant},
};

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What is left of the patience with one request.
#[derive(Debug)]
pub(crate) struct Patience {
    budget: Duration,
    since: Instant,
    next: Duration,
    /// Attempts that failed.
    pub failed: u32,
}

impl Patience {
    /// Gives up when nothing has come for `budget`.
    pub fn new(budget: Duration) -> Self {
        Self { budget, since: Instant::now(), next: FIRST_WAIT, failed: 0 }
    }

    /// Something has come: all is as at the beginning, but for what is counted.
    pub fn progress(&mut self) {
        (self.since, self.next) = (Instant::now(), FIRST_WAIT);
    }

    /// How long there has been nothing.
    pub fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long to wait before the next attempt, as long as the server asks for at least; `None` where the patience ends
    /// before that. Many that fail at once do not come back at once: each wait is drawn from the second half of its length.
    pub fn wait(&mut self, asked: Option<Duration>) -> Option<Duration> {
        self.failed += 1;
        let random = RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64;
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
