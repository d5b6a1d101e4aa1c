//! Real object stores and web servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod listing;
mod objects;
