//! Writes samples as MDS bytes: exactly as long as the layout, columns in the order of their names.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use super::{
    layout::{Column, LABEL_BYTES, Role, WORD_BYTES, config, head_bytes},
    sidecars::{ZSTD_EXTENSION, write_index},
};
use crate::{
    Error, Result,
    component::{Component, Form},
    formats::{
        Choice, Format, Layout, MAX_WRITTEN, Setting,
        encoding::Encoding,
        sidecars::{self, Dataset, Files},
    },
    hash::Named,
    image_header::Header,
    index::RowRef,
    sample::{Extent, Sample},
    shell,
};

/// Default length of shards in bytes: streaming's own default.
const USUAL_SHARD_BYTES: u64 = 1 << 26;
/// streaming's encodings for image files, and for bytes that it returns unchanged.
const ENCODINGS: [&str; 3] = ["jpeg", "png", "bytes"];

/// The settings that only this format has.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "encoding",
        about: "encoding of the image column: jpeg (default) or png, which streaming decodes whatever the file is, or bytes",
    },
    Setting { name: "image_column", about: "column of the image; default image" },
    Setting { name: "label_column", about: "column of the label; default label, empty for none" },
    Setting { name: "filename_column", about: "column of the original path; default filename, empty for none" },
    Setting {
        name: "hashes",
        about: "hashes in index.json, with commas: md5, sha1, sha256, xxh32, xxh64, xxh3_64, xxh128; default xxh64, \
                empty for none",
    },
];

/// The format with its settings.
#[derive(Clone, Debug)]
pub struct Mds {
    /// In the order of storage.
    columns: Vec<Column>,
    /// Name of the image column, then the names of the source's own components.
    components: Vec<String>,
    /// Which components are files or the image.
    is_file: Vec<bool>,
    /// Names of hashes, in alphabetical order.
    hashes: Vec<String>,
    /// The config in the head of every shard.
    config: String,
}

/// The value of a column in a sample; the bytes of images and components are not included.
enum Value<'a> {
    Image,
    Label([u8; LABEL_BYTES as usize]),
    Filename(Cow<'a, str>),
    /// Number of the source's own component, and the length of its stored form; `None` if the sample lacks it.
    Component(usize, Option<u32>),
}

/// Removes the label column.
pub(super) fn without_labels(choice: &mut Choice) {
    choice.settings.insert("label_column".to_owned(), String::new());
}

