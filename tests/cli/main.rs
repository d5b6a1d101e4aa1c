//! The command line: help, messages, reports, pages of the documentation, and programs that start it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::type_complexity
)]

mod bench;
mod docs;
mod help_lines;
mod inspect;
mod json;
mod many_machines;
mod memory;
mod messages;
mod pages;
mod pictures;
mod plan;
mod questions;
mod recipes;
mod same;
mod slurm;
mod terminal;
mod trust;
