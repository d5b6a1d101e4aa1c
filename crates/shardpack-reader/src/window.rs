//! A window is the part of an unpacked shard that is in memory, in a buffer that is used again and again.

use std::ops::Range;

use crate::unpack::Unpacker;

/// Part of one (unpacked) shard, and the buffers that it takes to get there.
///
/// The buffers only grow: to the longest record or frame that was asked for.
#[derive(Default)]
pub(crate) struct Window {
    /// Long enough for what is held; bytes from `held` on are of earlier use.
    pub bytes: Vec<u8>,
    /// Where `bytes` begins in the unpacked shard.
    pub start: u64,
    /// How many of `bytes` belong to the window.
    pub held: usize,
    /// The packed frame under way.
    pub packed: Vec<u8>,
    /// Made when the first frame is unpacked.
    pub unpacker: Option<Unpacker>,
}

impl Window {
    /// Forgets what is held, as for another shard; the buffers stay.
    pub fn clear(&mut self) {
        self.held = 0;
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
        let mut window = Window { bytes: vec![0, 1, 2, 3, 4, 5], start: 100, held: 4, ..Window::default() };
        assert_eq!(window.get(100..104), Some(&[0, 1, 2, 3][..]));
        assert_eq!(window.get(101..102), Some(&[1][..]));
        for range in [99..101, 103..105, 104..106] {
            assert_eq!(window.get(range.clone()), None, "{range:?}");
        }
        window.clear();
        assert_eq!(window.get(100..101), None);
    }
}
