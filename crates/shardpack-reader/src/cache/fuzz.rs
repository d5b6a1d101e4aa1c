//! Bytes as a file of the cache, for fuzzing.

use std::{io, path::Path};

use super::blocks::{Blocks, Found};

/// Takes the file at `path` for that of an object of `bytes`, and reads all blocks that it says are there.
pub fn fuzz_blocks(path: &Path, bytes: u64) -> io::Result<()> {
    Blocks::counted_bytes(path)?;
    let Found::Right(blocks) = Blocks::find(path, bytes)? else { return Ok(()) };
    let all = Blocks::covering(&(0..bytes));
    let kept = blocks.kept(&all)?;
    let mut read = vec![0; usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?];
    let right = blocks.read(0, &mut read)?;
    // What is right is there.
    assert!(kept.iter().zip(&right).all(|(kept, right)| *kept || !right));
    blocks.uncounted_bytes(&all)?;
    blocks.count(&all)?;
    blocks.forget(&all)?;
    assert!(blocks.kept(&all)?.iter().all(|kept| !kept));
    Ok(())
}
