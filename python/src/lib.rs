//! What Python is given of the libraries, as `shardpack._native`: one file a class, without logic of its own.
//!
//! Holds at all times: whatever takes long runs without the interpreter's lock and looks after signals; memory that Python
//! sees lives as long as Python has it.

#![deny(unsafe_code)]

mod arrays;
mod commands;
mod dataset;
mod decode;
mod errors;
mod loader;
mod memory;
mod options;
mod receipts;
mod stream;

use pyo3::prelude::*;

/// The native part of shardpack; see the Python modules beside it.
#[pymodule(gil_used = false)]
mod _native {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};
    #[pymodule_export]
    use super::{
        arrays::Array,
        commands::{Command, command_line, line, options, size},
        dataset::{Dataset, Sample, is_url},
        decode::decode,
        loader::Engine,
        receipts::{join, proves},
        stream::{Batch, Payloads, Stream},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("HAS_TURBO", cfg!(feature = "turbo"))
    }
}
