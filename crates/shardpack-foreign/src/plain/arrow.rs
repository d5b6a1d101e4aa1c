//! Parses the output of `pyarrow.serialize`, since removed from pyarrow: bytes, text, numbers, and lists and tuples of these.
//!
//! Bytes: four counts of 32 bits (tensors, sparse tensors, arrays, buffers: all 0 here), then an Arrow stream, padded:
//! a message with a schema, a message with one batch of one row.
//!
//! ```text
//! message    ff ff ff ff, u32 length of the flatbuffer, flatbuffer, body: buffers that the flatbuffer tells the places of
//! column     a dense union; the name of a child is the kind of Python object: 2 int, 4 bytes, 5 str, 10 list, 12 tuple …
//! ```
//!
//! Specification: `arrow/python/serialize.cc` of Arrow 10.0; <https://arrow.apache.org/docs/format/Columnar.html>, 1.3.
//! Supported: streams of version 5, which Arrow writes since 1.0. Refused with a message: numpy arrays and tensors, dicts,
//! sets and pickled objects.

use std::ops::Range;

use super::{EncodedRange, MAX_DEPTH, Room, Value, cursor::Cursor, made, too_deep};
use crate::flat::{Table, Vector};

/// Begins a message, for readers of before 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Metadata version 5.
const VERSION: u16 = 4;

// Type.fbs: `Type`; Message.fbs: `MessageHeader`.
const NULL: u8 = 1;
const INT: u8 = 2;
const FLOAT: u8 = 3;
const BINARY: u8 = 4;
const UTF8: u8 = 5;
const BOOL: u8 = 6;
const LIST: u8 = 12;
const UNION: u8 = 14;
const SCHEMA: u8 = 1;
const BATCH: u8 = 3;

/// Reads a value.
///
/// # Errors
/// If it is corrupt or has parts that are no plain data.
pub fn arrow(bytes: &[u8]) -> Result<Value, String> {
    read(bytes).map_err(|what| format!("pyarrow: {what}"))
}

fn read(bytes: &[u8]) -> Result<Value, String> {
    let mut cursor = Cursor::new(bytes);
    for what in ["tensors", "sparse tensors", "numpy arrays", "buffers"] {
        let count = u32::from_le_bytes(cursor.array()?);
        if count > 0 {
            return Err(format!("{count} {what}, which are not read"));
        }
    }
    let (schema, _) = message(&mut cursor, SCHEMA)?;
    let (batch, body) = message(&mut cursor, BATCH)?;
    if schema.u16(0)? != 0 {
        return Err("numbers are big-endian".to_owned());
    }
    if batch.has(3) {
        return Err("its buffers are compressed".to_owned());
    }
    let fields = schema.vector(1, 4)?;
    if fields.count != 1 {
        return Err(format!("{} columns, expected 1", fields.count));
    }
    let (nodes, buffers) = (batch.vector(1, 16)?, batch.vector(2, 16)?);
    let mut columns = Columns { bytes, body, nodes, buffers, next_node: 0, next_buffer: 0 };
    let column = columns.column(&fields.table(0)?, 0)?;
    if column.count != 1 {
        return Err(format!("{} values, expected 1", column.count));
    }
    column.value(bytes, 0, &mut Room::for_input(bytes))
}

/// The header of a message and the range of its body.
fn message<'b>(cursor: &mut Cursor<'b>, kind: u8) -> Result<(Table<'b>, Range<usize>), String> {
    if cursor.array()? != CONTINUATION {
        return Err(format!("no message at byte {}", cursor.at - 4));
    }
    let bytes = u32::from_le_bytes(cursor.array()?);
    let message = Table::root(cursor.slice(bytes.into())?)?;
    let (version, found) = (message.u16(0)?, message.u8(1)?);
    if version != VERSION {
        return Err(format!("a message of version {}, only version {} is read", u32::from(version) + 1, VERSION + 1));
    }
    if found != kind {
        return Err(format!("a message of kind {found}, expected {kind}"));
    }
    let body = cursor.range(message.u64(3)?)?;
    Ok((message.table(2)?, body))
}

/// Takes the columns of a batch, from the outer ones in.
struct Columns<'b> {
    bytes: &'b [u8],
    body: Range<usize>,
    nodes: Vector<'b>,
    buffers: Vector<'b>,
    next_node: usize,
    next_buffer: usize,
}

struct Column {
    count: usize,
    data: Data,
}

/// Ranges are in the input.
enum Data {
    None,
    Bools(Range<usize>),
    Ints(Range<usize>),
    Floats(Range<usize>),
    Bytes { offsets: Range<usize>, data: Range<usize>, is_text: bool },
    Lists { offsets: Range<usize>, items: Box<Column> },
    Union { types: Range<usize>, offsets: Range<usize>, children: Vec<(u8, Column)> },
}