impl Mds {
    /// Opens the chosen format.
    ///
    /// # Errors
    /// If a setting has an unknown value, or two columns have the same name.
    pub fn new(choice: &Choice) -> Result<Self> {
        let setting = |name: &str, default| choice.settings.get(name).map_or(default, String::as_str);
        let encoding = setting("encoding", ENCODINGS[0]);
        let encoding = ENCODINGS.into_iter().find(|known| *known == encoding).ok_or_else(|| {
            Error::usage(format!("encoding {encoding:?}, an image column is one of {}", ENCODINGS.join(", ")))
        })?;
        let image = setting("image_column", "image");
        if image.is_empty() {
            return Err(Error::usage("the image column needs a name"));
        }
        let mut columns = vec![
            Column::new(setting("filename_column", "filename"), "str", Role::Filename),
            Column::new(setting("label_column", "label"), "int", Role::Label),
        ];
        if choice.payload.is_none() {
            columns.push(Column::new(image, encoding, Role::Image));
        }
        columns.retain(|column| !column.name.is_empty());
        columns.extend(choice.columns().into_iter().map(|(number, one, name)| match one.kind() {
            Some(kind) => Column::of_values(&name, kind, Role::Component(number)),
            // A reader decodes every value of a column, so only a component that no sample lacks may be more than bytes.
            None => Column::new(&name, if one.is_text() { "json" } else { "bytes" }, Role::Component(number)),
        }));
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = columns.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Error::usage(format!("two columns are called {:?}", pair[0].name)));
        }
        let mut hashes: Vec<String> = Vec::new();
        for name in setting("hashes", "xxh64").split(',').map(str::trim).filter(|name| !name.is_empty()) {
            Named::new(name)?;
            hashes.push(name.to_owned());
        }
        hashes.sort();
        hashes.dedup();
        let config = config(&columns, &hashes);
        let first = choice.payload.as_ref().map_or(image, Component::name).to_owned();
        let components = choice.components.iter().map(|one| one.name().to_owned());
        let components = [first].into_iter().chain(components).collect();
        let of_payload = choice.payload.as_ref().is_none_or(|payload| payload.kind().is_none());
        let is_file =
            std::iter::once(of_payload).chain(choice.components.iter().map(|one| one.kind().is_none())).collect();
        Ok(Self { components, is_file, columns, hashes, config })
    }

    fn column(&self, role: Role) -> Option<&Column> {
        self.columns.iter().find(|column| column.role == role)
    }

    /// Encoding of component `number`.
    fn stored(&self, number: usize) -> Encoding {
        self.column(Role::Component(number)).map_or(Encoding::Content, |column| column.stored)
    }

    fn name_of(&self, role: Role) -> &str {
        self.column(role).map_or("", |column| &column.name)
    }

    /// The values of a sample in the order of the columns.
    fn values<'a>(
        &self,
        label: Option<i64>,
        path: &'a [u8],
        stored: impl Fn(usize, Encoding) -> Result<Option<u32>>,
    ) -> impl Iterator<Item = Result<Value<'a>>> {
        let value = move |column: &Column| match column.role {
            Role::Image => Ok(Value::Image),
            Role::Component(number) => Ok(Value::Component(number, stored(number, column.stored)?)),
            Role::Filename => Ok(Value::Filename(String::from_utf8_lossy(path))),
            Role::Label => match label {
                Some(label) => Ok(Value::Label(label.to_le_bytes())),
                None => Err(Error::usage("it has no label, and an mds shard needs a value in every column")
                    .help("leave the label out with --set label_column=")),
            },
        };
        self.columns.iter().map(value)
    }

    /// The values of a sample that is written.
    fn values_of<'a>(&self, sample: &'a Sample<'_>) -> impl Iterator<Item = Result<Value<'a>>> {
        self.values(sample.label, sample.path, |number, encoding| stored_bytes(sample, number, encoding))
    }

    /// Positions in a record of these values with an image of `image_bytes`.
    fn place<'a>(&self, values: impl Iterator<Item = Result<Value<'a>>>, image_bytes: u32) -> Result<Layout> {
        let mut at = self.lengths_bytes();
        let mut components = [Extent::ABSENT; MAX_WRITTEN];
        // Offsets beyond 32 bits are refused below.
        let extent = |at: u64, bytes| Extent { offset: at as u32, bytes };
        for (value, column) in values.zip(&self.columns) {
            at += match value? {
                Value::Image => {
                    components[0] = extent(at, image_bytes);
                    u64::from(image_bytes)
                }
                Value::Component(number, bytes) => {
                    // Every sample has every column, so a missing file is an empty value.
                    if self.is_file[number] || bytes.is_some() {
                        components[number] = extent(at, bytes.unwrap_or(0));
                    }
                    match (column.fixed_bytes, bytes) {
                        (Some(fixed), Some(bytes)) if u64::from(bytes) != fixed => {
                            return Err(Error::data(format!("a value of {bytes} bytes in a column of {fixed} each")));
                        }
                        (Some(fixed), _) => fixed,
                        (None, bytes) => bytes.unwrap_or(0).into(),
                    }
                }
                Value::Label(label) => label.len() as u64,
                Value::Filename(name) => name.len() as u64,
            };
        }
        match u32::try_from(at) {
            Ok(record_bytes) => Ok(Layout { record_bytes, components }),
            Err(_) => Err(Error::usage(format!("image of {image_bytes} bytes: a record must stay below 4 GiB"))),
        }
    }

    /// Length in bytes of the column lengths at the start of a record.
    fn lengths_bytes(&self) -> u64 {
        WORD_BYTES * self.columns.iter().filter(|column| column.fixed_bytes.is_none()).count() as u64
    }

    /// The lengths at the start of a record, one for each column of variable length.
    fn lengths(&self, values: &[Value<'_>], image_bytes: u32) -> impl Iterator<Item = u32> {
        let variable = values.iter().zip(&self.columns).filter(|(_, column)| column.fixed_bytes.is_none());
        variable.filter_map(move |(value, _)| match value {
            Value::Image => Some(image_bytes),
            Value::Component(_, bytes) => Some(bytes.unwrap_or(0)),
            // A path is shorter than its record, and `place` refused records of 4 GiB or more.
            Value::Filename(name) => Some(name.len() as u32),
            Value::Label(_) => None,
        })
    }
}

