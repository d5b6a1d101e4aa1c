//! The error type of this crate (the reason why an image is refused), and the limits on its size.

use std::fmt;

use shardpack_format::{image_header::Kind, size};

/// Limits on the size of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Width times height.
    pub pixels: u64,
    /// Memory for the pixels of one image, in bytes; a [`Budget`](crate::Budget) bounds the temporary memory of
    /// decoders.
    pub bytes: u64,
}

impl Default for Limits {
    /// Pillow's limit before it reports a decompression bomb, and 2 GiB.
    fn default() -> Self {
        Self { pixels: 178_956_970, bytes: 2 << 30 }
    }
}

impl Limits {
    /// Refuses an image that is too large, before any allocation.
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

/// A decoder's message as one line of plain words: without line feeds, type names and debug output.
pub(crate) fn plain(said: &str) -> String {
    let is_for_programmers = |word: &&str| {
        let bytes = word.as_bytes();
        let humps = bytes.windows(2).filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        // sBIT and iCCP are chunk names, and have no lower-case letter behind an upper-case one.
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

/// Reason why an image is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// This build has no decoders: see [`HAS_DECODE`](crate::HAS_DECODE).
    NoDecodeFeature,
    /// There is no decoder here for this kind; [`Kind::Unknown`] if the first bytes are not an image.
    NoDecoder(Kind),
    /// Its header declares more than [`Limits`] allow.
    TooLarge {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// The work needs more memory than allowed; in bytes.
    OverBudget {
        /// Needed memory.
        needed: u64,
        /// Allowed memory.
        allowed: u64,
    },
    /// The work needs more memory than the system has; in bytes.
    NoMemory {
        /// Needed memory.
        needed: u64,
    },
    /// Truncated or damaged, with the decoder's message.
    Damaged(Kind, String),
    /// A variant of its kind that has no decoder here, with its name; the file may be whole or damaged.
    Unsupported(Kind, String),
    /// The requested kind of file cannot hold it.
    Unwritable(Kind, String),
    /// The requested part is not within the image, or is empty.
    NoSuchPart,
    /// The part of a transform is not within the image of this size.
    OutsideImage {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// A random crop is larger than the image with its padding.
    SmallerThanCrop {
        /// Pixels across, after the resize, with padding.
        width: u64,
        /// Pixels down, after the resize, with padding.
        height: u64,
    },
    /// The slot for the result is too short or too long.
    SlotLength {
        /// Needed bytes.
        expected: usize,
        /// Bytes of the slot.
        found: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |kind: &Kind| kind.name().to_uppercase();
        match self {
            Refused::NoDecodeFeature => f.write_str("this build cannot decode images (it lacks the feature decode)"),
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
            Refused::OutsideImage { width, height } => {
                write!(f, "the box is not within the image of {width} × {height} pixels")
            }
            Refused::SmallerThanCrop { width, height } => {
                write!(
                    f,
                    "{width} × {height} pixels, padding included, are less than RandomCrop takes; pad_if_needed pads them"
                )
            }
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
