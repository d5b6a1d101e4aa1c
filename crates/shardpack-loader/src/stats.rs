//! What a loader did and where its time went: so that "who is the bottleneck" is a number.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use serde::Serialize;
use shardpack_imaging::{
    crops::Way,
    training::{Oddity, Outcome},
};

use crate::feed::Handle;

/// Counted by all threads as they work.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub reads: AtomicU64,
    pub read_bytes: AtomicU64,
    /// Time in reads, of all threads together.
    pub read_ns: AtomicU64,
    /// Time in which whoever wants the next sample waited for its run.
    pub disk_wait_ns: AtomicU64,
    pub samples: AtomicU64,
    pub sample_bytes: AtomicU64,
    /// Time in which samples were made into slots, of all threads together.
    pub work_ns: AtomicU64,
    /// Time in which threads had no free batch to fill, of all threads together.
    pub full_ns: AtomicU64,
    /// Time in which the consumer waited for a batch.
    pub consumer_wait_ns: AtomicU64,
    pub longest_wait_ns: AtomicU64,
    pub batches: AtomicU64,
    pub skipped: AtomicU64,
    pub replaced: AtomicU64,
    pub repeated: AtomicU64,
    /// By [`Way`].
    pub ways: [AtomicU64; 3],
    pub reduced: AtomicU64,
    pub wrong_tables: AtomicU64,
    pub without_tables: AtomicU64,
    /// By [`Oddity`].
    pub oddities: [AtomicU64; 8],
}

impl Counters {
    /// Counts a sample, and, of one that was decoded, how, and whether its shard has no crop tables.
    pub fn made(&self, bytes: u64, decoded: Option<&(Outcome, bool)>) {
        self.samples.fetch_add(1, Relaxed);
        self.sample_bytes.fetch_add(bytes, Relaxed);
        let Some((outcome, is_without_table)) = decoded else { return };
        // Behind the sample, and looked at before it: at no time are there more of them than samples.
        self.without_tables.fetch_add(u64::from(*is_without_table), Release);
        let way = match outcome.way {
            Way::Whole => 0,
            Way::Stock => 1,
            Way::Table => 2,
        };
        self.ways[way].fetch_add(1, Release);
        self.reduced.fetch_add(u64::from(outcome.reduced_by > 1), Relaxed);
        for oddity in outcome.oddities.iter() {
            self.oddities[oddity as usize].fetch_add(1, Relaxed);
        }
    }

    pub fn waited(&self, nanoseconds: u64) {
        self.consumer_wait_ns.fetch_add(nanoseconds, Relaxed);
        self.longest_wait_ns.fetch_max(nanoseconds, Relaxed);
    }

    pub fn stats(&self, elapsed_ms: f64, feed: &Handle) -> Stats {
        let (transfers, cache) = (feed.transfers(), feed.cache());
        let number = |counter: &AtomicU64| counter.load(Relaxed);
        let [whole, region, by_table] = self.ways.each_ref().map(|way| way.load(Acquire));
        let without_tables = self.without_tables.load(Acquire);
        let ms = |counter: &AtomicU64| number(counter) as f64 / 1e6;
        let oddities = Oddity::ALL.into_iter().map(|oddity| (oddity.name(), number(&self.oddities[oddity as usize])));
        Stats {
            samples: number(&self.samples),
            batches: number(&self.batches),
            sample_bytes: number(&self.sample_bytes),
            reads: number(&self.reads),
            read_bytes: number(&self.read_bytes),
            elapsed_ms,
            read_ms: ms(&self.read_ns),
            disk_wait_ms: ms(&self.disk_wait_ns),
            work_ms: ms(&self.work_ns),
            full_ms: ms(&self.full_ns),
            consumer_wait_ms: ms(&self.consumer_wait_ns),
            longest_wait_ms: ms(&self.longest_wait_ns),
            peak_run_bytes: feed.peak_bytes(),
            skipped: number(&self.skipped),
            replaced: number(&self.replaced),
            repeated: number(&self.repeated),
            decoded_whole: whole,
            decoded_region: region,
            decoded_by_table: by_table,
            reduced: number(&self.reduced),
            wrong_tables: number(&self.wrong_tables),
            without_tables,
            oddities: oddities.filter(|(_, images)| *images > 0).collect(),
            requests: transfers.map(|transfers| transfers.requests),
            received_bytes: transfers.map(|transfers| transfers.bytes),
            requests_again: transfers.map(|transfers| transfers.again),
            throttled: transfers.map(|transfers| transfers.too_many),
            cache_reads: cache.as_ref().map(|cache| cache.reads),
            cache_bytes: cache.as_ref().map(|cache| cache.bytes),
            cache_added_bytes: cache.as_ref().map(|cache| cache.added_bytes),
            cache_evicted_bytes: cache.as_ref().map(|cache| cache.evicted_bytes),
            cache_left_out_bytes: cache.as_ref().map(|cache| cache.left_out_bytes),
            cache_held_bytes: cache.as_ref().map(|cache| cache.held_bytes),
            cache_damaged_blocks: cache.as_ref().map(|cache| cache.damaged_blocks),
            cache_trouble: cache.and_then(|cache| cache.trouble),
        }
    }
}

