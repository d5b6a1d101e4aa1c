//! HDF5 files of images, as h5py, Fuel and the scripts of the field write them: datasets to images and labels, trusting
//! nothing.
//!
//! An image is a row of a dataset, or a dataset of its own. The unpacked file that offsets speak of is all images end to
//! end, in the order in which they are walked, each with what is beside it in other datasets of as many rows; pixels are `.npy` files there, with axes and values as they are stored.
//!
//! Holds at all times: of each dataset one batch of rows is in memory, whatever the number of rows; what is longer than
//! that is refused by its size; a panic of the crate is an error here; a damaged chunk is said of its rows alone.
//!
//! Not read: pixels that are not uint8, compound types, compression by filters other than gzip, LZF, szip, shuffle,
//! fletcher32, scale-offset and n-bit; data in other files, to which nothing here follows.
//!
//! Specification: HDF5 File Format 3.0, superblocks 0 to 3. Written by: h5py 3.16 with HDF5 2.0.

mod components;
mod description;
mod image_datasets;
mod lzf;
mod names;
mod open;
mod records;
mod rows;
mod sample_groups;
mod split;
mod tables;
mod value_rows;
mod values;

use std::{collections::BTreeMap, ops::Range, path::Path};

use shardpack_format::{
    Error, Result,
    formats::foreign::{Record, Walk, Wanted},
    image_header::SNIFF_BYTES,
};

use self::{image_datasets::ImageDatasets, records::Records, sample_groups::SampleGroups, tables::Layout};
use super::contain;
pub use open::is;
pub use split::stray;

/// Begins to walk the file at `path`; of what it says are splits only `part`, where that is said.
///
/// # Errors
/// When it is damaged, has no images, several datasets that could be meant, or not what is wanted.
pub fn walk(path: &Path, wanted: &Wanted, part: Option<&str>) -> Result<Box<dyn Walk>> {
    let images: Box<dyn Images> = contained(|| {
        let file = open::open(path)?;
        let layout = tables::layout(&file, wanted)?;
        let are_splits = !layout.splits(&file)?.is_empty();
        let layout = layout.of_split(&file, part)?;
        let why = match &layout {
            Layout::Rows(_) => Some("its images are rows, and rows have no keys"),
            Layout::SampleGroups(_) => Some("its samples are values, which a file of labels does not name"),
            Layout::ImageDatasets(_) => None,
        };
        if let Some(why) = why.filter(|_| !wanted.entries.is_unsaid()) {
            let error = Error::usage(why).in_file(path);
            return Err(error.help("--label-feature PATH names the dataset with their labels"));
        }
        Ok(match layout {
            Layout::Rows(tables) => Box::new(Records::new(&file, tables, wanted)) as Box<dyn Images>,
            Layout::SampleGroups(samples) => Box::new(SampleGroups::new(&file, path, samples, are_splits, wanted)?),
            Layout::ImageDatasets(groups) => Box::new(ImageDatasets::new(&file, path, groups, are_splits, wanted)?),
        })
    })?;
    Ok(Box::new(Contained {
        images,
        at: 0,
        content: Vec::new(),
        image_bytes: None,
        has_content: false,
        has_ended: false,
    }))
}

/// Names of the classes in the order of their labels; none where the file does not tell them.
///
/// # Errors
/// As [`walk`].
pub fn classes(path: &Path, wanted: &Wanted) -> Result<Vec<Vec<u8>>> {
    contained(|| {
        let file = open::open(path)?;
        tables::classes(&file, &tables::layout(&file, wanted)?)
    })
}

/// Names of the splits that the file is parted into, by the names of its datasets and groups or Fuel's attribute; none
/// where it is not.
///
/// # Errors
/// As [`walk`].
pub fn splits(path: &Path, wanted: &Wanted) -> Result<Vec<String>> {
    contained(|| {
        let file = open::open(path)?;
        tables::layout(&file, wanted)?.splits(&file)
    })
}

/// What is odd about the splits that the file tells.
///
/// # Errors
/// As [`walk`].
pub fn odd_splits(path: &Path, wanted: &Wanted) -> Result<OddSplits> {
    contained(|| {
        let file = open::open(path)?;
        tables::layout(&file, wanted)?.odd_splits(&file)
    })
}

/// What is odd about splits that are ranges of rows.
#[derive(Debug, Default)]
pub struct OddSplits {
    /// Rows that are of no split.
    pub strays: Vec<Range<u64>>,
    /// Two splits that share rows, and which, in words.
    pub shared: Option<String>,
}

/// What hands out the images of a file, one after the other.
trait Images {
    /// The next one, as a record whose image begins at `at`, its bytes in `out` and behind them those of what is beside it; `None`
    /// behind the last.
    fn next(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Option<Record>>;

    /// What was understood of the file.
    fn notes(&self) -> Vec<String>;

    /// What of the file is neither image nor goes with one, and how much of it.
    fn passed(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

/// A walk that ends where something is wrong with the file as a whole.
struct Contained {
    images: Box<dyn Images>,
    /// Where the next image begins in the unpacked file.
    at: u64,
    /// Image of the record that was read last, and what is beside it.
    content: Vec<u8>,
    /// Length of the image, if there is one.
    image_bytes: Option<usize>,
    /// Whether there is anything of it.
    has_content: bool,
    has_ended: bool,
}

impl Walk for Contained {
    fn next(&mut self) -> Result<Option<Record>> {
        (self.image_bytes, self.has_content) = (None, false);
        if self.has_ended {
            return Ok(None);
        }
        let step = contained(|| {
            self.content.clear();
            self.images.next(self.at, &mut self.content)
        });
        match &step {
            Ok(Some(record)) => {
                let image = record.image.as_ref().ok();
                (self.at, self.image_bytes) = (record.range.end, image.map(|image| image.bytes as usize));
                self.has_content = record.has_content();
            }
            _ => self.has_ended = true,
        }
        step
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = self.image_bytes.ok_or_else(|| Error::data("the row has no image that can be had"))?;
        self.content(out)?;
        out.truncate(bytes);
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.extend(self.content.iter().take(self.image_bytes.unwrap_or(0).min(SNIFF_BYTES)));
        Ok(())
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if !self.has_content {
            return Err(Error::data("the row has nothing that can be had"));
        }
        out.clear();
        out.extend_from_slice(&self.content);
        Ok(())
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.images.passed()
    }

    fn notes(&self) -> Vec<String> {
        self.images.notes()
    }
}

/// Calls into the HDF5 crate, whose panics are errors here.
fn contained<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    contain::contained("HDF5 file", call)
}

#[cfg(test)]
mod tests;
