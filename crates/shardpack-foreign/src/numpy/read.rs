//! Reads the bytes of an array from its start, from a file or from a member of an archive.

use std::{
    io::{self, BufReader, Read},
    ops::Range,
    sync::Arc,
};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder};

use crate::{Bytes, zip::archive::BUFFER_BYTES};

/// The bytes of a `.npy` file.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub file: Arc<Bytes>,
    /// The stored bytes in the file.
    pub range: Range<u64>,
    /// Whether they are deflated, as a member of an archive is.
    pub is_deflated: bool,
    /// Whether they are a file compressed by gzip.
    pub is_gzip: bool,
    /// Length in bytes, inflated; of a file compressed by gzip the length in the head of the array.
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
        let packed = || BufReader::with_capacity(BUFFER_BYTES, piece(0));
        let mut inflated: Box<dyn Read> = match (self.is_deflated, self.is_gzip) {
            (true, _) => Box::new(DeflateDecoder::new(packed())),
            (_, true) => Box::new(MultiGzDecoder::new(packed())),
            (false, false) => return Ok(Box::new(piece(offset))),
        };
        let passed = io::copy(&mut Read::by_ref(&mut inflated).take(offset), &mut io::sink())?;
        match passed == offset {
            true => Ok(inflated),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads a file compressed by gzip in pieces, for its length and its checksum. The inner error has the length, at least.
    ///
    /// # Errors
    /// If the file is corrupt.
    pub fn check_gzip(&self) -> io::Result<Result<(), u64>> {
        let mut inflated = self.from(0)?.take(self.bytes.saturating_add(1));
        let bytes = io::copy(&mut inflated, &mut io::sink())?;
        Ok(if bytes == self.bytes { Ok(()) } else { Err(bytes) })
    }
}
