//! `pack`, `plan`, `adopt` and `crops` in folders: packed samples, interrupted packs, disk faults, parts on many machines.

#![allow(
    clippy::disallowed_methods,
    clippy::excessive_nesting,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::type_complexity
)]

mod adopt;
mod catalogues;
mod changes;
mod conservation;
mod crash;
mod crash_splits;
mod crops;
mod damage;
mod destination;
mod determinism;
mod fraction;
mod kills;
mod moved;
mod moved_roles;
mod pack;
mod parts;
mod parts_changed;
mod parts_refused;
mod raw_pixels;
mod read_errors;
mod replace;
mod selection;
mod splits;
mod unreadable;
mod verify_shards;
