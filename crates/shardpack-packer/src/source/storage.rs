//! The storage that a source lies on (page cache, disk, network), and so the order in which it is read best.
//!
//! A disk wants its files in physical order with many reads in flight, the more so if it seeks; the page cache does not
//! care, and there the plan's own order costs the least memory and time. The bytes of the shards are the same either way.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    path::Path,
    time::{Duration, Instant},
};

use rustix::io::{Errno, ReadWriteFlags};
use shardpack_format::image_header::{Kind, SNIFF_BYTES};

use super::{ReadError, Source};
use crate::listing::Listing;

/// The order in which the source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// Shard by shard, each sample in its place.
    Plan,
    /// By inode, a window of shards at a time.
    Physical {
        /// Reads in flight at a time.
        reads: usize,
    },
}

/// What a source lies on, as found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// For a person: `page cache`, `rotating disk`, `network mount (nfs)`, `disk`.
    pub name: String,
    /// What it makes of the order of reading.
    pub read_order: ReadOrder,
}

/// Kinds of the images, and the storage, told from the first bytes of a few samples.
#[derive(Clone, Debug)]
pub struct Sniffed {
    /// How many samples of each kind there are among those looked at.
    pub kinds: std::collections::BTreeMap<Kind, u64>,
    /// Share of them that was in the page cache, 0 to 1.
    pub cached: f64,
    /// Median time of a read that was not, if any.
    pub latency: Option<Duration>,
}

/// Samples that are looked at, at most.
const LOOKS: u64 = 512;
/// A device that says it rotates is believed when its median read takes longer than this; virtual disks say so too.
const SEEK: Duration = Duration::from_millis(2);
const DISK_READS: usize = 16;
const NETWORK_READS: usize = 64;

/// Looks at the first bytes of up to 512 samples, spread evenly over the listing, in physical order.
///
/// # Errors
/// Only when nothing can go on; a sample that cannot be read is passed over here and found again by the copy.
pub fn sniff(source: &dyn Source, listing: &Listing) -> Result<Sniffed, ReadError> {
    let count = listing.len().min(LOOKS);
    // In 128 bits: a listing can be longer than 2^64 / 512.
    let mut looks: Vec<u64> =
        (0..count).map(|n| (u128::from(n) * u128::from(listing.len()) / u128::from(count)) as u64).collect();
    looks.sort_unstable_by_key(|number| listing.entry(*number).place);
    let (mut kinds, mut cached, mut latencies) = (std::collections::BTreeMap::new(), 0u64, Vec::new());
    for number in looks {
        let mut first = [0; SNIFF_BYTES];
        let mut bytes = source.peek(number, &mut first, false);
        if let Ok(Some(_)) = bytes {
            cached += 1;
        } else if let Ok(None) = bytes {
            let start = Instant::now();
            bytes = source.peek(number, &mut first, true);
            latencies.push(start.elapsed());
        }
        match bytes {
            Ok(bytes) => *kinds.entry(Kind::of(&first[..bytes.unwrap_or(0)])).or_default() += 1,
            Err(ReadError::Refused(_)) => {}
            Err(fatal) => return Err(fatal),
        }
    }
    latencies.sort_unstable();
    let looked: u64 = kinds.values().sum();
    Ok(Sniffed {
        kinds,
        cached: if looked == 0 { 1.0 } else { cached as f64 / looked as f64 },
        latency: latencies.get(latencies.len() / 2).copied(),
    })
}

/// Reads the bytes of `file` at `offset` into `out` and says how many; `None` where that would have to wait for the disk
/// and `wait` does not allow it, or the system cannot tell.
///
/// # Errors
/// When they cannot be read.
#[cfg(target_os = "linux")]
pub fn peek(file: &File, offset: u64, out: &mut [u8], wait: bool) -> io::Result<Option<usize>> {
    let flags = if wait { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(out)], offset, flags) {
        Ok(read) => Ok(Some(read)),
        // Some file systems know no such flag.
        Err(Errno::AGAIN | Errno::OPNOTSUPP) if !wait => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the bytes of `file` at `offset` into `out` and says how many.
///
/// # Errors
/// When they cannot be read.
#[cfg(not(target_os = "linux"))]
pub fn peek(file: &File, offset: u64, out: &mut [u8], _: bool) -> io::Result<Option<usize>> {
    rustix::io::pread(file, out, offset).map(Some).map_err(Into::into)
}

/// What `root` lies on, given what a look at its samples showed.
pub fn of(root: &Path, sniffed: &Sniffed) -> Storage {
    if sniffed.cached >= 0.9 {
        return Storage { name: "page cache".to_owned(), read_order: ReadOrder::Plan };
    }
    if let Some(name) = network_mount(root) {
        return Storage {
            name: format!("network mount ({name})"),
            read_order: ReadOrder::Physical { reads: NETWORK_READS },
        };
    }
    // Even a disk that does not seek gains from many reads in flight and from neighbours read together (measured:
    // docs/performance.md, cold source).
    let slow = sniffed.latency.is_some_and(|latency| latency >= SEEK);
    let name = if slow && rotates(root) != Some(false) { "rotating disk" } else { "disk" };
    Storage { name: name.to_owned(), read_order: ReadOrder::Physical { reads: DISK_READS } }
}

/// Reads in flight for `--read-order physical`.
pub fn physical(root: &Path) -> ReadOrder {
    ReadOrder::Physical { reads: if network_mount(root).is_some() { NETWORK_READS } else { DISK_READS } }
}

/// Name of the network file system that `root` is on. Source of the numbers: statfs(2), and the Lustre, BeeGFS and
/// GPFS headers.
#[cfg(target_os = "linux")]
fn network_mount(root: &Path) -> Option<&'static str> {
    let magic = rustix::fs::statfs(root).ok()?.f_type as u64 & 0xffff_ffff;
    Some(match magic {
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => "smb",
        0x6573_5546 => "fuse",
        0x0bd0_0bd0 => "lustre",
        0x00c3_6400 => "ceph",
        0x4750_4653 => "gpfs",
        0x1983_0326 => "beegfs",
        0x0102_1997 => "9p",
        0x5346_414f => "afs",
        _ => return None,
    })
}

#[cfg(not(target_os = "linux"))]
fn network_mount(_: &Path) -> Option<&'static str> {
    None
}

/// Whether the block device under `root` says that it rotates; `None` where there is none or it does not say.
#[cfg(target_os = "linux")]
fn rotates(root: &Path) -> Option<bool> {
    let device = rustix::fs::stat(root).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = format!("/sys/dev/block/{major}:{minor}");
    // A partition has no queue of its own; the disk it is on is the folder above.
    ["queue/rotational", "../queue/rotational"]
        .iter()
        .find_map(|file| std::fs::read_to_string(format!("{block}/{file}")).ok())
        .map(|text| text.trim() == "1")
}

#[cfg(not(target_os = "linux"))]
fn rotates(_: &Path) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniffed(cached: f64, latency_ms: Option<u64>) -> Sniffed {
        Sniffed { kinds: Default::default(), cached, latency: latency_ms.map(Duration::from_millis) }
    }

    #[test]
    fn what_is_in_the_page_cache_is_read_in_plan_order_wherever_it_lies() {
        assert_eq!(of(Path::new("/"), &sniffed(1.0, None)).read_order, ReadOrder::Plan);
        assert_ne!(of(Path::new("/"), &sniffed(0.0, Some(0))).read_order, ReadOrder::Plan);
    }
}
