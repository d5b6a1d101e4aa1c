//! A file of rows that wait to be packed: the components of all rows, and behind them a table with their extensions and lengths.
//!
//! Only this program writes and reads such files; a finished dataset has none.
//!
//! # Bytes
//! ```text
//! 0   "SPROWS1\n"
//! 8   the components of all rows, one behind the other; an empty one takes a byte, so that all offsets differ
//! …   the table, for each row: u8 components n; n times: u8 number of the extension, u32 length
//! …   the extensions: u8 length, name
//! …   u64 number of the first row; u64 rows; u64 offset of the table; u64 offset of the extensions
//! …   u64 XXH3 of all bytes before; "SPROWS1\n"
//! ```
//! Numbers are little-endian. The hash detects a file that a power failure left incomplete.

use crate::{Error, Result, hash};

/// Extension of a file.
pub const NAME: &str = "rows";
/// First and last bytes of a file.
pub const MAGIC: [u8; 8] = *b"SPROWS1\n";
/// Length in bytes of the end of a file.
pub const END_BYTES: usize = 48;
/// Digits of row numbers in names and keys, with which names sort as numbers do.
pub const DIGITS: usize = 12;
/// Memory that is kept for the next file.
const KEPT_BYTES: usize = 128 << 20;
/// Most components of a row, and most extensions of a file.
const MOST: usize = u8::MAX as usize;
/// Length in bytes of a component in the table.
const COMPONENT_BYTES: usize = 5;

/// A file of rows in memory, while rows are added.
#[derive(Debug)]
pub struct Builder {
    /// The first bytes, and the components.
    bytes: Vec<u8>,
    table: Vec<u8>,
    extensions: Vec<Box<str>>,
    rows: u64,
    /// Start of the last row in `bytes` and in `table`.
    row: (usize, usize),
}

impl Default for Builder {
    fn default() -> Self {
        let (table, extensions) = (Vec::new(), Vec::new());
        Self { bytes: MAGIC.to_vec(), table, extensions, rows: 0, row: (MAGIC.len(), 0) }
    }
}

impl Builder {
    /// Number of complete rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Length of the file so far, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.table.len()
    }

    /// Begins a row; components of a row that was not ended are removed.
    pub fn begin(&mut self) {
        self.bytes.truncate(self.row.0);
        self.table.truncate(self.row.1);
        self.table.push(0);
    }

    /// Adds a component to the row: its extension, and its content in parts.
    ///
    /// # Errors
    /// If it is too long, or there are too many; the row cannot be ended then.
    pub fn add(&mut self, extension: &str, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let bytes = u32::try_from(bytes).map_err(|_| Error::usage(format!("{extension} of 4 GiB or more")))?;
        let number = self.extensions.iter().position(|known| **known == *extension).unwrap_or(self.extensions.len());
        let count = self.table.get_mut(self.row.1).filter(|count| usize::from(**count) < MOST && number < MOST);
        let count = count.ok_or_else(|| Error::usage("a row of more than 255 values"))?;
        if number == self.extensions.len() {
            if extension.is_empty() || extension.len() > MOST {
                return Err(Error::usage(format!("an extension of {} bytes", extension.len())));
            }
            self.extensions.push(extension.into());
        }
        *count += 1;
        self.table.push(number as u8);
        self.table.extend_from_slice(&bytes.to_le_bytes());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        if bytes == 0 {
            self.bytes.push(0);
        }
        Ok(())
    }

    /// Ends the row.
    ///
    /// # Errors
    /// If the row has no components, or 4 GiB; it is removed then.
    pub fn end(&mut self) -> Result<()> {
        let (bytes, components) = (self.bytes.len() - self.row.0, self.table.len() - self.row.1);
        // Records of shards are shorter than 4 GiB.
        let is_long = bytes > u32::MAX as usize;
        let problem = match components {
            0 | 1 => Some("a row without values"),
            _ => is_long.then_some("a row of 4 GiB or more"),
        };
        if let Some(problem) = problem {
            self.cancel();
            return Err(Error::usage(problem));
        }
        self.rows += 1;
        self.row = (self.bytes.len(), self.table.len());
        Ok(())
    }

    /// Removes the row that was begun.
    pub fn cancel(&mut self) {
        self.bytes.truncate(self.row.0);
        self.table.truncate(self.row.1);
    }

    /// Completes the file, whose first row has the number `first`, and returns its bytes.
    pub fn finish(&mut self, first: u64) -> &[u8] {
        self.cancel();
        let table = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&self.table);
        let names = self.bytes.len() as u64;
        for name in &self.extensions {
            self.bytes.push(name.len() as u8);
            self.bytes.extend_from_slice(name.as_bytes());
        }
        [first, self.rows, table, names].iter().for_each(|number| self.bytes.extend_from_slice(&number.to_le_bytes()));
        let hash = hash::block(&self.bytes);
        self.bytes.extend_from_slice(&hash.to_le_bytes());
        self.bytes.extend_from_slice(&MAGIC);
        &self.bytes
    }

    /// Begins another file in the same memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(MAGIC.len());
        // A single row may have been much longer.
        self.bytes.shrink_to(KEPT_BYTES);
        self.table.clear();
        self.extensions.clear();
        (self.rows, self.row) = (0, (MAGIC.len(), 0));
    }
}

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Number of the first row.
    pub first: u64,
    /// Number of rows.
    pub rows: u64,
    /// Offset of the table, where the components end.
    pub table: u64,
    /// Offset of the extensions, where the table ends.
    pub extensions: u64,
    /// XXH3 of all bytes before it.
    hash: u64,
}

