//! Stands for advice on training in a build without the feature `decode`, which has no loader: there is none.

use std::fmt;

use serde::Serialize;
use shardpack_packer::pack::Planned;

/// An option that makes training faster.
#[derive(Serialize)]
pub enum Finding {}

impl fmt::Display for Finding {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// None.
pub fn of_pack(_: &Planned, _: bool) -> Vec<Finding> {
    Vec::new()
}
