//! Code shared by the targets: an allocator that detects excessive memory for a short input, and a walk over all rows.
//!
//! Holds at all times: inside [`within`] the process aborts when it holds more than the limit; outside [`within`] there
//! is no limit.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Write,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use shardpack_format::formats::foreign::Walk;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);
static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The system's allocator, with a count of the bytes held.
pub struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`, which may hold `fixed_bytes` plus `factor` times the length of `input`, on top of the bytes held now.
pub fn within<T>(fixed_bytes: usize, factor: usize, input: &[u8], work: impl FnOnce() -> T) -> T {
    LIMIT_BYTES.store(HELD_BYTES.load(Relaxed) + fixed_bytes + factor * input.len(), Relaxed);
    let result = work();
    LIMIT_BYTES.store(usize::MAX, Relaxed);
    result
}

/// Walks all rows, checks that their ranges are contiguous, and reads the image of every row that has one.
pub fn walk_rows(mut walk: Box<dyn Walk>) {
    let (mut end, mut image) = (0, Vec::new());
    while let Ok(Some(record)) = walk.next() {
        assert_eq!(record.range.start, end);
        end = record.range.end;
        if let Ok(place) = record.image {
            walk.image(&mut image).expect("the image of a row that has one");
            assert_eq!(image.len(), place.bytes as usize);
        }
    }
}

fn hold(bytes: usize) {
    let held = HELD_BYTES.fetch_add(bytes, Relaxed).saturating_add(bytes);
    if held > LIMIT_BYTES.load(Relaxed) {
        // Printing may allocate, so lift the limit first. An error of stderr is ignored.
        LIMIT_BYTES.store(usize::MAX, Relaxed);
        let _ = writeln!(std::io::stderr(), "an allocation of {bytes} bytes takes it over the limit");
        std::process::abort();
    }
}

// SAFETY: every call is passed unchanged to the system's allocator; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        hold(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        hold(layout.size());
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Both blocks exist while the old one is copied to the new one.
        hold(new_size);
        HELD_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
