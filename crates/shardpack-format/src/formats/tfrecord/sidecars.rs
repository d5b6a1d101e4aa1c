//! Writes the sidecar of TFRecord shards: an index for DALI and the package `tfrecord`.

use crate::{
    Result,
    formats::sidecars::{CLASSES, Files, Kind, LABELS, Sealed},
};

/// Name of the index for DALI.
pub(super) const DALI: &str = "dali";

/// All sidecar kinds of the format.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: DALI,
        about: "<shard>.idx for NVIDIA DALI and the package tfrecord: offset and length of each record",
        files: &["{shard}.idx"],
        auto: true,
        of_shards: true,
        path_fits: None,
        catalogue: None,
    },
    CLASSES,
    LABELS,
];

/// Approximate length in bytes of each write.
const PIECE_BYTES: usize = 64 * 1024;

/// Writes the index of a shard: a line `offset length` for each record. The length includes the 16 bytes of framing.
///
/// Source: DALI `tools/tfrecord2idx`; tfrecord 1.14.6, `tools/tfrecord2idx.py`.
pub(super) fn dali(of: &Sealed<'_>, out: &mut dyn Files) -> Result<()> {
    let mut text = String::new();
    out.begin(&format!("{}.idx", of.shard.file))?;
    for row in of.index.iter() {
        let row = row?;
        text += &format!("{} {}\n", row.offset, row.record_bytes);
        if text.len() >= PIECE_BYTES {
            out.write(text.as_bytes())?;
            text.clear();
        }
    }
    out.write(text.as_bytes())
}
