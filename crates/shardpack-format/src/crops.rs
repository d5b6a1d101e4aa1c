//! The crop tables of a shard's images, in a file beside its index: for each sample its table, or the reason why it is missing.
//!
//! Opening costs the same for any size, as with an index: lengths are checked once, and each block's checksum when the
//! block is first touched. A table is returned only for the content hash of the image that it was made from.
//! `docs/reference/formats/crops.md` specifies the bytes; the crate that makes the tables defines their content.
//!
//! ```text
//! 0    magic "shardcrp" | u32 version | u32 every | u64 rows N | u64 bytes of tables T
//! 32   32 bytes: BLAKE3 of the shard file
//! 64   32 bytes: id of the dataset
//! 96   u64 XXH3-64 of bytes 0..96
//! 104  N rows of 24 bytes: u64 tag | u64 end | u8 reason | 7 zeros
//!      tables: T bytes, in the order of the rows, with nothing between
//!      checksums: u64 XXH3-64 of each 65,536 bytes of rows and tables, the last shorter
//! ```
//! The tag is the lower half of the sample's content hash. The end is that of the row's table, from the start of the tables;
//! it begins where the one before ends. The reason is 0 where there is a table. All little-endian.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Error, Result,
    hash::{self, FileHash},
};

/// First bytes of the file.
pub const MAGIC: &[u8; 8] = b"shardcrp";
/// Version of the format.
pub const VERSION: u32 = 1;
/// The file's extension, where the index has `index`.
pub const EXTENSION: &str = "crops";
/// Length in bytes of the data that one checksum covers.
pub const BLOCK_BYTES: usize = 64 * 1024;

const HEADER_BYTES: usize = 104;
const ROW_BYTES: usize = 24;
/// Help for a file that is damaged or belongs to another shard.
pub const HELP: &str = "`shardpack crops --force DST` makes the tables anew";

/// Identifies the shard and dataset that the tables of a file belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// MCUs from one entry of a table to the next, at least 1.
    pub every: u32,
    /// BLAKE3 of the shard file.
    pub shard_blake3: FileHash,
    /// Id of the dataset.
    pub dataset: FileHash,
}

/// The table of a sample, or the number of the reason why it has none, which is not 0.
pub type Table<T> = std::result::Result<T, u8>;

fn tag(content_hash: u128) -> u64 {
    content_hash as u64
}

