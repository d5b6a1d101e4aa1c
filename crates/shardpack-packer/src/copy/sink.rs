//! Writes rendered records: a part of a plain shard, or a compressed shard from its beginning.

use std::{
    io::{self, Write},
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    hash::{self, FileHash, Named, SpanHasher},
    seekable::SeekTable,
};

use super::{Copy, Hashes, Shared, memory::FLUSH_BYTES};
use crate::plan::Compression;

/// Receives records in order, and writes and hashes them while in cache.
pub(super) struct Sink {
    output: Shared,
    /// Offset of the next byte in the file.
    at: u64,
    start: u64,
    way: Way,
    /// Hashes of the content before compression, if they are wanted.
    content: Vec<(String, Named)>,
}

enum Way {
    Plain(SpanHasher),
    /// One frame for each block, and a seek table.
    Blocks {
        compressor: zstd::bulk::Compressor<'static>,
        table: SeekTable,
        block_samples: u64,
        hasher: blake3::Hasher,
        /// First bytes of the next frame.
        head: Vec<u8>,
    },
    /// One frame for the whole shard.
    Whole(zstd::Encoder<'static, Hashing>),
}

/// Writes a file from its beginning and hashes the written bytes.
struct Hashing {
    output: Shared,
    bytes: u64,
    hasher: blake3::Hasher,
    /// The write error: the compressor passes on only `io::Error`.
    failed: Option<Error>,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.output.write_at(bytes, self.bytes) {
            let told = io::Error::other(error.to_string());
            self.failed = Some(error);
            return Err(told);
        }
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hash of a written part of a shard.
pub(super) enum Hashed {
    /// A part of a shard.
    Part(hash::Span),
    /// A whole shard: its length in bytes, its BLAKE3, and the wanted hashes of its content before compression.
    Whole(u64, FileHash, Hashes),
}

fn cannot_compress(error: io::Error) -> Error {
    Error::io("cannot compress", error)
}

impl Sink {
    /// Begins at byte `offset` of a shard that has `content_bytes` before compression.
    pub fn new(copy: &Copy<'_>, output: Shared, offset: u64, content_bytes: u64) -> Result<Self> {
        let plan = copy.plan;
        let names = if plan.options.compression == Compression::None { &[] } else { copy.hashes };
        let content = names.iter().map(|name| Ok((name.clone(), Named::new(name)?))).collect::<Result<_>>()?;
        let way = match plan.options.compression {
            Compression::None => Way::Plain(SpanHasher::new(offset, content_bytes)),
            Compression::Zstd(level) if plan.format().is_one_frame() => {
                let (output, hasher) = (Arc::clone(&output), blake3::Hasher::new());
                let out = Hashing { output, bytes: 0, hasher, failed: None };
                let encoder = zstd::Encoder::new(out, level).and_then(|mut encoder| {
                    encoder.include_checksum(true)?;
                    // Readers allocate the content size in the frame header.
                    encoder.set_pledged_src_size(Some(content_bytes))?;
                    Ok(encoder)
                });
                Way::Whole(encoder.map_err(cannot_compress)?)
            }
            Compression::Zstd(level) => {
                let mut compressor = zstd::bulk::Compressor::new(level).map_err(cannot_compress)?;
                compressor.include_checksum(true).map_err(cannot_compress)?;
                let block_samples = plan.block_samples;
                Way::Blocks {
                    compressor,
                    table: SeekTable::default(),
                    block_samples,
                    hasher: blake3::Hasher::new(),
                    head: Vec::new(),
                }
            }
        };
        Ok(Self { output, at: offset, start: offset, way, content })
    }

    /// Whether a buffer with this many bytes and records must be written out now.
    pub fn is_full(&self, bytes: usize, records: u64) -> bool {
        match &self.way {
            Way::Plain(_) | Way::Whole(_) => bytes >= FLUSH_BYTES,
            Way::Blocks { block_samples, .. } => records >= *block_samples,
        }
    }

    /// Writes the bytes before the first record. If blocks are compressed, they go into the frame of the first
    /// block.
    pub fn write_head(&mut self, head: &[u8]) -> Result<()> {
        match &mut self.way {
            Way::Blocks { head: held, .. } => {
                self.content.iter_mut().for_each(|(_, hash)| hash.update(head));
                held.extend_from_slice(head);
                Ok(())
            }
            Way::Plain(_) | Way::Whole(_) => self.write(head),
        }
    }

    /// Writes whole records; no effect if there are none.
    pub fn write(&mut self, records: &[u8]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        self.content.iter_mut().for_each(|(_, hash)| hash.update(records));
        match &mut self.way {
            Way::Plain(hasher) => {
                hasher.update(records);
                self.put(records)
            }
            Way::Whole(encoder) => encoder
                .write_all(records)
                .map_err(|error| encoder.get_mut().failed.take().unwrap_or_else(|| cannot_compress(error))),
            Way::Blocks { compressor, table, hasher, head, .. } => {
                let with_head;
                let records = match head.is_empty() {
                    true => records,
                    false => {
                        with_head = [std::mem::take(head).as_slice(), records].concat();
                        with_head.as_slice()
                    }
                };
                let frame = compressor.compress(records).map_err(cannot_compress)?;
                table.push(frame.len(), records.len())?;
                hasher.update(&frame);
                self.put(&frame)
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Ends the part and starts write-back to disk.
    pub fn finish(mut self) -> Result<Hashed> {
        let way = std::mem::replace(&mut self.way, Way::Plain(SpanHasher::new(0, 0)));
        let content = std::mem::take(&mut self.content).into_iter().map(|(name, hash)| (name, hash.finish())).collect();
        let hashed = match way {
            Way::Plain(hasher) => Hashed::Part(hasher.finish()),
            Way::Whole(mut encoder) => {
                let ended = encoder.do_finish();
                ended.map_err(|error| encoder.get_mut().failed.take().unwrap_or_else(|| cannot_compress(error)))?;
                let out = encoder.finish().map_err(cannot_compress)?;
                self.at = out.bytes;
                Hashed::Whole(out.bytes, *out.hasher.finalize().as_bytes(), content)
            }
            Way::Blocks { table, mut hasher, .. } => {
                let table = table.to_bytes();
                hasher.update(&table);
                self.put(&table)?;
                Hashed::Whole(self.at, *hasher.finalize().as_bytes(), content)
            }
        };
        self.output.file.start_write_back(self.start, self.at);
        Ok(hashed)
    }
}
