//! Decodes the codes of a JPEG one after the other: nothing else is possible without a crop table or near restart markers.
//!
//! Holds at all times: MCUs outside the part are skipped, several coefficients at a time.

use crate::{
    bits::{Bits, END, behind_marker, restart},
    head::Head,
    huffman::{Codes, LOOK, Lookup, Skip},
    lanes::{Mcu, Unit, ZIGZAG},
    memory::reserve,
    simd::Block,
    steps::Steps,
    table::Mcus,
};

/// The tables that skip a block.
pub(crate) struct Skipper {
    dc: Lookup,
    ac: Skip,
}

impl Skipper {
    pub(crate) fn new(dc: &Codes, ac: &Codes) -> Self {
        Self { dc: Lookup::new(dc), ac: Skip::new(ac) }
    }
}

/// The tables of an MCU's blocks: to decode them, and to skip them.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) mcu: &'a Mcu,
    pub(crate) steps: &'a Steps,
    /// One for each block; none if no block is skipped.
    pub(crate) skip: &'a [&'a Skipper],
}

/// Calls `done` with the blocks of each row of `mcus`; `blocks` is memory. `None` if codes are damaged, or a value is out of
/// range.
pub(crate) fn decode(
    jpeg: &[u8],
    head: &Head,
    tables: Tables,
    mcus: &Mcus,
    blocks: &mut Vec<Block>,
    mut done: impl FnMut(u32, &[Block]) -> Option<()>,
) -> Option<()> {
    let per_mcu = tables.mcu.units().len();
    let mut stream = Stream { jpeg, head, bits: Bits::new(jpeg, head.codes_at), predictors: [0; 4], number: 0 };
    for _ in 0..mcus.top {
        stream.skip(tables, head.columns)?;
    }
    for row in mcus.top..mcus.bottom {
        stream.skip(tables, mcus.from)?;
        let count = (mcus.to - mcus.from) as usize * per_mcu;
        blocks.clear();
        reserve(blocks, count);
        blocks.resize(count, [0; 64]);
        for of_mcu in blocks.chunks_exact_mut(per_mcu) {
            stream.decode(tables, of_mcu)?;
        }
        stream.check()?;
        done(row, blocks)?;
        if row + 1 < mcus.bottom {
            stream.skip(tables, head.columns - mcus.to)?;
        }
    }
    // A decoder of the whole image would meet other data before its end.
    let is_to_end = mcus.bottom == head.rows && mcus.to == head.columns;
    (!is_to_end || behind_marker(jpeg, stream.bits.position(), END).is_ok()).then_some(())
}

/// The state before an MCU.
struct Stream<'a> {
    jpeg: &'a [u8],
    head: &'a Head<'a>,
    bits: Bits<'a>,
    predictors: [i32; 4],
    number: u32,
}

impl Stream<'_> {
    /// Skips the restart marker before the next MCU, if there is one.
    #[inline(always)]
    fn start(&mut self) -> Option<()> {
        let restart_mcus = self.head.restart_mcus;
        if restart_mcus > 0 && self.number > 0 && self.number.is_multiple_of(restart_mcus) {
            self.check()?;
            let marker = restart(self.number / restart_mcus - 1);
            let at = behind_marker(self.jpeg, self.bits.position(), marker).ok()?;
            (self.bits, self.predictors) = (Bits::new(self.jpeg, at), [0; 4]);
        }
        self.number += 1;
        Some(())
    }

    fn skip(&mut self, tables: Tables, count: u32) -> Option<()> {
        for _ in 0..count {
            self.start()?;
            for (unit, skip) in tables.mcu.units().iter().zip(tables.skip) {
                let change = skip_block(&mut self.bits, skip)?;
                self.predict(unit.channel, change)?;
            }
        }
        Some(())
    }

    #[inline(always)]
    fn decode(&mut self, tables: Tables, blocks: &mut [Block]) -> Option<()> {
        self.start()?;
        for (number, (unit, block)) in tables.mcu.units().iter().zip(blocks).enumerate() {
            let change = match tables.skip.get(number) {
                Some(skip) if unit.is_mean => skip_block(&mut self.bits, skip)?,
                _ => decode_block(&mut self.bits, tables.steps, unit, block)?.into(),
            };
            block[0] = self.predict(unit.channel, change)? as i16;
        }
        Some(())
    }

    /// The next DC value of a channel; `None` if 8 bits cannot give it.
    #[inline(always)]
    fn predict(&mut self, channel: usize, change: i32) -> Option<i32> {
        let predictor = &mut self.predictors[channel & 3];
        *predictor += change;
        Some(*predictor).filter(|predictor| (-1024..1024).contains(predictor))
    }

    /// `None` if bits behind the end were taken.
    fn check(&self) -> Option<()> {
        (!self.bits.is_over()).then_some(())
    }
}

/// Skips a block; returns its DC difference.
#[inline(always)]
fn skip_block(bits: &mut Bits, skip: &Skipper) -> Option<i32> {
    bits.fill();
    let change = skip.dc.difference(bits, 15)?;
    skip.ac.block(bits).ok()?;
    Some(change)
}

/// Decodes a block; returns its DC difference.
#[inline(always)]
fn decode_block(bits: &mut Bits, steps: &Steps, unit: &Unit, block: &mut Block) -> Option<i16> {
    bits.fill();
    let step = steps.next(unit.tables, bits.buffer())?;
    bits.take(step.bits());
    let mut passed = 1;
    loop {
        bits.fill();
        // Two lookups take fewer bits than a filled buffer has; a longer step may leave too few for the second.
        for _ in 0..2 {
            let pair = steps.pair(unit.tables, bits.buffer(), || {
                bits.fill();
                bits.buffer()
            })?;
            let [first, last] = pair.passed().map(|more| passed + more);
            let ([one, two], [first_bits, all_bits]) = (pair.values(), pair.bits());
            if first >= 64 {
                // Bits behind the block belong to the next.
                bits.take(first_bits);
                return set_last(block, first, one).then_some(step.value());
            }
            bits.take(all_bits);
            block[usize::from(ZIGZAG[(first as usize - 1) & 63])] = one;
            if last >= 64 {
                return set_last(block, last, two).then_some(step.value());
            }
            block[usize::from(ZIGZAG[(last as usize - 1) & 63])] = two;
            passed = last;
            if all_bits > LOOK {
                break;
            }
        }
    }
}

/// Sets the coefficient that ends a block; false if the block has too many.
#[inline(always)]
fn set_last(block: &mut Block, passed: u32, value: i16) -> bool {
    match passed {
        64 => block[63] = value,
        65..=127 => return false,
        _ => {}
    }
    true
}
