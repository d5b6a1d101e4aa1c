//! The parts of a `.beton` file: header, fields, table of samples, data, and the lengths of the data.
//!
//! The table of samples is an array of structs, each field at a multiple of its alignment, as numpy's `align=True` lays them out. The
//! struct of an image and that of bytes are packed, and have the alignment 1. A value has a place in the data, and the table of
//! allocations at the end of the file has its length.
//!
//! Every place is compared with the length of the file before it is used.

use std::{io, ops::Range, sync::OnceLock};

use shardpack_format::{Error, Result, formats::foreign::unreadable, memory, size};

use crate::Bytes;

const VERSION: u16 = 2;
const HEADER_BYTES: usize = 24;
const NAME_BYTES: usize = 16;
/// Type, name and arguments of a field.
const FIELD_BYTES: u64 = 1 + NAME_BYTES as u64 + 1024;
/// Sample, place and length of data.
const ALLOCATION_BYTES: usize = 24;
/// Allocations that are read at once.
const ALLOCATIONS: u64 = 1 << 14;
/// A page is a power of two of bytes, and no shorter.
const LEAST_PAGE_BYTES: u32 = 1 << 21;

/// Type of a field that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// A float64.
    Float,
    /// A whole number of 64 bits, with a sign.
    Int,
    /// An image: a JPEG, or pixels of red, green and blue.
    Image,
    /// Any number of bytes.
    Bytes,
    /// JSON with a zero behind it.
    Json,
}

impl FieldKind {
    /// The type of this number.
    ///
    /// # Errors
    /// The description of a type that is not read.
    fn parse(number: u8) -> std::result::Result<Self, String> {
        let unread = |name: &str| Err(format!("of type {name}, which is not read"));
        match number {
            0 => Ok(Self::Float),
            1 => Ok(Self::Int),
            2 => Ok(Self::Image),
            3 => Ok(Self::Bytes),
            4 => unread("NDArrayField"),
            5 => Ok(Self::Json),
            6 => unread("TorchTensorField"),
            255 => Err("of a type of its own, which FFCV itself reads only with its Python class".to_owned()),
            other => Err(format!("of unknown type {other}")),
        }
    }

    /// Length of a value in the table of samples, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Float | Self::Int => 8,
            // Mode, width, height, place.
            Self::Image => 13,
            // Place, length.
            Self::Bytes | Self::Json => 16,
        }
    }

    fn alignment(self) -> usize {
        match self {
            Self::Float | Self::Int => 8,
            Self::Image | Self::Bytes | Self::Json => 1,
        }
    }
}

/// A field of samples.
#[derive(Debug)]
pub(super) struct Field {
    pub name: String,
    pub kind: FieldKind,
    /// Offset in the bytes of a sample.
    pub offset: usize,
}

/// Data of a sample; the order is that of the table in memory.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Allocation {
    sample: u64,
    start: u64,
    bytes: u64,
}

/// The first bytes of a file.
struct Header {
    fields: u16,
    samples: u64,
    /// Place of the table of allocations.
    allocations: u64,
}

impl Header {
    /// # Errors
    /// Why the bytes are no header of a file that is read.
    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let short = || format!("{} bytes, fewer than the {HEADER_BYTES} of a header", bytes.len());
        let bytes = bytes.first_chunk::<HEADER_BYTES>().ok_or_else(short)?;
        let version = u16::from_le_bytes([bytes[0], bytes[1]]);
        if version != VERSION {
            return Err(format!("version {version} of the format, only {VERSION} is read"));
        }
        let page_bytes = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if !page_bytes.is_power_of_two() || page_bytes < LEAST_PAGE_BYTES {
            return Err(format!("a damaged header: pages of {page_bytes} bytes"));
        }
        let fields = u16::from_le_bytes([bytes[2], bytes[3]]);
        if fields == 0 {
            return Err("a damaged header: no fields".to_owned());
        }
        let allocations = word(bytes, 16);
        if allocations == 0 {
            return Err("an unfinished file: its writer was stopped".to_owned());
        }
        Ok(Self { fields, samples: word(bytes, 8), allocations })
    }
}

