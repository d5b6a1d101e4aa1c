//! The buffers of a record batch: read by windows, or unpacked as a whole if they are compressed.
//!
//! Holds at all times: no place outside the body of the batch is read; a compressed buffer is at most as long as a piece of a file may be.

use std::{io::Read, sync::Arc};

use shardpack_format::{Error, ErrorKind, memory};

use super::{
    super::{
        super::Bytes,
        codec::{room, unpack_zstd},
    },
    messages::Place,
    schema::{Schema, Step},
};
use crate::flat::{Table, Vector};

/// How much of a buffer is read at once.
const WINDOW_BYTES: u64 = 64 << 10;
/// Length of the uncompressed buffer, before a compressed one.
const LENGTH_BYTES: u64 = 8;
/// In place of the length, if a buffer is not compressed.
const NOT_PACKED: i64 = -1;

/// Why values cannot be read.
#[derive(Debug)]
pub(super) enum Failed {
    Damaged(String),
    Io(std::io::Error),
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Self::Damaged(what)
    }
}

impl From<&str> for Failed {
    fn from(what: &str) -> Self {
        Self::Damaged(what.to_owned())
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Data => Self::Damaged(error.what()),
            _ => Self::Io(std::io::Error::other(error.what())),
        }
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

pub(super) type Result<T> = std::result::Result<T, Failed>;

/// Codec of the buffers of a batch. `Message.fbs`: `CompressionType`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Codec {
    Lz4,
    Zstd,
}

/// A buffer.
pub(super) struct Buffer {
    file: Arc<Bytes>,
    /// Offset in the file, and length in bytes.
    at: u64,
    bytes: u64,
    /// Bytes in memory, from `start` in the buffer on.
    window: Vec<u8>,
    start: u64,
}

impl Buffer {
    /// The `bytes` bytes at `at`.
    pub fn get(&mut self, at: u64, bytes: u64) -> Result<&[u8]> {
        let end = at.checked_add(bytes).filter(|end| *end <= self.bytes);
        let end = end.ok_or_else(|| format!("a buffer of {} bytes is too short for its values", self.bytes))?;
        if at < self.start || end > self.start + self.window.len() as u64 {
            let length = bytes.max(WINDOW_BYTES).min(self.bytes - at);
            (self.window, self.start) = (zeros(length)?, at);
            self.file.read_exact_at(&mut self.window, self.at + at)?;
        }
        let from = (at - self.start) as usize;
        self.window.get(from..from + bytes as usize).ok_or_else(|| "a buffer is too short".into())
    }

    /// Appends the `bytes` bytes at `at` to `out`.
    pub fn copy(&mut self, at: u64, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        let is_here = at >= self.start && at.saturating_add(bytes) <= self.start + self.window.len() as u64;
        if is_here || bytes < WINDOW_BYTES {
            out.extend_from_slice(self.get(at, bytes)?);
            return Ok(());
        }
        if at.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(format!("a buffer of {} bytes is too short for its values", self.bytes).into());
        }
        let start = out.len();
        memory::make_room(out, bytes)?;
        out.resize(start + bytes as usize, 0);
        Ok(self.file.read_exact_at(&mut out[start..], self.at + at)?)
    }

    /// Whole number `number` of `bytes` bytes, which is not negative.
    pub fn number(&mut self, number: u64, bytes: u64) -> Result<u64> {
        let at = number.checked_mul(bytes).ok_or("a number beyond its buffer")?;
        let mut wide = [0; 8];
        wide[..bytes as usize].copy_from_slice(self.get(at, bytes)?);
        Ok(u64::from_le_bytes(wide))
    }

    /// Bit `number`.
    pub fn bit(&mut self, number: u64) -> Result<bool> {
        let byte = self.get(number / 8, 1)?.first().copied().unwrap_or_default();
        Ok(byte >> (number % 8) & 1 == 1)
    }
}

fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let mut out = room(bytes).map_err(|error| error.to_string())?;
    out.resize(bytes as usize, 0);
    Ok(out)
}

/// The places of nodes and buffers of a batch.
pub(super) struct Layout<'b> {
    file: Arc<Bytes>,
    place: Place,
    nodes: Vector<'b>,
    buffers: Vector<'b>,
    /// For each field with views, the number of its further buffers.
    views: Option<Vector<'b>>,
    codec: Option<Codec>,
}

