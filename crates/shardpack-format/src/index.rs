//! The index of a shard: fixed-width rows, a heap of strings, a checksum for every block.
//!
//! Opening costs the same whatever the size: lengths are checked against the file's once, with checked arithmetic, and
//! each block's checksum when the block is first touched. `docs/reference/formats/index.md` specifies the bytes.
//!
//! ```text
//! 0    magic "shardpix" | u32 version | u32 components C | u64 rows N | u64 heap bytes
//! 32   u64 content bytes (the unpacked shard) | u64 shard bytes (the file) | u32 flags | u32 name bytes
//! 56   32 bytes: BLAKE3 of the shard file
//! 88   u64 XXH3-64 of bytes 0..88 and of the names
//! 96   names: for each component u8 length, bytes; in version 2 u32 forms, each u16 length, bytes; zeros to a multiple of 8
//!      N rows of 72 + 8 C bytes, in version 2 of 72 + 24 C
//!      heap: for each row its key, then its path
//!      checksums: u64 XXH3-64 of each 65,536 bytes of rows and heap, the last shorter
//! ```
//! Row: `u64 offset | u64 heap offset | i64 label (i64::MIN: none) | u128 content hash | u64 frame hash | u32 record
//! bytes | u32 key bytes | u32 path bytes | u32 width | u32 height | u8 kind | u8 mode | u8 depth | u8 flags`
//! and per component `u32 offset in the record | u32 bytes`, both `u32::MAX` where it is absent; in version 2 also
//! `u32 form | u32 content bytes | u64 hash`: bits 0 to 30 of the form are its number (all 1: bytes), bit 31 says that the
//! hash covers the component; content bytes are its length before it was stored in the format's own way.
//! Bit 0 of the flags of the row: the image is stored in parts. All little-endian.
//!
//! Version 1 is written where no component has a form or a hash of its own: samples of an image, its label and metadata.

mod row;
mod write;

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Error, Result,
    component::Form,
    hash::{self, FileHash},
    image_header::{Header, Kind, Mode},
    sample::MAX_COMPONENTS,
};

pub use row::RowRef;
use row::{u32_at, u64_at};
pub use write::{Rows, write, write_parts};

/// First bytes of an index.
pub const MAGIC: &[u8; 8] = b"shardpix";
/// Highest version of the format that is written and read.
pub const VERSION: u32 = 2;
/// Length in bytes of the data that one checksum covers.
pub const BLOCK_BYTES: usize = 64 * 1024;

const HEADER_BYTES: usize = 96;
const FIXED_ROW_BYTES: usize = 72;
/// Bytes of a row for each component, by version.
const COMPONENT_BYTES: [usize; 2] = [8, 24];
/// Longest text of a form in bytes.
const FORM_BYTES: usize = 1024;

/// Bit of a form: the hash of the component covers it.
const FLAG_HASH: u32 = 1 << 31;
/// Bits of a form that hold its number; all of them set stand for bytes.
const FORM_BITS: u32 = FLAG_HASH - 1;

/// The keys of the rows ascend in byte order, so a key can be found by bisection.
const FLAG_KEYS_ASCEND: u32 = 1;
const KNOWN_FLAGS: u32 = FLAG_KEYS_ASCEND;

/// The facts of an index about its shard as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Names of the components, the image's first; an empty name means the extension of each sample's own kind.
    pub components: Vec<String>,
    /// Forms of components; rows have their numbers. Those that no row has are not written, and the others counted anew.
    pub forms: Vec<Form>,
    /// Length of the shard in bytes, unpacked if it is compressed. Offsets of rows count in these bytes.
    pub content_bytes: u64,
    /// Length of the shard file in bytes.
    pub shard_bytes: u64,
    /// BLAKE3 of the shard file.
    pub shard_blake3: FileHash,
}