impl End {
    /// Reads the end of a file of `total` bytes.
    ///
    /// # Errors
    /// If it is none, or its numbers do not fit the file.
    pub fn parse(end: &[u8; END_BYTES], total: u64) -> Result<Self> {
        let mut numbers = end.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let mut next = || numbers.next().unwrap_or(0);
        let found = Self { first: next(), rows: next(), table: next(), extensions: next(), hash: next() };
        let names_end = total.saturating_sub(END_BYTES as u64);
        let fits =
            MAGIC.len() as u64 <= found.table && found.table <= found.extensions && found.extensions <= names_end;
        let is_of_rows =
            found.rows <= found.extensions.saturating_sub(found.table) && found.first.checked_add(found.rows).is_some();
        let is_whole = end.ends_with(&MAGIC) && fits && is_of_rows;
        is_whole.then_some(found).ok_or_else(|| Error::data("an incomplete file of rows").at_byte(names_end))
    }

    /// Whether `bytes`, all bytes of a file, have the hash of its end.
    pub fn is_whole(bytes: &[u8]) -> bool {
        let Some((before, end)) = bytes.split_last_chunk::<END_BYTES>() else { return false };
        let hashed = before.len() + END_BYTES - 16;
        let found = Self::parse(end, bytes.len() as u64);
        found.is_ok_and(|found| bytes.get(..hashed).is_some_and(|all| hash::block(all) == found.hash))
            && bytes.starts_with(&MAGIC)
    }
}

/// The rows in a table.
#[derive(Debug)]
pub struct Table {
    table: Vec<u8>,
    extensions: Vec<Box<str>>,
    at: usize,
    rows_left: u64,
    /// Offset of the next row in the file, and of the end of the last one.
    offset: u64,
    end: u64,
}

/// A component of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    /// Number of its extension.
    pub extension: u8,
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u32,
}

