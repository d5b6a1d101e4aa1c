//! Pickles of plain data whose arrays are tables: `{"X": …, "y": …}`, `(images, labels)`, a pair for each split, a list of samples; and
//! files of `torch.save` with tensors in the same forms.
//!
//! A pickle is parsed in memory, and nothing of it is executed: its file, or the member `data.pkl`, is at most half of `--memory`. Arrays
//! that lie in the file as they are, and the storages of tensors, are read by range. A pickle compressed by gzip is inflated in memory,
//! within the same limit. The CRC-32 of a storage is compared before its first row is read. Values of a list of samples are joined to
//! arrays in memory, within the same limit.
//!
//! # Specification
//! Python's `pickle`, protocols 0 to 5. `torch` has the files of `torch.save`.

use std::{
    borrow::Cow,
    io::{BufReader, Read},
    ops::Range,
    path::Path,
    sync::Arc,
};

use flate2::bufread::MultiGzDecoder;
use shardpack_format::{Error, Result, memory, size};

use super::{
    read::Content,
    stored::{Stored, item},
    torch,
};
use crate::{
    Bytes, FileLocation,
    plain::{Array, Value, content, torch_pickle},
    tables::{
        item::{Item, Order},
        names::label_rank,
    },
    zip::archive::{Directory, Entry},
};

/// Name of the kind on the command line.
pub(super) const NAME: &str = "pickled";
const EXTENSIONS: [&str; 4] = ["pkl", "pickle", "pt", "pth"];
/// Bytes that are inflated at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Names of the splits in a tuple of pairs of samples and labels, as the pickles of MNIST have them, by the number of pairs.
const SPLITS: [&[&str]; 2] = [&["train", "test"], &["train", "valid", "test"]];
/// With fewer arrays in a list, each may be a column.
const FEW: usize = 16;
/// How deep maps of arrays may be nested: splits, and their arrays.
const MAX_DEPTH: usize = 3;
/// Advice for a list that has two readings.
const AS_MAP: &str = "a dict of named arrays has one reading: pickle.dump({\"x\": samples, \"y\": labels}, file)";

/// Advice for arrays that are no rows of one array.
const ONE_EACH: &str =
    "numpy.savez writes a sample of any shape to a file of its own, and shardpack pack packs the folder";

/// The arrays of a file; of an archive also its directory, and the member of each array.
pub(super) type Opened = (Vec<Stored>, Option<(Arc<Bytes>, Directory, Vec<Entry>)>);

