//! Reads datasets that shardpack packed: whole in stored order, by sample number, by key.
//!
//! A dataset is a folder with a `manifest.json`, shards, and an index for each shard. [`Dataset::open`] reads the
//! manifest alone, so it is ready in milliseconds however large the dataset is; indexes and shards are opened when
//! they are needed. This crate has no threads, no image codecs and no command line options.
//!
//! ```
//! use shardpack_reader::Dataset;
//!
//! # fn main() -> shardpack_reader::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # shardpack_testing::Packing::default().pack(folder.path(), &[b"a cat".to_vec(), b"two dogs".to_vec(), b"a cat asleep".to_vec()]);
//! # let folder = folder.path();
//! let dataset = Dataset::open(folder)?;
//! println!("{} samples in {} classes", dataset.len(), dataset.classes().len());
//!
//! // All of them in stored order, read in large pieces into one buffer, each compared with its hash.
//! let mut reader = dataset.reader(..)?.check_content(true);
//! let mut bytes = 0;
//! while let Some(sample) = reader.next()? {
//!     bytes += sample.bytes().len();
//! }
//! assert_eq!(bytes, 5 + 8 + 12);
//!
//! // One by its number, borrowed from a mapping of its shard.
//! let sample = dataset.sample(1)?;
//! assert_eq!(sample.bytes(), b"two dogs");
//! assert_eq!((sample.label(), sample.class_name()), (Some(1), Some("dogs")));
//! assert_eq!(sample.path(), b"dogs/1.jpg");
//!
//! // One by its key, read into a buffer of one's own.
//! let number = dataset.find("00000002")?.expect("a sample with this key");
//! let mut image = Vec::new();
//! let row = dataset.read(number, &mut image)?;
//! assert_eq!((image.as_slice(), row.label), (b"a cat asleep".as_slice(), Some(0)));
//! # Ok(()) }
//! ```
//!
//! # Which way to read
//!
//! | | bytes | for |
//! |---|---|---|
//! | [`Reader::next`] | borrowed from the reader's buffer until the next call | many samples in order: the fastest |
//! | [`Dataset::sample`] | borrowed from a mapping of the shard, as long as the dataset | any sample, without a copy |
//! | [`Dataset::read`] | in a buffer of yours | any sample, with `pread` |
//! | [`Dataset::row`] | none | label, key, path, size |
//!
//! Samples are numbered from 0 in stored order: shard after shard, as the manifest lists them. In a compressed shard
//! (`--compress zstd`, the default feature `zstd`) the smallest readable unit is a block of samples: reads in order
//! unpack each block once, random reads once for each sample.
//!
//! # Checks
//!
//! Opening checks the manifest against its own id, and refuses an unfinished folder of `shardpack pack`. Before
//! an index or a shard is used, its length is compared with the manifest's, and the index's header with both; the
//! index's rows carry checksums, which are checked at their first read. Every size and offset is checked against the
//! length of the file before use. The content of an image is compared with its hash if
//! [`Dataset::check_content`] or [`Reader::check_content`] is on. `shardpack verify` checks everything.
//!
//! Every error is an [`Error`] with the fault, the file, sample and byte, the party that has to act
//! ([`Error::kind`]), and a remedy, if there is one ([`Error::help_text`]).
//!
//! # Mapped files
//!
//! Indexes are always mapped (or read into memory, if the system refuses); shards are mapped by [`Dataset::sample`] only.
//! A mapping shows the current bytes of the file: if another process truncates a mapped file, the system kills a process
//! that touches the missing part (`SIGBUS`), and if it writes into the file, the bytes change under the borrower. Sealed
//! datasets are not changed, and replacing or deleting a whole file does no harm. If files may be truncated in use,
//! [`Dataset::read`] and [`Reader`] do not map shards and report a truncated file as an error, and [`Dataset::copied`] maps
//! only indexes and crop tables beyond 256 MiB.
//!
//! # Web servers
//!
//! With the feature `cloud`, a dataset may be a folder on a web server: `Dataset::open("https://…")`. Manifest, indexes and shards are
//! read with range requests when they are needed. Nothing is listed, and nothing is kept on disk without
//! [`StoreSettings::with_cache`]. Requests that fail for a temporary reason are retried and resumed. Responses are checked against
//! lengths, versions and hashes; wrong data is fetched once more before it is reported as an error. An index stays in memory, about
//! 100 bytes a sample. [`Dataset::transfers`] counts requests and bytes, [`Dataset::cache`] reads from a cache.
//!
//! # Threads and forks
//!
//! [`Dataset`] is `Send` and `Sync`: one dataset can serve all threads of a process, each with its own [`Reader`]s and
//! buffers. Parent and children can use it after a fork, as Python's `DataLoader` does: files are read with `pread`,
//! which has no shared position; mappings are read-only; there are no threads that a child would miss; and no caller
//! waits for the lock around the few shards that [`Dataset::read`] keeps open. As always, do not fork while another
//! thread opens an index or reads from a server. A [`Reader`] may be forked as well: each side continues with the same sample.
//!
//! At most 128 shards are kept open for `pread`; mappings need no file descriptor, but each counts against
//! `vm.max_map_count` (65,530). Beyond that limit indexes are read into memory and samples with `pread`.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting, clippy::unwrap_used, clippy::panic))]

mod buffer;
mod cache;
mod content;
mod dataset;
mod lookup;
mod mapping;
mod open_shards;
mod reader;
mod sample;
mod shard;
mod shard_files;
mod single_flight;
mod splits;
mod unpack;
mod wholes;
mod window;

pub use cache::CacheUse;
#[doc(hidden)]
pub use cache::fuzz_blocks;
pub use dataset::Dataset;
pub use mapping::Bytes;
pub use reader::Reader;
pub use sample::Sample;
pub use shard::Shard;
pub use splits::{
    Split, Splits, WORK_FOLDER, format_folders, is_to_be_replaced, is_unfinished, look_at_splits, split_differences,
    splits, unfinished,
};
pub use window::{Scratch, Window};

pub use shardpack_format::{
    Error, ErrorKind, Location, Result,
    image_header::Header,
    index::{Index, RowRef},
    manifest::{Class, Manifest},
};
pub use shardpack_storage::{self as storage, Access, OpenFile, Storage, StoreSettings, Transfers, is_url};

// Compiles the recipe in Rust with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/recipes.md")]
struct Recipes;
