//! Arithmetic of uploads in parts: lengths, numbers of requests, and memory.
//!
//! Part of every build: `plan --price` counts requests without sending any.

/// Minimum length of a part: S3 requires at least 5 MiB, and each part is a request.
pub(crate) const PART_BYTES: u64 = 8 << 20;
/// Maximum number of parts of a file: stores allow 10,000, and a compressed shard may be longer than its content.
const MAX_PARTS: u64 = 9_000;
/// Maximum number of threads that write and send at a time.
const MAX_THREADS: usize = 8;
/// Parts in memory for each thread: one being sent, and the two at the start and the end of a span.
const PARTS_A_THREAD: u64 = 3;

/// Length in bytes of the parts of a file with this length or content.
pub(crate) fn part_bytes(content_bytes: u64) -> u64 {
    PART_BYTES.max(content_bytes.div_ceil(MAX_PARTS).next_multiple_of(1 << 20))
}

/// Number of requests to write a file to a store. If it is compressed, `content_bytes` is the length of its content.
pub fn requests_to_write(content_bytes: u64, is_compressed: bool) -> u64 {
    let parts = content_bytes.div_ceil(part_bytes(content_bytes));
    // A file that fits one part is put whole; for a compressed file that is not known.
    if parts <= 1 && !is_compressed { 1 } else { parts + 2 }
}

/// Number of threads that send parts at a time in this memory, and the memory in bytes that remains beside their parts.
#[cfg_attr(not(feature = "cloud"), allow(dead_code, reason = "only uploads need it"))]
pub(crate) fn threads(memory_bytes: u64, jobs: usize) -> (usize, u64) {
    let of_thread = PARTS_A_THREAD * PART_BYTES;
    let fit = usize::try_from(memory_bytes / 2 / of_thread).unwrap_or(usize::MAX);
    let threads = jobs.max(MAX_THREADS).min(fit).max(1);
    (threads, memory_bytes.saturating_sub(threads as u64 * of_thread).max(memory_bytes / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_fit_the_memory() {
        for (memory, jobs) in [(1 << 20, 2), (64 << 20, 2), (256 << 20, 2), (4 << 30, 2), (4 << 30, 64)] {
            let (threads, left) = threads(memory, jobs);
            assert!(threads >= 1 && left >= memory / 2 && left <= memory, "{memory} {jobs}");
            assert!(threads == 1 || left + threads as u64 * 3 * PART_BYTES <= memory, "{memory} {jobs}");
        }
    }

    #[test]
    fn parts_follow_the_length() {
        let large = (4u64 << 40).div_ceil(9_000).next_multiple_of(1 << 20);
        for (bytes, part) in [(1, PART_BYTES), (256 << 20, PART_BYTES), (4 << 40, large)] {
            assert_eq!(part_bytes(bytes), part);
            assert!(bytes.div_ceil(part) <= 10_000);
        }
        assert_eq!((requests_to_write(PART_BYTES, false), requests_to_write(PART_BYTES, true)), (1, 3));
        assert_eq!(requests_to_write(PART_BYTES + 1, false), 4);
    }
}
