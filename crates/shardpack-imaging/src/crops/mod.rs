//! Decodes the pixels of a part of an image, without its surroundings if possible.
//!
//! Two thirds of the decoding time of a JPEG are Huffman codes, and a crop needs all codes before it, because their
//! positions are unknown. A crop *table* stores, for every few MCUs of a JPEG, the bit position of their codes and the
//! DC predictors. With a table, the codes of a crop's own rows and columns are copied behind a head into a small JPEG,
//! which any decoder accepts.
//!
//! Holds at all times: the pixels equal those of the same decoder for the whole image, bit for bit, with every method.
//! A table is never trusted: it has to fit its JPEG in size, order and range. The caller that stores table and JPEG
//! has to check with a hash that they belong together: the table of another JPEG of the same size may fit.

mod bits;
mod decoder;
mod head;
mod huffman;
mod joints;
mod no_table;
mod rect;
mod scan;
mod small;
mod table;

pub use decoder::Decoder;
pub use no_table::{Damage, NoTable};
pub use rect::{Rect, Region, RegionRequest, Way};
pub use scan::scan;

/// Maximum pixels on a side, as in libjpeg.
const MAX_SIDE: u32 = 65_500;
