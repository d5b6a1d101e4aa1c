//! GIF: the logical screen.

use super::{Header, Kind, Mode, array, le16};

/// The depth is that of the global colour table, unknown where each image brings its own.
///
/// Source: GIF89a, section 17 (header) and 18 (logical screen descriptor).
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let (width, height) = (le16(bytes, 6)?.into(), le16(bytes, 8)?.into());
    let [packed] = array(bytes, 10)?;
    let depth = if packed & 0x80 != 0 { (packed & 7) + 1 } else { 0 };
    Some(Header { kind: Kind::Gif, width, height, mode: Mode::Palette, depth })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Mode, tests::Row};

    pub(in super::super) const ROWS: &[Row] = &[
        ("gif, 256 colours", b"GIF89a\x80\x02\xE0\x01\xF7\0\0", (640, 480, Mode::Palette, 8)),
        ("gif, two colours", b"GIF87a\x07\0\x05\0\x80\0\0", (7, 5, Mode::Palette, 1)),
        ("gif, no global colour table", b"GIF89a\x07\0\x05\0\x77\0\0", (7, 5, Mode::Palette, 0)),
    ];
}
