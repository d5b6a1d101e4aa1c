//! Walks a file of rows: each row is the record that a tar file with the same files gives.

use std::ops::Range;

use shardpack_format::{
    Error, Result,
    component::Form,
    formats::{
        foreign::{FieldSelection, Image, Record, Walk, unreadable},
        webdataset::{
            self, Looked,
            samples::{Component, ForeignSample},
        },
    },
    image_header::SNIFF_BYTES,
    memory, npy,
    rows::{self, END_BYTES, End, MAGIC, Table},
};

use super::{Bytes, ShardFile, entry::Entry};

/// Bytes that are read at once where values are short, and where they are far from each other.
const NEAR_BYTES: usize = 128 << 10;
const FAR_BYTES: usize = 4 << 10;

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry {
    has_places: true,
    ..Entry::new(
        rows::NAME,
        |first| first.starts_with(&MAGIC),
        |file, wanted, _| Ok(Box::new(Rows::open(file, wanted)?)),
    )
};

struct Rows {
    content: Content,
    table: Table,
    wanted: FieldSelection,
    /// Number of the next row.
    next: u64,
    /// The components of a row; its memory is reused.
    row: Vec<rows::Component>,
    /// By extension, the last head of an array, the length of its file, and its form.
    forms: Vec<Option<(Vec<u8>, u32, Form)>>,
    /// Bytes of the image of the last record.
    image: Option<Range<u64>>,
    /// The extensions of the last row without an image, and the reason; most rows have the same.
    no_image: Option<(Vec<u8>, String)>,
}

impl Rows {
    fn open(file: &ShardFile, wanted: &FieldSelection) -> Result<Self> {
        let mut content = Content { file: file.location().open()?, start: 0, bytes: Vec::new() };
        let short = || Error::data("an incomplete file of rows").at_byte(0);
        let end_at = file.bytes.checked_sub(END_BYTES as u64).ok_or_else(short)?;
        let end = content.read(end_at, END_BYTES)?.first_chunk::<END_BYTES>().copied().ok_or_else(short)?;
        let end = End::parse(&end, file.bytes)?;
        let mut table = Vec::new();
        content.whole(end.table..file.bytes, &mut table)?;
        let table = Table::parse(table, &end)?;
        let (forms, wanted) = (vec![None; usize::from(u8::MAX) + 1], wanted.clone());
        Ok(Self { content, table, wanted, next: end.first, row: Vec::new(), forms, image: None, no_image: None })
    }

    /// Reads the texts and heads of arrays that decide how the row is packed.
    fn look(&mut self) -> Result<Looked> {
        let mut looked = Looked::default();
        for component in &self.row {
            let rows::Component { extension, offset, bytes } = *component;
            let name = self.table.extension(extension).as_bytes();
            if let Some(text) = looked.texts.slot(name, bytes.into(), &self.wanted) {
                text.extend_from_slice(self.content.read(offset, bytes as usize)?);
            } else if webdataset::is_array(name) {
                let head = self.content.read(offset, (bytes as usize).min(npy::PLAIN_HEAD_BYTES))?;
                let Some(known) = self.forms.get_mut(usize::from(extension)) else { continue };
                if !known.as_ref().is_some_and(|(of, length, _)| *length == bytes && head.starts_with(of)) {
                    *known = Form::of_npy(head, bytes.into()).map(|form| (form.head(), bytes, form));
                }
                looked.arrays.extend(known.as_ref().map(|(_, _, form)| (offset, form.clone())));
            }
        }
        Ok(looked)
    }

    /// The image of the row, which has these components.
    fn image_of(&mut self, components: &[Component]) -> Result<Image, String> {
        let extensions = || self.row.iter().map(|component| component.extension);
        match &self.no_image {
            Some((of, why)) if extensions().eq(of.iter().copied()) => Err(why.clone()),
            _ => webdataset::image_of(components, &self.wanted).inspect_err(|why| {
                self.no_image = Some((extensions().collect(), why.clone()));
            }),
        }
    }
}

impl Walk for Rows {
    fn next(&mut self) -> Result<Option<Record>> {
        self.image = None;
        if !self.table.next(&mut self.row)? {
            return Ok(None);
        }
        let mut looked = self.look()?;
        let component = |one: &rows::Component| Component {
            extension: self.table.extension(one.extension).as_bytes().to_vec(),
            offset: one.offset,
            bytes: one.bytes.into(),
        };
        let range = self.row.first().map_or(0, |first| first.offset)
            ..self.row.last().map_or(0, |last| last.offset + u64::from(last.bytes));
        let key = format!("{:0digits$}", self.next, digits = rows::DIGITS).into_bytes();
        let sample = ForeignSample { key, components: self.row.iter().map(component).collect(), offset: range.start };
        let image = self.image_of(&sample.components);
        let is_of_files = self.wanted.image.is_none() && webdataset::is_of_files(&sample.components);
        let record = webdataset::record(sample, &mut looked, image, is_of_files, &self.wanted);
        self.next += 1;
        self.image = record.image.as_ref().ok().map(|image| image.fetch.clone());
        Ok(Some(Record { range, ..record }))
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = self.image.clone().ok_or_else(|| Error::usage("the last record has no image"))?;
        self.content.whole(image, out)
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = self.image.clone().unwrap_or_default();
        let end = image.end.min(image.start.saturating_add(SNIFF_BYTES as u64));
        self.content.whole(image.start..end, out)
    }
}

/// The bytes of a file, and those that were read last.
struct Content {
    file: Bytes,
    start: u64,
    bytes: Vec<u8>,
}

impl Content {
    /// The `count` bytes at `offset`, which are in the file; reads bytes behind them too.
    fn read(&mut self, offset: u64, count: usize) -> Result<&[u8]> {
        let at = |start: u64| usize::try_from(offset.checked_sub(start)?).ok();
        let end = self.start + self.bytes.len() as u64;
        if at(self.start).is_none_or(|at| at + count > self.bytes.len()) {
            let is_near = offset <= end.saturating_add(NEAR_BYTES as u64 / 2);
            let total = self.file.count().map_err(|error| unreadable(error, offset))?;
            let most = count.max(if is_near { NEAR_BYTES } else { FAR_BYTES }) as u64;
            let most = most.min(total.saturating_sub(offset)).max(count as u64);
            self.bytes.clear();
            memory::resize(&mut self.bytes, usize::try_from(most).unwrap_or(usize::MAX))?;
            self.start = offset;
            let read = self.file.read_exact_at(&mut self.bytes, offset);
            if let Err(error) = read {
                self.bytes.clear();
                return Err(unreadable(error, offset));
            }
        }
        let short = || Error::data("the file ends before its rows do").at_byte(offset);
        let at = at(self.start).ok_or_else(short)?;
        self.bytes.get(at..at + count).ok_or_else(short)
    }

    /// Replaces the content of `out` with the bytes at `range`.
    fn whole(&self, range: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let bytes = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        memory::resize(out, bytes).map_err(|error| error.at_byte(range.start))?;
        self.file.read_exact_at(out, range.start).map_err(|error| unreadable(error, range.start))
    }
}