/// Whether a file of this name may hold pickled arrays.
pub(crate) fn is_called(path: &Path) -> bool {
    let is_gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let plain = if is_gzip { path.with_extension("") } else { path.to_owned() };
    plain.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The arrays in the file at `place`.
///
/// # Errors
/// If the file is no pickle of arrays, or longer than the memory allows.
pub(super) fn open(place: &FileLocation) -> Result<Opened> {
    let mut file = Arc::new(place.open()?);
    let bytes = file.count().map_err(|error| Error::io("cannot read", error))?;
    let mut first = vec![0; bytes.min(2) as usize];
    file.read_exact_at(&mut first, 0).map_err(|error| Error::io("cannot read", error))?;
    if first.starts_with(b"PK") {
        return torch::in_archive(&file, bytes);
    }
    if first.starts_with(&[0x1f, 0x8b]) {
        file = Arc::new(Bytes::Memory(inflated(&file, bytes)?));
    }
    let input = match &*file {
        Bytes::Memory(all) => Cow::Borrowed(&all[..]),
        Bytes::File(_) | Bytes::Remote(_) => Cow::Owned(input(&file, bytes)?),
    };
    let (value, begin) = match torch::before_archives(&input) {
        Some(found) => found?,
        None => (only_pickle(&input)?, 0),
    };
    let source = Source { file: &file, input: &input[begin..], shift: 0, begin };
    Ok((source.arrays(&value)?, None))
}

/// All bytes of `file`, which is `bytes` long.
///
/// # Errors
/// If the memory does not allow it.
fn input(file: &Bytes, bytes: u64) -> Result<Vec<u8>> {
    let mut input = Vec::new();
    memory::make_room(&mut input, bytes)?;
    input.resize(bytes as usize, 0);
    file.read_exact_at(&mut input, 0).map_err(|error| Error::io("cannot read", error))?;
    Ok(input)
}

/// The value of a file that is one pickle.
///
/// # Errors
/// If it is no pickle of plain data, or something is behind it: a second `pickle.dump` into the file, as of the labels.
fn only_pickle(input: &[u8]) -> Result<Value> {
    let (value, bytes) = torch_pickle(input, &|_, _| None).map_err(Error::data)?;
    match input.len() - bytes {
        0 => Ok(value),
        rest => Err(Error::usage(format!(
            "{} behind the first pickle, which are not read",
            size::counted(rest as u64, "byte")
        ))
        .help("pickle.dump((samples, labels), file) has all in one pickle")),
    }
}

/// All bytes of `file`, which is `bytes` long and compressed by gzip, inflated.
///
/// # Errors
/// If it is corrupt, or the memory does not allow it.
fn inflated(file: &Arc<Bytes>, bytes: u64) -> Result<Vec<u8>> {
    let content = Content { file: Arc::clone(file), range: 0..bytes, is_deflated: false, is_gzip: false, bytes };
    let cannot_read = |error| Error::io("cannot read", error);
    // The file ends in its length before compression, modulo 4 GiB.
    let mut end = [0; 4];
    file.read_exact_at(&mut end, bytes.saturating_sub(4)).map_err(cannot_read)?;
    memory::admit(u32::from_le_bytes(end).into())?;
    let packed = content.from(0).map_err(cannot_read)?;
    let mut inflated = MultiGzDecoder::new(BufReader::new(packed));
    let mut all = Vec::new();
    loop {
        memory::make_room(&mut all, PIECE_BYTES)?;
        let read = Read::by_ref(&mut inflated).take(PIECE_BYTES).read_to_end(&mut all);
        let read = read.map_err(|error| match error.raw_os_error() {
            Some(_) => cannot_read(error),
            None => Error::data(format!("damaged gzip: {error}")),
        })?;
        if read == 0 {
            return Ok(all);
        }
    }
}

/// The input of a value.
pub(super) struct Source<'s> {
    pub file: &'s Arc<Bytes>,
    /// The bytes of the pickle.
    pub input: &'s [u8],
    /// Ranges behind the pickle lie in the file so many bytes before; 0 if the pickle is the file.
    pub shift: usize,
    /// Where the pickle begins in the file.
    pub begin: usize,
}

/// A named part of a value.
type Column<'v> = (String, Vec<&'v Value>);

