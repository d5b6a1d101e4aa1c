//! Caches bytes of a dataset at a URL in a folder of this machine, shared by all its processes.
//!
//! Holds at all times: every byte comes from the server or from a block with a correct checksum; a failure of the
//! cache never fails a read, which falls back to the server; the folder never exceeds its limit.

mod blocks;
mod counters;
mod folder;
mod fuzz;

pub use counters::CacheUse;
pub use fuzz::fuzz_blocks;

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use shardpack_format::{Error, Result, manifest::Manifest};
use shardpack_runtime::Instant;

use crate::open_shards::OpenShards;
use blocks::{BLOCK_BYTES, Blocks};
use folder::{Change, Folder, Opened};

/// A smaller limit is probably a wrong unit.
const LEAST_BYTES: u64 = 1 << 20;
/// Pause after a failure to keep blocks: making room takes time under a lock that all processes share.
const PAUSE: Duration = Duration::from_secs(10);
/// Missing blocks with at most this many present blocks between them are fetched in one request.
const MAX_BLOCKS_BETWEEN: u64 = 4;

/// The cache of one dataset.
pub(crate) struct Cache {
    /// `None` if there is no room for the dataset at all.
    place: Option<CachedDataset>,
    counts: Counts,
    began: Instant,
    /// Milliseconds after `began` until which no blocks are added.
    paused_until: AtomicU64,
}

struct CachedDataset {
    folder: Folder,
    dataset: Opened,
    shards: OpenShards<Blocks>,
}

#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    bytes: AtomicU64,
    added_bytes: AtomicU64,
    evicted_bytes: AtomicU64,
    damaged_blocks: AtomicU64,
    left_out_bytes: AtomicU64,
    held_bytes: AtomicU64,
    trouble: OnceLock<String>,
}

/// An object of the dataset: a shard, or its index.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    /// Number of the shard, if the object is a shard: its cache file is kept open.
    pub shard: Option<usize>,
    pub blake3: &'a [u8; 32],
    pub bytes: u64,
}

/// Fetches a range of the object from the server and hands its bytes out in order.
pub(crate) type Fetch<'a> = &'a dyn Fn(Range<u64>, &mut dyn FnMut(&[u8])) -> Result<()>;

