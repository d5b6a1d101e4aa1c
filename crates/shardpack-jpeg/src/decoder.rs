//! Decodes a part of a JPEG, with a crop table, by its restart markers, or code by code.
//!
//! Holds at all times: pixels do not depend on the way, or on the instructions of the CPU. Damage that this decoder meets is an
//! error and never pixels; damage outside the part may not be met.

use crate::{
    NoTable, Rect, Region, RegionRequest, Way,
    bits::{END, behind_marker, restart},
    colour::Colours,
    head::Head,
    huffman::Codes,
    lanes::{Lanes, Mcu, Segment, Unit, longest},
    no_table::Damage,
    planes::Planes,
    scans::Coefficients,
    simd::{Block, Level},
    steps::Steps,
    stream::{self, Skipper},
    table::{self, Entry, Mcus, States},
};

/// Decodes parts of images one after the other, and reuses its memory. Use one decoder per thread.
pub struct Decoder {
    lanes: Lanes,
    planes: Planes,
    steps: Steps,
    blocks: Vec<Block>,
    states: States,
    segments: Vec<Segment>,
    coefficients: Coefficients,
}

/// A decoder that used more memory for one image frees it.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Most bytes that a [`Decoder`] takes for any part of a JPEG, beside the pixels that it writes. `None` for JPEGs that it refuses
/// by their headers.
pub fn needed_bytes(jpeg: &[u8]) -> Option<u64> {
    let head = Head::read_any(jpeg).ok()?;
    let (columns, rows) = (u64::from(head.columns), u64::from(head.rows));
    let blocks = head.channels().iter().map(|channel| channel.blocks() as u64).sum::<u64>();
    let samples = columns * rows * blocks * 64;
    // A lane has the blocks of a row, at most, and their codes; restart markers make more segments.
    let markers = if head.restart_mcus == 0 { 0 } else { columns * rows / u64::from(head.restart_mcus) };
    let lane = columns * blocks * size_of::<Block>() as u64 + longest(head.columns, blocks).min(jpeg.len() as u64);
    let states = (2 * rows + 2 + 2 * markers) * (size_of::<Segment>() + 2 * size_of::<Entry>()) as u64;
    let lines = u64::from(head.width) * 16;
    let coefficients = if head.is_in_one_scan() { 0 } else { Coefficients::needed_bytes(&head) };
    Some(samples + coefficients + 3 * lane + states + lines + TABLES_BYTES)
}

/// Steps, and the tables that skip blocks.
const TABLES_BYTES: u64 = 384 << 10;

impl Decoder {
    /// A decoder that uses the instructions of `level`.
    pub fn new(level: Level) -> Self {
        Self {
            lanes: Lanes::new(level),
            planes: Planes::new(level),
            steps: Steps::new(),
            blocks: Vec::new(),
            states: States::default(),
            segments: Vec::new(),
            coefficients: Coefficients::new(),
        }
    }

    /// Writes the pixels of a part of a JPEG into `pixels`, and sets its length: `[height, width, 3 or 4] uint8`, RGB. Grey
    /// becomes RGB, and so do CMYK and YCCK, with values that are inverted as Adobe writes them.
    ///
    /// A table, as made by [`scan`](crate::scan), is used if it fits these bytes, else ignored.
    ///
    /// # Errors
    /// JPEGs of unknown types; scans that leave coefficients out, or send them twice; damage; more than `most_pixels` in the whole image; a rectangle
    /// that is not within the image, and a `reduce_by` other than 1, 2, 4 and 8 ([`NoTable::Headers`]).
    pub fn region(
        &mut self,
        jpeg: &[u8],
        table: Option<&[u8]>,
        wanted: &RegionRequest,
        most_pixels: u64,
        pixels: &mut Vec<u8>,
    ) -> Result<Region, NoTable> {
        let region = self.decode(jpeg, table, wanted, most_pixels, pixels);
        if self.bytes() > MAX_KEPT_BYTES {
            *self = Self::new(self.lanes.level());
        }
        region
    }

