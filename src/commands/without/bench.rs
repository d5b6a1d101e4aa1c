//! Stands for `shardpack bench` in a build without the feature `decode`, which has no loader.

use std::{ffi::OsString, path::Path};

use shardpack_packer::{Result, decoding};

use crate::Outcome;

/// Any options.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    any: Vec<OsString>,
}

impl Args {
    /// None.
    pub fn urls(&self) -> Vec<&Path> {
        Vec::new()
    }
}

/// Refuses.
pub fn run(_: &Args) -> Result<Outcome> {
    decoding::require_decode("bench").map(|()| Outcome::Done)
}
