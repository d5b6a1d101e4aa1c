//! The batches of CIFAR-10 and CIFAR-100, pickled for Python: `data_batch_1` to `data_batch_5` and `test_batch` beside `batches.meta`,
//! `train` and `test` beside `meta`.
//!
//! Each batch is a map with pixels, labels and file names; the file beside has the names of classes. Pixels are read by range; the other
//! entries are in memory. A batch is parsed as plain data, and its file is at most half of `--memory`.
//!
//! # Specification
//! A. Krizhevsky, <https://www.cs.toronto.edu/~kriz/cifar.html>, "Dataset layout".

use std::{path::Path, sync::Arc};

use shardpack_format::{Error, Result, memory};

use super::{
    read::Content,
    stored::{Stored, item},
};
use crate::{
    Bytes, FileLocation,
    plain::{Value, pickle},
    tables::item::{Item, Order},
};

/// Name of the kind on the command line.
pub(super) const NAME: &str = "cifar";
/// Names of the batches of CIFAR-10, before their numbers, and of CIFAR-100, with their splits.
const BATCHES: [(&str, &str); 4] =
    [("data_batch_", "train"), ("test_batch", "test"), ("train", "train"), ("test", "test")];
/// Names of the files with the names of classes.
const META: [&str; 2] = ["batches.meta", "meta"];
/// Axes of the pixels of an image.
const AXES: [u64; 3] = [3, 32, 32];
/// Entries whose names here are those that other tables have.
const NAMES: [(&str, &str); 2] = [("fine_labels", "labels"), ("fine_label_names", "label_names")];
/// The first byte of a pickle of protocol 2 or above.
const PICKLE: u8 = 0x80;

/// The split of a batch of this name.
pub(super) fn split(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let is_it = |known: &str| match name.strip_prefix(known) {
        Some(number) if known.ends_with('_') => !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()),
        rest => rest.is_some_and(str::is_empty),
    };
    BATCHES.iter().find(|(known, _)| is_it(known)).map(|(_, split)| *split)
}

/// Whether a file of this name has the names of classes.
pub(super) fn is_meta(path: &Path) -> bool {
    path.file_name().is_some_and(|name| META.iter().any(|known| name == *known))
}

/// Whether a file is a batch or has the names of classes: by its name and its first byte.
pub(super) fn is(place: &FileLocation) -> bool {
    let mut first = [0];
    (split(place.path()).is_some() || is_meta(place.path()))
        && place.first(&mut first).is_ok_and(|bytes| bytes == 1 && first[0] == PICKLE)
}

/// The arrays in the file at `place`.
///
/// # Errors
/// If the file is no pickle of a map, or longer than the memory allows.
pub(super) fn open(place: &FileLocation) -> Result<Vec<Stored>> {
    let file = Arc::new(place.open()?);
    let bytes = file.count().map_err(|error| Error::io("cannot read", error))?;
    let mut input = Vec::new();
    memory::make_room(&mut input, bytes)?;
    input.resize(bytes as usize, 0);
    file.read_exact_at(&mut input, 0).map_err(|error| Error::io("cannot read", error))?;
    let value = pickle(&input).map_err(Error::data)?;
    let entries = value.entries().ok_or_else(|| Error::data(format!("a pickle of {}, no map", value.kind())))?;
    let mut arrays = Vec::<Stored>::new();
    for (key, value) in entries {
        let name = key.as_text(&input).ok_or_else(|| Error::data(format!("a key that is {}", key.kind())))?;
        let renamed = NAMES.iter().find(|(own, _)| *own == name).map_or(&*name, |(_, name)| name).to_owned();
        if arrays.iter().any(|other| other.name == renamed) {
            return Err(Error::data(format!("array {renamed} is there twice")));
        }
        arrays.push(array(renamed, value, &input, &file)?);
    }
    Ok(arrays)
}

/// An entry of a map as an array. An entry that is none has no rows, and is counted by its name.
fn array(name: String, value: &Value, input: &[u8], file: &Arc<Bytes>) -> Result<Stored> {
    let other = || in_memory(name.clone(), Item::Other(value.kind().to_owned()), Vec::new(), Vec::new());
    Ok(match value {
        Value::Array(array) => {
            let own = item(&array.dtype);
            let Some(item_bytes) = own.bytes() else { return Ok(other()) };
            let is_fortran = array.is_fortran && array.shape.iter().filter(|axis| **axis != 1).count() > 1;
            let shape = match (&*array.dtype, &*array.shape) {
                ("|u1", [rows, pixels]) if *pixels == AXES.iter().product::<u64>() && !is_fortran => {
                    [&[*rows][..], &AXES].concat()
                }
                (_, shape) => shape.to_vec(),
            };
            match array.data.range() {
                Some(range) => {
                    let (data_bytes, range) = (range.len() as u64, range.start as u64..range.end as u64);
                    let (is_deflated, is_gzip) = (false, false);
                    let content = Content { file: Arc::clone(file), range, is_deflated, is_gzip, bytes: data_bytes };
                    Stored { name, content, item: own, item_bytes, shape, is_fortran, head_bytes: 0, data_bytes }
                }
                None => Stored { is_fortran, ..in_memory(name, own, shape, array.data.read(input).into_owned()) },
            }
        }
        Value::List(items) => {
            let numbers: Option<Vec<i64>> = items.iter().map(|item| item.as_whole(input)).collect();
            let texts = || items.iter().map(|item| item.as_text(input)).collect::<Option<Vec<_>>>();
            let rows = vec![items.len() as u64];
            if let Some(numbers) = numbers {
                let whole = Item::Whole { size: 8, is_signed: true, order: Order::Little };
                return Ok(in_memory(name, whole, rows, numbers.iter().flat_map(|one| one.to_le_bytes()).collect()));
            }
            let Some(texts) = texts() else { return Ok(other()) };
            let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
            // Texts of one length: a single long one makes all of them long.
            let bytes = (longest as u64).saturating_mul(texts.len() as u64);
            memory::admit(bytes).map_err(|error| Error::data(format!("array {name}: {}", error.what())))?;
            let mut content = Vec::with_capacity(bytes as usize);
            for text in &texts {
                content.extend_from_slice(text.as_bytes());
                content.resize(content.len().next_multiple_of(longest.max(1)), 0);
                if text.is_empty() {
                    content.resize(content.len() + longest, 0);
                }
            }
            let length = u32::try_from(longest).map_err(|_| Error::data(format!("array {name}: a text of 4 GiB")))?;
            in_memory(name, Item::Text(Some(length)), rows, content)
        }
        _ => other(),
    })
}

/// An array of these items, which lie in memory.
fn in_memory(name: String, item: Item, shape: Vec<u64>, items: Vec<u8>) -> Stored {
    let bytes = items.len() as u64;
    let file = Arc::new(Bytes::Memory(items));
    let content = Content { file, range: 0..bytes, is_deflated: false, is_gzip: false, bytes };
    let item_bytes = item.bytes().unwrap_or(0);
    Stored { name, content, item, item_bytes, shape, is_fortran: false, head_bytes: 0, data_bytes: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_batches() {
        for (name, expected) in [
            ("data_batch_1", Some("train")),
            ("data_batch_", None),
            ("data_batch_x", None),
            ("test_batch", Some("test")),
            ("train", Some("train")),
            ("train.tar", None),
            ("batches.meta", None),
        ] {
            assert_eq!(split(Path::new(name)), expected, "{name}");
        }
    }
}
