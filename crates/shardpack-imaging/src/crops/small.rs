//! Builds a small JPEG with the MCUs of a crop: a head, then copies of the image's own codes.
//!
//! Codes hold DC values as differences to the previous MCU, and begin at any bit. So an extra MCU connects codes that
//! did not follow each other: its DC values lead from one state to the other, and invisible coefficients fill up to
//! the bit at which the copied codes begin. Extra MCUs are in a column beside the crop or in a row above it: never at
//! an edge of the image, because decoders make pixels at an edge without neighbours. Restart markers are left out: the
//! DC differences behind them, relative to 0, are written anew ([`Joints`]).
//!
//! Holds at all times: any decoder returns the crop's pixels as for the whole image, if it reads no more neighbours
//! than [`Head::margins`]; the small JPEG is at most as long as the image, a head, and 300 bytes for each of its MCUs.

use super::{
    MAX_SIDE,
    head::Head,
    huffman::Codes,
    joints::Joints,
    rect::Rect,
    table::{self, Entry, Mcus, States},
};

/// Zeros behind the JPEG: libjpeg-turbo uses its fast path while 512 more bytes are available for each block of an
/// MCU, and an MCU has at most 10 blocks.
const SLACK: usize = 512 * 10;

/// Position of the image's pixels in a small JPEG: column `x` and row `y` of the image are column `x + across` and row
/// `y + down` here; both shifts are multiples of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Small {
    /// Length of the JPEG in bytes, without the zeros behind it.
    pub(super) bytes: usize,
    pub(super) across: i64,
    pub(super) down: i64,
}

/// Position of the extra MCUs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtraMcus {
    /// A column before the crop, which begins within the image.
    Left,
    /// A column behind the crop, which ends within the image, and a row above the crop.
    Right,
    /// A row above, with unchanged rows of the image.
    Above,
}

/// Reused memory to build small JPEGs.
#[derive(Default)]
pub(super) struct Builder {
    states: States,
}

impl Builder {
    /// Writes the JPEG of `part` into `to`. `None` if the table does not fit the image, if no MCU can be left out,
    /// and in rare cases that are not worth the effort.
    pub(super) fn build(
        &mut self,
        jpeg: &[u8],
        head: &Head,
        table: &[u8],
        part: &Rect,
        to: &mut Vec<u8>,
    ) -> Option<Small> {
        let mcus = cover(head, part, table::every(table)?)?;
        let Mcus { from, to: behind, top, bottom } = mcus;
        let place = match (from > 0, behind < head.columns) {
            (true, _) => ExtraMcus::Left,
            (false, true) => ExtraMcus::Right,
            _ if top == 0 && bottom == head.rows => return None,
            _ => ExtraMcus::Above,
        };
        table::read(table, head, jpeg.len(), &mcus, &mut self.states)?;
        let first = self.states.rows.first()?.0;
        let has_row = place != ExtraMcus::Left && (first.bit % 8 > 0 || first.predictors != [0; 4]);
        let has_column = place != ExtraMcus::Above;

        let right = (behind * head.mcu_width).min(head.width);
        let width = right - from * head.mcu_width + if has_column { head.mcu_width } else { 0 };
        let height = (bottom * head.mcu_height).min(head.height) - top * head.mcu_height;
        let height = height + if has_row { head.mcu_height } else { 0 };
        if width > MAX_SIDE || height > MAX_SIDE {
            return None;
        }
        to.clear();
        let lead = Lead::new(head, to, width as u16, height as u16)?;
        let mut codes = Out { to, pending: 0, count: 0 };
        let mut joints = (head.restart_mcus > 0).then(|| Joints::new(head, jpeg, &lead, &self.states.markers));
        let mut state = [0; 4];
        if has_row {
            let columns = behind - from + u32::from(has_column);
            lead.write(&mut codes, columns, state, &first)?;
            state = first.predictors;
        }
        for (row, (start, end)) in self.states.rows.iter().enumerate() {
            if place == ExtraMcus::Left {
                lead.write(&mut codes, 1, state, start)?;
            }
            match &mut joints {
                None => codes.copy(jpeg, start.bit, end.bit)?,
                Some(joints) => {
                    let before = row.checked_sub(1).filter(|_| place == ExtraMcus::Above);
                    let before = before.and_then(|row| self.states.rows.get(row)).map(|row| &row.1);
                    joints.copy_row(&mut codes, top + row as u32, before, start, end, (from, behind))?;
                }
            }
            state = end.predictors;
            if place == ExtraMcus::Right {
                // The last row has no next state to lead to.
                let next = self.states.rows.get(row + 1).map_or(first, |next| next.0);
                lead.write(&mut codes, 1, state, &next)?;
                state = next.predictors;
            }
        }
        codes.finish();
        let bytes = to.len();
        to.resize(bytes + SLACK, 0);
        let own = |is_there: bool, side: u32| if is_there { i64::from(side) } else { 0 };
        let across = own(place == ExtraMcus::Left, head.mcu_width) - i64::from(from * head.mcu_width);
        let down = own(has_row, head.mcu_height) - i64::from(top * head.mcu_height);
        Some(Small { bytes, across, down })
    }
}

