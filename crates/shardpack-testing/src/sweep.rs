//! Sweeps: tests that repeat one check at many points, such as each bit or each system call.
//!
//! A sweep takes part of its points, the same in each run; `cargo xtask test --full` takes all.

/// Environment variable that makes sweeps take all points.
pub const FULL: &str = "SHARDPACK_FULL_SWEEPS";

/// `all` for all points, `some` otherwise.
pub fn points<T>(all: T, some: T) -> T {
    if std::env::var_os(FULL).is_some() { all } else { some }
}

/// Whether the sweep takes point number `at`: every `nth` from 1 on, or all.
pub fn takes(at: usize, nth: usize) -> bool {
    at % points(1, nth) == 1 % points(1, nth)
}

/// The cases that the taker with number `taker` takes, with their numbers: every other one, or all.
pub fn turns<T>(cases: impl IntoIterator<Item = T>, taker: usize) -> impl Iterator<Item = (usize, T)> {
    cases.into_iter().enumerate().filter(move |(case, _)| takes(case + taker, 2))
}
