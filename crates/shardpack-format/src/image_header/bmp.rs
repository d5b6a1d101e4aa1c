//! BMP: the header behind the 14 bytes of BITMAPFILEHEADER, in its several lengths.

use super::{Header, Kind, Mode, le16, le32};

/// Source: MS-WMF, 2.2.2.2 to 2.2.2.5 (BitmapCoreHeader, BitmapInfoHeader, V4, V5), 2.1.1.3 (BitCount) and 2.1.1.7
/// (Compression).
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let header_bytes = le32(bytes, 14)?;
    let (width, height, bits) = if header_bytes == 12 {
        (le16(bytes, 18)?.into(), le16(bytes, 20)?.into(), le16(bytes, 24)?)
    } else {
        // A negative height means that the top row comes first.
        (le32(bytes, 18)?, le32(bytes, 22)?.cast_signed().unsigned_abs(), le16(bytes, 28)?)
    };
    let compression = if header_bytes < 40 { 0 } else { le32(bytes, 30)? };
    let (mode, depth) = match (bits, compression) {
        (1 | 2 | 4 | 8, _) => (Mode::Palette, bits as u8),
        // BITFIELDS and ALPHABITFIELDS: masks of red, green, blue; of alpha in the latter and in longer headers.
        (16 | 32, 3 | 6) => {
            let alpha = (compression == 6 || header_bytes >= 56) && le32(bytes, 66)? != 0;
            (if alpha { Mode::Rgba } else { Mode::Rgb }, le32(bytes, 54)?.count_ones() as u8)
        }
        (16, _) => (Mode::Rgb, 5),
        (24 | 32, _) => (Mode::Rgb, 8),
        _ => (Mode::Unknown, 0),
    };
    Some(Header { kind: Kind::Bmp, width, height, mode, depth })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Mode, tests::Row};

    pub(in super::super) const ROWS: &[Row] = &[
        ("bmp, core header", b"BM________\x1A\0\0\0\x0C\0\0\0\x80\x02\xE0\x01\x01\0\x18\0", (640, 480, Mode::Rgb, 8)),
        (
            "bmp, info header, palette",
            b"BM________\x36\0\0\0\x28\0\0\0\x80\x02\0\0\xE0\x01\0\0\x01\0\x04\0\0\0\0\0",
            (640, 480, Mode::Palette, 4),
        ),
        (
            "bmp, top row first",
            b"BM________\x36\0\0\0\x28\0\0\0\x80\x02\0\0\x20\xFE\xFF\xFF\x01\0\x20\0\0\0\0\0",
            (640, 480, Mode::Rgb, 8),
        ),
        (
            "bmp, 16 bits",
            b"BM________\x36\0\0\0\x28\0\0\0\x07\0\0\0\0\0\0\x80\x01\0\x10\0\0\0\0\0",
            (7, 1 << 31, Mode::Rgb, 5),
        ),
        (
            "bmp, fifth header with an alpha mask",
            b"BM________\x8A\0\0\0\x7C\0\0\0\x07\0\0\0\x05\0\0\0\x01\0\x20\0\x03\0\0\0____________________\
              \0\0\xFF\0\0\xFF\0\0\xFF\0\0\0\0\0\0\xFF",
            (7, 5, Mode::Rgba, 8),
        ),
        (
            "bmp, masks behind the info header",
            b"BM________\x36\0\0\0\x28\0\0\0\x07\0\0\0\x05\0\0\0\x01\0\x20\0\x03\0\0\0____________________\
              \0\0\xF0\x3F\0\xFC\x0F\0\xFF\x03\0\0\0\0\0\xC0",
            (7, 5, Mode::Rgb, 10),
        ),
        (
            "bmp, JPEG inside",
            b"BM________\x36\0\0\0\x28\0\0\0\x07\0\0\0\x05\0\0\0\x01\0\0\0\x04\0\0\0",
            (7, 5, Mode::Unknown, 0),
        ),
    ];
}
