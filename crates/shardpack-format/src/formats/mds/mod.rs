//! MDS: MosaicML streaming's shards, a table of offsets before the samples, and one `index.json` for all shards.
//!
//! # Bytes
//! ```text
//! 0         u32 samples n
//! 4         u32 offset[n + 1]: where each sample begins, from the start of the file; the last is the file's length
//! 8 + 4 n   JSON: names, encodings and sizes of the columns, hashes, …
//! offset[0] samples, each: u32 length of each column of variable length, in the order of the columns,
//!           then all columns in their order
//! …
//! ```
//! Little-endian, without padding. Columns are in the order of their names. A shard that is written has `filename` (`str`,
//! the original path), `image` (`jpeg`, the file unchanged), and `label` (`int`: i64, without a length).
//!
//! # Specification
//! The code of mosaicml-streaming 0.13.0, `streaming/base/format/mds` (2025); there is no other specification.
//!
//! # Read by
//! mosaicml-streaming: `StreamingDataset`, which reads the columns from `index.json` and never from the shard.
//!
//! # Quirks
//! - Offsets are 32 bits wide, so a shard stays below 4 GiB.
//! - The JSON is the output of Python's `json.dumps(sort_keys=True)`. In the entry of a shard each key is required, and
//!   the reader fails on any other key; `hashes` must be sorted.
//! - A column of encoding `jpeg` may hold an image of any kind: the reader detects the kind from the content.
//! - The reader decodes the path as text, so a path that is not UTF-8 is written with replacement characters.
//! - The config in a shard has no compression, even if the file was compressed afterwards.
//! - A `pil` column holds raw pixels after width, height and mode. The modes `1`, `L` and `RGB` are read as the PNM file
//!   of the same pixels; `LA`, `RGBA`, `I;16`, `I` and `F` as an array in a `.npy` file.
//! - The reader compares hashes only if `validate_hash` is set, and never for a local file without compression.
//!   It unpacks a compressed shard into the shard's own folder.

mod layout;
mod reader;
mod sidecars;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::litdata;
pub use sidecars::{File, IndexJson, Shard, read_index};
pub use writer::Mds;

/// Name on the command line and in the manifest.
pub const NAME: &str = "mds";

/// The format's entry in [`super::ALL`].
pub(super) const ENTRY: super::Entry = super::Entry {
    name: NAME,
    aliases: &["mosaic", "streaming"],
    about: "MosaicML streaming shards with index.json",
    has_extensions: false,
    has_components: true,
    without_labels: writer::without_labels,
    settings: writer::SETTINGS,
    sidecars: sidecars::KINDS,
    open: |choice| Ok(Box::new(Mds::new(choice)?)),
    foreign: &reader::Mds,
};
