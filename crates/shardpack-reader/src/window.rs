//! Holds a part of an unpacked shard in a reused buffer.

use std::ops::Range;

use shardpack_format::Result;

use crate::{buffer::make_room, unpack::Unpacker};

/// A longer window may not fit into memory, which must not abort the process.
const MAX_ZEROED_BYTES: usize = 32 << 20;

/// Part of one (unpacked) shard in a reused buffer; see [`crate::Shard::fill`].
///
/// The buffer only grows, to the longest part that was requested.
#[derive(Default)]
pub struct Window {
    /// At least `held` long; bytes from `held` on are stale.
    pub(crate) bytes: Vec<u8>,
    /// Offset of `bytes` in the unpacked shard.
    pub(crate) start: u64,
    /// Number of valid bytes in `bytes`.
    pub(crate) held: usize,
}

/// Reused memory to fill [`Window`]s of compressed shards: the packed frame, and a decoder.
#[derive(Default)]
pub struct Scratch {
    /// The current packed frame.
    pub(crate) packed: Vec<u8>,
    /// Created when the first frame is unpacked.
    pub(crate) unpacker: Option<Unpacker>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("start", &self.start).field("held", &self.held).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

impl Window {
    /// An empty window whose buffer has room for `bytes` bytes, untouched until they are filled.
    pub fn with_capacity(bytes: usize) -> Self {
        if bytes <= MAX_ZEROED_BYTES {
            // The system provides zeroed pages, so no thread has to write zeros.
            return Self { bytes: vec![0; bytes], ..Self::default() };
        }
        let mut window = Self::default();
        // If memory is insufficient, a later fill returns the error.
        let _ = window.bytes.try_reserve_exact(bytes);
        window
    }

    /// Length of its buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Empties the window, for another shard; keeps the buffer.
    pub fn clear(&mut self) {
        self.held = 0;
    }

    /// Copies `bytes`, which begin at `start` of the unpacked shard, into the window.
    ///
    /// # Errors
    /// When memory is insufficient.
    pub(crate) fn hold(&mut self, start: u64, bytes: &[u8]) -> Result<()> {
        make_room(&mut self.bytes, bytes.len())?;
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        (self.start, self.held) = (start, bytes.len());
        Ok(())
    }

    /// Bytes `range` of the unpacked shard, if the window holds all of the range.
    pub fn get(&self, range: Range<u64>) -> Option<&[u8]> {
        let from = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        self.bytes.get(..self.held)?.get(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_held_is_handed_out() {
        let mut window = Window { bytes: vec![0, 1, 2, 3, 4, 5], start: 100, held: 4 };
        assert_eq!(window.get(100..104), Some(&[0, 1, 2, 3][..]));
        assert_eq!(window.get(101..102), Some(&[1][..]));
        for range in [99..101, 103..105, 104..106] {
            assert_eq!(window.get(range.clone()), None, "{range:?}");
        }
        window.clear();
        assert_eq!(window.get(100..101), None);
    }
}