/// The number of 64 bits at `at`; 0 behind the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Whether a file begins with a header and a field.
pub(super) fn is(first: &[u8]) -> bool {
    let field = first.get(HEADER_BYTES..).and_then(|rest| rest.split_first_chunk());
    let is_field = |([kind], rest): (&[u8; 1], &[u8])| {
        matches!(kind, 0..=6 | 255) && rest.get(..NAME_BYTES).is_some_and(|name| parse_name(name).is_some())
    };
    Header::parse(first).is_ok() && field.is_some_and(is_field)
}

/// A name, which zeros fill up; `None` if it is none.
fn parse_name(stored: &[u8]) -> Option<&str> {
    let end = stored.iter().rposition(|byte| *byte != 0)? + 1;
    let name = str::from_utf8(&stored[..end]).ok()?;
    (name.is_ascii() && !name.contains(|c: char| c.is_ascii_control())).then_some(name)
}

/// An open file.
pub(super) struct Beton {
    file: Bytes,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    pub fields: Vec<Field>,
    pub samples: u64,
    /// Length of a sample in the table.
    pub sample_bytes: usize,
    /// Place of the table of samples.
    table: u64,
    /// The data in the file, sorted.
    allocations: Vec<Allocation>,
    /// The first error of the system.
    failed: OnceLock<io::Error>,
}

impl Beton {
    /// Reads the header, the fields and the lengths of data of `file`.
    ///
    /// # Errors
    /// If one is damaged, or a field is of a type that is not read.
    pub fn open(file: Bytes) -> Result<Self> {
        let file_bytes = file.count().map_err(|error| unreadable(error, 0))?;
        let mut first = vec![0; HEADER_BYTES.min(usize::try_from(file_bytes).unwrap_or(HEADER_BYTES))];
        file.read_exact_at(&mut first, 0).map_err(|error| unreadable(error, 0))?;
        let header = Header::parse(&first).map_err(|what| Error::data(what).at_byte(0))?;
        let damaged = |what: String| Error::data(format!("a damaged header: {what}")).at_byte(0);
        let table = HEADER_BYTES as u64 + u64::from(header.fields) * FIELD_BYTES;
        if header.allocations > file_bytes || table > header.allocations {
            let (place, fields) = (header.allocations, header.fields);
            let what = format!("{fields} fields and lengths of data at byte {place}, the file has {file_bytes} bytes");
            return Err(damaged(what));
        }
        let fields = read_fields(&file, header.fields)?;
        let end = fields.last().map_or(0, |last| last.offset + last.kind.bytes());
        let alignment = fields.iter().map(|field| field.kind.alignment()).max().unwrap_or(1);
        let sample_bytes = end.next_multiple_of(alignment);
        let table_bytes = header.samples.checked_mul(sample_bytes as u64);
        let data = table_bytes.and_then(|bytes| table.checked_add(bytes)).filter(|end| *end <= header.allocations);
        let data = data.ok_or_else(|| damaged(format!("{} samples, more than the file holds", header.samples)))?;
        let allocations = read_allocations(&file, header.allocations..file_bytes, data..header.allocations)?;
        let (samples, failed) = (header.samples, OnceLock::new());
        Ok(Self { file, file_bytes, fields, samples, sample_bytes, table, allocations, failed })
    }

    /// Length of the data of sample `sample` at `start`; `None` if the sample has none there.
    pub fn data_bytes(&self, sample: u64, start: u64) -> Option<u64> {
        // Nothing has a place, too: the last is the longest.
        let end = self.allocations.partition_point(|one| (one.sample, one.start) <= (sample, start));
        let found = self.allocations.get(end.checked_sub(1)?)?;
        ((found.sample, found.start) == (sample, start)).then_some(found.bytes)
    }

    /// Reads the samples `rows` of the table into `out`.
    ///
    /// # Errors
    /// If the read fails.
    pub fn read_rows(&self, rows: &Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let start = self.table + rows.start * self.sample_bytes as u64;
        memory::resize(out, (rows.end - rows.start) as usize * self.sample_bytes)?;
        self.file.read_exact_at(out, start).map_err(|error| unreadable(error, start))
    }

