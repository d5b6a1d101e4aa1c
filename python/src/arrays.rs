//! Rust memory as numpy arrays, without a copy.

use std::any::Any;

use pyo3::{prelude::*, types::PyDict};
use shardpack_loader::Payload;

/// Input for `numpy.asarray`: the numpy arrays keep this object alive, and this object keeps the memory.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Array {
    /// Owns the memory at `start`. No other code writes the memory, or reads it unless `is_shared`.
    _memory: Box<dyn Any + Send + Sync>,
    start: usize,
    dtype: String,
    shape: Vec<usize>,
    /// Whether the array is read-only in Python, because other code reads the memory.
    is_shared: bool,
}

impl Array {
    /// An array over all of `items`.
    pub fn new<T: Send + Sync + 'static>(mut items: Vec<T>, dtype: &str) -> Self {
        let (start, shape) = (items.as_mut_ptr() as usize, vec![items.len()]);
        Self { _memory: Box::new(items), start, dtype: dtype.to_owned(), shape, is_shared: false }
    }

    /// An array of `dtype` and `shape` over `bytes`, whose length must match.
    pub fn shaped(mut bytes: Vec<u8>, dtype: &str, shape: Vec<usize>) -> Self {
        let start = bytes.as_mut_ptr() as usize;
        Self { _memory: Box::new(bytes), start, dtype: dtype.to_owned(), shape, is_shared: false }
    }

    /// An array over the bytes that `slots` returns for `owner`. The bytes must keep their address if `owner` moves.
    pub fn over<T: Send + Sync + 'static>(
        owner: T,
        slots: impl FnOnce(&mut T) -> &mut [u8],
        dtype: &str,
        shape: Vec<usize>,
    ) -> Self {
        let mut owner = Box::new(owner);
        let start = slots(&mut owner).as_mut_ptr() as usize;
        Self { _memory: owner, start, dtype: dtype.to_owned(), shape, is_shared: false }
    }

    /// A read-only array of the bytes of `payload`.
    pub fn payload(payload: Payload) -> Self {
        // Moving the payload keeps the address of its bytes: they are in a run, or on the heap.
        let (start, shape) = (payload.as_ptr() as usize, vec![payload.len()]);
        Self { _memory: Box::new(payload), start, dtype: "|u1".to_owned(), shape, is_shared: true }
    }
}

#[pymethods]
impl Array {
    /// Version 3 of numpy's array interface.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        told.set_item("version", 3)?;
        told.set_item("typestr", &self.dtype)?;
        told.set_item("shape", pyo3::types::PyTuple::new(py, &self.shape)?)?;
        told.set_item("data", (self.start, self.is_shared))?;
        Ok(told)
    }
}
