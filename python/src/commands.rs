//! The commands, called from Python: as the program runs them, but told as values.

use std::{ffi::OsString, sync::Mutex};

use clap::{Arg, ArgAction};
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::PyBytes,
};
use shardpack::hosted::Call;
use shardpack_format::{Error, ErrorKind, threads::cannot_start};

use crate::errors::{Raise, detached, raised};

/// Runs the program `shardpack` with these arguments, the first of which is its name; gives the exit code.
#[pyfunction]
pub fn command_line(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    detached(py, || shardpack::main(arguments))
}

/// Bytes of a size as the command line takes it: `256MiB`, `1.5GB`.
#[pyfunction]
pub fn size(text: &str) -> PyResult<u64> {
    shardpack::size(text).map_err(PyValueError::new_err)
}

/// `text` as one line that is fit to be shown.
#[pyfunction]
pub fn line(text: &str) -> String {
    shardpack_format::text::line(text).into_owned()
}

/// A command under way.
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
    /// Begins to run `arguments`, the first of which is the name of a command.
    #[new]
    fn new(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Self> {
        let call = Call::start(arguments).map_err(cannot_start).or_raise(py)?;
        Ok(Self { call: Mutex::new(Some(call)) })
    }

    /// Whether it has ended.
    fn is_finished(&self) -> PyResult<bool> {
        self.with(Call::is_finished)
    }

    /// What it does, samples done and in all, bytes done and in all.
    fn progress(&self) -> PyResult<(&'static str, u64, u64, u64, u64)> {
        let now = self.with(Call::progress)?;
        Ok((now.verb, now.samples, now.total_samples, now.bytes, now.total_bytes))
    }

    /// Makes it end soon, in good order.
    fn interrupt(&self) -> PyResult<()> {
        self.with(Call::interrupt)
    }

    /// Waits for its end: exit code, what it printed, the lines that it said.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(u8, Bound<'py, PyBytes>, Vec<String>)> {
        let call = self.call.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let call = call.ok_or_else(|| PyRuntimeError::new_err("the command has ended"))?;
        let panicked = || raised(py, &Error::new(ErrorKind::System, "the command panicked"));
        let answer = detached(py, || call.finish())?.ok_or_else(panicked)?;
        Ok((answer.code, PyBytes::new(py, &answer.printed), answer.said))
    }
}

/// Of a command: for each option its name, its short help, the word for its value (none for flags), whether it may be given more
/// than once, whether it is positional, the values that are possible, and its default.
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

/// What a command does, and its options.
#[pyfunction]
pub fn options(command: &str) -> PyResult<(String, Vec<Described>)> {
    let mut all = shardpack::command();
    all.build();
    let found = all.find_subcommand(command);
    let found = found.ok_or_else(|| PyValueError::new_err(format!("no command {command:?}")))?;
    let about = found.get_about().map(ToString::to_string).unwrap_or_default();
    Ok((about, found.get_arguments().map(described).collect()))
}
