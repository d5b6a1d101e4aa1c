//! The formats: how long a sample's record is, how it is written, how it is read back.
//!
//! A record is everything that a shard holds of one sample, framing and padding included. Its length and the place of
//! the image in it follow from the sample alone, so a plan can fix every byte range before any image is read; the
//! copy engine reads the image into its place and the format writes the rest around it.

pub mod webdataset;

use crate::{
    Result,
    image_header::{Header, Kind},
    index::RowRef,
    sample::{Extent, Sample},
};

/// Most components that a written sample has: image, label, metadata.
pub const MAX_WRITTEN: usize = 3;

/// Where things lie in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of the record in bytes, framing and padding included.
    pub record_bytes: u32,
    /// The components in the order of [`Format::components`], the image first; absent beyond.
    pub components: [Extent; MAX_WRITTEN],
}

/// A format that shards are written in.
pub trait Format: Send + Sync {
    /// Name on the command line and in the manifest.
    fn name(&self) -> &'static str;

    /// Names of the components of every sample, the image first; see [`crate::manifest::BY_KIND`].
    fn components(&self) -> &[String];

    /// Everything that decides the bytes of a record beside the sample, as text: part of the plan's hash.
    fn options(&self) -> String;

    /// Where things lie in the record of `sample`.
    ///
    /// # Errors
    /// When the format cannot hold the sample.
    fn layout(&self, sample: &Sample<'_>) -> Result<Layout>;

    /// Length in bytes of what follows the records, when these are `records_bytes` long: all zeros.
    fn tail_bytes(&self, records_bytes: u64) -> u64;

    /// Length in bytes of the records that fit a shard of `shard_bytes` together with what follows them.
    fn room_bytes(&self, shard_bytes: u64) -> u64;

    /// Writes all of `record` but the image, which is in its place already. `record` is as long as the layout says.
    ///
    /// # Errors
    /// When the format cannot hold the sample.
    fn frame(&self, sample: &Sample<'_>, image: &Header, record: &mut [u8]) -> Result<()>;

    /// Checks that `record` is framed as its row and the format's specification say: by parsing it.
    ///
    /// # Errors
    /// Names what is wrong and at which byte of the record.
    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()>;

    /// Name of shard `number` of the dataset `name`.
    fn shard_file(&self, name: &str, number: u64) -> String;
}

/// Names of all formats that can be written.
pub const ALL: &[&str] = &[webdataset::NAME];

/// The extension of a component whose name in an index is `name`, for an image of `kind`.
pub fn extension(name: &str, kind: Kind) -> &str {
    if name == crate::manifest::BY_KIND { kind.extension() } else { name }
}
