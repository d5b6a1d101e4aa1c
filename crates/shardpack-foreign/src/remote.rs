//! Reads files at URLs by range, in cached blocks, with read-ahead for sequential reads.
//!
//! An open file has at most [`KEPT`] blocks in memory. Once a read has failed, all later reads of the file fail with the
//! first error: a parser might otherwise report corruption or the end of the file for a missing byte.

use std::{
    collections::VecDeque,
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        mpsc::{Receiver, channel},
    },
};

use shardpack_format::{Error, ErrorKind, Result, formats::foreign::Skip};
use shardpack_storage::{Object, Storage};

use crate::readers::Readers;

/// Bytes per request.
const BLOCK_BYTES: u64 = 1 << 20;
/// Maximum number of blocks requested ahead: more in flight than a fast connection needs.
const AHEAD: u64 = 8;
/// Number of cached blocks, including blocks in flight: several concurrent sequential reads each find their own blocks.
const KEPT: usize = 24;
/// Places of a file that are read on from at the same time, as the columns of a table are.
const RUNS: usize = 8;
/// The first bytes, used to detect the format.
const FIRST_BYTES: u64 = 4096;

/// A file at a URL; clones are the same.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    /// Its folder.
    storage: Arc<dyn Storage>,
    listed: Object,
    path: PathBuf,
    readers: Arc<Readers>,
    first: Mutex<Option<Arc<Vec<u8>>>>,
    /// The first error, and its advice.
    failed: OnceLock<(String, Option<String>)>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.listed.fmt(f)
    }
}

/// Compared like paths: the content may have changed meanwhile, and length and stamp detect a change.
impl PartialEq for Remote {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Remote {}

impl Remote {
    /// The file `listed` in `storage`, in the version that was listed, read ahead by `readers`.
    pub fn new(storage: Arc<dyn Storage>, listed: Object, readers: &Arc<Readers>) -> Self {
        let (path, readers) = (storage.root().join(&listed.name), Arc::clone(readers));
        Self(Arc::new(Inner { storage, listed, path, readers, first: Mutex::default(), failed: OnceLock::new() }))
    }

    /// Its URL, which ends with its name as it is called there, unencoded.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.listed.bytes
    }

    /// A number that identifies the version with high probability; 0 if the server provides none.
    pub fn stamp(&self) -> i64 {
        self.0.listed.stamp
    }

    /// Reads bytes from `offset` on, with one request.
    ///
    /// # Errors
    /// If the request fails; then all later reads of the file fail, too.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let Inner { storage, listed, .. } = &*self.0;
        self.ask(|| match listed.stamp {
            // The version of the first read applies.
            0 => storage.open_listed(&listed.name, listed.bytes)?.read_at(offset, into),
            _ => storage.read_listed(listed, offset, into),
        })
    }

    /// Reads the whole file `name` in the same folder, at most `most` bytes; `None` if it is missing, or existence is hidden
    /// by permissions.
    ///
    /// # Errors
    /// As [`Remote::read`], and if the file is longer.
    pub fn read_beside(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.ask(|| self.0.storage.read_optional(name, most))
    }

    fn ask<T>(&self, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        ask().map_err(|error| {
            let _ = self.0.failed.set((error.what(), error.help_text().map(str::to_owned)));
            self.failure().unwrap_or(error)
        })
    }

    /// Why a read has failed, if one has. It is an error of the machine, whatever the store calls it.
    pub fn failure(&self) -> Option<Error> {
        let (what, help) = self.0.failed.get()?;
        let error = Error::new(ErrorKind::System, what).in_file(self.path());
        Some(match help {
            Some(help) => error.help(help),
            None => error,
        })
    }

    /// The first bytes, enough to detect the format; cached until [`Remote::forget_first`].
    pub(crate) fn first(&self) -> Result<Arc<Vec<u8>>> {
        let mut first = lock(&self.0.first);
        if let Some(first) = &*first {
            return Ok(Arc::clone(first));
        }
        let mut bytes = vec![0; self.bytes().min(FIRST_BYTES) as usize];
        self.read(0, &mut bytes)?;
        Ok(Arc::clone(first.insert(Arc::new(bytes))))
    }

    /// Lets go of the first bytes: of many files they are many.
    pub(crate) fn forget_first(&self) {
        *lock(&self.0.first) = None;
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file at a URL that is being read, wherever.
pub struct Blocks {
    remote: Remote,
    /// Whether reads only move forward: blocks are then dropped after use.
    is_forward: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Blocks in memory or in flight; the most recently used one is last.
    kept: VecDeque<(u64, Block)>,
    /// Sequential reads: the next expected block, and the number of blocks to request ahead.
    runs: VecDeque<(u64, u64)>,
}

enum Block {
    Here(Vec<u8>),
    Coming(Receiver<Result<Vec<u8>>>),
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.remote.fmt(f)
    }
}

