//! Decodes one image, for functions written in Python.

use std::{
    cell::RefCell,
    sync::{Arc, LazyLock},
};

use pyo3::prelude::*;
use shardpack_loader::{Budget, Error, Limits, training::Worker};

use crate::{
    arrays::Array,
    errors::{Raise, detached},
};

/// Memory for decoding in all threads, in bytes; one image may use all of it.
static BUDGET: LazyLock<Arc<Budget>> = LazyLock::new(|| Arc::new(Budget::new(4 << 30)));

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::within(Limits::default(), Arc::clone(&BUDGET)));
}

/// Decode an image, without the GIL.
///
/// Args:
///     content: Encoded image.
///     upright: Rotate the image by its Exif orientation.
///
/// Returns:
///     Pixels, `[H, W, 3] uint8`, RGB, for `numpy.asarray`, which makes no copy.
///
/// Raises:
///     DataError: If `content` is no image, damaged or too large.
#[pyfunction]
#[pyo3(signature = (content, upright=false))]
pub fn decode(py: Python<'_>, content: &[u8], upright: bool) -> PyResult<Array> {
    let decoded = detached(py, || {
        WORKER.with_borrow_mut(|worker| {
            let decoded = worker.decode(content, upright);
            let (rgb, _) = decoded.map_err(|refused| Error::data(refused.to_string()))?;
            Ok::<_, Error>((rgb.pixels.to_vec(), vec![rgb.height as usize, rgb.width as usize, 3]))
        })
    });
    let (pixels, shape) = decoded?.or_raise(py)?;
    Ok(Array::shaped(pixels, "|u1", shape))
}