impl Source<'_> {
    /// The arrays of a value.
    ///
    /// # Errors
    /// If the value has none, or two readings.
    pub fn arrays(&self, value: &Value) -> Result<Vec<Stored>> {
        let mut arrays = Vec::new();
        match value {
            Value::Map(_) => self.of_map("", value, &mut arrays)?,
            Value::List(items) if let Some(names) = self.splits(items) => {
                for (split, item) in names.iter().zip(items) {
                    self.of_pair(split, item.items().unwrap_or_default(), &mut arrays)?;
                }
            }
            Value::List(items) if let Some(columns) = self.columns(items)? => {
                for (name, values) in columns {
                    arrays.push(self.joined(name, &values)?);
                }
            }
            Value::List(items) => {
                let names = names(items, self.input);
                for (name, item) in names.into_iter().zip(items) {
                    arrays.push(self.array(name, item)?);
                }
            }
            Value::Array(_) => arrays.push(self.array("data".to_owned(), value)?),
            other => return Err(Error::data(format!("a pickle of {}, no arrays", other.kind()))),
        }
        if let Some(twice) = arrays.iter().find(|one| arrays.iter().filter(|other| other.name == one.name).count() > 1)
        {
            return Err(Error::data(format!("array {} is there twice", twice.name)));
        }
        let (read, others): (Vec<&Stored>, Vec<_>) = arrays.iter().partition(|one| !one.shape.is_empty());
        match (&read[..], &others[..]) {
            ([], _) => Err(Error::data("a pickle without arrays and lists")),
            // The samples are what is not read.
            ([labels], [other, ..]) if label_rank(&labels.name).is_some() => {
                let Item::Other(kind) = &other.item else { return Ok(arrays) };
                Err(Error::usage(format!("labels {} without samples: {} is {kind}", labels.name, other.name)))
            }
            _ => Ok(arrays),
        }
    }

    /// The arrays of a map, and of maps in it, behind those in `arrays`.
    fn of_map(&self, above: &str, map: &Value, arrays: &mut Vec<Stored>) -> Result<()> {
        for (key, value) in map.entries().unwrap_or_default() {
            let name = match key {
                Value::Int(number) => number.to_string(),
                key => key
                    .as_text(self.input)
                    .ok_or_else(|| Error::data(format!("a key that is {}", key.kind())))?
                    .into_owned(),
            };
            let path = if above.is_empty() { name } else { format!("{above}/{name}") };
            match value {
                Value::Map(_) if path.split('/').count() < MAX_DEPTH => self.of_map(&path, value, arrays)?,
                Value::List(pair) if self.rows_of_pair(value).is_some() => self.of_pair(&path, pair, arrays)?,
                value => arrays.push(self.array(path, value)?),
            }
        }
        Ok(())
    }

    /// Names of the splits, if `items` are a pair of samples and labels for each. Pairs of equal length may be samples, and are none.
    fn splits(&self, items: &[Value]) -> Option<&'static [&'static str]> {
        let names = SPLITS.iter().find(|names| names.len() == items.len())?;
        let rows: Vec<u64> = items.iter().map(|item| self.rows_of_pair(item)).collect::<Option<_>>()?;
        rows.iter().any(|own| *own != rows[0]).then_some(names)
    }

    /// Rows of a pair of samples and their labels.
    fn rows_of_pair(&self, value: &Value) -> Option<u64> {
        let rows = |value: &Value| match value {
            Value::Array(array) => array.shape.first().copied(),
            value => value.items().map(|items| items.len() as u64),
        };
        let parts = value.items().filter(|parts| names(parts, self.input) == ["x", "y"])?;
        rows(&parts[0]).filter(|own| *own > 1 && rows(&parts[1]) == Some(*own))
    }

    /// The arrays of a pair of samples and labels of a split, behind those in `arrays`.
    fn of_pair(&self, split: &str, pair: &[Value], arrays: &mut Vec<Stored>) -> Result<()> {
        for (name, item) in names(pair, self.input).into_iter().zip(pair) {
            arrays.push(self.array(format!("{split}/{name}"), item)?);
        }
        Ok(())
    }

    /// The columns of a list of samples; `None` if its items are columns themselves.
    ///
    /// # Errors
    /// If both are possible, or the samples are not alike.
    fn columns<'v>(&self, items: &'v [Value]) -> Result<Option<Vec<Column<'v>>>> {
        let Some(first) = items.first() else { return Err(Error::data("a pickle of an empty list")) };
        let is_alike = |one: &&Value| alike(one, first, self.input);
        let are_alike = items.iter().all(|one| is_alike(&one));
        let ambiguous = |what: &str| {
            let what = format!("a list of {} {what}: samples, or columns with a row for each sample", items.len());
            Err(Error::usage(what).help(AS_MAP))
        };
        match first {
            Value::Array(_) if items.len() >= FEW && are_alike => {
                Ok(Some(vec![("data".to_owned(), items.iter().collect())]))
            }
            Value::Array(_) if are_alike && items.len() > 1 => ambiguous("arrays of one shape"),
            Value::List(parts) if are_alike => {
                if items.len() < FEW && parts.iter().all(Value::has_axes) {
                    return ambiguous("lists of arrays");
                }
                let columns = names(parts, self.input).into_iter().enumerate().map(|(at, name)| {
                    (name, items.iter().filter_map(|item| item.items()?.get(at)).collect::<Vec<_>>())
                });
                Ok(Some(columns.collect()))
            }
            Value::Map(parts) if are_alike => {
                if items.len() < FEW && parts.iter().all(|(_, value)| value.has_axes()) {
                    return ambiguous("maps of arrays");
                }
                let mut columns = Vec::new();
                for (key, _) in parts {
                    let name = key.as_text(self.input).unwrap_or_default().into_owned();
                    let values = items.iter().filter_map(|item| item.get(self.input, &name)).collect();
                    columns.push((name, values));
                }
                Ok(Some(columns))
            }
            Value::Array(_) if items.len() < FEW && items.iter().all(Value::has_axes) => Ok(None),
            Value::List(_) | Value::Map(_) | Value::Array(_) => {
                let what = format!("a list of {} values that are not alike: other shapes or keys", items.len());
                Err(Error::usage(what).help(ONE_EACH))
            }
            other => Err(Error::data(format!("a pickle of a list of {}, no arrays", other.kind()))),
        }
    }

    /// A value as an array. One without rows has no items, and is counted by its name.
    ///
    /// # Errors
    /// If it is a list of arrays of different shapes.
    fn array(&self, name: String, value: &Value) -> Result<Stored> {
        if let Value::List(items) = value
            && let Some(first) = items.iter().find(|item| item.has_axes())
        {
            return match items.iter().all(|item| alike(item, first, self.input)) {
                true => self.joined(name, &items.iter().collect::<Vec<_>>()),
                false => Err(Error::usage(format!("{name} is a list of arrays of different shapes")).help(ONE_EACH)),
            };
        }
        array(name, value, self)
    }

    /// Values that are alike as one array with a row for each.
    fn joined(&self, name: String, values: &[&Value]) -> Result<Stored> {
        let Some(Value::Array(first)) = values.first() else {
            let list = Value::List(values.iter().map(|value| (*value).clone()).collect());
            return self.array(name, &list);
        };
        let bytes = (first.data.len() as u64).saturating_mul(values.len() as u64);
        memory::admit(bytes).map_err(|error| Error::data(format!("array {name}: {}", error.what())))?;
        let mut items = Vec::with_capacity(bytes as usize);
        for value in values {
            if let Value::Array(array) = value
                && array.data.range().is_some_and(|range| range.end > self.input.len())
            {
                return Err(Error::usage("a list of tensors, which is not read").help(
                    "torch.save of {\"x\": torch.stack(samples), \"y\": torch.tensor(labels)} has one tensor of each",
                ));
            }
            let made = content::content(value, self.input).map_err(Error::data)?;
            let form = content::form(value, self.input).map_err(Error::data)?;
            let head = form.map_or(0, |(form, _)| form.head_bytes() as usize);
            items.extend_from_slice(made.get(head..).unwrap_or_default());
        }
        let shape = [&[values.len() as u64][..], &first.shape].concat();
        Ok(in_memory(name, item(&first.dtype), shape, items))
    }
}

