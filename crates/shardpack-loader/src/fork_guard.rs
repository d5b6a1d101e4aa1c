//! Check for objects with threads after a fork: the child process has none of the threads.

use shardpack_format::{Error, Result};

/// Fails in any process other than `begun_by`.
pub(crate) fn check(begun_by: u32) -> Result<()> {
    if begun_by == shardpack_runtime::process_id() {
        return Ok(());
    }
    Err(Error::usage("begun by the process that this one was forked from, which has the threads")
        .help("begin them after the fork; the dataset and the loader can be used on both sides"))
}
