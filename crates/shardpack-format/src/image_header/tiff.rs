//! TIFF: the first directory, in either byte order.

use super::{Header, Kind, Mode, be16, be32, le16, le32};

/// BigTIFF, version 43, is not read further than its kind.
///
/// Source: TIFF 6.0, section 2 (header, directory), 8 (the tags), 16 (CMYK), 18 (alpha; a fourth sample beside RGB, or
/// a second beside grey, is taken for it) and 21 (YCbCr).
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    type Read<T> = fn(&[u8], usize) -> Option<T>;
    let (int16, int32): (Read<u16>, Read<u32>) = if bytes.starts_with(b"II") { (le16, le32) } else { (be16, be32) };
    if int16(bytes, 2)? != 42 {
        return None;
    }
    let directory = bytes.get(usize::try_from(int32(bytes, 4)?).ok()?..)?;
    let entries_bytes = 12 * usize::from(int16(directory, 0)?);
    let (mut width, mut height, mut bits, mut photometric, mut samples) = (0, 0, 1, None, 1);
    for entry in directory.get(2..2 + entries_bytes)?.as_chunks::<12>().0 {
        let (number_type, count) = (int16(entry, 2)?, int32(entry, 4)?);
        // The first of the numbers, SHORT or LONG. More than four bytes of them stand elsewhere.
        let value = match (number_type, count) {
            (3, ..=2) => int16(entry, 8)?.into(),
            (3, _) => int16(bytes, usize::try_from(int32(entry, 8)?).ok()?).unwrap_or(0).into(),
            (4, ..=1) => int32(entry, 8)?,
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
        ("bigtiff", b"II\x2B\0\x08\0\0\0\x10\0\0\0\0\0\0\0", (0, 0, Mode::Unknown, 0)),
    ];
}
