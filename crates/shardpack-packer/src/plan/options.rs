//! Options that decide the bytes of shards: order, cuts, format, compression, and the check of images.

use serde::{Deserialize, Serialize};
use shardpack_format::formats::Choice;

/// Order of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Keyed bijection.
    Shuffled,
    /// Order of the source: canonical order of files, stored order of shards.
    Source,
}

/// Where shards are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// Shards of at most this many bytes, all of about one size.
    ShardSize(u64),
    /// Shards of at most this many samples; numbers of samples differ by at most 1.
    ShardSamples(u64),
    /// This number of shards; numbers of samples differ by at most 1.
    Shards(u64),
}

/// How a shard is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    None,
    /// zstd at this level, in the frames of the format.
    Zstd(i32),
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

/// All options that decide the bytes of the shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Name of shards if the source has no splits.
    pub name: String,
    /// Order of the samples.
    pub order: Order,
    /// Seed of the order.
    pub seed: u64,
    /// Where shards are cut.
    pub cut: Cut,
    /// The format; its extension is set after the source was inspected.
    pub format: Choice,
    /// How shards are compressed.
    pub compression: Compression,
    /// Check of images before they are packed.
    #[serde(default, skip_serializing_if = "Check::is_header")]
    pub check: Check,
    /// Preprocessing of images as text, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
}

/// Check of an image before it is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// No check: the index records the values in the image's headers.
    #[default]
    Header,
    /// Reads every Huffman code of a single-scan JPEG. Other images, and JPEGs with several scans, are decoded
    /// in full.
    Entropy,
    /// Decodes the whole image.
    Full,
}

impl Check {
    /// Whether headers are enough.
    pub fn is_header(&self) -> bool {
        *self == Self::Header
    }
}
