//! ArrayRecord files, as Grain and TensorFlow Datasets write them: a stream of their records, each framed as in a TFRecord file.
//!
//! An ArrayRecord file is a file of Riegeli with a footer. Chunks hold some records each, with the type of compression in each chunk; a block
//! header of 24 bytes lies at each multiple of 64 KiB. The last two chunks are the footer and the postscript: they prove that the file is
//! complete, and are no samples. Every hash is compared. Memory holds three chunks.
//!
//! A chunk that differs from its hash is lost, and reading continues with the next chunk: at the end in its header, or if the header is
//! damaged, where a block header says. The footer has the number of records, so that all lost records are counted.
//!
//! Not read: transposed chunks, and Riegeli files without the footer of ArrayRecord.
//!
//! # Specification
//! Riegeli, `doc/riegeli_records_file_format.md`; array_record 0.8, `cpp/layout.proto` and `cpp/array_record_writer.cc`.

mod lost;

use std::{
    collections::VecDeque,
    io::{self, Read},
};

use highway::{HighwayHash, HighwayHasher, Key};
use shardpack_format::{Error, Result, formats::tfrecord, memory, size};

/// First bytes of a file: the hash of its signature.
const SIGNATURE: [u8; 6] = [0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88];
const BLOCK_BYTES: u64 = 1 << 16;
const BLOCK_HEADER_BYTES: u64 = 24;
const USABLE_BLOCK_BYTES: u64 = BLOCK_BYTES - BLOCK_HEADER_BYTES;
const CHUNK_HEADER_BYTES: u64 = 40;
/// Key of all hashes: "Riegeli/", "records\n", twice.
const KEY: [u64; 4] = [0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572, 0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572];
/// `magic` of the postscript.
const MAGIC: u64 = 0x7193_0e70_4fda_e05e;
/// Chunks at the end that are no samples.
const CHUNKS_OF_FOOTER: usize = 2;
/// Bytes that brotli is given at a time.
const BROTLI_BYTES: usize = 4 << 10;

use lost::Lost;
pub(crate) use lost::walk;

/// Whether a file begins like one of Riegeli.
pub(crate) fn is(first: &[u8]) -> bool {
    first.starts_with(&SIGNATURE)
}

/// The records of a file as the content of a TFRecord file.
pub(crate) struct Records<R> {
    file: R,
    /// Number of bytes read from the file.
    at: u64,
    /// Chunks of records that may be the footer.
    held: VecDeque<Chunk>,
    /// Number of records returned.
    records: u64,
    /// Framed records, and how much of them has been read.
    framed: Vec<u8>,
    read: usize,
    has_ended: bool,
    /// Where the chunk begins that a block header leads to, if that header was read before it.
    resumed: Option<u64>,
    lost: Lost,
}

/// A chunk of records.
struct Chunk {
    begin: u64,
    records: Vec<Vec<u8>>,
}

impl<R: Read> Records<R> {
    pub fn new(file: R) -> Self {
        Self::with_lost(file, Lost::default())
    }

    /// The same, with the damaged chunks in `lost`.
    fn with_lost(file: R, lost: Lost) -> Self {
        let (held, framed) = Default::default();
        Self { file, at: 0, held, records: 0, framed, read: 0, has_ended: false, resumed: None, lost }
    }

    /// Reads `length` bytes of a chunk, without block headers; `None` if the file ends before the first.
    fn bytes(&mut self, length: u64, what: &str) -> Result<Option<Vec<u8>>> {
        memory::admit(length).map_err(|error| error.at_byte(self.at))?;
        let mut out = Vec::new();
        while (out.len() as u64) < length {
            if self.at.is_multiple_of(BLOCK_BYTES) && !self.skip(BLOCK_HEADER_BYTES)? {
                break;
            }
            let piece = (length - out.len() as u64).min(BLOCK_BYTES - self.at % BLOCK_BYTES);
            let came = (&mut self.file).take(piece).read_to_end(&mut out).map_err(|e| Error::io("cannot read", e))?;
            self.at += came as u64;
            if (came as u64) < piece {
                break;
            }
        }
        match out.len() as u64 {
            0 if length > 0 => Ok(None),
            came if came == length => Ok(Some(out)),
            came => Err(Error::data(format!("{what} of {length} bytes ends after {came}")).at_byte(self.at)),
        }
    }

    /// Skips bytes; returns whether the file has as many.
    fn skip(&mut self, bytes: u64) -> Result<bool> {
        let came =
            io::copy(&mut (&mut self.file).take(bytes), &mut io::sink()).map_err(|e| Error::io("cannot read", e))?;
        self.at += came;
        Ok(came == bytes)
    }

