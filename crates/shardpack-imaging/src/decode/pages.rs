//! Detects further pictures in a file (pages of a TIFF, frames of an animation); only the first is decoded.
//!
//! Reads headers only. A TIFF directory marked as a reduced version of another picture, or as a mask, is not a page.

use shardpack_format::image_header::Kind;

/// Maximum number of TIFF directories to read, which ends loops.
const MAX_PAGES: usize = 1 << 16;

/// Whether there is a second page or frame.
pub(crate) fn has_more(bytes: &[u8], kind: Kind) -> bool {
    match kind {
        Kind::Tiff => tiff(bytes).unwrap_or(false),
        Kind::Gif => gif(bytes).is_some(),
        Kind::Png => png(bytes).unwrap_or(false),
        Kind::Webp => webp(bytes),
        _ => false,
    }
}

/// A number of `length` bytes at `at`.
fn number(bytes: &[u8], at: usize, length: usize, is_big_endian: bool) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(length)?)?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(if is_big_endian { found.iter().fold(0, add) } else { found.iter().rev().fold(0, add) })
}

/// Source: TIFF 6.0, section 2, and the BigTIFF design of 2004: each directory ends with the offset of the next.
fn tiff(bytes: &[u8]) -> Option<bool> {
    let is_big_endian = bytes.starts_with(b"MM");
    let number = |at, length| number(bytes, at, length, is_big_endian);
    let is_big = number(2, 2)? == 43;
    // Lengths of an offset, of the number of entries, and of an entry.
    let (offset, count, entry) = if is_big { (8, 8, 20) } else { (4, 2, 12) };
    let mut at = usize::try_from(number(if is_big { 8 } else { 4 }, offset)?).ok()?;
    for page in 0..MAX_PAGES {
        let entries = usize::try_from(number(at, count)?).ok()?;
        let first = at.checked_add(count)?;
        let end = first.checked_add(entries.checked_mul(entry)?)?;
        // A directory outside the file is not a page.
        bytes.get(first..end)?;
        if page > 0
            && !(first..end).step_by(entry).any(|at| is_part_of_another(number, at, if is_big { 12 } else { 8 }))
        {
            return Some(true);
        }
        at = usize::try_from(number(end, offset)?).ok()?;
        if at == 0 {
            return Some(false);
        }
    }
    Some(false)
}

/// Whether the entry at `at` marks its directory as a reduced version of another picture, or as a mask: tag 254, bits
/// 0 and 2.
fn is_part_of_another(number: impl Fn(usize, usize) -> Option<u64>, at: usize, value: usize) -> bool {
    number(at, 2) == Some(254) && number(at + value, 4).is_some_and(|kind| kind & 0b101 != 0)
}

/// Offset of the second image descriptor. Source: GIF89a, appendix B.
fn gif(bytes: &[u8]) -> Option<usize> {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let mut at = 13 + table(*bytes.get(10)?);
    let mut frames = 0;
    loop {
        match bytes.get(at)? {
            b',' if frames == 1 => return Some(at),
            b',' => {
                frames += 1;
                // A descriptor, its colour table, and the code size.
                at += 10 + table(*bytes.get(at + 9)?) + 1;
            }
            b'!' => at += 2,
            _ => return None,
        }
        // Blocks of data, up to an empty one.
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1 + length;
            if length == 0 {
                break;
            }
        }
    }
}

/// Source: PNG, third edition, 11.3.6.1: `acTL` stands before the first `IDAT` and begins with the number of frames.
fn png(bytes: &[u8]) -> Option<bool> {
    let mut at = 8_usize;
    loop {
        let length = usize::try_from(number(bytes, at, 4, true)?).ok()?;
        match bytes.get(at + 4..at + 8)? {
            b"acTL" => return Some(number(bytes, at + 8, 4, true)? > 1),
            b"IDAT" => return Some(false),
            _ => at = at.checked_add(12)?.checked_add(length)?,
        }
    }
}

/// Source: RFC 9649, section 2.7: each frame is a chunk `ANMF`.
fn webp(bytes: &[u8]) -> bool {
    let (mut at, mut frames) = (12_usize, 0);
    while let Some(length) = number(bytes, at + 4, 4, false) {
        frames += u32::from(&bytes[at..at + 4] == b"ANMF");
        at = at.saturating_add(8).saturating_add(length.next_multiple_of(2) as usize);
        if frames > 1 || at > bytes.len() {
            break;
        }
    }
    frames > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiff_of(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = b"II\x2A\0\x08\0\0\0".to_vec();
        for (page, kind) in kinds.iter().enumerate() {
            let next = if page + 1 == kinds.len() { 0 } else { bytes.len() as u32 + 18 };
            bytes.extend([1, 0, 254, 0, 4, 0, 1, 0, 0, 0]);
            bytes.extend(kind.to_le_bytes());
            bytes.extend(next.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn pages_of_a_tiff_are_counted_and_its_thumbnails_are_not() {
        let rows: [(&[u32], bool); 5] =
            [(&[0], false), (&[0, 0], true), (&[0, 1], false), (&[0, 1, 2], true), (&[0, 4], false)];
        for (kinds, expected) in rows {
            assert_eq!(has_more(&tiff_of(kinds), Kind::Tiff), expected, "{kinds:?}");
        }
        let circle = [&tiff_of(&[1])[..22], &8_u32.to_le_bytes()].concat();
        assert!(!has_more(&circle, Kind::Tiff));
        for end in 0..44 {
            has_more(&tiff_of(&[0, 0])[..end], Kind::Tiff);
        }
    }

    #[test]
    fn frames_of_animations_are_counted() {
        let gif = |frames: usize| {
            let frame = b",\0\0\0\0\x01\0\x01\0\0\x02\x01\0\0";
            [&b"GIF89a\x01\0\x01\0\0\0\0!\xF9\x04\0\0\0\0\0"[..], &frame.repeat(frames), b";"].concat()
        };
        let chunk = |name: &[u8], data: &[u8]| [&(data.len() as u32).to_be_bytes(), name, data, &[0; 4]].concat();
        let png = |frames: u32| {
            [vec![0; 8], chunk(b"acTL", &[&frames.to_be_bytes()[..], &[0; 4]].concat()), chunk(b"IDAT", b"")].concat()
        };
        let webp = |frames: usize| [&b"RIFF\0\0\0\0WEBP"[..], &b"ANMF\x01\0\0\0x\0".repeat(frames)].concat();
        for (frames, expected) in [(1, false), (2, true), (3, true)] {
            assert_eq!(has_more(&gif(frames), Kind::Gif), expected, "GIF of {frames}");
            assert_eq!(has_more(&png(frames as u32), Kind::Png), expected, "PNG of {frames}");
            assert_eq!(has_more(&webp(frames), Kind::Webp), expected, "WebP of {frames}");
        }
        for end in 0..gif(2).len() {
            has_more(&gif(2)[..end], Kind::Gif);
            has_more(&png(2)[..end.min(png(2).len())], Kind::Png);
            has_more(&webp(2)[..end.min(webp(2).len())], Kind::Webp);
        }
    }
}
