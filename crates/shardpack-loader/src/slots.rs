//! The memory of one batch. Several threads write it at the same time, each to its own slot. A slot has a part for each view of
//! the sample, and the memory has all slots of the first view, then those of the next one. All `unsafe` code of this crate is in
//! this file.
//!
//! Holds at all times: a slot is lent to one writer; a sealed batch lends no slots; its data can be read once the last writer
//! has returned its slot.

#![allow(unsafe_code)]

use std::{
    fmt,
    ops::Range,
    sync::Arc,
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

/// Starts of views are multiples of this, the largest alignment of an item that numpy and torch have.
const ALIGNMENT: usize = 64;

/// The bytes of each view in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Views(Arc<[usize]>);

impl Views {
    /// Views of these lengths in bytes.
    pub(crate) fn new(slot_bytes: impl IntoIterator<Item = usize>) -> Self {
        Self(slot_bytes.into_iter().collect())
    }

    /// The bytes of each view in a slot.
    pub fn slot_bytes(&self) -> &[usize] {
        &self.0
    }

    /// Number of views.
    fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of `slots` slots with all views; `None` if they are out of range.
    pub fn bytes(&self, slots: usize) -> Option<usize> {
        let (last, before) = self.0.split_last().unwrap_or((&0, &[]));
        let all = before.iter().try_fold(0_usize, |sum, bytes| {
            sum.checked_add(slots.checked_mul(*bytes)?.checked_next_multiple_of(ALIGNMENT)?)
        })?;
        all.checked_add(slots.checked_mul(*last)?)
    }

    /// Where view `view` begins in memory for `slots` slots; [`Views::bytes`] is in range.
    pub fn start(&self, view: usize, slots: usize) -> usize {
        self.0.iter().take(view).map(|bytes| (slots * bytes).next_multiple_of(ALIGNMENT)).sum()
    }

    /// The bytes of view `view` in the slots `numbers` of `slots`.
    fn range(&self, view: usize, slots: usize, numbers: Range<usize>) -> Range<usize> {
        let (start, bytes) = (self.start(view, slots), self.0.get(view).copied().unwrap_or(0));
        start + numbers.start * bytes..start + numbers.end * bytes
    }
}

/// Set in [`Slots::writers`] once lending has ended.
const SEALED: usize = 1 << (usize::BITS - 1);

/// See the module.
pub(crate) struct Slots {
    /// Owns the memory at `start`; not accessed while `Slots` lives.
    memory: Box<dyn Memory>,
    start: *mut u8,
    views: Views,
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
        f.debug_struct("Slots").field("slots", &self.slots).field("views", &self.views).finish_non_exhaustive()
    }
}

impl Slots {
    /// `slots` slots with the parts of `views` at the start of `memory`.
    ///
    /// # Errors
    /// If `memory` is too short.
    pub fn new(mut memory: Box<dyn Memory>, slots: usize, views: Views) -> Result<Self> {
        let bytes = memory.bytes();
        match views.bytes(slots) {
            Some(needed) if needed <= bytes.len() => {}
            _ => {
                let what = format!("memory of {} bytes for a batch of {slots} × {:?}", bytes.len(), views.slot_bytes());
                return Err(Error::new(ErrorKind::Usage, what));
            }
        }
        let start = bytes.as_mut_ptr();
        let lent = (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { memory, start, views, slots, lent, writers: AtomicUsize::new(0) })
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
        let part = |range: Range<usize>| {
            // SAFETY: `new` has checked that the bytes of all views of `slots` slots follow `start`, and `number` is less than
            // `slots`. Ranges of two views, or of two slots, do not overlap. The bit was not set, so this slot has no other
            // borrower. `all` and `keep` read only after they have sealed and found no writer, and dropping the slot decrements
            // the writer count above.
            unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
        };
        let views = (0..self.views.len()).map(|view| part(self.views.range(view, self.slots, number..number + 1)));
        Some(Slot { views: views.collect(), writers: &self.writers })
    }

    /// Ends all lending.
    pub fn seal(&self) {
        self.writers.fetch_or(SEALED, AcqRel);
    }

