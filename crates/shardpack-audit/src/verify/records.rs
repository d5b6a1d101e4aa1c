//! Checks the records of a shard in order against its index.

use std::{
    cell::Cell,
    io::{self, BufReader, Read},
    ops::Range,
};

use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    formats::{self, Format},
    hash::{self, FileHash, SpanHasher},
    image_header::Kind,
    index::{Index, RowRef},
    seekable::{FOOTER_BYTES, Frame, SeekTable},
    text,
};

use super::{
    Opened, Problem,
    decode::{self, NotDecoded},
};
use shardpack_storage::OpenFile;

use crate::copy;

/// Bytes per read from a local file: small enough to stay in the cache while hashed twice.
const READ_BYTES: u64 = 512 << 10;
/// Bytes per read from a URL, where each read is a request.
const REQUEST_BYTES: u64 = 8 << 20;

/// Bytes per read from `file`.
fn read_bytes(file: &dyn OpenFile) -> u64 {
    if file.local().is_none() { REQUEST_BYTES } else { READ_BYTES }
}

/// A unit of work: rows of a shard, or the whole shard if it cannot be divided by rows.
pub(super) struct Piece {
    pub shard: usize,
    pub rows: Range<u64>,
    pub bytes: Range<u64>,
}

/// Result of a piece.
#[derive(Default)]
pub(super) struct Done {
    pub problems: Vec<Problem>,
    pub span: Option<hash::Span>,
    pub whole: Option<FileHash>,
    pub read_bytes: u64,
    pub not_decoded: NotDecoded,
}

pub(super) fn hash_alone(file: &dyn OpenFile) -> Result<Done> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; file.bytes().min(read_bytes(file)) as usize];
    let mut at = 0;
    while at < file.bytes() {
        let take = (file.bytes() - at).min(buffer.len() as u64) as usize;
        file.read_at(at, &mut buffer[..take])?;
        hasher.update(&buffer[..take]);
        at += take as u64;
    }
    Ok(Done { whole: Some(*hasher.finalize().as_bytes()), read_bytes: file.bytes(), ..Done::default() })
}

/// Checks the content of one shard.
pub(super) struct Checker<'c> {
    pub dataset: &'c Opened,
    pub format: &'c dyn Format,
    /// Decode every image as well.
    pub decode: bool,
    /// Type of the payloads, if they are not images.
    pub payload: Option<Component>,
    /// Name of the shard file.
    pub file_name: &'c str,
    /// Actual length of the file in bytes.
    pub bytes: u64,
}

