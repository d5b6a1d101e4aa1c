//! Parses the headers of a JPEG: size, channels, tables, and the start of the entropy-coded data.
//!
//! Holds at all times: the codes of the scan of a [`Head`] are its MCUs from left to right and top to bottom, and all
//! tables that they need are present.
//!
//! Source: ITU-T T.81, B.1.1 (markers, Table B.1), B.2.2 to B.2.4 (frame, scan, tables), A.2 (MCUs); JFIF 1.02; Adobe
//! Technical Note 5116, section 18 (the Adobe segment).

use crate::{
    MAX_SIDE,
    huffman::Codes,
    no_table::{Damage, NoTable},
};

/// One channel.
#[derive(Clone, Copy, Default)]
pub(crate) struct Channel {
    pub(crate) id: u8,
    /// Blocks of the channel in an MCU, across and down: 1, 2 or 4.
    pub(crate) across: u8,
    pub(crate) down: u8,
    /// Numbers of its tables, 0 to 3.
    pub(crate) quantiser: u8,
    pub(crate) dc: u8,
    pub(crate) ac: u8,
}

impl Channel {
    pub(crate) fn blocks(&self) -> usize {
        usize::from(self.across) * usize::from(self.down)
    }
}

/// The header of a scan.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scan {
    /// Channel numbers in the order of the scan.
    order: [usize; 4],
    count: usize,
    /// The first and the last coefficient, in the order of the file: 0 and 63, unless progressive.
    pub(crate) first: u8,
    pub(crate) last: u8,
    /// Low bits of coefficients that were missing before this scan, 0 if all were, and that are missing after it.
    pub(crate) before: u8,
    pub(crate) after: u8,
}

impl Scan {
    /// Channel numbers in the order of the scan.
    pub(crate) fn channels(&self) -> &[usize] {
        &self.order[..self.count]
    }
}

/// JPEGs to accept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Types {
    /// JPEGs that have tables: one scan, and no channel with more samples than the first.
    OfTables,
    All,
}

