//! Reads and writes crop tables: the packed positions of every few MCUs of a JPEG.
//!
//! Holds at all times: entries of a table lie within its JPEG, in order, with predictors that 8 bits can give.
//!
//! ```text
//! every          LEB128   MCUs from one entry of a row to the next, at least 1
//! for each row of MCUs, for its MCUs 0, every, 2 * every, …; where the JPEG has restart markers, also for the end before
//! each of them that is within the row, and then for the row's end
//!   bits         LEB128   from the entry before to this MCU's first bit, the bits of stuffed bytes counted; from the first
//!                         bit of the codes in the first entry
//!   predictor    LEB128   for each channel of the frame: the DC predictor before this MCU less that of the entry before, 0
//!                         before the first; negative ones as 2 * -value - 1, others as 2 * value
//! without restart markers, for the end of the last row the same
//! ```

use crate::head::Head;

/// The state between two MCUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Position of the next bit, from the start of the file.
    pub(crate) bit: u64,
    /// DC predictors in the order of the frame, -1024 to 1023.
    pub(crate) predictors: [i16; 4],
}

fn put(value: u64, to: &mut Vec<u8>) {
    let mut rest = value;
    while rest >= 0x80 {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

/// Parses a number of at most 35 bits from the front.
#[inline]
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Writes a table, entry by entry.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    last: Entry,
    channels: usize,
}

impl Writer {
    pub(crate) fn new(head: &Head, every: u32) -> Self {
        let mut bytes = Vec::new();
        put(every.into(), &mut bytes);
        let last = Entry { bit: head.codes_at as u64 * 8, predictors: [0; 4] };
        Self { bytes, last, channels: head.channels().len() }
    }

    /// Entries come in order.
    pub(crate) fn push(&mut self, entry: Entry) {
        put(entry.bit.saturating_sub(self.last.bit), &mut self.bytes);
        for (now, before) in entry.predictors.iter().zip(self.last.predictors).take(self.channels) {
            let change = i32::from(*now) - i32::from(before);
            put(u64::from((change << 1 ^ change >> 31) as u32), &mut self.bytes);
        }
        self.last = entry;
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The MCUs of a crop: columns `from .. to` of the rows `top .. bottom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mcus {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) top: u32,
    pub(crate) bottom: u32,
}

/// Number of MCUs between entries of a table; `None` if the table is invalid.
pub(crate) fn every(table: &[u8]) -> Option<u32> {
    u32::try_from(number(&mut &*table)?).ok().filter(|&every| every > 0)
}

/// Entries of a table for the requested MCUs.
#[derive(Default)]
pub(crate) struct States {
    /// For each row, the state before its first requested MCU, behind a restart marker if there is one; and the state
    /// behind its last requested MCU, before a marker.
    pub(crate) rows: Vec<(Entry, Entry)>,
    /// The state before each restart marker between two requested MCUs of a row, row by row.
    pub(crate) markers: Vec<Entry>,
}

/// The column of the first MCU of `row`, except column 0, with a restart marker before it; may be behind the end of
/// the row.
pub(crate) fn first_restart(head: &Head, row: u32) -> u64 {
    match u64::from(head.restart_mcus) {
        0 => u64::MAX,
        restart => restart - u64::from(row) * u64::from(head.columns) % restart,
    }
}

/// Parses a whole table, and stores the entries of `wanted` in `states`; the columns of `wanted` are multiples of
/// [`every`], or the end of the row. `None` if the table does not fit the JPEG.
pub(crate) fn read(mut table: &[u8], head: &Head, jpeg_bytes: usize, wanted: &Mcus, states: &mut States) -> Option<()> {
    let States { rows, markers } = states;
    rows.clear();
    markers.clear();
    let every = number(&mut table).filter(|&every| every > 0)?;
    let in_row = u64::from(head.columns).div_ceil(every);
    let (from, to) = (u64::from(wanted.from) / every, u64::from(wanted.to).div_ceil(every));
    let (first_column, last_column) = (u64::from(wanted.from), u64::from(wanted.to));
    let channels = head.channels().len();
    let end = jpeg_bytes as u64 * 8;
    let first = head.codes_at as u64 * 8;
    let mut entry = Entry { bit: first, predictors: [0; 4] };
    let mut next = |is_at_marker: bool| {
        let bits = number(&mut table)?;
        entry.bit += bits;
        // An MCU is never empty.
        if (bits == 0 && !is_at_marker) || entry.bit > end {
            return None;
        }
        for predictor in &mut entry.predictors[..channels] {
            let change = i32::try_from(number(&mut table)?).ok()?;
            let value = i32::from(*predictor) + (change >> 1 ^ -(change & 1));
            *predictor = i16::try_from(value).ok().filter(|value| (-1024..1024).contains(value))?;
        }
        Some(entry)
    };
    let mut start = Entry::default();
    for row in 0..head.rows {
        let is_wanted = (wanted.top..wanted.bottom).contains(&row);
        let restarts = head.restart_mcus > 0;
        let (mut marker, mut before_end) = (first_restart(head, row), None);
        let mut pass_markers = |next: &mut dyn FnMut(bool) -> Option<Entry>, column: u64| {
            while marker <= column && marker < u64::from(head.columns) {
                let entry = next(false)?;
                match marker {
                    at if !is_wanted || at <= first_column || at > last_column => {}
                    at if at == last_column => before_end = Some(entry),
                    _ => markers.push(entry),
                }
                marker += u64::from(head.restart_mcus);
            }
            Some(before_end.take())
        };
        for at in 0..in_row {
            let before_marker = if restarts { pass_markers(&mut next, at * every)? } else { None };
            let entry = next(at == 0 && (row == 0 || restarts))?;
            if (row, at) == (0, 0) && (entry.bit != first || entry.predictors != [0; 4]) {
                return None;
            }
            if at == 0 && to == in_row && !restarts && row > wanted.top && row <= wanted.bottom {
                rows.push((start, entry));
            }
            if at == from {
                start = entry;
            }
            if at == to && is_wanted {
                rows.push((start, before_marker.unwrap_or(entry)));
            }
        }
        if restarts {
            pass_markers(&mut next, u64::MAX)?;
            let entry = next(false)?;
            if to == in_row && is_wanted {
                rows.push((start, entry));
            }
        }
    }
    if head.restart_mcus == 0 {
        let entry = next(false)?;
        if to == in_row && wanted.bottom == head.rows {
            rows.push((start, entry));
        }
    }
    // The first state is known, and so is the number of rows.
    (table.is_empty() && rows.len() == (wanted.bottom - wanted.top) as usize).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grey JPEG of 24 by 16 pixels with a restart marker after every `restart` MCUs, or without (0); truncated
    /// before the codes, which begin at byte 200.
    fn grey(restart: u8) -> Vec<u8> {
        let frame = [0xFF, 0xC0, 0, 11, 8, 0, 16, 0, 24, 1, 1, 0x11, 0];
        let quantiser = [&[0xFF, 0xDB, 0, 67, 0][..], &[1; 64]].concat();
        let codes = |class: u8| {
            let mut counts = [0; 16];
            counts[1] = 1;
            [&[0xFF, 0xC4, 0, 20, class][..], &counts, &[0]].concat()
        };
        let scan = [0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0];
        let parts =
            [&[0xFF, 0xD8, 0xFF, 0xDD, 0, 4, 0, restart][..], &frame, &quantiser, &codes(0), &codes(0x10)].concat();
        let comment = 200 - parts.len() - scan.len();
        let comment = [&[0xFF, 0xFE, 0, comment as u8 - 2][..], &vec![0; comment - 4]].concat();
        [&parts[..], &comment, &scan].concat()
    }

    /// The bytes on the page with this name.
    fn vector(name: &str) -> Vec<u8> {
        let page = include_str!("../../../docs/reference/formats/crops.md");
        let vector = page.split(&format!("```{name}\n")).nth(1).unwrap().split("```").next().unwrap();
        vector.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    #[test]
    fn the_page_has_the_bytes_of_a_jpeg_with_restart_markers() {
        let jpeg = grey(2);
        let head = Head::read(&jpeg).unwrap();
        assert_eq!((head.codes_at, head.restart_mcus), (200, 2));
        let entries: [(u64, i16); 8] =
            [(1600, 0), (1640, 10), (1656, 0), (1676, 5), (1676, 5), (1696, 10), (1732, 5), (1752, 10)];
        let entries = entries.map(|(bit, predictor)| Entry { bit, predictors: [predictor, 0, 0, 0] });
        let mut writer = Writer::new(&head, 2);
        entries.iter().for_each(|entry| writer.push(*entry));
        assert_eq!(writer.finish(), vector("restarts"));

        let mut states = States::default();
        // Columns; the states of both rows, by their numbers above; the states before markers.
        type Rows = [(usize, usize); 2];
        let rows: [((u32, u32), Rows, &[usize]); 3] =
            [((0, 2), [(0, 1), (4, 6)], &[5]), ((2, 3), [(2, 3), (6, 7)], &[]), ((0, 3), [(0, 3), (4, 7)], &[1, 5])];
        for ((from, to), expected, markers) in rows {
            read(&vector("restarts"), &head, 300, &Mcus { from, to, top: 0, bottom: 2 }, &mut states).unwrap();
            assert_eq!(states.rows, expected.map(|(start, end)| (entries[start], entries[end])), "{from} to {to}");
            let expected: Vec<Entry> = markers.iter().map(|&marker| entries[marker]).collect();
            assert_eq!(states.markers, expected, "{from} to {to}");
        }
    }

    #[test]
    fn the_page_has_the_bytes() {
        let jpeg = grey(0);
        let head = Head::read(&jpeg).unwrap();
        assert_eq!((head.codes_at, head.columns, head.rows), (200, 3, 2));
        let mut writer = Writer::new(&head, 2);
        let entries = [(1600, 0), (1640, 10), (1660, 15), (1700, 25), (1720, 30)];
        let entries = entries.map(|(bit, predictor)| Entry { bit, predictors: [predictor, 0, 0, 0] });
        entries.iter().for_each(|entry| writer.push(*entry));
        let table = writer.finish();
        assert_eq!(table, vector("table"));

        let mut states = States::default();
        let mut read = |table: &[u8], from, to| {
            let found = read(table, &head, 300, &Mcus { from, to, top: 0, bottom: 2 }, &mut states);
            found.map(|()| states.rows.clone())
        };
        assert_eq!(read(&table, 0, 2).unwrap(), [(entries[0], entries[1]), (entries[2], entries[3])]);
        assert_eq!(read(&table, 2, 3).unwrap(), [(entries[1], entries[2]), (entries[3], entries[4])]);
        assert_eq!(read(&table, 0, 3).unwrap(), [(entries[0], entries[2]), (entries[2], entries[4])]);
        let rows: [(&str, usize, u8); 5] = [
            ("no distance", 0, 0),
            ("the first one is not where the codes begin", 1, 1),
            ("the first predictor is not 0", 2, 2),
            ("an MCU without bits", 3, 0),
            ("more than it has", 0, 1),
        ];
        for (name, at, value) in rows {
            let mut wrong = table.clone();
            wrong[at] = value;
            assert!(read(&wrong, 0, 2).is_none(), "{name}");
        }
    }
}