impl Blocks {
    /// Of `remote`.
    pub fn new(remote: &Remote) -> Self {
        Self { remote: remote.clone(), is_forward: false, state: Mutex::default() }
    }

    /// Length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.remote.bytes()
    }

    /// Reads bytes at `offset` and returns their number. The number is smaller than `out` at the end of a block, and 0 at the
    /// end of the file.
    ///
    /// # Errors
    /// A machine error; [`Remote::failure`] has the reason.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.bytes() || out.is_empty() {
            return Ok(0);
        }
        let number = offset / BLOCK_BYTES;
        let mut state = lock(&self.state);
        let block = self.block(&mut state, number).map_err(|_| io::Error::from(rustix::io::Errno::IO))?;
        // A block is shorter than `BLOCK_BYTES` only at the end of the file.
        let rest = block.get((offset - number * BLOCK_BYTES) as usize..).unwrap_or_default();
        let bytes = out.len().min(rest.len());
        out[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// As [`Blocks::read_at`]; also when the file ends before.
    pub fn read_exact_at(&self, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !out.is_empty() {
            match self.read_at(out, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => (out, offset) = (&mut out[read..], offset + read as u64),
            }
        }
        Ok(())
    }

    fn range(&self, number: u64) -> Range<u64> {
        let start = number * BLOCK_BYTES;
        start..(start + BLOCK_BYTES).min(self.bytes())
    }

    fn block<'s>(&self, state: &'s mut State, number: u64) -> Result<&'s [u8]> {
        let (ahead, blocks) = (state.ahead_of(number), self.bytes().div_ceil(BLOCK_BYTES));
        for next in (number + 1..blocks).take(ahead as usize) {
            if !state.kept.iter().any(|(kept, _)| *kept == next) {
                state.kept.push_back((next, Block::Coming(self.begin(next))));
            }
        }
        let at = state.kept.iter().position(|(kept, _)| *kept == number);
        let here = match at.and_then(|at| state.kept.remove(at)) {
            Some((_, Block::Here(bytes))) => bytes,
            Some((_, Block::Coming(come))) => match come.recv() {
                Ok(bytes) => bytes?,
                // The thread that should have read the block is gone.
                Err(_) => read(&self.remote, self.range(number))?,
            },
            None => read(&self.remote, self.range(number))?,
        };
        if self.is_forward {
            state.kept.retain(|(kept, _)| *kept > number);
        }
        state.kept.push_back((number, Block::Here(here)));
        while state.kept.len() > KEPT {
            state.kept.pop_front();
        }
        match state.kept.back() {
            Some((_, Block::Here(bytes))) => Ok(bytes),
            _ => Ok(&[]),
        }
    }

    /// Has somebody read a block.
    fn begin(&self, number: u64) -> Receiver<Result<Vec<u8>>> {
        let (give, come) = channel();
        let (remote, range) = (self.remote.clone(), self.range(number));
        // The receiver may be gone.
        self.remote.0.readers.begin(Box::new(move || drop(give.send(read(&remote, range)))));
        come
    }
}

fn read(remote: &Remote, range: Range<u64>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    remote.read(range.start, &mut bytes)?;
    Ok(bytes)
}

impl State {
    /// Number of blocks to request ahead with block `number`: grows with each sequential read.
    fn ahead_of(&mut self, number: u64) -> u64 {
        if self.runs.iter().any(|(next, _)| *next == number + 1) {
            // It is being read.
            return 0;
        }
        let run = self.runs.iter().position(|(next, _)| *next == number);
        let ahead = run.and_then(|run| self.runs.remove(run)).map_or(0, |(_, ahead)| (2 * ahead).clamp(1, AHEAD));
        self.runs.push_back((number + 1, ahead));
        if self.runs.len() > RUNS {
            self.runs.pop_front();
        }
        ahead
    }
}

/// The same from the first byte on.
#[derive(Debug)]
pub struct Stream {
    blocks: Blocks,
    at: u64,
}

impl Stream {
    /// Of `remote`.
    pub fn new(remote: &Remote) -> Self {
        Self { blocks: Blocks { is_forward: true, ..Blocks::new(remote) }, at: 0 }
    }
}

impl io::Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.blocks.read_at(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// As of a file: beyond the end, too.
impl Skip for Stream {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.at = self.at.checked_add(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