    /// View `view` of the first `slots` slots; `None` before they are sealed, while a writer remains, or if there is no such view.
    pub fn all(&self, view: usize, slots: usize) -> Option<&[u8]> {
        let is_still = view < self.views.len() && self.writers.load(Acquire) == SEALED;
        let range = is_still.then(|| self.views.range(view, self.slots, 0..slots.min(self.slots)))?;
        // SAFETY: within the range that `new` has checked. The slots are sealed and have no writers, so nobody writes until
        // `reset`, which needs exclusive access to this value.
        Some(unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) })
    }

    /// As [`Slots::all`], for exclusive access.
    pub fn all_mut(&mut self, view: usize, slots: usize) -> Option<&mut [u8]> {
        let is_still = view < self.views.len() && *self.writers.get_mut() == SEALED;
        let range = is_still.then(|| self.views.range(view, self.slots, 0..slots.min(self.slots)))?;
        // SAFETY: as in `all`; this value is borrowed exclusively, so nobody else reads.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) })
    }

    /// Replaces the memory by `memory` and returns the old memory with its content.
    ///
    /// # Errors
    /// If `memory` is too short; then nothing changes.
    pub fn exchange(&mut self, memory: Box<dyn Memory>) -> Result<Box<dyn Memory>> {
        let mut other = Self::new(memory, self.slots, self.views.clone())?;
        // No slot is lent: lending borrows this value as shared.
        std::mem::swap(&mut self.memory, &mut other.memory);
        self.start = self.memory.bytes().as_mut_ptr();
        Ok(other.memory)
    }

    /// Moves the slots `kept`, in ascending order, to the front.
    pub fn keep(&mut self, kept: &[usize]) {
        let all = self.memory.bytes();
        for (to, from) in kept.iter().enumerate().filter(|(to, from)| to != *from) {
            for view in 0..self.views.len() {
                let place = |number: usize| self.views.range(view, self.slots, number..number + 1);
                all.copy_within(place(*from), place(to).start);
            }
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
    /// The bytes of each view.
    pub views: Vec<&'s mut [u8]>,
    writers: &'s AtomicUsize,
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
        Slots::new(Box::new(vec![0_u8; count * bytes].into_boxed_slice()), count, Views::new([bytes])).unwrap()
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
                            slots.lend(number).unwrap().views[0].fill(number as u8 ^ round);
                        }
                    });
                }
            });
            assert!(slots.all(0, 200).is_none(), "before it is sealed");
            slots.seal();
            let all = slots.all(0, 200).unwrap();
            assert!(all.chunks(33).enumerate().all(|(number, slot)| slot == [number as u8 ^ round; 33]));
            slots.keep(&[0, 7, 199]);
            let kept = [[round; 33], [7 ^ round; 33], [199 ^ round; 33]].concat();
            assert_eq!(slots.all(0, 3).unwrap(), kept);
            assert_eq!(slots.all_mut(0, 3).unwrap(), kept);
            let mut before = slots.exchange(Box::new(vec![9_u8; 200 * 33].into_boxed_slice())).unwrap();
            assert!(before.bytes()[..99] == kept && slots.all(0, 200).unwrap() == [9_u8; 200 * 33]);
            assert!(slots.exchange(Box::new(vec![0_u8; 199 * 33].into_boxed_slice())).is_err());
            slots.reset();
        }
    }

    #[test]
    fn views_lie_one_after_the_other() {
        let views = Views::new([5, 64, 3]);
        let bytes = views.bytes(7).unwrap();
        assert_eq!((bytes, views.start(1, 7), views.start(2, 7)), (64 + 448 + 21, 64, 512));
        let memory = Box::new(vec![0_u8; bytes].into_boxed_slice());
        assert!(Slots::new(Box::new(vec![0_u8; bytes - 1].into_boxed_slice()), 7, views.clone()).is_err());
        let mut slots = Slots::new(memory, 7, views).unwrap();
        for number in 0..7 {
            let mut slot = slots.lend(number).unwrap();
            let lengths: Vec<usize> = slot.views.iter().map(|view| view.len()).collect();
            assert_eq!(lengths, [5, 64, 3]);
            slot.views.iter_mut().zip(1..).for_each(|(view, at)| view.fill(10 * at + number as u8));
        }
        slots.seal();
        slots.keep(&[1, 2, 6]);
        for (view, bytes) in [5, 64, 3].into_iter().enumerate() {
            let expected: Vec<u8> = [1, 2, 6].iter().flat_map(|n| vec![10 * (view as u8 + 1) + n; bytes]).collect();
            assert_eq!(slots.all(view, 3).unwrap(), expected);
            assert_eq!(slots.all_mut(view, 3).unwrap(), expected);
        }
        assert!(slots.all(3, 3).is_none() && slots.all_mut(3, 3).is_none());
        assert_eq!(Views::new([]).bytes(9), Some(0));
        assert_eq!(Views::new([usize::MAX, 1]).bytes(2), None);
    }

    #[test]
    fn a_slot_is_lent_once_and_none_after_the_seal() {
        let slots = slots(3, 2);
        let first = slots.lend(0).unwrap();
        assert!(slots.lend(0).is_none() && slots.lend(3).is_none());
        slots.seal();
        assert!(slots.lend(1).is_none());
        assert!(slots.all(0, 3).is_none(), "while it is written");
        drop(first);
        assert_eq!(slots.all(0, 3).unwrap().len(), 6);
        assert!(Slots::new(Box::new(vec![0_u8; 5].into_boxed_slice()), 3, Views::new([2])).is_err());
        assert!(Slots::new(Box::new(vec![0_u8; 5].into_boxed_slice()), usize::MAX, Views::new([2])).is_err());
    }
}
