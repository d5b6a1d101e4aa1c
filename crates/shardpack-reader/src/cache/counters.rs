//! Counters of a cache.

/// Counters of a cache; see [`StoreSettings::with_cache`](crate::StoreSettings::with_cache).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Reads without a request to the server.
    pub reads: u64,
    /// Bytes that came from the cache.
    pub bytes: u64,
    /// Bytes that were added.
    pub added_bytes: u64,
    /// Bytes of other datasets that were removed to make room.
    pub evicted_bytes: u64,
    /// Blocks or whole files that were damaged and fetched again.
    pub damaged_blocks: u64,
    /// Bytes that were fetched and not kept, because the cache or the disk is full, or not writable.
    pub left_out_bytes: u64,
    /// Bytes of all datasets in the cache, at the last count.
    pub held_bytes: u64,
    /// The first error of the system when the cache could not be read or written.
    pub trouble: Option<String>,
}

impl CacheUse {
    /// The sum of both, for one folder.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            bytes: self.bytes + other.bytes,
            added_bytes: self.added_bytes + other.added_bytes,
            evicted_bytes: self.evicted_bytes + other.evicted_bytes,
            damaged_blocks: self.damaged_blocks + other.damaged_blocks,
            left_out_bytes: self.left_out_bytes + other.left_out_bytes,
            held_bytes: self.held_bytes.max(other.held_bytes),
            trouble: self.trouble.or(other.trouble),
        }
    }
}