/// The headers of a JPEG, up to the codes of a scan.
pub(crate) struct Head<'a> {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// SOF1 and not SOF0.
    pub(crate) is_extended: bool,
    /// SOF2: the coefficients come in several scans.
    pub(crate) is_progressive: bool,
    /// In the order of the frame.
    frame: [Channel; 4],
    count: usize,
    /// Most blocks of a channel in an MCU, across and down.
    most: (u8, u8),
    pub(crate) scan: Scan,
    /// Content of each table's segment after its length: precision and number, then the values.
    tables: [Option<&'a [u8]>; 4],
    /// For each channel in the order of the frame, its table at the start of its first scan.
    pub(crate) quantisers: [Option<&'a [u8]>; 4],
    dc: [Option<Codes>; 4],
    ac: [Option<Codes>; 4],
    pub(crate) is_jfif: bool,
    /// The bytes of the Adobe segment that determine the colours, from its name on.
    pub(crate) adobe: Option<&'a [u8; 12]>,
    /// MCUs between two restart markers; 0 without restart markers. In one scan, less than all MCUs.
    pub(crate) restart_mcus: u32,
    /// Offset of the first byte of the codes.
    pub(crate) codes_at: usize,
    /// Size of an MCU in pixels.
    pub(crate) mcu_width: u32,
    pub(crate) mcu_height: u32,
    /// Size of the image in MCUs.
    pub(crate) columns: u32,
    pub(crate) rows: u32,
}

impl<'a> Head<'a> {
    /// Parses the headers of a JPEG in one scan.
    ///
    /// # Errors
    /// JPEGs of types without tables, and damaged headers.
    pub(crate) fn read(jpeg: &'a [u8]) -> Result<Self, NoTable> {
        Self::read_first(jpeg, Types::OfTables)
    }

    /// Parses the headers before the first scan; [`Head::next_scan`] parses the later headers.
    ///
    /// # Errors
    /// JPEGs of unknown types, and damaged headers.
    pub(crate) fn read_any(jpeg: &'a [u8]) -> Result<Self, NoTable> {
        Self::read_first(jpeg, Types::All)
    }

    fn read_first(jpeg: &'a [u8], types: Types) -> Result<Self, NoTable> {
        if !jpeg.starts_with(&[0xFF, 0xD8]) {
            return Err(NoTable::NotJpeg);
        }
        let mut head = Self {
            width: 0,
            height: 0,
            is_extended: false,
            is_progressive: false,
            frame: [Channel::default(); 4],
            count: 0,
            most: (1, 1),
            scan: Scan::default(),
            tables: [None; 4],
            quantisers: [None; 4],
            dc: [const { None }; 4],
            ac: [const { None }; 4],
            is_jfif: false,
            adobe: None,
            restart_mcus: 0,
            codes_at: 0,
            mcu_width: 8,
            mcu_height: 8,
            columns: 0,
            rows: 0,
        };
        if !head.read_segments(jpeg, 2, types)? {
            return Err(NoTable::Damaged { at: head.codes_at as u64, what: Damage::Header });
        }
        // At most 8,192 MCUs on each side, so the product does not overflow.
        if head.is_in_one_scan() && head.restart_mcus >= head.columns * head.rows {
            head.restart_mcus = 0;
        }
        Ok(head)
    }

    /// Parses the headers from byte `at` to the codes of the next scan; returns whether there is one.
    ///
    /// # Errors
    /// As [`Head::read_any`].
    pub(crate) fn next_scan(&mut self, jpeg: &'a [u8], at: usize) -> Result<bool, NoTable> {
        self.read_segments(jpeg, at, Types::All)
    }

    /// Whether the first scan has all coefficients of all channels.
    pub(crate) fn is_in_one_scan(&self) -> bool {
        !self.is_progressive && self.scan.count == self.count
    }

    /// Parses segments up to the codes of a scan; returns `false` at the end of the image. `codes_at` is the byte behind the
    /// last one, in both cases.
    fn read_segments(&mut self, jpeg: &'a [u8], mut at: usize, types: Types) -> Result<bool, NoTable> {
        loop {
            let rest = jpeg.get(at..).unwrap_or_default();
            let marker = rest.windows(2).position(|pair| pair[0] == 0xFF && !matches!(pair[1], 0 | 0xFF));
            // Any number of FF may stand before a marker (B.1.1.2). Every decoder skips other stray bytes, with a
            // warning.
            if marker.is_some_and(|marker| rest[..marker].iter().any(|&byte| byte != 0xFF)) {
                return Err(NoTable::Headers);
            }
            at += marker.unwrap_or(rest.len());
            let place = at as u64;
            let damaged = |what| NoTable::Damaged { at: place, what };
            let header = || damaged(Damage::Header);
            self.codes_at = at;
            if marker.is_none() {
                return Err(header());
            }
            let marker = jpeg[at + 1];
            match marker {
                0x01 | 0xD0..=0xD7 => {
                    at += 2;
                    continue;
                }
                0xD8 => return Err(NoTable::Headers),
                0xD9 => return Ok(false),
                _ => {}
            }
            let rest = &jpeg[at + 2..];
            let length = rest.first_chunk().map_or(0, |&length| usize::from(u16::from_be_bytes(length)));
            let segment = rest.get(2..length).ok_or_else(header)?;
            at += 2 + length;
            match marker {
                0xC2 if types == Types::OfTables => return Err(NoTable::Progressive),
                0xC0..=0xC2 => {
                    (self.is_extended, self.is_progressive) = (marker == 0xC1, marker == 0xC2);
                    self.read_frame(segment, types, header())?;
                }
                // The number of lines, again.
                0xDC if types == Types::All && *segment == (self.height as u16).to_be_bytes() => {}
                0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => return Err(NoTable::Coding),
                0xC4 => self.read_huffman(segment).ok_or_else(|| damaged(Damage::HuffmanTable))?,
                0xDB => self.read_quantisers(segment).ok_or_else(header)?,
                0xDD => {
                    let length = segment.try_into().map_err(|_| header())?;
                    self.restart_mcus = u32::from(u16::from_be_bytes(length));
                }
                // The segment as libjpeg detects it; libjpeg warns about other revisions.
                0xE0 if segment.len() >= 14 && segment.starts_with(b"JFIF\0") => {
                    if segment[5] != 1 {
                        return Err(NoTable::Headers);
                    }
                    self.is_jfif = true;
                }
                0xEE if segment.starts_with(b"Adobe") => {
                    let adobe = segment.first_chunk().ok_or(NoTable::Headers)?;
                    let is_new = match types {
                        Types::OfTables => self.adobe.is_some(),
                        Types::All => self.adobe.is_some_and(|before| before != adobe),
                    };
                    if is_new {
                        return Err(NoTable::Headers);
                    }
                    self.adobe = Some(adobe);
                }
                0xDA => {
                    self.read_scan(segment, types, header())?;
                    self.codes_at = at;
                    return self.find_tables(header(), damaged(Damage::HuffmanTable)).map(|()| true);
                }
                0xE0..=0xEF | 0xFE => {}
                // Markers that libjpeg refuses, and arithmetic conditioning, which it may refuse.
                _ => return Err(NoTable::Headers),
            }
        }
    }

    /// Checks that the tables of a scan are there, and remembers the quantisers of its channels.
    fn find_tables(&mut self, no_quantiser: NoTable, no_codes: NoTable) -> Result<(), NoTable> {
        for &number in &self.scan.order[..self.scan.count] {
            let table = &mut self.quantisers[number & 3];
            let in_use = self.tables[usize::from(self.frame[number & 3].quantiser) & 3];
            *table = table.or(in_use);
            if table.is_none() {
                return Err(no_quantiser);
            }
        }
        // A scan of DC bits has no codes; other progressive scans have one kind of codes.
        let (needs_dc, needs_ac) = (self.scan.first == 0 && self.scan.before == 0, self.scan.last > 0);
        let has_codes = self.scan.channels().iter().all(|&number| {
            let (dc, ac) = self.codes_of(&self.frame[number & 3]);
            (!needs_dc || dc.is_some()) && (!needs_ac || ac.is_some())
        });
        if has_codes { Ok(()) } else { Err(no_codes) }
    }

    fn read_frame(&mut self, segment: &[u8], types: Types, damaged: NoTable) -> Result<(), NoTable> {
        let Some((&[bits, h0, h1, w0, w1, count], parts)) = segment.split_first_chunk() else { return Err(damaged) };
        let (height, width, count) = (u16::from_be_bytes([h0, h1]), u16::from_be_bytes([w0, w1]), usize::from(count));
        if bits != 8 {
            return Err(NoTable::Depth);
        }
        if self.count > 0 || height == 0 || u32::from(width.max(height)) > MAX_SIDE {
            return Err(NoTable::Headers);
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(NoTable::Channels);
        }
        let (parts, excess) = parts.as_chunks::<3>();
        if width == 0 || parts.len() != count || !excess.is_empty() {
            return Err(damaged);
        }
        for (channel, &[id, factors, quantiser]) in self.frame.iter_mut().zip(parts) {
            let (across, down) = (factors >> 4, factors & 15);
            if across == 0 || down == 0 || across > 4 || down > 4 || quantiser > 3 {
                return Err(damaged);
            }
            *channel = Channel { id, across, down, quantiser, dc: 0, ac: 0 };
        }
        if count == 1 {
            // An image with one channel is not interleaved: an MCU is one block, whatever the factors are (A.2.2).
            (self.frame[0].across, self.frame[0].down) = (1, 1);
        }
        (self.width, self.height, self.count) = (width.into(), height.into(), count);
        let [first, others @ ..] = self.channels() else { return Err(damaged) };
        let is_odd = |one: &Channel| {
            let is_larger = one.across > first.across || one.down > first.down;
            one.across == 3 || one.down == 3 || (is_larger && types == Types::OfTables)
        };
        if is_odd(first) || others.iter().any(is_odd) {
            return Err(NoTable::Sampling);
        }
        if others.iter().any(|one| one.id == first.id) || has_twins(others) {
            return Err(NoTable::Headers);
        }
        let most = |blocks: fn(&Channel) -> u8| self.channels().iter().map(blocks).max().unwrap_or(1);
        self.most = (most(|channel| channel.across), most(|channel| channel.down));
        (self.mcu_width, self.mcu_height) = (8 * u32::from(self.most.0), 8 * u32::from(self.most.1));
        (self.columns, self.rows) = (self.width.div_ceil(self.mcu_width), self.height.div_ceil(self.mcu_height));
        Ok(())
    }

    fn read_huffman(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&class, rest)) = segment.split_first() {
            let tables = match class >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return None,
            };
            let (codes, rest) = Codes::read(rest)?;
            // A DC difference has at most 15 bits.
            if class >> 4 == 0 && codes.symbols().iter().any(|&symbol| symbol > 15) {
                return None;
            }
            *tables.get_mut(usize::from(class & 15))? = Some(codes);
            segment = rest;
        }
        Some(())
    }

    fn read_quantisers(&mut self, mut segment: &'a [u8]) -> Option<()> {
        while let Some(&class) = segment.first() {
            let length = match class >> 4 {
                0 => 65,
                1 => 129,
                _ => return None,
            };
            *self.tables.get_mut(usize::from(class & 15))? = Some(segment.get(..length)?);
            segment = &segment[length..];
        }
        Some(())
    }

    fn read_scan(&mut self, segment: &[u8], types: Types, damaged: NoTable) -> Result<(), NoTable> {
        let Some((&count, rest)) = segment.split_first() else { return Err(damaged) };
        let count = usize::from(count);
        if self.count == 0 || rest.len() != 2 * count + 3 || !(1..=self.count).contains(&count) {
            return Err(damaged);
        }
        if count != self.count && types == Types::OfTables {
            return Err(NoTable::SeveralScans);
        }
        let (channels, kind) = rest.split_at(2 * count);
        let &[first, last, bits] = kind else { return Err(damaged) };
        let (before, after) = (bits >> 4, bits & 15);
        if !self.is_progressive {
            // All coefficients at once; libjpeg warns about other values and decodes as if they were these.
            if kind != [0, 63, 0] {
                return Err(NoTable::Headers);
            }
        } else if !is_known(count, (first, last), (before, after)) {
            return Err(damaged);
        }
        self.scan = Scan { order: [0; 4], count, first, last, before, after };
        for (place, &[id, tables]) in channels.as_chunks::<2>().0.iter().enumerate() {
            let Some(number) = self.channels().iter().position(|channel| channel.id == id) else {
                return Err(damaged);
            };
            if self.scan.order[..place].contains(&number) || tables >> 4 > 3 || tables & 15 > 3 {
                return Err(damaged);
            }
            (self.frame[number].dc, self.frame[number].ac) = (tables >> 4, tables & 15);
            self.scan.order[place] = number;
        }
        // B.2.3: an MCU has at most 10 blocks.
        let blocks = self.scan.channels().iter().map(|&number| self.frame[number & 3].blocks()).sum::<usize>();
        if count > 1 && blocks > 10 { Err(damaged) } else { Ok(()) }
    }

    /// The channels in the order of the frame.
    pub(crate) fn channels(&self) -> &[Channel] {
        &self.frame[..self.count]
    }

    /// In the order of the scan: the channel's number, the channel, and its DC and AC tables.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (usize, &Channel, &Codes, &Codes)> {
        self.scan.channels().iter().filter_map(|&number| {
            let channel = &self.frame[number];
            let (dc, ac) = self.codes_of(channel);
            Some((number, channel, dc?, ac?))
        })
    }

    /// The DC and the AC codes of a channel of the scan.
    pub(crate) fn codes_of(&self, channel: &Channel) -> (Option<&Codes>, Option<&Codes>) {
        let dc = self.dc.get(usize::from(channel.dc)).and_then(Option::as_ref);
        (dc, self.ac.get(usize::from(channel.ac)).and_then(Option::as_ref))
    }

    /// Most blocks of a channel in an MCU, across and down.
    pub(crate) fn most_blocks(&self) -> (u32, u32) {
        (self.most.0.into(), self.most.1.into())
    }

    /// How many neighbours of a pixel, across and down, influence it through chroma upsampling, if the image is reduced by `by`.
    pub(crate) fn margins(&self, by: u32) -> (u32, u32) {
        // A filter is used if two pixels share a value; in a reduced image, they may be two of four.
        let is_filtered = |one: u8, most: u8| one * 2 == most || (by > 1 && one < most);
        let margin = |is_filtered: bool| if is_filtered { 2 } else { 0 };
        let channels = self.channels();
        let across = channels.iter().any(|channel| is_filtered(channel.across, self.most.0));
        let down = channels.iter().any(|channel| is_filtered(channel.down, self.most.1));
        (margin(across), margin(down))
    }
}

/// Whether a progressive scan may have these coefficients and bits (G.1.1.1): DC alone, or AC of one channel; all bits from
/// one on, or the next bit.
fn is_known(channels: usize, (first, last): (u8, u8), (before, after): (u8, u8)) -> bool {
    let has_coefficients = if first == 0 { last == 0 } else { channels == 1 && (first..64).contains(&last) };
    has_coefficients && after <= 13 && (before == 0 || before == after + 1)
}

fn has_twins(channels: &[Channel]) -> bool {
    (1..channels.len()).any(|at| channels[..at].iter().any(|one| one.id == channels[at].id))
}
