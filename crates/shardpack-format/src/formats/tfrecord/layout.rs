//! Defines lengths and constants of a TFRecord for writer and reader: the framing, and the length of a feature.

/// Length in bytes of a record's head: the length of the data, and the CRC of this length.
pub(super) const HEAD_BYTES: usize = 12;
/// Length in bytes of a record's foot: the CRC of the data.
pub(super) const FOOT_BYTES: usize = 4;
/// Length in bytes of a record's framing.
pub(super) const FRAME_BYTES: usize = HEAD_BYTES + FOOT_BYTES;
/// Longest message in bytes that Protocol Buffers allow: lengths are signed 32-bit numbers.
pub(super) const MAX_DATA_BYTES: u64 = i32::MAX as u64;
/// Length in bytes of a varint that holds any `u32`, and of the slot for length and letters of `image/format`.
pub(super) const SLOT_BYTES: u64 = 5;

/// Tag of field 1 with length-delimited content: used for all fields without a tag below.
pub(super) const TAG_FIRST: u8 = 0x0a;
/// Tag of the value in an entry of a map.
pub(super) const TAG_VALUE: u8 = 0x12;
/// Tag of the list of floats in a feature.
pub(super) const TAG_FLOATS: u8 = 0x12;
/// Tag of the list of integers in a feature.
pub(super) const TAG_INTS: u8 = 0x1a;

/// A feature of our writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    Label,
    Text,
    Encoded,
    Filename,
    Format,
    Height,
    Width,
}

impl Feature {
    /// All features, in the order of their keys and of the record.
    pub(super) const ALL: [Feature; 7] = [
        Feature::Label,
        Feature::Text,
        Feature::Encoded,
        Feature::Filename,
        Feature::Format,
        Feature::Height,
        Feature::Width,
    ];

    /// The key if samples are not images; `None` for the payload, and for features that only images have.
    pub(super) fn plain_key(self) -> Option<&'static str> {
        match self {
            Feature::Label => Some("class/label"),
            Feature::Text => Some("class/text"),
            Feature::Filename => Some("filename"),
            Feature::Encoded | Feature::Format | Feature::Height | Feature::Width => None,
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Feature::Label => "image/class/label",
            Feature::Text => "image/class/text",
            Feature::Encoded => "image/encoded",
            Feature::Filename => "image/filename",
            Feature::Format => "image/format",
            Feature::Height => "image/height",
            Feature::Width => "image/width",
        }
    }
}

/// Length of the only value of a feature.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// Bytes of this length.
    Bytes(u64),
    /// A length and its bytes: [`SLOT_BYTES`] in total.
    Slot,
    /// A number whose varint has this length in bytes.
    Varint(u64),
}

/// Lengths in bytes of the messages around a value, from the inside out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nest {
    pub(super) list: u64,
    pub(super) feature: u64,
    pub(super) entry: u64,
    /// The entry with its tag and length.
    pub(super) whole: u64,
}

impl Nest {
    pub(super) fn new(key: &str, value: Value) -> Self {
        let list = match value {
            Value::Bytes(bytes) | Value::Varint(bytes) => field_bytes(bytes),
            Value::Slot => 1 + SLOT_BYTES,
        };
        let feature_bytes = field_bytes(list);
        let entry = field_bytes(key.len() as u64) + field_bytes(feature_bytes);
        Self { list, feature: feature_bytes, entry, whole: field_bytes(entry) }
    }
}

/// Length in bytes of a field with this content: tag, length, content.
pub(super) fn field_bytes(content_bytes: u64) -> u64 {
    1 + varint_bytes(content_bytes) + content_bytes
}

/// Length in bytes of the shortest varint of `number`.
pub(super) fn varint_bytes(number: u64) -> u64 {
    u64::from(number.checked_ilog2().unwrap_or(0)) / 7 + 1
}

/// CRC-32C, masked because a CRC over data that contains CRCs is problematic.
///
/// Source: TensorFlow 2.21, `core/lib/hash/crc32c.h`.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Appends `data` to `out` as a record: its length and its data, each with its CRC.
pub fn frame(data: &[u8], out: &mut Vec<u8>) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked_crc(&length).to_le_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(&masked_crc(data).to_le_bytes());
}

/// A fault in a record. `at` is an offset in the record, or in its data if only the data is parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) what: String,
}

impl Fault {
    pub(super) fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }
}

/// Length of the data in bytes, from `head`.
///
/// # Errors
/// If the CRC of the length differs.
pub(super) fn data_bytes(head: [u8; HEAD_BYTES]) -> Result<u64, Fault> {
    let [a, b, c, d, e, f, g, h, crc @ ..] = head;
    let length = [a, b, c, d, e, f, g, h];
    same_crc("length", 8, &length, crc).map(|()| u64::from_le_bytes(length))
}

/// The data of a whole record.
///
/// # Errors
/// If the length or a CRC differs.
pub(super) fn data(record: &[u8]) -> Result<&[u8], Fault> {
    let (head, rest) = record
        .split_first_chunk::<HEAD_BYTES>()
        .ok_or_else(|| Fault::new(record.len(), format!("record of {} bytes, its head alone has 12", record.len())))?;
    let promised = data_bytes(*head)?;
    let (data, crc) = rest
        .split_last_chunk::<FOOT_BYTES>()
        .filter(|(data, _)| data.len() as u64 == promised)
        .ok_or_else(|| Fault::new(0, format!("record of {} bytes, {promised} + 16 in its head", record.len())))?;
    same_crc("data", HEAD_BYTES + data.len(), data, *crc).map(|()| data)
}

fn same_crc(of: &str, at: usize, bytes: &[u8], stored: [u8; 4]) -> Result<(), Fault> {
    let (stored, computed) = (u32::from_le_bytes(stored), masked_crc(bytes));
    if stored == computed {
        return Ok(());
    }
    Err(Fault::new(at, format!("{of} CRC differs: stored {stored:08x}, computed {computed:08x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_as_long_as_their_bits_ask() {
        for (number, bytes) in [(0, 1), (1, 1), (127, 1), (128, 2), (16383, 2), (16384, 3), (u64::MAX, 10)] {
            assert_eq!(varint_bytes(number), bytes, "{number}");
        }
    }

    #[test]
    fn crc_of_the_specification() {
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn keys_are_in_the_order_of_their_bytes() {
        assert!(Feature::ALL.map(Feature::key).is_sorted());
        assert!(Feature::ALL.is_sorted());
    }

    #[test]
    fn a_record_cut_or_made_longer_is_refused() {
        let mut record = vec![3, 0, 0, 0, 0, 0, 0, 0];
        record.extend(masked_crc(&record.clone()).to_le_bytes());
        record.extend(b"abc");
        record.extend(masked_crc(b"abc").to_le_bytes());
        assert_eq!(data(&record), Ok(&b"abc"[..]));
        for cut in 0..record.len() {
            assert!(data(&record[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(data(&flipped).is_err(), "bit {bit}");
        }
        record.push(0);
        assert!(data(&record).is_err());
    }
}
