//! Reads and writes the head of a `.npy` file: written as numpy does, and parsed strictly.
//!
//! A head is parsed from the given bytes in one pass, and only its axes are allocated. [`Head::check_length`] compares the
//! head with the length of the file, so that no reader allocates a length that a head only claims.
//!
//! # Specification
//! numpy 2, `lib/format.py`: magic, version (1, 2 or 3), length of the rest (2 bytes in version 1, else 4), a Python dict
//! with the keys `descr`, `fortran_order` and `shape`, spaces up to a multiple of 64 bytes, the last byte a line break.

use crate::{Error, Result, size};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest head that is read, in bytes; a version 1 can say no more, and numpy itself takes 10,000 for an attack.
pub const HEAD_MAX_BYTES: usize = 12 + (1 << 16);
/// No head is longer if it has only the dtype and shape of an array that a component can be.
pub const PLAIN_HEAD_BYTES: usize = 1024;
/// The errors for items of a type that is not read.
const OBJECTS: &str = "items are Python objects: a pickle, which is not read";
const STRUCTURED: &str = "items have named fields (a structured type), which plain arrays do not have";
/// Most axes that an array has: `NPY_MAXDIMS` of numpy 2.
pub const MAX_AXES: usize = 64;

/// The parsed head of a `.npy` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Type of the items as numpy spells it, with the order of its bytes: `|u1`, `<f4`, `<U12`, `<M8[ns]`; never an object or a
    /// structure, and so plain bytes.
    pub dtype: &'a str,
    /// Length in bytes of an item.
    pub item_bytes: u64,
    /// Lengths of the axes, at most [`MAX_AXES`]; none for a single item.
    pub shape: Vec<u64>,
    /// The first axis changes fastest, not the last.
    pub is_fortran: bool,
    /// Where the items begin: bytes from the start of the file.
    pub data_offset: usize,
    /// Length in bytes of all items: below 2^63.
    pub data_bytes: u64,
}

impl Head<'_> {
    /// Compares `bytes`, the length of the whole file, with the length of head and items.
    ///
    /// # Errors
    /// If the file is shorter or longer than the head promises. The message has both.
    pub fn check_length(&self, bytes: u64) -> Result<()> {
        let found = bytes.saturating_sub(self.data_offset as u64);
        let said = || format!("array {} of {}", shape_text(&self.shape), self.dtype);
        match found.checked_sub(self.data_bytes) {
            Some(0) => Ok(()),
            Some(more) => Err(wrong(format!(
                "{} behind the items: {} is {} bytes",
                size::counted(more, "byte"),
                said(),
                self.data_bytes
            ))),
            None => Err(wrong(format!("truncated: {} is {} bytes, there are {found}", said(), self.data_bytes))),
        }
    }
}

/// The head of an array whose items are of type `dtype`, as numpy writes it: `|u1`, `<f4`; `shape` is at most 32 axes
/// long, the last changing fastest unless `is_fortran`.
pub fn head(dtype: &str, shape: &[u64], is_fortran: bool) -> Vec<u8> {
    let mut head = Vec::with_capacity(head_bytes(dtype, shape, is_fortran));
    write_head(dtype, shape, is_fortran, &mut head);
    head
}

/// Appends the bytes of [`head`] to `out`.
pub fn write_head(dtype: &str, shape: &[u64], is_fortran: bool, out: &mut Vec<u8>) {
    let (start, bytes) = (out.len(), head_bytes(dtype, shape, is_fortran));
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    // Axes of at most 20 digits and a short type: far below 2^16.
    out.extend_from_slice(&((bytes - 10) as u16).to_le_bytes());
    for text in [DESCR, dtype, ORDER, order(is_fortran), SHAPE] {
        out.extend_from_slice(text.as_bytes());
    }
    for (number, axis) in shape.iter().enumerate() {
        out.extend_from_slice(if number == 0 { b"" } else { b", " });
        out.extend_from_slice(axis.to_string().as_bytes());
    }
    out.extend_from_slice(if shape.len() == 1 { b",), }" } else { b"), }" });
    out.resize(start + bytes - 1, b' ');
    out.push(b'\n');
}

