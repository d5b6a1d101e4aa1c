//! The error of a thread that cannot be started.

use crate::{Error, help};

/// The error where a thread cannot be started.
pub fn cannot_start(error: std::io::Error) -> Error {
    Error::io("cannot start a thread", error).help(help::THREADS)
}
