//! Stands for the writer of Parquet in a build without the feature `parquet`.

use std::{convert::Infallible, fs::File};

use shardpack_format::{Error, Result};

use super::{Row, Sink};

/// Writes rows to a file.
pub(super) struct Writer(Infallible);

impl Writer {
    /// Refuses to start the file.
    pub fn new(_: File) -> Result<Self> {
        Err(Error::usage("this build writes tables as .csv only (it lacks the feature parquet)"))
    }
}

impl Sink for Writer {
    fn add(&mut self, _: &Row<'_>) -> Result<()> {
        match self.0 {}
    }

    fn finish(self: Box<Self>) -> Result<File> {
        match self.0 {}
    }
}
