//! Reads the bits of a JPEG's entropy-coded data, with `FF 00` as one byte, and their positions in the file.
//!
//! Holds at all times: zeros follow the last bit without end, and [`Bits::is_over`] reports whether they were read.

/// Whether a byte of a word is FF. Source: Bit Twiddling Hacks, "Determine if a word has a zero byte", of its complement.
#[inline(always)]
pub(crate) fn has_ff(word: u64) -> bool {
    (!word).wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080 != 0
}

/// Reads the bits of each byte from the highest on.
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    /// Start of the codes.
    start: usize,
    /// The next byte that is not in `buffer`.
    at: usize,
    /// The next bits, from the highest on. Below the `held` bits there may be some bits of the next byte.
    buffer: u64,
    held: u32,
    /// Number of bits behind the end that were ever held.
    zeros: u32,
}

impl<'a> Bits<'a> {
    pub(crate) fn new(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, start, at: start, buffer: 0, held: 0, zeros: 0 }
    }

    /// Makes the buffer hold at least 32 bits.
    #[inline]
    pub(crate) fn fill(&mut self) {
        if self.held < 32 {
            self.fill_more();
        }
    }

    #[inline]
    fn fill_more(&mut self) {
        if let Some(next) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            let next = u64::from_be_bytes(*next);
            if !has_ff(next) {
                // As many whole bytes as fit; the rest of `next` is loaded again the next time.
                self.buffer |= next >> self.held;
                self.at += (63 - self.held as usize) >> 3;
                self.held |= 56;
                return;
            }
        }
        self.fill_slowly();
    }

    #[cold]
    fn fill_slowly(&mut self) {
        while self.held <= 56 {
            let byte = match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
                (Some(0xFF), Some(0)) => {
                    self.at += 2;
                    0xFF
                }
                (Some(0xFF), _) | (None, _) => {
                    self.zeros = self.zeros.saturating_add(8);
                    0
                }
                (Some(&byte), _) => {
                    self.at += 1;
                    byte
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.held);
            self.held += 8;
        }
    }

    /// The next 1 to 32 bits, at most as many as are held.
    #[inline]
    pub(crate) fn peek(&self, count: u32) -> u32 {
        (self.buffer >> (64 - count)) as u32
    }

    /// The next bits, from the highest on: at least as many as are held.
    #[inline]
    pub(crate) fn buffer(&self) -> u64 {
        self.buffer
    }

    /// Skips bits that are held.
    #[inline]
    pub(crate) fn take(&mut self, count: u32) {
        self.buffer <<= count;
        self.held -= count;
    }

    /// Whether bits behind the end were taken.
    pub(crate) fn is_over(&self) -> bool {
        self.zeros > self.held
    }

    /// Position of the next bit, in bits from the start of the file. Never in the 00 of an `FF 00`; after the last
    /// bit, the first bit of the marker.
    pub(crate) fn position(&self) -> u64 {
        let held = self.held.saturating_sub(self.zeros);
        let mut at = self.at;
        for _ in 0..held.div_ceil(8) {
            let is_stuffed = at >= self.start + 2 && self.bytes[at - 2..at] == [0xFF, 0];
            at -= if is_stuffed { 2 } else { 1 };
        }
        at as u64 * 8 + u64::from(8 - held % 8) % 8
    }
}

/// End of image.
pub(crate) const END: u8 = 0xD9;

/// Restart marker number `count`, from 0.
pub(crate) fn restart(count: u32) -> u8 {
    0xD0 + (count & 7) as u8
}

/// The byte of a marker's last FF, if the codes end at `bit`.
pub(crate) fn marker_at(bytes: &[u8], bit: u64) -> usize {
    let mut at = usize::try_from(bit / 8).unwrap_or(usize::MAX);
    if !bit.is_multiple_of(8) {
        at = at.saturating_add(if bytes.get(at) == Some(&0xFF) { 2 } else { 1 });
    }
    // Any number of FF may stand before a marker (B.1.1.2).
    while bytes.get(at..).is_some_and(|rest| rest.starts_with(&[0xFF, 0xFF])) {
        at += 1;
    }
    at
}

/// The byte behind `marker`, if the codes end at `bit`.
///
/// # Errors
/// The offset of the byte that does not belong to that marker.
pub(crate) fn behind_marker(bytes: &[u8], bit: u64, marker: u8) -> Result<usize, usize> {
    let at = marker_at(bytes, bit);
    match bytes.get(at..).is_some_and(|rest| rest.starts_with(&[0xFF, marker])) {
        true => Ok(at + 2),
        false => Err(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every bit with its position, one by one.
    fn twin(bytes: &[u8], start: usize) -> Vec<(bool, u64)> {
        let (mut found, mut at) = (Vec::new(), start);
        while let Some(&byte) = bytes.get(at) {
            if byte == 0xFF && bytes.get(at + 1) != Some(&0) {
                break;
            }
            found.extend((0..8).map(|bit| (byte >> (7 - bit) & 1 == 1, at as u64 * 8 + bit)));
            at += if byte == 0xFF { 2 } else { 1 };
        }
        found
    }

    #[test]
    fn bits_and_places_are_those_of_reading_one_by_one() {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for round in 0..2000 {
            let mut bytes = vec![0, 63, 0];
            for _ in 0..next() % 60 {
                match next() % 6 {
                    0 => bytes.extend([0xFF, 0]),
                    1 => bytes.push(0),
                    _ => bytes.push((next() % 255) as u8),
                }
            }
            if round % 2 == 0 {
                bytes.extend([0xFF, 0xD9, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
            }
            let expected = twin(&bytes, 3);
            let (mut bits, mut read) = (Bits::new(&bytes, 3), 0);
            while read < expected.len() {
                bits.fill();
                assert_eq!(bits.position(), expected[read].1, "{bytes:X?} bit {read}");
                let count = (1 + next() % 31).min(expected.len() - read);
                for (at, &(bit, _)) in expected[read..read + count].iter().enumerate() {
                    assert_eq!(bits.peek(at as u32 + 1) & 1 == 1, bit, "{bytes:X?} bit {}", read + at);
                }
                bits.take(count as u32);
                read += count;
                assert!(!bits.is_over());
            }
            bits.fill();
            assert_eq!(bits.peek(32), 0, "{bytes:X?}");
            bits.take(1);
            assert!(bits.is_over(), "{bytes:X?}");
        }
    }
}
