//! Parses PyTorch tensors as `pickle.dumps` writes them: with the storage inside, in the format of `torch.save` before zip
//! files.
//!
//! Shape, strides and offset stay within the storage. Items are ranges in the input, and are copied only if their order is no
//! order of an array.
//!
//! Written by: PyTorch 1 and 2, `Tensor.__reduce_ex__` and `_legacy_save`. The storage is five pickles (magic, version, sizes of
//! the machine, the storage's type and length, its key), a count of 64 bits, and the items.
//!
//! Refused: bfloat16 and other types that numpy lacks, tensors of a big-endian machine, sparse and quantised tensors.

use std::{ops::Range, sync::Arc};

use super::{super::Array, Dtype, EncodedRange, Global, Machine, Object, Slot, Storages, Value};

/// Prefix of a storage: a pickle of the number 0x1950a86a20f9469cfc6c.
const MAGIC: &[u8] = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";
/// Version of the storage format.
const VERSION: i64 = 1001;

/// The type of the items of `torch.NAME`, if numpy has it.
pub(super) fn storage_dtype(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"FloatStorage" => "<f4",
        b"DoubleStorage" => "<f8",
        b"HalfStorage" => "<f2",
        b"LongStorage" => "<i8",
        b"IntStorage" => "<i4",
        b"ShortStorage" => "<i2",
        b"CharStorage" => "|i1",
        b"ByteStorage" => "|u1",
        b"BoolStorage" => "|b1",
        b"ComplexFloatStorage" => "<c8",
        b"ComplexDoubleStorage" => "<c16",
        _ => return None,
    })
}

impl Machine<'_> {
    /// A storage, from the bytes that it was saved to.
    pub(super) fn load_storage(&mut self, saved: Slot) -> Result<(), String> {
        self.has_storage = true;
        if self.is_storage {
            return Err("a storage within a storage".to_owned());
        }
        let saved = self.bytes(saved).filter(|_| !self.is_text(saved)).ok_or("a storage that is not bytes")?;
        self.room.work(saved.len())?;
        let bytes = saved.read(self.cursor.bytes);
        let (dtype, items) = items(&bytes).map_err(|what| format!("storage of a tensor: {what}"))?;
        let items = match &saved {
            EncodedRange::Plain(range) => EncodedRange::Plain(range.start + items.start..range.start + items.end),
            EncodedRange::Latin1 { .. } | EncodedRange::Owned(_) => EncodedRange::Owned(bytes[items].into()),
        };
        let count = items.len() as u64 / dtype.item_bytes();
        self.push_object(Object::Array(Arc::new(dtype.array(vec![count], false, items)?)), 0)
    }

    /// Records the storage in a persistent id: `('storage', type, key, location, items, None)`.
    pub(super) fn storage_id(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        let id = match self.tuple(id) {
            Some(&[word, Slot::Global(Global::Storage(dtype)), _, _, Slot::Int(count, _), Slot::None])
                if self.name(word).as_deref() == Some(b"storage") =>
            {
                Some((dtype, count))
            }
            _ => None,
        };
        let (dtype, count) = id.ok_or("a persistent id that is no storage")?;
        self.storage = Some((Dtype::parse(dtype.as_bytes())?, count));
        self.push(Slot::None)
    }

    /// A storage behind the pickle, of a persistent id: `('storage', type, key, location, items)`.
    pub(super) fn outer_storage(&mut self, storages: &Storages<'_>) -> Result<(), String> {
        let id = self.pop()?;
        let wrong = || "a persistent id that is no storage".to_owned();
        let (dtype, key, count) = match self.tuple(id) {
            Some(&[word, dtype, key, _, Slot::Int(count, _), ..]) if self.name(word).as_deref() == Some(b"storage") => {
                match dtype {
                    Slot::Global(Global::Storage(dtype)) => (Dtype::parse(dtype.as_bytes())?, key, count),
                    // A type that is not read.
                    Slot::Object(number) if matches!(self.object(number), Object::Foreign(_)) => {
                        return self.push(dtype);
                    }
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        };
        let key = self.name(key).ok_or_else(wrong)?;
        let missing = || format!("storage {} is missing", String::from_utf8_lossy(&key));
        let count = u64::try_from(count).map_err(|_| wrong())?;
        let bytes = count.checked_mul(dtype.item_bytes()).ok_or_else(wrong)?;
        let range = storages(&key, bytes).ok_or_else(missing)?;
        let array = dtype.array(vec![count], false, EncodedRange::Plain(range))?;
        self.push_object(Object::Array(Arc::new(array)), 0)
    }

    /// A tensor, of its storage and where its items lie in that.
    pub(super) fn rebuild_tensor(&mut self, arguments: [Slot; 4]) -> Result<(), String> {
        self.has_storage = true;
        let wrong = || "a tensor without storage, offset, size and stride".to_owned();
        let [Slot::Object(storage), Slot::Int(offset, _), size, stride] = arguments else { return Err(wrong()) };
        if let Object::Foreign(_) = self.object(storage) {
            return self.push(Slot::Object(storage));
        }
        let Object::Array(storage) = self.object(storage) else { return Err(wrong()) };
        let (storage, shape, strides) = (Arc::clone(storage), self.shape(size)?, self.shape(stride)?);
        let (Ok(offset), &[held]) = (u64::try_from(offset), &storage.shape[..]) else { return Err(wrong()) };
        if shape.len() != strides.len() {
            return Err(wrong());
        }
        let dtype = Dtype::parse(storage.dtype.as_bytes())?;
        let places = Places { held, offset, shape, strides };
        let input = self.cursor.bytes;
        let array = places.array(dtype, &storage.data, input, |bytes| self.room.work(bytes))?;
        self.push_object(Object::Array(Arc::new(array)), 0)
    }
}

/// Positions of the items of a tensor in its storage, counted in items.
struct Places {
    /// Items of the storage.
    held: u64,
    offset: u64,
    shape: Vec<u64>,
    /// As many as there are axes.
    strides: Vec<u64>,
}

impl Places {
    /// The items as an array; `work` is called before bytes are copied.
    fn array(
        self,
        dtype: Dtype,
        data: &EncodedRange,
        input: &[u8],
        work: impl FnOnce(usize) -> Result<(), String>,
    ) -> Result<Array, String> {
        let Self { held, offset, shape, strides } = self;
        if shape.contains(&0) {
            return dtype.array(shape, false, EncodedRange::Plain(0..0));
        }
        let outside = || "a tensor that does not lie in its storage".to_owned();
        let further = |last: u64, (axis, stride): (&u64, &u64)| last.checked_add((axis - 1).checked_mul(*stride)?);
        let last = shape.iter().zip(&strides).try_fold(offset, further);
        last.filter(|last| *last < held).ok_or_else(outside)?;
        let count = shape.iter().try_fold(1u64, |count, axis| count.checked_mul(*axis));
        // Items that stand for several places are no data of their own.
        let count = count.filter(|count| *count <= held).ok_or("a tensor that repeats items of its storage")?;
        let item_bytes = dtype.item_bytes() as usize;
        // Neither is more than the items of the storage, which are in memory.
        let (start, bytes) = (offset as usize * item_bytes, count as usize * item_bytes);
        let in_c = is_dense(shape.iter().zip(&strides).rev());
        let is_fortran = !in_c && is_dense(shape.iter().zip(&strides));
        if let (true, EncodedRange::Plain(range)) = (in_c || is_fortran, data) {
            let start = range.start + start;
            return dtype.array(shape, is_fortran, EncodedRange::Plain(start..start + bytes));
        }
        if data.range().is_some_and(|range| range.end > input.len()) {
            return Err("a tensor whose items do not lie together: save it after contiguous()".to_owned());
        }
        work(bytes)?;
        let data = data.read(input);
        let mut out = Vec::with_capacity(bytes);
        let mut place = vec![0u64; shape.len()];
        for _ in 0..count {
            let at: u64 = place.iter().zip(&strides).map(|(place, stride)| place * stride).sum();
            let at = start + at as usize * item_bytes;
            out.extend_from_slice(data.get(at..at + item_bytes).ok_or_else(outside)?);
            for (place, axis) in place.iter_mut().zip(&shape).rev() {
                *place += 1;
                if *place < *axis {
                    break;
                }
                *place = 0;
            }
        }
        dtype.array(shape, false, EncodedRange::Owned(out.into()))
    }
}

/// Whether items lie one after the other, where these are lengths and strides of axes, from that which changes fastest.
fn is_dense<'a>(mut axes: impl Iterator<Item = (&'a u64, &'a u64)>) -> bool {
    let mut step = 1;
    axes.all(|(axis, stride)| {
        let is_next = *axis == 1 || *stride == step;
        step *= axis;
        is_next
    })
}

