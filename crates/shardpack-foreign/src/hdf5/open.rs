//! Opens an HDF5 file for reading, with limits on every size in the file.
//!
//! No read is longer than [`most_bytes`], and nothing longer is decompressed. External files are never opened.

use std::sync::Arc;

use hdf5_reader::{
    FileStorage, FilterRegistry, Hdf5File, OpenOptions, RangeRequestStorage, Storage, StorageBuffer,
    error::{Error as Hdf5Error, Result as Hdf5Result},
};
use shardpack_format::{Error, Result, memory};

use super::{
    super::{FileLocation, remote::Blocks},
    lzf,
};

/// The class of a layout that is made of other datasets.
const VIRTUAL: u8 = 3;
/// The crate's message about external raw data.
const RAW: &str = "external raw data file";
/// Most bytes of a chunk, a row or a piece of the file, where there is memory for them.
const MAX_BYTES: u64 = 256 << 20;

/// The message if something is longer.
pub(super) fn at_once() -> String {
    let most = most_bytes();
    let how = if most as u64 == MAX_BYTES { "" } else { "; more --memory allows more" };
    format!("more than the limit of {most} for one read{how}")
}

/// The same, of the memory that there is: a chunk is in it as it is stored, unpacked, and as rows.
pub(super) fn most_bytes() -> usize {
    MAX_BYTES.min(memory::most_of_piece() / 2) as usize
}

/// Number of datasets after which the file is reopened: the crate caches all that it has read from each dataset.
pub(super) const OPENED: usize = 4096;
/// Maximum decompression ratio: twice the best ratio of deflate. A higher ratio is claimed and not stored.
const MAX_RATIO: u64 = 2048;

/// Most bytes that all items of a dataset of `file` may have.
pub(super) fn most_unpacked(file: &Hdf5File) -> u64 {
    file.storage().len().saturating_mul(MAX_RATIO)
}

/// A file that gives no more at once than anything here needs.
struct Bounded(Box<dyn Storage>);

impl Storage for Bounded {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_range(&self, offset: u64, len: usize) -> Hdf5Result<StorageBuffer> {
        if len > most_bytes() {
            return Err(Hdf5Error::ResourceLimit(format!("{len} bytes in one piece, {}", at_once())));
        }
        self.0.read_range(offset, len)
    }
}

/// Opens the file at `place`.
///
/// # Errors
/// If the file cannot be read, is not HDF5, or is shorter than its header claims.
pub(super) fn open(place: &FileLocation) -> Result<Hdf5File> {
    let mut filters = FilterRegistry::new();
    let lzf = |_: &_, input: &[u8], _| {
        let unpacked = lzf::unpacked(input, most_bytes());
        unpacked.ok_or_else(|| Hdf5Error::DecompressionError("damaged LZF".to_owned()))
    };
    filters.register(lzf::FILTER, Box::new(lzf));
    let options = OpenOptions::default()
        .with_filter_registry(filters)
        .with_max_read_bytes(most_bytes())
        .with_max_chunk_bytes(most_bytes())
        // Rows are read in chunk order, so each chunk is needed once.
        .with_chunk_cache_bytes(0);
    let storage: Box<dyn Storage> = match place {
        FileLocation::Local(path) => Box::new(FileStorage::open(path).map_err(to_error)?),
        FileLocation::Remote(remote) => {
            let blocks = Blocks::new(remote);
            Box::new(RangeRequestStorage::new(blocks.bytes(), move |offset, bytes| {
                let mut range = vec![0; bytes];
                blocks.read_exact_at(&mut range, offset)?;
                Ok(range)
            }))
        }
    };
    let storage = Arc::new(Bounded(storage));
    let bytes = storage.len();
    let file = Hdf5File::from_storage_with_options(storage, options).map_err(to_error)?;
    let end = file.superblock().eof_address;
    if end > bytes {
        return Err(Error::data(format!("truncated HDF5 file: {bytes} bytes, {end} in its header")).at_byte(bytes));
    }
    Ok(file)
}

/// Converts an error of the crate to an error of the file.
pub(super) fn to_error(error: Hdf5Error) -> Error {
    match cause(error) {
        Hdf5Error::Io(error) if error.raw_os_error().is_some() => Error::io("cannot read", error),
        error if is_limit(&error) => Error::data(said(&error)),
        error => Error::data(format!("damaged HDF5 file: {}", said(&error))),
    }
}

/// The dataset of an unsupported layout that an error names, and its layout.
pub(super) fn child(error: &Hdf5Error) -> Option<(String, String)> {
    let Hdf5Error::Context { path, source } = error else { return None };
    match &**source {
        Hdf5Error::UnsupportedLayoutClass(VIRTUAL) => {
            let (name, _) = path.strip_prefix("child '")?.rsplit_once("' at ")?;
            Some((name.to_owned(), said(source)))
        }
        source => child(source),
    }
}

/// Description of the error, for a message that names the position.
pub(super) fn said(error: &Hdf5Error) -> String {
    match error {
        Hdf5Error::UnsupportedFilter(_) => match filter(error) {
            Some(name) => format!("compressed with {name}, which is not read"),
            None => error.to_string(),
        },
        Hdf5Error::UnsupportedLayoutClass(VIRTUAL) => {
            "a virtual dataset: its data lies in other datasets or files, which are not followed".to_owned()
        }
        Hdf5Error::Other(what) if what.starts_with(RAW) => format!("{what}: other files are not read"),
        Hdf5Error::ResourceLimit(what) => what.clone(),
        error => error.to_string(),
    }
}

/// Whether the error is an unsupported feature and not corruption: then it applies to the whole dataset.
pub(super) fn is_limit(error: &Hdf5Error) -> bool {
    let is_elsewhere = matches!(error, Hdf5Error::Other(what) if what.starts_with(RAW));
    is_elsewhere
        || matches!(
            error,
            Hdf5Error::UnsupportedFilter(_)
                | Hdf5Error::UnsupportedEncoding(_)
                | Hdf5Error::ResourceLimit(_)
                | Hdf5Error::UnsupportedLayoutClass(VIRTUAL)
        )
}

/// The innermost error: the position is reported by this crate.
pub(super) fn cause(error: Hdf5Error) -> Hdf5Error {
    match error {
        Hdf5Error::Context { source, .. } => cause(*source),
        error => error,
    }
}

/// Name of a filter that is not known. Source: The HDF Group, "Registered Filter Plugins".
fn filter(error: &Hdf5Error) -> Option<&'static str> {
    let Hdf5Error::UnsupportedFilter(what) = error else { return None };
    let names = [
        ("305", "LZO"),
        ("307", "bzip2"),
        ("32001", "Blosc"),
        ("32004", "LZ4"),
        ("32008", "bitshuffle"),
        ("32013", "ZFP"),
        ("32015", "zstd"),
        ("32026", "Blosc2"),
    ];
    let number = what.rsplit(' ').next()?;
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}
