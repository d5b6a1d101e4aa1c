//! Retries reads that failed because of the machine.
//!
//! Holds at all times: a persistent machine error ends the run; it never becomes a verdict on a sample.

use std::time::Duration;

use super::{Look, ReadError, SampleReader};
use crate::sys;
use shardpack_runtime::sleep;

/// Wait before each retry, long enough for a server that was briefly unavailable.
const PAUSES: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];

/// Wraps a source and retries reads that fail because of the machine, not the sample.
#[derive(Debug)]
pub(super) struct Retrying<S>(pub S);

pub(super) fn patiently<T>(mut ask: impl FnMut() -> Result<T, ReadError>) -> Result<T, ReadError> {
    for pause in PAUSES {
        match ask() {
            Err(ReadError::Fatal(error)) if error.io_error().is_some_and(sys::is_of_machine) => sleep(pause),
            answer => return answer,
        }
    }
    ask().map_err(|error| match error {
        ReadError::Fatal(error) if sys::is_out_of_files(error.io_error()) => {
            ReadError::Fatal(error.help(sys::MORE_FILES))
        }
        ReadError::Fatal(error) => ReadError::Fatal(error.help(
            "four attempts failed; the same command resumes when the machine can read the file, and --exclude \
             leaves it out",
        )),
        refused => refused,
    })
}

impl<S: SampleReader> SampleReader for Retrying<S> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        patiently(|| self.0.read(number, payload))
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        patiently(|| self.0.read_component(number, which, out))
    }

    fn can_coalesce(&self, first: u64, before: u64, next: u64) -> bool {
        self.0.can_coalesce(first, before, next)
    }

    fn read_batch(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        self.0.read_batch(numbers)
    }

    fn concurrency(&self) -> usize {
        self.0.concurrency()
    }

    fn unchanged(&self) -> shardpack_format::Result<()> {
        self.0.unchanged()
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        patiently(|| self.0.peek(number, first, look))
    }
}
