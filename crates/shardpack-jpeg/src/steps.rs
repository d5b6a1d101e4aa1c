//! Tables for decoding coefficients: one step is a code and its value.
//!
//! Holds at all times: a step has at least one bit, and moves on by at least one coefficient or ends its block.
//!
//! Source: ITU-T T.81, F.2.2.1 and F.2.2.2 (values of DC and AC codes).

use crate::huffman::{Codes, LOOK, LOOKS, Lookup, Several};

/// A step in one number: the value in the upper 16 bits, then the coefficients passed, then the number of bits, in 8 bits
/// each. If the value is too long for a lookup, the number of bits is 0, and the upper 16
/// bits have the lengths of code and value, 8 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step(u32);

/// Coefficients that the end of a block passes: more than there are, and more than a faulty run passes.
pub(crate) const END: u32 = 128;

impl Step {
    /// The code is too long for a lookup, or its bits are not a code.
    const NONE: Step = Step(0);

    fn new(value: i16, bits: u32, passed: u32) -> Self {
        Self((value as u16 as u32) << 16 | passed << 8 | bits)
    }

    /// A step whose value is too long for a lookup, by its symbol and the bits of its code; [`Self::NONE`] for a value of more than 15 bits.
    fn unread(symbol: u8, length: u32, is_dc: bool) -> Self {
        let (run, size) = run_and_size(symbol, is_dc);
        if size > 15 { Self::NONE } else { Self((length << 8 | size) << 16 | (run + 1) << 8) }
    }

    /// Whether the step is too long for a lookup, or its bits are not a code.
    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        self.0 & 0xFF == 0
    }

    #[inline(always)]
    pub(crate) fn value(self) -> i16 {
        (self.0 >> 16) as i16
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        self.0 & 0xFF
    }

    /// Coefficients up to and with this one.
    #[inline(always)]
    pub(crate) fn passed(self) -> u32 {
        self.0 >> 8 & 0xFF
    }

    /// The step that the code of `length` bits for `symbol` begins, with the bits behind the code at the top of `rest`. `None`
    /// for a DC difference of more than 15 bits.
    fn of_symbol(symbol: u8, length: u32, rest: u64, is_dc: bool) -> Option<Self> {
        let (run, size) = run_and_size(symbol, is_dc);
        match (size, is_dc) {
            (0, false) if run < 15 => Some(Self::new(0, length, END)),
            (0, _) => Some(Self::new(0, length, run + 1)),
            (1..=15, _) => Some(Self::of_value(length, size, run + 1, rest)),
            _ => None,
        }
    }

    /// The step with the value of `size` bits, 1 to 15, at the top of `rest`.
    #[inline(always)]
    fn of_value(length: u32, size: u32, passed: u32, rest: u64) -> Self {
        let value = (rest >> (64 - size)) as i32;
        // A value that begins with a 0 is negative.
        let value = if value >> (size - 1) == 0 { value + 1 - (1 << size) } else { value };
        Self::new(value as i16, length + size, passed)
    }
}

/// The zeros before a value, and the bits of the value.
fn run_and_size(symbol: u8, is_dc: bool) -> (u32, u32) {
    if is_dc { (0, symbol.into()) } else { ((symbol >> 4).into(), (symbol & 15).into()) }
}

/// One or two steps of a block in one number: their values in the upper 32 bits, the coefficients that both pass and that the first passes, and
/// the bits of both and of the first. A single step stands twice, and passes nothing the second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair(u64);

impl Pair {
    const NONE: Pair = Pair(0);

    fn single(step: Step) -> Self {
        Self::of(step, step, 0, 0)
    }

    fn of(first: Step, second: Step, passed: u32, bits: u32) -> Self {
        let values = u64::from(first.0 >> 16) << 48 | u64::from(second.0 >> 16) << 32;
        let passed = (first.passed() + passed) << 24 | first.passed() << 16;
        Self(values | u64::from(passed | (first.bits() + bits) << 8 | first.bits()))
    }

    #[inline(always)]
    pub(crate) fn values(self) -> [i16; 2] {
        [(self.0 >> 48) as i16, (self.0 >> 32) as i16]
    }