    /// The next chunk of records; `None` at the end of the file.
    fn chunk(&mut self) -> Result<Option<Chunk>> {
        loop {
            let begin = self.resumed.take().unwrap_or(self.at);
            let Some(header) = self.bytes(CHUNK_HEADER_BYTES, "the header of a chunk")? else { return Ok(None) };
            let word = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            if word(0) != hash(&header[8..]) {
                self.lost.add(begin, "the header of a chunk differs from its hash".to_owned(), None);
                match self.resume()? {
                    true => continue,
                    false => return Ok(None),
                }
            }
            let (data_bytes, records, decoded_bytes) = (word(8), word(24) >> 8, word(32));
            let data = match data_bytes {
                0 => Vec::new(),
                _ => self.bytes(data_bytes, "a chunk")?.unwrap_or_default(),
            };
            let end = chunk_end(begin, data_bytes, records);
            // The last chunk may lack its padding.
            self.skip(end.saturating_sub(self.at))?;
            if word(16) != hash(&data) {
                let what = format!("a chunk of {data_bytes} bytes differs from its hash");
                self.lost.add(begin, what, Some(records));
                continue;
            }
            match header[24] {
                b'r' => match simple(&data, records, decoded_bytes) {
                    Ok(records) => return Ok(Some(Chunk { begin, records })),
                    Err(what) => self.lost.add(begin, what, Some(records)),
                },
                // The signature, padding, and a description of the records.
                b's' | b'p' | b'm' => {}
                b't' => return Err(Error::data("a transposed chunk, which is not read").at_byte(begin)),
                other => return Err(Error::data(format!("a chunk of unknown type {other}")).at_byte(begin)),
            }
        }
    }

    /// Goes on to the next chunk that a block header leads to; returns whether there is one.
    fn resume(&mut self) -> Result<bool> {
        loop {
            let block = self.at.next_multiple_of(BLOCK_BYTES);
            if !self.skip(block - self.at)? {
                return Ok(false);
            }
            let mut header = Vec::new();
            let read = (&mut self.file).take(BLOCK_HEADER_BYTES).read_to_end(&mut header);
            self.at += read.map_err(|e| Error::io("cannot read", e))? as u64;
            let Some([own, before, to_next]) = words(&header) else { return Ok(false) };
            if own != hash(&header[8..]) || to_next < BLOCK_HEADER_BYTES {
                continue;
            }
            if before == 0 {
                // The chunk begins with this header in it.
                self.resumed = Some(block);
                return Ok(true);
            }
            return self.skip(block.saturating_add(to_next).saturating_sub(self.at));
        }
    }

    /// Frames the records of the next chunk.
    fn step(&mut self) -> Result<()> {
        self.framed.clear();
        self.read = 0;
        while !self.has_ended && self.held.len() <= CHUNKS_OF_FOOTER {
            match self.chunk()? {
                Some(chunk) => self.held.push_back(chunk),
                None => {
                    self.has_ended = true;
                    self.check_footer()?;
                }
            }
        }
        if !self.has_ended
            && let Some(chunk) = self.held.pop_front()
        {
            self.records += chunk.records.len() as u64;
            chunk.records.iter().for_each(|record| tfrecord::frame(record, &mut self.framed));
        }
        Ok(())
    }

    /// Compares the two last chunks with the rest of the file.
    fn check_footer(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::data(what).at_byte(self.at));
        let (Some(footer), Some(postscript)) = (self.held.front(), self.held.get(1)) else {
            return wrong("it has no footer".to_owned());
        };
        let fields = postscript.records.first().map(|record| fields(record)).unwrap_or_default();
        if !fields.contains(&(2, Field::Number(MAGIC))) || !fields.contains(&(1, Field::Number(footer.begin))) {
            return wrong("it has no footer: it is truncated, or a Riegeli file that is no ArrayRecord".to_owned());
        }
        // RiegeliFooterMetadata has array_record_metadata as field 1, which has num_records as field 3.
        let metadata = footer.records.first().map(|record| self::fields(record)).unwrap_or_default();
        let inner = metadata.iter().find_map(|field| match field {
            (1, Field::Bytes(bytes)) => Some(self::fields(bytes)),
            _ => None,
        });
        let records = inner.unwrap_or_default().iter().find_map(|field| match field {
            (3, Field::Number(records)) => Some(*records),
            _ => None,
        });
        match self.lost.are_all(self.records, records.unwrap_or(0)) {
            true => Ok(()),
            false => {
                let found = size::counted(self.records, "record");
                wrong(format!("{found}, and its footer has {}", records.unwrap_or(0)))
            }
        }
    }
}

impl<R: Read> Read for Records<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.framed.len() {
            if self.has_ended {
                return Ok(0);
            }
            self.step().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        }
        let bytes = out.len().min(self.framed.len() - self.read);
        out[..bytes].copy_from_slice(&self.framed[self.read..self.read + bytes]);
        self.read += bytes;
        Ok(bytes)
    }
}