    /// Bytes of memory in use.
    fn bytes(&self) -> usize {
        let States { rows, markers } = &self.states;
        let states = (2 * rows.capacity() + markers.capacity()) * size_of::<Entry>();
        let segments = self.segments.capacity() * size_of::<Segment>();
        let blocks = self.blocks.capacity() * size_of::<Block>() + self.coefficients.bytes();
        self.lanes.bytes() + self.planes.bytes() + blocks + states + segments
    }

    fn decode(
        &mut self,
        jpeg: &[u8],
        table: Option<&[u8]>,
        wanted: &RegionRequest,
        most_pixels: u64,
        pixels: &mut Vec<u8>,
    ) -> Result<Region, NoTable> {
        let mut head = Head::read_any(jpeg)?;
        let by = wanted.reduce_by;
        let is_fit = u64::from(head.width) * u64::from(head.height) <= most_pixels;
        if !is_fit || !matches!(by, 1 | 2 | 4 | 8) || !wanted.rect.is_within(head.width, head.height) {
            return Err(NoTable::Headers);
        }
        let size = (head.width, head.height);
        let (part, inner) = (widened(&wanted.rect, by, &head), wanted.rect.reduced(by, size));
        // The headers before the first scan decide, as in libjpeg.
        let colours = Colours::new(&head);
        let table = table.filter(|_| head.is_in_one_scan());
        let by_table = table.and_then(|table| self.by_table(jpeg, &head, table, &part, by));
        let is_whole = (wanted.rect.width, wanted.rect.height) == size;
        let way = match by_table {
            Some(()) => Way::Table,
            None if is_whole => Way::Whole,
            None => Way::Stock,
        };
        if by_table.is_none() {
            let code = NoTable::Damaged { at: head.codes_at as u64, what: Damage::Code };
            match head.is_in_one_scan() {
                true => self.without_table(jpeg, &head, &part, by).ok_or(code)?,
                false => self.by_scans(jpeg, &mut head, &part, by)?,
            }
        }
        self.planes.write(colours, &inner, wanted.padded, pixels);
        let Rect { x, y, width, height } = inner;
        Ok(Region { width, height, x, y, reduced_by: by, way })
    }

    fn by_table(&mut self, jpeg: &[u8], head: &Head, table: &[u8], part: &Rect, by: u32) -> Option<()> {
        let mcus = cover(head, part, table::every(table)?);
        table::read(table, head, jpeg.len(), &mcus, &mut self.states)?;
        segments(jpeg, head, &mcus, &self.states, &mut self.segments)?;
        // MCUs between an entry of the table and the part have codes to check, but no samples.
        self.by_segments(jpeg, head, &cover(head, part, 1), by)
    }

    /// Decodes `self.segments`.
    fn by_segments(&mut self, jpeg: &[u8], head: &Head, mcus: &Mcus, by: u32) -> Option<()> {
        self.planes.start(head, mcus, by)?;
        let mcu = mcu(head, &mut self.steps, &self.planes)?;
        let channels: Vec<usize> = mcu.units().iter().map(|unit| unit.channel).collect();
        let (planes, count) = (&mut self.planes, head.channels().len());
        self.lanes.decode(jpeg, (&mcu, &self.steps), &self.segments, |segment, blocks, predictors| {
            let is_expected = segment.behind.is_none_or(|behind| behind[..count] == predictors[..count]);
            is_expected.then(|| planes.add(&channels, segment.row, segment.column, blocks))
        })
    }

