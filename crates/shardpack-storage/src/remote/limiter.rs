//! Limits the requests in flight to one server. The limit is halved when the server reports too many requests, and
//! then grows again. A server with very low latency starts with fewer requests, because more requests might only
//! queue. The limit grows as long as that helps: while it is fully used and responses begin about as fast as the best
//! average so far, neither the server nor this machine is a bottleneck.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use shardpack_runtime::Instant;

use tokio::sync::Notify;

/// Responses to requests that were in flight when the limit was halved are ignored.
const DEAF: Duration = Duration::from_secs(1);

/// A server whose fastest response begins sooner is near, and starts with this many requests.
const NEAR: Duration = Duration::from_millis(5);
const FIRST_NEAR: f64 = 16.0;
/// The fastest of this many responses measures the distance to the server: the others may have queued.
const LOOKED_AT: u32 = 32;

/// While the mean latency is below this multiple of the fastest round's mean, more requests in flight help. (Not of
/// the fastest response: some responses of a service take a third of the usual time.)
const AT_ONCE: f64 = 1.5;
/// From this multiple on, requests queue behind each other.
const IN_TURNS: f64 = 3.0;
/// Growth of the best mean with each round: the route or the kind of requests may have changed.
const FORGETTING: f64 = 1.02;
/// Factor between two tried limits.
const STEP: f64 = 1.25;

/// See the module.
#[derive(Debug)]
pub(crate) struct Limiter {
    state: Mutex<State>,
    left: Notify,
}

#[derive(Debug)]
struct State {
    /// Requests in flight until more are known to help, and the maximum.
    first: f64,
    most: f64,
    limit: f64,
    running: u32,
    halved: Option<Instant>,
    /// The fastest of the last `LOOKED_AT` responses, and of the responses since then.
    quickest: Option<Duration>,
    since: Option<Duration>,
    looked_at: u32,
    /// Number of requests in flight that help, as far as is known.
    helping: f64,
    /// Mean latency of the fastest round in seconds; and the current round, since `helping` was last updated.
    floor: Option<f64>,
    round: Round,
}

/// About as many responses as run at once.
#[derive(Debug, Default)]
struct Round {
    answers: u32,
    /// Sum of their latencies.
    took: Duration,
    /// Whether the limit was reached.
    was_full: bool,
}

impl State {
    /// Factor for the limits of a near server, at most 1.
    fn nearness(&self) -> f64 {
        let quickest = self.quickest.into_iter().chain(self.since).min();
        if quickest.is_some_and(|quickest| quickest < NEAR) { (FIRST_NEAR / self.first).min(1.0) } else { 1.0 }
    }

    /// Current limit of requests in flight.
    fn now(&self) -> f64 {
        self.limit.min(self.helping * self.nearness()).max(1.0)
    }

    /// Ends a round: decides whether more requests would help, or fewer are enough.
    fn look_at_round(&mut self) {
        let round = std::mem::take(&mut self.round);
        let mean = round.took.as_secs_f64() / f64::from(round.answers.max(1));
        let quickest = self.floor.map_or(mean, |floor| mean.min(floor * FORGETTING));
        self.floor = Some(quickest);
        // If another limit holds, the effect of more requests is unknown.
        let was_full = round.was_full && self.helping * self.nearness() <= self.limit;
        if was_full && mean < quickest * AT_ONCE {
            self.helping = (self.helping * STEP).min(self.most);
        } else if mean > quickest * IN_TURNS {
            self.helping = (self.helping / STEP).max(self.first);
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a Limiter);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
        self.0.left.notify_one();
    }
}