/// Length in bytes of the stored form of component `number`; `None` if the sample lacks it.
fn stored_bytes(sample: &Sample<'_>, number: usize, encoding: Encoding) -> Result<Option<u32>> {
    let Some((bytes, form)) = sample.content(number) else { return Ok(None) };
    let stored = encoding.stored_bytes(form, bytes)?;
    u32::try_from(stored).map(Some).map_err(|_| Error::usage(format!("a value of {stored} bytes")))
}

/// Takes the first `length` bytes of `rest` and copies `bytes` there; `None` if `rest` is shorter.
fn put(rest: &mut &mut [u8], length: usize, bytes: Option<&[u8]>) -> Option<()> {
    let (place, after) = std::mem::take(rest).split_at_mut_checked(length)?;
    if let Some(bytes) = bytes {
        place.copy_from_slice(bytes);
    }
    *rest = after;
    Some(())
}

impl Format for Mds {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn components(&self) -> &[String] {
        &self.components
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let image = self.column(Role::Image).map(|column| (&*column.encoding, &*column.name));
        let of_image = image.map(|(encoding, name)| [("encoding", encoding), ("image_column", name)]);
        [
            ("label_column", self.name_of(Role::Label)),
            ("filename_column", self.name_of(Role::Filename)),
            ("hashes", &self.hashes.join(",")),
        ]
        .into_iter()
        .chain(of_image.into_iter().flatten())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
    }

    fn needs_path(&self) -> bool {
        self.column(Role::Filename).is_some()
    }

    fn layout(&self, sample: &Sample<'_>) -> Result<Layout> {
        let layout = self.place(self.values_of(sample), sample.payload_bytes);
        layout.map_err(|error| error.in_sample(sample.key))
    }

    fn head_bytes(&self, samples: u64) -> u64 {
        head_bytes(samples, self.config.len() as u64)
    }

    fn head(&self, record_bytes: &mut dyn Iterator<Item = u32>, head: &mut [u8]) -> Result<()> {
        let short = || Error::data("the length of the shard head does not fit the number of samples");
        let too_long = || Error::usage("MDS stores offsets in 32 bits, so a shard must be below 4 GiB");
        let mut offset = u32::try_from(head.len()).map_err(|_| too_long())?;
        let table_bytes = head.len().checked_sub(self.config.len()).ok_or_else(short)?;
        let (table, config) = head.split_at_mut_checked(table_bytes).ok_or_else(short)?;
        config.copy_from_slice(self.config.as_bytes());
        let (words, []) = table.as_chunks_mut::<4>() else { return Err(short()) };
        let [samples, first, ends @ ..] = words else { return Err(short()) };
        *samples = u32::try_from(ends.len()).map_err(|_| too_long())?.to_le_bytes();
        *first = offset.to_le_bytes();
        for end in ends {
            let bytes = record_bytes.next().ok_or_else(short)?;
            offset = offset.checked_add(bytes).ok_or_else(too_long)?;
            *end = offset.to_le_bytes();
        }
        if record_bytes.next().is_some() { Err(short()) } else { Ok(()) }
    }

    fn most_shard_bytes(&self) -> u64 {
        u32::MAX.into()
    }

    fn usual_shard_bytes(&self) -> u64 {
        USUAL_SHARD_BYTES
    }

