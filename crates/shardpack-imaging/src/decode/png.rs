//! Reads PNG data beside the pixels: the checksums of all chunks, and Exif in a text chunk from ImageMagick.

use std::io::Read;

use flate2::{Crc, read::ZlibDecoder};
use shardpack_format::image_header::Kind;

use crate::Refused;

/// Limit for unpacked text: Exif of a camera is shorter.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// A chunk: its offset, its type, its content, its checksum.
struct Chunk<'a> {
    at: usize,
    name: [u8; 4],
    held: &'a [u8],
    /// Type and content.
    covered: &'a [u8],
    checksum: u32,
}

/// Iterates over the chunks up to IEND, or to the last complete chunk. Source: PNG third edition, 5.3.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut next = Some(8);
    std::iter::from_fn(move || {
        let at = next.take()?;
        let rest = bytes.get(at..)?;
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let covered = rest.get(4..length.checked_add(8)?)?;
        let (name, held) = covered.split_first_chunk()?;
        let checksum = u32::from_be_bytes(*rest.get(length + 8..)?.first_chunk()?);
        next = (name != b"IEND").then_some(at + length + 12);
        Some(Chunk { at, name: *name, held, covered, checksum })
    })
}

/// Refuses a file with a wrong chunk checksum, whether the decoder uses the chunk or skips it.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Refused> {
    let is_wrong = |chunk: &Chunk<'_>| {
        let mut checksum = Crc::new();
        checksum.update(chunk.covered);
        checksum.sum() != chunk.checksum
    };
    match chunks(bytes).find(is_wrong) {
        None => Ok(()),
        Some(chunk) => {
            let what = format!("the checksum of chunk {} at byte {} is wrong", chunk.name.escape_ascii(), chunk.at);
            Err(Refused::Damaged(Kind::Png, what))
        }
    }
}

/// Exif in a text chunk with the keyword `Raw profile type exif` or `… APP1`: a name, a length, and hexadecimal digits
/// in lines.
///
/// Source: ImageMagick 7, `coders/png.c`; PNG third edition, 11.3.3 (tEXt, zTXt).
pub(super) fn raw_exif(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = |chunk: Chunk<'_>| {
        let end = chunk.held.iter().position(|byte| *byte == 0)?;
        let (keyword, rest) = (&chunk.held[..end], &chunk.held[end + 1..]);
        let is_exif = keyword == b"Raw profile type exif" || keyword == b"Raw profile type APP1";
        match (&chunk.name, rest) {
            _ if !is_exif => None,
            (b"tEXt", text) => Some(text.to_vec()),
            // Method 0 is deflate.
            (b"zTXt", [0, packed @ ..]) => {
                let mut text = Vec::new();
                ZlibDecoder::new(packed).take(MAX_TEXT_BYTES).read_to_end(&mut text).ok()?;
                Some(text)
            }
            _ => None,
        }
    };
    let text = chunks(bytes).find_map(text)?;
    let mut words = text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let length: usize = str::from_utf8(words.nth(1)?).ok()?.parse().ok()?;
    let digits: Vec<u8> =
        words.flatten().map(|digit| char::from(*digit).to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let exif: Vec<u8> = digits.as_chunks::<2>().0.iter().take(length).map(|[high, low]| high << 4 | low).collect();
    let bare = exif.strip_prefix(b"Exif\0\0").unwrap_or(&exif);
    (exif.len() == length && !bare.is_empty()).then(|| bare.to_vec())
}
