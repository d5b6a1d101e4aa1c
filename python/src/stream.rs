//! A stream of batches, and the conversion of a batch for Python.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pyo3::{
    exceptions::{PyIndexError, PyRuntimeError},
    prelude::*,
    types::{PyBytes, PyList, PyString},
};
use shardpack_loader::{Batches, Form, Options, Output, Payload, Values, advice, training::Geometry};

use crate::{
    arrays::Array,
    errors::{Raise, detached, raised},
    memory,
    options::Slot,
};

/// Interval between checks for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// Batches in order, made ahead by Rust threads.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Stream {
    batches: Mutex<Option<Batches>>,
    /// The type of each view.
    slots: Vec<Slot>,
    /// Whether payloads were requested.
    has_payloads: bool,
    /// Number of classes of mixed labels.
    mixed_classes: usize,
}

/// Payloads as stored.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Payloads {
    payloads: Vec<Payload>,
}

#[pymethods]
impl Payloads {
    fn __len__(&self) -> usize {
        self.payloads.len()
    }

    /// Payload `number`, which must be in range: `[n] uint8`, read-only.
    fn payload(&self, number: usize) -> PyResult<Array> {
        let payload = self.payloads.get(number).cloned();
        payload.map(Array::payload).ok_or_else(|| PyIndexError::new_err(number))
    }

    /// A copy of all payloads, one after the other, and the offset of each, `[B + 1] uint64`.
    fn joined(&self, py: Python<'_>) -> PyResult<(Array, Array)> {
        let mut offsets = vec![0_u64];
        offsets.extend(self.payloads.iter().scan(0, |end, payload| {
            *end += payload.len() as u64;
            Some(*end)
        }));
        let bytes = detached(py, || self.payloads.iter().map(|payload| &payload[..]).collect::<Vec<_>>().concat())?;
        Ok((Array::new(bytes, "|u1"), Array::new(offsets, "<u8")))
    }
}

/// Edges, places, and flips of the images of a view, left to right and top to bottom.
type Cuts = (Py<Array>, Py<Array>, Py<Array>, Py<Array>);

/// A batch.
#[pyclass(frozen, get_all, module = "shardpack._native")]
pub struct Batch {
    /// The epoch.
    epoch: u64,
    /// Number of the batch in the epoch.
    number: u64,
    /// Number of samples.
    samples: usize,
    /// For each view `[B, 3, H, W]` or `[B, H, W, 3]`; none without a transform, or if the images are in memory of the caller.
    images: Vec<Py<Array>>,
    /// The address of the images in memory of the caller.
    address: Option<usize>,
    /// `[B] int64`, or of mixed images `[B, classes] float32`.
    labels: Py<Array>,
    /// Numbers of the samples in the dataset: `[B] uint64`.
    numbers: Py<Array>,
    /// For a mix, the number of each sample's dataset: `[B] uint64`.
    sources: Py<Array>,
    /// The payloads as stored, if requested.
    encoded: Option<Py<Payloads>>,
    /// For each view, `None` if operations move its pixels after the cut, for each image: left, top, right and bottom edge of its cut in pixels of the image; the same of its place in the
    /// output; whether it is flipped then. `[B, 4] float64`, `[B, 4] uint32`, `[B] bool`.
    cropped: Vec<Option<Cuts>>,
    /// Name and content of each component: an array, a list, or for ragged arrays their rows and the offsets of each, `[B + 1] int64`.
    columns: Vec<(String, Py<PyAny>)>,
    /// The state that resumes right after this batch.
    state: String,
}

impl Stream {
    /// A stream of `batches`, whose views have the types `slots`.
    pub fn new(batches: Batches, slots: Vec<Slot>, options: &Options) -> Self {
        let has_payloads = matches!(options.output, Output::Encoded);
        Self { batches: Mutex::new(Some(batches)), slots, has_payloads, mixed_classes: options.mixed_classes }
    }