impl Checker<'_> {
    /// Checks the rows of a piece, reading many records at a time.
    pub fn plain(&self, index: &Index<Vec<u8>>, file: &dyn OpenFile, piece: &Piece) -> Result<Done> {
        let mut hasher = SpanHasher::new(piece.bytes.start, self.bytes);
        let mut done = Done { read_bytes: piece.bytes.end - piece.bytes.start, ..Done::default() };
        let mut buffer = Vec::new();
        let mut number = piece.rows.start;
        let mut rows: Vec<RowRef<'_>> = Vec::new();
        if number == 0 {
            let head = copy::head_of(self.format, index)?;
            let mut found = vec![0; (head.len() as u64).min(self.bytes) as usize];
            file.read_at(0, &mut found)?;
            hasher.update(&found);
            done.problems.extend(self.head(&found, &head));
        }
        while number < piece.rows.end {
            rows.clear();
            let (mut start, mut end) = (0, 0);
            while number < piece.rows.end && end - start < read_bytes(file) {
                let row = index.row(number)?;
                start = if rows.is_empty() { row.offset } else { start };
                end = row.offset + u64::from(row.record_bytes);
                rows.push(row);
                number += 1;
            }
            let there = end.min(self.bytes).saturating_sub(start) as usize;
            if buffer.len() < there {
                buffer = vec![0; there];
            }
            let found = self.window(file, &mut buffer[..there], start, &rows)?;
            hasher.update(&buffer[..there]);
            done.problems.extend(found.0);
            decode::add(&mut done.not_decoded, found.1);
        }
        let records_end = if piece.rows.is_empty() {
            piece.bytes.start.max(self.format.head_bytes(index.len()) * u64::from(piece.rows.start == 0))
        } else {
            self.end_of(index, piece.rows.end - 1)?
        };
        let tail = piece.bytes.end.saturating_sub(records_end);
        if tail > 0 {
            let expected = Tail::new(self.format, index, records_end)?;
            done.problems.extend(self.tail(&expected, &mut hasher, file, piece.bytes.end)?);
        }
        done.span = Some(hasher.finish());
        Ok(done)
    }

    /// Reads consecutive records from `start` to the end of the file at most, and checks each.
    fn window(
        &self,
        file: &dyn OpenFile,
        bytes: &mut [u8],
        start: u64,
        rows: &[RowRef<'_>],
    ) -> Result<(Vec<Problem>, NotDecoded)> {
        file.read_at(start, bytes)?;
        let mut not_decoded = NotDecoded::default();
        let problems = rows.iter().filter_map(|row| {
            let record = (row.offset - start) as usize..(row.offset - start) as usize + row.record_bytes as usize;
            let cut = || format!("cut off: the shard ends at byte {}", self.bytes);
            match bytes.get(record) {
                Some(record) => self.record(row, record, &mut not_decoded),
                None => Some(self.problem(row, 0, row.record_bytes, cut())),
            }
        });
        let problems = problems.collect();
        Ok((problems, not_decoded))
    }

    /// Checks that the bytes before the first record follow from the record lengths.
    fn head(&self, found: &[u8], expected: &[u8]) -> Option<Problem> {
        let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
        let at = at.or((found.len() < expected.len()).then_some(found.len()))? as u64;
        let problem = self.dataset.problem(self.file_name, "the head does not match the records");
        Some(Problem { bytes: Some(at..expected.len() as u64), ..problem })
    }

    fn end_of(&self, index: &Index<Vec<u8>>, number: u64) -> Result<u64> {
        index.row(number).map(|row| row.offset + u64::from(row.record_bytes))
    }

    /// Checks all bytes after the last record, up to `end`.
    fn tail(&self, expected: &Tail, hasher: &mut SpanHasher, file: &dyn OpenFile, end: u64) -> Result<Option<Problem>> {
        let mut at = expected.start;
        let mut found = None;
        let mut buffer = vec![0; (end - at).min(READ_BYTES) as usize];
        while at < end {
            let take = (end - at).min(buffer.len() as u64) as usize;
            file.read_at(at, &mut buffer[..take])?;
            hasher.update(&buffer[..take]);
            found = found.or(expected.first_difference(at, &buffer[..take]));
            at += take as u64;
        }
        Ok(found.map(|at| self.after_the_last(expected, at..end)))
    }

    fn after_the_last(&self, expected: &Tail, bytes: Range<u64>) -> Problem {
        let what = match expected.bytes.iter().all(|byte| *byte == 0) {
            true => "not zero after the last sample",
            false => "the tail does not match the records",
        };
        Problem { bytes: Some(bytes), ..self.dataset.problem(self.file_name, what) }
    }

    /// Checks a compressed shard, frame by frame.
    pub fn packed(&self, index: &Index<Vec<u8>>, file: &dyn OpenFile) -> Result<Done> {
        let mut done = hash_alone(file)?;
        let wrong = |what: String| self.dataset.problem(self.file_name, what);
        let content_bytes = self.format.is_one_frame().then_some(index.summary().content_bytes);
        let table = match read_table(file, self.bytes, content_bytes) {
            Ok(table) => table,
            Err(error) => {
                done.problems.push(wrong(error.what()));
                return Ok(done);
            }
        };
        if table.end().1 != index.summary().content_bytes {
            let (found, expected) = (table.end().1, index.summary().content_bytes);
            done.problems.push(wrong(format!("unpacks to {found} bytes by its seek table, {expected} in the index")));
            return Ok(done);
        }
        let head = copy::head_of(self.format, index)?;
        let records_end = if index.is_empty() { head.len() as u64 } else { self.end_of(index, index.len() - 1)? };
        let tail = Tail::new(self.format, index, records_end)?;
        let (mut rows, mut record) = (index.iter().peekable(), Vec::new());
        for frame in table.frames() {
            let mut content = Unpacked::open(file, frame)?;
            let mut named = false;
            if frame.offset == 0 && !head.is_empty() {
                record.resize(head.len().min(frame.bytes as usize), 0);
                if content.read(&mut record)? {
                    done.problems.extend(self.head(&record, &head));
                }
            }
            while let Some(row) = rows.next_if(|row| row.as_ref().is_ok_and(|row| row.offset < frame.end())) {
                let row = row?;
                let problem = match row.offset == content.at && row.offset + u64::from(row.record_bytes) <= frame.end()
                {
                    false => {
                        Some(self.problem(&row, 0, row.record_bytes, "crosses the end of its zstd frame".to_owned()))
                    }
                    true => {
                        record.resize(row.record_bytes as usize, 0);
                        match content.read(&mut record)? {
                            true => self.record(&row, &record, &mut done.not_decoded),
                            false => Some(self.problem(&row, 0, row.record_bytes, content.what())),
                        }
                    }
                };
                named |= problem.is_some();
                done.problems.extend(problem);
            }
            let rest = content.at;
            let is_right = content.finish(&tail, &mut record)?;
            if content.wrong.is_some() && !named {
                done.problems.push(wrong(format!("{}, outside of all samples", content.what())));
            } else if !is_right {
                done.problems.push(self.after_the_last(&tail, rest..frame.end()));
            }
        }
        Ok(done)
    }

    /// Checks one record; returns at most one problem, the first that explains the damage.
    fn record(&self, row: &RowRef<'_>, record: &[u8], not_decoded: &mut NotDecoded) -> Option<Problem> {
        let image = row.component(0)?;
        let whole = formats::whole(self.format, row, record);
        let Some(payload) = whole.as_deref().filter(|payload| hash::content(payload) == row.content_hash) else {
            return Some(self.problem(row, image.offset, image.bytes, "content hash differs".to_owned()));
        };
        for (number, at, expected) in row.hashed() {
            if at.slice(record).is_none_or(|stored| hash::component(stored) != expected) {
                let name = self.format.components().get(number).map_or("", String::as_str);
                return Some(self.problem(row, at.offset, at.bytes, format!("hash of component {name} differs")));
            }
        }
        if row.frame_hash_of(record) != row.frame_hash {
            let what = match self.format.check(row, record) {
                Ok(()) => "framing differs from the packed framing".to_owned(),
                Err(error) => format!("framing: {}", error.what()),
            };
            return Some(self.problem(row, 0, row.record_bytes, what));
        }
        if let Err(error) = self.format.check(row, record) {
            return Some(self.problem(row, 0, row.record_bytes, format!("framing: {}", error.what())));
        }
        let decoded = match &self.payload {
            _ if !self.decode => Ok(()),
            None => decode::decode(payload, not_decoded),
            // In any storage encoding of the format.
            Some(_) if matches!(row.form(0), Some(Form::Array { .. })) => {
                let content = row.form(0).map_or(Ok(payload.into()), |form| self.format.decode(0, form, payload));
                content
                    .map_err(|error| error.what())
                    .and_then(|content| decode::other(Kind::Npy.name(), &content, not_decoded))
            }
            Some(kind) => decode::other(kind.name(), payload, not_decoded),
        };
        if let Err(what) = decoded {
            let problem = self.problem(row, image.offset, image.bytes, what);
            return Some(Problem { was_packed: true, ..problem });
        }
        None
    }

    fn problem(&self, row: &RowRef<'_>, offset: u32, bytes: u32, what: String) -> Problem {
        let start = row.offset + u64::from(offset);
        Problem {
            bytes: Some(start..start + u64::from(bytes)),
            key: Some(text::shown(row.key).to_string()),
            path: Some(row.path.to_vec()),
            ..self.dataset.problem(self.file_name, what)
        }
    }
}

