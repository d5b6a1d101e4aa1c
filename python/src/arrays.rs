//! Memory of Rust's that numpy takes as an array without a copy.

use std::any::Any;

use pyo3::{prelude::*, types::PyDict};
use shardpack_loader::Payload;

/// What `numpy.asarray` takes: it keeps this object, and this object the memory, until the last array over it is gone.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Array {
    /// Owns what `start` points to; nobody else writes it any more, nor reads it unless it is shared.
    _memory: Box<dyn Any + Send + Sync>,
    start: usize,
    dtype: String,
    shape: Vec<usize>,
    /// Whether Python may not write: somebody else reads it.
    is_shared: bool,
}

impl Array {
    /// An array over all of `items`.
    pub fn of<T: Send + Sync + 'static>(mut items: Vec<T>, dtype: &str) -> Self {
        let (start, shape) = (items.as_mut_ptr() as usize, vec![items.len()]);
        Self { _memory: Box::new(items), start, dtype: dtype.to_owned(), shape, is_shared: false }
    }

    /// An array of `dtype` and `shape` over `bytes`, which has as many as that takes.
    pub fn shaped(mut bytes: Vec<u8>, dtype: &str, shape: Vec<usize>) -> Self {
        let start = bytes.as_mut_ptr() as usize;
        Self { _memory: Box::new(bytes), start, dtype: dtype.to_owned(), shape, is_shared: false }
    }

    /// An array over what `slots` gives of `owner`; it has to stay where it is when `owner` moves.
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

    /// An array of bytes over `payload`, for reading alone.
    pub fn payload(payload: Payload) -> Self {
        // Moving it moves no bytes: they are in a run, or on the heap.
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
