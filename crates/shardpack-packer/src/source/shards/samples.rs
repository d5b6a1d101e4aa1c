//! Files that look like a sample each, or like a column each, where tables of rows are read: a question, because their rows are no
//! samples.

use shardpack_format::{Error, Result, formats::foreign::Wanted};

use crate::foreign::ShardFile;

/// Fails if the first and the last of several files look like one sample each, or like different columns of one table.
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

/// Files with a dataset each, of different names: images in one, their labels in another. Rows of several files are not joined.
fn columns(first: &ShardFile, own: &str, last: &ShardFile, theirs: &str) -> Error {
    let last = last.path.file_name().unwrap_or_default().display();
    Error::usage(format!("it has nothing but dataset {own}, and {last} nothing but dataset {theirs}: columns of one table"))
        .in_file(&first.path)
        .help(
            "write the columns of each split as datasets of one file; --images PATH or --components NAMES packs the rows of each file all \
             the same",
        )
}
