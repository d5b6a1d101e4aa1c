//! The hashes on disk: BLAKE3 of whole files, XXH3 of samples; and how a file's BLAKE3 is computed in parts.
//!
//! BLAKE3 is a tree over chunks of 1,024 bytes, so any aligned run of [`UNIT_BYTES`] can be hashed apart, by any
//! thread, and the results joined. A [`Span`] holds one thread's part of a file: the hashes of its whole
//! units, and the raw bytes of the two ragged ends.
//! Source: BLAKE3 specification (2021-11-05), 2.1 and 5.1; XXH3 as in xxHash 0.8.

mod named;

pub use named::{Named, digest};

use std::ops::Range;

use blake3::hazmat::{self, ChainingValue, HasherExt, Mode};

/// BLAKE3 of a file: 32 bytes.
pub type FileHash = [u8; 32];

/// Length in bytes of the subtree that is hashed as one; a power of two.
pub const UNIT_BYTES: u64 = 64 * 1024;

/// The content hash of a sample: XXH3-128, seed 0, of its first component (the image).
pub fn content(payload: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(payload)
}

/// The hash of a component other than the first: XXH3-64, seed 0, over its stored bytes.
pub fn component(stored: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(stored)
}

/// As many bytes of a record, beside its image, are in a tar file at most, but for long keys.
const FEW_BYTES: usize = 2048;

/// The frame hash of a sample: XXH3-64, seed 0, of its record without the bytes `covered`, which other hashes cover:
/// the content hash, and those of components. Together they cover every byte of a record once. The ranges are sorted on
/// the way.
///
/// A range that is not inside `record` covers nothing.
pub fn frame(record: &[u8], covered: &mut [Range<usize>]) -> u64 {
    covered.sort_unstable_by_key(|range| range.start);
    let each_part = |parts: &mut dyn FnMut(&[u8])| {
        let mut at = 0;
        for Range { start, end } in covered.iter().cloned() {
            if start <= end && end <= record.len() {
                parts(record.get(at..start).unwrap_or_default());
                at = at.max(end);
            }
        }
        parts(record.get(at..).unwrap_or_default());
    };
    // Of most records few bytes are left, and to hash those at once is quicker than to begin a hash of parts.
    let (mut few, mut held) = ([0; FEW_BYTES], 0);
    each_part(&mut |part| {
        if let Some(room) = few.get_mut(held..held + part.len()) {
            room.copy_from_slice(part);
        }
        held += part.len();
    });
    if let Some(few) = few.get(..held) {
        return xxhash_rust::xxh3::xxh3_64(few);
    }
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    each_part(&mut |part| hasher.update(part));
    hasher.digest()
}

