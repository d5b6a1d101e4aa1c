//! What readers of TFRecord files look for beside them: the index of DALI and of the package `tfrecord`.

use crate::{
    Result,
    formats::sidecars::{CLASSES, Files, Kind, LABELS, Sealed},
};

/// Name of the index for DALI.
pub(super) const DALI: &str = "dali";

/// All of them.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: DALI,
        about: "<shard>.idx for NVIDIA DALI and the package tfrecord: offset and length of each record",
        auto: true,
        of_shards: true,
        path_fits: None,
    },
    CLASSES,
    LABELS,
];

/// Text is handed on in pieces of about this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Writes, beside a shard, a line `offset length` for each record, its 16 bytes of framing counted.
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