/// Names of the parts of a tuple: samples and labels, or numbers.
fn names(parts: &[Value], input: &[u8]) -> Vec<String> {
    let axes = |value: &Value| match value {
        Value::Array(array) => array.shape.len(),
        _ => 0,
    };
    let is_whole = |value: &Value| match value {
        Value::Array(array) => matches!(array.dtype.as_bytes(), [_, b'i' | b'u', ..]),
        value => {
            value.as_whole(input).is_some()
                || value.items().is_some_and(|items| items.iter().all(|item| item.as_whole(input).is_some()))
        }
    };
    match parts {
        [samples, labels] if axes(samples) > axes(labels) && is_whole(labels) => vec!["x".to_owned(), "y".to_owned()],
        parts => (0..parts.len()).map(|number| format!("x{number}")).collect(),
    }
}

/// Whether two values are of one kind, type and shape.
fn alike(one: &Value, other: &Value, input: &[u8]) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => (&one.dtype, &one.shape) == (&other.dtype, &other.shape),
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other, input))
        }
        (Value::Map(own), Value::Map(theirs)) => {
            let is_there = |(key, value): &(Value, Value)| {
                let name = key.as_text(input)?;
                Some(alike(value, other.get(input, &name)?, input))
            };
            own.len() == theirs.len() && own.iter().all(|entry| is_there(entry) == Some(true))
        }
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// A value of `source` as an array. One without rows has no items, and is counted by its name.
pub(super) fn array(name: String, value: &Value, source: &Source<'_>) -> Result<Stored> {
    let input = source.input;
    let kind = match value {
        Value::Foreign(what) => what.to_string(),
        value => value.kind().to_owned(),
    };
    let other = || in_memory(name.clone(), Item::Other(kind), Vec::new(), Vec::new());
    Ok(match value {
        Value::Array(array) => match item(&array.dtype) {
            own if own.bytes().is_some() => of_array(name, own, array, source),
            _ => other(),
        },
        Value::List(items) => {
            let rows = vec![items.len() as u64];
            let numbers: Option<Vec<i64>> = items.iter().map(|item| item.as_whole(input)).collect();
            if let Some(numbers) = numbers {
                let whole = Item::Whole { size: 8, is_signed: true, order: Order::Little };
                return Ok(in_memory(name, whole, rows, numbers.iter().flat_map(|one| one.to_le_bytes()).collect()));
            }
            let float = |item: &Value| if let Value::Float(number) = item { Some(*number) } else { None };
            if let Some(numbers) = items.iter().map(float).collect::<Option<Vec<_>>>() {
                let real = Item::Real { size: 8, order: Order::Little };
                return Ok(in_memory(name, real, rows, numbers.iter().flat_map(|one| one.to_le_bytes()).collect()));
            }
            let texts: Option<Vec<Cow<'_, str>>> = items.iter().map(|item| item.as_text(input)).collect();
            // Texts are padded with zeros.
            let is_exact = |texts: &Vec<Cow<'_, str>>| !texts.iter().any(|text| text.ends_with('\0'));
            let Some(texts) = texts.filter(is_exact) else { return Ok(other()) };
            of_texts(name, &texts)?
        }
        _ => other(),
    })
}

