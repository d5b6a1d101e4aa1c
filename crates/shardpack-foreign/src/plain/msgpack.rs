//! Values of msgpack, numpy arrays as msgpack-numpy keeps them among them.
//!
//! Specification: <https://github.com/msgpack/msgpack/blob/master/spec.md>, 2017. Extension types are refused. Writers
//! of before 2013 keep bytes as text, so text that is not UTF-8 is bytes.

use std::sync::Arc;

use super::{Array, EncodedRange, MAX_DEPTH, Room, Value, cursor::Cursor, dtype::Dtype, made, too_deep};

/// Reads a value.
///
/// # Errors
/// If it is corrupt, has parts that are no plain data, or is followed by more.
pub fn msgpack(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = Reader { cursor: Cursor::new(bytes), room: Room::for_input(bytes) };
    let value = reader.value(0).and_then(|value| match reader.cursor.left() {
        0 => Ok(value),
        left => Err(format!("{left} bytes follow the value")),
    });
    value.map_err(|what| format!("msgpack, byte {}: {what}", reader.cursor.at))
}

struct Reader<'b> {
    cursor: Cursor<'b>,
    room: Room,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(match self.cursor.byte()? {
            number @ 0..=0x7f => Value::Int(number.into()),
            number @ 0xe0.. => Value::Int(number.cast_signed().into()),
            first @ 0x80..=0x8f => self.map(u64::from(first & 0xf), depth)?,
            first @ 0x90..=0x9f => self.list(u64::from(first & 0xf), depth)?,
            first @ 0xa0..=0xbf => self.text(u64::from(first & 0x1f))?,
            0xc0 => Value::None,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            length @ 0xc4..=0xc6 => {
                let bytes = self.length(length - 0xc4)?;
                Value::Bytes(EncodedRange::Plain(self.cursor.range(bytes)?))
            }
            0xca => Value::Float(f32::from_be_bytes(self.cursor.array()?).into()),
            0xcb => Value::Float(f64::from_be_bytes(self.cursor.array()?)),
            length @ 0xcc..=0xcf => i64::try_from(self.length(length - 0xcc)?).map_or(Value::Huge, Value::Int),
            0xd0 => Value::Int(i8::from_be_bytes(self.cursor.array()?).into()),
            0xd1 => Value::Int(i16::from_be_bytes(self.cursor.array()?).into()),
            0xd2 => Value::Int(i32::from_be_bytes(self.cursor.array()?).into()),
            0xd3 => Value::Int(i64::from_be_bytes(self.cursor.array()?)),
            length @ 0xd9..=0xdb => {
                let bytes = self.length(length - 0xd9)?;
                self.text(bytes)?
            }
            length @ (0xdc | 0xdd) => {
                let count = self.length(length - 0xdb)?;
                self.list(count, depth)?
            }
            length @ (0xde | 0xdf) => {
                let count = self.length(length - 0xdd)?;
                self.map(count, depth)?
            }
            0xc1 => return Err("byte c1 begins no value".to_owned()),
            ext @ (0xc7..=0xc9 | 0xd4..=0xd8) => {
                return Err(format!("an extension type ({ext:x}), which is not plain data"));
            }
        })
    }

    /// A number of 1, 2, 4 or 8 bytes.
    fn length(&mut self, log2_bytes: u8) -> Result<u64, String> {
        Ok(match log2_bytes {
            0 => self.cursor.byte()?.into(),
            1 => u16::from_be_bytes(self.cursor.array()?).into(),
            2 => u32::from_be_bytes(self.cursor.array()?).into(),
            _ => u64::from_be_bytes(self.cursor.array()?),
        })
    }

    fn text(&mut self, bytes: u64) -> Result<Value, String> {
        let range = self.cursor.range(bytes)?;
        let is_text = str::from_utf8(&self.cursor.bytes[range.clone()]).is_ok();
        let part = EncodedRange::Plain(range);
        Ok(if is_text { Value::Text(part) } else { Value::Bytes(part) })
    }

    /// Checks that there may be so many values. Each level of nested lists may claim as many as there are bytes, so room
    /// is taken for all that are claimed.
    fn count(&mut self, count: u64) -> Result<usize, String> {
        let left = self.cursor.left();
        // A value is a byte at least.
        let fits = usize::try_from(count).ok().filter(|count| *count <= left);
        let count = fits.ok_or_else(|| format!("{count} values are claimed, {left} bytes are left"))?;
        self.room.take(count)?;
        Ok(count)
    }

    fn list(&mut self, count: u64, depth: usize) -> Result<Value, String> {
        let count = self.count(count)?;
        made(count, |_| self.value(depth + 1)).map(Value::List)
    }

    fn map(&mut self, count: u64, depth: usize) -> Result<Value, String> {
        // Keys and values.
        let count = self.count(2 * count)? / 2;
        let map = Value::Map(made(count, |_| Ok((self.value(depth + 1)?, self.value(depth + 1)?)))?);
        let is_numpy = matches!(map.get(self.cursor.bytes, "nd"), Some(Value::Bool(_)));
        if is_numpy { numpy(&map, self.cursor.bytes) } else { Ok(map) }
    }
}

