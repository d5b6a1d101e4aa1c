//! Datasets at URLs, on real servers.

#![allow(
    clippy::disallowed_methods,
    clippy::excessive_nesting,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::type_complexity
)]

mod all;
mod bench;
mod catalogues;
mod convert;
mod crops;
mod foreign;
mod list;
mod npz;
mod pack;
mod parts;
mod repair;
mod side_by_side;
mod urls;
mod verify;
mod zips;
