//! Reads the bytes of an array from its start, from a file or from a member of an archive.

use std::{
    io::{self, BufReader, Read},
    ops::Range,
    sync::Arc,
};

use flate2::bufread::DeflateDecoder;

use crate::{Bytes, zip::archive::BUFFER_BYTES};

/// The bytes of a `.npy` file.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub file: Arc<Bytes>,
    /// The stored bytes in the file.
    pub range: Range<u64>,
    pub is_deflated: bool,
    /// Length in bytes, inflated.
    pub bytes: u64,
}

/// A range of a file, read in order.
struct Piece {
    file: Arc<Bytes>,
    rest: Range<u64>,
}

impl Read for Piece {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = out.len().min(usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX));
        self.file.read_exact_at(&mut out[..bytes], self.rest.start)?;
        self.rest.start += bytes as u64;
        Ok(bytes)
    }
}

impl Content {
    /// Reads from byte `offset` on.
    ///
    /// # Errors
    /// If the bytes before `offset` cannot be inflated.
    pub fn from(&self, offset: u64) -> io::Result<Box<dyn Read>> {
        let piece = |offset: u64| {
            let start = self.range.start.saturating_add(offset).min(self.range.end);
            Piece { file: Arc::clone(&self.file), rest: start..self.range.end }
        };
        if !self.is_deflated {
            return Ok(Box::new(piece(offset)));
        }
        let mut inflated = DeflateDecoder::new(BufReader::with_capacity(BUFFER_BYTES, piece(0)));
        let passed = io::copy(&mut Read::by_ref(&mut inflated).take(offset), &mut io::sink())?;
        match passed == offset {
            true => Ok(Box::new(inflated)),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
