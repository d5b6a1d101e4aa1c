//! What the entries of an environment are: images and labels, whatever script wrote them.
//!
//! How values are made is told by the first of them, not by names: an image as it is, a pickle, msgpack, Caffe's `Datum`,
//! or what `pyarrow.serialize` wrote. A value may hold many samples. A label is in the value, under a key beside
//! (`label-000000001`), in a database beside, in the folder of the key, or in the name of the environment (LSUN).
//!
//! Holds at all times: one value is in memory; what cannot be understood is said of its sample, and the walk goes on.

use std::{borrow::Cow, collections::VecDeque, ops::Range, path::Path, sync::Arc};

use shardpack_format::{
    Error, Result,
    formats::foreign::{self, Image, Label, Record, Wanted},
    hash,
    image_header::{Kind, SNIFF_BYTES},
    npy,
};

use super::{
    super::plain::{self, Array, Part, Value},
    Database, Entry, Environment, Walk,
};

/// Keys that are no samples.
const META_KEYS: [&[u8]; 9] =
    [b"__keys__", b"__len__", b"num-samples", b"num_samples", b"length", b"len", b"meta", b"__meta__", b"keys"];
/// Names of the field, or of the database, that holds the image, the likeliest first.
const IMAGES: [&str; 10] = ["image", "images", "img", "imgs", "jpg", "jpeg", "png", "data", "bytes", "x"];
/// The same for the label.
const LABELS: [&str; 8] = ["label", "labels", "class", "cls", "target", "targets", "y", "class_id"];
/// The same for the name of the image's file.
const FILENAMES: [&str; 6] = ["filename", "file_name", "path", "name", "key", "__key__"];
/// Entries of an environment that may all be names of databases.
const MOST_NAMES: u64 = 1 << 16;
/// Values that are looked at to tell how they are made.
const LOOKS: usize = 3;
/// Bytes of a value that a message shows.
const SHOWN_BYTES: usize = 16;

/// The image lies in the value as it is.
const PLAIN: u8 = 0;
/// Each byte of it is a character of UTF-8, as pickles of protocol 2 have it.
const LATIN1: u8 = 1;
/// It is an array of raw pixels in a value of this making, and becomes a `.npy` file.
const ARRAYS: [(u8, Coding); 3] = [(2, Coding::Pickle), (3, Coding::Msgpack), (4, Coding::Datum)];

/// How values are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Image,
    Pickle,
    Msgpack,
    Arrow,
    Datum,
}

impl Coding {
    /// The samples of a value of this making.
    fn samples(self, input: &[u8], wanted: &Wanted) -> Vec<Found> {
        let decoded = match self {
            Self::Image => return vec![of_image(input, input.len() as u64)],
            Self::Datum => return vec![of_datum(input)],
            Self::Pickle => plain::pickle(input),
            Self::Msgpack => plain::msgpack(input),
            Self::Arrow => plain::arrow(input),
        };
        match decoded {
            Ok(value) => samples_of(&value, input, wanted),
            Err(what) => vec![Found { held: Err(what), label: Label::Missing, filename: None }],
        }
    }
}

/// Where labels are that are not in the value.
enum Labels {
    /// Nowhere else.
    InValue,
    /// Under `label-…` beside `image-…`.
    Beside,
    /// In another database, under the same key.
    Database(Database),
    /// All samples are of one class.
    One(Vec<u8>),
}

