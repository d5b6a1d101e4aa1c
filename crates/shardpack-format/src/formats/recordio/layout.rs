//! Defines lengths, constants and the two headers of a record, for writer, sidecars and reader.

use super::parts::{MAGIC, WORD_BYTES};
use crate::{Error, text};

/// Extension of shard files.
pub const EXTENSION: &str = ".rec";
/// Length in bytes of the header of a part: the magic, and flag and length in one word.
pub const PART_HEADER_BYTES: usize = 2 * WORD_BYTES;
/// Length in bytes of the header of a payload, before labels and image.
pub const IMAGE_HEADER_BYTES: usize = 24;
/// Offset in bytes of the image in a record of our writer.
pub const IMAGE_OFFSET: usize = PART_HEADER_BYTES + IMAGE_HEADER_BYTES;
/// Exclusive limit in bytes for a part, and for a payload of our writer: lengths have 29 bits.
pub const PART_LIMIT_BYTES: u32 = 1 << LENGTH_BITS;
/// Length in bytes of a label.
pub const LABEL_BYTES: usize = 4;

const LENGTH_BITS: u32 = 29;

/// Position of a part in its record; the values are cflags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartPosition {
    /// The only one.
    Whole = 0,
    First = 1,
    Middle = 2,
    Last = 3,
}

impl PartPosition {
    /// Whether a part of this place may follow a part of place `before`, or begin a record if `before` is `None`.
    pub fn follows(self, before: Option<PartPosition>) -> bool {
        matches!(self, PartPosition::Whole | PartPosition::First)
            != matches!(before, Some(PartPosition::First | PartPosition::Middle))
    }

    /// Whether the record ends with this part.
    pub fn ends(self) -> bool {
        matches!(self, PartPosition::Whole | PartPosition::Last)
    }
}

/// Header of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHeader {
    pub place: PartPosition,
    /// Length of the data in bytes, without padding.
    pub bytes: u32,
}

impl PartHeader {
    /// Parses a header.
    ///
    /// # Errors
    /// If the magic or the flag is invalid; the text has the value found.
    pub fn read(bytes: &[u8; PART_HEADER_BYTES]) -> Result<Self, String> {
        let (magic, lrec) = (u32_at(bytes, 0), u32_at(bytes, WORD_BYTES));
        if magic != MAGIC {
            return Err(format!("a record begins with {MAGIC:#010x}, here is {magic:#010x}"));
        }
        let place = match lrec >> LENGTH_BITS {
            0 => PartPosition::Whole,
            1 => PartPosition::First,
            2 => PartPosition::Middle,
            3 => PartPosition::Last,
            other => return Err(format!("a part has flag 0 to 3, here is {other}")),
        };
        Ok(Self { place, bytes: lrec & (PART_LIMIT_BYTES - 1) })
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; PART_HEADER_BYTES] {
        let mut out = [0; PART_HEADER_BYTES];
        out[..WORD_BYTES].copy_from_slice(&MAGIC.to_le_bytes());
        out[WORD_BYTES..].copy_from_slice(&((self.place as u32) << LENGTH_BITS | self.bytes).to_le_bytes());
        out
    }

    /// Length in bytes of the data with its padding.
    pub fn padded_bytes(self) -> u32 {
        // The result is at most 2^29.
        self.bytes.next_multiple_of(WORD_BYTES as u32)
    }
}

/// Header of a payload, before labels and image: `IRHeader` of mxnet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageHeader {
    /// Number of labels after the header; 0 if `label` is the only label.
    pub flag: u32,
    pub label: f32,
    pub id: u64,
    pub id2: u64,
}

impl ImageHeader {
    /// Parses the header at the beginning of `payload`; `None` if `payload` is too short.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<IMAGE_HEADER_BYTES>()?;
        let two = |at| u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + WORD_BYTES)) << 32;
        Some(Self { flag: u32_at(bytes, 0), label: f32::from_bits(u32_at(bytes, 4)), id: two(8), id2: two(16) })
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; IMAGE_HEADER_BYTES] {
        let mut out = [0; IMAGE_HEADER_BYTES];
        out[..4].copy_from_slice(&self.flag.to_le_bytes());
        out[4..8].copy_from_slice(&self.label.to_le_bytes());
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16..].copy_from_slice(&self.id2.to_le_bytes());
        out
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; WORD_BYTES];
    word.copy_from_slice(&bytes[at..at + WORD_BYTES]);
    u32::from_le_bytes(word)
}

/// Parses `key` as an id.
///
/// # Errors
/// If `key` is not a decimal number of 64 bits.
pub fn id(key: &[u8]) -> crate::Result<u64> {
    let digits = std::str::from_utf8(key).ok().filter(|key| key.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let key = text::shown(key).to_string();
        Error::usage("RecordIO stores ids of 64 bits, so a key must be a decimal number below 2^64").in_sample(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were_written() {
        for (place, bytes) in [
            (PartPosition::Whole, 0),
            (PartPosition::First, 24),
            (PartPosition::Middle, 4),
            (PartPosition::Last, (1 << 29) - 1),
        ] {
            let part = PartHeader { place, bytes };
            assert_eq!(PartHeader::read(&part.to_bytes()), Ok(part));
        }
        assert_eq!(PartHeader { place: PartPosition::Last, bytes: 2 }.to_bytes(), *b"\x0a\x23\xd7\xce\x02\0\0\x60");
        let header = ImageHeader { flag: 2, label: 0.5, id: u64::MAX - 5, id2: 7 };
        assert_eq!(ImageHeader::read(&header.to_bytes()), Some(header));
        assert_eq!(ImageHeader::read(&[0; 23]), None);
    }

    #[test]
    fn parts_follow_each_other_in_one_order_only() {
        use PartPosition::{First, Last, Middle, Whole};
        for place in [Whole, First, Middle, Last] {
            for (before, goes_on) in
                [(None, false), (Some(Whole), false), (Some(First), true), (Some(Middle), true), (Some(Last), false)]
            {
                let begins = matches!(place, Whole | First);
                assert_eq!(place.follows(before), begins != goes_on, "{place:?} behind {before:?}");
            }
        }
    }
}