/// An array whose items are of type `own`: by range if they lie in the file as they are.
fn of_array(name: String, own: Item, array: &Array, source: &Source<'_>) -> Stored {
    let &Source { file, input, shift, begin } = source;
    let is_fortran = array.is_fortran && array.shape.iter().filter(|axis| **axis != 1).count() > 1;
    let shape = array.shape.clone();
    let is_outer = |range: &Range<usize>| shift == 0 || range.start >= input.len();
    let Some(range) = array.data.range().filter(is_outer) else {
        return Stored { is_fortran, ..in_memory(name, own, shape, array.data.read(input).into_owned()) };
    };
    let range = (begin + range.start - shift) as u64..(begin + range.end - shift) as u64;
    let (data_bytes, item_bytes) = (range.end - range.start, own.bytes().unwrap_or(0));
    let (is_deflated, is_gzip) = (false, false);
    let content = Content { file: Arc::clone(file), range, is_deflated, is_gzip, bytes: data_bytes };
    Stored { name, content, item: own, item_bytes, shape, is_fortran, head_bytes: 0, data_bytes }
}

/// Texts, padded to the length of the longest.
fn of_texts(name: String, texts: &[Cow<'_, str>]) -> Result<Stored> {
    let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
    // A single long text makes all of them long.
    let bytes = (longest as u64).saturating_mul(texts.len() as u64);
    memory::admit(bytes).map_err(|error| Error::data(format!("array {name}: {}", error.what())))?;
    let mut content = Vec::with_capacity(bytes as usize);
    for text in texts {
        content.extend_from_slice(text.as_bytes());
        content.resize(content.len() + longest - text.len(), 0);
    }
    let length = u32::try_from(longest).map_err(|_| Error::data(format!("array {name}: a text of 4 GiB")))?;
    Ok(in_memory(name, Item::Text(Some(length)), vec![texts.len() as u64], content))
}

/// An array of these items, which lie in memory.
pub(super) fn in_memory(name: String, item: Item, shape: Vec<u64>, items: Vec<u8>) -> Stored {
    let bytes = items.len() as u64;
    let file = Arc::new(Bytes::Memory(items));
    let content = Content { file, range: 0..bytes, is_deflated: false, is_gzip: false, bytes };
    let item_bytes = item.bytes().unwrap_or(0);
    Stored { name, content, item, item_bytes, shape, is_fortran: false, head_bytes: 0, data_bytes: bytes }
}