    fn without_table(&mut self, jpeg: &[u8], head: &Head, part: &Rect, by: u32) -> Option<()> {
        let mcus = cover(head, part, 1);
        // A lane keeps the coefficients of a segment.
        if (1..=head.columns).contains(&head.restart_mcus) {
            segments_of_markers(jpeg, head, &mcus, &mut self.segments)?;
            return self.by_segments(jpeg, head, &mcus, by);
        }
        self.planes.start(head, &mcus, by)?;
        let mcu = mcu(head, &mut self.steps, &self.planes)?;
        let channels: Vec<usize> = mcu.units().iter().map(|unit| unit.channel).collect();
        // Whole rows from the first on skip nothing but coefficients.
        let is_skipping = mcus.top > 0 || (mcus.from, mcus.to) != (0, head.columns);
        let is_skipping = is_skipping || mcu.units().iter().any(|unit| unit.is_mean);
        let (skippers, numbers) = if is_skipping { skippers(head, &mcu) } else { Default::default() };
        let skip: Vec<&Skipper> = numbers.iter().map(|&number| &skippers[number]).collect();
        self.steps.add_pairs();
        let planes = &mut self.planes;
        let tables = stream::Tables { mcu: &mcu, steps: &self.steps, skip: &skip };
        stream::decode(jpeg, head, tables, &mcus, &mut self.blocks, |row, blocks| {
            planes.add(&channels, row, mcus.from, blocks);
            Some(())
        })
    }

    /// Decodes all scans of a JPEG that has several.
    fn by_scans<'a>(&mut self, jpeg: &'a [u8], head: &mut Head<'a>, part: &Rect, by: u32) -> Result<(), NoTable> {
        self.coefficients.decode(jpeg, head)?;
        let mcus = cover(head, part, 1);
        self.planes.start(head, &mcus, by).ok_or(NoTable::Headers)?;
        let channels = (0..).zip(head.channels());
        let channels: Vec<usize> =
            channels.flat_map(|(number, channel)| std::iter::repeat_n(number, channel.blocks())).collect();
        for row in mcus.top..mcus.bottom {
            self.coefficients.row(head, &mcus, row, &mut self.blocks);
            self.planes.add(&channels, row, mcus.from, &self.blocks);
        }
        Ok(())
    }
}

/// The blocks of an MCU, with their tables in `steps`.
fn mcu(head: &Head, steps: &mut Steps, planes: &Planes) -> Option<Mcu> {
    steps.clear();
    let mut units = Vec::with_capacity(10);
    let mut known: Vec<([*const Codes; 2], u32)> = Vec::with_capacity(4);
    for (number, channel, dc, ac) in head.codes() {
        let codes: [*const Codes; 2] = [dc, ac];
        let mut tables = match known.iter().find(|known| known.0 == codes) {
            Some((_, tables)) => *tables,
            None => {
                let tables = steps.add(dc, ac)?;
                known.push((codes, tables));
                tables
            }
        };
        let is_mean = planes.is_mean(number);
        if is_mean {
            tables = steps.add_passing(tables);
        }
        let unit = Unit { tables, channel: number, is_mean };
        units.extend(std::iter::repeat_n(unit, channel.blocks()));
    }
    Mcu::new(&units)
}

/// The tables that skip blocks, each once, and their numbers for the blocks of an MCU.
fn skippers(head: &Head, mcu: &Mcu) -> (Vec<Skipper>, Vec<usize>) {
    let of_blocks = head.codes().flat_map(|(_, channel, dc, ac)| std::iter::repeat_n((dc, ac), channel.blocks()));
    let (mut known, mut skippers) = (Vec::new(), Vec::new());
    let number = |(unit, (dc, ac)): (&Unit, (&Codes, &Codes))| {
        known.iter().position(|of| *of == unit.tables).unwrap_or_else(|| {
            known.push(unit.tables);
            skippers.push(Skipper::new(dc, ac));
            known.len() - 1
        })
    };
    let numbers = mcu.units().iter().zip(of_blocks).map(number).collect();
    (skippers, numbers)
}

