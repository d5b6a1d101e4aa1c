//! Detects the storage of a source (page cache, disk, network) and chooses the order of reading.
//!
//! A disk is fastest in physical order with many reads in flight, even more so if it seeks. For the page cache the order does not
//! matter, and plan order needs the least memory and time. The shard bytes are the same in either order.

#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IoSliceMut},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[cfg(target_os = "linux")]
use rustix::{
    fs::Advice,
    io::{Errno, ReadWriteFlags},
};
use shardpack_format::image_header::{Kind, SNIFF_BYTES};
use shardpack_runtime::{Instant, threads};
use shardpack_storage::{Access, Address};

use super::{Look, ReadError, SampleReader};
use crate::listing::Listing;

/// Order in which the source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// Shard by shard, each sample in its place.
    Plan,
    /// By inode, one window of shards at a time.
    Physical {
        /// Number of reads in flight.
        reads: usize,
    },
}

/// The detected storage of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Display name: `page cache`, `rotating disk`, `network mount (nfs)`, `disk`.
    pub name: String,
    /// Order of reading for this storage.
    pub read_order: ReadOrder,
}

/// Image kinds and storage measurements from the first bytes of a few samples.
#[derive(Clone, Debug)]
pub struct Sniffed {
    /// Number of inspected samples per kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// Share of them that was in the page cache, 0 to 1.
    pub cached: f64,
    /// Median duration of the reads that were not cached, if any.
    pub latency: Option<Duration>,
}

/// Maximum number of inspected samples.
pub const LOOKS: u64 = 512;
/// Maximum length of a listing for which looks read whole samples. In a longer listing, looks are at most an eighth of all reads, and
/// their data might be evicted from memory before it is copied.
const FEW: u64 = 8 * LOOKS;
/// Maximum length in bytes of a sample that a look reads whole: at most 512 MiB of page cache in total, usually far less. A longer
/// sample takes several requests anyway.
const WHOLE_BYTES: u32 = 1 << 20;
/// One look in `TIMED` still reads only the first bytes and is timed: its duration is a seek without a transfer, and it leaves nothing
/// in memory that would make the next run treat the whole source as cached.
const TIMED: usize = 16;
/// Alignment in bytes for dropping pages; page sizes are 4 KiB to 64 KiB.
#[cfg(target_os = "linux")]
const PAGE_BYTES: u64 = 64 << 10;
/// Maximum read-ahead in bytes of the system for a small read, in a usual configuration.
#[cfg(target_os = "linux")]
const AHEAD_BYTES: u64 = 128 << 10;
/// Minimum median read time at which a device that reports rotation counts as rotating; virtual disks report rotation, too.
const SEEK: Duration = Duration::from_millis(2);
const DISK_READS: usize = 16;
/// Reads in flight over a network without a measurement.
pub const NETWORK_READS: usize = Access::NETWORK.reads;

/// Numbers of the samples to inspect.
fn looks(listing: &Listing) -> Vec<u64> {
    let count = listing.len().min(LOOKS);
    // In 128 bits: a listing can be longer than 2^64 / 512.
    (0..count).map(|n| (u128::from(n) * u128::from(listing.len()) / u128::from(count)) as u64).collect()
}

/// Inspects the first bytes of up to 512 samples, spread evenly over the listing, in physical order.
///
/// `is_copied` means that the listing is copied next. A look may then read a whole sample if that saves a read. `access` is that of
/// the source.
///
/// # Errors
/// Only on fatal errors; a sample that cannot be read is skipped here and reported by the copy.
pub fn sniff(
    source: &dyn SampleReader,
    listing: &Listing,
    is_copied: bool,
    access: Access,
) -> Result<Sniffed, ReadError> {
    if !access.page_cache {
        return sniff_uncached(source, listing, access);
    }
    let mut looks = looks(listing);
    looks.sort_unstable_by_key(|number| listing.entry(*number).place);
    let is_small = |number: u64| listing.entry(number).bytes <= WHOLE_BYTES;
    let (mut kinds, mut timed, mut latencies) = (BTreeMap::new(), 0usize, Vec::new());
    for (turn, number) in looks.into_iter().enumerate() {
        let mut first = [0; SNIFF_BYTES];
        let is_whole = is_copied && listing.len() <= FEW && turn % TIMED != 0 && is_small(number);
        let (ask, wait) = if is_whole { (Look::Ahead, Look::Start) } else { (Look::Memory, Look::Once) };
        let mut bytes = source.peek(number, &mut first, ask);
        timed += usize::from(!is_whole && bytes.is_ok());
        if let Ok(None) = bytes {
            let start = Instant::now();
            bytes = source.peek(number, &mut first, wait);
            if !is_whole {
                latencies.push(start.elapsed());
            }
        }
        match bytes {
            Ok(bytes) => *kinds.entry(Kind::detect(&first[..bytes.unwrap_or(0)])).or_default() += 1,
            Err(ReadError::Refused(_)) => {}
            Err(fatal) => return Err(fatal),
        }
    }
    latencies.sort_unstable();
    Ok(Sniffed {
        kinds,
        cached: if timed == 0 { 1.0 } else { 1.0 - latencies.len() as f64 / timed as f64 },
        latency: latencies.get(latencies.len() / 2).copied(),
    })
}

