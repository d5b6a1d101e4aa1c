//! Stands in for trees below URLs in a build without URL support: no value is ever created.

use std::{path::Path, sync::Arc};

use shardpack_format::{Error, Result};
use shardpack_reader::{StoreSettings, Transfers};

use super::{Found, Look, ReadError, Refusal, Source, options::Options, shards::Urls};
use crate::{
    foreign::npz::{Fault, Npz},
    listing::Listing,
    monitor::Monitor,
};

/// The error message.
const NONE: &str = "a URL, and this build cannot read URLs (it lacks the feature cloud)";

/// Cannot be created.
#[derive(Clone, Debug)]
pub struct Prefix(());

impl Prefix {
    /// Always fails.
    ///
    /// # Errors
    /// Always.
    pub fn new(url: &Path, _: &StoreSettings) -> Result<Self> {
        Err(Error::usage(NONE).in_file(url))
    }

    /// Always fails.
    pub(super) fn looked_for(url: &Path, settings: &StoreSettings, _: Option<Arc<Urls>>) -> Result<Self> {
        Self::new(url, settings)
    }

    /// Never called.
    pub fn url(&self) -> &Path {
        Path::new("")
    }

    /// Never called.
    pub fn transfers(&self) -> Transfers {
        Transfers::default()
    }

    pub(super) fn discover(&self, _: &Options, _: &dyn Monitor) -> Result<Vec<Found>> {
        Err(Error::usage(NONE))
    }

    pub(super) fn name_of(&self, _: &str) -> Option<String> {
        None
    }

    pub(super) fn reads_that_help(&self) -> usize {
        0
    }

    pub(super) fn look(&self, _: &str) -> Result<Option<(u64, i64)>> {
        Err(Error::usage(NONE))
    }

    pub(super) fn open(&self, _: Option<&str>, _: &Listing) -> NoReader {
        NoReader
    }
}

/// Never called.
pub(super) fn without_place(error: Error) -> ReadError {
    ReadError::Fatal(error)
}

/// A reader that fails every read.
pub(super) struct NoReader;

impl NoReader {
    pub(super) fn npz<T>(
        &self,
        _: u64,
        _: &dyn Fn(&Npz<'_, [u8]>) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, ReadError> {
        Err(without_place(Error::usage(NONE)))
    }
}

impl Source for NoReader {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), ReadError> {
        Err(ReadError::Refused(Refusal(NONE.to_owned())))
    }

    fn peek(&self, _: u64, _: &mut [u8], _: Look) -> Result<Option<usize>, ReadError> {
        Ok(None)
    }
}
