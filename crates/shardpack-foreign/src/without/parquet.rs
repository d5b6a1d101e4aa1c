//! Stands for the reader of parquet in a build without the feature `parquet`: files are recognised and refused.

use std::{convert::Infallible, path::Path};

use shardpack_format::{
    Error, Result,
    formats::foreign::{Walk, Wanted},
};

use super::{Bytes, GoOn};

/// First bytes of a file. Source: the Apache Parquet format, "File format".
const MAGIC: &[u8] = b"PAR1";

/// Names and values of the column folders above a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partition;

impl Partition {
    /// The columns in the path of a file.
    pub fn of(_: &Path) -> Self {
        Self
    }
}

/// Content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Number(i128),
    /// A number with a fraction, as JSON spells it.
    Real(String),
    /// Text or bytes.
    Text(Vec<u8>),
    /// Cells in order.
    List(Vec<Datum>),
}

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
    Err(Error::usage("this build cannot read parquet (it lacks the feature parquet)"))
}

/// Whether a file begins as parquet does.
pub fn is(first: &[u8]) -> bool {
    first.starts_with(MAGIC)
}

/// Whether the folder name has the form of a column.
pub fn is_partition(_: &str) -> bool {
    false
}

/// The walk of a file.
///
/// # Errors
/// Always.
pub fn walk_part(_: Bytes, _: Partition, _: &Wanted, _: GoOn<'_>) -> Result<Box<dyn Walk>> {
    refused()
}

/// Whether one of its columns holds images.
///
/// # Errors
/// Always.
pub fn has_images(_: impl Into<Bytes>) -> Result<bool> {
    refused()
}

/// Class names in the order of labels.
///
/// # Errors
/// Always.
pub fn classes_part(_: Bytes, _: &Partition, _: &Wanted) -> Result<Vec<Vec<u8>>> {
    refused()
}
