//! Finds the magic in a payload and joins stored parts into the payload.
//!
//! The writer splits a payload at each magic at a multiple of four and omits that magic. The next part begins with the
//! magic of its own header. So the stored bytes keep each such magic, followed by one more word: flag and length of the
//! next part. Every part but the last is a multiple of four long and has no padding.
//! Source: dmlc-core, `recordio.cc` (`RecordIOWriter::WriteRecord`), read; mxnet 1.9.1, run.

/// First word of every part, little-endian.
pub const MAGIC: u32 = 0xced7_230a;
/// Length in bytes of a word. A magic counts only at a multiple of this length.
pub const WORD_BYTES: usize = 4;

/// Offsets of the magic in `payload`, ascending. `payload` must begin at a multiple of four.
pub fn magics(payload: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let first = MAGIC.to_le_bytes();
    payload.chunks_exact(WORD_BYTES).enumerate().filter(move |(_, word)| **word == first).map(|(n, _)| n * WORD_BYTES)
}

/// The first `bytes` bytes of a payload, from its `stored` bytes: first payload byte to the end of the record. `None` if
/// `stored` is too short.
pub fn join(stored: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.min(stored.len()));
    let mut from = 0;
    for at in magics(stored) {
        // The word after a magic is flag and length, even if it equals the magic.
        if at < from {
            continue;
        }
        out.extend_from_slice(&stored[from..at + WORD_BYTES]);
        from = at + 2 * WORD_BYTES;
    }
    out.extend_from_slice(stored.get(from..).unwrap_or_default());
    (out.len() >= bytes).then(|| {
        out.truncate(bytes);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_together_whatever_their_lengths_look_like() {
        let magic = MAGIC.to_le_bytes();
        let stored = [b"abcd".as_slice(), &magic, &magic, b"efgh", &magic, b"\x05\0\0\x60", b"ijklm\0\0\0"].concat();
        let image = [b"abcd".as_slice(), &magic, b"efgh", &magic, b"ijklm"].concat();
        assert_eq!(join(&stored, image.len()), Some(image.clone()));
        assert_eq!(join(&stored, image.len() + 4), None);
        assert_eq!(magics(&stored).collect::<Vec<_>>(), [4, 8, 16]);
        assert_eq!(join(&magic, 4), Some(magic.to_vec()));
        assert_eq!(join(b"", 0), Some(Vec::new()));
    }
}
