//! Decodes a JPEG that comes in several scans, progressive or with channels in scans of their own: all coefficients, because
//! the last scan may change each of them.
//!
//! Holds at all times: coefficients are complete, or an error is returned: libjpeg smooths images without their last bits, and
//! continues with a warning if scans contradict each other. Memory is bounded by the bytes of the JPEG, and time
//! by [`MOST_VISITS`].
//!
//! Source: ITU-T T.81, A.2.2 and A.2.3 (order of blocks), F.2 (sequential codes), G.1 and G.2 (progressive codes).

use crate::{
    bits::{Bits, marker_at, restart},
    head::{Channel, Head, Scan},
    huffman::Lookup,
    lanes::ZIGZAG,
    memory::reserve,
    no_table::{Damage, NoTable},
    simd::Block,
    table::Mcus,
};

/// Coefficients of a whole image.
pub(crate) struct Coefficients {
    /// Of each channel, in the order of the frame: the blocks of all MCUs, row by row.
    channels: [Vec<Block>; 4],
    /// Of each channel and coefficient, in the order of the file: the number of low bits that are missing.
    missing: [[u8; 64]; 4],
}

/// A coefficient that has not come yet.
const ALL: u8 = 255;

/// Most times that scans visit the blocks of an image: usual files have 4 to 8, and one that sends each bit of each coefficient
/// by itself has 900.
const MOST_VISITS: u64 = 100;

impl Coefficients {
    pub(crate) fn new() -> Self {
        Self { channels: Default::default(), missing: [[ALL; 64]; 4] }
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.channels.iter().map(|blocks| blocks.capacity() * size_of::<Block>()).sum()
    }

    /// Bytes that the coefficients of a JPEG take.
    pub(crate) fn needed_bytes(head: &Head) -> u64 {
        let blocks = head.channels().iter().map(|channel| channel.blocks() as u64).sum::<u64>();
        u64::from(head.columns) * u64::from(head.rows) * blocks * size_of::<Block>() as u64
    }

    /// Decodes all scans; `head` has parsed the headers before the first.
    ///
    /// # Errors
    /// Damage; [`NoTable::Scans`] if the scans lack coefficients or bits, repeat some, or are too many.
    pub(crate) fn decode<'a>(&mut self, jpeg: &'a [u8], head: &mut Head<'a>) -> Result<(), NoTable> {
        let sizes: Vec<(usize, usize)> = head.channels().iter().map(|channel| size(head, channel)).collect();
        let blocks = sizes.iter().map(|(across, down)| (across * down) as u64).sum::<u64>();
        // Each block has a DC code.
        if blocks > jpeg.len() as u64 * 8 {
            return Err(NoTable::Damaged { at: jpeg.len() as u64, what: Damage::Truncated });
        }
        self.missing = [[ALL; 64]; 4];
        for (blocks, channel) in self.channels.iter_mut().zip(head.channels()) {
            let count = head.columns as usize * head.rows as usize * channel.blocks();
            blocks.clear();
            reserve(blocks, count);
            blocks.resize(count, [0; 64]);
        }
        let mut visits = 0;
        loop {
            visits += head
                .scan
                .channels()
                .iter()
                .filter_map(|&number| sizes.get(number))
                .map(|(x, y)| (x * y) as u64)
                .sum::<u64>();
            if visits > blocks.saturating_mul(MOST_VISITS) {
                return Err(NoTable::Scans);
            }
            self.plan(&head.scan)?;
            let end = self.decode_scan(jpeg, head)?;
            if !head.next_scan(jpeg, end)? {
                break;
            }
        }
        let is_complete = self.missing[..head.channels().len()].iter().flatten().all(|&bits| bits == 0);
        if is_complete { Ok(()) } else { Err(NoTable::Scans) }
    }

    /// Checks that a scan continues the earlier scans.
    fn plan(&mut self, scan: &Scan) -> Result<(), NoTable> {
        for &number in scan.channels() {
            let missing = &mut self.missing[number & 3];
            let before = if scan.before == 0 { ALL } else { scan.before };
            if scan.first > 0 && missing[0] == ALL {
                return Err(NoTable::Scans);
            }
            for bits in &mut missing[usize::from(scan.first)..=usize::from(scan.last) & 63] {
                if *bits != before {
                    return Err(NoTable::Scans);
                }
                *bits = scan.after;
            }
        }
        Ok(())
    }

    /// Decodes the codes of a scan; returns the offset of the marker behind them.
    fn decode_scan(&mut self, jpeg: &[u8], head: &Head) -> Result<usize, NoTable> {
        let no_codes = || NoTable::Damaged { at: head.codes_at as u64, what: Damage::HuffmanTable };
        let parts = head.scan.channels().iter().map(|&number| Part::new(head, number).ok_or_else(no_codes));
        let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        // The blocks of a channel alone are not in MCUs: blocks that only fill the last MCUs are left out.
        let (columns, rows) = match &parts[..] {
            [one] => one.size,
            _ => (head.columns as usize, head.rows as usize),
        };
        let mut reader = Reader::new(jpeg, head);
        for row in 0..rows {
            for column in 0..columns {
                reader.start()?;
                for part in &parts {
                    let blocks = &mut self.channels[part.number & 3];
                    let decoded = reader.decode_mcu(part, (row, column), blocks);
                    decoded.map_err(|what| reader.damaged(what))?;
                }
            }
        }
        reader.check()?;
        Ok(marker_at(jpeg, reader.bits.position()))
    }

    /// Writes the blocks of some MCUs of a row into `blocks`, MCU by MCU, in the order of the frame.
    pub(crate) fn row(&self, head: &Head, mcus: &Mcus, row: u32, blocks: &mut Vec<Block>) {
        blocks.clear();
        for column in mcus.from..mcus.to {
            for (channel, of_channel) in head.channels().iter().zip(&self.channels) {
                let (across, down) = (usize::from(channel.across), usize::from(channel.down));
                let in_row = head.columns as usize * across;
                for y in 0..down {
                    let first = (row as usize * down + y) * in_row + column as usize * across;
                    blocks.extend_from_slice(&of_channel[first..first + across]);
                }
            }
        }
    }
}

