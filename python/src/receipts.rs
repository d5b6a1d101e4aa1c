//! Receipts: JSON in, JSON out.

use pyo3::prelude::*;
use shardpack_loader::{Expected, Receipt, Result};

use crate::errors::{Raise, contained};

/// Merges the receipts of several ranks, or of parts of a run.
#[pyfunction]
pub fn join(py: Python<'_>, receipts: Vec<String>) -> PyResult<String> {
    let joined = || -> Result<Option<Receipt>> {
        let mut receipts = receipts.iter().map(|json| Receipt::from_json(json));
        let Some(mut all) = receipts.next().transpose()? else { return Ok(None) };
        receipts.try_for_each(|receipt| all.join(&receipt?))?;
        Ok(Some(all))
    };
    let all = contained(py, || joined().or_raise(py))?;
    all.map(|all| all.to_json()).ok_or_else(|| pyo3::exceptions::PyValueError::new_err("no receipts"))
}

/// Whether `receipt` covers exactly `samples` samples of epoch `epoch` with the sum `identities`, each once.
#[pyfunction]
pub fn proves(py: Python<'_>, receipt: &str, epoch: u64, samples: u64, identities: &str) -> PyResult<bool> {
    let receipt = Receipt::from_json(receipt).or_raise(py)?;
    let identities = u128::from_str_radix(identities, 16);
    let identities =
        identities.map_err(|_| pyo3::exceptions::PyValueError::new_err("identities are 32 hexadecimal digits"))?;
    Ok(receipt.is_of(&Expected { epoch, samples, identities }))
}
