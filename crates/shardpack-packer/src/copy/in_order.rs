//! Hashes of a whole file whose pieces many threads write in any order.
//!
//! Readers of other programs want such hashes (xxh64 in the index of MDS), and these need the bytes in order: pieces that are ahead
//! wait in memory. So no shard is read again for its hashes, which for a shard at a URL would be a download.
//!
//! Holds at all times: the files of a copy together keep at most [`Ahead`]'s number of bytes waiting; a thread that is further ahead
//! waits. Spans are started in order, so the thread with the earliest unfinished span never waits, and all go on.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use shardpack_format::{Result, hash::Named};
use shardpack_runtime::wait_timeout;

/// Hashes by name, in lower-case hexadecimal.
pub(super) type Hashes = BTreeMap<String, String>;

/// Time after which a waiting thread checks whether the copy was cancelled.
const CHECK: Duration = Duration::from_millis(100);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that wait, of all files of a copy.
#[derive(Debug)]
pub(super) struct Ahead {
    bytes: Mutex<u64>,
    most: u64,
    changed: Condvar,
    is_stopped: AtomicBool,
}

impl Ahead {
    /// At most `most` bytes wait.
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::default(), most, changed: Condvar::new(), is_stopped: AtomicBool::new(false) })
    }

    /// Ends all waits, after an error.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// These bytes no longer wait, or a file has moved on.
    fn release(&self, bytes: u64) {
        *lock(&self.bytes) -= bytes;
        self.changed.notify_all();
    }
}

/// Hashes of a file that is being written.
#[derive(Debug)]
pub(super) struct InOrder {
    ahead: Arc<Ahead>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    hashes: Vec<(String, Named)>,
    /// Offset of the next byte to hash.
    next: u64,
    /// Pieces that are ahead, by offset.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// Pieces of the file will be missing: nothing is hashed any more.
    is_over: bool,
}

impl InOrder {
    /// The hashes `names` of a file.
    ///
    /// # Errors
    /// If a name is none of [`Named::ALL`].
    pub fn new(names: &[String], ahead: &Arc<Ahead>) -> Result<Self> {
        let hashes = names.iter().map(|name| Ok((name.clone(), Named::new(name)?)));
        let hashes = hashes.collect::<Result<Vec<_>>>()?;
        let state = State { hashes, next: 0, waiting: BTreeMap::new(), is_over: false };
        Ok(Self { ahead: Arc::clone(ahead), state: Mutex::new(state) })
    }

    /// Takes the bytes at `offset`; waits if they are too far ahead. No byte is given twice.
    pub fn add(&self, bytes: &[u8], offset: u64) {
        loop {
            let mut state = lock(&self.state);
            if state.is_over || bytes.is_empty() {
                return;
            }
            if state.next == offset {
                let freed = state.hash(bytes);
                return self.ahead.release(freed);
            }
            let mut waiting = lock(&self.ahead.bytes);
            if *waiting + bytes.len() as u64 <= self.ahead.most {
                *waiting += bytes.len() as u64;
                state.waiting.insert(offset, bytes.to_vec());
                return;
            }
            // The lock of the bytes is held until the wait begins, so no change is missed.
            drop(state);
            if self.ahead.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            drop(wait_timeout(&self.ahead.changed, waiting, CHECK));
        }
    }

    /// Ends the hashes, because pieces of the file will be missing.
    pub fn give_up(&self) {
        let freed = lock(&self.state).give_up();
        self.ahead.release(freed);
    }

    /// The hashes of the file, of length `bytes`; `None` if pieces are missing.
    pub fn finish(&self, bytes: u64) -> Option<Hashes> {
        let mut state = lock(&self.state);
        let hashes = std::mem::take(&mut state.hashes);
        (!state.is_over && state.next == bytes)
            .then(|| hashes.into_iter().map(|(name, hash)| (name, hash.finish())).collect())
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl State {
    /// Hashes the next bytes, and the waiting pieces after them; returns the length of these pieces.
    fn hash(&mut self, bytes: &[u8]) -> u64 {
        let mut update = |bytes: &[u8]| self.hashes.iter_mut().for_each(|(_, hash)| hash.update(bytes));
        update(bytes);
        self.next += bytes.len() as u64;
        let mut freed = 0;
        while let Some(piece) = self.waiting.remove(&self.next) {
            update(&piece);
            self.next += piece.len() as u64;
            freed += piece.len() as u64;
        }
        freed
    }

    fn give_up(&mut self) -> u64 {
        self.is_over = true;
        std::mem::take(&mut self.waiting).into_values().map(|piece| piece.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use shardpack_format::hash::digest;

    use super::*;

    const NAMES: [&str; 2] = ["md5", "xxh64"];

    fn names() -> Vec<String> {
        NAMES.map(str::to_owned).to_vec()
    }

    #[test]
    fn threads_that_start_pieces_in_order_get_the_hashes_of_the_file_in_any_memory() {
        let content: Vec<u8> = (0..1_000_003u32).map(|n| (n ^ (n >> 7)) as u8).collect();
        let expected = digest(&mut content.as_slice(), NAMES, &|| Ok(())).unwrap().1;
        for most in [0, 1, 4096, 1 << 30] {
            let ahead = Ahead::new(most);
            let files: Vec<_> = (0..3).map(|_| InOrder::new(&names(), &ahead).unwrap()).collect();
            // Spans of all files, in order; each is written in several pieces.
            let spans: Vec<_> = files.iter().flat_map(|file| (0..16).map(move |span| (file, span))).collect();
            let next = std::sync::atomic::AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..5 {
                    scope.spawn(|| {
                        while let Some((file, span)) = spans.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let length = content.len().div_ceil(16);
                            let bytes = content.chunks(length).nth(*span).unwrap();
                            for (number, piece) in bytes.chunks(9_001).enumerate() {
                                file.add(piece, (span * length + number * 9_001) as u64);
                                assert!(*lock(&ahead.bytes) <= most);
                            }
                        }
                    });
                }
            });
            for file in &files {
                assert_eq!(file.finish(content.len() as u64), Some(expected.clone()), "{most}");
            }
            drop(spans);
            drop(files);
            assert_eq!(*lock(&ahead.bytes), 0);
        }
    }

    #[test]
    fn a_missing_piece_gives_no_hashes_and_keeps_no_thread_and_no_memory() {
        let ahead = Ahead::new(10);
        let (lost, other) = (InOrder::new(&names(), &ahead).unwrap(), InOrder::new(&names(), &ahead).unwrap());
        lost.add(&[1; 8], 100);
        thread::scope(|scope| {
            let waits = scope.spawn(|| lost.add(&[2; 8], 200));
            let waits_too = scope.spawn(|| other.add(&[2; 8], 8));
            lost.give_up();
            waits.join().unwrap();
            other.add(&[3; 8], 0);
            waits_too.join().unwrap();
        });
        assert_eq!(lost.finish(208), None);
        assert!(other.finish(16).is_some() && other.finish(17).is_none());
        assert_eq!(*lock(&ahead.bytes), 0);
        // An error elsewhere ends a wait.
        let stuck = InOrder::new(&names(), &ahead).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| stuck.add(&[1; 80], 100));
            ahead.stop();
        });
        assert_eq!(stuck.finish(180), None);
    }
}
