//! Sources: list samples and read their bytes.
//!
//! A [`Source`] lists its samples once ([`Found`]) and then reads their bytes in any order, from many threads. The packing engine
//! knows no kind of source.

pub(crate) mod api;
mod archive;
pub(crate) mod classes;
mod dataset;
mod datasets;
pub mod fraction;
pub mod given;
pub mod image_folder;
mod keep;
mod layout;
mod links;
pub mod list;
mod listed;
mod lists;
mod local_tree;
pub(crate) mod merge;
mod missing_components;
mod names;
pub(crate) mod npy;
mod npz;
mod object_tree;
mod open;
pub mod options;
mod outcome;
pub mod packed;
mod patient;
pub(crate) mod payload;
mod payloads;
mod resolve;
mod root;
pub(crate) mod sealed;
pub mod several;
pub mod shards;
pub mod storage;
pub(crate) mod stored;
pub(crate) mod strangers;
pub mod transformed;
mod tree;
mod url;
mod walk;

pub(crate) use api::COMPONENT;
pub use api::{Found, Look, ReadError, Refusal, SampleReader, SharedSource, Source, SourceKind};
pub use datasets::Datasets;
pub use fraction::{Fractions, Parted};
pub use given::Given;
pub use list::List;
pub use local_tree::LocalTree;
pub use object_tree::ObjectTree;
pub use open::FolderReader;
pub use packed::is_dataset;
pub(crate) use resolve::restored;
pub use resolve::{in_archive, part_of, resolve, resolve_all, shared};
pub use root::Root;
pub use sealed::SealedReader;
pub use several::{Part, Several};
pub use shards::Shards;
pub use transformed::Transformed;

/// Whether `extension`, in lower case and without the dot, is an image extension.
pub fn is_image_extension(extension: &[u8]) -> bool {
    names::EXTENSIONS.iter().any(|known| known.as_bytes() == extension)
}
