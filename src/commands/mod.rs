//! The subcommands: each parses its options, makes one call, and prints the report.

pub mod adopt;
#[cfg_attr(not(feature = "decode"), path = "without/advice.rs")]
mod advice;
#[cfg_attr(not(feature = "decode"), path = "without/bench.rs")]
pub mod bench;
pub mod convert;
pub mod crops;
pub mod inspect;
pub mod merge;
pub mod pack;
mod pack_text;
pub mod part;
pub mod plan;
pub mod planned;
mod planned_targets;
pub mod slurm;
pub mod status;
pub mod verify;