/// The type of the items of a saved storage, and their range in the storage.
fn items(saved: &[u8]) -> Result<(Dtype, Range<usize>), String> {
    if !saved.starts_with(MAGIC) {
        return Err("it does not begin like a file of torch.save".to_owned());
    }
    let mut at = MAGIC.len();
    let mut next = || -> Result<(Value, &[u8], Option<(Dtype, i64)>), String> {
        let rest = saved.get(at..).unwrap_or_default();
        let mut machine = Machine { is_storage: true, ..Machine::new(rest) };
        let root = machine.run()?;
        at += machine.cursor.at;
        Ok((machine.value(root)?, rest, machine.storage))
    };
    if next()?.0 != Value::Int(VERSION) {
        return Err(format!("its version is not {VERSION}"));
    }
    let (sizes, input, _) = next()?;
    if sizes.get(input, "little_endian") != Some(&Value::Bool(true)) {
        return Err("it is not of a little-endian machine".to_owned());
    }
    let (_, _, id) = next()?;
    let (dtype, count) = id.ok_or("it describes no storage")?;
    let (keys, _, _) = next()?;
    if keys.items().map(<[_]>::len) != Some(1) {
        return Err("it is not of one storage".to_owned());
    }
    let rest = saved.get(at..).unwrap_or_default();
    let claimed = rest.first_chunk().map(|count| i64::from_le_bytes(*count));
    let bytes = u64::try_from(count).ok().and_then(|count| count.checked_mul(dtype.item_bytes()));
    let start = at + size_of::<i64>();
    match claimed {
        Some(claimed) if claimed == count && bytes == Some(saved.len().saturating_sub(start) as u64) => {
            Ok((dtype, start..saved.len()))
        }
        _ => Err(format!("{count} items of {dtype} do not match its length")),
    }
}