impl Table {
    /// The rows of a file with this end; `bytes` are those from the table to the end.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn parse(mut bytes: Vec<u8>, end: &End) -> Result<Self> {
        let damaged = || Error::data("a damaged table of rows").at_byte(end.table);
        let table_bytes = usize::try_from(end.extensions - end.table).map_err(|_| damaged())?;
        let (_, mut names) = bytes.split_at_checked(table_bytes).ok_or_else(damaged)?;
        names = names.get(..names.len().saturating_sub(END_BYTES)).unwrap_or_default();
        let mut extensions = Vec::new();
        while let Some((length, rest)) = names.split_first() {
            let (name, rest) = rest.split_at_checked(usize::from(*length)).ok_or_else(damaged)?;
            extensions.push(str::from_utf8(name).map_err(|_| damaged())?.into());
            names = rest;
        }
        bytes.truncate(table_bytes);
        let offset = MAGIC.len() as u64;
        Ok(Self { table: bytes, extensions, at: 0, rows_left: end.rows, offset, end: end.table })
    }

    /// The extension with this number; every component of [`Table::next`] has one.
    pub fn extension(&self, number: u8) -> &str {
        self.extensions.get(usize::from(number)).map_or("", |name| name)
    }

    /// Replaces `out` with the components of the next row; false after the last one.
    ///
    /// # Errors
    /// If the table does not fit the file.
    pub fn next(&mut self, out: &mut Vec<Component>) -> Result<bool> {
        out.clear();
        let damaged = |offset| Error::data("a damaged table of rows").at_byte(offset);
        if self.rows_left == 0 {
            let is_at_end = self.at == self.table.len() && self.offset == self.end;
            return if is_at_end { Ok(false) } else { Err(damaged(self.offset)) };
        }
        let mut row = self.table.get(self.at..).unwrap_or_default();
        let count = row.split_off_first().map_or(0, |count| usize::from(*count));
        let row =
            row.get(..count * COMPONENT_BYTES).filter(|row| !row.is_empty()).ok_or_else(|| damaged(self.offset))?;
        for component in row.as_chunks::<COMPONENT_BYTES>().0 {
            let [extension, length @ ..] = *component;
            let bytes = u32::from_le_bytes(length);
            let end = self.offset + u64::from(bytes.max(1));
            if usize::from(extension) >= self.extensions.len() || end > self.end {
                return Err(damaged(self.offset));
            }
            out.push(Component { extension, offset: self.offset, bytes });
            self.offset = end;
        }
        self.at += 1 + row.len();
        self.rows_left -= 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Row = Vec<(String, Vec<u8>)>;

    fn written(rows: &[Row]) -> Vec<u8> {
        let mut file = Builder::default();
        for row in rows {
            file.begin();
            for (extension, content) in row {
                let (start, rest) = content.split_at(content.len() / 2);
                file.add(extension, &[start, rest]).unwrap();
            }
            file.end().unwrap();
        }
        file.finish(5).to_vec()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Row>> {
        let (_, end) = bytes.split_last_chunk::<END_BYTES>().ok_or_else(|| Error::data("short"))?;
        let end = End::parse(end, bytes.len() as u64)?;
        let mut table = Table::parse(bytes[end.table as usize..].to_vec(), &end)?;
        let (mut all, mut row) = (Vec::new(), Vec::new());
        while table.next(&mut row)? {
            let of = |one: &Component| {
                let content = &bytes[one.offset as usize..][..one.bytes as usize];
                (table.extension(one.extension).to_owned(), content.to_vec())
            };
            all.push(row.iter().map(of).collect());
        }
        Ok(all)
    }

    fn row(number: u8) -> Row {
        vec![("txt".to_owned(), vec![number; number.into()]), (format!("n{}.bin", number % 3), vec![7])]
    }

    #[test]
    fn rows_come_back_and_every_changed_or_missing_byte_is_detected() {
        let rows: Vec<_> = (0..5).map(row).collect();
        let bytes = written(&rows);
        assert_eq!(read(&bytes).unwrap(), rows);
        assert!(End::is_whole(&bytes));
        for cut in 0..bytes.len() {
            assert!(!End::is_whole(&bytes[..cut]), "{cut}");
            // No panic, and no rows that were not written.
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(!End::is_whole(&changed), "{at}");
                let _ = read(&changed);
            }
        }
    }

    #[test]
    fn all_components_have_different_offsets() {
        let bytes = written(&[row(0), row(0)]);
        let end = End::parse(bytes.last_chunk().unwrap(), bytes.len() as u64).unwrap();
        let mut table = Table::parse(bytes[end.table as usize..].to_vec(), &end).unwrap();
        let (mut row, mut offsets) = (Vec::new(), Vec::new());
        while table.next(&mut row).unwrap() {
            offsets.extend(row.iter().map(|one| one.offset));
        }
        assert_eq!(offsets, [8, 9, 10, 11]);
    }

    #[test]
    fn a_row_that_is_not_ended_leaves_no_trace() {
        let mut file = Builder::default();
        let mut add = |rows: &[(&str, &[u8])]| {
            file.begin();
            rows.iter().for_each(|(extension, content)| file.add(extension, &[content]).unwrap());
        };
        add(&[("a", b"lost")]);
        add(&[("a", b"kept"), ("b", b"too")]);
        file.end().unwrap();
        file.begin();
        assert!(file.end().is_err());
        file.begin();
        file.add("c", &[b"lost"]).unwrap();
        assert!(file.add(&"x".repeat(256), &[b""]).is_err());
        file.cancel();
        assert_eq!(file.rows(), 1);
        let kept = vec![("a".to_owned(), b"kept".to_vec()), ("b".to_owned(), b"too".to_vec())];
        assert_eq!(read(file.finish(5)).unwrap(), [kept]);
        file.clear();
        assert_eq!(read(file.finish(5)).unwrap(), Vec::<Row>::new());
    }

    proptest! {
        #[test]
        fn any_end_and_table_give_rows_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), rows in 0u64..9, table in 0u64..99, names in 0u64..120) {
            for number in [0, rows, table, names, 0] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&MAGIC);
            for row in read(&bytes).unwrap_or_default() {
                prop_assert!(!row.is_empty());
            }
        }
    }
}