/// The first bytes of an index, which identify its shard. They have not been checked against
/// the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of rows.
    pub rows: u64,
    /// Length of the shard file in bytes.
    pub shard_bytes: u64,
    /// BLAKE3 of the shard file.
    pub shard_blake3: FileHash,
}

impl Head {
    /// Length in bytes of the input.
    pub const BYTES: usize = 88;

    /// From the first bytes of an index; `None` where they are of none.
    pub fn read(first: &[u8; Self::BYTES]) -> Option<Self> {
        let shard_blake3 = first[56..].try_into().ok()?;
        let is_index = first.starts_with(MAGIC) && (1..=VERSION).contains(&u32_at(first, 8));
        is_index.then(|| Self { rows: u64_at(first, 16), shard_bytes: u64_at(first, 40), shard_blake3 })
    }
}

fn header_checksum(header: &[u8], names: &[u8]) -> u64 {
    hash::block(&[header, names].concat())
}

/// An index that has been opened: whole in memory or in a mapping.
#[derive(Debug)]
pub struct Index<B> {
    bytes: B,
    summary: Summary,
    rows: u64,
    row_bytes: usize,
    component_bytes: usize,
    body_start: usize,
    heap_start: usize,
    heap_end: usize,
    keys_ascend: bool,
    /// One bit a block: its checksum has been found right.
    checked: Box<[AtomicU64]>,
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Opens an index; only its header is read.
    ///
    /// # Errors
    /// When the lengths in it do not add up to the length of `bytes`, or the header's checksum differs.
    pub fn open(bytes: B) -> Result<Self> {
        let all = bytes.as_ref();
        let header = all
            .get(..HEADER_BYTES)
            .ok_or_else(|| Error::data(format!("index of {} bytes: its header alone is 96", all.len())))?;
        if &header[..8] != MAGIC {
            return Err(Error::data("no index of shardpack: its first bytes are not \"shardpix\"").at_byte(0));
        }
        let version = u32_at(header, 8);
        if !(1..=VERSION).contains(&version) {
            let what = format!("index version {version}, this program reads versions 1 to {VERSION}");
            return Err(Error::data(what).at_byte(8));
        }
        // One of two.
        let component_bytes = COMPONENT_BYTES[version as usize - 1];
        let components = u32_at(header, 12) as usize;
        let (rows, heap_bytes) = (u64_at(header, 16), u64_at(header, 24));
        let (content_bytes, shard_bytes) = (u64_at(header, 32), u64_at(header, 40));
        let (flags, name_bytes) = (u32_at(header, 48), u32_at(header, 52) as usize);
        if components > MAX_COMPONENTS || flags & !KNOWN_FLAGS != 0 {
            return Err(
                Error::data(format!("{components} components and flags {flags:#x}: damaged header")).at_byte(12)
            );
        }
        let row_bytes = FIXED_ROW_BYTES + component_bytes * components;
        let lengths = || {
            let body_start = HEADER_BYTES.checked_add(name_bytes)?;
            let heap_start = usize::try_from(rows).ok()?.checked_mul(row_bytes)?.checked_add(body_start)?;
            let heap_end = usize::try_from(heap_bytes).ok()?.checked_add(heap_start)?;
            let checksums = (heap_end - body_start).div_ceil(BLOCK_BYTES).checked_mul(8)?;
            (heap_end.checked_add(checksums)? == all.len()).then_some((body_start, heap_start, heap_end))
        };
        let (body_start, heap_start, heap_end) = lengths().ok_or_else(|| {
            Error::data(format!(
                "{rows} rows of {row_bytes} bytes and {heap_bytes} bytes of strings do not make this file of {} bytes",
                all.len()
            ))
        })?;
        let names = &all[HEADER_BYTES..body_start];
        if header_checksum(&header[..88], names) != u64_at(header, 88) {
            return Err(Error::data("checksum of the header differs").at_byte(88));
        }
        let mut shard_blake3 = FileHash::default();
        shard_blake3.copy_from_slice(&header[56..88]);
        let (components, forms) = read_names(names, components, version > 1)?;
        let summary = Summary { components, forms, content_bytes, shard_bytes, shard_blake3 };
        let blocks = (heap_end - body_start).div_ceil(BLOCK_BYTES);
        let checked = (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let keys_ascend = flags & FLAG_KEYS_ASCEND != 0;
        Ok(Self {
            bytes,
            summary,
            rows,
            row_bytes,
            component_bytes,
            body_start,
            heap_start,
            heap_end,
            keys_ascend,
            checked,
        })
    }

    /// The facts about the shard as a whole.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether the keys ascend in byte order, so that [`Index::find`] need not look at all.
    pub fn keys_ascend(&self) -> bool {
        self.keys_ascend
    }

    /// Range of the record of row `number`, as stored and unchecked. Use it to prefetch the record before
    /// [`Index::row`].
    pub fn record_hint(&self, number: u64) -> Option<Range<u64>> {
        let start = self.body_start.checked_add(usize::try_from(number).ok()?.checked_mul(self.row_bytes)?)?;
        let row = self.bytes.as_ref().get(start..start.checked_add(FIXED_ROW_BYTES)?)?;
        let offset = u64_at(row, 0);
        Some(offset..offset.checked_add(u32_at(row, 48).into())?)
    }

    /// Row `number`, from 0 in shard order.
    ///
    /// # Errors
    /// When there is no such row, a checksum differs, or the row points outside the shard or the heap.
    pub fn row(&self, number: u64) -> Result<RowRef<'_>> {
        if number >= self.rows {
            return Err(Error::usage(format!("sample {number} of a shard of {}", self.rows)));
        }
        // In range: `open` checked that all rows lie inside the file.
        let start = self.body_start + number as usize * self.row_bytes;
        let row = self.checked(start, start + self.row_bytes)?;
        let (offset, heap) = (u64_at(row, 0), u64_at(row, 8));
        let (record_bytes, key_bytes, path_bytes) = (u32_at(row, 48), u32_at(row, 52), u32_at(row, 56));
        let wrong = |what: &str| Error::data(format!("row {number}: {what}")).at_byte(start as u64);
        let strings = || {
            let key = usize::try_from(heap).ok()?.checked_add(self.heap_start)?;
            let path = key.checked_add(key_bytes as usize)?;
            let end = path.checked_add(path_bytes as usize)?;
            (end <= self.heap_end).then_some((key, path, end))
        };
        let (key, path, end) = strings().ok_or_else(|| wrong("its strings lie beyond the heap"))?;
        let strings = self.checked(key, end)?;
        let (key, path) = strings.split_at(path - key);
        if offset.checked_add(u64::from(record_bytes)).is_none_or(|end| end > self.summary.content_bytes) {
            return Err(wrong(&format!(
                "its record of {record_bytes} bytes at {offset} ends beyond the shard of {} bytes",
                self.summary.content_bytes
            )));
        }
        let extents = &row[FIXED_ROW_BYTES..];
        for extent in extents.chunks_exact(self.component_bytes) {
            let (start, bytes) = (u32_at(extent, 0), u32_at(extent, 4));
            let absent = start == u32::MAX && bytes == u32::MAX;
            if !absent && start.checked_add(bytes).is_none_or(|end| end > record_bytes) {
                return Err(wrong(&format!("a component of {bytes} bytes at {start} ends beyond its record")));
            }
            if let Some(detail) = extent.get(8..24) {
                let form = u32_at(detail, 0) & FORM_BITS;
                if form != FORM_BITS && form as usize >= self.summary.forms.len() {
                    return Err(wrong(&format!("a component of form {form} of {}", self.summary.forms.len())));
                }
            }
        }
        let label = u64_at(row, 16) as i64;
        let image = Header {
            kind: Kind::from_code(row[68]).ok_or_else(|| wrong("unknown kind of image"))?,
            width: u32_at(row, 60),
            height: u32_at(row, 64),
            mode: Mode::from_code(row[69]).ok_or_else(|| wrong("unknown colour mode"))?,
            depth: row[70],
        };
        if row[71] > 1 {
            return Err(wrong("unknown flags"));
        }
        Ok(RowRef {
            key,
            path,
            label: (label != i64::MIN).then_some(label),
            offset,
            record_bytes,
            content_hash: u128::from(u64_at(row, 24)) | u128::from(u64_at(row, 32)) << 64,
            frame_hash: u64_at(row, 40),
            image,
            in_parts: row[71] == 1,
            extents,
            component_bytes: self.component_bytes,
            forms: &self.summary.forms,
        })
    }

