//! Values of a row as the contents of its files, for values of exactly the types that their columns expect; Python encodes all others.

use pyo3::{
    exceptions::PyException,
    prelude::*,
    types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString},
};
use shardpack_format::Result as FormatResult;
use shardpack_source::rows::Spool;

/// First bytes of the images that need no look by Python.
const IMAGES: [&[u8]; 2] = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"];

/// Name, extension, type, the head of an array or the known classes, encoder, and whether each row needs a content.
pub type Described<'py> = (Bound<'py, PyString>, String, String, Option<Bound<'py, PyAny>>, Py<PyAny>, bool);

/// A column whose type is settled.
#[derive(Debug)]
struct Column {
    name: Py<PyString>,
    extension: String,
    way: Way,
    /// Encodes a value of another type, or refuses the value.
    encode: Py<PyAny>,
}

/// How a value becomes a content.
#[derive(Debug)]
enum Way {
    Text,
    Bytes,
    Image,
    /// Contents by class.
    Class(Py<PyDict>),
    /// A single number behind this head of an array.
    Float(Vec<u8>),
    Int(Vec<u8>),
    Flag(Vec<u8>),
    /// Only Python knows.
    Encoded,
}

/// The columns of rows.
#[derive(Debug, Default)]
pub struct Columns {
    all: Vec<Column>,
    /// Columns that need a content in each row: a bit for each column.
    needed: u64,
}

/// The content of a value.
enum Content<'py> {
    Text(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
    Number([u8; 8]),
    Flag([u8; 1]),
}

/// A row whose values fit their columns.
pub struct Row<'c, 'py> {
    values: Vec<(&'c Column, Content<'py>)>,
}

impl Columns {
    /// The columns as Python describes them.
    pub fn new(described: Vec<Described<'_>>) -> PyResult<Self> {
        let (mut all, mut needed) = (Vec::new(), 0);
        // So many bits there are; Python has fewer columns.
        for (number, (name, extension, kind, more, encode, is_needed)) in described.into_iter().take(64).enumerate() {
            needed |= u64::from(is_needed) << number;
            let head = || more.as_ref().map_or(Ok(Vec::new()), |more| more.extract());
            let way = match &*kind {
                "text" => Way::Text,
                "bytes" => Way::Bytes,
                "image" => Way::Image,
                "float64" => Way::Float(head()?),
                "int64" => Way::Int(head()?),
                "bool" => Way::Flag(head()?),
                _ => match &more {
                    Some(classes) => Way::Class(classes.cast::<PyDict>()?.clone().unbind()),
                    None => Way::Encoded,
                },
            };
            all.push(Column { name: name.unbind(), extension, way, encode });
        }
        Ok(Self { all, needed })
    }

    /// The contents of the values of `row`; `None` if Python has to look at the row: it has other columns, lacks a value that all rows
    /// had, or a value is refused.
    pub fn row<'c, 'py>(&'c self, row: &Bound<'py, PyAny>) -> PyResult<Option<Row<'c, 'py>>> {
        let Ok(row) = row.cast_exact::<PyDict>() else { return Ok(None) };
        let (mut values, mut filled) = (Vec::with_capacity(self.all.len()), 0);
        for (at, (name, value)) in row.iter().enumerate() {
            if value.is_none() {
                continue;
            }
            let Some(number) = self.number(at, &name) else { return Ok(None) };
            let Some(column) = self.all.get(number) else { return Ok(None) };
            let Some(content) = column.content(value)? else { return Ok(None) };
            filled |= u64::from(!content.is_empty()) << number;
            values.push((column, content));
        }
        Ok((filled & self.needed == self.needed && !values.is_empty()).then_some(Row { values }))
    }

    /// The number of the column `name`, which is probably `at`: most rows have the same order.
    fn number(&self, at: usize, name: &Bound<'_, PyAny>) -> Option<usize> {
        let is = |column: &Column| column.name.as_ptr() == name.as_ptr();
        if self.all.get(at).is_some_and(is) {
            return Some(at);
        }
        let text = name.cast_exact::<PyString>().ok()?.to_str().ok()?;
        let py = name.py();
        self.all.iter().position(|column| column.name.bind(py).to_str().is_ok_and(|name| name == text))
    }
}

impl Column {
    /// The content for `value`, or `None` if the value is refused.
    fn content<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Option<Content<'py>>> {
        let py = value.py();
        let content = match &self.way {
            Way::Text => value.cast_exact::<PyString>().ok().cloned().map(Content::Text),
            Way::Bytes => value.cast_exact::<PyBytes>().ok().cloned().map(Content::Bytes),
            Way::Image => {
                let is_image =
                    |bytes: &&Bound<'_, PyBytes>| IMAGES.iter().any(|first| bytes.as_bytes().starts_with(first));
                value.cast_exact::<PyBytes>().ok().filter(is_image).cloned().map(Content::Bytes)
            }
            Way::Class(known) if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyString>() => {
                let found = known.bind(py).get_item(&value)?;
                found.and_then(|content| content.cast_into_exact::<PyBytes>().ok()).map(Content::Bytes)
            }
            Way::Float(_) => {
                value.cast_exact::<PyFloat>().ok().map(|number| Content::Number(number.value().to_le_bytes()))
            }
            Way::Int(_) if value.is_exact_instance_of::<PyInt>() => {
                value.extract::<i64>().ok().map(|number| Content::Number(number.to_le_bytes()))
            }
            Way::Flag(_) => value.cast_exact::<PyBool>().ok().map(|flag| Content::Flag([flag.is_true().into()])),
            Way::Class(_) | Way::Int(_) | Way::Encoded => None,
        };
        if content.is_some() {
            return Ok(content);
        }
        match self.encode.bind(py).call1((value,)) {
            Ok(content) => Ok(content.cast_into_exact::<PyBytes>().ok().map(Content::Bytes)),
            // Python encodes the value once more, and names row and column.
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn head(&self) -> &[u8] {
        match &self.way {
            Way::Float(head) | Way::Int(head) | Way::Flag(head) => head,
            _ => &[],
        }
    }
}

impl Content<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.len().is_ok_and(|length| length == 0),
            Self::Bytes(bytes) => bytes.as_bytes().is_empty(),
            Self::Number(_) | Self::Flag(_) => false,
        }
    }
}

impl Row<'_, '_> {
    /// Adds the row to `spool`; true if its file is full. `None` if a text is no UTF-8, or a value is too long; the row is not
    /// added then.
    pub fn add(&self, spool: &mut Spool) -> Option<bool> {
        spool.begin();
        let added = self.values.iter().try_for_each(|(column, content)| {
            let mut add =
                |head: &[u8], content: &[u8]| -> FormatResult<()> { spool.add(&column.extension, &[head, content]) };
            match content {
                Content::Text(text) => add(&[], text.to_str().ok()?.as_bytes()).ok(),
                Content::Bytes(bytes) => add(&[], bytes.as_bytes()).ok(),
                Content::Number(number) => add(column.head(), number).ok(),
                Content::Flag(flag) => add(column.head(), flag).ok(),
            }
        });
        let ended = added.and_then(|()| spool.end().ok());
        if ended.is_none() {
            spool.cancel();
        }
        ended
    }
}
