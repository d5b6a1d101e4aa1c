//! The memory of one batch. Several threads write it at the same time, each to its own slot. All `unsafe` code of this crate
//! is in this file.
//!
//! Holds at all times: a slot is lent to one writer; a sealed batch lends no slots; its data can be read once the last writer
//! has returned its slot.

#![allow(unsafe_code)]

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Release},
    },
};

use shardpack_format::{Error, ErrorKind, Result};

/// Memory for batches: of the crate, or of the caller, who may have pinned it for a GPU.
///
/// # Safety
/// [`Memory::bytes`] returns the same memory at each call. The memory keeps its address even if the value is moved, and
/// nobody else reads or writes it until the value is dropped.
pub unsafe trait Memory: Send + Sync {
    /// All of the memory.
    fn bytes(&mut self) -> &mut [u8];
}

// SAFETY: the buffer of a boxed slice is on the heap, belongs to the box alone, and is never exchanged for another.
unsafe impl Memory for Box<[u8]> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

/// Set in [`Slots::writers`] once lending has ended.
const SEALED: usize = 1 << (usize::BITS - 1);

/// See the module.
pub(crate) struct Slots {
    /// Owns the memory at `start`; not accessed while `Slots` lives.
    memory: Box<dyn Memory>,
    start: *mut u8,
    slot_bytes: usize,
    slots: usize,
    /// One bit per slot: set once the slot has been lent.
    lent: Box<[AtomicU64]>,
    /// Number of writers, and [`SEALED`].
    writers: AtomicUsize,
}

// SAFETY: `start` points into `memory`, which is `Send` and `Sync` and used through `start` alone; the atomics decide which
// thread may touch which byte.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("slots", &self.slots)
            .field("slot_bytes", &self.slot_bytes)
            .finish_non_exhaustive()
    }
}

impl Slots {
    /// `slots` slots of `slot_bytes` each at the start of `memory`.
    ///
    /// # Errors
    /// If `memory` is too short.
    pub fn new(mut memory: Box<dyn Memory>, slots: usize, slot_bytes: usize) -> Result<Self> {
        let bytes = memory.bytes();
        match slots.checked_mul(slot_bytes) {
            Some(needed) if needed <= bytes.len() => {}
            _ => {
                let what = format!("memory of {} bytes for a batch of {slots} × {slot_bytes}", bytes.len());
                return Err(Error::new(ErrorKind::Usage, what));
            }
        }
        let start = bytes.as_mut_ptr();
        let lent = (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { memory, start, slot_bytes, slots, lent, writers: AtomicUsize::new(0) })
    }