/// The bytes after the last record, as they follow from the record lengths.
struct Tail {
    /// Offset of the first in the unpacked shard.
    start: u64,
    bytes: Vec<u8>,
}

impl Tail {
    fn new(format: &dyn Format, index: &Index<Vec<u8>>, records_end: u64) -> Result<Self> {
        Ok(Self { start: records_end, bytes: copy::tail_of(format, index, records_end)? })
    }

    /// Offset of the first of the bytes `found` at `at` that is not as expected: outside of the tail, zero is.
    fn first_difference(&self, at: u64, found: &[u8]) -> Option<u64> {
        let expected = |offset: u64| {
            let of_tail = offset.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
            of_tail.and_then(|offset| self.bytes.get(offset)).copied().unwrap_or(0)
        };
        (at..).zip(found).find(|(offset, found)| **found != expected(*offset)).map(|(offset, _)| offset)
    }
}

/// The content of a zstd frame, read from its start. Reading stops at the first damage.
struct Unpacked<'f> {
    decoder: zstd::Decoder<'static, BufReader<Section<'f>>>,
    frame: &'f Frame,
    /// Offset of the next byte in the unpacked shard.
    at: u64,
    wrong: Option<String>,
}

impl<'f> Unpacked<'f> {
    fn open(file: &'f dyn OpenFile, frame: &'f Frame) -> Result<Self> {
        let left = u64::from(frame.packed_bytes);
        let packed = Section { file, at: frame.packed_offset, left, failed: Cell::default() };
        let capacity = left.min(read_bytes(file)) as usize;
        let decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(capacity, packed));
        let decoder = decoder.map_err(|e| Error::io("cannot unpack", e))?.single_frame();
        Ok(Self { decoder, frame, at: frame.offset, wrong: None })
    }

    /// Fills `out` with the next bytes; returns false if they cannot be read.
    fn read(&mut self, out: &mut [u8]) -> Result<bool> {
        let mut filled = 0;
        while filled < out.len() && self.wrong.is_none() {
            match self.decoder.read(&mut out[filled..]) {
                Ok(0) => self.wrong = Some("is shorter than it should be".to_owned()),
                Ok(read) => filled += read,
                Err(error) => self.damaged(&error)?,
            }
        }
        self.at += out.len() as u64;
        Ok(self.wrong.is_none())
    }

    /// Reads the rest, which must end at the end of the frame; returns whether it is as in `tail`.
    fn finish(&mut self, tail: &Tail, buffer: &mut Vec<u8>) -> Result<bool> {
        let mut is_right = true;
        while self.at < self.frame.end() && self.wrong.is_none() {
            buffer.resize((self.frame.end() - self.at).min(READ_BYTES) as usize, 0);
            let at = self.at;
            is_right &= !self.read(buffer)? || tail.first_difference(at, buffer).is_none();
        }
        if self.wrong.is_none() {
            // The decoder reports the frame end and its checksum only after the end of the content.
            match self.decoder.read(&mut [0]) {
                Ok(0) => {}
                Ok(_) => self.wrong = Some("is longer than it should be".to_owned()),
                Err(error) => self.damaged(&error)?,
            }
        }
        Ok(is_right)
    }

    /// Records a decoder error; fails if the cause is a read error of the file.
    fn damaged(&mut self, error: &io::Error) -> Result<()> {
        match self.decoder.get_ref().get_ref().failed.take() {
            Some(error) => Err(error),
            None => {
                self.wrong = Some(format!("is damaged: {error}"));
                Ok(())
            }
        }
    }

    fn what(&self) -> String {
        let wrong = self.wrong.as_deref().unwrap_or("is right");
        format!("its zstd frame, at byte {} of the file, {wrong}", self.frame.packed_offset)
    }
}