/// What was done since the start, and where time went.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Samples made, those of batches that were not handed out yet included.
    pub samples: u64,
    /// Batches handed out.
    pub batches: u64,
    /// Bytes of the payloads of those samples.
    pub sample_bytes: u64,
    /// Runs read.
    pub reads: u64,
    /// Bytes read for them; of compressed shards, what they unpack to.
    pub read_bytes: u64,
    /// Since the start.
    pub elapsed_ms: f64,
    /// In reads, of all threads together.
    pub read_ms: f64,
    /// Threads that make samples waited so long for the disk; one waits at a time.
    pub disk_wait_ms: f64,
    /// In making samples, decoding above all, of all threads together.
    pub work_ms: f64,
    /// Threads had nothing to do so long because all batches were full, of all threads together: the consumer is the slow one.
    pub full_ms: f64,
    /// The consumer waited so long for batches.
    pub consumer_wait_ms: f64,
    /// The longest of these waits.
    pub longest_wait_ms: f64,
    /// Most memory that runs took, in bytes.
    pub peak_run_bytes: u64,
    /// Samples that were left out because they are not right.
    pub skipped: u64,
    /// Samples that another one stands for, because they are not right.
    pub replaced: u64,
    /// Samples that came a second time so that ranks have equally many.
    pub repeated: u64,
    /// Images that were decoded wholly.
    pub decoded_whole: u64,
    /// Images of which a region was decoded.
    pub decoded_region: u64,
    /// Images of which a crop was decoded with a crop table.
    pub decoded_by_table: u64,
    /// Images that were decoded to 1/2, 1/4 or 1/8.
    pub reduced: u64,
    /// Crop tables that were damaged or of other images, and were not used: `shardpack verify` names them.
    pub wrong_tables: u64,
    /// JPEGs that were decoded and are of shards without crop tables: where transforms crop, `shardpack crops` makes that
    /// faster.
    pub without_tables: u64,
    /// How many images had which oddity.
    pub oddities: std::collections::BTreeMap<&'static str, u64>,
    /// Requests that were sent to servers; `None`, and the next three with it, where all is read from files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes that came of them, indexes included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Requests that had to be sent again, from where they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_again: Option<u64>,
    /// Answers that said that requests are too many: fewer are sent then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// Reads for which no request was sent, since a cache had all of it; `None`, and those that follow with it, where there is no cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_reads: Option<u64>,
    /// Bytes that came from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Bytes that were put into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_added_bytes: Option<u64>,
    /// Bytes of other datasets that were removed to make room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_evicted_bytes: Option<u64>,
    /// Bytes that were fetched and not kept, since the cache or the disk is full, or cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_left_out_bytes: Option<u64>,
    /// Bytes that all datasets together have in it, when that was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_held_bytes: Option<u64>,
    /// Blocks that were not as they had been written, and were fetched again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_damaged_blocks: Option<u64>,
    /// What the system said when something could not be read or kept, the first time; `None` also where nothing was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_trouble: Option<String>,
}