/// The numbers in a block header.
fn words(header: &[u8]) -> Option<[u64; 3]> {
    let (words, rest) = header.as_chunks();
    let words: &[[u8; 8]; 3] = words.try_into().ok().filter(|_| rest.is_empty())?;
    Some(words.map(u64::from_le_bytes))
}

fn hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(Key(KEY)).hash64(bytes)
}

/// End of the chunk that begins at `begin`, with block headers and padding.
fn chunk_end(begin: u64, data_bytes: u64, records: u64) -> u64 {
    let bytes = CHUNK_HEADER_BYTES.saturating_add(data_bytes);
    let in_block = begin.wrapping_add(USABLE_BLOCK_BYTES - 1) % BLOCK_BYTES;
    let headers = bytes.saturating_add(in_block) / USABLE_BLOCK_BYTES;
    let with_headers = begin.saturating_add(bytes).saturating_add(headers.saturating_mul(BLOCK_HEADER_BYTES));
    // A chunk has as many bytes as records, and does not end in a block header.
    let least = begin.saturating_add(records);
    let left_in_block = BLOCK_BYTES - 1 - least.wrapping_add(BLOCK_BYTES - 1) % BLOCK_BYTES;
    with_headers.max(least.saturating_add(left_in_block.saturating_sub(USABLE_BLOCK_BYTES - 1)))
}

/// The records of a simple chunk.
fn simple(data: &[u8], records: u64, decoded_bytes: u64) -> Result<Vec<Vec<u8>>, String> {
    let ends = || "a chunk ends early".to_owned();
    let (compression, mut rest) = data.split_first().ok_or_else(ends)?;
    let sizes_bytes = varint(&mut rest).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(ends)?;
    let (sizes, values) = rest.split_at_checked(sizes_bytes).ok_or_else(ends)?;
    // The size of a record takes at most 10 bytes.
    let sizes = unpacked(*compression, sizes, records.saturating_mul(10))?;
    let values = unpacked(*compression, values, decoded_bytes)?;
    let (mut sizes, mut values) = (sizes.as_slice(), values.as_slice());
    let mut found = Vec::new();
    for _ in 0..records {
        let bytes = varint(&mut sizes).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(ends)?;
        let (record, more) = values.split_at_checked(bytes).ok_or_else(ends)?;
        found.push(record.to_vec());
        values = more;
    }
    match sizes.is_empty() && values.is_empty() {
        true => Ok(found),
        false => Err("a chunk has more than its records".to_owned()),
    }
}

/// The content of a buffer, at most `most` bytes.
fn unpacked(compression: u8, packed: &[u8], most: u64) -> Result<Vec<u8>, String> {
    if compression == 0 {
        return Ok(packed.to_vec());
    }
    let mut rest = packed;
    let bytes = varint(&mut rest).ok_or("a compressed buffer without its length")?;
    if bytes > most {
        return Err(format!("a compressed buffer of {bytes} bytes, at most {most} are expected"));
    }
    memory::admit(bytes).map_err(|error| error.what())?;
    let failed = |error: io::Error| format!("a compressed buffer: {error}");
    let mut out = Vec::new();
    match compression {
        b'z' => drop(
            zstd::Decoder::new(rest).and_then(|inner| inner.take(bytes + 1).read_to_end(&mut out)).map_err(failed)?,
        ),
        b'b' => {
            let inner = brotli_decompressor::Decompressor::new(rest, BROTLI_BYTES);
            inner.take(bytes + 1).read_to_end(&mut out).map_err(failed)?;
        }
        b's' => {
            let promised = snap::raw::decompress_len(rest).map_err(|error| failed(io::Error::other(error)))? as u64;
            if promised == bytes {
                out =
                    snap::raw::Decoder::new().decompress_vec(rest).map_err(|error| failed(io::Error::other(error)))?;
            }
        }
        other => return Err(format!("compression of unknown type {other}")),
    }
    match out.len() as u64 == bytes {
        true => Ok(out),
        false => Err(format!("a compressed buffer of {} bytes, {bytes} by its length", out.len())),
    }
}

/// A field of a protocol buffer.
#[derive(Debug, PartialEq)]
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// The fields of a message, by number, up to the first that cannot be read.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while let Some(tag) = varint(&mut message) {
        let field = match tag & 7 {
            0 => varint(&mut message).map(Field::Number),
            2 => varint(&mut message).and_then(|bytes| {
                let (bytes, rest) = message.split_at_checked(usize::try_from(bytes).ok()?)?;
                message = rest;
                Some(Field::Bytes(bytes))
            }),
            _ => None,
        };
        let Some(field) = field else { break };
        found.push((tag >> 3, field));
    }
    found
}

/// Reads a varint of at most 64 bits.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests;
