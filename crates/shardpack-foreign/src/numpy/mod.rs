//! Reads arrays of numpy whose rows are samples: `mnist.npz`, and `X_train.npy` beside `y_train.npy`.
//!
//! The arrays of one `.npz` file, or of the `.npy` files of one folder, are the tables of one file. `tables` has the rules for images,
//! labels, components and splits, and they are the same for HDF5. Arrays of a type that no sample can have are refused by name, because
//! a file that holds them cannot be packed without loss: Python objects and structures.
//!
//! Rows are read in their order. A stored array is read by range, and a deflated array is inflated from its start in one pass, so
//! memory holds one batch of rows for each array. An array in Fortran order has no rows that lie together: memory holds the whole array,
//! within `--memory`. The CRC-32 of each array of a `.npz` file is compared before the first row is read.
//!
//! The files of MNIST, `idx`, and of CIFAR, `cifar`, are arrays in other forms, and have the same rules.
//!
//! Pickles and files of `torch.save`, `pickled`, are arrays in other forms too.
//!
//! Offsets count in a virtual file, as those of HDF5: all samples, one behind the other.
//!
//! # Specification
//! numpy 2, `lib/format.py` and `lib/_npyio_impl.py`.

mod arrays;
mod cifar;
mod group;
mod idx;
mod pickled;
mod read;
mod rows;
mod stored;
#[cfg(test)]
mod tests;
mod torch;

use std::collections::BTreeMap;

use shardpack_format::{
    Error, Result,
    formats::foreign::{FieldSelection, Walk},
};

use self::arrays::NumpyFile;
use super::{
    ShardFile,
    entry::Entry,
    tables::{
        choice, detect,
        known::Outline,
        records::Records,
        seen,
        table::{self, Table},
        value_rows,
        walk::Contained,
    },
};
pub use group::{BY_CHOICE, NO_ROWS, Pair, known, pair, table};
pub(crate) use group::{are_samples, array_name, is, is_called, shards};
pub(crate) use pickled::is_called as is_called_pickle;

/// The kind of the files, for messages.
const KIND: &str = "file of numpy";

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry {
    extensions: &["npz", "npy"],
    classes,
    splits: |file, wanted| {
        let opened = NumpyFile::open(file)?;
        Ok(table::splits(&tables(&opened, wanted)?))
    },
    outline,
    // A file may be a sample itself: only names of samples and labels make rows of arrays samples.
    ..Entry::new("numpy", |_| false, |file, wanted, _| walk(file, wanted))
};

/// The kind of the files of MNIST, which have arrays in another form.
pub(crate) static MNIST: Entry = Entry { name: "mnist", extensions: &[], ..ENTRY };

/// The kind of the batches of CIFAR. A batch has no names of splits, but is of one.
pub(crate) static CIFAR: Entry = Entry {
    name: cifar::NAME,
    extensions: &[],
    splits: |file, _| Ok(cifar::split(&file.path).map(str::to_owned).into_iter().collect()),
    ..ENTRY
};

/// The kind of pickles and of files of `torch.save`, whose arrays are tables.
pub(crate) static PICKLED: Entry = Entry { name: pickled::NAME, extensions: &[], ..ENTRY };

fn walk(file: &ShardFile, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
    let opened = NumpyFile::open(file)?;
    let mut tables = tables(&opened, wanted)?;
    if let Some(part) = file.part.as_ref().filter(|_| tables.iter().any(|table| table.split.is_some())) {
        tables = table::of_split(tables, part)?;
    }
    opened.check(&tables)?;
    let records = Records::new(Box::new(opened), tables, wanted);
    Ok(Box::new(Contained::new(KIND, Box::new(records), BTreeMap::new())))
}

fn classes(file: &ShardFile, wanted: &FieldSelection) -> Result<Vec<Vec<u8>>> {
    let opened = NumpyFile::open(file)?;
    let found = detect::classes(&opened, &tables(&opened, wanted)?, || Ok(opened.seen()))?;
    Ok(found.unwrap_or_default())
}

fn outline(file: &ShardFile, _: &FieldSelection) -> Result<Option<Outline>> {
    let seen = NumpyFile::open(file)?.seen();
    let names = seen.iter().map(|one| one.path.clone()).collect();
    Ok(Some(Outline {
        names,
        is_flat: true,
        told: seen::describe_all(&seen),
        is_sample: seen::are_one_sample(&seen),
        is_surely_sample: false,
        value_of_file: None,
        refusal: None,
    }))
}

/// The tables of a file: of images, or of values.
///
/// # Errors
/// If there are none, or several candidates, or the file lacks a wanted array.
fn tables(file: &NumpyFile, wanted: &FieldSelection) -> Result<Vec<Table>> {
    let seen = file.seen();
    let named = |name: &String| {
        let bare = name.strip_suffix(".npy").unwrap_or(name);
        let found = seen.iter().find(|one| one.path == bare).cloned();
        found.ok_or_else(|| Error::usage(format!("no array {name}: it has {}", seen::describe_all(&seen))))
    };
    let images = match &wanted.image {
        None => choice::candidates(file, &seen)?,
        Some(name) => {
            let found = named(name)?;
            let is_encoded = found.is_encoded() && (!found.is_padded() || choice::begins_like_image(file, &found)?);
            if !is_encoded && !found.has_axes_of_pixels() {
                return Err(Error::usage(format!("array {} holds no images", found.describe())));
            }
            vec![found]
        }
    };
    let tables = match images.is_empty() {
        true => value_rows::tables(file, &seen, wanted)?,
        false => {
            let label = wanted.label.as_ref().map(named).transpose()?;
            detect::of_images(file, &images, &seen, label.as_ref(), wanted)?
        }
    };
    match tables.is_empty() {
        true => Err(Error::data(format!("no array with rows: it has {}", seen::describe_all(&seen)))),
        false => Ok(detect::with_unused(tables, &seen)),
    }
}
