//! An array: its type, its axes, and the place of its items.
//!
//! Every length is compared with the length of the file or the member before it is used.

use shardpack_format::{Error, Result, npy};

use super::read::Content;
use crate::tables::{
    Array,
    item::{Item, Order},
};

/// Bytes of an array in which its head ends, but for one that numpy does not write.
const HEAD_BYTES: u64 = 1024;
/// Advice for arrays that cannot be read.
const WITHOUT: &str =
    "numpy.savez writes the file without this array, or with the array as numbers or text of a fixed length";

/// An array.
#[derive(Debug)]
pub(super) struct Stored {
    pub name: String,
    pub content: Content,
    pub item: Item,
    pub item_bytes: usize,
    pub shape: Vec<u64>,
    /// Whether the items of a row do not lie together.
    pub is_fortran: bool,
    /// Offset of the items in the `.npy` file.
    pub head_bytes: u64,
    pub data_bytes: u64,
}

impl Stored {
    /// Reads the head of the array `name` in `content`.
    ///
    /// # Errors
    /// If the head is corrupt, or the items are of a type that is not read.
    pub fn open(name: String, content: Content) -> Result<Self> {
        let in_array = |error: Error| {
            let what = format!("array {name}: {}", error.what());
            match npy::is_unsupported(&error) {
                true => Error::usage(what).help(WITHOUT),
                false => Error::data(what),
            }
        };
        let mut first = Vec::new();
        for most in [HEAD_BYTES, npy::HEAD_MAX_BYTES as u64] {
            first.resize(most.min(content.bytes) as usize, 0);
            let read = content.from(0).and_then(|mut reader| reader.read_exact(&mut first));
            read.map_err(|error| match error.raw_os_error() {
                Some(_) => Error::io("cannot read", error),
                None => in_array(Error::data(format!("damaged: {error}"))),
            })?;
            // The header may be longer: retry with the maximum length.
            if npy::read_head(&first).is_ok() || content.bytes <= most {
                break;
            }
        }
        let head = npy::read_head(&first).and_then(|head| head.check_length(content.bytes).map(|()| head));
        let head = head.map_err(in_array)?;
        // With at most one axis longer than 1, both orders are equal.
        let is_fortran = head.is_fortran && head.shape.iter().filter(|axis| **axis != 1).count() > 1;
        let (item, item_bytes) = (item(head.dtype), head.item_bytes as usize);
        let (head_bytes, data_bytes, shape) = (head.data_offset as u64, head.data_bytes, head.shape);
        Ok(Self { item, item_bytes, shape, is_fortran, head_bytes, data_bytes, name, content })
    }
}

impl Array for Stored {
    fn item(&self) -> &Item {
        &self.item
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    fn referred(&self, _: &[u8], _: usize) -> std::result::Result<Vec<u8>, String> {
        Err("an array of numpy has no items elsewhere".to_owned())
    }
}

/// The type of items with the dtype `name`, as [`npy::read_head`] admits it.
pub(super) fn item(name: &str) -> Item {
    let other = || Item::Other(name.to_owned());
    let (Some(order), Some(kind)) = (name.get(..1), name.get(1..2)) else { return other() };
    let order = if order == ">" { Order::Big } else { Order::Little };
    let Some(count) = name.get(2..).and_then(|count| count.parse::<u32>().ok()) else { return other() };
    let size = u8::try_from(count).unwrap_or(0);
    match (kind, count) {
        ("b", _) => Item::truth(),
        ("i" | "u", _) => Item::Whole { size, is_signed: kind == "i", order },
        ("f", 2 | 4 | 8) => Item::Real { size, order },
        ("c", 8 | 16) => Item::Complex { size, order },
        ("S", count) => Item::Text(Some(count)),
        ("U", count) => Item::Characters { count, order },
        ("V", size) => Item::Opaque { size },
        _ => other(),
    }
}
