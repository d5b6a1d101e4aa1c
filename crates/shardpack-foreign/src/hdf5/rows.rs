//! Reads the rows of a dataset, its parts along the first axis, in batches of whole chunks.
//!
//! Memory holds one batch, of the wanted length or of the rows of one chunk; sequential reads read each chunk once. If the
//! chunks of a row and its neighbours exceed the read limit together, some chunks are read again for each batch.

use std::ops::Range;

use hdf5_reader::{
    Datatype, H5Type, Hdf5File, SliceInfo, SliceInfoElem,
    error::{Error as Hdf5Error, Result as Hdf5Result},
};
use shardpack_format::{Error, Result};

use super::{
    super::{
        plain::by,
        tables::{Array, Rows},
    },
    array::StoredArray,
    open::{self, most_bytes},
};

/// Maximum number of rows in a batch: items other than bytes take more memory than their bytes while they are read, and the
/// crate caches the chunk positions of several batches.
const BATCH_ROWS: u64 = 1 << 12;

/// An item as it is stored, whatever its type.
#[derive(Clone)]
struct Item(Vec<u8>);

impl H5Type for Item {
    fn hdf5_type() -> Datatype {
        Datatype::Opaque { size: 1, tag: String::new() }
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> Hdf5Result<Self> {
        Ok(Self(bytes.to_vec()))
    }

    fn element_size(_: &Datatype) -> usize {
        1
    }
}

/// A number of `BYTES` bytes as it is stored, without an allocation of its own.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Number<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Number<BYTES> {
    fn is(item: &Datatype) -> bool {
        let is_number = matches!(item, Datatype::FixedPoint { .. } | Datatype::FloatingPoint { .. });
        is_number && hdf5_reader::dtype_element_size(item).is_ok_and(|bytes| bytes == BYTES)
    }
}

impl<const BYTES: usize> H5Type for Number<BYTES> {
    fn hdf5_type() -> Datatype {
        Datatype::Opaque { size: BYTES as u32, tag: String::new() }
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> Hdf5Result<Self> {
        let wrong = |_| Hdf5Error::InvalidData(format!("an item of {} bytes, expected {BYTES}", bytes.len()));
        <[u8; BYTES]>::try_from(bytes).map(Self).map_err(wrong)
    }

    fn element_size(_: &Datatype) -> usize {
        BYTES
    }

    fn native_copy_compatible(item: &Datatype) -> bool {
        Self::is(item)
    }
}

/// The rows of a dataset.
pub(super) struct DatasetRows {
    array: StoredArray,
    path: String,
    row_bytes: usize,
    /// Rows that a chunk reaches over.
    band: u64,
    /// Rows of a batch.
    step: u64,
    /// Numbers of the rows in `held`, or that cannot be read.
    at: Range<u64>,
    held: Result<Vec<u8>, String>,
    /// Row before which batches hold a single band, because one is corrupt.
    narrow_end: u64,
}

impl DatasetRows {
    /// The rows of the dataset at `path`, in batches of `batch_bytes` bytes, or of the rows of one chunk.
    ///
    /// # Errors
    /// If the dataset is corrupt, a row or chunk exceeds the read limit, or the dataset claims more than the file can hold.
    pub fn open(batch_bytes: usize, file: &Hdf5File, path: &str) -> Result<Self> {
        let dataset = file.dataset(path).map_err(open::to_error)?;
        let in_dataset = |what: String| Error::data(format!("dataset {path}: {what}"));
        let item_bytes = dataset.raw_element_size().map_err(|error| in_dataset(open::said(&error)))?;
        let bytes_of = |axes: Vec<u64>| {
            axes.into_iter().try_fold(item_bytes as u64, u64::checked_mul).filter(|bytes| *bytes <= most_bytes() as u64)
        };
        let too_long = |what: &str| in_dataset(format!("{what} of {}", open::at_once()));
        let row_bytes = bytes_of(dataset.shape().iter().skip(1).copied().collect()).ok_or_else(|| too_long("rows"))?;
        let chunks = dataset.chunks().unwrap_or_default();
        if !chunks.is_empty() && bytes_of(chunks.iter().copied().map(u64::from).collect()).is_none() {
            return Err(too_long(&format!("chunks of {} items of {item_bytes} bytes:", by(&chunks))));
        }
        // Chunks at the ends are stored whole.
        let stored = dataset.shape().iter().enumerate().try_fold(item_bytes as u64, |bytes, (at, axis)| {
            let chunk = chunks.get(at).copied().map_or(1, u64::from).max(1);
            bytes.checked_mul(axis.div_ceil(chunk).checked_mul(chunk)?)
        });
        if stored.is_none_or(|stored| stored > open::most_unpacked(file)) {
            let bytes = file.storage().len();
            return Err(in_dataset(format!(
                "{} items, more than a file of {bytes} bytes can hold",
                by(dataset.shape())
            )));
        }
        let band = chunks.first().copied().map_or(1, u64::from).max(1);
        let fit = (batch_bytes as u64 / row_bytes.max(1)).clamp(1, BATCH_ROWS);
        let step = match band {
            band if band <= fit => fit / band * band,
            band if band.checked_mul(row_bytes).is_some_and(|bytes| bytes <= most_bytes() as u64) => band,
            _ => fit,
        };
        let (row_bytes, path) = (row_bytes as usize, path.to_owned());
        let array = StoredArray::new(dataset);
        Ok(Self { array, path, row_bytes, band, step, at: 0..0, held: Ok(Vec::new()), narrow_end: 0 })
    }

