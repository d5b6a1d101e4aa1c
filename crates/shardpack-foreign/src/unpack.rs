//! Detects the compression of files by magic, or by name for formats without a magic, and decompresses them.
//!
//! Sources: RFC 1952 (gzip), RFC 1950 (zlib), RFC 8878 (zstd), the bzip2 manual, and mosaicml-streaming's `compression.py`
//! for the names of formats without a magic: `.br` and `.snappy`, the latter one block of the raw format.

use std::io::{BufReader, Cursor, Read};

use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result,
    formats::foreign::{Sequential, Skip},
    memory,
};

use crate::{array_record, litdata, location::FileLocation};

/// Maximum expansion of a snappy block: each copy of 64 bytes takes 3.
const SNAPPY_RATIO: u64 = 24;
/// Bytes that are read from the compressed file at a time.
const READ_BYTES: usize = 256 << 10;

/// Window that zstd decoders accept by default (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`), and the minimum (RFC 8878, 3.1.1.1.2).
const USUAL_WINDOW_LOG: u32 = 27;
const LEAST_WINDOW_BYTES: u64 = 8 << 20;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packed {
    /// RFC 1952, any number of members.
    Gzip,
    /// RFC 1950, as TensorFlow's `ZLIB` has it. Its first two bytes may begin a record, so it counts only if the plain file
    /// has no known format.
    Zlib,
    /// RFC 8878, any number of frames.
    Zstd,
    /// bzip2, any number of streams.
    Bzip2,
    /// RFC 7932.
    Brotli,
    /// One block of the raw format.
    Snappy,
    /// An ArrayRecord file, whose records become those of a TFRecord file.
    ArrayRecord,
    /// A chunk of LitData whose samples are compressed in batches.
    Batches,
}

impl Packed {
    /// How the file at `place` is compressed.
    ///
    /// # Errors
    /// If it cannot be read, or is compressed in a way that is known and not read.
    pub(super) fn detect(place: &FileLocation) -> Result<Option<Self>> {
        let mut first = [0; 6];
        let (read, path) = (place.first(&mut first)?, place.path());
        let name = path.extension().unwrap_or_default();
        Ok(match &first[..read] {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // A frame, or a skippable frame before it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [b'B', b'Z', b'h', b'1'..=b'9', b'1' | 0x17, ..] => Some(Self::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => {
                return Err(Error::usage("compressed with xz: gzip, zstd and bzip2 are read")
                    .in_file(path)
                    .help("unpack it with xz -dk and give the unpacked file"));
            }
            first if array_record::is(first) => Some(Self::ArrayRecord),
            first if litdata::is_in_batches(first) => Some(Self::Batches),
            [0x78, flags, ..] if (0x7800 + u32::from(*flags)) % 31 == 0 => Some(Self::Zlib),
            _ if name == "br" => Some(Self::Brotli),
            _ if name == "snappy" => Some(Self::Snappy),
            _ => None,
        })
    }

    /// For a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Brotli => "brotli",
            Self::Snappy => "snappy",
            Self::ArrayRecord => "ArrayRecord",
            Self::Batches => "zstd, in batches",
        }
    }

    /// The decompressed content of `file`, which has `bytes` bytes.
    ///
    /// # Errors
    /// If the file is unreadable, or claims more content than it can hold.
    pub(super) fn open(self, file: impl Read + 'static, bytes: u64) -> Result<Box<dyn Skip>> {
        let mut file = BufReader::with_capacity(READ_BYTES, file);
        Ok(match self {
            Self::Gzip => Box::new(Sequential(flate2::bufread::MultiGzDecoder::new(file))),
            Self::Zlib => Box::new(Sequential(flate2::bufread::ZlibDecoder::new(file))),
            Self::Zstd => Box::new(Sequential(zstd_frames(file)?)),
            Self::ArrayRecord => Box::new(Sequential(array_record::Records::new(file))),
            Self::Batches => {
                let head = litdata::plain_head(&mut file, bytes)?;
                Box::new(Sequential(Cursor::new(head).chain(zstd_frames(file)?)))
            }
            Self::Bzip2 => Box::new(Sequential(bzip2::bufread::MultiBzDecoder::new(file))),
            Self::Brotli => Box::new(Sequential(brotli_decompressor::Decompressor::new(file, READ_BYTES))),
            Self::Snappy => {
                memory::admit(bytes).map_err(|error| error.at_byte(0))?;
                let mut packed = Vec::new();
                file.read_to_end(&mut packed).map_err(|e| Error::io("cannot read", e))?;
                let wrong = |error: snap::Error| Error::data(format!("damaged snappy: {error}"));
                let promised = snap::raw::decompress_len(&packed).map_err(wrong)? as u64;
                if promised > bytes.saturating_mul(SNAPPY_RATIO) {
                    let what = format!("damaged snappy: {bytes} bytes cannot hold the {promised} in its header");
                    return Err(Error::data(what).at_byte(0));
                }
                let mut unpacked = Vec::new();
                memory::make_room(&mut unpacked, promised).map_err(|error| error.at_byte(0))?;
                unpacked.resize(promised as usize, 0);
                let found = snap::raw::Decoder::new().decompress(&packed, &mut unpacked).map_err(wrong)?;
                unpacked.truncate(found);
                Box::new(Cursor::new(unpacked))
            }
        })
    }
}

/// The content of zstd frames.
fn zstd_frames(file: BufReader<impl Read>) -> Result<impl Read> {
    let mut inner = zstd::Decoder::with_buffer(file).map_err(|e| Error::io("cannot unpack", e))?;
    // The window is limited to that of usual decoders, or to the memory there is.
    let window_log = memory::most_of_piece().max(LEAST_WINDOW_BYTES).ilog2().min(USUAL_WINDOW_LOG);
    inner.window_log_max(window_log).map_err(|e| Error::io("cannot unpack", e))?;
    Ok(inner)
}