    /// Appends `bytes` bytes of data at `start` to `out`.
    ///
    /// # Errors
    /// Why they cannot be read; an error of the system is kept as the [`Beton::failure`] too.
    pub fn read_data(&self, start: u64, bytes: usize, out: &mut Vec<u8>) -> std::result::Result<(), String> {
        let at = out.len();
        memory::resize(out, at + bytes).map_err(|error| error.what())?;
        self.file.read_exact_at(&mut out[at..], start).map_err(|error| {
            let what = format!("cannot read {} at byte {start}: {error}", size::counted(bytes as u64, "byte"));
            if error.raw_os_error().is_some() {
                // The first is kept.
                let _ = self.failed.set(error);
            }
            what
        })
    }

    /// The first error of the system, if there was one.
    pub fn failure(&self) -> Option<Error> {
        let code = self.failed.get()?.raw_os_error()?;
        Some(Error::io("cannot read", io::Error::from_raw_os_error(code)))
    }
}

/// The `count` fields of a file.
fn read_fields(file: &Bytes, count: u16) -> Result<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    let mut end = 0;
    for number in 0..count {
        let at = HEADER_BYTES as u64 + u64::from(number) * FIELD_BYTES;
        let mut stored = [0; 1 + NAME_BYTES];
        file.read_exact_at(&mut stored, at).map_err(|error| unreadable(error, at))?;
        let [kind, name @ ..] = stored;
        let name = parse_name(&name).ok_or_else(|| {
            Error::data(format!("field {number}, counted from 0, has a name that is no ASCII text")).at_byte(at)
        })?;
        if fields.iter().any(|other| other.name == name) {
            // FFCV keeps the first 16 letters of a name.
            return Err(Error::usage(format!("two fields are called {name}")).at_byte(at));
        }
        let kind = FieldKind::parse(kind).map_err(|what| {
            let what = format!("field {name} is {what}: images, bytes, JSON, int and float fields are");
            Error::usage(what).at_byte(at)
        })?;
        let offset = usize::next_multiple_of(end, kind.alignment());
        end = offset + kind.bytes();
        fields.push(Field { name: name.to_owned(), kind, offset });
    }
    Ok(fields)
}

/// The allocations in the table at `place` that lie in `data`, sorted. A sample with another has no data.
fn read_allocations(file: &Bytes, place: Range<u64>, data: Range<u64>) -> Result<Vec<Allocation>> {
    let bytes = place.end - place.start;
    if !bytes.is_multiple_of(ALLOCATION_BYTES as u64) {
        let what = format!("{bytes} bytes of lengths of data, {ALLOCATION_BYTES} each: the file is cut");
        return Err(Error::data(what).at_byte(place.start));
    }
    memory::admit(bytes).map_err(|error| error.at_byte(place.start))?;
    let (mut found, mut held, mut total) = (Vec::new(), Vec::new(), 0u64);
    let mut at = place.start;
    while at < place.end {
        let piece = (place.end - at).min(ALLOCATIONS * ALLOCATION_BYTES as u64);
        memory::resize(&mut held, piece as usize)?;
        file.read_exact_at(&mut held, at).map_err(|error| unreadable(error, at))?;
        for stored in held.chunks_exact(ALLOCATION_BYTES) {
            let one = Allocation { sample: word(stored, 0), start: word(stored, 8), bytes: word(stored, 16) };
            let end = one.start.checked_add(one.bytes).filter(|end| *end <= data.end);
            if end.is_some() && one.start >= data.start {
                total = total.saturating_add(one.bytes);
                found.push(one);
            }
        }
        at += piece;
    }
    let room = data.end - data.start;
    if total > room {
        // One place in several samples would make a short file a long one.
        let what = format!("{total} bytes of data in {room}: lengths are damaged");
        return Err(Error::data(what).at_byte(place.start));
    }
    found.sort_unstable();
    Ok(found)
}
