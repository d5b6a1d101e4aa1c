//! Rows of a Python program, for shardpack/rows.py.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
};
use shardpack_format::Result;
use shardpack_source::rows::Spool as Files;

use crate::{
    errors::{Raise, contained, detached},
    row_values::{Columns, Described},
};

/// A spool of rows.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Spool {
    files: Mutex<Option<Files>>,
    /// Columns that [`Spool::write_known`] knows.
    columns: Mutex<Arc<Columns>>,
}

impl Spool {
    fn with<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&mut Files) -> Result<T> + Send) -> PyResult<T> {
        // Waits for the disk between two files.
        let done = detached(py, || self.files.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(call))?;
        done.ok_or_else(|| PyRuntimeError::new_err("the rows are closed"))?.or_raise(py)
    }
}

#[pymethods]
impl Spool {
    /// Opens the spool in `folder`, and keeps its rows.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let files = detached(py, || Files::open(&folder))?.or_raise(py)?;
        Ok(Self { files: Mutex::new(Some(files)), columns: Mutex::default() })
    }

    /// The number of the next row.
    fn next_row(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |files| Ok(files.next_row()))
    }

    /// Writes a row: the extension and content of each of its files.
    fn write(&self, py: Python<'_>, members: Vec<(PyBackedStr, PyBackedBytes)>) -> PyResult<()> {
        self.with(py, |files| files.write(members.iter().map(|(extension, content)| (&**extension, &**content))))
    }

    /// Sets the columns of rows that `write_known` writes.
    fn know(&self, columns: Vec<Described<'_>>) -> PyResult<()> {
        let columns = Arc::new(Columns::new(columns)?);
        // The columns before are dropped without the lock.
        drop(std::mem::replace(&mut *self.columns.lock().unwrap_or_else(PoisonError::into_inner), columns));
        Ok(())
    }

    /// Writes a row if all of its values fit the known columns, and returns whether it did.
    fn write_known(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<bool> {
        contained(py, || {
            let columns = Arc::clone(&self.columns.lock().unwrap_or_else(PoisonError::into_inner));
            let Some(row) = columns.row(row)? else { return Ok(false) };
            // Taken after all calls of Python. If another thread has it, that one may wait for the disk.
            let Ok(mut files) = self.files.try_lock() else { return Ok(false) };
            let Some(is_full) = files.as_mut().and_then(|files| row.add(files)) else { return Ok(false) };
            drop(files);
            if is_full {
                self.with(py, Files::write_out)?;
            }
            Ok(true)
        })
    }

    /// The content of a small file, or `None`.
    fn note(&self, py: Python<'_>, name: &str) -> PyResult<Option<Vec<u8>>> {
        self.with(py, |files| files.note(name))
    }

    /// Writes or replaces a small file.
    fn put_note(&self, py: Python<'_>, name: &str, content: Vec<u8>) -> PyResult<()> {
        self.with(py, |files| files.put_note(name, content))
    }

    /// Removes a small file.
    fn remove_note(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |files| files.remove_note(name))
    }

    /// Marks the rows as packed.
    fn mark_packed(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Files::mark_packed)
    }

    /// Writes the remaining rows, and waits until all are in files; `is_kept` also waits until they are on disk.
    fn finish(&self, py: Python<'_>, is_kept: bool) -> PyResult<()> {
        self.with(py, |files| if is_kept { files.finish_synced() } else { files.finish() })
    }

    /// Closes the spool, without the rows that are in no file yet; keeps the files.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || drop(self.files.lock().unwrap_or_else(PoisonError::into_inner).take()))
    }

    /// Closes and removes the spool.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        let files = detached(py, || self.files.lock().unwrap_or_else(PoisonError::into_inner).take())?;
        files.map_or(Ok(()), |files| detached(py, || files.remove())?.or_raise(py))
    }
}
