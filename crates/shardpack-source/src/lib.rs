//! Sources: list samples and read their bytes.
//!
//! A [`Source`] lists its samples once ([`SourceListing`]) and then reads their bytes in any order, from many threads. The packing engine
//! knows no kind of source, and this crate knows neither plans nor shards that are written.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting))]

pub use shardpack_foreign as foreign;

mod api;
mod archive;
pub mod boxes;
pub mod classes;
mod coco_files;
mod companions;
pub mod component_table;
mod dataset;
mod dataset_location;
pub mod dataset_reader;
mod datasets;
mod divided;
pub mod extra_roots;
mod filter;
mod folder_reader;
pub mod folder_splits;
pub mod image_folder;
pub mod inputs;
mod label_pattern;
mod layout;
pub mod ledger;
mod links;
pub mod list;
mod list_objects;
mod listed_tree;
pub mod listing;
mod local_tree;
pub mod merge_classes;
mod missing_components;
pub mod monitor;
mod names;
pub mod npy;
mod npz;
mod object_classes;
mod object_tree;
pub mod options;
mod outcome;
pub mod packed;
pub mod parallel;
mod payloads;
pub mod random_split;
mod resolve;
mod retry;
pub mod rows;
pub mod sample_files;
pub mod shards;
pub mod split_sources;
pub mod storage;
pub mod stored;
pub mod strangers;
pub mod sys;
mod target_values;
pub mod transformed;
mod tree;
mod url;
mod walk;
mod yaml;

pub use api::{COMPONENT, Look, ReadError, Refusal, SampleReader, SharedSource, Source, SourceKind, SourceListing};
pub use dataset_location::DatasetLocation;
pub use dataset_reader::SealedReader;
pub use datasets::Datasets;
pub use divided::{Divided, Division};
pub use folder_reader::FolderReader;
pub use folder_splits::FolderSplits;
pub use inputs::Inputs;
pub use label_pattern::LabelPattern;
pub use list::List;
pub use local_tree::LocalTree;
pub use object_tree::ObjectTree;
pub use packed::is_dataset;
pub use random_split::Fractions;
pub use resolve::{part_of, resolve, resolve_all, resolve_to_pack, restored, shared};
pub use shards::Shards;
pub use split_sources::{SplitSource, SplitSources};
pub use transformed::Transformed;

// As if they were defined here.
use shardpack_format::Result;
use shardpack_storage::own;

/// Whether `extension`, in lower case and without the dot, is an image extension.
pub fn is_image_extension(extension: &[u8]) -> bool {
    names::EXTENSIONS.iter().any(|known| known.as_bytes() == extension)
}
