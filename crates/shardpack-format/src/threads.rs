//! The error of a thread that cannot be started, also if the code that started it cannot report it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, ErrorKind, help};

/// Whether somebody who cannot say so could start no thread.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Notes that a third-party crate failed to start a thread, and may report its input as damaged.
pub fn refused() {
    REFUSED.store(true, Ordering::Relaxed);
}

/// Whether all threads were started; to be checked before results are used.
///
/// # Errors
/// When [`refused`] was called; once.
pub fn check() -> Result<(), Error> {
    match REFUSED.load(Ordering::Relaxed) && REFUSED.swap(false, Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Error::new(ErrorKind::System, "cannot start a thread to decode an image").help(help::THREADS)),
    }
}

/// The error where a thread cannot be started.
pub fn cannot_start(error: std::io::Error) -> Error {
    Error::io("cannot start a thread", error).help(help::THREADS)
}
