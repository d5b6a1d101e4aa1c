//! The error type of this crate: why an image is refused; and the limits on its size.

use std::fmt;

use shardpack_format::{image_header::Kind, size};

/// How large an image may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Width times height.
    pub pixels: u64,
    /// Memory for the pixels of one image, in bytes; what a decoder holds on the way is for a [`Budget`](crate::Budget).
    pub bytes: u64,
}

impl Default for Limits {
    /// What Pillow takes before it calls an image a decompression bomb, and 2 GiB.
    fn default() -> Self {
        Self { pixels: 178_956_970, bytes: 2 << 30 }
    }
}

impl Limits {
    /// Refuses what is too large, before anything is allocated for it.
    pub(crate) fn admit(&self, width: u32, height: u32, bytes_per_pixel: u8) -> Result<(), Refused> {
        let pixels = u64::from(width) * u64::from(height);
        let needed = pixels.saturating_mul(bytes_per_pixel.into());
        match (pixels > self.pixels, needed > self.bytes) {
            (true, _) => Err(Refused::TooLarge { width, height }),
            (_, true) => Err(Refused::OverBudget { needed, allowed: self.bytes }),
            _ => Ok(()),
        }
    }
}

/// What a decoder said, as one line of plain words: without line feeds, names of types and values as programmers print them.
pub(crate) fn plain(said: &str) -> String {
    let is_for_programmers = |word: &&str| {
        let bytes = word.as_bytes();
        let humps = bytes.windows(2).filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        // sBIT and iCCP are names of chunks, and have no small letter behind a large one.
        let is_name = bytes.windows(2).any(|pair| pair[0].is_ascii_uppercase() && pair[1].is_ascii_lowercase());
        (is_name && humps.count() > 0) || word.contains("::")
    };
    let line = said.replace("[strict-mode]: ", "");
    if line.contains(['{', '}']) {
        return "its parts contradict each other".to_owned();
    }
    let words = line.split_whitespace().filter(|word| !is_for_programmers(word));
    let line = words.collect::<Vec<_>>().join(" ").replace(['"', '`'], "");
    let line = line.trim_end_matches(['.', ':', ',', ' ']);
    if line.is_empty() { "it is damaged".to_owned() } else { line.to_owned() }
}

/// Why an image is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There is no decoder here for this kind; [`Kind::Unknown`] where the first bytes are of no image.
    NoDecoder(Kind),
    /// Its header asks for more than [`Limits`] allow.
    TooLarge {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// Work on it takes more memory than is allowed; in bytes.
    OverBudget {
        /// What it takes.
        needed: u64,
        /// What there may be.
        allowed: u64,
    },
    /// Work on it takes more memory than the system gives; in bytes.
    NoMemory {
        /// What it takes.
        needed: u64,
    },
    /// Truncated or damaged; what the decoder said.
    Damaged(Kind, String),
    /// Of a sort of its kind that has no decoder here, and which; whether it is whole is not told.
    Unsupported(Kind, String),
    /// The kind of file that was asked for cannot hold it.
    Unwritable(Kind, String),
    /// The part that was asked for is not within the image, or is empty.
    NoSuchPart,
    /// The place for what is to be made of it is too short or too long.
    SlotLength {
        /// Bytes that are needed.
        expected: usize,
        /// Bytes that there are.
        found: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |kind: &Kind| kind.name().to_uppercase();
        match self {
            Refused::NoDecoder(Kind::Unknown) => f.write_str("no image by its first bytes"),
            Refused::NoDecoder(kind) => write!(f, "{} cannot be decoded here", name(kind)),
            Refused::TooLarge { width, height } => write!(f, "{width} × {height} pixels are more than is allowed"),
            Refused::OverBudget { needed, allowed } => {
                write!(f, "it takes {} of memory, {} are allowed", size::text(*needed), size::text(*allowed))
            }
            Refused::NoMemory { needed } => {
                write!(f, "it takes {} of memory, which the system does not give", size::text(*needed))
            }
            Refused::Damaged(kind, what) => write!(f, "{} does not decode: {what}", name(kind)),
            Refused::Unsupported(kind, what) => write!(f, "{}: {what}", name(kind)),
            Refused::NoSuchPart => f.write_str("the wanted part is not within the image"),
            Refused::SlotLength { expected, found } => write!(f, "a slot of {found} bytes instead of {expected}"),
            Refused::Unwritable(kind, what) => write!(f, "cannot be written as {}: {what}", name(kind)),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decoders_say_becomes_a_line_of_plain_words() {
        let rows = [
            ("Bad DRI length, Corrupt JPEG\n", "Bad DRI length, Corrupt JPEG"),
            ("Corrupt deflate stream. InsufficientInput", "Corrupt deflate stream"),
            ("Chunk ChunkType { type: IDAT } is invalid", "its parts contradict each other"),
            ("[strict-mode]: Extra bytes between headers", "Extra bytes between headers"),
            ("unsupported JPEG feature: SubsamplingRatio", "unsupported JPEG feature"),
            ("the size of the sBIT chunk", "the size of the sBIT chunk"),
            ("DecoderError", "it is damaged"),
        ];
        for (said, expected) in rows {
            assert_eq!(plain(said), expected);
        }
    }
}