    /// Reads the batch that row `number` is in.
    fn fill(&mut self, number: u64) -> Result<()> {
        let rows = self.array.dataset.shape().first().copied().unwrap_or(0);
        let batch = |step: u64| {
            let start = number / step * step;
            start..start.saturating_add(step).min(rows)
        };
        let narrow = self.band.min(self.step);
        let mut at = batch(if number < self.narrow_end { narrow } else { self.step });
        let mut read = self.read(&at);
        if read.is_err() && self.step > narrow && at.end - at.start > narrow {
            self.narrow_end = at.end;
            at = batch(narrow);
            read = self.read(&at);
        }
        self.held = match read {
            Err(error) if open::is_limit(&error) => {
                return Err(Error::data(format!("dataset {}: {}", self.path, open::said(&error))));
            }
            Err(Hdf5Error::Io(error)) if error.raw_os_error().is_some() => return Err(Error::io("cannot read", error)),
            read => read.map_err(|error| open::said(&error)),
        };
        self.at = at;
        Ok(())
    }

    fn numbers<const BYTES: usize>(&self, selection: &SliceInfo) -> Hdf5Result<Vec<u8>> {
        let read = self.array.dataset.read_slice::<Number<BYTES>>(selection)?;
        Ok(read.into_raw_vec_and_offset().0.iter().flat_map(|number| number.0).collect())
    }

    fn read(&self, rows: &Range<u64>) -> Hdf5Result<Vec<u8>> {
        let mut selection = SliceInfo::all(self.array.dataset.ndim());
        let missing = || Hdf5Error::InvalidData("no such row".to_owned());
        *selection.selections.first_mut().ok_or_else(missing)? =
            SliceInfoElem::Slice { start: rows.start, end: rows.end, step: 1 };
        let bytes = match self.array.dataset.dtype() {
            item if Number::<1>::is(item) => self.numbers::<1>(&selection),
            item if Number::<2>::is(item) => self.numbers::<2>(&selection),
            item if Number::<4>::is(item) => self.numbers::<4>(&selection),
            item if Number::<8>::is(item) => self.numbers::<8>(&selection),
            _ => self.array.dataset.read_slice::<Item>(&selection).map(|read| {
                let items = read.into_raw_vec_and_offset().0;
                items.iter().flat_map(|item| item.0.iter().copied()).collect()
            }),
        };
        let bytes = bytes.map_err(open::cause)?;
        let expected = (rows.end - rows.start).checked_mul(self.row_bytes as u64);
        if expected != Some(bytes.len() as u64) {
            return Err(Hdf5Error::InvalidData(format!(
                "{} bytes of rows {} to {}",
                bytes.len(),
                rows.start,
                rows.end
            )));
        }
        Ok(bytes)
    }
}

impl Rows for DatasetRows {
    fn array(&self) -> &dyn Array {
        &self.array
    }

    fn batch_bytes(&self) -> u64 {
        self.step * self.row_bytes as u64
    }

    fn row(&mut self, number: u64) -> Result<std::result::Result<&[u8], String>> {
        if !self.at.contains(&number) {
            self.fill(number)?;
        }
        if !self.at.contains(&number) {
            return Ok(Err(format!("dataset {}: it has no row {number}", self.path)));
        }
        let at = (number - self.at.start) as usize * self.row_bytes;
        Ok(match &self.held {
            // The batch has all its rows: its length was checked.
            Ok(held) => Ok(&held[at..at + self.row_bytes]),
            Err(what) => Err(format!("dataset {}, row {number}: {what}", self.path)),
        })
    }
}
