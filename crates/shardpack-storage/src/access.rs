//! Costs and risks of reads, as values. A storage names them once; callers copy them when they open files.
//!
//! A new kind of storage gives its own values, and no caller asks where the bytes are.

use crate::parts::PART_BYTES;

/// Costs and risks of the reads of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Minimum number of reads in flight, until a measurement shows another number. Threads that wait for a server use no processor
    /// time.
    pub reads: usize,
    /// Minimum bytes in one read of a long sequence.
    pub sequence_bytes: u64,
    /// Maximum bytes of neighbours that one read fetches together: they arrive sooner than the answer to a second read.
    pub together_bytes: u64,
    /// Minimum bytes in the first read of the end of a file.
    pub tail_bytes: u64,
    /// Whether the storage itself repeats requests that fail.
    pub retries: bool,
    /// Whether the way of the bytes may damage them. Then all are compared with their hashes, and damage is read again before it is
    /// reported.
    pub may_damage: bool,
    /// Whether bytes that were read remain in the page cache, so that a second read costs little. If not, threads that need the same
    /// bytes wait for one read.
    pub page_cache: bool,
}

impl Access {
    /// Files of this machine.
    pub const FILES: Self = Self {
        reads: 1,
        sequence_bytes: 0,
        together_bytes: 0,
        tail_bytes: 0,
        retries: false,
        may_damage: false,
        page_cache: true,
    };

    /// Objects behind a network. A request takes about as long as the transfer of `together_bytes`.
    pub const NETWORK: Self = Self {
        reads: 64,
        sequence_bytes: PART_BYTES,
        together_bytes: 1 << 20,
        tail_bytes: 1 << 16,
        retries: true,
        may_damage: true,
        page_cache: false,
    };

    /// For files in both storages.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads.max(other.reads),
            sequence_bytes: self.sequence_bytes.max(other.sequence_bytes),
            together_bytes: self.together_bytes.max(other.together_bytes),
            tail_bytes: self.tail_bytes.max(other.tail_bytes),
            retries: self.retries && other.retries,
            may_damage: self.may_damage || other.may_damage,
            page_cache: self.page_cache && other.page_cache,
        }
    }

    /// For all these storages; for none, as files of this machine.
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().reduce(Self::and).unwrap_or(Self::FILES)
    }

    /// Number of threads for reads, in place of `threads`.
    #[must_use]
    pub fn threads(self, threads: usize) -> usize {
        threads.max(self.reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_two_storages_are_read_with_the_care_of_both() {
        assert_eq!(Access::FILES.and(Access::NETWORK), Access { retries: false, ..Access::NETWORK });
        assert_eq!(Access::of_all([Access::NETWORK; 2]), Access::NETWORK);
        assert_eq!(Access::of_all([Access::FILES; 2]), Access::FILES);
        assert_eq!(Access::of_all([]), Access::FILES);
        assert_eq!((Access::FILES.threads(2), Access::NETWORK.threads(2), Access::NETWORK.threads(99)), (2, 64, 99));
    }
}
