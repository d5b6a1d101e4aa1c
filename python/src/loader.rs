//! The loader behind `shardpack.Loader`: options, and values derived without reading data.

use pyo3::{exceptions::PyIndexError, prelude::*};
use shardpack_loader::Loader;

use crate::{
    dataset::{Dataset, fsdecode},
    errors::{Raise, detached},
    memory,
    options::{self, Request, Slot},
    stream::Stream,
};

/// A loader without threads: both sides of a fork can use it.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Engine {
    loader: Loader,
    /// The type of each view.
    slots: Vec<Slot>,
}

#[pymethods]
impl Engine {
    /// `request` is JSON; see `shardpack.Loader`. With `state`, the loader resumes that run. `opened` has an open dataset
    /// for each part of
    /// the request, or is empty. `before` is an engine of the same parts, whose samples are taken over.
    #[new]
    #[pyo3(signature = (request, state=None, opened=Vec::new(), before=None))]
    fn new(
        py: Python<'_>,
        request: &str,
        state: Option<&str>,
        opened: Vec<PyRef<'_, Dataset>>,
        before: Option<&Self>,
    ) -> PyResult<Self> {
        let state = state.map(|json| options::state(py, json)).transpose()?;
        let opened = opened.iter().map(|one| one.reopen()).collect::<Result<_, _>>().or_raise(py)?;
        let before = before.map(|before| &before.loader);
        let made = detached(py, || Request::read(request)?.loader(state.as_ref(), opened, before))?;
        let (loader, slots) = made.or_raise(py)?;
        Ok(Self { loader, slots })
    }

    /// Batches of this rank in epoch `epoch`.
    fn batches_of_epoch(&self, py: Python<'_>, epoch: u64) -> PyResult<u64> {
        detached(py, || self.loader.batches_of(epoch))?.or_raise(py)
    }

    /// Batches of this rank in the rest of the epoch of `state`.
    fn batches_left(&self, py: Python<'_>, state: &str) -> PyResult<u64> {
        let state = options::state(py, state)?;
        detached(py, || self.loader.batches_left(&state))?.or_raise(py)
    }

    /// For each view of an image, its shape in a batch, dtype in numpy's notation, and first byte in the memory of a batch; none
    /// without a transform.
    fn slots(&self, py: Python<'_>) -> PyResult<Vec<([usize; 3], &'static str, usize)>> {
        let most = usize::try_from(self.loader.most_in_batch().or_raise(py)?).unwrap_or(usize::MAX);
        let views = self.loader.options().output.views();
        let slots = self.slots.iter().enumerate();
        Ok(slots.map(|(view, slot)| (slot.shape, slot.dtype, views.start(view, most))).collect())
    }

    /// Samples of an epoch, of all ranks together.
    fn samples_of_epoch(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.loader.epoch(0).map(|epoch| epoch.len()))?.or_raise(py)
    }

    /// The state at the start of epoch `epoch`.
    fn start_of(&self, epoch: u64) -> String {
        let mut state = self.loader.beginning();
        state.epoch = epoch;
        state.to_json()
    }

    /// Expected sum of the receipts of all ranks after epoch `epoch`: samples, and identities in 32 hexadecimal digits.
    fn expected(&self, py: Python<'_>, epoch: u64) -> PyResult<(u64, String)> {
        let expected = detached(py, || self.loader.expected(epoch))?.or_raise(py)?;
        Ok((expected.samples, format!("{:032x}", expected.identities)))
    }

    /// Key, path, width and height, and kind of the payload of sample `number` of the dataset `source`.
    fn row(
        &self,
        py: Python<'_>,
        source: usize,
        number: u64,
    ) -> PyResult<(String, Py<PyAny>, (u32, u32), &'static str)> {
        let part = self.loader.part(source).ok_or_else(|| PyIndexError::new_err(source))?;
        let found = detached(py, || {
            part.row(number).map(|row| {
                let image = (row.image.width, row.image.height);
                (String::from_utf8_lossy(row.key).into_owned(), row.path.to_vec(), image, row.image.kind.name())
            })
        });
        let (key, path, size, kind) = found?.or_raise(py)?;
        Ok((key, fsdecode(py, &path)?, size, kind))
    }

    /// Names of the classes in the order of the labels in batches.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.loader.classes().to_vec()
    }

    /// Names of the components that follow the cut of the image, with their roles.
    #[getter]
    fn roles(&self, py: Python<'_>) -> PyResult<Vec<(String, &'static str)>> {
        let roles = self.loader.roles().or_raise(py)?;
        let names = self.loader.options().components.iter().zip(roles);
        Ok(names.filter_map(|(name, role)| Some((name.clone(), role?.name()))).collect())
    }

    /// Bytes of all views of a batch; 0 without a transform.
    fn batch_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.loader.batch_bytes().or_raise(py)
    }

    /// Starts to make batches at `state`, in `memories`, or in its own memory if `memories` is empty.
    fn start(&self, py: Python<'_>, state: &str, memories: Vec<Bound<'_, PyAny>>) -> PyResult<Stream> {
        let state = options::state(py, state)?;
        let memories = memories.into_iter().map(memory::lend).collect::<PyResult<Vec<_>>>()?;
        let batches = detached(py, || self.loader.batches_in(&state, memories))?.or_raise(py)?;
        Ok(Stream::new(batches, self.slots.clone(), self.loader.options()))
    }
}