/// A channel of a scan.
struct Part {
    number: usize,
    /// Blocks in an MCU of the scan.
    across: usize,
    down: usize,
    /// Blocks in a row, with the blocks that fill the last MCU.
    row: usize,
    /// Blocks with pixels, across and down.
    size: (usize, usize),
    dc: Option<Lookup>,
    ac: Option<Lookup>,
}

impl Part {
    fn new(head: &Head, number: usize) -> Option<Self> {
        let channel: &Channel = head.channels().get(number)?;
        let (across, down) = (u32::from(channel.across), u32::from(channel.down));
        let (dc, ac) = head.codes_of(channel);
        let is_alone = head.scan.channels().len() == 1;
        let in_mcu = |blocks: u32| if is_alone { 1 } else { blocks as usize };
        Some(Self {
            number,
            across: in_mcu(across),
            down: in_mcu(down),
            row: (head.columns * across) as usize,
            size: size(head, channel),
            dc: dc.map(Lookup::new),
            ac: ac.map(Lookup::new),
        })
    }
}

/// Blocks of a channel with pixels, across and down.
fn size(head: &Head, channel: &Channel) -> (usize, usize) {
    let (most_across, most_down) = head.most_blocks();
    let blocks = |pixels: u32, blocks: u8, most: u32| (pixels * u32::from(blocks)).div_ceil(8 * most) as usize;
    (blocks(head.width, channel.across, most_across), blocks(head.height, channel.down, most_down))
}

/// State before a block.
struct Reader<'a> {
    jpeg: &'a [u8],
    bits: Bits<'a>,
    predictors: [i32; 4],
    /// Blocks that follow without codes of their own.
    ended: u32,
    restart_mcus: u32,
    /// MCUs so far.
    number: u32,
    is_progressive: bool,
    scan: Scan,
    /// Whether a DC value was out of range, which decoders accept.
    is_out_of_range: bool,
}

impl<'a> Reader<'a> {
    fn new(jpeg: &'a [u8], head: &Head) -> Self {
        Self {
            jpeg,
            bits: Bits::new(jpeg, head.codes_at),
            predictors: [0; 4],
            ended: 0,
            restart_mcus: head.restart_mcus,
            number: 0,
            is_progressive: head.is_progressive,
            scan: head.scan,
            is_out_of_range: false,
        }
    }

    fn damaged(&self, what: Damage) -> NoTable {
        // The error may come from zeros that were read behind the end.
        let is_over = self.bits.is_over();
        if self.is_out_of_range && !is_over {
            return NoTable::Predictor;
        }
        let what = if is_over { Damage::Truncated } else { what };
        NoTable::Damaged { at: self.bits.position() / 8, what }
    }

    fn check(&self) -> Result<(), NoTable> {
        if self.bits.is_over() { Err(self.damaged(Damage::Truncated)) } else { Ok(()) }
    }

    /// Skips the restart marker before the next MCU, if there is one.
    fn start(&mut self) -> Result<(), NoTable> {
        if self.restart_mcus > 0 && self.number > 0 && self.number.is_multiple_of(self.restart_mcus) {
            self.check()?;
            let marker = [0xFF, restart(self.number / self.restart_mcus - 1)];
            let at = marker_at(self.jpeg, self.bits.position());
            if !self.jpeg.get(at..).is_some_and(|rest| rest.starts_with(&marker)) {
                return Err(NoTable::Damaged { at: at as u64, what: Damage::Restart });
            }
            (self.bits, self.predictors, self.ended) = (Bits::new(self.jpeg, at + 2), [0; 4], 0);
        }
        self.number += 1;
        Ok(())
    }

