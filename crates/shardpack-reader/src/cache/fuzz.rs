//! Fuzzing entry point: bytes as a file of the cache.

use std::{io, path::Path};

use super::blocks::{Blocks, CacheFileState};

/// Opens the file at `path` as the file of an object of `bytes`, and reads all blocks that it marks as present.
pub fn fuzz_blocks(path: &Path, bytes: u64) -> io::Result<()> {
    Blocks::counted_bytes(path)?;
    let CacheFileState::Right(blocks) = Blocks::find(path, bytes)? else { return Ok(()) };
    let all = Blocks::covering(&(0..bytes));
    let kept = blocks.kept(&all)?;
    let mut read = vec![0; usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?];
    let right = blocks.read(0, &mut read)?;
    // A correct block is present.
    assert!(kept.iter().zip(&right).all(|(kept, right)| *kept || !right));
    blocks.uncounted_bytes(&all)?;
    blocks.count(&all)?;
    blocks.forget(&all)?;
    assert!(blocks.kept(&all)?.iter().all(|kept| !kept));
    Ok(())
}
