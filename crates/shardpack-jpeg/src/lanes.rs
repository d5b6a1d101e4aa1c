//! Decodes the coefficients of several segments of a JPEG at the same time, one step of each in turn.
//!
//! A processor waits for the mispredicted branch at the end of each block; here that end is no branch, and the steps of other
//! lanes fill the time that its replacement takes. A segment is a run of MCUs whose first bit is known: from a crop table, or
//! behind a restart marker.
//!
//! Holds at all times: a lane writes only its own blocks, whatever the codes are; impossible codes are found, and so is a segment
//! that does not end where it should: bits behind its end are zeros, or those of the next lane.

use std::hint::select_unpredictable;

use crate::{
    bits::has_ff,
    memory::reserve,
    simd::{Block, Level, Vector, by_level},
    steps::{AC, END, PASSING, Step, Steps},
};

/// Lanes in lockstep: the fastest number on two processors. Pairs of steps, as `stream` looks them up, are slower in lanes: other
/// lanes fill the time that a pair saves. The number of instructions of a step decides, so a word of bits is loaded once in five steps.
pub(crate) const LANES: usize = 3;

/// Zeros behind the bytes of a segment: what a step may read at the last bit.
const MARGIN: usize = 16;

/// Most bytes of the codes of MCUs with so many blocks: 64 steps of 31 bits each, every byte an FF with its 00.
pub(crate) fn longest(mcus: u32, blocks: u64) -> u64 {
    u64::from(mcus) * blocks * (64 * 31 / 8) * 2 + 2
}

/// Natural position of the last coefficient of a step, by the number of coefficients passed; an end of a block stands for its
/// last one, which is still 0. If a block has too many coefficients, the position is [`OVER`], which is behind those of all lanes.
static POSITIONS: [u32; 256] = positions();
const OVER: u32 = 1 << 31;

/// Natural order of a block's coefficients. Source: ITU-T T.81, Figure A.6.
pub(crate) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

const fn positions() -> [u32; 256] {
    let mut all = [63; 256];
    let mut passed = 1;
    while passed < END as usize {
        all[passed] = if passed <= 64 { ZIGZAG[passed - 1] as u32 } else { OVER };
        passed += 1;
    }
    all
}

/// A block of an MCU.
#[derive(Clone, Copy, Default)]
pub(crate) struct Unit {
    /// The name of its tables.
    pub(crate) tables: u32,
    pub(crate) channel: usize,
    /// Only its DC value is needed.
    pub(crate) is_mean: bool,
}

/// The name of a step's table in the lower bits, and above [`UNIT`] the number of its block in the MCU.
type State = u32;
const UNIT: u32 = 28;

/// Shift from bit 6 to the bit of [`PASSING`].
const BIT_6: u32 = PASSING.trailing_zeros() - 6;

/// The blocks of an MCU, in order.
pub(crate) struct Mcu {
    units: [Unit; 10],
    /// The state behind each block. The state within a block is that at its start, with [`AC`].
    behind: [State; 16],
    count: usize,
    /// Whether a block's table passes several codes at a time.
    passes: bool,
}

impl Mcu {
    /// `None` for no blocks, or more than 10 (ITU-T T.81, B.2.3).
    pub(crate) fn new(blocks: &[Unit]) -> Option<Self> {
        let (mut units, mut behind) = ([Unit::default(); 10], [0; 16]);
        units.get_mut(..blocks.len()).filter(|_| !blocks.is_empty())?.copy_from_slice(blocks);
        for (at, behind) in (1..).zip(&mut behind[..blocks.len()]) {
            let next = at % blocks.len();
            *behind = blocks[next].tables | (next as State) << UNIT;
        }
        Some(Self { units, behind, count: blocks.len(), passes: blocks.iter().any(|unit| unit.is_mean) })
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.units[..self.count]
    }
}

/// A run of MCUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The bits in the file, those of stuffed bytes counted.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The first MCU: its row, and its column.
    pub(crate) row: u32,
    pub(crate) column: u32,
    /// MCUs.
    pub(crate) count: u32,
    /// DC predictors before the first MCU.
    pub(crate) predictors: [i16; 4],
    /// And behind the last one, if they are known.
    pub(crate) behind: Option<[i16; 4]>,
}

