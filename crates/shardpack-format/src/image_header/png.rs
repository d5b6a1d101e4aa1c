//! PNG: the chunk IHDR.

use super::{Header, Kind, Mode, array, be32};

/// Source: W3C PNG, third edition, 5.2 (signature) and 11.2, "IHDR Image header", which is the first chunk.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    if array(bytes, 12)? != *b"IHDR" {
        return None;
    }
    let (width, height) = (be32(bytes, 16)?, be32(bytes, 20)?);
    let [depth, colour_type] = array(bytes, 24)?;
    let mode = match colour_type {
        0 => Mode::Gray,
        2 => Mode::Rgb,
        3 => Mode::Palette,
        4 => Mode::GrayAlpha,
        6 => Mode::Rgba,
        _ => Mode::Unknown,
    };
    Some(Header { kind: Kind::Png, width, height, mode, depth })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Mode, tests::Row};

    pub(in super::super) const ROWS: &[Row] = &[
        ("png, gray", b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\x07\0\0\0\x05\x01\0\0\0\0", (7, 5, Mode::Gray, 1)),
        ("png, rgb", b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xE0\x10\x02\0\0\0", (640, 480, Mode::Rgb, 16)),
        ("png, palette", b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\x07\0\0\0\x05\x04\x03\0\0\0", (7, 5, Mode::Palette, 4)),
        (
            "png, gray alpha",
            b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\x07\0\0\0\x05\x08\x04\0\0\0",
            (7, 5, Mode::GrayAlpha, 8),
        ),
        (
            "png, rgba",
            b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR\xFF\xFF\xFF\xFF\0\0\0\x05\x08\x06\0\0\x01",
            (u32::MAX, 5, Mode::Rgba, 8),
        ),
        (
            "png, another colour type",
            b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\x07\0\0\0\x05\x08\x05\0\0\0",
            (7, 5, Mode::Unknown, 8),
        ),
        ("png, no width", b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\0\0\0\0\x05\x08\x02\0\0\0", (0, 0, Mode::Rgb, 8)),
        (
            "png, another first chunk",
            b"\x89PNG\r\n\x1A\n\0\0\0\x04CgBI\x50\0\x20\x02\0\0\0\0\0\0",
            (0, 0, Mode::Unknown, 0),
        ),
    ];
}
