//! The module `shardpack._native`: the Rust libraries for Python, one file per class, without logic.
//!
//! Holds at all times: slow calls release the GIL and check for signals; memory visible to Python lives as long as Python
//! keeps it.

#![deny(unsafe_code)]

mod arrays;
mod augment;
mod commands;
mod dataset;
mod decode;
mod errors;
mod loader;
mod memory;
mod options;
mod receipts;
mod row_values;
mod rows;
mod stream;

use pyo3::prelude::*;

/// The native part of shardpack; see the Python modules beside it.
#[pymodule(gil_used = false)]
mod _native {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};
    #[pymodule_export]
    use super::{
        arrays::Array,
        augment::augment,
        commands::{Command, command_line, line, options, size},
        dataset::{Dataset, Sample, is_url},
        decode::{crop_table, decode},
        loader::Engine,
        receipts::{join, proves},
        rows::Spool,
        stream::{Batch, Payloads, Stream},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
