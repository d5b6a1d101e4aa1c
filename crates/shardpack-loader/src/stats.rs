//! Counts and times of a loader, which show the bottleneck as a number.

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

/// All threads add to these counters while they work.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub reads: AtomicU64,
    pub read_bytes: AtomicU64,
    /// Time in reads, summed over all threads.
    pub read_ns: AtomicU64,
    /// Time that threads waited for the run of the next sample.
    pub disk_wait_ns: AtomicU64,
    pub samples: AtomicU64,
    pub sample_bytes: AtomicU64,
    /// Time spent to make samples into slots, summed over all threads.
    pub work_ns: AtomicU64,
    /// Time that threads had no free batch to fill, summed over all threads.
    pub full_ns: AtomicU64,
    /// Time that the consumer waited for a batch.
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
    /// Counts a sample. `decoded` has, for a decoded sample, the outcome and whether its shard has no crop tables.
    pub fn made(&self, bytes: u64, decoded: Option<&(Outcome, bool)>) {
        self.samples.fetch_add(1, Relaxed);
        self.sample_bytes.fetch_add(bytes, Relaxed);
        let Some((outcome, is_without_table)) = decoded else { return };
        // Stored after the sample count and loaded before it, so that these counts never exceed the sample count.
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

/// Counts since the start, and times.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Samples made, including those in batches that were not handed out yet.
    pub samples: u64,
    /// Batches handed out.
    pub batches: u64,
    /// Payload bytes of [`Stats::samples`].
    pub sample_bytes: u64,
    /// Runs read.
    pub reads: u64,
    /// Bytes read for runs; for compressed shards, the decompressed bytes.
    pub read_bytes: u64,
    /// Time since the start.
    pub elapsed_ms: f64,
    /// Time in reads, summed over all threads.
    pub read_ms: f64,
    /// Time that the threads that make samples waited for the disk; one thread waits at a time.
    pub disk_wait_ms: f64,
    /// Time spent to make samples, mostly in decoding, summed over all threads.
    pub work_ms: f64,
    /// Time that threads were idle because all batches were full, summed over all threads: the consumer is the
    /// bottleneck.
    pub full_ms: f64,
    /// Time that the consumer waited for batches.
    pub consumer_wait_ms: f64,
    /// The longest wait of the consumer for one batch.
    pub longest_wait_ms: f64,
    /// Peak memory of runs, in bytes.
    pub peak_run_bytes: u64,
    /// Bad samples that were skipped.
    pub skipped: u64,
    /// Bad samples that were replaced by another sample.
    pub replaced: u64,
    /// Samples that were handed out a second time so that all ranks get the same number.
    pub repeated: u64,
    /// Images that were decoded in full.
    pub decoded_whole: u64,
    /// Images with only a region decoded.
    pub decoded_region: u64,
    /// Images with a crop decoded by a crop table.
    pub decoded_by_table: u64,
    /// Images that were decoded at 1/2, 1/4 or 1/8 of their size.
    pub reduced: u64,
    /// Crop tables that were not used because they are damaged or belong to other images: `shardpack verify` names
    /// them.
    pub wrong_tables: u64,
    /// Decoded JPEGs from shards without crop tables: if transforms crop, `shardpack crops` makes decoding faster.
    pub without_tables: u64,
    /// Number of images with each oddity.
    pub oddities: std::collections::BTreeMap<&'static str, u64>,
    /// Requests sent to servers; `None`, like the next three fields, if all data is read from files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes received, including indexes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Requests that were retried; a retry continues at the byte where the last one stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_again: Option<u64>,
    /// Responses that reported too many requests; the loader then sends fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// Reads that the cache served without a request; `None`, like the fields that follow, if there is no cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_reads: Option<u64>,
    /// Bytes served by the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Bytes added to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_added_bytes: Option<u64>,
    /// Bytes of other datasets that were evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_evicted_bytes: Option<u64>,
    /// Bytes that were fetched and not cached, because the cache or the disk is full or not writable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_left_out_bytes: Option<u64>,
    /// Bytes in the cache, of all datasets together, at the last check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_held_bytes: Option<u64>,
    /// Corrupt blocks, which were fetched again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_damaged_blocks: Option<u64>,
    /// The first system error of the cache, from a read or a write; `None` also if there was no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_trouble: Option<String>,
}
