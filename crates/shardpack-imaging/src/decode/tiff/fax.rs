//! Decodes bilevel fax data: CCITT group 4, and the one-dimensional lines of group 3.
//!
//! Holds at all times: each line is exactly as long as the piece is wide, or the piece is damaged.

use std::convert::Infallible;

use fax::{
    BitReader, Color,
    decoder::{DecodeStatus, Group4Decoder},
    maps,
};

/// How lines of runs begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// With an end-of-line code, which some writers leave out. Source: ITU-T T.4, 4.1.
    Marked,
    /// At a byte boundary. Source: TIFF 6.0, section 10.
    OfBytes,
}

/// Bits of a slice; zeros follow its end, and no code begins with them.
struct Bits<'a> {
    packed: &'a [u8],
    at: usize,
}

impl BitReader for Bits<'_> {
    type Error = Infallible;

    fn peek(&self, bits: u8) -> Option<u16> {
        let byte = |behind: usize| u32::from(self.packed.get(self.at / 8 + behind).copied().unwrap_or(0));
        let word = byte(0) << 24 | byte(1) << 16 | byte(2) << 8;
        matches!(bits, 1..=16).then(|| ((word << (self.at % 8)) >> (32 - u32::from(bits))) as u16)
    }

    fn consume(&mut self, bits: u8) -> Result<(), Infallible> {
        self.at += usize::from(bits);
        Ok(())
    }

    fn bits_to_byte_boundary(&self) -> u8 {
        ((8 - self.at % 8) % 8) as u8
    }
}

impl Bits<'_> {
    /// Skips the end-of-line code before a line, with any fill bits before it.
    fn pass_mark(&mut self) -> bool {
        // No code begins with eight zeros, and an end-of-line code has eleven.
        if self.peek(8) != Some(0) {
            return true;
        }
        let begin = self.at;
        while self.peek(1) == Some(0) && self.at < self.packed.len() * 8 {
            self.at += 1;
        }
        self.at += 1;
        self.at - begin >= 12
    }

    /// Reads a run: its length in pixels.
    fn run(&mut self, is_black: bool) -> Option<usize> {
        let mut pixels = 0_usize;
        loop {
            let part = if is_black { maps::black::decode(self) } else { maps::white::decode(self) }?;
            pixels = pixels.checked_add(part.into())?;
            // Longer runs have a code for the multiple of 64 before the code for the rest.
            if part < 64 {
                return Some(pixels);
            }
        }
    }

    /// Decodes a line of runs; the first run is white.
    fn line(&mut self, width: usize, row: &mut [u8]) -> bool {
        let (mut x, mut is_black) = (0, false);
        while x < width {
            let Some(end) = self.run(is_black).and_then(|run| run.checked_add(x)).filter(|end| *end <= width) else {
                return false;
            };
            if is_black {
                (x..end).for_each(|x| row[x / 8] |= 0x80 >> (x % 8));
            }
            (x, is_black) = (end, !is_black);
        }
        true
    }
}

/// Decodes one-dimensional lines.
pub(super) fn runs(packed: &[u8], lines: Lines, width: usize, out: &mut [u8]) -> bool {
    let mut bits = Bits { packed, at: 0 };
    for row in out.chunks_exact_mut(width.div_ceil(8)) {
        let begins = match lines {
            Lines::Marked => bits.pass_mark(),
            Lines::OfBytes => {
                bits.at = bits.at.next_multiple_of(8);
                true
            }
        };
        if !begins || !bits.line(width, row) {
            return false;
        }
    }
    bits.at <= packed.len() * 8
}

/// Decodes two-dimensional lines. Source: ITU-T T.6.
pub(super) fn group_4(packed: &[u8], width: usize, out: &mut [u8]) -> bool {
    let Ok(columns) = u16::try_from(width) else { return false };
    let bytes = packed.iter().map(|byte| Ok::<u8, Infallible>(*byte));
    let Ok(mut decoder) = Group4Decoder::new(bytes, columns);
    for row in out.chunks_exact_mut(width.div_ceil(8)) {
        match decoder.advance() {
            Ok(DecodeStatus::Incomplete) => {}
            _ => return false,
        }
        for (x, colour) in decoder.line().pels().enumerate() {
            if colour == Color::Black {
                row[x / 8] |= 0x80 >> (x % 8);
            }
        }
    }
    true
}
