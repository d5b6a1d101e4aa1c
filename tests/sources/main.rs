//! Sources: trees, lists, files of images, LMDB, HDF5, parquet and shards of other tools.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::type_complexity
)]

mod accounts;
mod accounts_databases;
mod accounts_trees;
mod agree;
mod agree_datasets;
mod array_record;
mod arrow;
mod beton;
mod box_files;
mod boxes;
mod by_name;
mod class_trees;
mod components;
mod converted_sources;
mod detection;
mod extra_roots;
mod file_columns;
mod files;
mod hdf5;
mod hdf5_files;
mod hdf5_labels;
mod known_layouts;
mod label_patterns;
mod label_text;
mod layout_table;
mod layouts;
mod list_forms;
mod list_labels;
mod list_targets;
mod listed_layouts;
mod lists;
mod litdata;
mod lmdb;
mod lmdb_damage;
mod lmdb_options;
mod mapped_lists;
mod mmlab;
mod multi_label;
mod named_boxes;
mod npz;
mod numpy_rows;
mod object_classes;
mod pairs;
mod pickled;
mod published_layouts;
mod published_table;
mod shard_targets;
mod side_by_side;
mod targets;
mod values;
mod values_beside;
mod values_faults;
mod values_hdf5_groups;
mod values_parquet;
mod values_random;
mod values_shards;
mod values_tar;
mod zips;
