//! Tables: arrays of one length, whose rows together are samples.
//!
//! Names, types and shapes decide which array is the image, the label or a component, and which split an array belongs to; the
//! user's choice comes first. The rules are the same for every file of arrays: HDF5 and numpy. If several arrays are candidates, the
//! error names them. An array that no sample uses is counted by its name.
//!
//! A file of arrays implements `Arrays`, with `Rows` for one array.

pub(crate) mod choice;
pub(crate) mod components;
pub(crate) mod detect;
pub(crate) mod item;
pub mod known;
mod labels;
pub(crate) mod names;
pub(crate) mod records;
pub(crate) mod seen;
pub(crate) mod table;
pub(crate) mod value_rows;
pub(crate) mod values;
pub(crate) mod walk;

use shardpack_format::Result;

use item::Item;

/// Bytes of a batch of rows of images or labels.
pub(crate) const BATCH_BYTES: usize = 16 << 20;

/// A file of arrays.
pub(crate) trait Arrays {
    /// The word for an array of the file in messages.
    fn noun(&self) -> &'static str;

    /// Most rows that an array of the file can have, by the length of the file.
    fn most_rows(&self) -> u64;

    /// Type of the items of the array at `path`.
    ///
    /// # Errors
    /// If the file is corrupt.
    fn item(&self, path: &str) -> Result<Item>;

    /// The rows of the array at `path`, in batches of about `batch_bytes` bytes.
    ///
    /// # Errors
    /// If the array is corrupt, or a row exceeds the read limit.
    fn rows(&self, path: &str, batch_bytes: usize) -> Result<Box<dyn Rows>>;
}

/// An array, without its rows.
pub(crate) trait Array {
    fn item(&self) -> &Item;

    fn shape(&self) -> &[u64];

    /// Length of a stored item in bytes.
    fn item_bytes(&self) -> usize;

    /// The bytes that a variable-length item refers to, for items of `bytes` bytes.
    ///
    /// # Errors
    /// The reason why the bytes are unreadable.
    fn referred(&self, item: &[u8], bytes: usize) -> std::result::Result<Vec<u8>, String>;
}

/// Reads the rows of an array, its parts along the first axis.
pub(crate) trait Rows {
    fn array(&self) -> &dyn Array;

    /// Length of a batch in bytes, as far as the items themselves hold them.
    fn batch_bytes(&self) -> u64;

    /// The bytes of row `number`; the inner error is the reason why the row is unreadable.
    ///
    /// # Errors
    /// If the whole array is unreadable.
    fn row(&mut self, number: u64) -> Result<std::result::Result<&[u8], String>>;
}
