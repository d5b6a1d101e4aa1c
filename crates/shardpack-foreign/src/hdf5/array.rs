//! A dataset as an array of a table, and the types of its items.

use hdf5_reader::{Dataset, Datatype, Hdf5File, StringSize, VarLenKind, error::ByteOrder};
use shardpack_format::Result;

use super::{
    super::tables::{
        Array, Arrays, Rows,
        item::{Item, Member, Order},
    },
    open,
    rows::DatasetRows,
};

/// A dataset and the type of its items.
pub(super) struct StoredArray {
    pub dataset: Dataset,
    item: Item,
}

impl StoredArray {
    pub fn new(dataset: Dataset) -> Self {
        let item = item(dataset.dtype());
        Self { dataset, item }
    }
}

impl Array for StoredArray {
    fn item(&self) -> &Item {
        &self.item
    }

    fn shape(&self) -> &[u64] {
        self.dataset.shape()
    }

    fn item_bytes(&self) -> usize {
        self.dataset.raw_element_size().unwrap_or(0)
    }

    fn referred(&self, item: &[u8], bytes: usize) -> std::result::Result<Vec<u8>, String> {
        self.dataset.resolve_vlen_reference_bytes(item, bytes).map_err(|error| open::said(&open::cause(error)))
    }
}

impl Arrays for Hdf5File {
    fn noun(&self) -> &'static str {
        "dataset"
    }

    fn most_rows(&self) -> u64 {
        // No more than one row a byte can be stored, however they are compressed.
        self.storage().len()
    }

    fn item(&self, path: &str) -> Result<Item> {
        Ok(item(self.dataset(path).map_err(open::to_error)?.dtype()))
    }

    fn rows(&self, path: &str, batch_bytes: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(DatasetRows::open(batch_bytes, self, path)?))
    }
}

fn order(order: ByteOrder) -> Order {
    match order {
        ByteOrder::LittleEndian => Order::Little,
        ByteOrder::BigEndian => Order::Big,
    }
}

/// The type of items.
pub(super) fn item(stored: &Datatype) -> Item {
    match stored {
        Datatype::FixedPoint { size, signed, byte_order } => {
            Item::Whole { size: *size, is_signed: *signed, order: order(*byte_order) }
        }
        Datatype::FloatingPoint { size, byte_order } => Item::Real { size: *size, order: order(*byte_order) },
        Datatype::Enum { base, members } => {
            let members = members.iter().map(|one| Member { name: one.name.clone(), value: one.value.clone() });
            Item::Enum { base: Box::new(item(base)), members: members.collect() }
        }
        Datatype::String { size: StringSize::Fixed(bytes), .. } => Item::Text(Some(*bytes)),
        Datatype::String { .. } | Datatype::VarLen { kind: VarLenKind::String, .. } => Item::Text(None),
        Datatype::VarLen { base, .. } => Item::List(Box::new(item(base))),
        Datatype::Opaque { size, .. } => Item::Opaque { size: *size },
        // As h5py has complex numbers.
        Datatype::Compound { size, fields } => match &fields[..] {
            [real, imaginary] if real.name == "r" && imaginary.name == "i" && real.datatype == imaginary.datatype => {
                let is_dense = real.byte_offset == 0 && imaginary.byte_offset.checked_mul(2) == Some(*size);
                match &real.datatype {
                    Datatype::FloatingPoint { size: part @ (4 | 8), byte_order }
                        if is_dense && u32::from(*part) * 2 == *size =>
                    {
                        Item::Complex { size: part * 2, order: order(*byte_order) }
                    }
                    _ => Item::Other("compound".to_owned()),
                }
            }
            _ => Item::Other("compound".to_owned()),
        },
        Datatype::Array { .. } => Item::Other("array".to_owned()),
        Datatype::Reference { .. } => Item::Other("reference".to_owned()),
        Datatype::Bitfield { .. } => Item::Other("bits".to_owned()),
    }
}
