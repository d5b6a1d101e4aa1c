//! Keeps recently used unpacked shards that are a single frame, so that a shard is unpacked once and not once for each
//! sample.
//!
//! Holds at all times: the kept shards are within a fixed number of bytes, or there is only one. No caller ever waits:
//! a caller that finds the lock taken unpacks for itself, so a lock that was held during a fork does no harm.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use shardpack_format::Result;

/// Four shards of the usual length.
const MAX_BYTES: usize = if cfg!(test) { 1 << 12 } else { 256 << 20 };

/// An unpacked shard with its number.
type Whole = (usize, Arc<Vec<u8>>);

/// See the module; the most recently used shard is the last.
#[derive(Default)]
pub(crate) struct Wholes(Mutex<Vec<Whole>>);

impl Wholes {
    fn lock(&self) -> Option<MutexGuard<'_, Vec<Whole>>> {
        match self.0.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Shard `number`: the kept shard, or the result of `unpack`, which is kept.
    pub fn get(&self, number: usize, unpack: impl FnOnce() -> Result<Vec<u8>>) -> Result<Arc<Vec<u8>>> {
        if let Some(mut kept) = self.lock()
            && let Some(at) = kept.iter().position(|(of, _)| *of == number)
        {
            let found = kept.remove(at);
            let whole = Arc::clone(&found.1);
            kept.push(found);
            return Ok(whole);
        }
        let whole = Arc::new(unpack()?);
        if let Some(mut kept) = self.lock() {
            kept.retain(|(of, _)| *of != number);
            kept.push((number, Arc::clone(&whole)));
        }
        self.make_room();
        Ok(whole)
    }

    /// Drops the least recently used shards until the others fit.
    fn make_room(&self) {
        let Some(mut kept) = self.lock() else { return };
        let mut bytes: usize = kept.iter().map(|(_, whole)| whole.len()).sum();
        while bytes > MAX_BYTES && kept.len() > 1 {
            bytes -= kept.remove(0).1.len();
        }
    }

    /// Marks the unpacked bytes of shard `number` as wrong.
    pub fn forget(&self, number: usize) {
        if let Some(mut kept) = self.lock() {
            kept.retain(|(of, _)| *of != number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_shard_is_unpacked_again_only_when_others_took_its_room() {
        let (wholes, unpacked) = (Wholes::default(), Cell::new(0));
        let get = |number: usize| {
            let unpack = || {
                unpacked.set(unpacked.get() + 1);
                Ok(vec![number as u8; MAX_BYTES / 2])
            };
            assert_eq!(wholes.get(number, unpack).unwrap()[7], number as u8);
        };
        for (number, unpacked_by_then) in [(0, 1), (0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4)] {
            get(number);
            assert_eq!(unpacked.get(), unpacked_by_then, "shard {number}");
        }
        wholes.forget(1);
        get(1);
        assert_eq!(unpacked.get(), 5);
        let _held = wholes.0.lock().unwrap();
        get(1);
        assert_eq!(unpacked.get(), 6);
    }
}
