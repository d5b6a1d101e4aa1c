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
//! Little-endian, nothing padded. Columns are in the order of their names. Those that are written: `filename` (`str`,
//! the original path), `image` (`jpeg`, the file as it is), `label` (`int`: i64, without a length).
//!
//! # Specification
//! None but the code: mosaicml-streaming 0.13.0, `streaming/base/format/mds` (2025).
//!
//! # Read by
//! mosaicml-streaming: `StreamingDataset`, which reads the columns from `index.json` and never those in the shard.
//!
//! # Quirks
//! - Offsets are 32 bits wide, so a shard stays below 4 GiB.
//! - JSON is what Python's `json.dumps(sort_keys=True)` makes of it. In the entry of a shard each key is required, and
//!   any other is an error to the reader; `hashes` must be sorted.
//! - A column of encoding `jpeg` may hold an image of any kind: the reader opens it by its content.
//! - The reader takes the path as text, so one that is not UTF-8 is written with replacement characters.
//! - The config in a shard says that there is no compression, whatever was done to the file afterwards.
//! - A `pil` column holds raw pixels behind width, height and mode. Those of mode `RGB` and `L` are read, as the PNM file
//!   of the same pixels.
//! - Hashes are compared only if the reader is told `validate_hash`, and never those of a local file that is not
//!   compressed. A compressed shard is unpacked into the folder in which it lies.

mod layout;
mod reader;
mod sidecars;
#[cfg(test)]
mod tests;
mod writer;

pub use sidecars::{File, IndexJson, Shard, read_index};
pub use writer::Mds;

/// Name on the command line and in the manifest.
pub const NAME: &str = "mds";

/// The format in the list of all.
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