    /// All rows in shard order.
    pub fn iter(&self) -> impl Iterator<Item = Result<RowRef<'_>>> {
        (0..self.rows).map(|number| self.row(number))
    }

    /// Number of the row with `key`: by bisection where the keys ascend, else by looking at all.
    ///
    /// # Errors
    /// As [`Index::row`].
    pub fn find(&self, key: &[u8]) -> Result<Option<u64>> {
        if !self.keys_ascend {
            for number in 0..self.rows {
                if self.row(number)?.key == key {
                    return Ok(Some(number));
                }
            }
            return Ok(None);
        }
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.row(middle)?.key.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
            }
        }
        Ok(None)
    }

    /// Bytes `start..end` of the body, once the checksums of their blocks have been found right.
    fn checked(&self, start: usize, end: usize) -> Result<&[u8]> {
        let all = self.bytes.as_ref();
        if start < end {
            for block in (start - self.body_start) / BLOCK_BYTES..=(end - 1 - self.body_start) / BLOCK_BYTES {
                let bit = 1u64 << (block % 64);
                if self.checked[block / 64].load(Ordering::Relaxed) & bit != 0 {
                    continue;
                }
                let at = self.body_start + block * BLOCK_BYTES;
                let bytes = &all[at..(at + BLOCK_BYTES).min(self.heap_end)];
                if hash::block(bytes) != u64_at(all, self.heap_end + block * 8) {
                    return Err(Error::data(format!("checksum of block {block} ({} bytes) differs", bytes.len()))
                        .at_byte(at as u64)
                        .help(
                            "the index was changed after it was sealed; `shardpack verify --repair SRC` rebuilds it",
                        ));
                }
                self.checked[block / 64].fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(&all[start..end])
    }
}

/// Names of components, and forms where they follow.
fn read_names(mut names: &[u8], components: usize, has_forms: bool) -> Result<(Vec<String>, Vec<Form>)> {
    let wrong = || Error::data("names of the components are damaged").at_byte(HEADER_BYTES as u64);
    let mut out = Vec::with_capacity(components);
    for _ in 0..components {
        let (length, rest) = names.split_first().ok_or_else(wrong)?;
        let (name, rest) = rest.split_at_checked(usize::from(*length)).ok_or_else(wrong)?;
        out.push(std::str::from_utf8(name).map_err(|_| wrong())?.to_owned());
        names = rest;
    }
    let mut forms = Vec::new();
    if has_forms {
        let (count, mut rest) = names.split_first_chunk().ok_or_else(wrong)?;
        for _ in 0..u32::from_le_bytes(*count) {
            let (length, after) = rest.split_first_chunk().ok_or_else(wrong)?;
            let length = usize::from(u16::from_le_bytes(*length));
            let (text, after) = after.split_at_checked(length).filter(|_| length <= FORM_BYTES).ok_or_else(wrong)?;
            forms.push(str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(wrong)?);
            rest = after;
        }
        names = rest;
    }
    if names.len() >= 8 || names.iter().any(|byte| *byte != 0) {
        return Err(wrong());
    }
    Ok((out, forms))
}

#[cfg(test)]
mod tests;
