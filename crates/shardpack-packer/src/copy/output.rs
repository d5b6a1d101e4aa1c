//! The shard that is being written, with the hashes that readers of other programs want.

use std::sync::Arc;

use shardpack_format::{Result, hash::FileHash};
use shardpack_storage::FileWriter;

use super::in_order::{Hashes, InOrder};

/// See the module. Shared by all threads that write spans of the shard.
#[derive(Debug)]
pub(super) struct Output {
    pub file: Box<dyn FileWriter>,
    pub hashes: Option<InOrder>,
}

impl Output {
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset)?;
        if let Some(hashes) = &self.hashes {
            hashes.add(bytes, offset);
        }
        Ok(())
    }

    /// Makes the shard durable under its name.
    pub fn finish(&self, bytes: u64, blake3: &FileHash) -> Result<()> {
        self.file.finish(bytes, blake3)
    }

    /// The hashes of the written shard, of length `bytes`; empty if none are wanted, `None` if bytes are missing.
    pub fn hashes(&self, bytes: u64) -> Option<Hashes> {
        self.hashes.as_ref().map_or_else(|| Some(Hashes::new()), |hashes| hashes.finish(bytes))
    }
}

/// Shared by its writers.
pub(super) type Shared = Arc<Output>;
