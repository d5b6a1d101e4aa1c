//! Facts about the arrays of a file, in the types of the answers that every kind of file gives.

use std::ops::Range;

use shardpack_format::Error;

/// Warnings about splits that are ranges of rows.
#[derive(Debug, Default)]
pub struct OddSplits {
    /// Rows that are of no split.
    pub strays: Vec<Range<u64>>,
    /// Two splits that share rows, and which, in words.
    pub shared: Option<String>,
}

/// The arrays of a file.
#[derive(Debug)]
pub struct Outline {
    /// The names of its arrays.
    pub names: Vec<String>,
    /// Whether all are outside of groups.
    pub is_flat: bool,
    /// The same with types and axes, for the user.
    pub told: String,
    /// Whether they look like one sample, an image with masks of its size, and not like rows of a table.
    pub is_sample: bool,
    /// Whether they can be nothing but one sample, by their names or because they have no number of rows in common.
    pub is_surely_sample: bool,
    /// A value of the whole file that rows would leave out, for the user: a label, or a number beside rows without labels.
    pub value_of_file: Option<String>,
    /// Why its rows cannot be read, if the choice of other arrays may help.
    pub refusal: Option<Error>,
}

/// Why a row that no split names does not go in.
pub fn stray(row: u64) -> String {
    format!("row {row} is in none of the splits of attribute split")
}
