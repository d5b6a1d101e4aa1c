//! Files that look like a sample each, where rows of tables are read: a question, for their rows are no samples.

use shardpack_format::{Error, Result, formats::foreign::Wanted};

use crate::foreign::ShardFile;

/// Fails where the first and the last of several files look like one sample each.
///
/// # Errors
/// As said; and when a file cannot be read.
pub(super) fn check<'f>(mut files: impl ExactSizeIterator<Item = &'f ShardFile>, wanted: &Wanted) -> Result<()> {
    let count = files.len();
    // The options decide.
    let is_said = wanted.image.is_some() || wanted.label.is_some() || wanted.components.is_some();
    let (Some(first), Some(last)) = (files.next(), files.last()) else { return Ok(()) };
    if is_said {
        return Ok(());
    }
    // The walk reports damaged files.
    let (Ok(Some(one)), Ok(Some(other))) = (first.one_sample(), last.one_sample()) else { return Ok(()) };
    if one.names != other.names {
        return Ok(());
    }
    let what =
        format!("{count} files that look like a sample each, and not like tables of rows: the first has {}", one.told);
    Err(Error::usage(what).in_file(&first.path).help(
        "write them as one file whose rows are the samples, or as .npy files; --images PATH or --components NAMES packs their rows all \
         the same",
    ))
}