/// State of a lane.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// The next bit in the bytes of all lanes, and the end of the segment's last one.
    bit: usize,
    end: usize,
    /// The block in those of all lanes, the first one, and the one behind the last.
    block: usize,
    first_block: usize,
    last_block: usize,
    state: State,
    /// Coefficients passed in the block.
    passed: u32,
    segment: Option<Segment>,
}

impl Lane {
    /// Whether the last code ends where the segment does; without a table that is the padding of the last byte.
    fn is_at_end(&self, segment: &Segment) -> bool {
        match segment.behind {
            Some(_) => self.bit == self.end,
            None => self.bit <= self.end && self.end - self.bit < 8,
        }
    }
}

/// Adds up DC values. Returns the predictors behind the segment; `None` if 8 bits cannot give a value.
fn add_up(mcu: &Mcu, segment: &Segment, blocks: &mut [Block]) -> Option<[i16; 4]> {
    let mut predictors = segment.predictors;
    for blocks in blocks.chunks_exact_mut(mcu.count) {
        for (block, unit) in blocks.iter_mut().zip(mcu.units()) {
            let predictor = &mut predictors[unit.channel & 3];
            *predictor = predictor.checked_add(block[0]).filter(|value| (-1024..1024).contains(value))?;
            block[0] = *predictor;
        }
    }
    Some(predictors)
}

/// Copies codes of a JPEG without the 00 of each FF 00, then zeros, to the front of `bytes`; the last one may be an FF whose 00
/// lies behind it. Returns their number. `None` if there is no room, or they hold a marker.
fn unstuff(mut codes: &[u8], bytes: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    let mut put = |piece: &[u8]| {
        bytes.get_mut(length..length + piece.len())?.copy_from_slice(piece);
        length += piece.len();
        Some(())
    };
    while let Some(at) = position_of_ff(codes) {
        put(&codes[..=at])?;
        codes = match codes.get(at + 1) {
            Some(0) => &codes[at + 2..],
            Some(_) => return None,
            None => &[],
        };
    }
    put(codes)?;
    bytes.get_mut(length..length + MARGIN)?.fill(0);
    Some(length)
}

fn position_of_ff(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let whole = words.iter().position(|word| has_ff(u64::from_le_bytes(*word))).unwrap_or(words.len()) * 8;
    Some(whole + bytes[whole..].iter().position(|&byte| byte == 0xFF)?)
}

/// Decodes segments, in lanes.
pub(crate) struct Lanes {
    level: Level,
    memory: Memory,
    lanes: [Lane; LANES],
}

/// What the lanes read and write: an equal part of each for each lane.
#[derive(Default)]
struct Memory {
    /// Bytes of segments without stuffed bytes, and [`MARGIN`].
    bytes: Vec<u8>,
    bytes_of_lane: usize,
    coefficients: Vec<Block>,
    blocks_of_lane: usize,
}

impl Memory {
    /// Makes room for the longest segment. `None` if one is longer than its codes can be.
    fn prepare(&mut self, mcu: &Mcu, segments: &[Segment]) -> Option<()> {
        let mut most = 0;
        for segment in segments {
            let length = segment.to.div_ceil(8).checked_sub(segment.from / 8).filter(|_| segment.from < segment.to)?;
            if length > longest(segment.count, mcu.count as u64) {
                return None;
            }
            most = most.max(length);
        }
        let largest = segments.iter().map(|segment| segment.count).max().unwrap_or(0);
        self.bytes_of_lane = usize::try_from(most).ok()?.checked_add(MARGIN)?;
        self.blocks_of_lane = (largest as usize).checked_mul(mcu.count)?;
        let lanes = segments.len().min(LANES);
        let (bytes, blocks) = (self.bytes_of_lane.checked_mul(lanes)?, self.blocks_of_lane.checked_mul(lanes)?);
        if blocks >= OVER as usize / 64 {
            return None;
        }
        reserve(&mut self.bytes, bytes);
        self.bytes.resize(bytes, 0);
        reserve(&mut self.coefficients, blocks);
        self.coefficients.resize(blocks, [0; 64]);
        Some(())
    }