/// The MCUs with pixels of `part`, widened to the entries of a table.
fn cover(head: &Head, part: &Rect, every: u32) -> Option<Mcus> {
    if !part.is_within(head.width, head.height) {
        return None;
    }
    let from = part.x / head.mcu_width / every * every;
    let to = (part.x + part.width).div_ceil(head.mcu_width).div_ceil(every).saturating_mul(every).min(head.columns);
    let (top, bottom) = (part.y / head.mcu_height, (part.y + part.height).div_ceil(head.mcu_height));
    Some(Mcus { from, to, top, bottom })
}

/// Writes MCUs that lead from one state to another.
pub(super) struct Lead {
    /// In the order of the scan.
    pub(super) channels: Vec<LeadChannel>,
    /// For each number of bits, modulo 8: the coefficients that fill this many bits, as code with value, and its
    /// length.
    fillers: [Vec<(u32, u32)>; 8],
    /// Bits of an MCU that changes nothing.
    plain_bits: u32,
}

pub(super) struct LeadChannel {
    pub(super) number: usize,
    pub(super) blocks: usize,
    /// Code and length for each size of a difference.
    dc: [(u32, u32); 12],
    end: (u32, u32),
}

impl Lead {
    /// Writes the head of a JPEG of this size, with tables that have all codes for such MCUs.
    fn new(head: &Head, to: &mut Vec<u8>, width: u16, height: u16) -> Option<Self> {
        let mut channels = Vec::with_capacity(4);
        let mut tables: [[Option<Codes>; 4]; 2] = Default::default();
        let mut fillers = None;
        for (number, channel, dc, ac) in head.codes() {
            let (mut dc, mut ac) = (dc.clone(), ac.clone());
            // Every size of a difference; the end of a block, and one coefficient, so that there is a filler.
            if !dc.append(0..=11) || !ac.append(0..=1) {
                return None;
            }
            let (sizes, coefficients) = (dc.by_symbol(), ac.by_symbol());
            let end = coefficients[0];
            if channels.is_empty() {
                fillers = Some(make_fillers(&coefficients)?);
            }
            channels.push(LeadChannel { number, blocks: channel.blocks(), dc: *sizes.first_chunk()?, end });
            *tables[0].get_mut(usize::from(channel.dc))? = Some(dc);
            *tables[1].get_mut(usize::from(channel.ac))? = Some(ac);
        }
        let plain_bits = channels.iter().map(|one| one.blocks as u32 * (one.dc[0].1 + one.end.1)).sum();
        write_head(head, &tables, to, width, height);
        Some(Self { channels, fillers: fillers?, plain_bits })
    }

