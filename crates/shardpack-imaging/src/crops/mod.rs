//! Pixels of a part of an image, decoded without what is around it where that can be.
//!
//! Two thirds of a JPEG's decoding is Huffman codes, and a crop needs all those before it, for nobody knows where they end. A
//! *table* knows: for every few MCUs of a JPEG it keeps the bit at which they begin and the DC predictors there. With it, the
//! codes of a crop's own rows and columns are copied behind a head into a small JPEG, which any decoder takes.
//!
//! Holds at all times: the pixels are those that the same decoder gives for the whole image, bit for bit, whichever way they
//! come. A table is never trusted: it has to fit its JPEG in size, order and range. That it is the table of these very bytes
//! is for whoever keeps both to know, by a hash: of a JPEG of the same size, another table may fit.

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
pub use rect::{Rect, Region, Wanted, Way};
pub use scan::scan;

/// Most pixels on a side, as libjpeg has it.
const MAX_SIDE: u32 = 65_500;
