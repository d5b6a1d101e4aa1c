//! Errors of the libraries as exceptions of `shardpack.errors`.

use pyo3::prelude::*;
use shardpack_format::{Error, ErrorKind};

/// The exception for `error`, with its place and its help.
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
