//! Memory of Python's that batches are made in: pinned for a GPU, say. All the `unsafe` of this crate is here.

#![allow(unsafe_code)]

use pyo3::{exceptions::PyValueError, prelude::*};
use shardpack_loader::Memory;

/// A stretch of memory.
struct Lent {
    /// Keeps it there.
    _owner: Py<PyAny>,
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to `_owner`, which Python's allocators give to all threads alike; the pointer is used through
// `bytes` alone, by whoever has the value for writing.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

// SAFETY: the address is that of a tensor's storage, which stays where it is as long as the tensor lives, and `_owner` keeps it.
// `lend` is called by `shardpack.Loader` alone, with tensors that it has just made and hands to nobody before they are back.
unsafe impl Memory for Lent {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; `lend` has checked that there is an address.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// The memory of `owner`, which has `data_ptr()` and `nbytes`, as torch's tensors do.
pub fn lend(owner: Bound<'_, PyAny>) -> PyResult<Box<dyn Memory>> {
    let start: usize = owner.call_method0("data_ptr")?.extract()?;
    let len: usize = owner.getattr("nbytes")?.extract()?;
    if start == 0 || !owner.call_method0("is_contiguous")?.extract::<bool>()? {
        return Err(PyValueError::new_err("memory for batches has to be contiguous and not empty"));
    }
    Ok(Box::new(Lent { _owner: owner.unbind(), start: start as *mut u8, len }))
}