/// The bytes of a file with `rows` in shard order: of each its content hash and its table.
pub fn write<T: AsRef<[u8]>>(summary: &Summary, rows: &[(u128, Table<T>)]) -> Vec<u8> {
    let bytes_of = |row: &(u128, Table<T>)| row.1.as_ref().map_or(0, |table| table.as_ref().len());
    let tables: usize = rows.iter().map(bytes_of).sum();
    let body = rows.len() * ROW_BYTES + tables;
    let mut out = Vec::with_capacity(HEADER_BYTES + body + body.div_ceil(BLOCK_BYTES) * 8);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&summary.every.to_le_bytes());
    out.extend_from_slice(&(rows.len() as u64).to_le_bytes());
    out.extend_from_slice(&(tables as u64).to_le_bytes());
    out.extend_from_slice(&summary.shard_blake3);
    out.extend_from_slice(&summary.dataset);
    let checksum = hash::block(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    let mut end = 0;
    for row in rows {
        end += bytes_of(row) as u64;
        out.extend_from_slice(&tag(row.0).to_le_bytes());
        out.extend_from_slice(&end.to_le_bytes());
        let reason = row.1.as_ref().err().copied().unwrap_or(0);
        out.extend_from_slice(&[reason, 0, 0, 0, 0, 0, 0, 0]);
    }
    for (_, table) in rows {
        out.extend_from_slice(table.as_ref().map_or(&[], AsRef::as_ref));
    }
    let body_end = out.len();
    for start in (HEADER_BYTES..body_end).step_by(BLOCK_BYTES) {
        let checksum = hash::block(&out[start..body_end.min(start + BLOCK_BYTES)]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }
    out
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A file of tables that has been opened: whole in memory or in a mapping.
#[derive(Debug)]
pub struct Crops<B> {
    bytes: B,
    summary: Summary,
    rows: u64,
    tables_start: usize,
    tables_end: usize,
    /// One bit a block: its checksum has been found right.
    checked: Box<[AtomicU64]>,
}

impl<B: AsRef<[u8]>> Crops<B> {
    /// Opens a file; only its header is read.
    ///
    /// # Errors
    /// When it is another kind of file, the lengths in it do not add up to the length of `bytes`, or the header's checksum
    /// differs.
    pub fn open(bytes: B) -> Result<Self> {
        let all = bytes.as_ref();
        let wrong = |what: String, at: u64| Err(Error::data(what).at_byte(at).help(HELP));
        let Some(header) = all.get(..HEADER_BYTES) else {
            return wrong(format!("crop tables of {} bytes: their header alone is {HEADER_BYTES}", all.len()), 0);
        };
        if !header.starts_with(MAGIC) {
            return wrong("no crop tables of shardpack: the first bytes are not \"shardcrp\"".to_owned(), 0);
        }
        let version = u32_at(header, 8);
        if version != VERSION {
            let what = format!("version {version} of crop tables, this program reads version {VERSION}");
            return Err(Error::data(what).at_byte(8));
        }
        if hash::block(&header[..96]) != u64_at(header, 96) {
            return wrong("checksum of the header differs".to_owned(), 96);
        }
        let (every, rows, table_bytes) = (u32_at(header, 12), u64_at(header, 16), u64_at(header, 24));
        let lengths = || {
            let tables_start = usize::try_from(rows).ok()?.checked_mul(ROW_BYTES)?.checked_add(HEADER_BYTES)?;
            let tables_end = usize::try_from(table_bytes).ok()?.checked_add(tables_start)?;
            let checksums = (tables_end - HEADER_BYTES).div_ceil(BLOCK_BYTES).checked_mul(8)?;
            (tables_end.checked_add(checksums)? == all.len() && every > 0).then_some((tables_start, tables_end))
        };
        let Some((tables_start, tables_end)) = lengths() else {
            let what = format!(
                "{rows} rows of {ROW_BYTES} bytes and {table_bytes} bytes of tables do not make this file of {} bytes",
                all.len()
            );
            return wrong(what, 16);
        };
        let (mut shard_blake3, mut dataset) = (FileHash::default(), FileHash::default());
        shard_blake3.copy_from_slice(&header[32..64]);
        dataset.copy_from_slice(&header[64..96]);
        let blocks = (tables_end - HEADER_BYTES).div_ceil(BLOCK_BYTES);
        let checked = (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let summary = Summary { every, shard_blake3, dataset };
        Ok(Self { bytes, summary, rows, tables_start, tables_end, checked })
    }

    /// The shard and dataset that the tables belong to.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Length in bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        (self.tables_end - self.tables_start) as u64
    }

    /// Length in bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.as_ref().len() as u64
    }

    /// The table of row `number`, from 0 in shard order, whose sample has this content hash.
    ///
    /// # Errors
    /// When there is no such row, a checksum differs, the row points outside the tables, or is of another content.
    pub fn table(&self, number: u64, content_hash: u128) -> Result<Table<&[u8]>> {
        match self.place(number, content_hash)? {
            Ok(place) => self.checked(place.start, place.end).map(Ok),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// Length in bytes of the table of row `number`, as [`Crops::table`] takes it, without a look at the table itself.
    ///
    /// # Errors
    /// As [`Crops::table`], but for damage of the table.
    pub fn length(&self, number: u64, content_hash: u128) -> Result<Table<u64>> {
        Ok(self.place(number, content_hash)?.map(|place| place.len() as u64))
    }

    /// Where in the file the table of a row lies; within the tables, and not empty.
    fn place(&self, number: u64, content_hash: u128) -> Result<Table<Range<usize>>> {
        if number >= self.rows {
            return Err(Error::usage(format!("crop table {number} of {}", self.rows)));
        }
        // In range: `open` checked that all rows lie inside the file.
        let start = HEADER_BYTES + number as usize * ROW_BYTES;
        // A row begins where the row before it ends.
        let before = if number == 0 { start } else { start - ROW_BYTES };
        let rows = self.checked(before, start + ROW_BYTES)?;
        let row = &rows[start - before..];
        let wrong = |what: &str| Error::data(format!("row {number}: {what}")).at_byte(start as u64).help(HELP);
        if u64_at(row, 0) != tag(content_hash) {
            return Err(wrong("its table is of another image than the index names"));
        }
        let from = if number == 0 { 0 } else { u64_at(rows, 8) };
        let place =
            |at: u64| usize::try_from(at).ok()?.checked_add(self.tables_start).filter(|at| *at <= self.tables_end);
        let places = place(from).zip(place(u64_at(row, 8))).filter(|(from, to)| from <= to);
        let (from, to) = places.ok_or_else(|| wrong("its table lies beyond the tables"))?;
        match (row[16], row[17..].iter().all(|byte| *byte == 0)) {
            (0, true) if from < to => Ok(Ok(from..to)),
            (reason, true) if reason > 0 && from == to => Ok(Err(reason)),
            _ => Err(wrong("it has no table and no reason, or both")),
        }
    }

    /// Bytes `start..end` of the body, once the checksums of their blocks have been found right.
    fn checked(&self, start: usize, end: usize) -> Result<&[u8]> {
        let all = self.bytes.as_ref();
        if start < end {
            for block in (start - HEADER_BYTES) / BLOCK_BYTES..=(end - 1 - HEADER_BYTES) / BLOCK_BYTES {
                let bit = 1_u64 << (block % 64);
                if self.checked[block / 64].load(Ordering::Relaxed) & bit != 0 {
                    continue;
                }
                let at = HEADER_BYTES + block * BLOCK_BYTES;
                if hash::block(&all[at..(at + BLOCK_BYTES).min(self.tables_end)])
                    != u64_at(all, self.tables_end + block * 8)
                {
                    return Err(Error::data(format!("checksum of block {block} differs"))
                        .at_byte(at as u64)
                        .help(HELP));
                }
                self.checked[block / 64].fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(&all[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: Summary = Summary { every: 8, shard_blake3: [7; 32], dataset: [9; 32] };

    fn sample(number: u32) -> (u128, Table<Vec<u8>>) {
        let hash = u128::from(number) << 64 | u128::from(number * 3 + 1);
        (hash, if number % 4 == 1 { Err(number as u8 | 1) } else { Ok(vec![number as u8; 1 + number as usize * 7]) })
    }

    #[test]
    fn tables_come_back_as_they_were_and_for_their_own_images_alone() {
        for count in [0, 1, 2, 300] {
            let rows: Vec<_> = (0..count).map(sample).collect();
            let crops = Crops::open(write(&SUMMARY, &rows)).unwrap();
            assert_eq!((crops.len(), crops.summary()), (u64::from(count), &SUMMARY));
            for (number, (hash, table)) in rows.iter().enumerate() {
                let found = crops.table(number as u64, *hash).unwrap();
                assert_eq!(found, table.as_ref().map(Vec::as_slice).map_err(|reason| *reason));
                assert_eq!(crops.length(number as u64, *hash).unwrap(), found.map(|table| table.len() as u64));
                assert!(crops.table(number as u64, hash ^ 1).is_err());
            }
            assert!(crops.table(count.into(), 0).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_an_error() {
        let rows: Vec<_> = (0..5).map(sample).collect();
        let bytes = write(&SUMMARY, &rows);
        let is_whole = |bytes: &[u8]| {
            let Ok(crops) = Crops::open(bytes) else { return false };
            let is_right = |(number, row): (usize, &(u128, _))| crops.table(number as u64, row.0).is_ok();
            crops.len() == 5 && rows.iter().enumerate().all(is_right)
        };
        assert!(is_whole(&bytes));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&damaged), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(!is_whole(&bytes[..end]), "cut at {end}");
        }
    }

    #[test]
    fn rows_that_contradict_themselves_are_refused() {
        let rows = [sample(0), sample(1), sample(2)];
        let changes: [(&str, usize, u64); 4] = [
            ("beyond", HEADER_BYTES + 2 * ROW_BYTES + 8, 1 << 40),
            ("backwards", HEADER_BYTES + 2 * ROW_BYTES + 8, 0),
            ("a reason and a table", HEADER_BYTES + 2 * ROW_BYTES + 16, 3),
            ("something in the zeros", HEADER_BYTES + 2 * ROW_BYTES + 16, 1 << 8),
        ];
        for (name, at, value) in changes {
            let mut bytes = write(&SUMMARY, &rows);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let end = bytes.len() - 8;
            let checksum = hash::block(&bytes[HEADER_BYTES..end]);
            bytes[end..].copy_from_slice(&checksum.to_le_bytes());
            assert!(Crops::open(bytes).unwrap().table(2, rows[2].0).is_err(), "{name}");
        }
    }

    #[test]
    fn the_page_has_the_bytes() {
        let page = include_str!("../../../docs/reference/formats/crops.md");
        let vector = page.split("```file\n").nth(1).unwrap().split("```").next().unwrap();
        let digits: String = vector.chars().filter(char::is_ascii_hexdigit).collect();
        let summary = Summary { every: 8, shard_blake3: [0x11; 32], dataset: [0x22; 32] };
        let rows = [(0x0123_4567_89AB_CDEF_u128, Ok(vec![8, 0, 0, 42, 5])), (77, Err(2))];
        let bytes: String = write(&summary, &rows).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, bytes);
    }
}
