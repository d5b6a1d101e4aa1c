//! The memory of one batch, which several threads write at the same time, each a slot of its own. All the `unsafe` of this
//! crate is here.
//!
//! Holds at all times: a slot is lent to one writer; once sealed, nothing is lent for writing, and what was written can be
//! read when the last writer is gone.

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

/// Memory that batches are made in: of the crate's own, or of the caller's, who may have pinned it for a GPU.
///
/// # Safety
/// [`Memory::bytes`] gives the same memory at each call. It stays where it is, moves of the value notwithstanding, and
/// nobody else reads or writes it, until the value is dropped.
pub unsafe trait Memory: Send + Sync {
    /// All of the memory.
    fn bytes(&mut self) -> &mut [u8];
}

// SAFETY: the buffer of a boxed slice is on the heap, belongs to it alone, and is never exchanged for another.
unsafe impl Memory for Box<[u8]> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

/// Set in [`Slots::writers`] when nothing is lent any more.
const SEALED: usize = 1 << (usize::BITS - 1);

/// See the module.
pub(crate) struct Slots {
    /// Owns what `start` points to; not touched while this lives.
    memory: Box<dyn Memory>,
    start: *mut u8,
    slot_bytes: usize,
    slots: usize,
    /// One bit a slot: it has been lent.
    lent: Box<[AtomicU64]>,
    /// How many writers there are, and [`SEALED`].
    writers: AtomicUsize,
}

// SAFETY: `start` points into `memory`, which is `Send` and `Sync` and used through `start` alone; which thread may touch
// which byte is decided by the atomics.
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
    /// When it is too short.
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

    /// Lends slot `number`: once, and not after [`Slots::seal`].
    pub fn lend(&self, number: usize) -> Option<Slot<'_>> {
        if number >= self.slots {
            return None;
        }
        self.writers.fetch_update(AcqRel, Acquire, |writers| (writers & SEALED == 0).then_some(writers + 1)).ok()?;
        let bit = 1 << (number % 64);
        // As many words as there are slots.
        if self.lent[number / 64].fetch_or(bit, AcqRel) & bit != 0 {
            self.writers.fetch_sub(1, Release);
            return None;
        }
        // SAFETY: `new` has found `slots * slot_bytes` bytes at `start`, and `number` is less than `slots`. The bit was not
        // set, so this slot is lent to nobody else; `all` and `keep` read only after they have sealed and found no writer,
        // and the count above is given back when the slot is dropped.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.start.add(number * self.slot_bytes), self.slot_bytes) };
        Some(Slot { bytes, writers: &self.writers })
    }

    /// Ends all lending.
    pub fn seal(&self) {
        self.writers.fetch_or(SEALED, AcqRel);
    }

    /// The first `slots` slots; `None` while a writer is left, or before they are sealed.
    pub fn all(&self, slots: usize) -> Option<&[u8]> {
        let is_still = self.writers.load(Acquire) == SEALED;
        // SAFETY: within what `new` has checked. Sealed, and without writers: nobody writes any more until `reset`, which
        // wants this value for itself.
        is_still.then(|| unsafe { std::slice::from_raw_parts(self.start, slots.min(self.slots) * self.slot_bytes) })
    }

    /// As [`Slots::all`], for the only one that has this value.
    pub fn all_mut(&mut self, slots: usize) -> Option<&mut [u8]> {
        let is_still = *self.writers.get_mut() == SEALED;
        // SAFETY: as in `all`; and this value is borrowed for writing, so that nobody else reads.
        is_still.then(|| unsafe { std::slice::from_raw_parts_mut(self.start, slots.min(self.slots) * self.slot_bytes) })
    }

    /// Puts `memory` in the place of the one that there is, which comes back as it was written.
    ///
    /// # Errors
    /// When it is too short; all is as it was.
    pub fn exchange(&mut self, memory: Box<dyn Memory>) -> Result<Box<dyn Memory>> {
        let mut other = Self::new(memory, self.slots, self.slot_bytes)?;
        // Nobody writes: lending wants this value shared.
        std::mem::swap(&mut self.memory, &mut other.memory);
        self.start = self.memory.bytes().as_mut_ptr();
        Ok(other.memory)
    }

    /// Moves the slots `kept`, which ascend, to the front.
    pub fn keep(&mut self, kept: &[usize]) {
        let all = self.memory.bytes();
        for (to, from) in kept.iter().enumerate().filter(|(to, from)| to != *from) {
            let start = from * self.slot_bytes;
            all.copy_within(start..start + self.slot_bytes, to * self.slot_bytes);
        }
        // Taken anew, since the borrow above was another one.
        self.start = self.memory.bytes().as_mut_ptr();
    }

    /// Makes all slots free to be lent again.
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