impl Cache {
    /// Opens the cache for the dataset of `manifest` in the folder at `path`, with a limit of `limit_bytes` for all
    /// datasets.
    ///
    /// # Errors
    /// When the path is not a cache folder, or is not writable. A full disk is not an error.
    pub fn open(path: &Path, limit_bytes: u64, manifest: &Manifest) -> Result<Self> {
        if limit_bytes < LEAST_BYTES {
            return Err(Error::usage(format!("a cache of {limit_bytes} bytes"))
                .help("its limit is in bytes, and at least 1 MiB")
                .in_file(path));
        }
        let made = Folder::open(path, limit_bytes).and_then(|folder| {
            let opened = folder.dataset(&manifest.id.0);
            let (dataset, change) = opened.map_err(|error| Error::io("cannot open the cache", error).in_file(path))?;
            Ok((CachedDataset { folder, dataset, shards: OpenShards::new(manifest.shards.len()) }, change))
        });
        let mut this =
            Self { place: None, counts: Counts::default(), began: Instant::now(), paused_until: AtomicU64::default() };
        match made {
            Ok((place, change)) => {
                this.place = Some(place);
                this.counts.changed(change);
            }
            Err(error) => match error.io_error().map(io::Error::kind) {
                Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::TimedOut) => {
                    let _ = this.counts.trouble.set(error.to_string());
                }
                _ => return Err(error),
            },
        }
        Ok(this)
    }

    /// Counters of the cache.
    pub fn used(&self) -> CacheUse {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let counts = &self.counts;
        CacheUse {
            reads: of(&counts.reads),
            bytes: of(&counts.bytes),
            added_bytes: of(&counts.added_bytes),
            evicted_bytes: of(&counts.evicted_bytes),
            damaged_blocks: of(&counts.damaged_blocks),
            left_out_bytes: of(&counts.left_out_bytes),
            held_bytes: of(&counts.held_bytes),
            trouble: counts.trouble.get().cloned(),
        }
    }

    /// Fills `into` with bytes of `object` from `offset` on; `fetch` gets the missing bytes.
    ///
    /// # Errors
    /// Errors of `fetch`.
    pub fn read(&self, object: Object<'_>, offset: u64, into: &mut [u8], fetch: Fetch<'_>) -> Result<()> {
        let wanted = offset..offset.saturating_add(into.len() as u64);
        let blocks = if wanted.is_empty() || wanted.end > object.bytes { None } else { self.blocks(object) };
        let Some(blocks) = blocks else {
            self.counts.left_out_bytes.fetch_add(into.len() as u64, Relaxed);
            return plain(wanted, into, fetch);
        };
        let missing = self.held(&blocks, &wanted, into).unwrap_or_else(|error| {
            self.failed(&error);
            vec![Blocks::covering(&wanted)]
        });
        let mut fetched = 0;
        for stretch in &missing {
            let range = blocks.range(stretch);
            let part = range.start.max(wanted.start)..range.end.min(wanted.end);
            fetched += part.end - part.start;
            let place = (part.start - wanted.start) as usize..(part.end - wanted.start) as usize;
            let into = into.get_mut(place).unwrap_or_default();
            if self.has_room(&blocks, stretch) {
                self.fetch_blocks(&blocks, stretch, &part, into, fetch)?;
            } else {
                self.counts.left_out_bytes.fetch_add(into.len() as u64, Relaxed);
                plain(part, into, fetch)?;
            }
        }
        self.counts.reads.fetch_add(u64::from(missing.is_empty()), Relaxed);
        self.counts.bytes.fetch_add(into.len() as u64 - fetched, Relaxed);
        Ok(())
    }

    /// Marks bytes `range` of `object` as missing, because they are wrong: the next read fetches them.
    pub fn forget(&self, object: Object<'_>, range: &Range<u64>) {
        let range = range.start..range.end.min(object.bytes);
        if !range.is_empty()
            && let Some(blocks) = self.blocks(object)
            && let Err(error) = blocks.forget(&Blocks::covering(&range))
        {
            self.failed(&error);
        }
    }

    fn blocks(&self, object: Object<'_>) -> Option<Arc<Blocks>> {
        let place = self.place.as_ref()?;
        let open = || {
            let CachedDataset { folder, dataset, .. } = place;
            let cannot = |error| Error::io("cannot open", error);
            if let Some(found) = folder.object(dataset, object.blake3, object.bytes).map_err(cannot)? {
                return Ok(found);
            }
            let full = || Error::usage("full");
            if self.is_paused() {
                return Err(full());
            }
            let (made, change) = folder.make_object(dataset, object.blake3, object.bytes).map_err(cannot)?;
            self.counts.changed(change);
            made.ok_or_else(full)
        };
        let found = match object.shard {
            Some(shard) => place.shards.get(shard, open),
            None => open().map(Arc::new),
        };
        match found {
            Ok(blocks) => Some(blocks),
            Err(error) => {
                match error.io_error() {
                    Some(error) => self.failed(error),
                    None if self.is_paused() => {}
                    None => self.pause(),
                }
                None
            }
        }
    }

    /// Reads the present blocks of `wanted`; returns the missing blocks as ranges.
    fn held(&self, blocks: &Blocks, wanted: &Range<u64>, into: &mut [u8]) -> io::Result<Vec<Range<u64>>> {
        let all = Blocks::covering(wanted);
        let mut kept = blocks.kept(&all)?;
        let number = |at: usize| all.start + at as u64;
        let mut at = 0;
        while at < kept.len() {
            if !kept[at] {
                at += 1;
                continue;
            }
            let (first, range) = (at, blocks.range(&(number(at)..number(at) + 1)));
            let are_right = if range.start < wanted.start || range.end > wanted.end {
                // The checksum covers the whole block, even if only a part is wanted.
                let mut block = vec![0; (range.end - range.start) as usize];
                let is_right = blocks.read(number(at), &mut block)?;
                let part = range.start.max(wanted.start)..range.end.min(wanted.end);
                let from = (part.start - range.start) as usize..(part.end - range.start) as usize;
                let to = (part.start - wanted.start) as usize..(part.end - wanted.start) as usize;
                into[to].copy_from_slice(&block[from]);
                is_right
            } else {
                let mut end = at;
                let within = |at: usize| blocks.range(&(number(at)..number(at) + 1)).end <= wanted.end;
                while end < kept.len() && kept[end] && within(end) {
                    end += 1;
                }
                let stretch = blocks.range(&(number(at)..number(end)));
                let to = (stretch.start - wanted.start) as usize..(stretch.end - wanted.start) as usize;
                blocks.read(number(at), &mut into[to])?
            };
            at += are_right.len();
            kept[first..at].copy_from_slice(&are_right);
            let damaged = are_right.iter().filter(|is_right| !**is_right).count();
            self.counts.damaged_blocks.fetch_add(damaged as u64, Relaxed);
        }
        let mut missing: Vec<Range<u64>> = Vec::new();
        for at in (0..kept.len()).filter(|at| !kept[*at]) {
            match missing.last_mut() {
                Some(last) if number(at) - last.end <= MAX_BLOCKS_BETWEEN => last.end = number(at) + 1,
                _ => missing.push(number(at)..number(at) + 1),
            }
        }
        Ok(missing)
    }

    /// Reserves room for `stretch`; returns whether it may be written.
    fn has_room(&self, blocks: &Blocks, stretch: &Range<u64>) -> bool {
        let Some(place) = self.place.as_ref().filter(|_| !self.is_paused()) else { return false };
        match place.folder.reserve(blocks, stretch) {
            Ok(change) => {
                self.counts.changed(change);
                if !change.is_made {
                    self.pause();
                }
                change.is_made
            }
            Err(error) => {
                self.failed(&error);
                false
            }
        }
    }

    /// Fetches `stretch` as whole blocks, copies the `wanted` part out, and keeps all blocks.
    fn fetch_blocks(
        &self,
        blocks: &Blocks,
        stretch: &Range<u64>,
        wanted: &Range<u64>,
        into: &mut [u8],
        fetch: Fetch<'_>,
    ) -> Result<()> {
        let all = blocks.range(stretch);
        // Only a part of the first and the last block may be wanted: such a block has its own buffer.
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let mut middle = all.clone();
        if wanted.start > all.start || wanted.end < all.end.min(all.start + BLOCK_BYTES) {
            middle.start = all.end.min(all.start + BLOCK_BYTES);
            head.resize((middle.start - all.start) as usize, 0);
        }
        if wanted.end < all.end && middle.start < all.end {
            middle.end = (all.end - 1) / BLOCK_BYTES * BLOCK_BYTES;
            tail.resize((all.end - middle.end) as usize, 0);
        }
        let within = |range: Range<u64>| (range.start - wanted.start) as usize..(range.end - wanted.start) as usize;
        let middle_in = if middle.is_empty() { 0..0 } else { within(middle.clone()) };
        let mut parts = Parts::new([&mut head, &mut into[middle_in.clone()], &mut tail]);
        fetch(all.clone(), &mut |bytes| parts.take(bytes))?;
        let written = [(all.start, &head[..]), (middle.start, &into[middle_in]), (middle.end, &tail[..])];
        let write = |(start, bytes): &(u64, &[u8])| match bytes.is_empty() {
            true => Ok(()),
            false => blocks.write(start / BLOCK_BYTES, bytes),
        };
        match written.iter().try_for_each(write) {
            Ok(()) => drop(self.counts.added_bytes.fetch_add(all.end - all.start, Relaxed)),
            Err(error) => {
                self.counts.left_out_bytes.fetch_add(all.end - all.start, Relaxed);
                self.failed(&error);
            }
        }
        for (start, block) in [(all.start, head), (middle.end, tail)] {
            let end = start + block.len() as u64;
            let part = start.max(wanted.start)..end.min(wanted.end);
            if !part.is_empty() {
                let from = (part.start - start) as usize..(part.end - start) as usize;
                into[within(part)].copy_from_slice(&block[from]);
            }
        }
        Ok(())
    }

    /// Records the first failure, and pauses additions.
    fn failed(&self, error: &io::Error) {
        let _ = self.counts.trouble.set(error.to_string());
        self.pause();
    }

    fn pause(&self) {
        self.paused_until.store((self.began.elapsed() + PAUSE).as_millis() as u64, Relaxed);
    }

    fn is_paused(&self) -> bool {
        (self.began.elapsed().as_millis() as u64) < self.paused_until.load(Relaxed)
    }
}

