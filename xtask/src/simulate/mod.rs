//! Tasks that simulate orders and machines with `shardpack_loader`: the feature `simulate`, so that all other tasks start without a build of
//! that crate and its dependencies.

mod many_machines;
mod shuffle_quality;
mod training_order;

use crate::{Result, arguments::Arguments};

/// Runs one of [`crate::SIMULATIONS`].
pub fn task(name: &str, arguments: Arguments) -> Result<()> {
    match name {
        "shuffle-quality" => shuffle_quality::task(arguments),
        "training-order" => training_order::task(arguments),
        "many-machines" => many_machines::task(arguments),
        other => Err(format!("no simulation {other:?}")),
    }
}