/// Length in bytes of the result of [`head`].
pub fn head_bytes(dtype: &str, shape: &[u64], is_fortran: bool) -> usize {
    let digits: usize = shape.iter().map(|axis| 1 + axis.checked_ilog10().unwrap_or(0) as usize).sum();
    let commas = if shape.len() == 1 { 1 } else { 2 * shape.len().saturating_sub(1) };
    let text = [DESCR, dtype, ORDER, order(is_fortran), SHAPE, "), }"].map(str::len).iter().sum::<usize>();
    (10 + text + digits + commas + 1).next_multiple_of(64)
}

// The text of a head: these, with dtype, order and axes between them.
const DESCR: &str = "{'descr': '";
const ORDER: &str = "', 'fortran_order': ";
const SHAPE: &str = ", 'shape': (";

fn order(is_fortran: bool) -> &'static str {
    if is_fortran { "True" } else { "False" }
}

/// Parses the head of a `.npy` file from its first bytes; [`HEAD_MAX_BYTES`] always suffice.
///
/// # Errors
/// If it is no head, or if its items are not plain bytes (Python objects, structures), have negative axes or take
/// more than 2^63 bytes in all.
pub fn read_head(bytes: &[u8]) -> Result<Head<'_>> {
    let cut = || wrong("truncated: the head ends within the first bytes");
    if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
        return Err(wrong("does not begin as an array of numpy"));
    }
    let (start, length) = match bytes.get(6..8).ok_or_else(cut)? {
        [1, 0] => {
            (10, bytes.get(8..10).and_then(<[u8]>::first_chunk).map(|length| u32::from(u16::from_le_bytes(*length))))
        }
        [2 | 3, 0] => (12, bytes.get(8..12).and_then(<[u8]>::first_chunk).map(|length| u32::from_le_bytes(*length))),
        version => {
            return Err(wrong(format!(
                "version {}.{} of the format of arrays; 1.0 to 3.0 are known",
                version[0], version[1]
            )));
        }
    };
    let length = length.ok_or_else(cut)? as usize;
    if length > HEAD_MAX_BYTES - 12 {
        return Err(wrong(format!("a head of {length} bytes, at most {} are read", HEAD_MAX_BYTES - 12)));
    }
    let data_offset = start + length;
    let text = bytes
        .get(start..data_offset)
        .ok_or_else(|| wrong(format!("truncated: the head is {data_offset} bytes, there are {}", bytes.len())))?;
    let mut text = Text { rest: text };
    let (mut dtype, mut is_fortran, mut shape) = (None, None, None);
    text.expect(b'{')?;
    while !text.takes(b'}') {
        let key = text.string()?;
        text.expect(b':')?;
        // Each key once: a second would be another array to another reader.
        match key {
            "descr" if dtype.is_none() => dtype = Some(text.dtype()?),
            "fortran_order" if is_fortran.is_none() => is_fortran = Some(text.truth()?),
            "shape" if shape.is_none() => shape = Some(text.shape()?),
            _ => return Err(wrong("a head has the keys descr, fortran_order and shape, each once")),
        }
        if !text.takes(b',') {
            text.expect(b'}')?;
            break;
        }
    }
    text.skip_blanks();
    if !text.rest.is_empty() {
        return Err(wrong("its head continues after the dict"));
    }
    let (Some(dtype), Some(is_fortran), Some(shape)) = (dtype, is_fortran, shape) else {
        return Err(wrong("a head has the keys descr, fortran_order and shape, each once"));
    };
    let item_bytes = item_bytes(dtype)?;
    // As numpy counts: an axis of 0 does not make the others small.
    let at_least_one = shape.iter().try_fold(item_bytes.max(1), |bytes, &axis| bytes.checked_mul(axis.max(1)));
    if at_least_one.is_none_or(|bytes| bytes > i64::MAX as u64) {
        return Err(wrong(format!("array {} of {dtype} would be 2^63 bytes and more", shape_text(&shape))));
    }
    let data_bytes = shape.iter().product::<u64>() * item_bytes;
    Ok(Head { dtype, item_bytes, shape, is_fortran, data_offset, data_bytes })
}

/// Whether an error of [`read_head`] is a type that is not read, Python objects or structures, and no damage.
pub fn is_unsupported(error: &Error) -> bool {
    [OBJECTS, STRUCTURED].contains(&&*error.what())
}

fn wrong(what: impl Into<String>) -> Error {
    Error::data(what)
}

