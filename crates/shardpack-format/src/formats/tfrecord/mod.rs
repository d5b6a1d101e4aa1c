//! TFRecord: a sequence of records with checksums; each record is one `tf.train.Example`.
//!
//! # Bytes
//! ```text
//! 0      u64  length of the data, little-endian
//! 8      u32  masked CRC-32C of those 8 bytes
//! 12     data: a tf.train.Example
//! 12+n   u32  masked CRC-32C of the data
//! …      the next record; nothing before the first, nothing behind the last
//! ```
//! masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8, modulo 2^32. The data, with features in the order of keys:
//! ```text
//! 0a len  Features
//!   0a len  entry, once for each feature
//!     0a len key
//!     12 len Feature
//!       0a len BytesList: 0a len bytes            or   1a len Int64List: 0a len varint
//! ```
//! `image/class/label` int64, `image/class/text` bytes, `image/encoded` bytes, `image/filename` bytes, `image/format`
//! bytes, `image/height` int64, `image/width` int64. Each feature has one value.
//!
//! # Specification
//! TensorFlow 2.21, `core/lib/io/record_writer.h`, `core/example/example.proto` and `feature.proto`; Protocol Buffers,
//! "Encoding". CRC-32C: RFC 3720, 12.1.
//!
//! # Read by
//! TensorFlow (`tf.data`), NVIDIA DALI, the Python package `tfrecord`, torchdata.
//!
//! # Quirks
//! - Offsets are fixed before any image is read, so values from the image's bytes must not change them. `image/height`
//!   and `image/width` are varints of five bytes, padded with continuation bytes: `05` is `85 80 80 80 00`. The length
//!   of `image/format` is padded so that length and letters take five bytes: `PNG` is `83 00 50 4e 47`. Such varints are
//!   longer than necessary, but legal. Readers of Protocol Buffers accept up to ten bytes for a number, and up to five
//!   for a length.
//! - An image of unknown kind has an empty `image/format`. An image of unknown size has height and width 0.
//! - Labels begin at 0 here, but at 1 in the classic ImageNet converters (0 is their background): see `label_offset`.
//! - TensorFlow accepts a file that is truncated inside the first 12 bytes of a record. DALI and `tfrecord` verify no
//!   checksum.
//! - The index beside a shard is `<shard>.idx`; a pattern such as `train-*` matches both.

mod example;
mod layout;
mod pixels;
mod reader;
mod sidecars;
mod values;
mod writer;

pub use layout::frame;
pub use writer::TfRecord;

use super::Setting;

/// Name on the command line and in the manifest.
pub const NAME: &str = "tfrecord";

/// Entry in the list of formats.
pub(super) const ENTRY: super::Entry = super::Entry {
    name: NAME,
    aliases: &["tf", "tfrecords"],
    about: "TFRecord files of tf.train.Example",
    has_extensions: false,
    has_components: true,
    without_labels: writer::without_labels,
    settings: &[
        Setting {
            name: writer::LABEL_OFFSET,
            about: "number added to every label: 0, or 1 as in the classic ImageNet converters [default: 0]",
        },
        Setting {
            name: writer::FEATURES,
            about: "keys of the features to write, with commas between; image/encoded always is [default: all]",
        },
    ],
    sidecars: sidecars::KINDS,
    open: |choice| Ok(Box::new(TfRecord::new(choice)?)),
    foreign: &reader::TfRecords,
};
