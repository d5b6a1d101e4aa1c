//! Reads `.beton` files of FFCV, and trusts no number. `tables` maps their fields, whose rows are samples, to images and labels.
//!
//! A field of images is the image, whatever its name; of several, names decide. An image stored as JPEG is passed on unchanged, and an
//! image stored as pixels is a `.npy` file of `H×W×3`. Other fields are labels or components. A field of another type is refused by its
//! name, because a sample without it would be incomplete.
//!
//! Offsets count in a virtual file, as those of HDF5: all samples, one behind the other. Memory holds the lengths of all data, 24 bytes
//! for each image and each value of bytes, and one batch of the table of samples for each field.
//!
//! # Specification
//! FFCV 1.0.2: `ffcv/types.py`, `writer.py`, `memory_allocator.py` and `fields/`.

mod layout;
mod rows;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    formats::foreign::{FieldSelection, Record, Walk},
};

use self::{
    layout::{Beton, FieldKind},
    rows::Fields,
};
use super::{
    ShardFile,
    entry::Entry,
    tables::{
        choice::{self, NAME_BOTH},
        detect,
        records::Records,
        seen::{Seen, describe_all},
        table::Table,
        value_rows,
        walk::{Contained, Images},
    },
};

/// The kind of the files, for messages.
const KIND: &str = "beton file";

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry::new("beton", layout::is, |file, wanted, _| walk(file, wanted));

fn walk(file: &ShardFile, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
    if let Some(packed) = file.packed {
        return Err(Error::usage(format!("a {KIND} compressed with {}: unpack it first", packed.name())));
    }
    let beton = Arc::new(Beton::open(file.location().open()?)?);
    let fields = Fields(Arc::clone(&beton));
    let tables = tables(&fields, wanted)?;
    let records = Records::new(Box::new(fields), tables, wanted);
    Ok(Box::new(Contained::new(KIND, Box::new(Samples { records, beton }), BTreeMap::new())))
}

/// The samples of a file. A read that the system fails ends the walk: it says nothing about the sample.
struct Samples {
    records: Records,
    beton: Arc<Beton>,
}

impl Images for Samples {
    fn next(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Option<Record>> {
        let next = self.records.next(at, out);
        self.beton.failure().map_or(next, Err)
    }

    fn notes(&self) -> Vec<String> {
        self.records.notes()
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.records.passed()
    }
}

/// The table of a file: of images, or of values.
///
/// # Errors
/// If several fields may hold the images, or the file lacks a wanted field.
fn tables(file: &Fields, wanted: &FieldSelection) -> Result<Vec<Table>> {
    let seen = file.seen();
    let named = |name: &String| {
        let found = seen.iter().find(|one| one.path == *name).cloned();
        found.ok_or_else(|| Error::usage(format!("no field {name}: it has {}", describe_all(&seen))))
    };
    let images = match &wanted.image {
        Some(name) => {
            let found = named(name)?;
            if !found.is_encoded() {
                return Err(Error::usage(format!("field {} holds no images", found.describe())));
            }
            vec![found]
        }
        None => images(file, &seen)?,
    };
    let mut tables = match images.is_empty() {
        true => value_rows::tables(file, &seen, wanted)?,
        false => {
            let label = wanted.label.as_ref().map(named).transpose()?;
            detect::of_images(file, &images, &seen, label.as_ref(), wanted)?
        }
    };
    if tables.is_empty() {
        return Err(Error::data(format!("no samples: it has {}", describe_all(&seen))));
    }
    let json: BTreeSet<&str> = file.of_kind(FieldKind::Json).collect();
    for component in tables.iter_mut().flat_map(|table| &mut table.beside) {
        if json.contains(component.path().as_str()) {
            component.name += ".json";
        }
    }
    Ok(detect::with_unused(tables, &seen))
}

/// The field of images: of the type of images, or else of bytes that begin like an image.
fn images(file: &Fields, seen: &[Seen]) -> Result<Vec<Seen>> {
    let typed: BTreeSet<&str> = file.of_kind(FieldKind::Image).collect();
    let typed: Vec<Seen> = seen.iter().filter(|one| typed.contains(one.path.as_str())).cloned().collect();
    let found = match typed.len() {
        0 => choice::candidates(file, seen)?,
        1 => return Ok(typed),
        _ => choice::candidates(file, &typed)?,
    };
    match found.len() {
        1 => Ok(found),
        0 if typed.is_empty() => Ok(found),
        _ => {
            let what = format!("several fields that may hold the images: it has {}", describe_all(seen));
            Err(Error::usage(what).help(NAME_BOTH))
        }
    }
}
