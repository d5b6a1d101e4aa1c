//! Rust memory as numpy arrays, without a copy.

use std::{any::Any, sync::Arc};

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyTuple},
};
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

    /// An array at the address `start` in memory of `owner`, which keeps its address and which no other array has.
    pub fn at<T: Send + Sync + 'static>(owner: Arc<T>, start: usize, dtype: &str, shape: Vec<usize>) -> Self {
        Self { _memory: Box::new(owner), start, dtype: dtype.to_owned(), shape, is_shared: false }
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
        told.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        told.set_item("data", (self.start, self.is_shared))?;
        Ok(told)
    }

    /// Lengths of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// dtype of numpy.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (&self.dtype,))
    }

    fn __len__(&self) -> PyResult<usize> {
        self.shape.first().copied().ok_or_else(|| PyTypeError::new_err("len() of an array without axes"))
    }

    /// As numpy's `ndarray.__array__`, without a copy unless one is requested.
    #[pyo3(signature = (*arguments, **options))]
    fn __array__<'py>(
        this: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        numpy(this)?.call_method("__array__", arguments, options)
    }

    /// For `torch.from_dlpack` and others, with the arguments of the array API.
    #[pyo3(signature = (**options))]
    fn __dlpack__<'py>(this: &Bound<'py, Self>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        numpy(this)?.call_method("__dlpack__", (), options)
    }

    fn __dlpack_device__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        numpy(this)?.call_method0("__dlpack_device__")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        Ok(format!("Array({}[{shape}])", self.dtype(py)?))
    }
}

/// The numpy array over the same memory. It is made from the interface alone, not by `__array__`.
fn numpy<'py>(array: &Bound<'py, Array>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let plain = py.import("types")?.call_method1("SimpleNamespace", ())?;
    plain.setattr("__array_interface__", array.get().__array_interface__(py)?)?;
    // The array keeps the object with the interface alive, and that keeps the memory alive.
    plain.setattr("owner", array)?;
    py.import("numpy")?.call_method1("asarray", (plain,))
}
