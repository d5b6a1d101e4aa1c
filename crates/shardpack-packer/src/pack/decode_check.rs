//! Decodes every image before it is packed, for `--check full`; one that does not decode is refused as one that cannot be read.

use shardpack_imaging::{Limits, check};

use crate::source::{Look, ReadError, Refusal, Source};

/// A source whose images all decode.
pub(super) struct DecodeCheck<'a>(pub Box<dyn Source + 'a>);

impl Source for DecodeCheck<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        self.0.read(number, payload)?;
        match check(payload, &Limits::default()) {
            Ok(_) => Ok(()),
            Err(refused) => Err(ReadError::Refused(Refusal(refused.to_string()))),
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_component(number, which, out)
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        self.0.peek(number, first, look)
    }
}