/// Begins to walk the environment at `path`.
///
/// # Errors
/// When it is none, is damaged, or its values are of no known making: then the first of them are shown.
pub fn walk(path: &Path, wanted: &Wanted) -> Result<Box<dyn foreign::Walk>> {
    let environment = Environment::open(path)?;
    // To list names is to read every leaf, and an environment of databases alone has a few.
    let names = if environment.entries() <= MOST_NAMES { environment.names()? } else { Vec::new() };
    let is_named = !names.is_empty() && names.len() as u64 == environment.entries();
    let named = |wanted: &Option<String>, likely: &[&str]| -> Result<Option<Vec<u8>>> {
        let is = |name: &str| names.iter().any(|known| known == name.as_bytes());
        match wanted {
            Some(name) if is_named && !is(name) => {
                let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
                Err(Error::usage(format!("no database {name:?}, there is {}", names.join(", "))).in_file(path))
            }
            Some(name) if is_named => Ok(Some(name.clone().into_bytes())),
            _ if is_named => Ok(likely.iter().find(|name| is(name)).map(|name| name.as_bytes().to_vec())),
            _ => Ok(None),
        }
    };
    let image = named(&wanted.image, &IMAGES)?.or_else(|| names.first().filter(|_| is_named).cloned());
    let database = environment.database(image.as_deref())?;
    let labels = match named(&wanted.label, &LABELS)?.filter(|label| Some(label) != image.as_ref()) {
        Some(label) => Labels::Database(environment.database(Some(&label))?),
        None if database.get(b"image-000000001")?.is_some() => Labels::Beside,
        None => class_of(path).map_or(Labels::InValue, Labels::One),
    };
    let coding = told(&database, path)?;
    Ok(Box::new(Samples {
        walk: database.walk()?,
        database,
        labels,
        coding,
        // A database was meant, not a field.
        wanted: if is_named {
            Wanted { label_number: wanted.label_number, ..Wanted::default() }
        } else {
            wanted.clone()
        },
        value: Vec::new(),
        ready: VecDeque::new(),
        image: None,
        remarks: environment.remarks().to_vec(),
    }))
}

/// Makes the image of what was fetched of a value.
///
/// # Errors
/// When it is damaged.
pub fn image(fetched: &[u8], recipe: u8) -> Result<Cow<'_, [u8]>> {
    if let Some((_, coding)) = ARRAYS.iter().find(|(known, _)| *known == recipe) {
        let found = coding.samples(fetched, &Wanted::default());
        return match found.into_iter().next().map(|found| found.held) {
            Some(Ok(Held::Array(array))) => Ok(Cow::Owned(npy_file(&array, fetched))),
            _ => Err(Error::data("it is no array, as it was")),
        };
    }
    match recipe {
        PLAIN => Ok(Cow::Borrowed(fetched)),
        LATIN1 => {
            let text = std::str::from_utf8(fetched).map_err(|_| Error::data("its bytes are no text, as they were"))?;
            let bytes = text.chars().map(|c| u8::try_from(u32::from(c)));
            let bytes: Option<Vec<u8>> = bytes.map(std::result::Result::ok).collect();
            bytes.map(Cow::Owned).ok_or_else(|| Error::data("its text holds what is no byte"))
        }
        _ => Err(Error::usage(format!("recipe {recipe} is none of LMDB's"))),
    }
}

/// The class that the name of an LSUN environment tells: `bedroom_train_lmdb`.
fn class_of(path: &Path) -> Option<Vec<u8>> {
    let folder = if path.is_dir() { path } else { path.parent()? };
    let stem = folder.file_name()?.to_str()?.strip_suffix("_lmdb")?;
    let class = ["_train", "_val", "_test"].iter().find_map(|split| stem.strip_suffix(split))?;
    (!class.is_empty()).then(|| class.as_bytes().to_vec())
}

fn is_sample(key: &[u8]) -> bool {
    !META_KEYS.contains(&key) && !key.starts_with(b"label-")
}

/// How the first values are made.
fn told(database: &Database, path: &Path) -> Result<Coding> {
    let (mut walk, mut value, mut shown, mut codings) = (database.walk()?, Vec::new(), Vec::new(), Vec::new());
    while codings.len() < LOOKS
        && let Some(entry) = walk.next()?
    {
        if !is_sample(&entry.key) {
            continue;
        }
        database.read(entry.value, &mut value)?;
        codings.push(coding_of(&value));
        let (key, bytes) = (String::from_utf8_lossy(&entry.key), &value[..value.len().min(SHOWN_BYTES)]);
        shown.push(format!("{key:?}: {} bytes, {}", value.len(), hash::hex(bytes)));
    }
    let is_usual =
        |coding: &&Option<Coding>| codings.iter().filter(|other| other == coding).count() * 2 > codings.len();
    match codings.iter().find(is_usual) {
        Some(Some(coding)) => Ok(*coding),
        _ if shown.is_empty() => Err(Error::data("holds no samples").in_file(path)),
        _ => Err(Error::data(format!("values that are no images and of no known making: {}", shown.join("; ")))
            .in_file(path)
            .help("images as they are, pickles, msgpack, Caffe's Datum and pyarrow.serialize are known")),
    }
}

