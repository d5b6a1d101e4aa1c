//! Detects files that hold one sample or one column each, where the reader expects tables of rows.
//!
//! This is an error, because the rows of such files are not samples.

use shardpack_format::{Error, Result, formats::foreign::FieldSelection};

use crate::foreign::ShardFile;

/// Fails if the first and the last of several files look like one sample each, or like different columns of one table.
///
/// # Errors
/// If they do. Unreadable files pass the check.
pub(super) fn check<'f>(
    mut files: impl ExactSizeIterator<Item = &'f ShardFile>,
    wanted: &FieldSelection,
) -> Result<()> {
    let count = files.len();
    // Explicit options override the check.
    let is_said = wanted.image.is_some() || wanted.label.is_some() || wanted.components.is_some();
    let (Some(first), Some(last)) = (files.next(), files.last()) else { return Ok(()) };
    if is_said {
        return Ok(());
    }
    // The walk reports damaged files.
    let (Ok(Some(one)), Ok(Some(other))) = (first.outline(), last.outline()) else { return Ok(()) };
    if one.names != other.names {
        return match (&one.names[..], &other.names[..]) {
            ([own], [theirs]) => Err(columns(first, own, last, theirs)),
            _ => Ok(()),
        };
    }
    if !one.is_sample || !other.is_sample {
        return Ok(());
    }
    let what =
        format!("{count} files that look like a sample each, and not like tables of rows: the first has {}", one.told);
    Err(Error::usage(what).in_file(&first.path).help(
        "write them as one file whose rows are the samples, or as .npy files; --images PATH or --components NAMES packs their rows all \
         the same",
    ))
}

/// The error for files with one dataset each under different names: images in one, labels in the other. Rows are never joined across files.
fn columns(first: &ShardFile, own: &str, last: &ShardFile, theirs: &str) -> Error {
    let last = last.path.file_name().unwrap_or_default().display();
    Error::usage(format!("it has only dataset {own}, and {last} has only dataset {theirs}: columns of one table"))
        .in_file(&first.path)
        .help(
            "write the columns of each split as datasets of one file; --images PATH or --components NAMES packs the rows of each file all \
             the same",
        )
}
