//! Decodes the pixels of a part of an image, without its surroundings if possible: [`shardpack_jpeg`] for JPEGs, with crop
//! tables; other decoders for other kinds, and for JPEGs of rare types.
//!
//! Holds at all times: the pixels equal those of the whole image, bit for bit, with every method.

#[cfg(feature = "decode")]
mod decoder;

#[cfg(feature = "decode")]
pub use decoder::Decoder;
pub use shardpack_jpeg::{Damage, NoTable, Rect, Region, RegionRequest, Way, scan};