fn coding_of(value: &[u8]) -> Option<Coding> {
    if Kind::of(value) != Kind::Unknown {
        return Some(Coding::Image);
    }
    if matches!(value, [0x80, 2..=5, ..]) {
        return Some(Coding::Pickle);
    }
    let holds_samples = |decoded: std::result::Result<Value, String>| {
        decoded.is_ok_and(|decoded| samples_of(&decoded, value, &Wanted::default()).iter().any(|one| one.held.is_ok()))
    };
    if plain::datum(value).is_ok_and(|datum| datum.encoded || !datum.data.is_empty() && datum.channels > 0) {
        return Some(Coding::Datum);
    }
    if holds_samples(plain::msgpack(value)) {
        return Some(Coding::Msgpack);
    }
    holds_samples(plain::arrow(value)).then_some(Coding::Arrow)
}

/// What holds the image of a sample.
enum Held {
    /// The bytes of its file.
    Bytes(Part),
    /// Its pixels.
    Array(Arc<Array>),
}

/// A sample in a value.
struct Found {
    held: std::result::Result<Held, String>,
    label: Label,
    filename: Option<Vec<u8>>,
}

/// The samples that a value is made of: one, or those of a list.
fn samples_of(value: &Value, input: &[u8], wanted: &Wanted) -> Vec<Found> {
    let is_sample = |value: &Value| value.items().is_some() || value.entries().is_some();
    match value.items() {
        Some(items) if items.first().is_some_and(is_sample) => {
            items.iter().map(|item| sample_of(item, input, wanted)).collect()
        }
        _ => vec![sample_of(value, input, wanted)],
    }
}

fn sample_of(value: &Value, input: &[u8], wanted: &Wanted) -> Found {
    let field = |wanted: &Option<String>, likely: &[&str]| match wanted {
        Some(name) => value.get(input, name),
        None => likely.iter().find_map(|name| value.get(input, name)),
    };
    if value.entries().is_some() {
        let filename = field(&None, &FILENAMES).and_then(|name| name.as_text(input));
        return Found {
            held: field(&wanted.image, &IMAGES).map_or_else(|| Err("a map without an image".to_owned()), held_by),
            label: field(&wanted.label, &LABELS).map_or(Label::Missing, |label| label_of(label, input)),
            filename: filename.map(|name| name.into_owned().into_bytes()),
        };
    }
    let Some(items) = value.items() else {
        return Found { held: held_by(value), label: Label::Missing, filename: None };
    };
    // (image, label), in either order.
    let image = items.iter().position(|item| matches!(item, Value::Bytes(_) | Value::Array(_)));
    let others = items.iter().enumerate().filter(|(number, _)| Some(*number) != image);
    let labels: Vec<_> = others.map(|(_, item)| label_of(item, input)).collect();
    Found {
        held: image.map_or_else(|| Err("a list without bytes".to_owned()), |image| held_by(&items[image])),
        label: match labels.get(wanted.label_number) {
            Some(label) => label.clone(),
            None if wanted.label_number == 0 => Label::Missing,
            None => Label::Unfit(format!("it has {} labels, number {} is wanted", labels.len(), wanted.label_number)),
        },
        filename: None,
    }
}

fn held_by(value: &Value) -> std::result::Result<Held, String> {
    match value {
        Value::Array(array) if array.dtype == "|u1" && matches!(array.shape.len(), 2 | 3) => {
            Ok(Held::Array(Arc::clone(array)))
        }
        Value::Array(array) if array.shape.len() != 1 => {
            let shape: Vec<_> = array.shape.iter().map(u64::to_string).collect();
            Err(format!("an array of {} of shape {}, no image", array.dtype, shape.join("×")))
        }
        _ => value.as_bytes().cloned().map(Held::Bytes).ok_or_else(|| format!("{}, no image", value.kind())),
    }
}

