//! Random access: a dataset, its samples, and columns from its indexes, which need no read of a shard.

use std::{ops::Range, path::PathBuf};

use pyo3::{
    exceptions::{PyIndexError, PyValueError},
    prelude::*,
    types::{PyBytes, PyString},
};
use shardpack_format::image_header::Kind;
use shardpack_loader::{Form, NO_LABEL};
use shardpack_reader::RowRef;

use crate::{
    arrays::Array,
    errors::{Raise, contained, detached},
    options::settings,
    stream::value_of,
};

/// Whether this is the URL of a dataset instead of a path.
#[pyfunction]
pub fn is_url(path: PathBuf) -> bool {
    shardpack_reader::is_url(path)
}

/// A dataset that shardpack packed. Has no threads and no state: many threads, and both sides of a fork, can use it.
#[pyclass(frozen, module = "shardpack._native")]
pub struct Dataset {
    dataset: shardpack_reader::Dataset,
    /// Whether components that are files are bytes.
    is_raw: bool,
}

/// A sample.
#[pyclass(frozen, get_all, module = "shardpack._native")]
pub struct Sample {
    /// Number of the sample in the dataset.
    number: u64,
    /// Key of the sample.
    key: Py<PyString>,
    /// Label of the sample.
    label: Option<i64>,
    /// Name of the class.
    class_name: Option<String>,
    /// Path in the source; bytes that are not UTF-8 are decoded as by `os.fsdecode`.
    path: Py<PyAny>,
    /// The payload as packed.
    bytes: Py<PyBytes>,
    /// The extra components, by their names in the manifest.
    components: Vec<(String, Py<PyAny>)>,
    /// Width and height from the image header; 0 if unknown.
    size: (u32, u32),
    /// The kind of image, detected from its first bytes: `jpeg`.
    kind: &'static str,
}

fn is_image(kind: Kind) -> bool {
    !matches!(kind, Kind::Unknown | Kind::Npy)
}

pub fn fsdecode(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    Ok(py.import("os")?.call_method1("fsdecode", (PyBytes::new(py, bytes),))?.unbind())
}

impl Dataset {
    fn number(&self, number: i64) -> PyResult<u64> {
        let len = self.dataset.len();
        let number = if number < 0 { i128::from(number) + i128::from(len) } else { i128::from(number) };
        match u64::try_from(number) {
            Ok(number) if number < len => Ok(number),
            _ => Err(PyIndexError::new_err(format!("sample {number} of {len}"))),
        }
    }

    /// The value of `of` for each row, in order.
    fn column<T: Send>(&self, py: Python<'_>, of: impl Fn(&RowRef<'_>) -> T + Send + Sync) -> PyResult<Vec<T>> {
        self.column_of(py, 0..self.dataset.len(), of)
    }

    /// The value of `of` for each existing row of `samples`, in order; opens no index of other shards.
    fn column_of<T: Send>(
        &self,
        py: Python<'_>,
        samples: Range<u64>,
        of: impl Fn(&RowRef<'_>) -> T + Send + Sync,
    ) -> PyResult<Vec<T>> {
        let all = || {
            let end = samples.end.min(self.dataset.len());
            let mut column = Vec::with_capacity(usize::try_from(end.saturating_sub(samples.start)).unwrap_or_default());
            let mut at = samples.start;
            while at < end {
                let shard = self.dataset.shard_of(at)?;
                let numbers = shard.samples();
                for number in at..numbers.end.min(end) {
                    column.push(of(&shard.row(number - numbers.start)?));
                }
                at = numbers.end;
            }
            Ok::<_, shardpack_loader::Error>(column)
        };
        detached(py, all)?.or_raise(py)
    }

    /// Converts a sample for Python.
    fn to_python(&self, py: Python<'_>, found: &shardpack_reader::Sample<'_>) -> PyResult<Sample> {
        let names = &self.dataset.manifest().components;
        let mut components = Vec::new();
        for (at, name) in names.iter().enumerate() {
            if let (Some(form), Some(content)) = (found.form(at), found.content(at).or_raise(py)?)
                && (at > 0 || !is_image(found.image().kind))
            {
                let form = match (form, self.is_raw) {
                    (Form::Bytes, false) => &Form::of_file(name),
                    _ => form,
                };
                components.push((name.clone(), value_of(py, form, &content, name)?));
            }
        }
        Ok(Sample {
            number: found.number(),
            key: PyString::new(py, &String::from_utf8_lossy(found.key())).unbind(),
            label: found.label(),
            class_name: found.class_name().map(str::to_owned),
            path: fsdecode(py, found.path())?,
            bytes: PyBytes::new(py, found.bytes()).unbind(),
            components,
            size: (found.image().width, found.image().height),
            kind: found.image().kind.name(),
        })
    }
}

impl Dataset {
    /// A second handle to the same dataset, for a loader.
    pub fn reopen(&self) -> shardpack_reader::Result<shardpack_reader::Dataset> {
        self.dataset.reopen()
    }
}

