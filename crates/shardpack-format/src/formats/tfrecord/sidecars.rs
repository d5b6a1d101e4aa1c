//! What readers of TFRecord files look for beside them: the index of DALI and of the package `tfrecord`.

use crate::{
    Result,
    formats::sidecars::{CLASSES, Dataset, Files, Kind, LABELS},
};

/// Name of the index for DALI.
pub(super) const DALI: &str = "dali";

/// All of them.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: DALI,
        about: "<shard>.idx for NVIDIA DALI and the package tfrecord: offset and length of each record",
        auto: true,
        path_fits: None,
    },
    CLASSES,
    LABELS,
];

/// Text is handed on in pieces of about this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Writes, beside each shard, a line `offset length` for each record, its 16 bytes of framing counted.
///
/// Source: DALI `tools/tfrecord2idx`; tfrecord 1.14.6, `tools/tfrecord2idx.py`.
pub(super) fn dali(dataset: &Dataset<'_>, out: &mut dyn Files) -> Result<()> {
    let mut text = String::new();
    for (number, shard) in dataset.shards.iter().enumerate() {
        out.begin(&format!("{}.idx", shard.file))?;
        for row in (dataset.index)(number)?.iter() {
            let row = row?;
            text += &format!("{} {}\n", row.offset, row.record_bytes);
            if text.len() >= PIECE_BYTES {
                out.write(text.as_bytes())?;
                text.clear();
            }
        }
        out.write(text.as_bytes())?;
        text.clear();
    }
    Ok(())
}
