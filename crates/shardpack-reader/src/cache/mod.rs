//! Bytes of a dataset at a URL that were read before, in a folder of this machine that all its processes share.
//!
//! Holds at all times: a byte that is handed out comes from the server, or from a block that is as it was written; no trouble with the
//! cache ends a read, which then asks the server; the folder never holds more than its limit.

mod blocks;
mod folder;
mod fuzz;

pub use fuzz::fuzz_blocks;

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use shardpack_format::{Error, Result, manifest::Manifest};

use crate::{open_shards::OpenShards, store::CacheUse};
use blocks::{BLOCK_BYTES, Blocks};
use folder::{Change, Folder, Opened};

/// A smaller limit is taken for a wrong unit.
const LEAST_BYTES: u64 = 1 << 20;
/// Where nothing could be kept, it is not tried again for so long: to find room costs time, under a lock that is everybody's.
const PAUSE: Duration = Duration::from_secs(10);
/// Missing blocks with no more than so many others between them are one request.
const MOST_BLOCKS_BETWEEN: u64 = 4;

/// The cache of one dataset.
pub(crate) struct Cache {
    /// `None` where there is no room for it at all.
    place: Option<Place>,
    counts: Counts,
    began: Instant,
    /// Nothing is added before so many milliseconds from then.
    paused_until: AtomicU64,
}

struct Place {
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
    /// The shard by its number, which then is kept open.
    pub shard: Option<usize>,
    pub blake3: &'a [u8; 32],
    pub bytes: u64,
}

/// Asks the server for a range of the object, and hands its bytes out in order.
pub(crate) type Fetch<'a> = &'a dyn Fn(Range<u64>, &mut dyn FnMut(&[u8])) -> Result<()>;

impl Cache {
    /// The cache of the dataset of `manifest` in the folder at `path`, which may hold `limit_bytes` in all.
    ///
    /// # Errors
    /// When that is no folder for a cache, or cannot be written. That a disk is full is none.
    pub fn open(path: &Path, limit_bytes: u64, manifest: &Manifest) -> Result<Self> {
        if limit_bytes < LEAST_BYTES {
            return Err(Error::usage(format!("a cache of {limit_bytes} bytes"))
                .help("its limit is in bytes, and at least 1 MiB")
                .in_file(path));
        }
        let made = Folder::open(path, limit_bytes).and_then(|folder| {
            let opened = folder.dataset(&manifest.id.0);
            let (dataset, change) = opened.map_err(|error| Error::io("cannot open the cache", error).in_file(path))?;
            Ok((Place { folder, dataset, shards: OpenShards::new(manifest.shards.len()) }, change))
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

    /// What it has done so far.
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

    /// Reads bytes of `object` from `offset` on, as many as `into` has room for, and has `fetch` get those that are not there.
    ///
    /// # Errors
    /// Those of `fetch`.
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

    /// Has bytes `range` of `object` be fetched the next time, since they are not what they should be.
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
            let Place { folder, dataset, .. } = place;
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

    /// Reads what is there of `wanted`; the blocks that are not, in stretches.
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
                // Its bytes are right or not as a whole, whatever is wanted of it.
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
                Some(last) if number(at) - last.end <= MOST_BLOCKS_BETWEEN => last.end = number(at) + 1,
                _ => missing.push(number(at)..number(at) + 1),
            }
        }
        Ok(missing)
    }

    /// Whether `stretch` may be written: then its room is counted.
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

    /// Fetches `stretch` as whole blocks, hands out `wanted` of it, and keeps all.
    fn fetch_blocks(
        &self,
        blocks: &Blocks,
        stretch: &Range<u64>,
        wanted: &Range<u64>,
        into: &mut [u8],
        fetch: Fetch<'_>,
    ) -> Result<()> {
        let all = blocks.range(stretch);
        // Of the first and the last block, what is wanted may be a part: such a block has a buffer of its own.
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

    /// Says what went wrong first, and adds nothing for a while.
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

/// Fetches `range` into `into`, and keeps none of it.
fn plain(range: Range<u64>, into: &mut [u8], fetch: Fetch<'_>) -> Result<()> {
    let mut parts = Parts::new([into, &mut [], &mut []]);
    fetch(range, &mut |bytes| parts.take(bytes))
}

/// Pieces of memory that bytes go into, one after the other.
struct Parts<'a> {
    parts: [&'a mut [u8]; 3],
    /// Which one is being filled, and how far.
    now: usize,
    at: usize,
}

impl<'a> Parts<'a> {
    fn new(parts: [&'a mut [u8]; 3]) -> Self {
        Self { parts, now: 0, at: 0 }
    }

    /// No more than there is room for.
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