    /// Lends slot `number`: only once, and not after [`Slots::seal`].
    pub fn lend(&self, number: usize) -> Option<Slot<'_>> {
        if number >= self.slots {
            return None;
        }
        self.writers.fetch_update(AcqRel, Acquire, |writers| (writers & SEALED == 0).then_some(writers + 1)).ok()?;
        let bit = 1 << (number % 64);
        // `lent` has one bit for each slot.
        if self.lent[number / 64].fetch_or(bit, AcqRel) & bit != 0 {
            self.writers.fetch_sub(1, Release);
            return None;
        }
        // SAFETY: `new` has checked that `slots * slot_bytes` bytes follow `start`, and `number` is less than `slots`. The bit
        // was not set, so this slot has no other borrower. `all` and `keep` read only after they have sealed and found no writer,
        // and dropping the slot decrements the writer count above.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.start.add(number * self.slot_bytes), self.slot_bytes) };
        Some(Slot { bytes, writers: &self.writers })
    }

    /// Ends all lending.
    pub fn seal(&self) {
        self.writers.fetch_or(SEALED, AcqRel);
    }

    /// The first `slots` slots; `None` before they are sealed, or while a writer remains.
    pub fn all(&self, slots: usize) -> Option<&[u8]> {
        let is_still = self.writers.load(Acquire) == SEALED;
        // SAFETY: within the range that `new` has checked. The slots are sealed and have no writers, so nobody writes until
        // `reset`, which needs exclusive access to this value.
        is_still.then(|| unsafe { std::slice::from_raw_parts(self.start, slots.min(self.slots) * self.slot_bytes) })
    }

    /// As [`Slots::all`], for exclusive access.
    pub fn all_mut(&mut self, slots: usize) -> Option<&mut [u8]> {
        let is_still = *self.writers.get_mut() == SEALED;
        // SAFETY: as in `all`; this value is borrowed exclusively, so nobody else reads.
        is_still.then(|| unsafe { std::slice::from_raw_parts_mut(self.start, slots.min(self.slots) * self.slot_bytes) })
    }

    /// Replaces the memory by `memory` and returns the old memory with its content.
    ///
    /// # Errors
    /// If `memory` is too short; then nothing changes.
    pub fn exchange(&mut self, memory: Box<dyn Memory>) -> Result<Box<dyn Memory>> {
        let mut other = Self::new(memory, self.slots, self.slot_bytes)?;
        // No slot is lent: lending borrows this value as shared.
        std::mem::swap(&mut self.memory, &mut other.memory);
        self.start = self.memory.bytes().as_mut_ptr();
        Ok(other.memory)
    }

    /// Moves the slots `kept`, in ascending order, to the front.
    pub fn keep(&mut self, kept: &[usize]) {
        let all = self.memory.bytes();
        for (to, from) in kept.iter().enumerate().filter(|(to, from)| to != *from) {
            let start = from * self.slot_bytes;
            all.copy_within(start..start + self.slot_bytes, to * self.slot_bytes);
        }
        // Derived again, because the borrow above has invalidated the pointer.
        self.start = self.memory.bytes().as_mut_ptr();
    }

    /// Makes all slots available again.
    pub fn reset(&mut self) {
        self.lent.iter_mut().for_each(|word| *word.get_mut() = 0);
        *self.writers.get_mut() = 0;
    }
}

/// A slot to be written.
pub(crate) struct Slot<'s> {
    bytes: &'s mut [u8],
    writers: &'s AtomicUsize,
}

impl Deref for Slot<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for Slot<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.writers.fetch_sub(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(count: usize, bytes: usize) -> Slots {
        Slots::new(Box::new(vec![0_u8; count * bytes].into_boxed_slice()), count, bytes).unwrap()
    }

    #[test]
    fn threads_write_slots_side_by_side() {
        let mut slots = slots(200, 33);
        for round in 0..3 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let slots = &slots;
                    scope.spawn(move || {
                        for number in (thread..200).step_by(4) {
                            slots.lend(number).unwrap().fill(number as u8 ^ round);
                        }
                    });
                }
            });
            assert!(slots.all(200).is_none(), "before it is sealed");
            slots.seal();
            let all = slots.all(200).unwrap();
            assert!(all.chunks(33).enumerate().all(|(number, slot)| slot == [number as u8 ^ round; 33]));
            slots.keep(&[0, 7, 199]);
            let kept = [[round; 33], [7 ^ round; 33], [199 ^ round; 33]].concat();
            assert_eq!(slots.all(3).unwrap(), kept);
            assert_eq!(slots.all_mut(3).unwrap(), kept);
            let mut before = slots.exchange(Box::new(vec![9_u8; 200 * 33].into_boxed_slice())).unwrap();
            assert!(before.bytes()[..99] == kept && slots.all(200).unwrap() == [9_u8; 200 * 33]);
            assert!(slots.exchange(Box::new(vec![0_u8; 199 * 33].into_boxed_slice())).is_err());
            slots.reset();
        }
    }

    #[test]
    fn a_slot_is_lent_once_and_none_after_the_seal() {
        let slots = slots(3, 2);
        let first = slots.lend(0).unwrap();
        assert!(slots.lend(0).is_none() && slots.lend(3).is_none());
        slots.seal();
        assert!(slots.lend(1).is_none());
        assert!(slots.all(3).is_none(), "while it is written");
        drop(first);
        assert_eq!(slots.all(3).unwrap().len(), 6);
        assert!(Slots::new(Box::new(vec![0_u8; 5].into_boxed_slice()), 3, 2).is_err());
        assert!(Slots::new(Box::new(vec![0_u8; 5].into_boxed_slice()), usize::MAX, 2).is_err());
    }
}