/// Checksum of a block of an index: XXH3-64, seed 0.
pub fn block(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// BLAKE3 of bytes that are all here.
pub fn file(bytes: &[u8]) -> FileHash {
    *blake3::hash(bytes).as_bytes()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

/// The bytes that `text` spells in hexadecimal, either case; `None` where it does not.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// Hashes one part of a file, from `start` on, in order.
#[derive(Debug)]
pub struct SpanHasher {
    span: Span,
    /// Where the next byte lies in the file.
    at: u64,
    /// The unit under way, if it began inside this span.
    unit: Option<blake3::Hasher>,
    /// A file of at most one unit is not a tree of units: all its bytes are kept.
    raw: bool,
}

/// The hashed state of one part of a file; see the module.
#[derive(Debug, Default)]
pub struct Span {
    start: u64,
    head: Vec<u8>,
    units: Vec<ChainingValue>,
    tail: Vec<u8>,
}

impl SpanHasher {
    /// Begins at byte `start` of a file that is `file_bytes` long.
    pub fn new(start: u64, file_bytes: u64) -> Self {
        Self { span: Span { start, ..Span::default() }, at: start, unit: None, raw: file_bytes <= UNIT_BYTES }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let into_unit = self.at % UNIT_BYTES;
            let take = usize::try_from(UNIT_BYTES - into_unit).map_or(bytes.len(), |rest| rest.min(bytes.len()));
            let (piece, rest) = bytes.split_at(take);
            let whole = take as u64 == UNIT_BYTES;
            if self.raw || (into_unit != 0 && self.unit.is_none() && self.span.tail.is_empty()) {
                self.span.head.extend_from_slice(piece);
            } else if whole {
                self.span.units.push(unit_at(self.at).update(piece).finalize_non_root());
            } else {
                self.update_unit(into_unit, piece);
            }
            self.at += take as u64;
            bytes = rest;
        }
    }

    /// Takes a piece of a unit, which begins at byte `into_unit` of it.
    fn update_unit(&mut self, into_unit: u64, piece: &[u8]) {
        // The end of a span is wanted raw, the middle hashed: both are kept until it is known which this is.
        if into_unit == 0 {
            self.unit = Some(unit_at(self.at));
            self.span.tail.clear();
        }
        if let Some(unit) = &mut self.unit {
            unit.update(piece);
            self.span.tail.extend_from_slice(piece);
            if into_unit + piece.len() as u64 == UNIT_BYTES {
                self.span.units.push(unit.finalize_non_root());
                self.span.tail.clear();
                self.unit = None;
            }
        }
    }

    /// Ends the part.
    pub fn finish(self) -> Span {
        self.span
    }
}

fn unit_at(offset: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher
}

/// The BLAKE3 of a file of `file_bytes` from all its parts, in order.
///
/// `None` where the parts do not cover the file exactly.
pub fn join(spans: impl IntoIterator<Item = Span>, file_bytes: u64) -> Option<FileHash> {
    let mut at = 0u64;
    let mut units: Vec<ChainingValue> = Vec::new();
    let mut open: Vec<u8> = Vec::new();
    let close = |open: &mut Vec<u8>, units: &mut Vec<ChainingValue>, at: u64| {
        if !open.is_empty() {
            units.push(unit_at(at - open.len() as u64).update(open).finalize_non_root());
            open.clear();
        }
    };
    for span in spans {
        if span.start != at {
            return None;
        }
        let mut raw = |bytes: &[u8], at: &mut u64, units: &mut Vec<ChainingValue>| {
            open.extend_from_slice(bytes);
            *at += bytes.len() as u64;
            if file_bytes > UNIT_BYTES && at.is_multiple_of(UNIT_BYTES) {
                close(&mut open, units, *at);
            }
        };
        raw(&span.head, &mut at, &mut units);
        at += span.units.len() as u64 * UNIT_BYTES;
        units.extend(span.units);
        raw(&span.tail, &mut at, &mut units);
    }
    if at != file_bytes {
        return None;
    }
    if file_bytes <= UNIT_BYTES {
        return Some(file(&open));
    }
    close(&mut open, &mut units, at);
    let half = hazmat::left_subtree_len(file_bytes);
    let (left, right) = units.split_at_checked(usize::try_from(half / UNIT_BYTES).ok()?)?;
    let root = hazmat::merge_subtrees_root(&subtree(left, half)?, &subtree(right, file_bytes - half)?, Mode::Hash);
    Some(*root.as_bytes())
}

fn subtree(units: &[ChainingValue], bytes: u64) -> Option<ChainingValue> {
    if bytes <= UNIT_BYTES {
        return units.first().copied();
    }
    let half = hazmat::left_subtree_len(bytes);
    let (left, right) = units.split_at_checked(usize::try_from(half / UNIT_BYTES).ok()?)?;
    Some(hazmat::merge_subtrees_non_root(&subtree(left, half)?, &subtree(right, bytes - half)?, Mode::Hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_parts(bytes: &[u8], cuts: &[usize], step: usize) -> Option<FileHash> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let spans = cuts.windows(2).map(|part| {
            let mut hasher = SpanHasher::new(part[0] as u64, bytes.len() as u64);
            bytes[part[0]..part[1]].chunks(step).for_each(|piece| hasher.update(piece));
            hasher.finish()
        });
        join(spans, bytes.len() as u64)
    }

    #[test]
    fn parts_join_to_the_hash_of_the_whole_around_every_unit_boundary() {
        let unit = UNIT_BYTES as usize;
        let bytes: Vec<u8> = (0..5 * unit + 3).map(|i| (i * i / 7) as u8).collect();
        for length in [0, 1, 1023, 1024, 1025, unit - 1, unit, unit + 1, 2 * unit, 3 * unit - 1, 4 * unit, bytes.len()]
        {
            for cut in [0, 1, unit - 1, unit, unit + 1, 2 * unit + 1] {
                for step in [unit / 3, 7 * 1024, 9 * unit] {
                    assert_eq!(
                        by_parts(&bytes[..length], &[cut], step),
                        Some(file(&bytes[..length])),
                        "{length} {cut}"
                    );
                }
            }
        }
    }

    #[test]
    fn parts_that_do_not_cover_the_file_have_no_hash() {
        let part = |start, length| {
            let mut hasher = SpanHasher::new(start, 100_000);
            hasher.update(&vec![1; length]);
            hasher.finish()
        };
        assert!(join([part(0, 50_000), part(50_000, 50_000)], 100_000).is_some());
        assert!(join([part(0, 50_000), part(50_001, 49_999)], 100_000).is_none());
        assert!(join([part(0, 50_000)], 100_000).is_none());
    }

    #[test]
    fn hex_and_back() {
        assert_eq!(hex(&[0, 0xab, 0x10]), "00ab10");
        assert_eq!(unhex("00AB10"), Some(vec![0, 0xab, 0x10]));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("+1"), None);
    }

    #[test]
    fn the_frame_hash_leaves_out_the_payload_alone() {
        let of = |record: &[u8], covered: Range<usize>| frame(record, &mut [covered]);
        assert_eq!(of(b"headPAYLOADtail", 4..11), block(b"headtail"));
        assert_eq!(of(b"abc", 5..9), block(b"abc"));
        assert_eq!(frame(b"aBcDe", &mut [3..4, 1..2]), block(b"ace"));
        assert_eq!(frame(b"aBcDe", &mut [1..4, 2..3]), block(b"ae"));
    }

    proptest! {
        #[test]
        fn any_cut_joins(length in 0usize..400_000, cuts in prop::collection::vec(0usize..400_000, 0..6), step in 1usize..100_000) {
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            prop_assert_eq!(by_parts(&bytes, &cuts, step.max(500)), Some(file(&bytes)));
        }
    }
}