    /// Coefficients up to and with the first value, and the last.
    #[inline(always)]
    pub(crate) fn passed(self) -> [u32; 2] {
        [self.0 as u32 >> 16 & 0xFF, self.0 as u32 >> 24]
    }

    /// Bits of the first step, and of both.
    #[inline(always)]
    pub(crate) fn bits(self) -> [u32; 2] {
        [self.0 as u32 & 0xFF, self.0 as u32 >> 8 & 0xFF]
    }
}

/// Tables of an image: DC and AC for each of four channels.
const TABLES: usize = 8;

/// Bit of a name: the table for AC codes.
pub(crate) const AC: u32 = (TABLES / 2 * LOOKS) as u32;

/// Bit of a name: the copy of the tables whose steps for AC codes pass several coefficients, without values.
pub(crate) const PASSING: u32 = (TABLES * LOOKS) as u32;

/// The steps of all Huffman tables of an image: for each channel, or several channels with the same codes, a table for DC codes and
/// one for AC codes. The place of the first step for DC codes is the name of both.
pub(crate) struct Steps {
    short: Box<[Step; 2 * TABLES * LOOKS]>,
    /// For AC codes.
    pairs: Box<[Pair; AC as usize]>,
    /// For DC codes, and for AC codes.
    lookups: Vec<[Lookup; 2]>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        let (short, pairs) = (Box::new([Step::NONE; 2 * TABLES * LOOKS]), Box::new([Pair::NONE; AC as usize]));
        Self { short, pairs, lookups: Vec::with_capacity(TABLES / 2) }
    }

    pub(crate) fn clear(&mut self) {
        self.lookups.clear();
    }

    /// Adds tables for DC and AC codes; `None` if there are too many.
    pub(crate) fn add(&mut self, dc: &Codes, ac: &Codes) -> Option<u32> {
        let name = self.lookups.len() * LOOKS;
        if self.lookups.len() == TABLES / 2 {
            return None;
        }
        for (codes, first, is_dc) in [(dc, name, true), (ac, name + AC as usize, false)] {
            Self::fill(codes, is_dc, &mut self.short[first..first + LOOKS]);
        }
        self.lookups.push([Lookup::new(dc), Lookup::new(ac)]);
        Some(name as u32)
    }

    /// Fills a table with the steps of these codes.
    fn fill(codes: &Codes, is_dc: bool, short: &mut [Step]) {
        short.fill(Step::NONE);
        codes.each(|code, length, symbol| {
            let (_, size) = run_and_size(symbol, is_dc);
            let Some(behind) = LOOK.checked_sub(length) else { return };
            let at = (code as usize) << behind;
            let Some(free) = behind.checked_sub(size) else {
                return short[at..at + (1 << behind)].fill(Step::unread(symbol, length, is_dc));
            };
            for value in 0..1_u64 << size {
                let rest = if size == 0 { 0 } else { value << (64 - size) };
                let Some(step) = Step::of_symbol(symbol, length, rest, is_dc) else { return };
                let at = at | (value as usize) << free;
                short[at..at + (1 << free)].fill(step);
            }
        });
    }

    /// Makes a copy of tables that passes the coefficients of AC codes without values: a step is as many codes as a lookup has. It
    /// may go beyond a block, which [`Self::alone`] never does. Returns the name of the copy.
    pub(crate) fn add_passing(&mut self, tables: u32) -> u32 {
        let Some([_, lookup]) = self.lookups.get(tables as usize / LOOKS) else { return tables };
        let (dc, first) = (tables as usize, tables | PASSING);
        self.short.copy_within(dc..dc + LOOKS, first as usize);
        let ac = (first | AC) as usize;
        for (looked, step) in self.short[ac..ac + LOOKS].iter_mut().enumerate() {
            let Several { bits, passed, is_end } = lookup.several(looked);
            *step = Step::new(0, bits, passed + if is_end { END } else { 0 });
        }
        first
    }

    /// Makes the pairs of all tables for AC codes, for [`Self::pair`].
    pub(crate) fn add_pairs(&mut self) {
        for number in 0..self.lookups.len() {
            let (tables, ac) = (number * LOOKS, number * LOOKS + AC as usize);
            Self::pair_up(&self.short[ac..ac + LOOKS], &mut self.pairs[tables..tables + LOOKS]);
        }
    }

    fn pair_up(short: &[Step], pairs: &mut [Pair]) {
        for (looked, pair) in pairs.iter_mut().enumerate() {
            let one = short[looked];
            let next = short[(looked << one.bits()) % LOOKS];
            let has_next = !next.is_long() && one.passed() < END && one.bits() + next.bits() <= LOOK;
            *pair = match (one.is_long(), has_next) {
                (true, _) => Pair::NONE,
                (false, true) => Pair::of(one, next, next.passed(), next.bits()),
                (false, false) => Pair::single(one),
            };
        }
    }

    /// The steps for AC codes of `tables` that these bits begin with; `None` if no code begins so. At least [`LOOK`] bits are valid,
    /// and `fill` gives 31.
    #[inline(always)]
    pub(crate) fn pair(&self, tables: u32, bits: u64, fill: impl FnOnce() -> u64) -> Option<Pair> {
        let pair = self.pairs[(tables as usize + (bits >> (64 - LOOK)) as usize) % AC as usize];
        if pair != Pair::NONE { Some(pair) } else { self.alone(tables | AC, fill()).map(Pair::single) }
    }

    /// The step of `table` that these bits, highest first, begin with; [`Step::is_long`] if it is longer than a lookup, or no code
    /// begins so. Bits of `table` above all tables are ignored.
    #[inline(always)]
    pub(crate) fn short(&self, table: u32, bits: u64) -> Step {
        self.short[(table as usize + (bits >> (64 - LOOK)) as usize) % (2 * TABLES * LOOKS)]
    }

    /// The step of `table`, or of the table whose coefficients it passes; `None` if no code begins so. At least 31 bits are valid.
    #[cold]
    #[inline(never)]
    pub(crate) fn alone(&self, table: u32, bits: u64) -> Option<Step> {
        self.next(table % PASSING, bits)
    }

    /// As `short`, for any step; `None` if no code begins so. At least 31 bits are valid.
    #[inline(always)]
    pub(crate) fn next(&self, table: u32, bits: u64) -> Option<Step> {
        let step = self.short(table, bits);
        if step.is_long() { self.long(step, table, bits) } else { Some(step) }
    }

    /// The step that a lookup of `table` found to be too long; `None` if no code begins so. At least 31 bits are valid.
    #[inline(always)]
    pub(crate) fn long(&self, Step(step): Step, table: u32, bits: u64) -> Option<Step> {
        if step == 0 {
            return self.find(table, bits);
        }
        let (length, size) = (step >> 24, step >> 16 & 0xFF);
        // Others are not made.
        (1..=15).contains(&size).then(|| Step::of_value(length, size, step >> 8 & 0xFF, bits << length))
    }

    #[cold]
    #[inline(never)]
    fn find(&self, table: u32, bits: u64) -> Option<Step> {
        let is_dc = table & AC == 0;
        let [dc, ac] = self.lookups.get((table % AC) as usize / LOOKS)?;
        let (symbol, length) = if is_dc { dc } else { ac }.find((bits >> 48) as u32)?;
        Step::of_symbol(symbol, length, bits << length, is_dc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with codes of 1, 2, 3, … bits for these symbols.
    fn codes(symbols: &[u8]) -> Codes {
        let mut bytes = [0; 16];
        bytes[..symbols.len()].fill(1);
        Codes::read(&[&bytes, symbols].concat()).unwrap().0
    }

    #[test]
    fn a_step_is_a_code_with_its_value() {
        let ac = codes(&[0x02, 0x00, 0xF0, 0x35, 0x1F, 0x0A]);
        let rows = [
            ("two bits: 3", false, 0b0_11_u64, 3, Some((3, 3, 1))),
            ("two bits: -3", false, 0b0_00, 3, Some((-3, 3, 1))),
            ("the end of the block", false, 0b10, 2, Some((0, 2, END))),
            ("16 zeros", false, 0b110, 3, Some((0, 3, 16))),
            ("three zeros, then 5 bits", false, 0b1110_10000, 9, Some((16, 9, 4))),
            ("one zero, then 15 bits", false, 0b11110_000000000000000, 20, Some((-32767, 20, 2))),
            ("10 bits behind 6", false, 0b111110_1111111111, 16, Some((1023, 16, 1))),
            ("no code", false, 0b1111111, 7, None),
            ("a DC difference of 2 bits", true, 0b0_01, 3, Some((-2, 3, 1))),
            ("none", true, 0b10, 2, Some((0, 2, 1))),
            ("one of 53 bits", true, 0b1110, 4, None),
        ];
        for (name, is_dc, bits, count, expected) in rows {
            let mut steps = Steps::new();
            steps.add(&codes(&[0]), &codes(&[0])).unwrap();
            let table = match is_dc {
                true => steps.add(&ac, &codes(&[0])).unwrap(),
                false => steps.add(&codes(&[0]), &ac).unwrap() | AC,
            };
            let found = steps.next(table, bits << (64 - count));
            assert_eq!(found.map(|step| (step.value(), step.bits(), step.passed())), expected, "{name}");
        }
    }

    #[test]
    fn a_pair_is_two_steps_or_one() {
        let mut steps = Steps::new();
        let tables = steps.add(&codes(&[0]), &codes(&[0x02, 0x00, 0xF0, 0x35, 0x1F, 0x0A])).unwrap();
        steps.add_pairs();
        let table = tables | AC;
        // Each looked up value, and bits behind it.
        for looked in 0..1_u64 << (LOOK + 5) {
            let bits = looked << (64 - LOOK - 5);
            let pair = steps.pair(tables, bits, || bits);
            let first = steps.next(table, bits);
            assert_eq!(pair.is_some(), first.is_some(), "{looked:b}");
            let (Some(pair), Some(first)) = (pair, first) else { continue };
            let next = steps.short(table, bits << first.bits());
            let has_next = first.passed() < END && !next.is_long() && first.bits() + next.bits() <= LOOK;
            let (value, bits, passed) = match has_next {
                true => (next.value(), first.bits() + next.bits(), first.passed() + next.passed()),
                false => (first.value(), first.bits(), first.passed()),
            };
            assert_eq!(pair.values(), [first.value(), value], "{looked:b}");
            assert_eq!((pair.bits(), pair.passed()), ([first.bits(), bits], [first.passed(), passed]), "{looked:b}");
        }
    }

    #[test]
    fn a_passing_step_is_all_codes_that_a_lookup_has() {
        let mut steps = Steps::new();
        let symbols = [0x02, 0x00, 0xF0, 0x35, 0x1F, 0x0A];
        let table = steps.add(&codes(&[0]), &codes(&symbols)).unwrap() | AC;
        let passing = steps.add_passing(table - AC) | AC;
        let (mut several, mut ends) = (0, 0);
        for looked in 0..1_u64 << LOOK {
            // Values do not matter, so they may end behind the lookup.
            let bits = looked << (64 - LOOK);
            let step = steps.short(passing, bits);
            assert_eq!(steps.alone(passing, bits), steps.next(table, bits), "{looked:b}");
            let (mut read, mut passed, mut count) = (0, 0, 0);
            while let Some(one) = steps.next(table, bits << read).filter(|_| read < LOOK && passed < END) {
                // Code number n has n + 1 bits.
                let symbol = (bits << read).leading_ones();
                if read + symbol + 1 > LOOK || passed + one.passed() % END >= 64 {
                    break;
                }
                (read, passed, count) = (read + one.bits(), passed + one.passed(), count + 1);
            }
            assert_eq!((step.bits(), step.passed(), step.value()), (read, passed, 0), "{looked:b}");
            assert_eq!(step.is_long(), count == 0, "{looked:b}");
            several += u32::from(count > 1);
            ends += u32::from(passed > END);
        }
        assert!(several > 1000 && ends > 100, "{several} {ends}");
    }
}
