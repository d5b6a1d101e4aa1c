//! All that decides the bytes of shards beside the source: order, cuts, format, compression, and what is asked of images.

use serde::{Deserialize, Serialize};
use shardpack_format::formats::Choice;

/// Order of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By the keyed bijection.
    Shuffled,
    /// That of the source: canonical order of files, stored order of shards.
    Source,
}

/// Where shards are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// Shards of at most so many bytes, all of about one size.
    ShardSize(u64),
    /// Shards of at most so many samples, all of one count ± 1.
    ShardSamples(u64),
    /// So many shards, of one count ± 1.
    Shards(u64),
}

/// How a shard is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    None,
    /// zstd at this level, in frames as the format has them.
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

/// All that decides the bytes of the shards beside the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Name of shards where the source has no splits.
    pub name: String,
    /// Order of the samples.
    pub order: Order,
    /// Seed of the order.
    pub seed: u64,
    /// Where shards are cut.
    pub cut: Cut,
    /// The format; the extension in it is settled when the source has been looked at.
    pub format: Choice,
    /// How shards are compressed.
    pub compression: Compression,
    /// What is asked of images before they are packed.
    #[serde(default, skip_serializing_if = "Check::is_header")]
    pub check: Check,
    /// How images were changed, in words, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
}

/// What is asked of an image before it is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Nothing: what its headers say goes to the index.
    #[default]
    Header,
    /// That a JPEG has all its Huffman codes and each of them is one; of other images, and of JPEGs whose codes are in
    /// several scans, that all of it decodes.
    Entropy,
    /// That all of it decodes.
    Full,
}

impl Check {
    /// Whether headers are enough.
    pub fn is_header(&self) -> bool {
        *self == Self::Header
    }
}
