//! Looks into every image before it is packed, for `--check`; one that is damaged is refused as one that cannot be read.

use shardpack_format::image_header::Header;
use shardpack_imaging::{Limits, Refused};

use crate::source::{Look, ReadError, Refusal, Source};

/// A source whose images all pass `check`.
pub(super) struct ImageCheck<'a> {
    pub(super) source: Box<dyn Source + 'a>,
    pub(super) check: fn(&[u8], &Limits) -> Result<Header, Refused>,
}

impl Source for ImageCheck<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        self.source.read(number, payload)?;
        match (self.check)(payload, &Limits::default()) {
            Ok(_) => Ok(()),
            Err(refused) => Err(ReadError::Refused(Refusal(refused.to_string()))),
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        self.source.read_component(number, which, out)
    }

    fn are_near(&self, first: u64, before: u64, next: u64) -> bool {
        self.source.are_near(first, before, next)
    }

    fn together(&self, numbers: &[u64]) -> Option<Box<dyn Source + '_>> {
        let source = self.source.together(numbers)?;
        Some(Box::new(ImageCheck { source, check: self.check }))
    }

    fn reads_that_help(&self) -> usize {
        self.source.reads_that_help()
    }

    fn unchanged(&self) -> shardpack_format::Result<()> {
        self.source.unchanged()
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        self.source.peek(number, first, look)
    }
}
