//! TIFF: the first directory, in either byte order.

use super::{Header, Kind, Mode, be16, be32, le16, le32};

/// Of BigTIFF, version 43, too: its offsets and counts are 8 bytes long.
///
/// Source: TIFF 6.0, section 2 (header, directory), 8 (the tags), 16 (CMYK), 18 (alpha; a fourth sample beside RGB, or
/// a second beside grey, is taken for it) and 21 (YCbCr); BigTIFF, "Header" and "Directory".
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    type Read<T> = fn(&[u8], usize) -> Option<T>;
    let is_little = bytes.starts_with(b"II");
    let (int16, int32): (Read<u16>, Read<u32>) = if is_little { (le16, le32) } else { (be16, be32) };
    let int64 = |bytes: &[u8], at: usize| {
        let (low, high) = if is_little { (at, at + 4) } else { (at + 4, at) };
        Some(u64::from(int32(bytes, high)?) << 32 | u64::from(int32(bytes, low)?))
    };
    // A number of 4 bytes in TIFF, of 8 in BigTIFF.
    let is_big = int16(bytes, 2)? == 43;
    let number = |bytes: &[u8], at: usize| {
        let number = if is_big { int64(bytes, at) } else { int32(bytes, at).map(u64::from) };
        usize::try_from(number?).ok()
    };
    let (directory, count_bytes, entry_bytes, inline): (_, usize, usize, usize) = match int16(bytes, 2)? {
        42 => (number(bytes, 4)?, 2, 12, 4),
        43 if int16(bytes, 4)? == 8 => (number(bytes, 8)?, 8, 20, 8),
        _ => return None,
    };
    let directory = bytes.get(directory..)?;
    let count = if is_big { number(directory, 0)? } else { int16(directory, 0)?.into() };
    let entries = directory.get(count_bytes..count_bytes.checked_add(count.checked_mul(entry_bytes)?)?)?;
    let (mut width, mut height, mut bits, mut photometric, mut samples) = (0, 0, 1, None, 1);
    for entry in entries.chunks_exact(entry_bytes) {
        // The field that holds values, or their offset.
        let here = entry_bytes - inline;
        // The first of the numbers, SHORT, LONG or LONG8. Numbers that do not fit in the entry are stored elsewhere.
        let value = match (int16(entry, 2)?, number(entry, 4)?) {
            (3, count) if count <= inline / 2 => int16(entry, here)?.into(),
            (3, _) => int16(bytes, number(entry, here)?).unwrap_or(0).into(),
            (4, count) if count <= inline / 4 => int32(entry, here)?,
            (16, 1) if is_big => u32::try_from(int64(entry, here)?).unwrap_or(0),
            _ => continue,
        };
        match int16(entry, 0)? {
            256 => width = value,
            257 => height = value,
            258 => bits = value,
            262 => photometric = Some(value),
            277 => samples = value,
            _ => {}
        }
    }
    let mode = match (photometric, samples) {
        (Some(0 | 1), 1) => Mode::Gray,
        (Some(0 | 1), 2) => Mode::GrayAlpha,
        (Some(2 | 6), 3) => Mode::Rgb,
        (Some(2), 4) => Mode::Rgba,
        (Some(3), 1) => Mode::Palette,
        (Some(5), 4) => Mode::Cmyk,
        _ => Mode::Unknown,
    };
    Some(Header { kind: Kind::Tiff, width, height, mode, depth: u8::try_from(bits).unwrap_or(0) })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Mode, tests::Row};

    pub(in super::super) const ROWS: &[Row] = &[
        (
            "tiff, little endian, bits elsewhere",
            b"II\x2A\0\x08\0\0\0\x05\0\
              \0\x01\x03\0\x01\0\0\0\x80\x02\0\0\x01\x01\x04\0\x01\0\0\0\xE0\x01\0\0\
              \x02\x01\x03\0\x03\0\0\0\x4A\0\0\0\x06\x01\x03\0\x01\0\0\0\x02\0\0\0\
              \x15\x01\x03\0\x01\0\0\0\x03\0\0\0\0\0\0\0\x10\0\x10\0\x10\0",
            (640, 480, Mode::Rgb, 16),
        ),
        (
            "tiff, big endian, behind a gap and an unknown tag",
            b"MM\0\x2A\0\0\0\x0Agp\0\x05\
              \0\xFE\0\x04\0\0\0\x01\0\0\0\0\x01\0\0\x03\0\0\0\x01\x02\x80\0\0\x01\x01\0\x04\0\0\0\x01\0\0\x01\xE0\
              \x01\x02\0\x03\0\0\0\x01\0\x08\0\0\x01\x06\0\x03\0\0\0\x01\0\x03\0\0",
            (640, 480, Mode::Palette, 8),
        ),
        (
            "tiff, black and white by default",
            b"II\x2A\0\x08\0\0\0\x03\0\0\x01\x03\0\x01\0\0\0\x07\0\0\0\x01\x01\x03\0\x01\0\0\0\x05\0\0\0\
              \x06\x01\x03\0\x01\0\0\0\0\0\0\0",
            (7, 5, Mode::Gray, 1),
        ),
        (
            "tiff, bits that are nowhere, cmyk",
            b"II\x2A\0\x08\0\0\0\x05\0\0\x01\x03\0\x01\0\0\0\x07\0\0\0\x01\x01\x03\0\x01\0\0\0\x05\0\0\0\
              \x02\x01\x03\0\x04\0\0\0\xFF\xFF\xFF\xFF\x06\x01\x03\0\x01\0\0\0\x05\0\0\0\
              \x15\x01\x03\0\x01\0\0\0\x04\0\0\0",
            (7, 5, Mode::Cmyk, 0),
        ),
        ("tiff, directory behind the end", b"II\x2A\0\xFF\xFF\xFF\xFF\0\0", (0, 0, Mode::Unknown, 0)),
        (
            "tiff, more entries than bytes",
            b"MM\0\x2A\0\0\0\x08\xFF\xFF\x01\0\0\x03\0\0\0\x01\x02\x80",
            (0, 0, Mode::Unknown, 0),
        ),
        ("bigtiff, directory behind the end", b"II\x2B\0\x08\0\0\0\x10\0\0\0\0\0\0\0", (0, 0, Mode::Unknown, 0)),
        ("bigtiff, offsets of another length", b"II\x2B\0\x10\0\0\0\x10\0\0\0\0\0\0\0", (0, 0, Mode::Unknown, 0)),
        (
            "bigtiff, little endian, bits in the entry",
            b"II\x2B\0\x08\0\0\0\x10\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\
              \0\x01\x10\0\x01\0\0\0\0\0\0\0\x80\x02\0\0\0\0\0\0\
              \x01\x01\x04\0\x01\0\0\0\0\0\0\0\xE0\x01\0\0\0\0\0\0\
              \x02\x01\x03\0\x03\0\0\0\0\0\0\0\x10\0\x10\0\x10\0\0\0\
              \x06\x01\x03\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\
              \x15\x01\x03\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
            (640, 480, Mode::Rgb, 16),
        ),
        (
            "bigtiff, big endian",
            b"MM\0\x2B\0\x08\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x03\
              \x01\0\0\x03\0\0\0\0\0\0\0\x01\0\x07\0\0\0\0\0\0\
              \x01\x01\0\x03\0\0\0\0\0\0\0\x01\0\x05\0\0\0\0\0\0\
              \x01\x06\0\x03\0\0\0\0\0\0\0\x01\0\x01\0\0\0\0\0\0",
            (7, 5, Mode::Gray, 1),
        ),
    ];
}
