//! Stands for the reader of HDF5 in a build without the feature `hdf5`: files are recognised and refused.

use std::ops::Range;

use shardpack_format::{
    Error, Result,
    formats::foreign::{Walk, Wanted},
};

use super::Place;

/// First bytes of a file without a user block. Source: HDF5 File Format 3.0, superblock.
const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Warnings about splits that are ranges of rows.
#[derive(Debug, Default)]
pub struct OddSplits {
    /// Rows that are of no split.
    pub strays: Vec<Range<u64>>,
    /// Two splits that share rows, and which, in words.
    pub shared: Option<String>,
}

/// The datasets of a file without groups.
#[derive(Debug)]
pub struct Outline {
    /// The names of its datasets.
    pub names: Vec<String>,
    /// The same with types and axes, for the user.
    pub told: String,
    /// Whether they look like one sample.
    pub is_sample: bool,
}

fn refused<T>(place: &Place) -> Result<T> {
    Err(Error::usage("this build cannot read HDF5 (it lacks the feature hdf5)").in_file(place.path()))
}

/// Whether a file begins as HDF5 does.
pub fn is(first: &[u8]) -> bool {
    first.starts_with(MAGIC)
}

/// Why a row that no split names is left out.
pub fn stray(row: u64) -> String {
    format!("row {row} is in none of the splits of attribute split")
}

/// The walk of a file.
///
/// # Errors
/// Always.
pub fn walk(file: Place, _: &Wanted, _: Option<&str>) -> Result<Box<dyn Walk>> {
    refused(&file)
}

/// Class names in the order of labels.
///
/// # Errors
/// Always.
pub fn classes(file: Place, _: &Wanted) -> Result<Vec<Vec<u8>>> {
    refused(&file)
}

/// Names of the splits.
///
/// # Errors
/// Always.
pub fn splits(file: Place, _: &Wanted) -> Result<Vec<String>> {
    refused(&file)
}

/// The datasets of a file, if all are in the root group.
///
/// # Errors
/// Always.
pub fn outline(file: Place) -> Result<Option<Outline>> {
    refused(&file)
}

/// Warnings about the splits in the file.
///
/// # Errors
/// Always.
pub fn odd_splits(file: Place, _: &Wanted) -> Result<OddSplits> {
    refused(&file)
}