    /// Writes `count` MCUs, at least 1, that lead to `target`.
    fn write(&self, codes: &mut Out, count: u32, state: [i16; 4], target: &Entry) -> Option<()> {
        let mut changes = [(0, 0); 4];
        let mut bits = self.plain_bits.wrapping_mul(count);
        for (channel, change) in self.channels.iter().zip(&mut changes) {
            let (size, value) = sized(target.predictors[channel.number].into(), state[channel.number].into());
            *change = (size, value);
            bits = bits.wrapping_add(channel.dc.get(size as usize)?.1 + size).wrapping_sub(channel.dc[0].1);
        }
        let missing = (target.bit as u32).wrapping_sub(codes.count).wrapping_sub(bits) % 8;
        let mut filler = Some(&self.fillers[missing as usize]);
        for (channel, &(size, value)) in self.channels.iter().zip(&changes) {
            let (code, length) = channel.dc[size as usize];
            codes.put(code, length);
            codes.put(value, size);
            for &(code, length) in filler.take().into_iter().flatten() {
                codes.put(code, length);
            }
            codes.put(channel.end.0, channel.end.1);
            channel.write_plain(codes, channel.blocks - 1);
        }
        for _ in 1..count {
            for channel in &self.channels {
                channel.write_plain(codes, channel.blocks);
            }
        }
        Some(())
    }
}

/// The size category of a difference, and its bits within that category.
fn sized(value: i32, before: i32) -> (u32, u32) {
    let change = value - before;
    let size = 32 - change.unsigned_abs().leading_zeros();
    // F.1.2.1.1: a negative value is stored as the low bits of the value minus 1.
    (size, if change < 0 { change - 1 } else { change } as u32 & ((1 << size) - 1))
}

impl LeadChannel {
    /// Writes a DC value of at most 11 bits after another; `None` if the difference is too large.
    pub(super) fn write_dc(&self, codes: &mut Out, value: i32, before: i32) -> Option<()> {
        let (size, value) = sized(value, before);
        let (code, length) = *self.dc.get(size as usize)?;
        codes.put(code, length);
        codes.put(value, size);
        Some(())
    }

    /// Writes blocks that change nothing.
    fn write_plain(&self, codes: &mut Out, count: usize) {
        for _ in 0..count {
            codes.put(self.dc[0].0, self.dc[0].1);
            codes.put(self.end.0, self.end.1);
        }
    }
}

/// The shortest sequences of coefficients for each number of bits, modulo 8; `None` if a block cannot fill some
/// number.
fn make_fillers(codes: &[(u32, u32); 256]) -> Option<[Vec<(u32, u32)>; 8]> {
    // Symbols of a short run and a small value, whose bits are zeros: the shortest for each number of bits, modulo 8.
    let mut steps = [None::<(u32, u8)>; 8];
    for symbol in (0..0x80_u8).filter(|symbol| (1..=10).contains(&(symbol & 15))) {
        let (_, length) = codes[usize::from(symbol)];
        let bits = length + u32::from(symbol & 15);
        let best = &mut steps[bits as usize % 8];
        if length > 0 && best.is_none_or(|best| bits < best.0) {
            *best = Some((bits, symbol));
        }
    }
    // Shortest paths: each step from each number that is reached; eight rounds are enough for eight numbers.
    let mut paths: [Option<(u32, Vec<u8>)>; 8] = Default::default();
    paths[0] = Some((0, Vec::new()));
    for _ in 0..8 {
        for from in 0..8 {
            for &(bits, symbol) in steps.iter().flatten() {
                let Some((sum, path)) = &paths[from] else { continue };
                let sum = sum + bits;
                if paths[sum as usize % 8].as_ref().is_none_or(|best| sum < best.0) {
                    let path = path.iter().copied().chain([symbol]).collect();
                    paths[sum as usize % 8] = Some((sum, path));
                }
            }
        }
    }
    let mut fillers: [Vec<(u32, u32)>; 8] = Default::default();
    for (filler, path) in fillers.iter_mut().zip(paths) {
        let (_, path) = path?;
        // With room for the end of the block.
        if path.iter().map(|symbol| (symbol >> 4) + 1).sum::<u8>() > 62 {
            return None;
        }
        filler.extend(path.iter().map(|&symbol| {
            let ((code, length), size) = (codes[usize::from(symbol)], u32::from(symbol & 15));
            (code << size, length + size)
        }));
    }
    Some(fillers)
}

