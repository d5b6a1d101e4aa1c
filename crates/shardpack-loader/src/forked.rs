//! What was begun before a fork and has threads of its own: the child has none of them.

use shardpack_format::{Error, Result};

/// Fails in another process than the one that began.
pub(crate) fn check(begun_by: u32) -> Result<()> {
    if begun_by == std::process::id() {
        return Ok(());
    }
    Err(Error::usage("begun by the process that this one was forked from, which has the threads")
        .help("begin them after the fork; the dataset and the loader can be used on both sides"))
}