/// The segments of the MCUs of a part whose states a table has.
fn segments(jpeg: &[u8], head: &Head, mcus: &Mcus, states: &States, segments: &mut Vec<Segment>) -> Option<()> {
    segments.clear();
    let mut markers = states.markers.iter();
    for (row, (start, end)) in (mcus.top..).zip(&states.rows) {
        let (mut from, mut column) = (*start, mcus.from);
        let mut push = |from: Entry, column: u32, to: &Entry, end: u32| {
            let (predictors, behind) = (from.predictors, Some(to.predictors));
            segments.push(Segment { from: from.bit, to: to.bit, row, column, count: end - column, predictors, behind });
        };
        let mut marker = table::first_restart(head, row);
        while marker < u64::from(mcus.to) {
            if marker > u64::from(mcus.from) {
                let (before, at) = (markers.next()?, marker as u32);
                push(from, column, before, at);
                let number = u64::from(row) * u64::from(head.columns) + marker;
                (from, column) = (behind(jpeg, head, before.bit, number)?, at);
            }
            marker += u64::from(head.restart_mcus);
        }
        push(from, column, end, mcus.to);
    }
    Some(())
}

/// The state before MCU `number`, which a restart marker behind `bit` precedes.
fn behind(jpeg: &[u8], head: &Head, bit: u64, number: u64) -> Option<Entry> {
    let count = u32::try_from(number / u64::from(head.restart_mcus)).ok()?.checked_sub(1)?;
    let at = behind_marker(jpeg, bit, restart(count)).ok()?;
    Some(Entry { bit: at as u64 * 8, predictors: [0; 4] })
}

/// The segments between restart markers that have MCUs of these rows.
fn segments_of_markers(jpeg: &[u8], head: &Head, mcus: &Mcus, segments: &mut Vec<Segment>) -> Option<()> {
    segments.clear();
    let columns = u64::from(head.columns);
    let all = columns * u64::from(head.rows);
    let (first, last) = (u64::from(mcus.top) * columns, u64::from(mcus.bottom) * columns);
    let (mut at, mut number) = (head.codes_at, 0);
    segments.reserve_exact(usize::try_from((last - first) / u64::from(head.restart_mcus)).ok()?.checked_add(2)?);
    while number < last.min(all) {
        let count = u64::from(head.restart_mcus).min(all - number);
        let rest = jpeg.get(at..)?;
        let end = at + rest.windows(2).position(|pair| pair[0] == 0xFF && pair[1] != 0)?;
        if number + count > first {
            let (row, column) = ((number / columns) as u32, (number % columns) as u32);
            let (from, to) = (at as u64 * 8, end as u64 * 8);
            let (count, predictors) = (count as u32, [0; 4]);
            segments.push(Segment { from, to, row, column, count, predictors, behind: None });
        }
        number += count;
        if number < last.min(all) {
            let marker = restart(u32::try_from(number / u64::from(head.restart_mcus)).ok()?.checked_sub(1)?);
            at = behind_marker(jpeg, end as u64 * 8, marker).ok()?;
        } else if number == all {
            // A decoder of the whole image would meet other data before its end.
            behind_marker(jpeg, end as u64 * 8, END).ok()?;
        }
    }
    Some(())
}

/// The MCUs with pixels of `part`, which is within the image, widened to the entries of a table.
fn cover(head: &Head, part: &Rect, every: u32) -> Mcus {
    let from = part.x / head.mcu_width / every * every;
    let to = (part.x + part.width).div_ceil(head.mcu_width).div_ceil(every).saturating_mul(every).min(head.columns);
    let (top, bottom) = (part.y / head.mcu_height, (part.y + part.height).div_ceil(head.mcu_height));
    Mcus { from, to, top, bottom }
}

/// The pixels of the image that are needed for the pixels of `rect`, which is within the image, when it is reduced.
fn widened(rect: &Rect, by: u32, head: &Head) -> Rect {
    let size = (head.width, head.height);
    let part = rect.reduced(by, size).grown(head.margins(by), (size.0.div_ceil(by), size.1.div_ceil(by)));
    let (x, y) = (part.x * by, part.y * by);
    let (right, bottom) = (((part.x + part.width) * by).min(size.0), ((part.y + part.height) * by).min(size.1));
    Rect { x, y, width: right - x, height: bottom - y }
}
