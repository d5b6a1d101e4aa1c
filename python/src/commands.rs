//! The commands for Python: run as in the program, with results as values.

use std::{ffi::OsString, sync::Mutex};

use clap::{Arg, ArgAction};
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::PyBytes,
};
use shardpack::embedded::Call;
use shardpack_format::{Error, ErrorKind, threads::cannot_start};

use crate::errors::{Raise, detached, raised};

/// Runs the program `shardpack` with these arguments, the first of which is its name; returns the exit code.
#[pyfunction]
pub fn command_line(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    detached(py, || shardpack::main(arguments))
}

/// Bytes of a size in the syntax of the command line: `256MiB`, `1.5GB`.
#[pyfunction]
pub fn size(text: &str) -> PyResult<u64> {
    shardpack::size(text).map_err(PyValueError::new_err)
}

/// `text` as one printable line.
#[pyfunction]
pub fn line(text: &str) -> String {
    shardpack_format::text::line(text).into_owned()
}

/// A running command.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Command {
    call: Mutex<Option<Call>>,
}

impl Command {
    fn with<T>(&self, ask: impl FnOnce(&Call) -> T) -> PyResult<T> {
        let call = self.call.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        call.as_ref().map(ask).ok_or_else(|| PyRuntimeError::new_err("the command has ended"))
    }
}

#[pymethods]
impl Command {
    /// Starts to run `arguments`, the first of which is the name of a command.
    #[new]
    fn new(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Self> {
        let call = Call::start(arguments).map_err(cannot_start).or_raise(py)?;
        Ok(Self { call: Mutex::new(Some(call)) })
    }

    /// Whether the command has ended.
    fn is_finished(&self) -> PyResult<bool> {
        self.with(Call::is_finished)
    }

    /// The verb of the current phase, samples done and total, bytes done and total.
    fn progress(&self) -> PyResult<(&'static str, u64, u64, u64, u64)> {
        let now = self.with(Call::progress)?;
        Ok((now.verb, now.samples, now.total_samples, now.bytes, now.total_bytes))
    }

    /// Cancels the command, which ends soon and cleanly.
    fn interrupt(&self) -> PyResult<()> {
        self.with(Call::interrupt)
    }

    /// Waits for the command; returns the exit code, the output, and the lines of messages.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(u8, Bound<'py, PyBytes>, Vec<String>)> {
        let call = self.call.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let call = call.ok_or_else(|| PyRuntimeError::new_err("the command has ended"))?;
        let panicked = || raised(py, &Error::new(ErrorKind::System, "the command panicked"));
        let answer = detached(py, || call.finish())?.ok_or_else(panicked)?;
        Ok((answer.code, PyBytes::new(py, &answer.printed), answer.said))
    }
}

/// For each option: its name, short help, value name (`None` for flags), whether it is repeatable, whether it is positional, the
/// possible values, and the default.
type Described = (String, String, Option<String>, bool, bool, Vec<String>, Option<String>);

fn described(argument: &Arg) -> Described {
    let takes_value = argument.get_action().takes_values();
    let value = takes_value.then(|| {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    });
    let is_repeated = matches!(argument.get_action(), ArgAction::Append);
    let possible = argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let default = argument.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let name = argument.get_long().map_or_else(|| argument.get_id().to_string(), str::to_owned);
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    (name, help, value, is_repeated, argument.is_positional(), possible, default)
}

/// The help of a command, and its options.
#[pyfunction]
pub fn options(command: &str) -> PyResult<(String, Vec<Described>)> {
    let mut all = shardpack::command();
    all.build();
    let found = all.find_subcommand(command);
    let found = found.ok_or_else(|| PyValueError::new_err(format!("no command {command:?}")))?;
    let about = found.get_about().map(ToString::to_string).unwrap_or_default();
    Ok((about, found.get_arguments().map(described).collect()))
}
