//! The memory budget: the number of samples in flight that fit.

use shardpack_format::{Error, Result, size};

use crate::plan::Plan;

/// The stream buffer is written out at this length: half of a usual L2 cache.
pub(super) const FLUSH_BYTES: usize = 256 << 10;

/// Number of buffers for samples of `plan` that fit `memory_bytes`; at least one.
///
/// # Errors
/// If not even one fits.
pub(crate) fn fit(plan: &Plan, memory_bytes: u64) -> Result<usize> {
    let buffer = FLUSH_BYTES as u64 + u64::from(plan.longest_record_bytes);
    match memory_bytes / buffer {
        0 => Err(too_little(memory_bytes, "the longest sample alone takes", buffer)),
        fit => Ok(usize::try_from(fit).unwrap_or(usize::MAX)),
    }
}

/// Fails if no sample fits, however short.
pub(crate) fn fit_any(memory_bytes: u64) -> Result<()> {
    match memory_bytes <= FLUSH_BYTES as u64 {
        true => Err(too_little(memory_bytes, "any sample takes more than", FLUSH_BYTES as u64)),
        false => Ok(()),
    }
}

fn too_little(memory_bytes: u64, what: &str, needed: u64) -> Error {
    Error::usage(format!("--memory {}: {what} {}", size::text(memory_bytes), size::text(needed)))
        .help(format!("use --memory {}MiB or more", needed.div_ceil(1 << 20)))
}
