//! Rows of a measurement that begin with no shard in the page cache, and a check that this was so.
//!
//! Holds at all times: a row is reported as cold only if no probed byte was in memory, and the system counted enough bytes
//! read from a device. A row is reported as not cold if the system keeps the file in memory, has it only there, or does not
//! count reads.

use std::{fs::File, time::Duration};

use serde::Serialize;
use shardpack_format::{Error, Result, regular};
use shardpack_reader::Dataset;
use shardpack_runtime::{Instant, sleep};

/// A cold row has at least this percentage of its bytes from a device: concurrent readers may bring the rest into memory.
const LEAST_PERCENT: u64 = 95;

/// Limits for the probes of each shard: their largest number and smallest distance, since a probe makes the system read ahead.
const PLACES: u64 = 64;
const APART_BYTES: u64 = 1 << 20;

/// The system keeps pages that it still reads ahead or writes: the limit for waiting, for all shards together.
const SETTLING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Source of the bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cold {
    /// Bytes that this process read from devices in the row; `None` if the system does not count them.
    pub device_bytes: Option<u64>,
    /// Bytes of shards that the row needed.
    pub needed_bytes: u64,
    /// Whether nothing was in memory at the start, and nearly all needed bytes came from a device.
    pub is_cold: bool,
}

/// Start of a cold row.
pub(crate) struct Beginning {
    /// Whether no probe found a shard in memory.
    is_gone: bool,
    device_bytes: Option<u64>,
}

impl Beginning {
    /// Drops the shards and indexes of `dataset` from the page cache.
    ///
    /// # Errors
    /// If a file cannot be opened, or the system is not Linux.
    pub fn drop_cache(dataset: &Dataset) -> Result<Self> {
        let mut is_gone = true;
        let until = Instant::now() + SETTLING;
        for shard in dataset.shards() {
            let index = shard.index_path();
            let index = regular::open(&index).map_err(|error| Error::io("cannot open", error).in_file(index))?;
            let opened = shard.open()?;
            let Some(file) = opened.local() else { continue };
            forget(file)?;
            while is_seen(file, shard.entry().bytes) {
                if Instant::now() >= until {
                    is_gone = false;
                    break;
                }
                sleep(PAUSE);
                forget(file)?;
            }
            // The probes have made the system read ahead.
            forget(file)?;
            forget(&index)?;
        }
        Ok(Self { is_gone, device_bytes: device_bytes() })
    }

    /// Ends a row that needed `needed_bytes` of shards.
    pub fn end(self, needed_bytes: u64) -> Cold {
        Cold::new(
            self.is_gone,
            self.device_bytes.zip(device_bytes()).map(|(before, after)| after.saturating_sub(before)),
            needed_bytes,
        )
    }
}

impl Cold {
    fn new(is_gone: bool, device_bytes: Option<u64>, needed_bytes: u64) -> Self {
        let least = u128::from(needed_bytes) * u128::from(LEAST_PERCENT);
        let is_cold = is_gone && needed_bytes > 0 && device_bytes.is_some_and(|bytes| u128::from(bytes) * 100 >= least);
        Self { device_bytes, needed_bytes, is_cold }
    }
}

#[cfg(target_os = "linux")]
fn forget(file: &File) -> Result<()> {
    // Dirty pages would stay in memory. A file system with nothing to write may refuse the call.
    let _ = file.sync_data();
    let advised = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    advised.map_err(|error| Error::io("cannot be dropped from memory", error.into()))
}

/// Whether a probed byte of a file is in memory. Returns `false` if the system does not support the probe.
#[cfg(target_os = "linux")]
fn is_seen(file: &File, bytes: u64) -> bool {
    let apart = bytes.div_ceil(PLACES).max(APART_BYTES);
    // From the end, because the system does not read ahead backwards.
    (0..bytes.div_ceil(apart)).rev().any(|place| {
        let mut byte = [0];
        let into = &mut [std::io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, into, place * apart, rustix::io::ReadWriteFlags::NOWAIT).is_ok_and(|read| read > 0)
    })
}

#[cfg(not(target_os = "linux"))]
fn is_seen(_: &File, _: u64) -> bool {
    true
}

#[cfg(not(target_os = "linux"))]
fn forget(_: &File) -> Result<()> {
    Err(Error::usage("--cold: only Linux drops files from memory"))
}

/// Bytes that all threads of this process have read from devices so far.
fn device_bytes() -> Option<u64> {
    counted(&std::fs::read_to_string("/proc/self/io").ok()?)
}

fn counted(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_from_a_device_is_cold() {
        for (name, device_bytes, needed_bytes, is_cold) in [
            ("all of it", Some(1000), 1000, true),
            ("and what was read ahead", Some(2000), 1000, true),
            ("as little as may be", Some(950), 1000, true),
            ("too little", Some(949), 1000, false),
            ("nothing: a file system in memory", Some(0), 1000, false),
            ("the system does not count", None, 1000, false),
            ("nothing was needed", Some(0), 0, false),
            ("numbers near the limit", Some(u64::MAX), u64::MAX, true),
        ] {
            assert_eq!(Cold::new(true, device_bytes, needed_bytes).is_cold, is_cold, "{name}");
            assert!(!Cold::new(false, device_bytes, needed_bytes).is_cold, "{name}, but it was in memory");
        }
    }

    #[test]
    fn the_count_is_read_from_what_the_kernel_writes() {
        assert_eq!(counted("rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 0\n"), Some(4096));
        for text in ["", "rchar: 1\n", "read_bytes: many\n", "read_bytes: -1\n"] {
            assert_eq!(counted(text), None, "{text:?}");
        }
    }
}
