//! The samples of a part of an image: a plane for each channel, and the pixels that they make.
//!
//! Holds at all times: a plane has all samples of the MCUs of the part. Pixels of the part equal those of the whole image if
//! the MCUs have the neighbours that filters read ([`Head::margins`]).

use crate::{
    colour::{self, Colours},
    head::Head,
    idct::{self, Blocks},
    lanes::ZIGZAG,
    memory::reserve,
    rect::Rect,
    simd::{Block, Level},
    table::Mcus,
    upsample::{self, Filter},
};

/// Samples of one channel.
#[derive(Default)]
struct Plane {
    samples: Vec<u8>,
    /// Samples of a row.
    row: usize,
    rows: usize,
    /// The first sample's position in the whole channel.
    left: usize,
    top: usize,
    /// Size of the whole channel in samples, without the padding of its last blocks.
    width: usize,
    height: usize,
    /// Blocks in an MCU.
    across: usize,
    down: usize,
    /// Samples of a block, across and down.
    size: usize,
    steps: Option<Block>,
    /// Pixels of a sample.
    pixels_across: usize,
    pixels_down: usize,
    filter: Option<Filter>,
}

/// Samples of all channels, and memory for rows.
pub(crate) struct Planes {
    level: Level,
    planes: [Plane; 4],
    count: usize,
    mcus: Mcus,
    columns: u32,
    lines: [Vec<u8>; 4],
    sums: Vec<u16>,
    spare: Vec<u8>,
}