impl Counts {
    fn changed(&self, change: Change) {
        self.evicted_bytes.fetch_add(change.evicted_bytes, Relaxed);
        self.damaged_blocks.fetch_add(change.damaged_files, Relaxed);
        if change.held_bytes > 0 {
            self.held_bytes.store(change.held_bytes, Relaxed);
        }
    }
}

/// Fetches `range` into `into` without keeping it.
fn plain(range: Range<u64>, into: &mut [u8], fetch: Fetch<'_>) -> Result<()> {
    let mut parts = Parts::new([into, &mut [], &mut []]);
    fetch(range, &mut |bytes| parts.take(bytes))
}

/// Buffers that are filled one after the other.
struct Parts<'a> {
    parts: [&'a mut [u8]; 3],
    /// The current buffer, and the position in it.
    now: usize,
    at: usize,
}

impl<'a> Parts<'a> {
    fn new(parts: [&'a mut [u8]; 3]) -> Self {
        Self { parts, now: 0, at: 0 }
    }

    /// Drops bytes that do not fit.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty()
            && let Some(room) = self.parts.get_mut(self.now).and_then(|part| part.get_mut(self.at..))
        {
            let taken = room.len().min(bytes.len());
            room[..taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            self.at += taken;
            if taken == room.len() {
                (self.now, self.at) = (self.now + 1, 0);
            }
        }
    }
}