/// As [`sniff`], without a page cache: many reads at a time, and no data stays in memory.
fn sniff_uncached(source: &dyn SampleReader, listing: &Listing, access: Access) -> Result<Sniffed, ReadError> {
    let looks = looks(listing);
    let (next, seen) = (AtomicUsize::new(0), Mutex::new((BTreeMap::new(), None)));
    threads::each(looks.len().min(access.reads), || {
        while let Some(number) = looks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut first = [0; SNIFF_BYTES];
            let looked = source.peek(*number, &mut first, Look::Start);
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match looked {
                Ok(bytes) => *seen.0.entry(Kind::detect(&first[..bytes.unwrap_or(0)])).or_default() += 1,
                Err(ReadError::Refused(_)) => {}
                Err(fatal) => drop(seen.1.get_or_insert(fatal)),
            }
        }
    });
    match seen.into_inner().unwrap_or_else(PoisonError::into_inner) {
        (_, Some(fatal)) => Err(fatal),
        (kinds, None) => Ok(Sniffed { kinds, cached: 0.0, latency: None }),
    }
}

/// Asks the system to read the first `bytes` of `file` ahead in few requests. A refusal is ignored.
#[cfg(target_os = "linux")]
pub fn read_ahead(file: &File, bytes: u32) {
    if let Some(bytes) = NonZeroU64::new(bytes.into()) {
        let _ = rustix::fs::fadvise(file, 0, Some(bytes), Advice::WillNeed);
    }
}

/// Does nothing on systems other than Linux.
#[cfg(not(target_os = "linux"))]
pub fn read_ahead(_: &File, _: u32) {}