    /// The state of lane `number` at the start of a segment.
    fn start(&mut self, number: usize, jpeg: &[u8], mcu: &Mcu, segment: Segment) -> Option<Lane> {
        let codes = jpeg.get(usize::try_from(segment.from / 8).ok()?..usize::try_from(segment.to.div_ceil(8)).ok()?)?;
        let first = number * self.bytes_of_lane;
        let length = unstuff(codes, self.bytes.get_mut(first..first + self.bytes_of_lane)?)?;
        let first_block = number * self.blocks_of_lane;
        let last_block = first_block + segment.count as usize * mcu.count;
        self.coefficients.get_mut(first_block..last_block)?.fill([0; 64]);
        Some(Lane {
            bit: first * 8 + (segment.from % 8) as usize,
            end: (first + length) * 8 - (8 - (segment.to % 8) as usize) % 8,
            block: first_block,
            first_block,
            last_block,
            state: mcu.units[0].tables,
            passed: 0,
            segment: Some(segment),
        })
    }
}

impl Lanes {
    pub(crate) fn new(level: Level) -> Self {
        Self { level, memory: Memory::default(), lanes: Default::default() }
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes.capacity() + self.memory.coefficients.capacity() * size_of::<Block>()
    }

    /// Decodes all segments, and calls `done` with each, its blocks with their DC values, and the predictors behind it, in any
    /// order. `None` if codes are damaged, or a segment does not end where it says.
    pub(crate) fn decode(
        &mut self,
        jpeg: &[u8],
        (mcu, steps): (&Mcu, &Steps),
        segments: &[Segment],
        mut done: impl FnMut(&Segment, &[Block], [i16; 4]) -> Option<()>,
    ) -> Option<()> {
        let Self { level, memory, lanes } = self;
        memory.prepare(mcu, segments)?;
        let mut segments = segments.iter();
        for (number, lane) in lanes.iter_mut().enumerate() {
            *lane = match segments.next() {
                Some(segment) => memory.start(number, jpeg, mcu, *segment)?,
                None => Lane::default(),
            };
        }
        let mut is_wrong = false;
        while lanes.iter().any(|lane| lane.segment.is_some()) {
            if lanes.iter().all(|lane| lane.segment.is_some()) {
                run_together(*level, lanes, memory, mcu, steps, &mut is_wrong);
            } else {
                for lane in lanes.iter_mut().filter(|lane| lane.segment.is_some()) {
                    run_alone(*level, lane, memory, mcu, steps, &mut is_wrong);
                }
            }
            if is_wrong {
                return None;
            }
            for (number, lane) in lanes.iter_mut().enumerate() {
                let Some(segment) = lane.segment.filter(|_| lane.block == lane.last_block) else { continue };
                if !lane.is_at_end(&segment) {
                    return None;
                }
                let blocks = &mut memory.coefficients[lane.first_block..lane.last_block];
                let predictors = add_up(mcu, &segment, blocks)?;
                done(&segment, blocks, predictors)?;
                *lane = match segments.next() {
                    Some(segment) => memory.start(number, jpeg, mcu, *segment)?,
                    None => Lane::default(),
                };
            }
        }
        Some(())
    }
}

by_level! {
    /// Runs all lanes until one is at its end.
    fn run_together(
        lanes: &mut [Lane; LANES], memory: &mut Memory, mcu: &Mcu, steps: &Steps, is_wrong: &mut bool,
    ) = together
}

by_level! {
    /// Runs a lane to its end.
    fn run_alone(lane: &mut Lane, memory: &mut Memory, mcu: &Mcu, steps: &Steps, is_wrong: &mut bool) = alone
}

#[inline(always)]
fn together<V: Vector>(lanes: &mut [Lane; LANES], memory: &mut Memory, mcu: &Mcu, steps: &Steps, is_wrong: &mut bool) {
    let lanes = lanes.each_mut();
    *is_wrong |= match mcu.passes {
        true => run::<LANES, true>(lanes, memory, mcu, steps).is_none(),
        false => run::<LANES, false>(lanes, memory, mcu, steps).is_none(),
    };
}

#[inline(always)]
fn alone<V: Vector>(lane: &mut Lane, memory: &mut Memory, mcu: &Mcu, steps: &Steps, is_wrong: &mut bool) {
    *is_wrong |= match mcu.passes {
        true => run::<1, true>([lane], memory, mcu, steps).is_none(),
        false => run::<1, false>([lane], memory, mcu, steps).is_none(),
    };
}

