//! Decompresses pages.
//!
//! No codec decompresses much more than the expected number of bytes.

use std::io::{self, Read};

use parquet::{
    basic::Compression,
    errors::{ParquetError, Result},
};

/// Bytes that brotli is given at a time.
const BROTLI_BYTES: usize = 4 << 10;

/// How pages are packed.
pub(super) enum Codec {
    None,
    Snappy(snap::raw::Decoder),
    Zstd(zstd::bulk::Decompressor<'static>),
    Gzip,
    Brotli,
    Lz4,
}

impl Codec {
    /// The one that a footer names.
    ///
    /// # Errors
    /// If it is not supported.
    pub fn from_compression(compression: Compression) -> Result<Self> {
        Ok(match compression {
            Compression::UNCOMPRESSED => Self::None,
            Compression::SNAPPY => Self::Snappy(snap::raw::Decoder::new()),
            Compression::ZSTD(_) => Self::Zstd(zstd::bulk::Decompressor::new().map_err(external)?),
            Compression::GZIP(_) => Self::Gzip,
            Compression::LZ4_RAW => Self::Lz4,
            Compression::BROTLI(_) => Self::Brotli,
            other => return Err(failed(format!("compressed with {other}, which is not supported"))),
        })
    }

    /// Decompresses `content`, which should yield `expected` bytes; stops soon after that many.
    ///
    /// # Errors
    /// If the content is corrupt, or memory is exhausted.
    pub fn unpack(&mut self, content: &[u8], expected: usize) -> io::Result<Vec<u8>> {
        // Some writers omit empty content.
        if expected == 0 {
            return Ok(Vec::new());
        }
        let mut out = match self {
            Self::Zstd(_) => Vec::new(),
            _ => room(expected as u64).map_err(io::Error::other)?,
        };
        match self {
            Self::None => out.extend_from_slice(content),
            Self::Snappy(decoder) => {
                out.resize(expected, 0);
                let unpacked = decoder.decompress(content, &mut out).map_err(io::Error::other)?;
                out.truncate(unpacked);
            }
            Self::Zstd(decoder) => return unpack_zstd(decoder, content, expected as u64),
            Self::Gzip => {
                flate2::read::MultiGzDecoder::new(content).take(expected as u64 + 1).read_to_end(&mut out)?;
            }
            Self::Brotli => {
                let inner = brotli_decompressor::Decompressor::new(content, BROTLI_BYTES);
                inner.take(expected as u64 + 1).read_to_end(&mut out)?;
            }
            Self::Lz4 => {
                out.resize(expected, 0);
                let unpacked = lz4_flex::block::decompress_into(content, &mut out).map_err(io::Error::other)?;
                out.truncate(unpacked);
            }
        }
        Ok(out)
    }
}

/// The error of zstd for output that does not fit.
const TOO_SMALL: &str = "Destination buffer is too small";
/// First room for each byte of a zstd frame, and growth of the room.
const ROOM_FOR_ONE: u64 = 16;
/// Least room.
const LEAST_ROOM: u64 = 64 << 10;

/// Decompresses up to `expected` bytes. The room grows only with the output: a length in a damaged file may be of any size.
///
/// # Errors
/// If the content is corrupt or longer, or memory is exhausted.
pub(super) fn unpack_zstd(
    decoder: &mut zstd::bulk::Decompressor<'_>,
    content: &[u8],
    expected: u64,
) -> io::Result<Vec<u8>> {
    let mut bytes = (content.len() as u64 * ROOM_FOR_ONE).max(LEAST_ROOM).min(expected);
    loop {
        let mut out = room(bytes).map_err(io::Error::other)?;
        match decoder.decompress_to_buffer(content, &mut out) {
            Ok(_) => return Ok(out),
            Err(error) if bytes < expected && error.to_string() == TOO_SMALL => {
                bytes = (bytes * ROOM_FOR_ONE).min(expected);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Room for `bytes`, if the machine has as much.
pub(super) fn room(bytes: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    out.try_reserve_exact(bytes as usize)
        .map_err(|_| external(io::Error::new(io::ErrorKind::OutOfMemory, format!("a page of {bytes} bytes"))))?;
    Ok(out)
}

pub(super) fn failed(what: String) -> ParquetError {
    ParquetError::General(what)
}

pub(super) fn external(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn room_for_zstd_grows_with_the_output_alone() {
        let zeros = vec![0; 20 << 20];
        let packed = zstd::bulk::compress(&zeros, 3).unwrap();
        assert!(packed.len() < zeros.len() / 1000);
        let mut decoder = zstd::bulk::Decompressor::new().unwrap();
        assert!(unpack_zstd(&mut decoder, &packed, zeros.len() as u64).unwrap() == zeros);
        assert!(unpack_zstd(&mut decoder, &packed, zeros.len() as u64 - 1).is_err());
        // No machine has as much memory as a damaged length may ask for.
        let small = zstd::bulk::compress(b"small", 3).unwrap();
        assert_eq!(unpack_zstd(&mut decoder, &small, u64::MAX >> 1).unwrap(), b"small");
        assert!(unpack_zstd(&mut decoder, &small[..small.len() - 1], u64::MAX >> 1).is_err());
    }

    #[test]
    fn no_codec_unpacks_much_more_than_is_expected() {
        let zeros = vec![0; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&zeros).unwrap();
        let cases = [
            (Codec::Snappy(snap::raw::Decoder::new()), snap::raw::Encoder::new().compress_vec(&zeros).unwrap()),
            (Codec::Zstd(zstd::bulk::Decompressor::new().unwrap()), zstd::bulk::compress(&zeros, 3).unwrap()),
            (Codec::Gzip, gzip.finish().unwrap()),
            (Codec::Lz4, lz4_flex::block::compress(&zeros)),
        ];
        for (number, (mut codec, packed)) in cases.into_iter().enumerate() {
            assert!(codec.unpack(&packed, zeros.len()).unwrap() == zeros, "{number}");
            if let Ok(out) = codec.unpack(&packed, 1000) {
                assert_eq!(out.len(), 1001, "{number}");
            }
            assert!(codec.unpack(&packed[..packed.len() / 2], zeros.len()).is_err(), "{number}");
        }
    }
}
