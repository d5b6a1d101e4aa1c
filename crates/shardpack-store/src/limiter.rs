//! One limit for all requests to a server: halved where it says that they are too many, and growing again.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// Answers that were under way when the limit was halved say nothing new.
const DEAF: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Limiter {
    state: Mutex<State>,
    left: Notify,
}

#[derive(Debug)]
struct State {
    most: f64,
    limit: f64,
    running: u32,
    halved: Option<Instant>,
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a Limiter);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
        self.0.left.notify_one();
    }
}

impl Limiter {
    pub fn new(most: u32) -> Self {
        let most = f64::from(most.max(1));
        Self { state: Mutex::new(State { most, limit: most, running: 0, halved: None }), left: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more request may begin.
    pub async fn enter(&self) -> Running<'_> {
        loop {
            let left = self.left.notified();
            {
                let mut state = self.state();
                if f64::from(state.running) < state.limit.max(1.0) {
                    state.running += 1;
                    return Running(self);
                }
            }
            left.await;
        }
    }

    /// The server says that requests are too many.
    pub fn too_many(&self) {
        let mut state = self.state();
        if state.halved.is_none_or(|halved| halved.elapsed() >= DEAF) {
            state.limit = (state.limit / 2.0).max(1.0);
            state.halved = Some(Instant::now());
        }
    }

    /// A request has ended well.
    pub fn well(&self) {
        let mut state = self.state();
        let before = state.limit.floor();
        state.limit = (state.limit + 1.0 / state.limit).min(state.most);
        if state.limit.floor() > before {
            self.left.notify_one();
        }
    }

    /// How many may run at once now.
    #[cfg(test)]
    fn limit(&self) -> u32 {
        self.state().limit as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_halves_once_for_answers_that_come_together_and_grows_by_one_a_round() {
        let limiter = Limiter::new(64);
        (0..20).for_each(|_| limiter.too_many());
        assert_eq!(limiter.limit(), 32);
        (0..40).for_each(|_| limiter.well());
        assert_eq!(limiter.limit(), 33);
        (0..100_000).for_each(|_| limiter.well());
        assert_eq!(limiter.limit(), 64);
        let one = Limiter::new(1);
        one.too_many();
        assert_eq!(one.limit(), 1);
    }
}