impl Planes {
    pub(crate) fn new(level: Level) -> Self {
        let mcus = Mcus { from: 0, to: 0, top: 0, bottom: 0 };
        let (planes, lines) = (Default::default(), Default::default());
        Self { level, planes, count: 0, mcus, columns: 1, lines, sums: Vec::new(), spare: Vec::new() }
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> usize {
        let lines = self.lines.iter().map(Vec::capacity).sum::<usize>() + self.spare.capacity();
        self.planes.iter().map(|plane| plane.samples.capacity()).sum::<usize>() + lines + 2 * self.sums.capacity()
    }

    /// Makes room for these MCUs of an image that is reduced by 1, 2, 4 or 8. `None` for more memory than there can be, and
    /// without quantisation tables.
    pub(crate) fn start(&mut self, head: &Head, mcus: &Mcus, by: u32) -> Option<()> {
        let least = 8 / by;
        let (most_across, most_down) = head.most_blocks();
        self.count = head.channels().len();
        (self.mcus, self.columns) = (*mcus, head.columns);
        let channels = head.channels().iter().zip(head.quantisers);
        for (plane, (channel, quantiser)) in self.planes.iter_mut().zip(channels) {
            let (across, down) = (u32::from(channel.across), u32::from(channel.down));
            // A reduced image has its chroma from larger blocks rather than from a filter.
            let mut size = least;
            while size < 8
                && (most_across * least).is_multiple_of(across * size * 2)
                && (most_down * least).is_multiple_of(down * size * 2)
            {
                size *= 2;
            }
            let whole = |pixels: u32, blocks: u32, most: u32| {
                u64::from(pixels * blocks * size).div_ceil(u64::from(most * 8)) as usize
            };
            let per_mcu = |mcus: u32, blocks: u32| (mcus * blocks * size) as usize;
            plane.row = per_mcu(mcus.to - mcus.from, across);
            plane.rows = per_mcu(mcus.bottom - mcus.top, down);
            (plane.left, plane.top) = (per_mcu(mcus.from, across), per_mcu(mcus.top, down));
            plane.width = whole(head.width, across, most_across);
            plane.height = whole(head.height, down, most_down);
            (plane.across, plane.down, plane.size) = (across as usize, down as usize, size as usize);
            plane.pixels_across = (most_across * least / (across * size)) as usize;
            plane.pixels_down = (most_down * least / (down * size)) as usize;
            let (pixels_across, pixels_down) = (plane.pixels_across as u32, plane.pixels_down as u32);
            plane.filter = Some(Filter::new(pixels_across, pixels_down, plane.width as u32, least == 1));
            plane.steps = Some(steps(quantiser?)?);
            let count = plane.row.checked_mul(plane.rows)?;
            reserve(&mut plane.samples, count);
            plane.samples.resize(count, 0);
        }
        Some(())
    }

    /// Whether a sample of this channel is the mean of a block: only DC values have a part in it.
    pub(crate) fn is_mean(&self, channel: usize) -> bool {
        self.planes.get(channel).is_some_and(|plane| plane.size == 1)
    }

    /// Adds the samples of MCUs that follow each other from `row` and `column` on; `blocks` are those of an MCU for each of
    /// `channels`, in order. MCUs outside the part are skipped.
    pub(crate) fn add(&mut self, channels: &[usize], row: u32, column: u32, coefficients: &[Block]) {
        let Mcus { from, to, top, bottom } = self.mcus;
        let per_mcu = channels.len().max(1);
        let mut rest = coefficients;
        let (mut row, mut column) = (row, column);
        while !rest.is_empty() {
            let here = ((self.columns - column) as usize).min(rest.len() / per_mcu).max(1);
            let (blocks, behind) = rest.split_at((here * per_mcu).min(rest.len()));
            let (first, last) = (column.max(from), (column + here as u32).min(to));
            if (top..bottom).contains(&row) && first < last {
                let blocks = &blocks[(first - column) as usize * per_mcu..];
                self.add_row(channels, (row - top) as usize, (first - from) as usize, (last - first) as usize, blocks);
            }
            (rest, row, column) = (behind, row + 1, 0);
        }
    }

    /// Adds `count` MCUs of a row of the part.
    fn add_row(&mut self, channels: &[usize], row: usize, column: usize, count: usize, coefficients: &[Block]) {
        let mut seen = [0; 4];
        for (first, &channel) in channels.iter().enumerate() {
            let plane = &mut self.planes[channel & 3];
            let number = seen[channel & 3];
            seen[channel & 3] += 1;
            let Some(steps) = &plane.steps else { continue };
            let (x, y) = (number % plane.across, number / plane.across);
            let at = (row * plane.down + y) * plane.size * plane.row + (column * plane.across + x) * plane.size;
            let blocks = Blocks {
                coefficients,
                steps,
                first,
                stride: channels.len(),
                count,
                at,
                apart: plane.across * plane.size,
                row: plane.row,
                size: plane.size,
            };
            idct::write(self.level, &blocks, &mut plane.samples);
        }
    }

    /// Writes the pixels of `part`, in reduced pixels of the whole image, row by row.
    pub(crate) fn write(&mut self, colours: Colours, part: &Rect, is_padded: bool, pixels: &mut Vec<u8>) {
        let channels = if is_padded { 4 } else { 3 };
        let (x, width) = (part.x as usize, part.width as usize);
        let count = width * part.height as usize * channels;
        reserve(pixels, count);
        pixels.resize(count, 0);
        self.spare.resize(if is_padded { 0 } else { width * 4 }, 0);
        for (number, to) in pixels.chunks_exact_mut(width * channels).enumerate() {
            let y = part.y as usize + number;
            let mut rows: colour::Rows = [&[]; 4];
            let planes = self.planes[..self.count].iter().zip(&mut self.lines);
            for (row, (plane, line)) in rows.iter_mut().zip(planes) {
                *row = plane.line(self.level, y, x, width, &mut self.sums, line);
            }
            colour::row(self.level, colours, &rows, is_padded, &mut self.spare, to);
        }
    }
}

impl Plane {
    /// `width` pixels of row `y` of the whole image, from `x` on.
    fn line<'a>(
        &'a self,
        level: Level,
        y: usize,
        x: usize,
        width: usize,
        sums: &mut Vec<u16>,
        line: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let (across, down) = (self.pixels_across, self.pixels_down);
        // The samples of these pixels, and a neighbour on both sides.
        let (first, last) = (x / across, (x + width).div_ceil(across));
        let (first, last) =
            (first.saturating_sub(1).max(self.left), (last + 1).min(self.width).min(self.left + self.row));
        let row = |y: usize| {
            let y = y.clamp(self.top, (self.top + self.rows).min(self.height) - 1) - self.top;
            &self.samples[y * self.row..][first - self.left..last - self.left]
        };
        let from = x - first * across;
        let near = row(y / down);
        // The neighbour above the upper of two pixels, or below the lower.
        let is_lower = y % 2 == 1;
        let far = || row(if is_lower { y / 2 + 1 } else { (y / 2).saturating_sub(1) });
        if self.filter == Some(Filter::None) {
            return &near[from..from + width];
        }
        line.resize(near.len() * across, 0);
        match self.filter {
            Some(Filter::Across) => upsample::across(level, near, line),
            Some(Filter::Down) => upsample::down(level, near, far(), is_lower, line),
            Some(Filter::Both) => {
                sums.resize(near.len(), 0);
                upsample::both(level, near, far(), sums, line);
            }
            _ => upsample::repeat(near, across, line),
        }
        &line[from..from + width]
    }
}

/// The steps of a quantisation table in natural order, from its segment: precision and number, then the values. `None` if the
/// table is truncated.
fn steps(table: &[u8]) -> Option<Block> {
    let (&class, values) = table.split_first()?;
    let mut steps = [0; 64];
    for (number, &position) in ZIGZAG.iter().enumerate() {
        let value = match class >> 4 {
            0 => u16::from(*values.get(number)?),
            _ => u16::from_be_bytes([*values.get(2 * number)?, *values.get(2 * number + 1)?]),
        };
        steps[usize::from(position)] = value as i16;
    }
    Some(steps)
}