fn npy_head(array: &Array) -> Vec<u8> {
    npy::head(&array.dtype, &array.shape, array.is_fortran)
}

/// An array as a `.npy` file; `input` is what it was read from.
fn npy_file(array: &Array, input: &[u8]) -> Vec<u8> {
    [&npy_head(array), &*array.data.read(input)].concat()
}

fn label_of(value: &Value, input: &[u8]) -> Label {
    match value {
        Value::Int(number) => Label::Number(*number),
        Value::None => Label::Missing,
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Label::Number(*number as i64),
        Value::Text(_) | Value::Bytes(_) => match value.as_text(input) {
            Some(text) => Label::Text(text.into_owned().into_bytes()),
            None => Label::Unfit("bytes that are no text".to_owned()),
        },
        _ => Label::Unfit(value.kind().to_owned()),
    }
}

/// The samples of an environment, in the order of its pages.
struct Samples {
    walk: Walk,
    database: Database,
    labels: Labels,
    coding: Coding,
    wanted: Wanted,
    value: Vec<u8>,
    /// Samples of the last value that are to come.
    ready: VecDeque<Record>,
    /// Where the image of the last record lies, and how it is made.
    image: Option<(Range<u64>, u8)>,
    remarks: Vec<String>,
}

impl Samples {
    /// Reads the samples of an entry.
    fn read(&mut self, entry: &Entry) -> Result<()> {
        let bytes = entry.value.end - entry.value.start;
        // Of an image as it is, nothing but its beginning is of interest here.
        let looked_at = if self.coding == Coding::Image { bytes.min(SNIFF_BYTES as u64) } else { bytes };
        self.database.read(entry.value.start..entry.value.start + looked_at, &mut self.value)?;
        let input = self.value.as_slice();
        let wanted = &self.wanted;
        let found = match self.coding {
            Coding::Image => vec![of_image(input, bytes)],
            coding => coding.samples(input, wanted),
        };
        let several = found.len() > 1;
        let beside = if several { None } else { self.label_beside(&entry.key)? };
        for (number, one) in found.into_iter().enumerate() {
            self.ready.push_back(self.record(entry, one, several.then_some(number), beside.as_ref()));
        }
        Ok(())
    }

    /// The label that is not in the value, if there is one.
    fn label_beside(&self, key: &[u8]) -> Result<Option<Label>> {
        let (database, key) = match &self.labels {
            Labels::Beside => (&self.database, [b"label-", key.strip_prefix(b"image-").unwrap_or(key)].concat()),
            Labels::Database(database) => (database, key.to_vec()),
            Labels::InValue | Labels::One(_) => return Ok(None),
        };
        let Some(place) = database.get(&key)? else { return Ok(Some(Label::Missing)) };
        let mut text = Vec::new();
        database.read(place, &mut text)?;
        Ok(Some(match std::str::from_utf8(&text).ok().map(str::trim) {
            Some(text) => text.parse().map_or_else(|_| Label::Text(text.as_bytes().to_vec()), Label::Number),
            None => Label::Unfit(format!("{} bytes that are no text", text.len())),
        }))
    }