/// A shape as Python prints it: `(3, 4)`, and `(3,)`.
fn shape_text(shape: &[u64]) -> String {
    let axes: Vec<_> = shape.iter().map(u64::to_string).collect();
    let comma = if axes.len() == 1 { "," } else { "" };
    format!("({}{comma})", axes.join(", "))
}

/// Length in bytes of an item of `dtype`.
///
/// Source: numpy 2, "The array interface protocol", `typestr`.
fn item_bytes(dtype: &str) -> Result<u64> {
    let odd = || wrong(format!("items of type {dtype:?}, which is neither plain numbers nor text"));
    let (order, rest) = dtype.split_at_checked(1).ok_or_else(odd)?;
    let (kind, rest) = rest.split_at_checked(1).ok_or_else(odd)?;
    if kind == "O" {
        return Err(wrong(OBJECTS));
    }
    let (digits, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let count: u64 = digits.parse::<u32>().map_err(|_| odd())?.into();
    // `[ns]`, `[25us]`.
    let is_unit = |unit: &str| {
        let inner = unit.strip_prefix('[').and_then(|unit| unit.strip_suffix(']'));
        inner.is_some_and(|inner| (1..=16).contains(&inner.len()) && inner.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    let (is_fine, bytes) = match kind {
        "b" => (count == 1, 1),
        "i" | "u" => (matches!(count, 1 | 2 | 4 | 8), count),
        "f" => (matches!(count, 2 | 4 | 8 | 12 | 16), count),
        "c" => (matches!(count, 8 | 16 | 24 | 32), count),
        "m" | "M" => (count == 8, 8),
        "S" | "V" => (true, count),
        "U" => (true, count * 4),
        _ => return Err(odd()),
    };
    let has_order = match order {
        "<" | ">" => true,
        // Without an order, or in that of whatever machine wrote it: fine where items have none.
        "|" | "=" => count == 1 && kind != "U" || matches!(kind, "S" | "V"),
        _ => false,
    };
    let unit_fits = unit.is_empty() || matches!(kind, "m" | "M") && is_unit(unit);
    if is_fine && has_order && unit_fits { Ok(bytes) } else { Err(odd()) }
}

/// The rest of the dict, as `repr` writes it; blanks may be anywhere, and strings in either sort of quotes.
struct Text<'a> {
    rest: &'a [u8],
}

impl<'a> Text<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        match self.takes(byte) {
            true => Ok(()),
            false => Err(wrong(format!(
                "its head is not a dict as numpy writes it: no {:?} where one is expected",
                char::from(byte)
            ))),
        }
    }

    fn string(&mut self) -> Result<&'a str> {
        self.skip_blanks();
        let parts = self.rest.split_first().filter(|(quote, _)| matches!(quote, b'\'' | b'"'));
        let parts = parts.and_then(|(quote, rest)| Some((rest, rest.iter().position(|byte| byte == quote)?)));
        let text = parts.and_then(|(rest, end)| {
            self.rest = &rest[end + 1..];
            let text = str::from_utf8(&rest[..end]).ok()?;
            text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\').then_some(text)
        });
        text.ok_or_else(|| wrong("its head is not a dict as numpy writes it: no string where one is expected"))
    }

    fn dtype(&mut self) -> Result<&'a str> {
        self.skip_blanks();
        match self.rest.first() {
            Some(b'[' | b'(') => Err(wrong(STRUCTURED)),
            _ => self.string(),
        }
    }

    fn truth(&mut self) -> Result<bool> {
        self.skip_blanks();
        for (word, is_true) in [(&b"True"[..], true), (b"False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(is_true);
            }
        }
        Err(wrong("fortran_order is neither True nor False"))
    }

    fn shape(&mut self) -> Result<Vec<u64>> {
        let mut shape = Vec::new();
        self.expect(b'(')?;
        while !self.takes(b')') {
            if self.takes(b'-') {
                return Err(wrong("an axis of a negative length"));
            }
            let digits = self.rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(self.rest.len());
            let (axis, rest) = self.rest.split_at(digits);
            // Python 2 wrote 3L.
            self.rest = rest.strip_prefix(b"L").unwrap_or(rest);
            let axis = str::from_utf8(axis).ok().filter(|axis| !axis.is_empty());
            let axis = axis.ok_or_else(|| wrong("an axis whose length is not a whole number"))?;
            let axis = axis.parse::<u64>().ok().filter(|&axis| axis <= i64::MAX as u64);
            shape.push(axis.ok_or_else(|| wrong("an axis of 2^63 and more"))?);
            if shape.len() > MAX_AXES {
                return Err(wrong(format!("more than {MAX_AXES} axes")));
            }
            let is_more = self.takes(b',');
            // `(3)` is a number, no tuple.
            if !is_more && (shape.len() == 1 || !self.takes(b')')) {
                return Err(wrong("its shape is not a tuple"));
            }
            if !is_more {
                break;
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_those_of_numpy() {
        let one = b"\x93NUMPY\x01\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
        let two = b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': True, 'shape': (3, 40), }";
        for (found, start) in [(head("|u1", &[3], false), &one[..]), (head("<f4", &[3, 40], true), &two[..])] {
            assert_eq!(found.len(), 128);
            assert!(found.starts_with(start) && found.ends_with(b" \n"), "{}", String::from_utf8_lossy(&found));
        }
        for shape in [&[][..], &[0], &[9], &[10], &[1; 32], &[u64::MAX; 32], &[99, 100, 101]] {
            for (dtype, is_fortran) in [("|u1", false), ("<U123456789", true)] {
                let found = head(dtype, shape, is_fortran);
                let text = String::from_utf8(found[10..].to_vec()).unwrap();
                let order = if is_fortran { "True" } else { "False" };
                let shape = shape_text(shape);
                let expected = format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}");
                assert_eq!(text.trim_end(), expected);
                assert_eq!(
                    (found.len() % 64, found.len() - 10),
                    (0, usize::from(u16::from_le_bytes([found[8], found[9]])))
                );
                assert!(found.len() - expected.len() < 11 + 64 && text.ends_with('\n'));
            }
        }
    }

    /// A file with this dict.
    fn file(version: u8, dict: &str) -> Vec<u8> {
        let mut bytes = [MAGIC, &[version, 0][..]].concat();
        match version {
            1 => bytes.extend_from_slice(&(dict.len() as u16).to_le_bytes()),
            _ => bytes.extend_from_slice(&(dict.len() as u32).to_le_bytes()),
        }
        bytes.extend_from_slice(dict.as_bytes());
        bytes
    }

    fn dict(descr: &str, shape: &str) -> String {
        format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}  \n")
    }

    #[test]
    fn what_is_written_is_read() {
        for (dtype, item_bytes) in
            [("|b1", 1), ("|u1", 1), ("<f2", 2), (">c16", 16), ("<U3", 12), ("|S0", 0), ("<M8[ns]", 8), ("<f16", 16)]
        {
            for shape in [&[][..], &[0], &[3], &[2, 0, 5], &[37, 64], &[1; 64]] {
                for is_fortran in [false, true] {
                    let bytes = head(dtype, shape, is_fortran);
                    let data_bytes = shape.iter().product::<u64>() * item_bytes;
                    let expected = Head {
                        dtype,
                        item_bytes,
                        shape: shape.to_vec(),
                        is_fortran,
                        data_offset: bytes.len(),
                        data_bytes,
                    };
                    assert_eq!(read_head(&bytes).unwrap(), expected);
                    let (start, rest) = bytes.split_at(bytes.len() - 1);
                    assert!(read_head(start).is_err() && rest == b"\n", "cut");
                }
            }
        }
    }

    #[test]
    fn dicts_of_other_writers_and_versions_are_read() {
        let rows = [
            (2, dict("'<f4'", "(2, 3)"), vec![2, 3]),
            (3, dict("'<f4'", "(2, 3)"), vec![2, 3]),
            (1, dict("'<f4'", "(2L, 3L)"), vec![2, 3]),
            (1, "{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":False}".to_owned(), vec![2]),
            (1, "{ 'fortran_order' : False, 'shape' : ( ) , 'descr' : '<f4' }".to_owned(), vec![]),
        ];
        for (version, text, shape) in rows {
            let bytes = file(version, &text);
            let found = read_head(&bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((found.dtype, found.shape), ("<f4", shape), "{text}");
        }
    }

    #[test]
    fn heads_that_lie_or_hold_no_plain_items_are_refused_and_say_why() {
        let huge = "1, ".repeat(65);
        let rows = [
            ("negative", dict("'<f4'", "(-1, 3)"), "an axis of a negative length"),
            ("2^63", dict("'<f4'", "(9223372036854775808,)"), "an axis of 2^63 and more"),
            ("beyond 2^64", dict("'<f4'", "(99999999999999999999999,)"), "an axis of 2^63 and more"),
            (
                "product",
                dict("'|u1'", "(4294967296, 4294967296)"),
                "array (4294967296, 4294967296) of |u1 would be 2^63 bytes and more",
            ),
            (
                "product behind a 0",
                dict("'<f8'", "(0, 4611686018427387904)"),
                "array (0, 4611686018427387904) of <f8 would be 2^63 bytes and more",
            ),
            ("objects", dict("'|O'", "(3,)"), "items are Python objects: a pickle, which is not read"),
            (
                "structure",
                dict("[('a', '<f4'), ('\u{e4}', '<i8')]", "(3,)"),
                "items have named fields (a structured type), which plain arrays do not have",
            ),
            ("no order", dict("'f4'", "(3,)"), "items of type \"f4\", which is neither plain numbers nor text"),
            (
                "order of the machine",
                dict("'=f4'", "(3,)"),
                "items of type \"=f4\", which is neither plain numbers nor text",
            ),
            ("length", dict("'<f3'", "(3,)"), "items of type \"<f3\", which is neither plain numbers nor text"),
            (
                "unit of a number",
                dict("'<f4[ns]'", "(3,)"),
                "items of type \"<f4[ns]\", which is neither plain numbers nor text",
            ),
            ("no tuple", dict("'<f4'", "(3)"), "its shape is not a tuple"),
            ("a list", dict("'<f4'", "[3]"), "its head is not a dict as numpy writes it: no '(' where one is expected"),
            ("fraction", dict("'<f4'", "(3.5,)"), "its shape is not a tuple"),
            ("word", dict("'<f4'", "(x,)"), "an axis whose length is not a whole number"),
            ("axes", dict("'<f4'", &format!("({huge})")), "more than 64 axes"),
            (
                "twice",
                "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': ()}".to_owned(),
                "a head has the keys descr, fortran_order and shape, each once",
            ),
            (
                "lacks one",
                "{'descr': '<f4', 'shape': ()}".to_owned(),
                "a head has the keys descr, fortran_order and shape, each once",
            ),
            (
                "a number for truth",
                "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}".to_owned(),
                "fortran_order is neither True nor False",
            ),
            (
                "behind it",
                "{'descr': '<f4', 'fortran_order': True, 'shape': ()} + x".to_owned(),
                "its head continues after the dict",
            ),
            ("nothing", String::new(), "its head is not a dict as numpy writes it: no '{' where one is expected"),
        ];
        for (name, text, expected) in rows {
            for version in 1..=3 {
                assert_eq!(read_head(&file(version, &text)).unwrap_err().what(), expected, "{name}");
            }
        }
        for (bytes, expected) in [
            (&b"\x93NUMPY\x04\0v\0"[..], "version 4.0 of the format of arrays; 1.0 to 3.0 are known"),
            (b"\x93NUMPY\x02\0\xff\xff\xff\xff", "a head of 4294967295 bytes, at most 65536 are read"),
            (b"\x93NUMPY\x01\0v\0{", "truncated: the head is 128 bytes, there are 11"),
            (b"\x93NUMPY\x01", "truncated: the head ends within the first bytes"),
            (b"\x93NUMBY\x01\0", "does not begin as an array of numpy"),
        ] {
            assert_eq!(read_head(bytes).unwrap_err().what(), expected);
        }
    }

    #[test]
    fn items_are_as_many_bytes_as_the_head_says() {
        let bytes = head("<f4", &[2, 3], false);
        let head = read_head(&bytes).unwrap();
        let length = head.data_offset as u64 + 24;
        assert!(head.check_length(length).is_ok());
        let what = |bytes| head.check_length(bytes).unwrap_err().what();
        assert_eq!(what(length + 1), "1 byte behind the items: array (2, 3) of <f4 is 24 bytes");
        assert_eq!(what(length - 1), "truncated: array (2, 3) of <f4 is 24 bytes, there are 23");
        assert_eq!(what(5), "truncated: array (2, 3) of <f4 is 24 bytes, there are 0");
    }
}
