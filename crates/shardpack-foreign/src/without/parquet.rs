//! Stands for the reader of parquet and Arrow in a build without the feature `parquet`: files are recognised and refused.

use std::convert::Infallible;

use shardpack_format::{Error, ErrorKind, Result};

use super::{Bytes, entry::Entry};
pub use known::{Datum, is, is_arrow};
pub use partition::is_partition;

#[path = "../parquet/known.rs"]
mod known;
#[path = "../parquet/partition.rs"]
mod partition;

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry::new("parquet", is, |_, _, _| refused());

/// The line of Arrow files.
pub(crate) static ARROW: Entry =
    Entry { extensions: &["feather", "ipc"], ..Entry::new("arrow", is_arrow, |_, _, _| refused()) };

/// A file that is read row by row.
pub struct Table(Infallible);

impl Table {
    /// Begins to read a file.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: impl Into<Bytes>) -> Result<Self> {
        refused()
    }

    /// Names of the columns.
    pub fn names(&self) -> Vec<String> {
        match self.0 {}
    }

    /// Names of columns that are not read.
    pub fn left_out(&self) -> &[String] {
        match self.0 {}
    }

    /// Class names of a column of labels, if the file has them.
    pub fn classes(&self, _: &str) -> Option<&[Vec<u8>]> {
        match self.0 {}
    }

    /// The cells of the next row.
    ///
    /// # Errors
    /// None: there is no such table.
    pub fn next_row(&mut self) -> Result<Option<Vec<Datum>>> {
        match self.0 {}
    }
}

fn refused<T>() -> Result<T> {
    // Not damage of the file: `verify` must not report it as such.
    Err(Error::new(ErrorKind::System, "this build cannot read parquet and Arrow (it lacks the feature parquet)"))
}

/// Whether one of its columns holds images.
///
/// # Errors
/// Always.
pub fn has_images(_: impl Into<Bytes>) -> Result<bool> {
    refused()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_recognised_and_refused_by_name() {
        assert!(is(b"PAR1") && !is(b"PAR"));
        assert!(is_partition("label=cat"));
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = has_images(file).unwrap_err();
        assert_eq!(error.to_string(), "this build cannot read parquet and Arrow (it lacks the feature parquet)");
        assert_eq!(error.kind(), ErrorKind::System);
    }
}