    fn record(&self, entry: &Entry, found: Found, number: Option<usize>, beside: Option<&Label>) -> Record {
        let Found { held, label, filename } = found;
        let label = beside.cloned().unwrap_or(label);
        let mut key = entry.key.clone();
        if let Some(number) = number {
            key.extend_from_slice(format!("/{number}").as_bytes());
        }
        let is_name = number.is_none() && (entry.key.contains(&b'/') || entry.key.contains(&b'.'));
        let class = match &self.labels {
            Labels::One(class) => Some(class.clone()),
            // As in an ImageFolder, where nothing else says it.
            _ if label == Label::Missing && is_name => folder_of(&entry.key),
            _ => None,
        };
        let start = entry.value.start;
        let image = held.and_then(|held| {
            let (fetch, bytes, recipe) = match &held {
                Held::Array(_) if number.is_some() => {
                    return Err("raw pixels, in one value with others: that is not read".to_owned());
                }
                Held::Array(array) => {
                    let of_coding = ARRAYS.iter().find(|(_, coding)| *coding == self.coding);
                    let (recipe, _) = of_coding.ok_or_else(|| "raw pixels, in a value of this making".to_owned())?;
                    (0..self.value.len(), npy_head(array).len() + array.data.len(), *recipe)
                }
                Held::Bytes(part @ Part::Plain(range)) => (range.clone(), part.len(), PLAIN),
                Held::Bytes(part @ Part::Latin1 { range, .. }) => (range.clone(), part.len(), LATIN1),
                Held::Bytes(Part::Owned(_)) => {
                    return Err("its bytes are escaped, as pickles of protocol 0 have them".to_owned());
                }
            };
            let bytes = u32::try_from(bytes).map_err(|_| "an image of 4 GiB or more".to_owned())?;
            let fetch = start + fetch.start as u64..start + fetch.end as u64;
            let offset = fetch.start;
            Ok(Image { name: String::new(), fetch, bytes, offset, in_parts: recipe != PLAIN, recipe })
        });
        Record {
            range: entry.value.clone(),
            key,
            key_is_unique: true,
            filename: filename.or_else(|| is_name.then(|| entry.key.clone())),
            class,
            label_name: String::new(),
            labels: usize::from(label != Label::Missing),
            label,
            image,
            others: Vec::new(),
        }
    }
}

/// The first folder of a key that is a path.
fn folder_of(key: &[u8]) -> Option<Vec<u8>> {
    let at = key.iter().position(|byte| *byte == b'/')?;
    (at > 0).then(|| key[..at].to_vec())
}

/// A value of so many bytes that is the image itself, which begins with `first`.
fn of_image(first: &[u8], bytes: u64) -> Found {
    let held = match (Kind::of(first), usize::try_from(bytes)) {
        (Kind::Unknown, _) | (_, Err(_)) => {
            let shown = hash::hex(&first[..first.len().min(SHOWN_BYTES)]);
            Err(format!("{bytes} bytes that are no image, the first {shown}"))
        }
        (_, Ok(bytes)) => Ok(Held::Bytes(Part::Plain(0..bytes))),
    };
    Found { held, label: Label::Missing, filename: None }
}

fn of_datum(input: &[u8]) -> Found {
    let datum = match plain::datum(input) {
        Ok(datum) => datum,
        Err(what) => return Found { held: Err(what), label: Label::Missing, filename: None },
    };
    let shape = [datum.channels, datum.height, datum.width].map(u64::from);
    let pixels = shape.iter().try_fold(1u64, |product, axis| product.checked_mul(*axis));
    let is_image = Kind::of(input.get(datum.data.clone()).unwrap_or_default()) != Kind::Unknown;
    let data = Part::Plain(datum.data.clone());
    let held = match datum.encoded || is_image {
        true => Ok(Held::Bytes(data)),
        // Blue, green, red, each a plane, as Caffe has them: kept as they are.
        false if pixels == Some(data.len() as u64) && !datum.float_data => {
            Ok(Held::Array(Arc::new(Array { dtype: "|u1".to_owned(), shape: shape.to_vec(), is_fortran: false, data })))
        }
        false => Err(format!("{} bytes of pixels, its size says {}×{}×{}", data.len(), shape[0], shape[1], shape[2])),
    };
    Found { held, label: datum.label.map_or(Label::Missing, Label::Number), filename: None }
}

impl foreign::Walk for Samples {
    fn next(&mut self) -> Result<Option<Record>> {
        while self.ready.is_empty() {
            match self.walk.next()? {
                None => return Ok(None),
                Some(entry) if is_sample(&entry.key) => self.read(&entry)?,
                Some(_) => {}
            }
        }
        let record = self.ready.pop_front();
        self.image = record
            .as_ref()
            .and_then(|record| record.image.as_ref().ok())
            .map(|image| (image.fetch.clone(), image.recipe));
        Ok(record)
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (place, recipe) = self.image.clone().ok_or_else(|| Error::usage("the last record has no image"))?;
        self.database.read(place, out)?;
        if let Cow::Owned(bytes) = image(out, recipe)? {
            *out = bytes;
        }
        Ok(())
    }

    fn remarks(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.remarks).into_iter().map(Error::data).collect()
    }
}
