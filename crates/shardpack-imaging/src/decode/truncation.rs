//! Detects truncated files. Decoders stop at the last pixel they need; a file that is cut behind it is still
//! truncated.
//!
//! Data behind the end is ignored.

use shardpack_format::image_header::Kind;

/// Whether the end of the file's structure lies within `bytes`; always true for kinds without such an end.
pub(super) fn is_whole(bytes: &[u8], kind: Kind) -> bool {
    match kind {
        Kind::Jpeg => bytes.ends_with(&[0xFF, 0xD9]) || jpeg(bytes).is_some(),
        Kind::Png => png(bytes).is_some(),
        Kind::Gif => gif(bytes).is_some(),
        // The length counts the bytes behind it.
        Kind::Webp => le32(bytes, 4).is_some_and(|length| length as usize <= bytes.len() - 8),
        _ => true,
    }
}

/// Whether all chunks of a WebP lie within `bytes`. Source: RFC 9649, 2.3 (RIFF file format).
pub(super) fn webp_chunks_are_within(bytes: &[u8]) -> bool {
    let mut at = 12;
    while at + 8 <= bytes.len() {
        let length = le32(bytes, at + 4).unwrap_or(u32::MAX) as usize;
        if length > bytes.len() - at - 8 {
            return false;
        }
        at += 8 + length + length % 2;
    }
    true
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// Walks from marker to marker up to EOI; the data of a scan has no markers but restart markers, which have no length.
///
/// Source: ITU-T T.81, B.1.1 and B.2.
fn jpeg(bytes: &[u8]) -> Option<()> {
    let mut rest = bytes.get(2..)?.iter();
    loop {
        rest.find(|&&byte| byte == 0xFF)?;
        match *rest.find(|&&byte| byte != 0xFF)? {
            0x00 | 0x01 | 0xD0..=0xD8 => {}
            0xD9 => return Some(()),
            _ => {
                let segment = rest.as_slice();
                let length = u16::from_be_bytes(*segment.first_chunk()?);
                rest = segment.get(usize::from(length)..)?.iter();
            }
        }
    }
}

/// Walks from chunk to chunk up to IEND. Source: PNG third edition, 5.3.
fn png(bytes: &[u8]) -> Option<()> {
    let mut rest = bytes.get(8..)?;
    loop {
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let is_end = rest.get(4..8)? == b"IEND";
        // Length, type, checksum.
        rest = rest.get(length.checked_add(12)?..)?;
        if is_end {
            return Some(());
        }
    }
}

/// Walks from block to block up to the trailer. Source: GIF89a, sections 17 to 27 and appendix A.
fn gif(bytes: &[u8]) -> Option<()> {
    let colours = |packed: u8| if packed & 0x80 != 0 { 3 << ((packed & 7) + 1) } else { 0 };
    let mut rest = bytes.get(13 + colours(*bytes.get(10)?)..)?;
    loop {
        rest = match rest.first()? {
            0x3B => return Some(()),
            // An image: its descriptor, its colours, the code size.
            0x2C => rest.get(11 + colours(*rest.get(9)?)..)?,
            // An extension: its label.
            0x21 => rest.get(2..)?,
            // Some writers put zeros between blocks; giflib and Pillow skip them.
            0x00 => {
                rest = &rest[1..];
                continue;
            }
            _ => return None,
        };
        // Sub-blocks, each with its length before it, up to an empty one.
        loop {
            let length = usize::from(*rest.first()?);
            rest = rest.get(1 + length..)?;
            if length == 0 {
                break;
            }
        }
    }
}