    /// Decodes the blocks of a channel in an MCU of the scan.
    fn decode_mcu(&mut self, part: &Part, (row, column): (usize, usize), blocks: &mut [Block]) -> Result<(), Damage> {
        for y in 0..part.down {
            let first = (row * part.down + y) * part.row + column * part.across;
            for block in &mut blocks[first..first + part.across] {
                self.decode(part, block)?;
            }
        }
        Ok(())
    }

    fn decode(&mut self, part: &Part, block: &mut Block) -> Result<(), Damage> {
        let Scan { first, before, after, .. } = self.scan;
        match (first, before) {
            (0, 0) => {
                block[0] = (self.dc(part)? << after) as i16;
                if self.is_progressive { Ok(()) } else { self.ac(part, block) }
            }
            (0, _) => {
                block[0] |= (self.take(1) << after) as i16;
                Ok(())
            }
            (_, 0) => self.ac(part, block),
            _ => self.refine(part, block),
        }
    }

    /// The next 1 to 16 bits.
    #[inline]
    fn take(&mut self, count: u32) -> u32 {
        self.bits.fill();
        let bits = self.bits.peek(count);
        self.bits.take(count);
        bits
    }

    fn dc(&mut self, part: &Part) -> Result<i32, Damage> {
        self.bits.fill();
        let change = part.dc.as_ref().and_then(|dc| dc.difference(&mut self.bits, 15)).ok_or(Damage::Code)?;
        let predictor = &mut self.predictors[part.number & 3];
        *predictor += change;
        // 8 bits give no others.
        let value = *predictor << self.scan.after;
        self.is_out_of_range = !(-1024..1024).contains(&value);
        if self.is_out_of_range { Err(Damage::Code) } else { Ok(*predictor) }
    }

    /// The next run of zeros and size of a value.
    #[inline]
    fn symbol(&mut self, part: &Part) -> Result<(u32, u32), Damage> {
        self.bits.fill();
        let symbol = part.ac.as_ref().and_then(|ac| ac.next(&mut self.bits)).ok_or(Damage::Code)?;
        Ok((u32::from(symbol >> 4), u32::from(symbol & 15)))
    }

    /// Sets `ended` to the number of blocks that end here, this one too.
    fn end(&mut self, run: u32) {
        // In a sequential scan, every run ends one block.
        let run = if self.is_progressive { run } else { 0 };
        self.ended = 1 << run | if run > 0 { self.take(run) } else { 0 };
    }

    /// AC coefficients that come for the first time.
    fn ac(&mut self, part: &Part, block: &mut Block) -> Result<(), Damage> {
        let Scan { first, last, after, .. } = self.scan;
        let mut at = u32::from(first.max(1));
        while self.ended == 0 && at <= u32::from(last) {
            let (run, size) = self.symbol(part)?;
            if size == 0 && run < 15 {
                self.end(run);
                break;
            }
            at += run;
            if at > u32::from(last) {
                return Err(Damage::Block);
            }
            if size > 0 {
                let bits = self.take(size) as i32;
                // A value that begins with a 0 is negative.
                let value = if bits >> (size - 1) == 0 { bits + 1 - (1 << size) } else { bits };
                block[position(at)] = (value << after) as i16;
            }
            at += 1;
        }
        self.ended = self.ended.saturating_sub(1);
        Ok(())
    }

    /// The next bit of AC coefficients, and the coefficients that begin with this bit.
    fn refine(&mut self, part: &Part, block: &mut Block) -> Result<(), Damage> {
        let Scan { first, last, after, .. } = self.scan;
        let (bit, last) = (1_i16 << after, u32::from(last));
        let mut at = u32::from(first);
        while self.ended == 0 && at <= last {
            let (run, size) = self.symbol(part)?;
            if size == 0 && run < 15 {
                self.end(run);
                break;
            }
            if size > 1 {
                return Err(Damage::Code);
            }
            let value = if size == 0 || self.take(1) == 1 { bit } else { -bit };
            at = self.refine_until(block, at, bit, run);
            if size > 0 {
                *block.get_mut(position(at)).filter(|_| at <= last).ok_or(Damage::Block)? = value;
            }
            at += 1;
        }
        if self.ended > 0 {
            self.refine_until(block, at, bit, ALL.into());
            self.ended -= 1;
        }
        Ok(())
    }

    /// Refines the coefficients from `at` on that are not 0, up to the coefficient behind `zeros` zeros, or the last one.
    /// Returns where it ended.
    fn refine_until(&mut self, block: &mut Block, at: u32, bit: i16, zeros: u32) -> u32 {
        let (mut at, mut zeros) = (at, zeros);
        while at <= u32::from(self.scan.last) {
            let value = &mut block[position(at)];
            if *value == 0 {
                if zeros == 0 {
                    break;
                }
                zeros -= 1;
            } else if self.take(1) == 1 && *value & bit == 0 {
                *value = value.wrapping_add(if *value > 0 { bit } else { -bit });
            }
            at += 1;
        }
        at
    }
}

/// Natural position of a coefficient.
fn position(at: u32) -> usize {
    usize::from(ZIGZAG[at as usize & 63])
}
