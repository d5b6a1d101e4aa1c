//! Memory of Python for batches, for example pinned for a GPU. All `unsafe` code of this crate is in this file.

#![allow(unsafe_code)]

use pyo3::{exceptions::PyValueError, prelude::*};
use shardpack_loader::Memory;

/// A range of memory.
struct Lent {
    /// Keeps the memory alive.
    _owner: Py<PyAny>,
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to `_owner`, and memory of Python's allocators is valid in all threads. Only `bytes` uses the pointer,
// and it requires exclusive access to the value.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

// SAFETY: the address is that of a tensor's storage, which keeps its address while the tensor lives, and `_owner` keeps the tensor.
// Only `shardpack.Loader` calls `lend`, with tensors that it has just made and shares with nobody until the loader returns them.
unsafe impl Memory for Lent {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; `lend` has checked that there is an address.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// The memory of `owner`, which has `data_ptr()` and `nbytes`, as tensors of torch do.
pub fn lend(owner: Bound<'_, PyAny>) -> PyResult<Box<dyn Memory>> {
    let start: usize = owner.call_method0("data_ptr")?.extract()?;
    let len: usize = owner.getattr("nbytes")?.extract()?;
    if start == 0 || !owner.call_method0("is_contiguous")?.extract::<bool>()? {
        return Err(PyValueError::new_err("memory for batches has to be contiguous and not empty"));
    }
    Ok(Box::new(Lent { _owner: owner.unbind(), start: start as *mut u8, len }))
}