#[pymethods]
impl Dataset {
    /// Opens the dataset in `path`, a folder or a URL. `store`: settings of the store, as names with values. `cache`:
    /// folder of the cache
    /// and its limit in bytes.
    #[new]
    #[pyo3(signature = (path, check_content=false, store=Vec::new(), cache=None, raw=false))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        check_content: bool,
        store: Vec<(String, String)>,
        cache: Option<(PathBuf, u64)>,
        raw: bool,
    ) -> PyResult<Self> {
        let store = settings(store, cache);
        let opened = detached(py, || shardpack_reader::Dataset::open_with(path, &store))?.or_raise(py)?;
        Ok(Self { dataset: opened.copied().check_content(check_content), is_raw: raw })
    }

    fn __len__(&self) -> PyResult<usize> {
        usize::try_from(self.dataset.len()).map_err(|_| PyValueError::new_err("more samples than this machine counts"))
    }

    /// Name of the dataset.
    #[getter]
    fn name(&self) -> &str {
        self.dataset.name()
    }

    /// The manifest as JSON.
    fn manifest(&self) -> PyResult<String> {
        serde_json::to_string(self.dataset.manifest()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Names of the components.
    #[getter]
    fn components(&self) -> Vec<String> {
        self.dataset.manifest().components.clone()
    }

    /// Whether any payload is an image by its first bytes, or there is no payload.
    #[getter]
    fn holds_images(&self) -> bool {
        let kinds = &self.dataset.manifest().kinds;
        let is_image = |name: &String| Kind::ALL.iter().any(|kind| is_image(*kind) && kind.name() == name);
        kinds.is_empty() || kinds.keys().any(is_image)
    }

    /// Names of the classes, in the order of their labels.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.dataset.classes().iter().map(|class| class.name.clone()).collect()
    }

    /// Sample `number`; negative numbers count from the end.
    fn sample(&self, py: Python<'_>, number: i64) -> PyResult<Sample> {
        let number = self.number(number)?;
        let found = detached(py, || self.dataset.sample(number))?.or_raise(py)?;
        contained(py, || self.to_python(py, &found))
    }

    /// The samples from number `first` to `end`, exclusive, in large reads. Stops before the stored size exceeds `bytes`,
    /// but returns at
    /// least one sample.
    fn samples(&self, py: Python<'_>, first: u64, end: u64, bytes: u64) -> PyResult<Vec<Sample>> {
        let mut reader = detached(py, || self.dataset.reader(first..end))?.or_raise(py)?;
        let mut samples = Vec::new();
        let mut held_bytes = 0_u64;
        while held_bytes < bytes
            && let Some(found) = detached(py, || reader.next())?.or_raise(py)?
        {
            held_bytes = held_bytes.saturating_add(found.record().len() as u64);
            if held_bytes > bytes && !samples.is_empty() {
                break;
            }
            samples.push(contained(py, || self.to_python(py, &found))?);
        }
        Ok(samples)
    }

    /// Number of the sample with this key; `None` if the key is missing.
    fn find(&self, py: Python<'_>, key: &str) -> PyResult<Option<u64>> {
        detached(py, || self.dataset.find(key))?.or_raise(py)
    }

    /// Labels, `[N] int64`: all, or those of the samples from `first` to `end`; the least int64 for samples without a label.
    #[pyo3(signature = (first=0, end=u64::MAX))]
    fn labels(&self, py: Python<'_>, first: u64, end: u64) -> PyResult<Array> {
        Ok(Array::new(self.column_of(py, first..end, |row| row.label.unwrap_or(NO_LABEL))?, "<i8"))
    }

    /// Lengths of the payloads in bytes: `[N] uint64`.
    fn sizes(&self, py: Python<'_>) -> PyResult<Array> {
        Ok(Array::new(self.column(py, |row| u64::from(row.payload().1))?, "<u8"))
    }

    /// Width and height: `[N, 2] uint32`.
    fn image_sizes(&self, py: Python<'_>) -> PyResult<Array> {
        let sizes = self.column(py, |row| [row.image.width, row.image.height])?;
        let bytes: Vec<u8> = sizes.iter().flatten().flat_map(|side| side.to_le_bytes()).collect();
        Ok(Array::shaped(bytes, "<u4", vec![sizes.len(), 2]))
    }

    /// Content hashes, XXH3-128, as 16 bytes each: `[N, 16] uint8`.
    fn hashes(&self, py: Python<'_>) -> PyResult<Array> {
        let hashes = self.column(py, |row| row.content_hash.to_be_bytes())?;
        Ok(Array::shaped(hashes.concat(), "|u1", vec![hashes.len(), 16]))
    }

    /// Keys: all, or those of the samples from `first` to `end`.
    #[pyo3(signature = (first=0, end=u64::MAX))]
    fn keys(&self, py: Python<'_>, first: u64, end: u64) -> PyResult<Vec<String>> {
        self.column_of(py, first..end, |row| String::from_utf8_lossy(row.key).into_owned())
    }

    /// Paths in the source: all, or those of the samples from `first` to `end`.
    #[pyo3(signature = (first=0, end=u64::MAX))]
    fn paths(&self, py: Python<'_>, first: u64, end: u64) -> PyResult<Vec<Py<PyAny>>> {
        let paths = self.column_of(py, first..end, |row| row.path.to_vec())?;
        paths.iter().map(|path| fsdecode(py, path)).collect()
    }
}