/// A section of a file.
struct Section<'f> {
    file: &'f dyn OpenFile,
    at: u64,
    left: u64,
    /// The read error, if any.
    failed: Cell<Option<Error>>,
}

impl Read for Section<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let there = self.left.min(self.file.bytes().saturating_sub(self.at));
        let read = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        if let Err(error) = self.file.read_at(self.at, &mut out[..read]) {
            let other = io::Error::other(error.what());
            self.failed.set(Some(error));
            return Err(other);
        }
        (self.at, self.left) = (self.at + read as u64, self.left - read as u64);
        Ok(read)
    }
}

/// The seek table of a compressed shard with a length of `bytes`.
///
/// If the shard may be a single frame without a table, `content_bytes` is the length of its content.
fn read_table(file: &dyn OpenFile, bytes: u64, content_bytes: Option<u64>) -> Result<SeekTable> {
    let mut footer = [0; FOOTER_BYTES];
    let footer_at = bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| Error::data("too short for a seek table"))?;
    file.read_at(footer_at, &mut footer)?;
    let length = match (SeekTable::table_bytes_if_any(&footer)?, content_bytes) {
        (None, Some(content_bytes)) => return SeekTable::of_one(bytes, content_bytes),
        _ => SeekTable::table_bytes(&footer)?,
    };
    let at = bytes.checked_sub(length).ok_or_else(|| Error::data("its seek table is longer than the file"))?;
    let mut table = vec![0; length as usize];
    file.read_at(at, &mut table)?;
    SeekTable::read(&table, bytes)
}