    fn frame(&self, sample: &Sample<'_>, _: &Header, record: &mut [u8]) -> Result<()> {
        let short = || Error::data("the record is not as long as its layout").in_sample(sample.key);
        let (mut lengths, mut rest) = record.split_at_mut_checked(self.lengths_bytes() as usize).ok_or_else(short)?;
        for (value, column) in self.values_of(sample).zip(&self.columns) {
            let value = value.map_err(|error| error.in_sample(sample.key))?;
            // Image and components are already in their positions.
            let (bytes, value): (u32, Option<&[u8]>) = match &value {
                Value::Image => (sample.payload_bytes, None),
                Value::Component(_, bytes) => (bytes.unwrap_or(0), None),
                Value::Label(label) => (LABEL_BYTES as u32, Some(label)),
                // A path is shorter than its record, and `place` refused records of 4 GiB or more.
                Value::Filename(name) => (name.len() as u32, Some(name.as_bytes())),
            };
            if column.fixed_bytes.is_none() {
                put(&mut lengths, WORD_BYTES as usize, Some(&bytes.to_le_bytes())).ok_or_else(short)?;
            }
            put(&mut rest, bytes as usize, value).ok_or_else(short)?;
        }
        if rest.is_empty() { Ok(()) } else { Err(short()) }
    }

    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()> {
        let bytes_of = |number: usize, _| Ok(row.component(number).map(|extent| extent.bytes));
        let values = || self.values(row.label, row.path, bytes_of);
        let image = row.component(0).ok_or_else(|| Error::data("the index names no payload").at_byte(0))?;
        let layout = self.place(values(), image.bytes)?;
        let values = values().collect::<Result<Vec<_>>>()?;
        if layout.components[0] != image || layout.record_bytes as usize != record.len() {
            let Layout { record_bytes, components: [Extent { offset, .. }, ..] } = layout;
            return Err(Error::data(format!(
                "a payload of {} bytes lies at {offset} of {record_bytes} bytes, at {} of {} in the index",
                image.bytes,
                image.offset,
                record.len()
            ))
            .at_byte(0));
        }
        let all = layout.components.iter().enumerate().take(self.components.len());
        if let Some((number, extent)) =
            all.skip(1).find(|(number, extent)| row.component(*number).unwrap_or(Extent::ABSENT) != **extent)
        {
            let what =
                format!("column {:?} lies at {}, elsewhere in the index", self.components[number], extent.offset);
            return Err(Error::data(what).at_byte(extent.offset.into()));
        }
        let mut at = 0;
        let mut expect = |what: &str, length: usize, expected: Option<&[u8]>| {
            let found = record.get(at..at + length).unwrap_or_default();
            if expected.is_some_and(|expected| expected != found) {
                return Err(Error::data(format!("{what} differs from the index")).at_byte(at as u64));
            }
            at += length;
            Ok(())
        };
        for length in self.lengths(&values, image.bytes) {
            expect("the length of a column", WORD_BYTES as usize, Some(&length.to_le_bytes()))?;
        }
        for (value, column) in values.iter().zip(&self.columns) {
            let what = format!("column {:?}", column.name);
            match value {
                Value::Image => expect(&what, image.bytes as usize, None)?,
                Value::Component(_, bytes) => expect(&what, bytes.unwrap_or(0) as usize, None)?,
                Value::Label(label) => expect(&what, label.len(), Some(label))?,
                Value::Filename(name) => expect(&what, name.len(), Some(name.as_bytes()))?,
            }
        }
        Ok(())
    }

    fn is_encoded(&self, number: usize) -> bool {
        self.stored(number) != Encoding::Content
    }

    fn encode(&self, number: usize, form: &Form, content: &[u8], stored: &mut [u8]) -> Result<()> {
        self.stored(number).encode(form, content, stored)
    }

    fn decode<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Cow<'s, [u8]>> {
        self.stored(number).decode(form, stored)
    }

    fn items<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Option<Cow<'s, [u8]>>> {
        self.stored(number).items(form, stored)
    }

    fn shard_file(&self, name: &str, number: u64, _: u64) -> String {
        format!("{name}.{number:05}.mds")
    }

    fn extension(&self) -> &'static str {
        ".mds"
    }

    fn zstd_extension(&self) -> Option<&'static str> {
        Some(ZSTD_EXTENSION)
    }

    // streaming passes the whole file to the package zstd, whose versions 1.5.4, 1.5.6 and 1.5.7 all lose frames if there are several,
    // and each version loses different frames.
    fn is_one_frame(&self) -> bool {
        true
    }

    fn file_hashes(&self) -> &[String] {
        &self.hashes
    }

    fn sidecar(&self, name: &str, dataset: &Dataset<'_>, out: &mut dyn Files) -> Result<()> {
        match name {
            "index" => write_index(&self.columns, &self.hashes, dataset, out),
            _ => sidecars::write(super::NAME, name, dataset, out),
        }
    }

    fn recipes(&self, folder: &Path, _: &str, _: u64, _: bool) -> Vec<(&'static str, String)> {
        vec![("streaming", format!("StreamingDataset(local={}, shuffle=False, batch_size=1)", shell::python(folder)))]
    }
}
