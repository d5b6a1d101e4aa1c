//! JPEG: the frame header, behind any number of marker segments.
//!
//! This runs on every photograph that is packed: it hops from segment to segment and stops before the pixels.

use super::{Header, Kind, Mode, array, be16};

/// A frame that leaves its height to a later DNL segment has no size here.
///
/// Like libjpeg, skips bytes outside every segment, so a file that decodes with a warning has a size here.
/// Source: ITU-T T.81, B.1.1 (markers, fill bytes, Table B.1) and B.2.2 (frame header).
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let mut rest = bytes.get(2..)?.iter();
    loop {
        rest.find(|&&byte| byte == 0xFF)?;
        let marker = *rest.find(|&&byte| byte != 0xFF)?;
        let segment = rest.as_slice();
        match marker {
            // Without a length: a stuffed zero, TEM, RST0 to RST7, SOI.
            0x00 | 0x01 | 0xD0..=0xD8 => {}
            // EOI and SOS: a frame header comes before both.
            0xD9 | 0xDA => return None,
            // SOF0 to SOF15, without DHT, JPG and DAC between them.
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                let [depth] = array(segment, 2)?;
                let (height, width) = (be16(segment, 3)?.into(), be16(segment, 5)?.into());
                let mode = match array(segment, 7)? {
                    [1] => Mode::Gray,
                    [3] => Mode::Rgb,
                    [4] => Mode::Cmyk,
                    _ => Mode::Unknown,
                };
                return Some(Header { kind: Kind::Jpeg, width, height, mode, depth });
            }
            _ => rest = segment.get(usize::from(be16(segment, 0)?)..)?.iter(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::Row;
    use super::*;

    pub(in super::super) const ROWS: &[Row] = &[
        (
            "jpeg, JFIF",
            b"\xFF\xD8\xFF\xE0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\
              \xFF\xC0\0\x11\x08\x01\x77\x01\xF4\x03\x01\x22\0\x02\x11\x01\x03\x11\x01",
            (500, 375, Mode::Rgb, 8),
        ),
        ("jpeg, gray", b"\xFF\xD8\xFF\xC1\0\x0B\x0C\0\x02\0\x03\x01\x01\x11\0", (3, 2, Mode::Gray, 12)),
        (
            "jpeg, progressive cmyk behind fill bytes, a restart marker and two strays",
            b"\xFF\xD8\xFF\xFF\xFF\xFE\0\x04no\xFF\xD0\xFF\x01ab\xFF\0\xFF\xC2\0\x14\x08\x01\0\x02\0\x04",
            (512, 256, Mode::Cmyk, 8),
        ),
        (
            "jpeg with another inside, as thumbnails are",
            b"\xFF\xD8\xFF\xE1\0\x0D\xFF\xD8\xFF\xC0\0\x0B\x08\0\x09\0\x09\
              \xFF\xC4\0\x04\0\0\xFF\xC9\0\x0B\x08\0\x05\0\x06\x01",
            (6, 5, Mode::Gray, 8),
        ),
        (
            "jpeg with a segment without length",
            b"\xFF\xD8\xFF\xFE\0\0\xFF\xC0\0\x0B\x08\0\x05\0\x06\x01",
            (6, 5, Mode::Gray, 8),
        ),
        ("jpeg, height comes later", b"\xFF\xD8\xFF\xC0\0\x11\x08\0\0\0\x06\x03", (0, 0, Mode::Rgb, 8)),
        ("jpeg, two components", b"\xFF\xD8\xFF\xC0\0\x0E\x08\0\x05\0\x06\x02", (6, 5, Mode::Unknown, 8)),
        (
            "jpeg, pixels before any frame",
            b"\xFF\xD8\xFF\xDA\0\x02\xFF\xC0\0\x0B\x08\0\x05\0\x06\x01",
            (0, 0, Mode::Unknown, 0),
        ),
        ("jpeg, ended", b"\xFF\xD8\xFF\xD9\xFF\xC0\0\x0B\x08\0\x05\0\x06\x01", (0, 0, Mode::Unknown, 0)),
    ];

    #[test]
    fn every_frame_marker_is_told_from_its_neighbours() {
        for marker in 0xC0..=0xCF {
            let bytes = [0xFF, 0xD8, 0xFF, marker, 0, 11, 8, 0, 5, 0, 6, 1, 1, 17, 0];
            let found = header(&bytes).is_some();
            assert_eq!(found, ![0xC4, 0xC8, 0xCC].contains(&marker), "marker {marker:02X}");
        }
    }

    #[test]
    fn the_frame_is_found_behind_a_segment_of_any_length() {
        // The content of the segment looks like frames and markers; the real frame is as wide as the segment is long.
        let mut bytes = b"\xFF\xC0\0\x0B\x08\0\x09\0\x09\x01\xFF\xDA".repeat(6000);
        for length in 2..=u16::MAX {
            let [high, low] = length.to_be_bytes();
            let frame = [0xFF, 0xC0, 0, 11, 8, 0, 1, high, low, 1];
            bytes[..6].copy_from_slice(&[0xFF, 0xD8, 0xFF, 0xEF, high, low]);
            let at = 4 + usize::from(length);
            bytes[at..at + frame.len()].copy_from_slice(&frame);
            assert_eq!(header(&bytes).map(|header| header.width), Some(length.into()), "length {length}");
        }
    }
}
