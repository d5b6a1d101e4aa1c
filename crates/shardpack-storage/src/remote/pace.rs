//! Detects responses that arrive too slowly: a trickling response would never end.

use std::time::Duration;

use crate::remote::{response::Failed, settings::Options};
use shardpack_runtime::Instant;

/// The received bytes of one response, with the time of its start.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Minimum in bytes a second; 0 accepts any rate.
    least: u64,
    time: Duration,
    since: Instant,
    bytes: u64,
    is_slow: bool,
}

impl Pace {
    pub fn new(options: &Options) -> Self {
        let Options { least_rate, rate_time, .. } = *options;
        Self { least: least_rate, time: rate_time, since: Instant::now(), bytes: 0, is_slow: false }
    }

    /// A response begins.
    pub fn begin(&mut self, now: Instant) {
        (self.since, self.bytes, self.is_slow) = (now, 0, false);
    }

    /// Whether the last response was cancelled because it was too slow.
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Records `bytes` that arrived, with more to come.
    ///
    /// # Errors
    /// When too few bytes arrived recently.
    pub fn came(&mut self, bytes: usize, now: Instant) -> Result<(), Failed> {
        self.bytes += bytes as u64;
        let waited = now - self.since;
        if waited < self.time {
            return Ok(());
        }
        let Self { least, bytes: came, .. } = *self;
        if (came as f64) < least as f64 * waited.as_secs_f64() {
            self.is_slow = true;
            let seconds = waited.as_secs();
            return Err(Failed::retry(format!("{came} bytes came in {seconds} s, and min_rate is {least} a second")));
        }
        self.begin(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_trickles_is_given_up_after_a_minute_and_a_slow_one_is_not() {
        for (least_rate, bytes, fails) in [(1024, 2047, true), (1024, 2048, false), (0, 1, false), (1, 1, true)] {
            let mut pace = Pace::new(&Options { least_rate, ..Options::default() });
            let start = Instant::now();
            pace.begin(start);
            // `bytes` every two seconds.
            let at = (1..=100).find(|second| pace.came(bytes, start + Duration::from_secs(2 * second)).is_err());
            assert_eq!((at, pace.is_slow()), (fails.then_some(30), fails), "{least_rate} {bytes}");
            pace.begin(start);
            assert!(!pace.is_slow());
        }
    }
}