impl Columns<'_> {
    fn column(&mut self, field: &Table, depth: usize) -> Result<Column, String> {
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        // Each column takes one of these, so a field that is its own child comes to an end.
        let (count, nulls) = self.nodes.pair(self.next_node).ok_or("fewer columns than in the schema")?;
        self.next_node += 1;
        let count = usize::try_from(count).map_err(|_| format!("{count} values are claimed"))?;
        let kind = field.u8(2)?;
        if nulls != 0 && kind != NULL {
            return Err("values are missing".to_owned());
        }
        if field.has(4) {
            return Err("a dictionary".to_owned());
        }
        // No value is null, so the validity buffer is not read. Unions have no validity buffer.
        if !matches!(kind, NULL | UNION) {
            self.buffer()?;
        }
        let data = match kind {
            NULL => Data::None,
            BOOL => Data::Bools(self.buffer()?),
            INT if field.table(3)?.u32(0)? == 64 => Data::Ints(self.buffer()?),
            FLOAT if field.table(3)?.u16(0)? == 2 => Data::Floats(self.buffer()?),
            BINARY | UTF8 => Data::Bytes { offsets: self.buffer()?, data: self.buffer()?, is_text: kind == UTF8 },
            LIST => {
                let (offsets, child) = (self.buffer()?, field.vector(5, 4)?);
                Data::Lists { offsets, items: Box::new(self.column(&child.table(0)?, depth + 1)?) }
            }
            UNION => self.union(field, depth)?,
            kind => return Err(format!("a column of type {kind}, which is not read")),
        };
        Ok(Column { count, data })
    }

    fn union(&mut self, field: &Table, depth: usize) -> Result<Data, String> {
        let (types, offsets) = (self.buffer()?, self.buffer()?);
        let (kind, fields) = (field.table(3)?, field.vector(5, 4)?);
        if kind.u16(0)? != 1 {
            return Err("a sparse union, which is not read".to_owned());
        }
        let ids = if kind.has(1) { Some(kind.vector(1, 4)?) } else { None };
        let mut children = Vec::new();
        for number in 0..fields.count {
            let child = fields.table(number)?;
            named(child.bytes(0)?)?;
            let id = match &ids {
                Some(ids) => ids.u32(number).ok_or("a union with fewer types than children")?,
                None => u32::try_from(number).unwrap_or(u32::MAX),
            };
            let id = u8::try_from(id).map_err(|_| format!("type {id} of a union"))?;
            children.push((id, self.column(&child, depth + 1)?));
        }
        Ok(Data::Union { types, offsets, children })
    }

    /// Range of the next buffer in the input.
    fn buffer(&mut self) -> Result<Range<usize>, String> {
        let (offset, bytes) = self.buffers.pair(self.next_buffer).ok_or("fewer buffers than in the schema")?;
        self.next_buffer += 1;
        let mut body = Cursor { bytes: &self.bytes[..self.body.end], at: self.body.start };
        body.range(offset)?;
        body.range(bytes)
    }
}

/// Checks that the kind of Python object that a child of a union is for is plain data.
fn named(name: &[u8]) -> Result<(), String> {
    // arrow/python/serialize.h: `PythonType`.
    let what = match name {
        b"0" | b"1" | b"2" | b"4" | b"5" | b"8" | b"10" | b"12" => return Ok(()),
        b"3" => "an int of Python 2",
        b"6" | b"7" => "a float of less than 64 bits",
        b"9" => "a date",
        b"11" => "a dict",
        b"13" => "a set",
        b"14" | b"17" | b"18" | b"19" | b"20" => "a tensor",
        b"15" => "a numpy array",
        b"16" => "a buffer",
        _ => "an object of another kind",
    };
    Err(format!("{what}, which is not read"))
}

impl Column {
    fn value(&self, bytes: &[u8], row: usize, room: &mut Room) -> Result<Value, String> {
        if row >= self.count {
            return Err(format!("value {row} of {}", self.count));
        }
        let gone = || format!("value {row} is missing");
        Ok(match &self.data {
            Data::None => Value::None,
            Data::Bools(range) => {
                let byte = bytes[range.clone()].get(row / 8).ok_or_else(gone)?;
                Value::Bool(byte >> (row % 8) & 1 == 1)
            }
            Data::Ints(range) => Value::Int(i64::from_le_bytes(item(bytes, range, row).ok_or_else(gone)?)),
            Data::Floats(range) => Value::Float(f64::from_le_bytes(item(bytes, range, row).ok_or_else(gone)?)),
            Data::Bytes { offsets, data, is_text } => {
                let (start, end) = span(bytes, offsets, row).ok_or_else(gone)?;
                let place = bytes[data.clone()].get(start..end).ok_or_else(gone)?;
                let part = EncodedRange::Plain(data.start + start..data.start + end);
                if *is_text {
                    room.work(place.len())?;
                }
                match is_text {
                    true if str::from_utf8(place).is_err() => return Err("text that is not UTF-8".to_owned()),
                    true => Value::Text(part),
                    false => Value::Bytes(part),
                }
            }
            Data::Lists { offsets, items } => {
                let (start, end) = span(bytes, offsets, row).ok_or_else(gone)?;
                if end > items.count {
                    return Err(gone());
                }
                room.take(end - start)?;
                Value::List(made(end - start, |row| items.value(bytes, start + row, room))?)
            }
            Data::Union { types, offsets, children } => {
                let id = bytes[types.clone()].get(row).ok_or_else(gone)?;
                let offset = u32::from_le_bytes(item(bytes, offsets, row).ok_or_else(gone)?);
                let child = children.iter().find(|(child, _)| child == id).ok_or_else(gone)?;
                child.1.value(bytes, usize::try_from(offset).map_err(|_| gone())?, room)?
            }
        })
    }
}

/// Item `row` of numbers.
fn item<const N: usize>(bytes: &[u8], range: &Range<usize>, row: usize) -> Option<[u8; N]> {
    let start = row.checked_mul(N)?;
    bytes[range.clone()].get(start..)?.first_chunk().copied()
}

/// Range of item `row`, from the offsets.
fn span(bytes: &[u8], offsets: &Range<usize>, row: usize) -> Option<(usize, usize)> {
    let offset = |row| usize::try_from(u32::from_le_bytes(item(bytes, offsets, row)?)).ok();
    let (start, end) = (offset(row)?, offset(row.checked_add(1)?)?);
    (start <= end).then_some((start, end))
}

#[cfg(test)]
mod tests;
