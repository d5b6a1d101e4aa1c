//! Keeps a fixed number of shards open for random access, however many the dataset has.
//!
//! Each shard has one place, chosen by its number; a later shard replaces an earlier one in the same place. No caller
//! ever waits: a place that is locked is skipped, so a lock that was held during a fork does no harm.

use std::sync::{Arc, Mutex, TryLockError};

use shardpack_format::Result;

/// Far below the usual limit of 1,024 open files, because other libraries in the process need some too.
const MAX_OPEN_SHARDS: usize = 128;

/// An open shard with its number.
type ShardSlot<T> = Mutex<Option<(usize, Arc<T>)>>;

/// See the module.
pub(crate) struct OpenShards<T>(Box<[ShardSlot<T>]>);

impl<T> OpenShards<T> {
    /// Places for a dataset of `shards`.
    pub fn new(shards: usize) -> Self {
        Self((0..shards.clamp(1, MAX_OPEN_SHARDS)).map(|_| ShardSlot::<T>::default()).collect())
    }

    /// Shard `number`: the open shard, or the result of `open`, which is kept.
    pub fn get(&self, number: usize, open: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        // `new` makes at least one place.
        let place = &self.0[number % self.0.len()];
        let lock = || match place.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(kept) = lock()
            && let Some((of, content)) = &*kept
            && *of == number
        {
            return Ok(Arc::clone(content));
        }
        let content = Arc::new(open()?);
        let before = lock().and_then(|mut kept| kept.replace((number, Arc::clone(&content))));
        // Closing a file over a network may take a while; the place is already unlocked.
        drop(before);
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, path::Path};

    use shardpack_storage::{Local, Storage};

    use super::*;

    fn open_file(path: &Path) -> Result<Box<dyn shardpack_storage::OpenFile>> {
        Local::new(path.parent().unwrap()).open_listed(path.file_name().unwrap().to_str().unwrap(), 5)
    }

    #[test]
    fn a_shard_is_opened_again_only_after_another_took_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        std::fs::write(&path, b"12345").unwrap();
        let opened = Cell::new(0);
        let open = |path: &Path| {
            opened.set(opened.get() + 1);
            open_file(path)
        };
        let shards = OpenShards::new(MAX_OPEN_SHARDS * 3);
        for (number, opened_by_then) in
            [(0, 1), (0, 1), (1, 2), (0, 2), (MAX_OPEN_SHARDS, 3), (1, 3), (0, 4), (2 * MAX_OPEN_SHARDS + 1, 5), (1, 6)]
        {
            shards.get(number, || open(&path)).unwrap();
            assert_eq!(opened.get(), opened_by_then, "shard {number}");
        }
        assert!(shards.get(7, || open(&folder.path().join("none"))).is_err());
    }

    #[test]
    fn a_place_that_is_held_is_passed_by() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        std::fs::write(&path, b"12345").unwrap();
        let shards = OpenShards::new(1);
        let _held = shards.0[0].lock().unwrap();
        for _ in 0..2 {
            shards.get(0, || open_file(&path)).unwrap();
        }
    }
}
