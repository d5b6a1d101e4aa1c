//! How long work tells how far it is, and how it learns that it shall stop.

use shardpack_format::{Error, ErrorKind, Result, threads};

/// What is being done, for a person who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The source is walked; `total` is not known.
    Walking,
    /// Images are looked at, to settle what goes in.
    Looking,
    /// Images are changed before they are packed.
    Making,
    /// Compressed shards are unpacked, to be read from: bytes alone, no samples. It may come into the midst of another phase,
    /// which goes on at its [`Monitor::end`].
    Unpacking,
    /// Images are copied into shards.
    Packing,
    /// Shards are read and checked.
    Verifying,
    /// Shards are compared with the source.
    Comparing,
    /// Damaged shards are written anew.
    Mending,
    /// Codes of images are read, for their crop tables.
    Scanning,
}

/// Is told of progress; called from many threads.
pub trait Monitor: Sync {
    /// A phase begins; `samples` and `bytes` are what it will come to, 0 where that is not known.
    fn begin(&self, phase: Phase, samples: u64, bytes: u64);

    /// What began last is over, and what it came into the midst of goes on.
    fn end(&self) {}

    /// So much more has been done.
    fn advance(&self, samples: u64, bytes: u64);

    /// So much was done by an earlier run: it is not to be done again, and says nothing of how fast this one is.
    fn recall(&self, samples: u64, bytes: u64) {
        self.advance(samples, bytes);
    }

    /// A line for the person, at once.
    fn say(&self, line: &str);

    /// Whether the person wants it to stop.
    fn interrupted(&self) -> bool {
        false
    }

    /// Fails when the person wants it to stop, or the machine had no thread for somebody who took that for damage.
    ///
    /// # Errors
    /// With [`ErrorKind::Interrupted`]; that of [`threads::check`].
    fn go_on(&self) -> Result<()> {
        match self.interrupted() {
            true => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            false => threads::check(),
        }
    }
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Monitor for Silent {
    fn begin(&self, _: Phase, _: u64, _: u64) {}
    fn advance(&self, _: u64, _: u64) {}
    fn say(&self, _: &str) {}
}
