//! Parses the Thrift compact protocol, as far as needed to check a footer or a page before use.
//!
//! `None` anywhere: the bytes end early, or are no Thrift. Nothing is allocated; each step consumes a byte or more.
//!
//! Specification: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// Structures in structures that are followed.
const DEPTH_LIMIT: usize = 32;

/// Bytes that are read from their front.
pub(super) struct Thrift<'a> {
    rest: &'a [u8],
    depth: usize,
}

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u8);

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

impl Kind {
    pub fn is_structure(self) -> bool {
        self.0 == STRUCT
    }
}

impl<'a> Thrift<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, depth: 0 }
    }

    /// Bytes that have not been read.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Reads a structure: `field` gets the number and type of each field, and must read its value.
    pub fn fields(&mut self, mut field: impl FnMut(&mut Self, i64, Kind) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return None;
        }
        let mut number = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                self.depth -= 1;
                return Some(());
            }
            number = match head >> 4 {
                0 => self.number()?,
                delta => number.checked_add(delta.into())?,
            };
            field(self, number, Kind(head & 15))?;
        }
    }

    /// Reads a whole number or a truth value; passes over a value of any other type, which gives nothing.
    pub fn value(&mut self, kind: Kind) -> Option<Option<i64>> {
        match kind.0 {
            TRUE => Some(Some(1)),
            FALSE => Some(Some(0)),
            BYTE => self.byte().map(|byte| Some(i64::from(byte as i8))),
            I16..=I64 => self.number().map(Some),
            _ => self.skip(kind).map(|()| None),
        }
    }

    /// Reads bytes or text; passes over a value of any other type, which gives nothing.
    pub fn bytes(&mut self, kind: Kind) -> Option<Option<&'a [u8]>> {
        if kind.0 != BINARY {
            return self.skip(kind).map(|()| None);
        }
        let count = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(Some(bytes))
    }

    /// Reads a list: `element` must read one of its structures. Lists of anything else are passed over.
    pub fn structures(&mut self, kind: Kind, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if kind.0 != LIST {
            return self.skip(kind);
        }
        let (count, of) = self.list()?;
        (0..count).try_for_each(|_| if of.0 == STRUCT { element(self) } else { self.element(of) })
    }

    /// Passes over a value.
    pub fn skip(&mut self, kind: Kind) -> Option<()> {
        match kind.0 {
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            I16..=I64 => self.varint().map(|_| ()),
            DOUBLE => self.pass(8),
            BINARY => {
                let bytes = self.varint()?;
                self.pass(usize::try_from(bytes).ok()?)
            }
            UUID => self.pass(16),
            STRUCT => self.fields(|thrift, _, kind| thrift.skip(kind)),
            LIST | SET => {
                let (count, of) = self.list()?;
                self.elements(count, |thrift| thrift.element(of))
            }
            MAP => {
                let count = usize::try_from(self.varint()?).ok().filter(|count| *count <= self.rest.len())?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                self.elements(count, |thrift| {
                    thrift.element(Kind(kinds >> 4))?;
                    thrift.element(Kind(kinds & 15))
                })
            }
            _ => None,
        }
    }

    fn elements(&mut self, count: usize, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return None;
        }
        (0..count).try_for_each(|_| element(self))?;
        self.depth -= 1;
        Some(())
    }

    /// Passes over an element of a list: unlike in a field, a truth value takes a byte there.
    fn element(&mut self, kind: Kind) -> Option<()> {
        if matches!(kind.0, TRUE | FALSE) { self.pass(1) } else { self.skip(kind) }
    }

    /// Length and element type of a list. Each element takes a byte at least, so the length is at most the number of bytes.
    fn list(&mut self) -> Option<(usize, Kind)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            count => count.into(),
        };
        (count <= self.rest.len()).then_some((count, Kind(head & 15)))
    }

    fn number(&mut self) -> Option<i64> {
        let bits = self.varint()?;
        Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn pass(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }
}
