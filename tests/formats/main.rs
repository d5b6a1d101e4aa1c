//! `convert`, the bytes of each format, and the readers of other libraries.

#![allow(
    clippy::disallowed_methods,
    clippy::excessive_nesting,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::type_complexity
)]

mod convert;
mod convert_columns;
mod convert_components;
mod convert_damage;
mod convert_foreign;
mod convert_runs;
mod convert_told;
mod foreign;
mod foreign_formats;
mod formats;
mod golden;
mod peers_catalogues;
mod peers_formats;
mod peers_table;
mod peers_webdataset;
mod peers_zstd;
mod vectors;
