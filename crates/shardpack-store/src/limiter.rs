//! One limit for all requests to a server: halved where it says that they are too many, and growing again. A server that answers at
//! once gets fewer at a time, since more would only take turns.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// Answers that were under way when the limit was halved say nothing new.
const DEAF: Duration = Duration::from_secs(1);

/// Answers that begin sooner come from a server near by, which gets so many requests at most.
const NEAR: Duration = Duration::from_millis(5);
const MOST_NEAR: f64 = 16.0;
/// Of so many answers the quickest tells how far it is: others had to wait for their turn.
const LOOKED_AT: u32 = 32;

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
    /// The quickest answer of the last so many, and of those that came since.
    quickest: Option<Duration>,
    since: Option<Duration>,
    looked_at: u32,
}

impl State {
    /// How many may run at once now.
    fn now(&self) -> f64 {
        let quickest = self.quickest.into_iter().chain(self.since).min();
        let most = if quickest.is_some_and(|quickest| quickest < NEAR) { MOST_NEAR } else { self.most };
        self.limit.min(most).max(1.0)
    }
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
        let (quickest, since, looked_at) = (None, None, 0);
        let state = State { most, limit: most, running: 0, halved: None, quickest, since, looked_at };
        Self { state: Mutex::new(state), left: Notify::new() }
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
                if f64::from(state.running) < state.now() {
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

    /// An answer has begun after so long.
    pub fn began(&self, after: Duration) {
        let mut state = self.state();
        let before = state.now();
        state.since = Some(state.since.map_or(after, |since| since.min(after)));
        state.looked_at += 1;
        if state.looked_at == LOOKED_AT {
            (state.quickest, state.since, state.looked_at) = (state.since, None, 0);
        }
        if state.now() > before {
            self.left.notify_waiters();
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
    pub fn limit(&self) -> u32 {
        self.state().now() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_near_by_gets_fewer_at_a_time_until_it_is_further_away() {
        let limiter = Limiter::new(64);
        limiter.began(Duration::from_millis(40));
        assert_eq!(limiter.limit(), 64);
        // Most had to wait for their turn.
        (0..100).for_each(|number| limiter.began(Duration::from_millis(number % 31)));
        assert_eq!(limiter.limit(), 16);
        (0..64).for_each(|_| limiter.began(Duration::from_millis(30)));
        assert_eq!(limiter.limit(), 64);
        let few = Limiter::new(4);
        few.began(Duration::ZERO);
        assert_eq!(few.limit(), 4);
    }

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
