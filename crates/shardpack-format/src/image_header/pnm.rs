//! PNM: the numbers in front of the pixels.

use super::{Header, Kind, Mode};

/// Source: Netpbm, pbm(5), pgm(5) and ppm(5), each "The layout" and "Plain".
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let (magic, mut rest) = bytes.split_first_chunk::<2>()?;
    let (width, height) = (number(&mut rest)?, number(&mut rest)?);
    let largest = if matches!(magic, b"P1" | b"P4") { 1 } else { number(&mut rest)? };
    let mode = if matches!(magic, b"P3" | b"P6") { Mode::Rgb } else { Mode::Gray };
    Some(Header { kind: Kind::Pnm, width, height, mode, depth: (u32::BITS - largest.leading_zeros()) as u8 })
}

/// The number that `rest` begins with, behind space and comments; none where more digits may have been cut off.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let mut in_comment = false;
    let start = rest.iter().position(|&byte| {
        in_comment = if in_comment { !matches!(byte, b'\r' | b'\n') } else { byte == b'#' };
        !in_comment && !byte.is_ascii_whitespace()
    })?;
    let tail = rest.get(start..)?;
    let (digits, tail) = tail.split_at_checked(tail.iter().position(|byte| !byte.is_ascii_digit())?)?;
    *rest = tail;
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Mode, tests::Row};

    pub(in super::super) const ROWS: &[Row] = &[
        ("pbm, plain", b"P1\n7 5\n0 1 0", (7, 5, Mode::Gray, 1)),
        ("pgm, plain", b"P2 7 5 15 ", (7, 5, Mode::Gray, 4)),
        ("ppm, plain", b"P3\t7\r\n5\r\n255\r\n", (7, 5, Mode::Rgb, 8)),
        ("pbm", b"P4\n640 480\n", (640, 480, Mode::Gray, 1)),
        ("pgm, two bytes a pixel", b"P5\n640 480\n65535\n", (640, 480, Mode::Gray, 16)),
        ("ppm with comments", b"P6#one 1\n# 2\n #\n640#three 3\n480 # 4\r255\n", (640, 480, Mode::Rgb, 8)),
        ("ppm, number too large", b"P6 4294967296 1 255\n", (0, 0, Mode::Unknown, 0)),
        ("ppm, no number", b"P6 640x480 255\n", (0, 0, Mode::Unknown, 0)),
        ("ppm, comment without end", b"P6 # 640 480 255", (0, 0, Mode::Unknown, 0)),
    ];
}
