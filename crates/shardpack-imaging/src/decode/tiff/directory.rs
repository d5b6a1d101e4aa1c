//! Parses the first directory of a TIFF or BigTIFF: its tags and their numbers, in either byte order.
//!
//! Holds at all times: no more memory is allocated than the file has bytes for.

/// A directory, with its file.
pub(super) struct Directory<'a> {
    bytes: &'a [u8],
    is_little: bool,
    entries: Vec<Entry<'a>>,
}

/// A tag: its number, the type of its values, and their bytes.
struct Entry<'a> {
    tag: u16,
    kind: u16,
    values: &'a [u8],
}

/// Bytes of one value of a type. Source: TIFF 6.0, section 2, "Types"; BigTIFF: LONG8, SLONG8, IFD8.
fn value_bytes(kind: u16) -> Option<usize> {
    Some(match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16 | 17 | 18 => 8,
        _ => return None,
    })
}

impl<'a> Directory<'a> {
    /// The first directory of the file; `None` if the directory or its pixel tags are not within `bytes`.
    ///
    /// Other tags are left out if their values are not within `bytes`.
    pub(super) fn first(bytes: &'a [u8]) -> Option<Self> {
        let is_little = bytes.starts_with(b"II");
        let mut directory = Self { bytes, is_little, entries: Vec::new() };
        // Offset of the directory, bytes of its count, of an entry, and of the value field.
        let (at, count_bytes, entry_bytes, inline) = match directory.number(bytes.get(2..4)?) {
            42 => (directory.number(bytes.get(4..8)?), 2, 12, 4),
            43 if directory.number(bytes.get(4..6)?) == 8 => (directory.number(bytes.get(8..16)?), 8, 20, 8),
            _ => return None,
        };
        let rest = bytes.get(usize::try_from(at).ok()?..)?;
        let count = usize::try_from(directory.number(rest.get(..count_bytes)?)).ok()?;
        let end = count_bytes.checked_add(count.checked_mul(entry_bytes)?)?;
        let entries = rest.get(count_bytes..end)?;
        // The offset of the next directory follows.
        rest.get(end..end.checked_add(inline)?)?;
        for entry in entries.chunks_exact(entry_bytes) {
            let (tag, kind) = (directory.number(&entry[..2]) as u16, directory.number(&entry[2..4]) as u16);
            let count = directory.number(&entry[4..entry_bytes - inline]);
            let length = value_bytes(kind).and_then(|one| usize::try_from(count).ok()?.checked_mul(one));
            let Some(length) = length else { continue };
            let here = &entry[entry_bytes - inline..];
            let values = match length <= inline {
                true => here.get(..length),
                false => directory.at(directory.number(here), length),
            };
            if values.is_none() && super::tag::OF_PIXELS.contains(&tag) {
                return None;
            }
            directory.entries.extend(values.map(|values| Entry { tag, kind, values }));
        }
        Some(directory)
    }

    /// `length` bytes of the file from `offset` on.
    pub(super) fn at(&self, offset: u64, length: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }

    /// An unsigned number of 1, 2, 4 or 8 bytes.
    fn number(&self, bytes: &[u8]) -> u64 {
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.is_little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) }
    }

    /// 16 bits in the byte order of the file.
    pub(super) fn word(&self, pair: [u8; 2]) -> u16 {
        if self.is_little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) }
    }

    fn entry(&self, tag: u16) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }

    /// The values of `tag` as unsigned numbers; empty if the tag is missing or has another type.
    pub(super) fn numbers(&self, tag: u16) -> Vec<u64> {
        let whole = |entry: &&Entry| matches!(entry.kind, 1 | 3 | 4 | 13 | 16 | 18);
        let entry = self.entry(tag).filter(whole);
        let numbers = |entry: &Entry| {
            entry.values.chunks_exact(value_bytes(entry.kind).unwrap_or(1)).map(|value| self.number(value)).collect()
        };
        entry.map_or_else(Vec::new, numbers)
    }

    /// The first value of `tag`, or the default `unless`.
    pub(super) fn first_of(&self, tag: u16, unless: u64) -> u64 {
        self.numbers(tag).first().copied().unwrap_or(unless)
    }

    /// The bytes of `tag`.
    pub(super) fn bytes_of(&self, tag: u16) -> Option<&'a [u8]> {
        self.entry(tag).map(|entry| entry.values).filter(|values| !values.is_empty())
    }
}