/// Converts a map written by msgpack-numpy: `nd`, `type`, `kind`, `shape` and `data`.
fn numpy(map: &Value, input: &[u8]) -> Result<Value, String> {
    let get = |name: &str| map.get(input, name).ok_or_else(|| format!("a numpy array without {name:?}"));
    let dtype = get("type")?;
    let Some(dtype) = dtype.as_text(input) else {
        return Err("an array of structures, which are no numbers".to_owned());
    };
    let dtype = Dtype::parse(dtype.as_bytes())?;
    // Writers that do not distinguish text from bytes may store a short array as text.
    let data = match get("data")? {
        Value::Bytes(part) | Value::Text(part) => part.clone(),
        other => return Err(format!("the data of a numpy array is {}", other.kind())),
    };
    if get("nd")? == &Value::Bool(true) {
        let axes = get("shape")?.items().ok_or("the shape of a numpy array is no list")?;
        let shape = axes.iter().map(|axis| axis.as_int().and_then(|axis| axis.try_into().ok()));
        let shape = shape.collect::<Option<_>>().ok_or("the shape of a numpy array is not of sizes")?;
        let array: Array = dtype.array(shape, false, data)?;
        return Ok(Value::Array(Arc::new(array)));
    }
    if dtype.item_bytes() != data.len() as u64 {
        return Err(format!("a number of {dtype} has {} bytes", data.len()));
    }
    match dtype.number(&data.read(input)).filter(|_| dtype.is_of_python()) {
        Some(number) => Ok(number.into()),
        None => Ok(Value::Array(Arc::new(dtype.array(Vec::new(), false, data)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::tests::{HWC, IMAGE, cuts_and_flips, fixture, text};

    #[test]
    fn lists_of_bytes_and_labels_are_read() {
        for name in ["tuple.msgpack", "tuple-old.msgpack"] {
            let bytes = fixture(name);
            let value = msgpack(&bytes).unwrap();
            let [image, label] = value.items().unwrap() else { panic!("{value:?}") };
            assert_eq!(&bytes[image.as_bytes().unwrap().range().unwrap()], IMAGE, "{name}");
            assert_eq!(label.as_int(), Some(7), "{name}");
        }
    }

    #[test]
    fn every_plain_type_is_read() {
        let bytes = fixture("all.msgpack");
        let value = msgpack(&bytes).unwrap();
        let get = |name| value.get(&bytes, name).unwrap();
        let ints = [0, 127, 128, 255, 256, 65535, 65536, 1 << 32, i64::MAX, -1, -32, -33, -129, -32769, i64::MIN];
        assert_eq!(get("ints"), &Value::List(ints.map(Value::Int).to_vec()));
        assert_eq!(get("huge"), &Value::Huge);
        assert_eq!(get("floats"), &Value::List(vec![Value::Float(0.5), Value::Float(-1e300)]));
        assert_eq!(get("none"), &Value::None);
        assert_eq!(get("bools"), &Value::List(vec![Value::Bool(true), Value::Bool(false)]));
        assert_eq!(get("text").as_text(&bytes).unwrap(), text());
        assert_eq!(get("long").as_text(&bytes).unwrap().len(), 300);
        assert_eq!(get("list").items().unwrap().len(), 20);
        assert_eq!(get("map").entries().unwrap().len(), 20);
        assert_eq!(get("map").entries().unwrap()[19], (Value::Int(19), Value::Int(-19)));
    }

    #[test]
    fn arrays_of_msgpack_numpy_are_read() {
        let bytes = fixture("numpy.msgpack");
        let value = msgpack(&bytes).unwrap();
        let [array, label, jpeg] = value.items().unwrap() else { panic!("{value:?}") };
        let Value::Array(array) = array else { panic!("{array:?}") };
        assert_eq!((array.dtype.as_str(), array.shape.as_slice(), array.is_fortran), ("|u1", &[2, 3, 3][..], false));
        assert_eq!(*array.data.read(&bytes), HWC);
        assert_eq!(label, &Value::Int(7));
        assert_eq!(*jpeg.as_bytes().unwrap().read(&bytes), *IMAGE);
    }

    #[test]
    fn what_is_not_plain_is_refused() {
        let deep = [b"\x91".repeat(10_000_000), vec![0xc0]].concat();
        let refused: [(&[u8], &str); 10] = [
            (&deep, "msgpack, byte 64: values are nested more than 64 deep"),
            (b"", "msgpack, byte 0: 1 bytes are wanted, 0 are left"),
            (b"\xc6\xff\xff\xff\xffabc", "msgpack, byte 5: 4294967295 bytes are claimed, 3 are left"),
            (b"\xdd\xff\xff\xff\xff\xc0", "msgpack, byte 5: 4294967295 values are claimed, 1 bytes are left"),
            (b"\xdf\xff\xff\xff\xff\xc0", "msgpack, byte 5: 8589934590 values are claimed, 1 bytes are left"),
            (b"\xd4\x01a", "msgpack, byte 1: an extension type (d4), which is not plain data"),
            (b"\xc1", "msgpack, byte 1: byte c1 begins no value"),
            (b"\xc0\xc0", "msgpack, byte 1: 1 bytes follow the value"),
            (b"\x81\xa2nd\xc3", "msgpack, byte 5: a numpy array without \"type\""),
            (
                b"\x84\xa2nd\xc3\xa4type\xa2O8\xa4data\xa0\xa5shape\x90",
                "msgpack, byte 26: an array of |O8, which are no numbers",
            ),
        ];
        for (bytes, what) in refused {
            assert_eq!(msgpack(bytes).unwrap_err(), what);
        }
    }

    #[test]
    fn damage_is_no_panic() {
        for name in ["tuple.msgpack", "tuple-old.msgpack", "all.msgpack", "numpy.msgpack"] {
            cuts_and_flips(&fixture(name), |bytes| drop(msgpack(bytes)));
        }
    }
}
