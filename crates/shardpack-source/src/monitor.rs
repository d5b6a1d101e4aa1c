//! Progress reports and cancellation for long work.

use shardpack_format::{Error, ErrorKind, Result};

/// The present work, for a waiting user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The source is walked; `total` is not known.
    Walking,
    /// Images are read to decide which are packed.
    Looking,
    /// Images are preprocessed before they are packed.
    Making,
    /// Compressed shards are unpacked so that they can be read: bytes only, no samples. May interrupt another
    /// phase, which continues at its [`Monitor::end`].
    Unpacking,
    /// Images are copied into shards.
    Packing,
    /// Shards are read and checked.
    Verifying,
    /// Shards are compared with the source.
    Comparing,
    /// Damaged shards are rewritten.
    Mending,
    /// Huffman codes of images are read, for their crop tables.
    Scanning,
}

/// Receives progress; called from many threads.
pub trait Monitor: Sync {
    /// A phase begins; `samples` and `bytes` are its totals, 0 if not known.
    fn begin(&self, phase: Phase, samples: u64, bytes: u64);

    /// The phase that began last is over, and the phase that it interrupted continues.
    fn end(&self) {}

    /// More samples and bytes are done.
    fn advance(&self, samples: u64, bytes: u64);

    /// An earlier run has done this much: the work is not repeated, and does not count for the speed of this
    /// run.
    fn recall(&self, samples: u64, bytes: u64) {
        self.advance(samples, bytes);
    }

    /// Shows a line to the user at once.
    fn say(&self, line: &str);

    /// Whether the user has cancelled.
    fn interrupted(&self) -> bool {
        false
    }

    /// Fails if the user has cancelled.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`].
    fn check_cancelled(&self) -> Result<()> {
        match self.interrupted() {
            true => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            false => Ok(()),
        }
    }
}

/// Ignores all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Monitor for Silent {
    fn begin(&self, _: Phase, _: u64, _: u64) {}
    fn advance(&self, _: u64, _: u64) {}
    fn say(&self, _: &str) {}
}
