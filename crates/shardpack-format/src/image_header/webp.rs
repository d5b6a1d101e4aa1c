//! WebP: the first chunk, which is one of three.

use super::{Header, Kind, Mode, array, le16, le32};

/// Source: RFC 9649, 2.5 (VP8), 2.6 and 3.4 (VP8L), 2.7 (VP8X); RFC 6386, 9.1 (frame header of VP8).
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let (width, height, alpha) = match &array(bytes, 12)? {
        // The two bits above each size ask to scale up for display.
        b"VP8 " if array(bytes, 23)? == [0x9D, 0x01, 0x2A] => {
            (u32::from(le16(bytes, 26)? & 0x3FFF), u32::from(le16(bytes, 28)? & 0x3FFF), false)
        }
        b"VP8L" if array(bytes, 20)? == [0x2F] => {
            let bits = le32(bytes, 21)?;
            ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, bits >> 28 & 1 == 1)
        }
        b"VP8X" => {
            let [flags] = array(bytes, 20)?;
            let [w0, w1, w2, h0, h1, h2] = array(bytes, 24)?;
            (u32::from_le_bytes([w0, w1, w2, 0]) + 1, u32::from_le_bytes([h0, h1, h2, 0]) + 1, flags & 0x10 != 0)
        }
        _ => return None,
    };
    let mode = if alpha { Mode::Rgba } else { Mode::Rgb };
    Some(Header { kind: Kind::Webp, width, height, mode, depth: 8 })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Mode, tests::Row};

    pub(in super::super) const ROWS: &[Row] = &[
        (
            "webp, lossy",
            b"RIFF\x90\0\0\0WEBPVP8 \x84\0\0\0\xD0\x01\0\x9D\x01\x2A\x80\x42\xE0\x81",
            (640, 480, Mode::Rgb, 8),
        ),
        ("webp, lossless", b"RIFF\x90\0\0\0WEBPVP8L\x84\0\0\0\x2F\x7F\xC2\x77\0", (640, 480, Mode::Rgb, 8)),
        (
            "webp, lossless with alpha",
            b"RIFF\x90\0\0\0WEBPVP8L\x84\0\0\0\x2F\xFF\xFF\xFF\x1F",
            (16384, 16384, Mode::Rgba, 8),
        ),
        ("webp, extended", b"RIFF\x90\0\0\0WEBPVP8X\x0A\0\0\0\x08\0\0\0\x7F\x02\0\xDF\x01\0", (640, 480, Mode::Rgb, 8)),
        (
            "webp, extended with alpha",
            b"RIFF\x90\0\0\0WEBPVP8X\x0A\0\0\0\x10\0\0\0\xFF\xFF\xFF\0\0\0",
            (1 << 24, 1, Mode::Rgba, 8),
        ),
        (
            "webp, lossy without its start code",
            b"RIFF\x90\0\0\0WEBPVP8 \x84\0\0\0\xD0\x01\0\0\0\0\x80\x42\xE0\x81",
            (0, 0, Mode::Unknown, 0),
        ),
        (
            "webp, another chunk",
            b"RIFF\x90\0\0\0WEBPEXIF\x84\0\0\0\xD0\x01\0\x9D\x01\x2A\x80\x42\xE0\x81",
            (0, 0, Mode::Unknown, 0),
        ),
    ];
}
