//! A window is the part of an unpacked shard that is in memory, in a buffer that is used again and again.

use std::ops::Range;

use shardpack_format::Result;

use crate::{buffer::make_room, unpack::Unpacker};

/// Longer windows may be more than there is memory for, which is no reason to abort.
const MOST_ZEROED_BYTES: usize = 32 << 20;

/// Part of one (unpacked) shard, in a buffer that is used again; see [`crate::Shard::fill`].
///
/// The buffer only grows: to the longest part that was asked for.
#[derive(Default)]
pub struct Window {
    /// Long enough for what is held; bytes from `held` on are of earlier use.
    pub(crate) bytes: Vec<u8>,
    /// Where `bytes` begins in the unpacked shard.
    pub(crate) start: u64,
    /// How many of `bytes` belong to the window.
    pub(crate) held: usize,
}

/// What it takes to fill [`Window`]s of compressed shards, used again and again: the packed frame, and a decoder.
#[derive(Default)]
pub struct Scratch {
    /// The packed frame under way.
    pub(crate) packed: Vec<u8>,
    /// Made when the first frame is unpacked.
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
    /// An empty one whose buffer has room for `bytes` bytes, which are not touched before they are filled.
    pub fn with_capacity(bytes: usize) -> Self {
        if bytes <= MOST_ZEROED_BYTES {
            // The system hands it out as zeros, so that nobody has to write them.
            return Self { bytes: vec![0; bytes], ..Self::default() };
        }
        let mut window = Self::default();
        // Where there is no memory, filling says so.
        let _ = window.bytes.try_reserve_exact(bytes);
        window
    }

    /// Length of its buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets what is held, as for another shard; the buffer stays.
    pub fn clear(&mut self) {
        self.held = 0;
    }

    /// Makes it hold `bytes` of the unpacked shard from `start` on.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn hold(&mut self, start: u64, bytes: &[u8]) -> Result<()> {
        make_room(&mut self.bytes, bytes.len())?;
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        (self.start, self.held) = (start, bytes.len());
        Ok(())
    }

    /// Bytes `range` of the unpacked shard, if all are held.
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
