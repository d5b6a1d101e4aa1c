//! Reads or skips the bytes of a file from the start, as input of a walk.
//!
//! Holds at all times: buffers grow with the bytes that arrive, never with a length from the file.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
};

use crate::Error;

/// A reader that can skip bytes.
pub trait Skip: Read {
    /// Skips `bytes` bytes. The default reads and discards the bytes, and fails with `UnexpectedEof` if they end early. A
    /// file seeks, which succeeds beyond its end too, so the caller must check its length first.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut Read::take(&mut *self, bytes), &mut io::sink())?;
        if passed == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Skip for &[u8] {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let at = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (_, rest) = self.split_at_checked(at).ok_or(io::ErrorKind::UnexpectedEof)?;
        *self = rest;
        Ok(())
    }
}

impl<T: AsRef<[u8]>> Skip for Cursor<T> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let end = self.position().checked_add(bytes).filter(|end| *end <= self.get_ref().as_ref().len() as u64);
        self.set_position(end.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Skip for File {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.seek(SeekFrom::Current(seekable(bytes)?)).map(|_| ())
    }
}

impl Skip for BufReader<File> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.seek_relative(seekable(bytes)?)
    }
}

impl<S: Skip + ?Sized> Skip for Box<S> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        (**self).skip(bytes)
    }
}

fn seekable(bytes: u64) -> io::Result<i64> {
    i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// A source without seek, such as a decompressor.
pub struct Sequential<R>(pub R);

impl<R: Read> Read for Sequential<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Skip for Sequential<R> {}

/// The bytes of a file, and their number.
pub struct Input {
    /// The unpacked bytes from the start of the file; offsets count from there.
    pub bytes: Box<dyn Skip>,
    /// Number of bytes, if known: nothing beyond is read or trusted. May be `None` only if [`Skip::skip`] detects the
    /// end of `bytes`; a file's `skip` does not.
    pub total_bytes: Option<u64>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("total_bytes", &self.total_bytes).finish_non_exhaustive()
    }
}

/// Fills `buffer` until `inner` ends; returns the number of bytes.
///
/// # Errors
/// If `inner` fails. Interrupted reads are retried.
pub fn fill(inner: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match inner.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Appends up to `bytes` bytes to `out`, which grows with the bytes that arrive; returns their number.
///
/// # Errors
/// If `inner` fails.
pub fn append(inner: &mut (impl Read + ?Sized), bytes: u64, out: &mut Vec<u8>) -> io::Result<u64> {
    Read::take(inner, bytes).read_to_end(out).map(|read| read as u64)
}

/// The error for a failed read at `offset`. An error without an OS error number is corrupt data: decompressors report
/// corrupt input this way.
pub fn unreadable(error: io::Error, offset: u64) -> Error {
    match error.raw_os_error() {
        Some(_) => Error::io("cannot read", error).at_byte(offset),
        None => Error::data(format!("cannot read: {error}")).at_byte(offset),
    }
}
