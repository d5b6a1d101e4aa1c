//! The messages of an Arrow file: the schema, and the places of record batches and dictionaries.
//!
//! ```text
//! stream     messages, the schema first, then ff ff ff ff 00 00 00 00
//! message    ff ff ff ff, u32 length of the flatbuffer, flatbuffer, body
//! file       ARROW1 00 00, stream, flatbuffer with the places of all messages, u32 its length, ARROW1
//! ```
//!
//! Holds at all times: a message lies in the file; batches have a limited number of rows.
//!
//! Specification: <https://arrow.apache.org/docs/format/Columnar.html>, 1.5, "IPC Streaming Format" and "IPC File Format"; `Message.fbs`,
//! `File.fbs`.

use shardpack_format::{Error, Result};

use super::{
    super::{
        super::Bytes,
        known::{ARROW_MAGIC, CONTINUATION},
    },
    schema::Schema,
};
use crate::flat::Table;

/// In a file, messages begin at a multiple of 8.
const START: u64 = 8;
/// Marker and length before the flatbuffer of a message.
const PREFIX_BYTES: u64 = 8;
/// The length of the footer, and the magic.
const TAIL_BYTES: u64 = 10;
/// Longest flatbuffer that is read.
const LIMIT_BYTES: u64 = 64 << 20;
/// Maximum number of record batches, and of dictionaries: each takes some 50 bytes in memory.
const MESSAGES_LIMIT: usize = 1 << 20;
/// Maximum number of rows per byte of the file, for columns of nulls.
const ROWS_A_BYTE: u64 = 64;
/// Bytes of a place in the footer: offset, length of the flatbuffer, length of the body, padded.
const BLOCK_BYTES: usize = 24;

// Message.fbs: `MetadataVersion` from 0, and `MessageHeader`.
const VERSIONS: std::ops::RangeInclusive<u16> = 3..=4;
const SCHEMA: u8 = 1;
const DICTIONARY: u8 = 2;
const BATCH: u8 = 3;

/// Place of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Offset and length of its flatbuffer.
    pub at: u64,
    pub bytes: u64,
    /// End of its body, which follows.
    pub end: u64,
}

/// A record batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub place: Place,
    pub rows: u64,
    /// Number of dictionary messages that precede it.
    pub dictionaries: usize,
}

/// Values of a dictionary, or further ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dictionary {
    pub place: Place,
    pub id: i64,
    pub is_delta: bool,
}

/// Content of a file.
#[derive(Debug, Default)]
pub(in super::super) struct Messages {
    pub(super) schema: Schema,
    pub(super) batches: Vec<Batch>,
    pub(super) dictionaries: Vec<Dictionary>,
    /// Number of nulls in each leaf.
    nulls: Vec<u64>,
}

impl Messages {
    /// Finds the messages of a file or stream.
    ///
    /// # Errors
    /// If it is corrupt, truncated, or its schema is not supported.
    pub fn read(file: &Bytes) -> Result<Self> {
        let total_bytes = file.count().map_err(cannot)?;
        let mut first = [0; START as usize];
        let filled = total_bytes.min(START) as usize;
        file.read_exact_at(&mut first[..filled], 0).map_err(cannot)?;
        let mut new = Self::default();
        match first.starts_with(ARROW_MAGIC) {
            true => new.read_file(file, total_bytes)?,
            false => new.read_stream(file, total_bytes)?,
        }
        let rows = new.batches.iter().try_fold(0u64, |rows, batch| rows.checked_add(batch.rows));
        match rows.filter(|rows| *rows <= total_bytes.saturating_mul(ROWS_A_BYTE)) {
            Some(_) => Ok(new),
            None => Err(damaged(format!("too many rows for {total_bytes} bytes"))),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.rows).sum()
    }

    /// Number of nulls among the values of a leaf.
    pub fn nulls(&self, leaf: usize) -> Option<u64> {
        self.nulls.get(leaf).copied()
    }

    fn read_stream(&mut self, file: &Bytes, total_bytes: u64) -> Result<()> {
        let (mut at, mut has_schema) = (0, false);
        loop {
            if total_bytes - at < PREFIX_BYTES {
                let what = "truncated Arrow stream: it has no end mark, so that rows may be missing";
                return Err(Error::data(what).at_byte(at));
            }
            let Some(place) = place(file, at, total_bytes)? else { break };
            let metadata = flatbuffer(file, place.at, place.bytes)?;
            let end = self.add(&metadata, place, total_bytes, !has_schema);
            at = end.map_err(|what| damaged(what).at_byte(at))?;
            has_schema = true;
        }
        if !has_schema {
            return Err(damaged("it has no schema".to_owned()));
        }
        match total_bytes - at {
            PREFIX_BYTES => Ok(()),
            more => Err(damaged(format!("{} bytes after its end mark", more - PREFIX_BYTES)).at_byte(at)),
        }
    }

    fn read_file(&mut self, file: &Bytes, total_bytes: u64) -> Result<()> {
        let mut tail = [0; TAIL_BYTES as usize];
        let room = total_bytes.checked_sub(START + TAIL_BYTES);
        let room = room.ok_or_else(|| Error::data(format!("truncated Arrow file: {total_bytes} bytes")))?;
        file.read_exact_at(&mut tail, total_bytes - TAIL_BYTES).map_err(cannot)?;
        if !tail.ends_with(ARROW_MAGIC) {
            let what = "truncated or damaged Arrow file: it does not end with ARROW1, so its footer is missing";
            return Err(Error::data(what).at_byte(total_bytes - TAIL_BYTES));
        }
        let [length @ .., _, _, _, _, _, _] = tail;
        let bytes = u64::from(u32::from_le_bytes(length));
        if bytes > room {
            return Err(damaged(format!("a footer of {bytes} bytes, at most {room} are possible")));
        }
        let start = total_bytes - TAIL_BYTES - bytes;
        let footer = flatbuffer(file, start, bytes)?;
        self.read_footer(file, &footer, start).map_err(|what| match what {
            Failed::What(what) => damaged(what).at_byte(start),
            Failed::Error(error) => error,
        })
    }

