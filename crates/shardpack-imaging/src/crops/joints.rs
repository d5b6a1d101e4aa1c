//! Copies the codes of a row of a JPEG without its restart markers. The first MCU behind a marker has DC differences
//! to 0; they become differences to the MCU before it.
//!
//! Holds at all times: only the codes of the first DC values behind a marker change; all others are copied, with a bit
//! shift if they have moved in their bytes.

use super::{
    bits::{Bits, behind_marker, restart},
    head::Head,
    huffman::Lookup,
    small::{Lead, Out},
    table::{Entry, first_restart},
};

/// State to remove markers.
pub(super) struct Joints<'a> {
    head: &'a Head<'a>,
    jpeg: &'a [u8],
    lead: &'a Lead,
    /// One for each channel, in the order of the scan.
    readers: Vec<Reader>,
    /// The states before the next markers.
    markers: std::slice::Iter<'a, Entry>,
}

/// Reads the codes of a channel.
struct Reader {
    dc: Lookup,
    ac: Lookup,
}

impl<'a> Joints<'a> {
    /// `markers` are the markers of [`States`](super::table::States).
    pub(super) fn new(head: &'a Head<'a>, jpeg: &'a [u8], lead: &'a Lead, markers: &'a [Entry]) -> Self {
        let readers = head.codes().map(|(_, _, dc, ac)| Reader { dc: Lookup::new(dc), ac: Lookup::new(ac) });
        Self { head, jpeg, lead, readers: readers.collect(), markers: markers.iter() }
    }

    /// Copies MCUs of `row` from `start` to `end`, the states before its MCUs `columns.0` and `columns.1`. If they
    /// directly follow MCUs of the row above, `before` is the state behind those MCUs.
    pub(super) fn copy_row(
        &mut self,
        codes: &mut Out,
        row: u32,
        before: Option<&Entry>,
        start: &Entry,
        end: &Entry,
        columns: (u32, u32),
    ) -> Option<()> {
        let restart = u64::from(self.head.restart_mcus);
        let first = u64::from(row) * u64::from(self.head.columns);
        let mut from = start.bit;
        if let Some(before) = before.filter(|_| first % restart == 0) {
            from = self.join(codes, before, first)?;
        }
        let mut column = first_restart(self.head, row);
        while column < columns.1.into() {
            if column > columns.0.into() {
                let marker = *self.markers.next()?;
                codes.copy(self.jpeg, from, marker.bit)?;
                from = self.join(codes, &marker, first + column)?;
            }
            column += restart;
        }
        codes.copy(self.jpeg, from, end.bit)
    }

    /// Writes the beginning of MCU `number`, up to its last DC value relative to 0, behind a marker with the state
    /// `before`. Returns the bit after that value.
    fn join(&self, codes: &mut Out, before: &Entry, number: u64) -> Option<u64> {
        let count = u32::try_from(number / u64::from(self.head.restart_mcus)).ok()?.checked_sub(1)?;
        let at = behind_marker(self.jpeg, before.bit, restart(count)).ok()?;
        let mut bits = Bits::new(self.jpeg, at);
        let mut from = at as u64 * 8;
        for (place, (channel, reader)) in self.lead.channels.iter().zip(&self.readers).enumerate() {
            if place > 0 {
                codes.copy(self.jpeg, from, bits.position())?;
            }
            let value = reader.dc(&mut bits)?;
            channel.write_dc(codes, value, before.predictors.get(channel.number).copied()?.into())?;
            from = bits.position();
            if place + 1 == self.lead.channels.len() {
                break;
            }
            reader.pass_ac(&mut bits)?;
            for _ in 1..channel.blocks {
                reader.dc(&mut bits)?;
                reader.pass_ac(&mut bits)?;
            }
        }
        // Zeros behind the end are not codes.
        (!bits.is_over()).then_some(from)
    }
}

impl Reader {
    /// Reads a DC difference of at most 11 bits: no table of a lead has longer ones.
    fn dc(&self, bits: &mut Bits) -> Option<i32> {
        bits.fill();
        self.dc.difference(bits, 11)
    }

    /// Skips the AC coefficients of a block.
    fn pass_ac(&self, bits: &mut Bits) -> Option<()> {
        let mut at = 1;
        while at < 64 {
            bits.fill();
            let symbol = u32::from(self.ac.next(bits)?);
            let (run, size) = (symbol >> 4, symbol & 15);
            if size == 0 && run < 15 {
                return Some(());
            }
            bits.take(size);
            at += run + 1;
        }
        (at == 64).then_some(())
    }
}
