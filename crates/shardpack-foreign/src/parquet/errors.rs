//! Converts errors of the parquet crate, and of pages that others make for it, to errors of the file.
//!
//! A panic of the crate becomes an error.

use parquet::errors::ParquetError;
use shardpack_format::{Error, Result};

use super::{super::catch_panic, arrow::InBatch};

/// The same of a column of a row group.
pub(super) fn in_place(error: ParquetError, group: usize, column: &str) -> Error {
    let batch = match &error {
        ParquetError::External(inner) => inner.downcast_ref::<InBatch>(),
        _ => None,
    };
    if let Some(InBatch { batch, what }) = batch {
        return Error::data(format!("record batch {batch}, column {column:?}: {what}"));
    }
    match describe(error) {
        Ok(what) => Error::data(format!("row group {group}, column {column:?}: {what}")),
        Err(error) => error,
    }
}

/// Converts an error of the parquet crate.
pub(super) fn failed(error: ParquetError) -> Error {
    describe(error).map_or_else(|error| error, |what| Error::data(format!("damaged parquet file: {what}")))
}

/// Description of a corrupt file; an error if the system failed.
fn describe(error: ParquetError) -> Result<String> {
    match error {
        ParquetError::General(what) | ParquetError::EOF(what) | ParquetError::NYI(what) => Ok(what),
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => Err(Error::io("cannot read", *error)),
            Err(other) => Ok(other.to_string()),
        },
        other => Ok(other.to_string()),
    }
}

/// Calls into the parquet crate, whose panics are errors here.
pub(super) fn contained<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic::contained("parquet file", call)
}
