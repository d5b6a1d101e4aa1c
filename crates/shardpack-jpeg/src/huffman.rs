//! Huffman tables of a JPEG: their codes, and lookup tables for their symbols.
//!
//! Holds at all times: a [`Codes`] is a prefix code of at most 16 bits in which no code is all ones.
//!
//! Source: ITU-T T.81, Annex C (codes of a table), F.1.2 (meaning of symbols).

use crate::bits::Bits;

/// A table as a file defines it.
#[derive(Clone)]
pub(crate) struct Codes {
    /// Number of codes of each length, 1 to 16; none of length 0.
    counts: [u8; 17],
    symbols: [u8; 256],
    /// Number of `symbols` in use.
    length: usize,
}

impl Codes {
    /// Parses the table that begins with 16 counts; returns the rest of the bytes. `None` if the table is truncated or
    /// invalid.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (counts, rest) = bytes.split_first_chunk::<16>()?;
        let length = counts.iter().map(|&count| usize::from(count)).sum::<usize>();
        let (in_use, rest) = (rest.get(..length)?, rest.get(length..)?);
        let mut codes = Self { counts: [0; 17], symbols: [0; 256], length };
        codes.counts[1..].copy_from_slice(counts);
        codes.symbols.get_mut(..length)?.copy_from_slice(in_use);
        codes.is_prefix_code().then_some((codes, rest))
    }

    /// Whether they are a prefix code without the code of all ones.
    fn is_prefix_code(&self) -> bool {
        let used: u32 = (1..=16).map(|bits| u32::from(self.counts[bits]) << (16 - bits)).sum();
        used <= 0xFFFF
    }

    pub(crate) fn symbols(&self) -> &[u8] {
        &self.symbols[..self.length]
    }

    /// Calls `call` with each code, its length in bits, and its symbol.
    pub(crate) fn each(&self, mut call: impl FnMut(u32, u32, u8)) {
        let (mut code, mut symbols) = (0, self.symbols().iter());
        for bits in 1..=16 {
            for &symbol in symbols.by_ref().take(self.counts[bits].into()) {
                call(code, bits as u32, symbol);
                code += 1;
            }
            code <<= 1;
        }
    }
}

/// Bits that one table lookup covers.
pub(crate) const LOOK: u32 = 11;
pub(crate) const LOOKS: usize = 1 << LOOK;

/// A table for reading symbol by symbol.
pub(crate) struct Lookup {
    /// For the next [`LOOK`] bits: the code's length in the bits above the symbol; 0 if the code is longer.
    short: Box<[u16; LOOKS]>,
    /// For each length, an upper bound of its codes, aligned to 16 bits.
    below: [u32; 17],
    /// For each length, the symbol number of its first code, minus that code.
    offset: [i32; 17],
    symbols: [u8; 256],
}

impl Lookup {
    pub(crate) fn new(codes: &Codes) -> Self {
        let mut short = Box::new([0; LOOKS]);
        let (mut below, mut offset) = ([0; 17], [0; 17]);
        codes.each(|code, bits, symbol| {
            if let Some(free) = LOOK.checked_sub(bits) {
                let at = (code << free) as usize;
                short[at..at + (1 << free)].fill((bits as u16) << 8 | u16::from(symbol));
            }
        });
        let (mut code, mut number) = (0_u32, 0);
        for bits in 1..=16 {
            let count = u32::from(codes.counts[bits]);
            offset[bits] = number - code as i32;
            code += count;
            number += count as i32;
            below[bits] = code << (16 - bits);
            code <<= 1;
        }
        Self { short, below, offset, symbols: codes.symbols }
    }

    /// Reads the next symbol; `bits` holds at least 16 bits. `None` if they are no code.
    #[inline]
    pub(crate) fn next(&self, bits: &mut Bits) -> Option<u8> {
        let (symbol, length) = self.find(bits.peek(16))?;
        bits.take(length);
        Some(symbol)
    }

    /// The symbol and the length of the code that 16 bits begin with. `None` if none does.
    #[inline]
    pub(crate) fn find(&self, next: u32) -> Option<(u8, u32)> {
        let entry = self.short[(next >> (16 - LOOK)) as usize % LOOKS];
        if entry != 0 { Some((entry as u8, u32::from(entry >> 8))) } else { self.find_long(next) }
    }

