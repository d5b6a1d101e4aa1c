//! Makes the crop table of a JPEG in one pass over all codes, without pixels.
//!
//! Holds at all times: a JPEG with a table has all its codes, and each code is in its Huffman tables. So this is also
//! a check, and it detects damage that decoders hide.

use std::num::NonZeroU16;

use crate::{
    bits::{Bits, END, behind_marker, restart},
    head::Head,
    huffman::{Codes, Lookup, Skip, Wrong},
    no_table::{Damage, NoTable},
    table::{Entry, Writer},
};

/// Reads all codes of a JPEG and returns its table, with an entry at every `every`-th MCU of each row: about 2 % of
/// the JPEG's bytes at 8, and at most eight times the JPEG's bytes at 1.
///
/// # Errors
/// The reason why there is no table, which may be damage.
pub fn scan(jpeg: &[u8], every: NonZeroU16) -> Result<Vec<u8>, NoTable> {
    let head = Head::read(jpeg)?;
    let mut tables = Writer::new(&head, every.get().into());
    let mut readers: Vec<(&Codes, &Codes, Lookup, Skip)> = Vec::with_capacity(4);
    let mut blocks = Vec::with_capacity(10);
    for (number, channel, dc, ac) in head.codes() {
        let known = readers.iter().position(|reader| std::ptr::eq(reader.0, dc) && std::ptr::eq(reader.1, ac));
        let reader = known.unwrap_or(readers.len());
        if known.is_none() {
            readers.push((dc, ac, Lookup::new(dc), Skip::new(ac)));
        }
        blocks.extend(std::iter::repeat_n((number, reader), channel.blocks()));
    }
    let blocks: Vec<Block> = blocks
        .iter()
        .filter_map(|&(channel, reader)| readers.get(reader).map(|of| Block { channel, dc: &of.2, ac: &of.3 }))
        .collect();
    let mut state = State { bits: Bits::new(jpeg, head.codes_at), predictors: [0; 4] };
    let every = u32::from(every.get());
    let mut number = 0;
    for _ in 0..head.rows {
        let mut next = 0;
        for column in 0..head.columns {
            if head.restart_mcus > 0 && number > 0 && number % head.restart_mcus == 0 {
                // The end of a row already has its entry.
                if column > 0 {
                    tables.push(state.entry());
                }
                state.restart(jpeg, number / head.restart_mcus - 1)?;
            }
            if column == next {
                next += every;
                tables.push(state.entry());
            }
            state.mcu(&blocks)?;
            number += 1;
        }
        if head.restart_mcus > 0 {
            tables.push(state.entry());
        }
    }
    if head.restart_mcus == 0 {
        tables.push(state.entry());
    }
    // If other data follows, a decoder that reads to the end warns about the whole image, but could not warn about a
    // part.
    behind_marker(jpeg, state.bits.position(), END).map_err(|at| match jpeg.get(at..) {
        None | Some([] | [0xFF]) => NoTable::Damaged { at: at as u64, what: Damage::Truncated },
        Some(_) => NoTable::End,
    })?;
    Ok(tables.finish())
}

/// One block of an MCU.
struct Block<'a> {
    channel: usize,
    dc: &'a Lookup,
    ac: &'a Skip,
}

/// Position in the codes.
struct State<'a> {
    bits: Bits<'a>,
    predictors: [i32; 4],
}

impl<'a> State<'a> {
    fn entry(&self) -> Entry {
        // The predictors are in range behind every MCU.
        Entry { bit: self.bits.position(), predictors: self.predictors.map(|value| value as i16) }
    }

    fn damaged(&self, what: Damage) -> NoTable {
        // The error may come from zeros that were read behind the end.
        let what = if self.bits.is_over() { Damage::Truncated } else { what };
        NoTable::Damaged { at: self.bits.position() / 8, what }
    }

    #[inline]
    fn mcu(&mut self, blocks: &[Block]) -> Result<(), NoTable> {
        for block in blocks {
            self.bits.fill();
            // Tables have no longer differences.
            let Some(change) = block.dc.difference(&mut self.bits, 15) else { return Err(self.damaged(Damage::Code)) };
            let predictor = &mut self.predictors[block.channel & 3];
            *predictor += change;
            if !(-1024..1024).contains(predictor) {
                return Err(match self.bits.is_over() {
                    true => self.damaged(Damage::Truncated),
                    false => NoTable::Predictor,
                });
            }
            if let Err(wrong) = block.ac.block(&mut self.bits) {
                return Err(self.damaged(match wrong {
                    Wrong::Code => Damage::Code,
                    Wrong::Block => Damage::Block,
                }));
            }
        }
        if self.bits.is_over() {
            return Err(self.damaged(Damage::Truncated));
        }
        Ok(())
    }

    /// Continues behind the restart marker with number `count`, from 0.
    fn restart(&mut self, jpeg: &'a [u8], count: u32) -> Result<(), NoTable> {
        let at = behind_marker(jpeg, self.bits.position(), restart(count)).map_err(|at| {
            let what = if at >= jpeg.len() { Damage::Truncated } else { Damage::Restart };
            NoTable::Damaged { at: at as u64, what }
        })?;
        *self = Self { bits: Bits::new(jpeg, at), predictors: [0; 4] };
        Ok(())
    }
}
