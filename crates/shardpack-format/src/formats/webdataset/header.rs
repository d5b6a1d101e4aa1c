//! One header block of a tar file: its fields, its numbers, and the records of a PAX header.

use std::ops::Range;

use super::escape::shown;
use crate::error::{Error, Result};

pub(super) const BLOCK_BYTES: usize = 512;

// Fields of a header.
pub(super) const NAME: Range<usize> = 0..100;
pub(super) const SIZE: Range<usize> = 124..136;
pub(super) const SUM: Range<usize> = 148..156;
pub(super) const TYPE: usize = 156;
pub(super) const MAGIC: Range<usize> = 257..265;
pub(super) const PREFIX: Range<usize> = 345..500;
const NUMBERS: [(&str, Range<usize>); 6] = [
    ("mode", 100..108),
    ("owner", 108..116),
    ("group", 116..124),
    ("time", 136..148),
    ("device major", 329..337),
    ("device minor", 337..345),
];

pub(super) type Block = [u8; BLOCK_BYTES];

/// The records of a PAX header that matter here.
#[derive(Default)]
pub(super) struct Pax {
    pub path: Option<Vec<u8>>,
    pub size: Option<u64>,
    /// Whether the member is stored sparse, as GNU tar does in PAX headers.
    pub is_sparse: bool,
    /// Name of a sparse member: `path` is made up then.
    pub sparse_name: Option<Vec<u8>>,
}

impl Pax {
    /// Parses records `<length> <key>=<value>\n`, which begin at `offset` of the file. Lengths delimit the records: a
    /// value may contain a newline.
    pub fn parse(mut records: &[u8], mut offset: u64, global: bool) -> Result<Self> {
        let mut pax = Self::default();
        while !records.is_empty() {
            let (length, key, value) = pax_record(records)
                .ok_or_else(|| Error::data("damaged PAX header: no `length key=value` here").at_byte(offset))?;
            match key {
                _ if key.starts_with(b"GNU.sparse.") && global => {
                    return Err(Error::data("a global PAX header makes all members sparse").at_byte(offset));
                }
                b"GNU.sparse.name" => (pax.is_sparse, pax.sparse_name) = (true, Some(value.to_vec())),
                _ if key.starts_with(b"GNU.sparse.") => pax.is_sparse = true,
                // tarfile gives all members that name, so webdataset fails at the second member; other readers ignore the header.
                b"path" | b"size" if global => {
                    let what = format!("a global PAX header sets {}, on which tar readers disagree", shown(key));
                    return Err(Error::data(what).at_byte(offset));
                }
                b"path" => pax.path = Some(value.to_vec()),
                b"size" => {
                    let what = || format!("PAX size: expected a number, found {}", shown(value));
                    pax.size = Some(digits(value, 10).ok_or_else(|| Error::data(what()).at_byte(offset))?);
                }
                _ => {}
            }
            records = &records[length..];
            offset += length as u64;
        }
        Ok(pax)
    }
}

/// Length, key and value of the first record.
fn pax_record(records: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length = usize::try_from(digits(&records[..space], 10)?).ok()?;
    let text = records.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((length, &text[..equals], &text[equals + 1..]))
}

pub(super) fn check_sum(block: &Block, offset: u64) -> Result<()> {
    let field = &block[SUM];
    let stated = number(field).ok_or_else(|| not_a_number("header checksum", field, offset + SUM.start as u64))?;
    // The field itself counts as spaces.
    let mut blank = *block;
    blank[SUM].fill(b' ');
    let sum = u64::from(blank.iter().map(|byte| u32::from(*byte)).sum::<u32>());
    // Sun and NeXT summed signed bytes: 256 less for each byte above 127.
    let signed = || sum.checked_sub(256 * blank.iter().filter(|byte| **byte >= 0x80).count() as u64);
    if stated == sum || Some(stated) == signed() {
        return Ok(());
    }
    let what = format!("damaged header: its bytes sum to {sum}, its checksum is {stated}");
    Err(Error::data(what).at_byte(offset))
}

/// Checks the number fields that this reader does not use. At a damaged number in the first header, tarfile fails; in
/// a later header, tarfile silently ends the file.
pub(super) fn check_numbers(block: &Block, offset: u64) -> Result<()> {
    for (what, range) in NUMBERS {
        let field = &block[range.clone()];
        // 0xff begins a negative base-256 number: a time before 1970, or owner -1.
        if field[0] != 0xff && number(field).is_none() {
            return Err(not_a_number(what, field, offset + range.start as u64));
        }
    }
    Ok(())
}

pub(super) fn size_field(block: &Block, offset: u64) -> Result<u64> {
    number(&block[SIZE]).ok_or_else(|| not_a_number("size", &block[SIZE], offset + SIZE.start as u64))
}

/// A header's number: octal between spaces and NULs, 0 if there is no digit, or base-256 as in GNU tar. `None` for
/// anything else, and for negative numbers.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        return rest.iter().try_fold(0u64, |value, byte| Some(value.checked_mul(256)? + u64::from(*byte)));
    }
    let is_end = |byte: &u8| matches!(byte, 0 | b' ');
    let start = field.iter().position(|byte| *byte != b' ').unwrap_or(field.len());
    let end = field[start..].iter().position(is_end).map_or(field.len(), |length| start + length);
    if !field[end..].iter().all(is_end) {
        return None;
    }
    if start == end { Some(0) } else { digits(&field[start..end], 8) }
}

fn digits(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        value.checked_mul(u64::from(radix))?.checked_add(u64::from(char::from(*byte).to_digit(radix)?))
    })
}

pub(super) fn header_name(block: &Block) -> Vec<u8> {
    let name = until_nul(&block[NAME]);
    match until_nul(&block[PREFIX]) {
        // GNU headers keep times where POSIX has the prefix.
        prefix if !prefix.is_empty() && block[MAGIC].starts_with(b"ustar\0") => [prefix, b"/", name].concat(),
        _ => name.to_vec(),
    }
}

pub(super) fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or(field)
}

fn not_a_number(what: &str, field: &[u8], offset: u64) -> Error {
    Error::data(format!("{what}: expected a number, found `{}`", field.escape_ascii())).at_byte(offset)
}