    fn with<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&mut Batches) -> T + Send) -> PyResult<T> {
        let found = detached(py, || {
            let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
            batches.as_mut().map(call)
        })?;
        found.ok_or_else(|| PyRuntimeError::new_err("the loader is closed"))
    }
}

#[pymethods]
impl Stream {
    /// The next batch; `None` at the end of an epoch. If batches are in memory of the caller, `memory` replaces that of the batch.
    #[pyo3(signature = (memory=None))]
    fn next(&self, py: Python<'_>, memory: Option<Bound<'_, PyAny>>) -> PyResult<Option<Batch>> {
        while !self.with(py, |batches| batches.wait(PATIENCE))?.or_raise(py)? {
            py.check_signals()?;
        }
        let Some(mut batch) = self.with(py, Batches::next)?.or_raise(py)? else { return Ok(None) };
        let (epoch, number, samples, state) = (batch.epoch(), batch.number(), batch.len(), batch.state().to_json());
        let array = |array: Array| Py::new(py, array);
        let labels = array(match batch.mixed_labels() {
            None => Array::new(batch.labels().to_vec(), "<i8"),
            Some(shares) => {
                let classes = self.mixed_classes;
                Array::shaped(
                    shares.iter().flat_map(|share| share.to_le_bytes()).collect(),
                    "<f4",
                    vec![samples, classes],
                )
            }
        })?;
        let numbers = array(Array::new(batch.samples().to_vec(), "<u8"))?;
        let sources = array(Array::new(batch.sources().iter().map(|one| *one as u64).collect(), "<u8"))?;
        let cropped = batch.geometries().iter().map(|cuts| {
            // Without a cut for each image, operations have moved pixels after the cut.
            if cuts.len() < samples {
                return Ok(None);
            }
            let [edges, placed, flips, vertical_flips] = cropped(cuts);
            Ok(Some((array(edges)?, array(placed)?, array(flips)?, array(vertical_flips)?)))
        });
        let cropped = cropped.collect::<PyResult<Vec<_>>>()?;
        let columns = batch
            .take_columns()
            .into_iter()
            .map(|column| {
                let values = values(py, column.values, &column.name, samples)?;
                Ok((column.name, values))
            })
            .collect::<PyResult<_>>()?;
        let payloads = Payloads { payloads: batch.take_payloads() };
        let encoded = self.has_payloads.then(|| Py::new(py, payloads)).transpose()?;
        let mut address = None;
        let mut images = Vec::new();
        match memory {
            _ if self.slots.is_empty() => {}
            Some(memory) => {
                address = Some(batch.view_mut(0).as_mut_ptr() as usize);
                let lent = memory::lend(memory)?;
                batch.exchange(lent).or_raise(py)?;
            }
            None => {
                let views = 0..self.slots.len();
                // The arrays share the batch, and each view belongs to one of them.
                let starts: Vec<usize> = views.map(|view| batch.view_mut(view).as_mut_ptr() as usize).collect();
                let owner = Arc::new(batch);
                for (slot, start) in self.slots.iter().zip(starts) {
                    let shape = [&[samples][..], &slot.shape].concat();
                    images.push(array(Array::at(Arc::clone(&owner), start, slot.dtype, shape))?);
                }
            }
        }
        Ok(Some(Batch {
            epoch,
            number,
            samples,
            images,
            address,
            labels,
            numbers,
            sources,
            encoded,
            cropped,
            columns,
            state,
        }))
    }

    /// The receipt as JSON.
    fn receipt(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |batches| batches.receipt().to_json())
    }

    /// Counts and times, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let stats = self.with(py, |batches| batches.stats())?;
        serde_json::to_string(&stats).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Advice as JSON and as text; `function_wait_ms` is the wait for a function of the caller, in milliseconds.
    fn advice(&self, py: Python<'_>, function_wait_ms: Option<f64>) -> PyResult<(String, String)> {
        let mut facts = self.with(py, |batches| batches.facts())?;
        facts.wait_ms += function_wait_ms.unwrap_or(0.0);
        facts.has_function = function_wait_ms.is_some();
        let advice = advice::advise(&facts);
        let json = serde_json::to_string(&advice).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok((json, advice.to_string()))
    }

    /// The state that resumes right after the last batch.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |batches| batches.state().to_json())
    }

    /// Ends the threads; batches that were handed out stay valid.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || drop(self.batches.lock().unwrap_or_else(PoisonError::into_inner).take()))
    }
}