fn write_head(head: &Head, tables: &[[Option<Codes>; 4]; 2], to: &mut Vec<u8>, width: u16, height: u16) {
    let segment = |to: &mut Vec<u8>, marker: u8, length: usize| {
        to.extend([0xFF, marker]);
        // A table has at most 256 symbols.
        to.extend((length as u16 + 2).to_be_bytes());
    };
    to.extend([0xFF, 0xD8]);
    if head.is_jfif {
        segment(to, 0xE0, 14);
        to.extend(b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    }
    if let Some(adobe) = head.adobe {
        segment(to, 0xEE, adobe.len());
        to.extend(adobe);
    }
    for quantiser in head.quantisers.iter().flatten() {
        segment(to, 0xDB, quantiser.len());
        to.extend(*quantiser);
    }
    let count = head.channels().len();
    segment(to, if head.is_extended { 0xC1 } else { 0xC0 }, 6 + 3 * count);
    to.push(8);
    to.extend(height.to_be_bytes());
    to.extend(width.to_be_bytes());
    to.push(count as u8);
    for channel in head.channels() {
        to.extend([channel.id, channel.across << 4 | channel.down, channel.quantiser]);
    }
    for (class, tables) in tables.iter().enumerate() {
        for (number, codes) in tables.iter().enumerate() {
            let Some(codes) = codes else { continue };
            segment(to, 0xC4, 17 + codes.symbols().len());
            to.push((class << 4 | number) as u8);
            codes.write(to);
        }
    }
    segment(to, 0xDA, 4 + 2 * count);
    to.push(count as u8);
    for (_, channel, ..) in head.codes() {
        to.extend([channel.id, channel.dc << 4 | channel.ac]);
    }
    to.extend([0, 63, 0]);
}

/// Codes being written.
pub(super) struct Out<'a> {
    to: &'a mut Vec<u8>,
    /// The bits of the unfinished byte, in the lowest places.
    pending: u64,
    /// Number of pending bits: 0 to 7.
    count: u32,
}

impl Out<'_> {
    /// Writes the lowest `bits` of `value`, at most 32; all higher bits are 0.
    #[inline]
    fn put(&mut self, value: u32, bits: u32) {
        self.pending = self.pending << bits | u64::from(value);
        self.count += bits;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.pending >> self.count) as u8;
            self.to.push(byte);
            if byte == 0xFF {
                self.to.push(0);
            }
        }
        self.pending &= (1 << self.count) - 1;
    }

    /// Copies the codes between two bits of the file: whole bytes if source and target have the same bit offset, else
    /// with a shift of each byte.
    pub(super) fn copy(&mut self, jpeg: &[u8], from: u64, to: u64) -> Option<()> {
        let split = |bit: u64| Some((usize::try_from(bit / 8).ok()?, (bit % 8) as u32));
        let ((mut at, first), (end, last)) = (split(from)?, split(to)?);
        if first > 0 {
            let byte = *jpeg.get(at)?;
            let low = u32::from(byte) & (0xFF >> first);
            if at == end {
                self.put(low >> (8 - last), last.checked_sub(first)?);
                return Some(());
            }
            self.put(low, 8 - first);
            at += if byte == 0xFF { 2 } else { 1 };
        }
        if self.count == 0 {
            self.to.extend_from_slice(jpeg.get(at..end)?);
        } else {
            while at < end {
                let byte = *jpeg.get(at)?;
                self.put(byte.into(), 8);
                at += if byte == 0xFF { 2 } else { 1 };
            }
            if at > end {
                return None;
            }
        }
        if last > 0 {
            self.put(u32::from(*jpeg.get(end)?) >> (8 - last), last);
        }
        Some(())
    }

    /// Fills the last byte with ones, and ends the image.
    fn finish(mut self) {
        if self.count > 0 {
            self.put((1 << (8 - self.count)) - 1, 8 - self.count);
        }
        self.to.extend([0xFF, 0xD9]);
    }
}
