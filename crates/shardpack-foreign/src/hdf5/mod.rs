//! Reads HDF5 files of images, as h5py, Fuel and common scripts write them, and trusts no number. `tables` maps datasets whose
//! rows are samples to images and labels.
//!
//! An image is a row of a dataset, or a dataset of its own. Offsets count in a virtual file: all images in walk order, each
//! followed by its fields from other datasets with as many rows. Pixels are `.npy` files in this virtual file, with axes and
//! values as stored.
//!
//! Memory holds one batch of rows per dataset, whatever the number of rows; longer rows are refused by their size. A panic of
//! the `hdf5` crate becomes an error. A corrupt chunk is reported for its rows only.
//!
//! Not supported: pixels that are not uint8, compound types, and filters other than gzip, LZF, szip, shuffle, fletcher32,
//! scale-offset and n-bit. External data is never followed: links to other files are refused or counted.
//!
//! Specification: HDF5 File Format 3.0, superblocks 0 to 3. Written by: h5py 3.16 with HDF5 2.0.

mod array;
mod attributes;
mod detect;
mod image_datasets;
mod known;
mod layout;
mod links;
mod lzf;
mod names;
mod open;
mod rows;
mod sample_groups;
mod split;

use hdf5_reader::Hdf5File;
use shardpack_format::{
    Error, ErrorKind, Result,
    formats::foreign::{FieldSelection, Walk},
};

use self::{image_datasets::ImageDatasets, layout::Layout, links::Links, sample_groups::SampleGroups};
use super::{
    FileLocation, catch_panic,
    entry::Entry,
    tables::{
        known::{OddSplits, Outline},
        records::Records,
        seen,
        table::Table,
        walk::{Contained, Images},
    },
};
use known::takes;
pub use known::{FILE, are_samples, is};

/// The kind of the file, for messages.
const KIND: &str = "HDF5 file";

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry {
    extensions: &["h5", "he5"],
    takes,
    classes: |file, wanted| classes(file.location(), wanted),
    splits: |file, wanted| splits(file.location(), wanted),
    outline: |file, wanted| outline(file.location(), wanted),
    odd_splits: |file, wanted| split_warnings(file.location(), wanted),
    ..Entry::new("hdf5", is, |file, wanted, _| walk(file.location(), wanted, file.part.as_deref()))
};

/// Starts to walk `file`; `part` selects one of the splits in the file.
///
/// # Errors
/// If the file is corrupt, has no images, has several candidate datasets, or lacks a wanted dataset.
pub fn walk(file: impl Into<FileLocation>, wanted: &FieldSelection, part: Option<&str>) -> Result<Box<dyn Walk>> {
    let place = &file.into();
    let (images, left_out) = contained(|| {
        let file = open::open(place)?;
        let (layout, links) = layout_of(&file, wanted)?;
        let are_splits = !layout.splits(&file)?.is_empty();
        let layout = layout.of_split(&file, part)?;
        let is_file = are_samples(&wanted.entries);
        let why = match &layout {
            _ if is_file => None,
            Layout::Rows(_) => Some("its images are rows, and rows have no keys"),
            Layout::SampleGroups(_) => Some("its samples are groups, which a file of labels does not name"),
            Layout::ImageDatasets(_) => None,
        };
        if let Some(why) = why.filter(|_| !wanted.entries.is_unsaid()) {
            let error = Error::usage(why).in_file(place.path());
            return Err(error.help("--label-feature PATH names the dataset with their labels"));
        }
        let mut left_out = links.counted();
        let has_labels = matches!(&layout, Layout::Rows(tables) if tables.iter().any(|table| table.labels.is_some()));
        if !is_file {
            left_out.extend(attributes::of_root(&file, has_labels)?);
        }
        left_out.extend(match &layout {
            Layout::SampleGroups(_) if is_file => attributes::of_groups(&file)?,
            Layout::SampleGroups(samples) => attributes::of_groups_above(&file, &samples.groups)?,
            Layout::Rows(_) | Layout::ImageDatasets(_) => attributes::of_groups(&file)?,
        });
        if let Layout::Rows(tables) = &layout {
            left_out.extend(attributes::counted(&file, tables.iter().flat_map(Table::paths))?);
            for table in tables {
                let names = table.nameless(&file)?.into_iter();
                left_out.extend(names.map(|path| (format!("class names of {path}"), 1)));
            }
        }
        let images = match layout {
            Layout::Rows(tables) => Box::new(Records::new(Box::new(file.clone()), tables, wanted)) as Box<dyn Images>,
            Layout::SampleGroups(samples) => Box::new(SampleGroups::new(&file, place, samples, are_splits, wanted)?),
            Layout::ImageDatasets(groups) => Box::new(ImageDatasets::new(&file, place, groups, are_splits, wanted)?),
        };
        Ok((images, left_out))
    })?;
    Ok(Box::new(Contained::new(KIND, images, left_out)))
}