/// The arrays of [`Batch::cropped`].
fn cropped(all: &[Geometry]) -> [Array; 4] {
    let edges = all.iter().flat_map(Geometry::edges).flat_map(f64::to_le_bytes).collect();
    let placed = all.iter().flat_map(|one| {
        let placed = one.placed;
        [placed.left, placed.top, placed.left + placed.width, placed.top + placed.height]
    });
    let placed = placed.flat_map(u32::to_le_bytes).collect();
    let of = |bytes, dtype| Array::shaped(bytes, dtype, vec![all.len(), 4]);
    let flips = |flip: fn(&Geometry) -> bool| {
        Array::shaped(all.iter().map(|one| u8::from(flip(one))).collect(), "|b1", vec![all.len()])
    };
    [of(edges, "<f8"), of(placed, "<u4"), flips(|one| one.flip), flips(|one| one.flip_vertical)]
}

/// A component for all samples: an array `[B, …]`, a list, or a pair of rows and offsets.
fn values(py: Python<'_>, values: Values, name: &str, samples: usize) -> PyResult<Py<PyAny>> {
    match values {
        Values::Stacked { form: Form::Array { dtype, shape }, items } => {
            let shape = std::iter::once(samples).chain(shape.iter().map(|&axis| axis as usize)).collect();
            Ok(Py::new(py, Array::shaped(items, &dtype, shape))?.into_any())
        }
        Values::Stacked { .. } => Err(PyRuntimeError::new_err("stacked values that are not arrays")),
        Values::Ragged { dtype, row, items, offsets } => {
            let rows = offsets.last().copied().unwrap_or(0);
            let shape = std::iter::once(rows).chain(row).map(|axis| axis as usize).collect();
            let rows = Py::new(py, Array::shaped(items, &dtype, shape))?;
            let offsets = Array::new(offsets.into_iter().map(|offset| offset as i64).collect(), "<i8");
            Ok((rows, Py::new(py, offsets)?).into_pyobject(py)?.into_any().unbind())
        }
        Values::Each(each) => {
            let each = each.into_iter().map(|value| match value {
                None => Ok(py.None()),
                Some((form, content)) => value_of(py, &form, &content, name),
            });
            Ok(PyList::new(py, each.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind())
        }
    }
}

/// The value of the component `name` of one sample: bytes, str, parsed JSON, int, float, or an array.
pub fn value_of(py: Python<'_>, form: &Form, content: &[u8], name: &str) -> PyResult<Py<PyAny>> {
    let failed = |what: String| {
        let error = shardpack_loader::Error::data(format!("component {name:?}: {what}"));
        raised(py, &error.help("raw=True returns its bytes"))
    };
    let wrong = || failed("not UTF-8".to_owned());
    Ok(match form {
        Form::Bytes => PyBytes::new(py, content).into_any().unbind(),
        Form::Text => PyString::new(py, std::str::from_utf8(content).map_err(|_| wrong())?).into_any().unbind(),
        Form::Json | Form::Int | Form::Float => {
            let text = std::str::from_utf8(content).map_err(|_| wrong())?;
            let value = py.import("json")?.call_method1("loads", (text,));
            value.map_err(|error| failed(error.value(py).to_string()))?.unbind()
        }
        Form::Array { dtype, shape } => {
            let items = form.items(content).ok_or_else(|| {
                raised(py, &shardpack_loader::Error::data("an array whose length differs from its head"))
            })?;
            let shape = shape.iter().map(|&axis| axis as usize).collect();
            Py::new(py, Array::shaped(items.to_vec(), dtype, shape))?.into_any()
        }
    })
}