impl<'b> Layout<'b> {
    /// The layout of the table `RecordBatch` of a message at `place`.
    pub fn read(file: &Arc<Bytes>, place: Place, batch: &Table<'b>) -> Result<Self> {
        let codec = match batch.table_opt(3)? {
            None => None,
            Some(compression) => match (compression.u8(0)?, compression.u8(1)?) {
                (0, 0) => Some(Codec::Lz4),
                (1, 0) => Some(Codec::Zstd),
                (codec, _) => return Err(format!("the compression with the number {codec} is not supported").into()),
            },
        };
        let views = if batch.has(4) { Some(batch.vector(4, 8)?) } else { None };
        let (nodes, buffers) = (batch.vector(1, 16)?, batch.vector(2, 16)?);
        Ok(Self { file: Arc::clone(file), place, nodes, buffers, views, codec })
    }

    /// Checks that the batch has as many nodes and buffers as the schema.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        let buffers = schema.buffers + self.views_before(schema.views)?;
        match (self.nodes.count, self.buffers.count) == (schema.nodes, buffers) {
            true => Ok(()),
            false => {
                let (nodes, found) = (self.nodes.count, self.buffers.count);
                let expected = format!("{} and {buffers}", schema.nodes);
                Err(format!("{nodes} fields and {found} buffers, expected {expected}").into())
            }
        }
    }

    /// Number of values of a field, and number of nulls.
    pub fn node(&self, number: usize) -> Result<(u64, u64)> {
        self.nodes.pair(number).ok_or_else(|| "fewer fields than in the schema".into())
    }

    /// Number of further buffers of the first `views` fields with views.
    fn views_before(&self, views: usize) -> Result<usize> {
        let count = |view: usize| -> Result<usize> {
            let count = self.views.as_ref().and_then(|views| views.u64(view, 0));
            let count =
                count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= self.buffers.count);
            Ok(count.ok_or("fewer buffers than in the schema")?)
        };
        (0..views).try_fold(0usize, |sum, view| Ok(sum.saturating_add(count(view)?)))
    }

    /// The number of buffers with the bytes of views at this step.
    pub fn views(&self, step: &Step) -> Result<usize> {
        Ok(self.views_before(step.views + 1)? - self.views_before(step.views)?)
    }

    /// Buffer `number` of a step.
    pub fn buffer(&self, step: &Step, number: usize) -> Result<Buffer> {
        let place = self.buffers.pair(step.buffer + self.views_before(step.views)? + number);
        let (offset, bytes) = place.ok_or("fewer buffers than in the schema")?;
        let at = self.place.at + self.place.bytes;
        let at = at.checked_add(offset).filter(|at| at.checked_add(bytes).is_some_and(|end| end <= self.place.end));
        let at =
            at.ok_or_else(|| format!("a buffer of {bytes} bytes at byte {offset} of its batch lies outside of it"))?;
        let buffer = Buffer { file: Arc::clone(&self.file), at, bytes, window: Vec::new(), start: 0 };
        match self.codec {
            Some(codec) if bytes > 0 => unpacked(buffer, codec),
            _ => Ok(buffer),
        }
    }
}

/// Unpacks a buffer that begins with its length.
fn unpacked(mut packed: Buffer, codec: Codec) -> Result<Buffer> {
    let length = packed.number(0, LENGTH_BYTES)?.cast_signed();
    let (at, bytes) = (packed.at + LENGTH_BYTES, packed.bytes - LENGTH_BYTES);
    if length == NOT_PACKED {
        return Ok(Buffer { at, bytes, window: Vec::new(), start: 0, ..packed });
    }
    let length = u64::try_from(length).map_err(|_| format!("a buffer of {length} bytes"))?;
    for piece in [length, bytes] {
        memory::admit(piece)?;
    }
    let mut content = zeros(bytes)?;
    packed.file.read_exact_at(&mut content, at)?;
    let cannot = |error: std::io::Error| format!("a buffer that cannot be unpacked: {error}");
    let out = match codec {
        Codec::Zstd => {
            let mut decoder = zstd::bulk::Decompressor::new()?;
            unpack_zstd(&mut decoder, &content, length).map_err(cannot)?
        }
        Codec::Lz4 => {
            // Grows with the output.
            let mut out = Vec::new();
            let inner = lz4_flex::frame::FrameDecoder::new(&*content);
            inner.take(length.saturating_add(1)).read_to_end(&mut out).map_err(cannot)?;
            out
        }
    };
    if out.len() as u64 != length {
        return Err(format!("a buffer of {} bytes unpacked, expected {length}", out.len()).into());
    }
    Ok(Buffer { bytes: length, window: out, start: 0, ..packed })
}
