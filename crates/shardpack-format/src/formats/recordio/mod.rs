//! MXNet RecordIO: consecutive records, each a magic word, a small header and an image.
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
//! All fields are little-endian. A payload is one part, unless it contains the magic at a multiple of 4.
//!
//! # Specification
//! dmlc-core, `recordio.h` and `recordio.cc`; mxnet 1.9.1, `python/mxnet/recordio.py` (`IRHeader`,
//! `MXIndexedRecordIO`). No other specification exists.
//!
//! # Read by
//! MXNet and GluonCV, NVIDIA DALI, InsightFace's loaders.
//!
//! # Quirks
//! - A label is an f32, exact to 2^24 only. The writer refuses larger labels.
//! - MXNet detects an invalid magic or length, but not parts out of order. It reads a lone last part as a whole record,
//!   and appends the next record to a part with an unknown cflag. Both are errors here.
//! - DALI expects the whole header in the first part, so the writer refuses an id that contains the magic.
//! - An index line is `id TAB offset LF`; MXNet refuses a blank line. DALI needs one index for all files, with offsets
//!   into their concatenation: `NAME-dali.idx`.

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

/// Entry in the list of formats.
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