/// Calls into the HDF5 crate, whose panics are errors here.
fn contained<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic::contained(KIND, call)
}

/// How the samples of `file` are kept, and the links that are not followed.
fn layout_of(file: &Hdf5File, wanted: &FieldSelection) -> Result<(Layout, Links)> {
    let links = Links::find(file, wanted)?;
    match detect::layout(file, wanted) {
        Ok(layout) => Ok((layout, links)),
        Err(error) => Err(links.beside(error)),
    }
}

/// Class names in the order of labels; empty if the file has none.
///
/// # Errors
/// As [`walk`].
pub fn classes(file: impl Into<FileLocation>, wanted: &FieldSelection) -> Result<Vec<Vec<u8>>> {
    let place = &file.into();
    contained(|| {
        let file = open::open(place)?;
        detect::classes(&file, &layout_of(&file, wanted)?.0, wanted)
    })
}

/// Names of the splits, from the names of datasets and groups or from Fuel's attribute; empty if the file has none.
///
/// # Errors
/// As [`walk`].
pub fn splits(file: impl Into<FileLocation>, wanted: &FieldSelection) -> Result<Vec<String>> {
    let place = &file.into();
    contained(|| {
        let file = open::open(place)?;
        layout_of(&file, wanted)?.0.splits(&file)
    })
}

/// The datasets of a file, and whether they may be one sample; `None` if it has none.
///
/// # Errors
/// If it is corrupt.
pub fn outline(file: impl Into<FileLocation>, wanted: &FieldSelection) -> Result<Option<Outline>> {
    let place = &file.into();
    contained(|| {
        let file = open::open(place)?;
        let groups = names::list(&file)?;
        let seen = detect::look(&file, &groups)?;
        if seen.is_empty() {
            return Ok(None);
        }
        let is_flat = matches!(&groups[..], [root] if root.group.is_empty());
        let large = seen::without_small(&seen);
        let is_sample = is_flat && seen::are_one_sample(&large);
        let is_labelled = is_flat && seen::are_labelled_image(&seen);
        let is_surely_sample = is_sample && seen::are_surely_one_sample(&large, seen.len()) || is_labelled;
        let layout = layout_of(&file, wanted).map(|(layout, _)| layout);
        Ok(Some(Outline {
            names: groups.iter().flat_map(|one| one.datasets.iter().map(|name| one.path(name))).collect(),
            is_flat,
            told: seen::describe_all(&seen),
            is_sample: is_sample || is_labelled,
            is_surely_sample,
            value_of_file: detect::value_of_file(&file, &layout, &seen, wanted)?,
            refusal: layout.err().filter(|error| error.kind() == ErrorKind::Usage),
        }))
    })
}

/// Warnings about the splits in the file.
///
/// # Errors
/// As [`walk`].
pub fn split_warnings(file: impl Into<FileLocation>, wanted: &FieldSelection) -> Result<OddSplits> {
    let place = &file.into();
    contained(|| {
        let file = open::open(place)?;
        layout_of(&file, wanted)?.0.split_warnings(&file)
    })
}

#[cfg(test)]
mod tests;