    /// Reads the next DC difference of at most `most` bits; `bits` holds at least 32. `None` if it is invalid.
    #[inline]
    pub(crate) fn difference(&self, bits: &mut Bits, most: u32) -> Option<i32> {
        let size = self.next(bits).map(u32::from).filter(|&size| size <= most)?;
        if size == 0 {
            return Some(0);
        }
        let value = bits.peek(size) as i32;
        bits.take(size);
        // F.1.2.1.1: a value that begins with a 0 is negative.
        Some(if value >> (size - 1) == 0 { value + 1 - (1 << size) } else { value })
    }

    /// The symbols of AC codes at the start of [`LOOK`] bits, up to the end of a block.
    pub(crate) fn several(&self, looked: usize) -> Several {
        let mut all = Several { bits: 0, passed: 0, is_end: false };
        while all.bits < LOOK && !all.is_end {
            let entry = u32::from(self.short[(looked << all.bits) % LOOKS]);
            let (code, run, size) = (entry >> 8, entry >> 4 & 15, entry & 15);
            // The last value may end behind these bits, because it is not read; a code may not.
            if entry == 0 || all.bits + code > LOOK || all.passed + run + 1 >= BLOCK {
                break;
            }
            all.bits += code + size;
            all.is_end = size == 0 && run < 15;
            all.passed += if all.is_end { 0 } else { run + 1 };
        }
        all
    }

    #[cold]
    fn find_long(&self, next: u32) -> Option<(u8, u32)> {
        let length = (LOOK + 1..=16).find(|&length| next < self.below[length as usize])?;
        let number = (next >> (16 - length)) as i32 + self.offset[length as usize];
        Some((self.symbols.get(usize::try_from(number).ok()?).copied()?, length))
    }
}

/// Several AC symbols with their values.
pub(crate) struct Several {
    /// Bits of them all; 0 for no symbol.
    pub(crate) bits: u32,
    /// Coefficients that they pass, fewer than a block has, without the end.
    pub(crate) passed: u32,
    /// Whether the last one ends the block.
    pub(crate) is_end: bool,
}

/// A table to skip AC coefficients, several at a time.
pub(crate) struct Skip {
    /// For the next [`LOOK`] bits, the whole symbols with their values at their start, as a step.
    steps: Box<[u32; LOOKS]>,
    lookup: Lookup,
}

/// Errors in a block.
pub(crate) enum Wrong {
    Code,
    Block,
}

/// Coefficients of a block.
const BLOCK: u32 = 64;

impl Skip {
    /// A step: its bits in the lowest byte, the coefficients in the next byte, and above them whether the block ends.
    const ENDS: u32 = 1 << 16;
    /// More coefficients than a block has: the symbol must be looked up alone.
    const NONE: u32 = 255 << 8;

    pub(crate) fn new(codes: &Codes) -> Self {
        let lookup = Lookup::new(codes);
        let mut steps = Box::new([Self::NONE; LOOKS]);
        for (looked, step) in steps.iter_mut().enumerate() {
            let Several { bits, passed, is_end } = lookup.several(looked);
            // The end of the block counts as a coefficient, so that it is not read behind the last coefficient.
            if bits > 0 {
                *step = (passed + u32::from(is_end)) << 8 | bits | if is_end { Self::ENDS } else { 0 };
            }
        }
        Self { steps, lookup }
    }

    /// Skips the AC coefficients of a block.
    #[inline]
    pub(crate) fn block(&self, bits: &mut Bits) -> Result<(), Wrong> {
        let mut at = 1;
        loop {
            bits.fill();
            let step = self.steps[bits.peek(LOOK) as usize % LOOKS];
            let next = at + (step >> 8 & 0xFF);
            if next <= BLOCK {
                bits.take(step & 0xFF);
                if next == BLOCK || step & Self::ENDS != 0 {
                    return Ok(());
                }
                at = next;
                continue;
            }
            let symbol = u32::from(self.lookup.next(bits).ok_or(Wrong::Code)?);
            let (run, size) = (symbol >> 4, symbol & 15);
            if size == 0 && run < 15 {
                return Ok(());
            }
            bits.take(size);
            at += run + 1;
            if at >= BLOCK {
                return if at == BLOCK { Ok(()) } else { Err(Wrong::Block) };
            }
        }
    }
}
