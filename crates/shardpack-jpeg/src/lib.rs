//! Decodes JPEGs, and parts of them, without the codes of the rest.
//!
//! Two thirds of the decoding time of a JPEG are Huffman codes, and a part of the image needs all codes before it, because their
//! positions are unknown. A crop *table* stores, for every few MCUs of a JPEG, the bit position of their codes and the DC
//! predictors. With a table, only the codes of a crop's own rows and columns are decoded, several rows at the same time.
//!
//! Holds at all times: pixels are those of libjpeg-turbo with its default settings, bit for bit, with or without a table, on
//! every CPU. A table is never trusted: it has to fit its JPEG in size, order and range, and the codes have to end where it says.
//! The caller that stores table and JPEG has to check with a hash that they belong together. No input makes a function panic.
//! [`needed_bytes`] bounds the memory.
//!
//! Baseline, extended sequential and progressive Huffman coding, 8 bits; tables for JPEGs in one scan. This crate opens no path and starts no thread; it reads
//! one environment variable, [`Level::from_environment`].

mod bits;
mod colour;
mod decoder;
mod head;
mod huffman;
mod idct;
mod lanes;
mod memory;
mod no_table;
mod planes;
mod rect;
mod scan;
mod scans;
mod simd;
mod steps;
mod stream;
mod table;
mod upsample;

pub use decoder::{Decoder, needed_bytes};
pub use no_table::{Damage, NoTable};
pub use rect::{Rect, Region, RegionRequest, Way};
pub use scan::scan;
pub use simd::Level;

/// Maximum pixels on a side, as in libjpeg.
const MAX_SIDE: u32 = 65_500;
