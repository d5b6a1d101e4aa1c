//! Errors of the libraries as exceptions of `shardpack.errors`.

use pyo3::prelude::*;
use shardpack_format::{
    Error, ErrorKind,
    catch_panic::{bug, caught},
};

/// The exception for `error`, with its location and its help.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Data => "DataError",
        ErrorKind::Usage => "UsageError",
        ErrorKind::Interrupted => "Interrupted",
        _ => "MachineError",
    };
    let at = error.location();
    let arguments = (error.what(), at.file.as_deref(), at.sample.as_deref(), at.byte, error.help_text());
    let made = py.import("shardpack.errors").and_then(|errors| errors.getattr(class)?.call1(arguments));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// Runs `call`. A panic becomes a `MachineError`; pyo3 would raise an exception that `except Exception` does not catch.
pub fn contained<T>(py: Python<'_>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    caught(call).unwrap_or_else(|panic| Err(raised(py, &bug(&*panic, None))))
}

/// As [`contained`], with the GIL released. All slow calls go through this function.
pub fn detached<T: Send>(py: Python<'_>, call: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| caught(call).map_err(|panic| bug(&*panic, None))).or_raise(py)
}

/// Turns errors of the libraries into exceptions.
pub trait Raise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}