/// Reads bytes of `file` at `offset` into `out` and returns their count.
///
/// Returns `None` if the read would have to wait for the disk and `look` does not allow that, or if the system cannot detect the wait.
///
/// # Errors
/// If the bytes cannot be read.
#[cfg(target_os = "linux")]
pub fn peek(file: &File, offset: u64, out: &mut [u8], look: Look) -> io::Result<Option<usize>> {
    let is_free = matches!(look, Look::Memory | Look::Ahead);
    let flags = if is_free { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
    let read = rustix::io::preadv2(file, &mut [IoSliceMut::new(out)], offset, flags);
    if look == Look::Once {
        let page = offset - offset % PAGE_BYTES;
        let _ = rustix::fs::fadvise(file, page, NonZeroU64::new(AHEAD_BYTES), Advice::DontNeed);
    }
    match read {
        Ok(read) => Ok(Some(read)),
        // Some file systems do not support the flag.
        Err(Errno::AGAIN | Errno::OPNOTSUPP) if is_free => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads bytes of `file` at `offset` into `out` and returns their count.
///
/// # Errors
/// If the bytes cannot be read.
#[cfg(not(target_os = "linux"))]
pub fn peek(file: &File, offset: u64, out: &mut [u8], _: Look) -> io::Result<Option<usize>> {
    rustix::io::pread(file, out, offset).map(Some).map_err(Into::into)
}

/// The storage of `root`, given the result of a sniff.
pub fn describe(root: &Path, sniffed: &Sniffed) -> Storage {
    if let Some(scheme) = Address::of(root).network() {
        return Storage {
            name: format!("network ({scheme})"),
            read_order: ReadOrder::Physical { reads: NETWORK_READS },
        };
    }
    if sniffed.cached >= 0.9 {
        return Storage { name: "page cache".to_owned(), read_order: ReadOrder::Plan };
    }
    if let Some(name) = network_mount(root) {
        return Storage {
            name: format!("network mount ({name})"),
            read_order: ReadOrder::Physical { reads: NETWORK_READS },
        };
    }
    // Even a disk that does not seek is faster with many reads in flight and with neighbours read together (measured:
    // docs/explain/performance.md, cold source).
    let slow = sniffed.latency.is_some_and(|latency| latency >= SEEK);
    let name = if slow && rotates(root) != Some(false) { "rotating disk" } else { "disk" };
    Storage { name: name.to_owned(), read_order: ReadOrder::Physical { reads: DISK_READS } }
}

/// Concurrent reads for `--read-order physical`.
pub fn physical(root: &Path) -> ReadOrder {
    let is_network = Address::of(root).network().or_else(|| network_mount(root)).is_some();
    ReadOrder::Physical { reads: if is_network { NETWORK_READS } else { DISK_READS } }
}

/// Number of reading threads in plan order, given `threads` worker threads.
pub fn stream_threads(root: &Path, threads: usize) -> usize {
    Address::of(root).access().threads(threads)
}

/// Number of threads that list `root`, given `threads` worker threads. Threads that wait for a network use no processor time.
pub(super) fn listing_threads(root: &Path, threads: usize) -> usize {
    if network_mount(root).is_some() { threads.max(NETWORK_READS) } else { threads }
}

/// Name of the network file system of `root`. Source of the numbers: statfs(2), and the Lustre, BeeGFS and
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

/// Whether the block device of `root` reports rotation; `None` if there is no device or no report.
#[cfg(target_os = "linux")]
fn rotates(root: &Path) -> Option<bool> {
    let device = rustix::fs::stat(root).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = format!("/sys/dev/block/{major}:{minor}");
    // A partition has no queue of its own; its disk is the parent folder.
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
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::{Arc, Mutex},
    };

    use super::*;
    use crate::listing::{Folder, FolderSamples};

    fn sniffed(cached: f64, latency_ms: Option<u64>) -> Sniffed {
        Sniffed { kinds: Default::default(), cached, latency: latency_ms.map(Duration::from_millis) }
    }

    /// A simulated disk: which parts are in memory, and how often each kind of look was used.
    #[derive(Default)]
    struct Disk {
        cached: Mutex<BTreeSet<u64>>,
        looks: Mutex<BTreeMap<&'static str, u64>>,
    }

    impl Disk {
        /// Result of a sniff on `samples` samples of `bytes` bytes, with the looks that went to the disk.
        fn sniffed(&self, samples: u64, bytes: u32, is_copied: bool) -> (Sniffed, BTreeMap<&'static str, u64>) {
            let mut in_folder = FolderSamples::default();
            (0..samples).for_each(|number| in_folder.push(format!("{number:06}").as_bytes(), bytes, number, 0));
            let folder = Folder { path: b"a".as_slice().into(), class: Some(0) };
            let listing = Listing::new(Arc::new(vec![b"a".as_slice().into()]), vec![(folder, in_folder)]);
            let Ok(sniffed) = sniff(self, &listing, is_copied, Access::FILES) else { panic!("nothing here fails") };
            (sniffed, std::mem::take(&mut self.looks.lock().unwrap()))
        }
    }

    impl SampleReader for Disk {
        fn read(&self, _: u64, _: &mut [u8]) -> Result<(), ReadError> {
            Ok(())
        }

        fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
            let mut cached = self.cached.lock().unwrap();
            let was_there = cached.contains(&number);
            let name = match look {
                Look::Memory => return Ok(was_there.then_some(first.len())),
                Look::Ahead => {
                    cached.insert(number);
                    return Ok(was_there.then_some(first.len()));
                }
                Look::Start => "start",
                Look::Once => "once",
            };
            *self.looks.lock().unwrap().entry(name).or_default() += 1;
            Ok(Some(first.len()))
        }
    }

    #[test]
    fn a_few_samples_are_read_whole_while_they_are_looked_at_and_many_are_not() {
        let cases = [
            ("a few that are copied next", 600, 110_000, true, [32, 480]),
            ("one", 1, 110_000, true, [1, 0]),
            ("the most that are a few", FEW, 110_000, true, [32, 480]),
            ("one more", FEW + 1, 110_000, true, [512, 0]),
            ("only planned", 600, 110_000, false, [512, 0]),
            ("long ones", 600, WHOLE_BYTES + 1, true, [512, 0]),
        ];
        for (name, samples, bytes, is_copied, [once, whole]) in cases {
            let disk = Disk::default();
            let (sniffed, looks) = disk.sniffed(samples, bytes, is_copied);
            let of = |look| looks.get(look).copied().unwrap_or(0);
            assert_eq!((of("once"), of("start")), (once, whole), "{name}");
            assert_eq!(disk.cached.lock().unwrap().len() as u64, whole, "{name}: only these stay in memory");
            assert_eq!((sniffed.cached, sniffed.latency.is_some()), (0.0, true), "{name}");
            // The page cached by the first look must not count as a cached source.
            assert_eq!(disk.sniffed(samples, bytes, is_copied).0.cached, 0.0, "{name}, looked at again");
            disk.cached.lock().unwrap().extend(0..samples);
            let (sniffed, looks) = disk.sniffed(samples, bytes, is_copied);
            assert_eq!((sniffed.cached, sniffed.latency, looks.len()), (1.0, None, 0), "{name}, all in memory");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_look_that_leaves_nothing_in_memory_finds_the_disk_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let look = |look| peek(&file, 0, &mut [0; SNIFF_BYTES], look).unwrap();
        assert_eq!(look(Look::Once), Some(SNIFF_BYTES));
        // A memory file system keeps the data cached.
        if look(Look::Memory).is_none() {
            assert_eq!(look(Look::Start), Some(SNIFF_BYTES));
            assert_eq!(look(Look::Memory), Some(SNIFF_BYTES));
            read_ahead(&file, 100_000);
            assert_eq!(peek(&file, 99_999, &mut [0], Look::Start).unwrap(), Some(1));
        }
    }

    #[test]
    fn what_is_in_the_page_cache_is_read_in_plan_order_wherever_it_lies() {
        assert_eq!(describe(Path::new("/"), &sniffed(1.0, None)).read_order, ReadOrder::Plan);
        assert_ne!(describe(Path::new("/"), &sniffed(0.0, Some(0))).read_order, ReadOrder::Plan);
    }
}
