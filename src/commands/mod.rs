//! The subcommands: each takes its options, makes one call, and prints what came of it.

pub mod adopt;
pub mod bench;
pub mod convert;
pub mod crops;
pub mod inspect;
pub mod pack;
pub mod plan;
mod planned;
pub mod verify;
