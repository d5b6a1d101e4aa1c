//! A point of the monotonic clock.
//!
//! A type of its own, because [`std::time::Instant`] reads the clock in `elapsed` too.

use std::{
    ops::{Add, Sub},
    time::{self, Duration},
};

/// A point of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(time::Instant);

impl Instant {
    /// The present.
    #[inline]
    pub fn now() -> Self {
        Self(time::Instant::now())
    }

    /// Time from this point until now.
    #[inline]
    pub fn elapsed(self) -> Duration {
        Self::now() - self
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Zero if `earlier` is later.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}