    /// Reads the messages that the footer names, which lie before `end`.
    fn read_footer(&mut self, file: &Bytes, footer: &[u8], end: u64) -> Result<(), Failed> {
        let table = Table::root(footer)?;
        let version = table.u16(0)?;
        check_version(version)?;
        self.schema = Schema::read(&table.table(1)?, version, footer.len())?;
        self.schema.add_notes(&table, 4)?;
        // Dictionaries apply to all batches, wherever they are.
        for (field, kind) in [(2, DICTIONARY), (3, BATCH)] {
            if !table.has(field) {
                continue;
            }
            let blocks = table.vector(field, BLOCK_BYTES)?;
            for number in 0..blocks.count {
                let at = blocks.u64(number, 0).filter(|at| *at >= START);
                let at = at.ok_or_else(|| format!("message {number} has no place"))?;
                let place = place(file, at, end)?.ok_or_else(|| format!("no message at byte {at}"))?;
                let metadata = flatbuffer(file, place.at, place.bytes)?;
                if Table::root(&metadata)?.u8(1)? != kind {
                    return Err(Failed::What(format!(
                        "the message at byte {at} is of another kind than its footer says"
                    )));
                }
                self.add(&metadata, place, end, false)?;
            }
        }
        Ok(())
    }

    /// Adds the message with this flatbuffer, which ends before `limit`; returns its end.
    fn add(&mut self, metadata: &[u8], place: Place, limit: u64, is_first: bool) -> Result<u64, String> {
        let message = Table::root(metadata)?;
        let (version, kind) = (message.u16(0)?, message.u8(1)?);
        check_version(version)?;
        if (kind == SCHEMA) != is_first {
            return Err(format!(
                "a message of kind {kind} where {} was expected",
                if is_first { "a schema" } else { "a batch" }
            ));
        }
        let body = message.u64(3)?;
        let end = place.end.checked_add(body).filter(|end| *end <= limit);
        let end = end.ok_or_else(|| format!("truncated: a message of {body} bytes, {} are left", limit - place.end))?;
        let (place, header) = (Place { end, ..place }, message.table(2)?);
        if self.batches.len().max(self.dictionaries.len()) >= MESSAGES_LIMIT {
            return Err(format!("more than {MESSAGES_LIMIT} record batches"));
        }
        match kind {
            SCHEMA => self.schema = Schema::read(&header, version, metadata.len())?,
            DICTIONARY => {
                let (id, is_delta) = (header.u64(0)?.cast_signed(), header.u8(2)? != 0);
                self.dictionaries.push(Dictionary { place, id, is_delta });
            }
            BATCH => {
                let (rows, dictionaries) = (header.u64(0)?, self.dictionaries.len());
                let nodes = header.vector(1, 16)?;
                self.nulls.resize(self.schema.leaves.len(), 0);
                for (leaf, nulls) in self.schema.leaves.iter().zip(&mut self.nulls) {
                    let node = leaf.steps.last().and_then(|step| nodes.pair(step.node));
                    *nulls = nulls.saturating_add(node.ok_or("fewer fields than in the schema")?.1);
                }
                self.batches.push(Batch { place, rows, dictionaries });
            }
            other => return Err(format!("a message of kind {other}, which is not supported")),
        }
        Ok(end)
    }
}

/// Why a footer cannot be read.
enum Failed {
    What(String),
    Error(Error),
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Self::What(what)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn check_version(version: u16) -> Result<(), String> {
    match VERSIONS.contains(&version) {
        true => Ok(()),
        false => Err(format!("metadata of version {}, only versions 4 and 5 are read", u32::from(version) + 1)),
    }
}

/// Place of the message at `at`, without its body, before `limit`; `None` for the end mark.
fn place(file: &Bytes, at: u64, limit: u64) -> Result<Option<Place>> {
    let mut prefix = [0; PREFIX_BYTES as usize];
    let start = at.checked_add(PREFIX_BYTES).filter(|start| *start <= limit);
    let start = start.ok_or_else(|| Error::data("truncated Arrow file: no message").at_byte(at))?;
    file.read_exact_at(&mut prefix, at).map_err(cannot)?;
    let [_, _, _, _, length @ ..] = prefix;
    if !prefix.starts_with(&CONTINUATION) {
        return Err(damaged("no message".to_owned()).at_byte(at));
    }
    let bytes = u64::from(u32::from_le_bytes(length));
    match bytes {
        0 => Ok(None),
        _ if bytes > limit - start => {
            let what = format!("truncated Arrow file: metadata of {bytes} bytes, {} are left", limit - start);
            Err(Error::data(what).at_byte(at))
        }
        _ => Ok(Some(Place { at: start, bytes, end: start + bytes })),
    }
}

/// Reads the flatbuffer of a message.
pub(super) fn flatbuffer(file: &Bytes, at: u64, bytes: u64) -> Result<Vec<u8>> {
    if bytes > LIMIT_BYTES {
        let what = format!("damaged Arrow file: metadata of {bytes} bytes, at most {LIMIT_BYTES} are read");
        return Err(Error::data(what).at_byte(at));
    }
    let mut out = vec![0; bytes as usize];
    file.read_exact_at(&mut out, at).map_err(cannot)?;
    Ok(out)
}

fn cannot(error: std::io::Error) -> Error {
    Error::io("cannot read", error)
}

fn damaged(what: String) -> Error {
    Error::data(format!("damaged Arrow file: {what}"))
}