/// The word that begins `skipped` bits behind the start of a byte, and the byte in which it begins. A word has at least 56 bits,
/// highest first, then a 1. The zeros below the 1 count the skipped bits of the byte, and later the bits that are shifted out.
/// `None` behind the margin of the last lane.
#[inline(always)]
fn word(bytes: &[u8], byte: usize, skipped: u32) -> Option<(usize, u64)> {
    let byte = byte + (skipped >> 3) as usize;
    let word = bytes.get(byte..byte + 8)?.first_chunk()?;
    Some((byte, (u64::from_be_bytes(*word) | 1) << (skipped & 7)))
}

/// The first step of a word that began in `byte`, and the word behind it with its byte. A lookup found `step`, which is too long or
/// goes beyond the block.
#[cold]
#[inline(never)]
fn step_alone<const PASSES: bool>(
    bytes: &[u8],
    (byte, before): (usize, u64),
    steps: &Steps,
    (state, step): (State, Step),
) -> Option<(Step, usize, u64)> {
    let (byte, bits) = word(bytes, byte, before.trailing_zeros())?;
    let step = if PASSES { steps.alone(state, bits)? } else { steps.long(step, state, bits)? };
    let (byte, behind) = word(bytes, byte, bits.trailing_zeros() + step.bits())?;
    Some((step, byte, behind))
}

/// Steps of each lane in turn, until one is at its end; `None` if one has a wrong code. Each lane has a block left.
///
/// `PASSES` is whether a table passes several codes. The end of a block is a choice of values, never a branch: look at the machine
/// code after a change.
#[inline(always)]
fn run<const N: usize, const PASSES: bool>(
    lanes: [&mut Lane; N],
    memory: &mut Memory,
    mcu: &Mcu,
    steps: &Steps,
) -> Option<()> {
    let (bytes, coefficients) = (memory.bytes.as_slice(), memory.coefficients.as_flattened_mut());
    let (mut byte, mut first, mut end, mut words) = ([0; N], [0; N], [0; N], [0_u64; N]);
    let (mut state, mut passed) = ([0; N], [0; N]);
    for (at, lane) in lanes.iter().enumerate() {
        (byte[at], words[at]) = (lane.bit >> 3, 1 << (lane.bit & 7));
        (first[at], end[at]) = (lane.block * 64, lane.last_block * 64);
        (state[at], passed[at]) = (lane.state, lane.passed);
    }
    // A word has five lookups of 11 bits, or two of 11 bits with a value behind them.
    let steps_of_word = if PASSES { 2 } else { 5 };
    'steps: loop {
        for at in 0..N {
            (byte[at], words[at]) = word(bytes, byte[at], words[at].trailing_zeros())?;
        }
        for _ in 0..steps_of_word {
            for at in 0..N {
                let before = words[at];
                let mut step = steps.short(state[at], before);
                words[at] = before << step.bits();
                // Several codes that pass the end of a block: bit 6 of their coefficients, beside the bit of the table.
                let is_beyond = PASSES && (passed[at] + step.passed()) << BIT_6 & state[at] & PASSING != 0;
                if step.is_long() | is_beyond {
                    (step, byte[at], words[at]) =
                        step_alone::<PASSES>(bytes, (byte[at], before), steps, (state[at], step))?;
                }
                let now = passed[at] + step.passed();
                let position = POSITIONS[now as usize & 255];
                *coefficients.get_mut(first[at] + position as usize)? = step.value();
                let (is_end, unit) = (now >= 64, (state[at] >> UNIT) as usize);
                first[at] = select_unpredictable(is_end, first[at] + 64, first[at]);
                passed[at] = select_unpredictable(is_end, 0, now);
                state[at] = select_unpredictable(is_end, mcu.behind[unit], state[at] | AC);
            }
            if (0..N).any(|at| first[at] == end[at]) {
                break 'steps;
            }
        }
    }
    for (at, lane) in lanes.into_iter().enumerate() {
        (lane.bit, lane.block) = (byte[at] * 8 + words[at].trailing_zeros() as usize, first[at] / 64);
        (lane.state, lane.passed) = (state[at], passed[at]);
    }
    Some(())
}
