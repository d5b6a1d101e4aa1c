//! MXNet RecordIO: records of a small header and an image, one behind the other, marked by a magic word.
//!
//! # Bytes
//! ```text
//! part     0  u32   magic 0xced7230a
//!          4  u32   lrec: cflag << 29 | length; cflag 0 whole, 1 first, 2 middle, 3 last part of a record
//!          8        the data, zeros to a multiple of 4
//! payload  0  u32   flag: number of labels between header and image, or 0: the label is the next field   (0 written)
//!          4  f32   label
//!          8  u64   id
//!         16  u64   id2                                                                                  (0 written)
//!         24        flag × f32, then the image
//! ```
//! All little-endian. A payload is one part, unless the magic stands in it at a multiple of 4.
//!
//! # Specification
//! dmlc-core, `recordio.h` and `recordio.cc`; mxnet 1.9.1, `python/mxnet/recordio.py` (`IRHeader`,
//! `MXIndexedRecordIO`). There is no other.
//!
//! # Read by
//! MXNet and GluonCV, NVIDIA DALI, InsightFace's loaders.
//!
//! # Quirks
//! - A label is an f32, exact to 2^24 only: others are refused when writing.
//! - A reader of MXNet finds a magic or a length that is wrong, but not parts out of order: a lone last part passes as
//!   a whole record, an unknown cflag glues the next record on. Here both are errors.
//! - DALI takes the first part to hold the whole header, so an id that holds the magic is refused when writing.
//! - An index is `id TAB offset LF`; MXNet refuses a blank line in it. DALI wants one for all files, with offsets into
//!   their concatenation: that is `NAME-dali.idx`.

mod layout;
mod parts;
mod reader;
mod sidecars;
mod writer;

pub use parts::join;
pub use reader::read_idx;
pub use writer::RecordIo;

/// Name on the command line and in the manifest.
pub const NAME: &str = "recordio";

/// The format in the list of all.
pub(super) const ENTRY: super::Entry = super::Entry {
    name: NAME,
    aliases: &["rec", "mxnet"],
    about: "RecordIO files for MXNet and DALI",
    has_extensions: false,
    has_components: false,
    without_labels: |_| {},
    settings: &[],
    sidecars: sidecars::KINDS,
    open: |choice| Ok(Box::new(RecordIo::new(choice))),
    foreign: &reader::RecordIo,
};
