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
    pickled::{self, Source},
    stored::Stored,
};
use crate::{
    Bytes, FileLocation,
    plain::{Value, pickle},
    tables::item::Item,
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

/// An entry of a map as an array; pixels have axes.
fn array(name: String, value: &Value, input: &[u8], file: &Arc<Bytes>) -> Result<Stored> {
    let mut array = pickled::array(name, value, &Source { file, input, shift: 0, begin: 0 })?;
    if let (Item::Whole { size: 1, is_signed: false, .. }, [rows, pixels], false) =
        (&array.item, &*array.shape, array.is_fortran)
        && *pixels == AXES.iter().product::<u64>()
    {
        array.shape = [&[*rows][..], &AXES].concat();
    }
    Ok(array)
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
