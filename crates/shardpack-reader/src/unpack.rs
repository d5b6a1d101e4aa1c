//! Unpacks one zstd frame into a buffer, and trusts neither its length nor its declared content size.
//!
//! Without the feature `zstd` this module only returns an error.

use shardpack_format::{Error, Result, memory};

/// A zstd block of at most 128 KiB takes at least four bytes: three of header, one of content.
/// Source: RFC 8878, 3.1.1.2 (`Block_Header`, `RLE_Block`, `Block_Maximum_Size`).
const MAX_BYTES_PER_PACKED_BYTE: u64 = 128 * 1024 / 4;

/// A frame with a higher ratio must fit the memory limit of a piece.
const USUAL_RATIO: u64 = 256;

/// Checks the claim that `packed_bytes` unpack to `bytes` before memory is allocated.
fn check_claim(packed_bytes: usize, bytes: u32) -> Result<()> {
    if u64::from(bytes) > (packed_bytes as u64).saturating_mul(MAX_BYTES_PER_PACKED_BYTE) {
        return Err(Error::data(format!("{packed_bytes} packed bytes cannot hold the {bytes} of the seek table")));
    }
    // No images compress this well; such a frame may be malicious.
    if (packed_bytes as u64).saturating_mul(USUAL_RATIO) < u64::from(bytes) {
        memory::admit(bytes.into())?;
    }
    Ok(())
}

#[cfg(feature = "zstd")]
mod with_zstd {
    use std::io::Read;

    use super::{Error, Result, check_claim};
    use crate::buffer::make_room;

    /// Up to this size the declared size of a frame is allocated at once; a larger buffer grows with the data.
    const TRUSTED_BYTES: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

    /// Unpacks frames one after the other and reuses its tables.
    pub(crate) struct Unpacker(zstd::bulk::Decompressor<'static>);

    impl Unpacker {
        pub fn new() -> Result<Self> {
            zstd::bulk::Decompressor::new().map(Self).map_err(|error| Error::io("cannot make a zstd decoder", error))
        }

        /// Unpacks `packed`, which must hold exactly `bytes`, to `out[at..]`; `out` grows if necessary.
        pub fn unpack(&mut self, packed: &[u8], bytes: u32, out: &mut Vec<u8>, at: usize) -> Result<()> {
            check_claim(packed.len(), bytes)?;
            let damaged = |error: std::io::Error| Error::data(format!("the frame does not unpack: {error}"));
            let expected = bytes as usize;
            let end = at.saturating_add(expected);
            let found = if expected <= TRUSTED_BYTES || end <= out.len() {
                make_room(out, end)?;
                let room = out.get_mut(at..end).unwrap_or_default();
                self.0.decompress_to_buffer(packed, room).map_err(damaged)?
            } else {
                out.truncate(at);
                let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(damaged)?;
                // One byte more than allowed, to detect frames that are too long.
                decoder.take(u64::from(bytes) + 1).read_to_end(out).map_err(damaged)?
            };
            if found != expected {
                return Err(Error::data(format!("the frame holds {found} bytes, {expected} in the seek table")));
            }
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn unpack(packed: &[u8], bytes: u32, at: usize) -> Result<Vec<u8>> {
            let mut out = vec![7; at];
            Unpacker::new()?.unpack(packed, bytes, &mut out, at)?;
            assert!(out[..at].iter().all(|byte| *byte == 7));
            Ok(out[at..].to_vec())
        }

        #[test]
        fn a_frame_comes_back_small_or_large() {
            for length in [0usize, 1, 100_000, TRUSTED_BYTES - 1, TRUSTED_BYTES, TRUSTED_BYTES + 1] {
                let content: Vec<u8> = (0..length).map(|n| (n / 1000 % 251) as u8).collect();
                let packed = zstd::bulk::compress(&content, 1).unwrap();
                for at in [0, 5] {
                    assert!(unpack(&packed, length as u32, at).unwrap() == content, "{length}");
                }
                assert!(unpack(&packed, length as u32 + 1, 0).is_err(), "{length}: less than in the table");
                if length > 0 {
                    assert!(unpack(&packed, length as u32 - 1, 0).is_err(), "{length}: more than in the table");
                    assert!(unpack(&packed[..packed.len() - 1], length as u32, 0).is_err(), "{length}: cut");
                }
            }
        }

        #[test]
        fn a_claim_beyond_what_zstd_can_do_is_refused_before_room_is_made() {
            let packed = zstd::bulk::compress(&[1; 100], 1).unwrap();
            let error = unpack(&packed, u32::MAX, 0).unwrap_err();
            assert!(error.to_string().contains("cannot hold"), "{error}");
            // A whole frame of zeros is near the limit and still accepted.
            let zeros = vec![0; 8 << 20];
            let packed = zstd::bulk::compress(&zeros, 19).unwrap();
            assert!(unpack(&packed, zeros.len() as u32, 0).unwrap() == zeros);
        }
    }
}

#[cfg(feature = "zstd")]
pub(crate) use with_zstd::Unpacker;

/// Placeholder for the decoder if the feature `zstd` is off.
#[cfg(not(feature = "zstd"))]
pub(crate) struct Unpacker;

#[cfg(not(feature = "zstd"))]
impl Unpacker {
    pub fn new() -> Result<Self> {
        Err(Error::usage("compressed with zstd, which this build cannot read (it lacks the feature zstd)")
            .help("build the crate shardpack-reader with its feature `zstd`"))
    }

    pub fn unpack(&mut self, packed: &[u8], bytes: u32, _out: &mut Vec<u8>, _at: usize) -> Result<()> {
        check_claim(packed.len(), bytes)?;
        Self::new().map(drop)
    }
}