impl Limiter {
    /// `first` is the limit at the start, `most` the maximum.
    pub fn new(first: u32, most: u32) -> Self {
        let (first, most) = (f64::from(first.max(1)), f64::from(most.max(first).max(1)));
        let state = State {
            first,
            most,
            limit: most,
            running: 0,
            halved: None,
            quickest: None,
            since: None,
            looked_at: 0,
            helping: first,
            floor: None,
            round: Round::default(),
        };
        Self { state: Mutex::new(state), left: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the limit allows one more request.
    pub async fn enter(&self) -> Running<'_> {
        loop {
            let left = self.left.notified();
            {
                let mut state = self.state();
                if f64::from(state.running) < state.now() {
                    state.running += 1;
                    state.round.was_full |= f64::from(state.running + 1) > state.now();
                    return Running(self);
                }
            }
            left.await;
        }
    }

    /// Records that the server reported too many requests.
    pub fn too_many(&self) {
        let mut state = self.state();
        if state.halved.is_none_or(|halved| halved.elapsed() >= DEAF) {
            state.limit = (state.now() / 2.0).max(1.0);
            state.halved = Some(Instant::now());
        }
    }

    /// Records a response whose first byte came `after` the request.
    pub fn began(&self, after: Duration) {
        let mut state = self.state();
        let before = state.now();
        state.since = Some(state.since.map_or(after, |since| since.min(after)));
        state.looked_at += 1;
        if state.looked_at == LOOKED_AT {
            (state.quickest, state.since, state.looked_at) = (state.since, None, 0);
        }
        state.round.answers += 1;
        state.round.took = state.round.took.saturating_add(after);
        if f64::from(state.round.answers) >= state.now().max(f64::from(LOOKED_AT)) {
            state.look_at_round();
        }
        if state.now() > before {
            self.left.notify_waiters();
        }
    }

    /// Records a request that succeeded.
    pub fn well(&self) {
        let mut state = self.state();
        let before = state.limit.floor();
        state.limit = (state.limit + 1.0 / state.limit).min(state.most);
        if state.limit.floor() > before {
            self.left.notify_one();
        }
    }

    /// Current limit of requests in flight.
    pub fn limit(&self) -> u32 {
        self.state().now() as u32
    }

    /// The current limit, but at most the limit at the start.
    pub fn limit_of_first(&self) -> u32 {
        let state = self.state();
        state.now().min(state.first * state.nearness()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_near_by_gets_fewer_at_a_time_until_it_is_further_away() {
        let limiter = Limiter::new(64, 64);
        limiter.began(Duration::from_millis(40));
        assert_eq!(limiter.limit(), 64);
        // Most requests had to queue.
        (0..100).for_each(|number| limiter.began(Duration::from_millis(number % 31)));
        assert_eq!(limiter.limit(), 16);
        (0..64).for_each(|_| limiter.began(Duration::from_millis(30)));
        assert_eq!(limiter.limit(), 64);
        let few = Limiter::new(4, 4);
        few.began(Duration::ZERO);
        assert_eq!(few.limit(), 4);
    }

    #[test]
    fn more_run_at_a_time_while_that_helps() {
        let limiter = Limiter::new(64, 256);
        let round = |is_full: bool, millis: u64| {
            let answers = limiter.limit();
            for _ in 0..answers {
                limiter.state().round.was_full |= is_full;
                limiter.began(Duration::from_millis(millis));
            }
            limiter.limit()
        };
        assert_eq!(limiter.limit(), 64);
        assert_eq!(round(true, 30), 80);
        assert_eq!(round(false, 30), 80, "fewer ran than might");
        assert_eq!(round(true, 40), 100);
        assert_eq!(round(true, 60), 100, "they begin to wait for each other");
        for _ in 0..10 {
            round(true, 31);
        }
        assert_eq!(limiter.limit(), 256);
        for _ in 0..3 {
            round(true, 200);
        }
        assert!(limiter.limit() < 256);
        for _ in 0..20 {
            round(true, 200);
        }
        assert_eq!(limiter.limit(), 64);
        limiter.too_many();
        assert_eq!(limiter.limit(), 32);
        assert_eq!(round(true, 30), 32, "the server says that they are too many");
    }

    #[test]
    fn of_a_server_near_by_more_are_tried_too() {
        let limiter = Limiter::new(64, 256);
        let round = |millis: u64| {
            for number in 0..64 {
                limiter.state().round.was_full = true;
                // One response in eight shows that the server is near.
                limiter.began(Duration::from_millis(if number % 8 == 0 { 1 } else { millis }));
            }
            limiter.limit()
        };
        limiter.began(Duration::ZERO);
        assert_eq!(limiter.limit(), 16);
        assert!((20..64).contains(&round(4)));
        assert_eq!([4; 8].map(round)[7], 64, "a quarter of what servers far away get");
        assert!([30; 12].map(round)[11] < 20, "they wait for each other");
        assert_eq!(limiter.limit_of_first(), 16);
    }

    #[test]
    fn the_limit_halves_once_for_answers_that_come_together_and_grows_by_one_a_round() {
        let limiter = Limiter::new(64, 64);
        (0..20).for_each(|_| limiter.too_many());
        assert_eq!(limiter.limit(), 32);
        (0..40).for_each(|_| limiter.well());
        assert_eq!(limiter.limit(), 33);
        (0..100_000).for_each(|_| limiter.well());
        assert_eq!(limiter.limit(), 64);
        let one = Limiter::new(1, 1);
        one.too_many();
        assert_eq!(one.limit(), 1);
    }
}
