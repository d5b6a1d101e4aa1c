//! Calls the known functions with their arguments, and writes objects out as values.

use std::{borrow::Cow, sync::Arc};

use super::{
    super::{
        Array, by,
        dtype::{MAX_AXES, Number},
        made,
    },
    Dtype, EncodedRange, Global, MAX_DEPTH, Machine, Object, Room, Slot, Value, place, too_deep, underflow,
};

/// Bytes of the longest name of a type, order, codec.
const MAX_NAME_BYTES: usize = 32;

impl Machine<'_> {
    /// Calls `function`, which is one that is known.
    pub(super) fn reduce(&mut self, function: Slot, arguments: Slot) -> Result<(), String> {
        if let Slot::Object(number) = function
            && let Object::Foreign(_) = self.object(number)
        {
            return self.push(function);
        }
        let Slot::Global(function) = function else { return Err("a call of a value, not a function".to_owned()) };
        let wrong = || Err(format!("{function} is called with the wrong arguments"));
        let Some(arguments) = self.tuple(arguments) else { return wrong() };
        match (function, arguments) {
            (Global::Reconstruct, [Slot::Global(Global::Ndarray), _, _]) => self.push_object(Object::Unfilled, 0),
            (Global::Dtype, &[name, _, _] | &[name]) => {
                let name = self.name(name).ok_or("the name of a type is no text")?;
                let dtype = Dtype::parse(&name)?;
                self.push_object(Object::Dtype(dtype), 0)
            }
            (Global::Scalar, &[dtype, item]) => {
                let (Some(dtype), Some(item)) = (self.dtype(dtype), self.bytes(item)) else { return wrong() };
                self.scalar(dtype, item)
            }
            (Global::FromBuffer, &[data, dtype, shape, order]) => {
                let (Some(dtype), Some(_)) = (self.dtype(dtype), self.bytes(data)) else { return wrong() };
                let is_fortran = match self.name(order).as_deref() {
                    Some(b"C") => false,
                    Some(b"F") => true,
                    _ => return wrong(),
                };
                let array = self.array(dtype, shape, is_fortran, data)?;
                self.push_object(Object::Array(Arc::new(array)), 0)
            }
            (Global::Encode, &[text, codec]) | (Global::Bytearray, &[text, codec]) => {
                match self.name(codec).as_deref() {
                    Some(b"latin1" | b"latin-1") => self.encode(text),
                    _ => wrong(),
                }
            }
            (Global::Bytes | Global::Bytearray, []) => self.push(Slot::Bytes(0, 0)),
            (Global::Bytearray, &[bytes]) if self.bytes(bytes).is_some() && !self.is_text(bytes) => self.push(bytes),
            (Global::OrderedDict, []) => self.push_object(Object::Map(Vec::new()), 0),
            (Global::OrderedDict, &[pairs]) => {
                // As Python 2 has it: a list of lists of two.
                let Some(pairs) = self.sequence(pairs) else { return wrong() };
                let bytes = size_of_val(pairs).saturating_mul(2);
                let both = |pair: &Slot| match self.sequence(*pair) {
                    Some(&[key, value]) => Some([key, value]),
                    _ => None,
                };
                let items = pairs.iter().map(both).collect::<Option<Vec<_>>>();
                // A single copy is no longer than the list; the number of copies is limited.
                self.room.work(bytes)?;
                let Some(items) = items else { return wrong() };
                self.push_object(Object::Map(Vec::new()), 0)?;
                self.extend(items.as_flattened().to_vec())
            }
            (Global::LoadStorage, &[saved]) => self.load_storage(saved),
            (Global::RebuildTensor, &[storage, offset, size, stride, _, _, ..]) => {
                self.rebuild_tensor([storage, offset, size, stride])
            }
            _ => wrong(),
        }
    }

    /// Sets the content of an object.
    pub(super) fn build(&mut self, object: Slot, state: Slot) -> Result<(), String> {
        let Slot::Object(number) = object else { return Err("a state for an object without state".to_owned()) };
        if let Object::Foreign(_) = self.object(number) {
            return Ok(());
        }
        let state = self.tuple(state).ok_or("a state that is not a tuple")?;
        let built = match (self.object(number), state) {
            (Object::Dtype(dtype), &[Slot::Int(..), order, subtype, names, fields, ..]) => {
                if !matches!((subtype, names, fields), (Slot::None, Slot::None, Slot::None)) {
                    return Err("an array of structures, which are no numbers".to_owned());
                }
                match self.name(order).as_deref() {
                    Some([order @ (b'<' | b'>' | b'|' | b'=')]) => Object::Dtype(dtype.in_order(*order)),
                    _ => return Err("an order of bytes that is unknown".to_owned()),
                }
            }
            (Object::Unfilled, &[Slot::Int(..), shape, dtype, is_fortran, data]) => {
                let dtype = self.dtype(dtype).ok_or("an array without a type")?;
                let is_fortran = match is_fortran {
                    Slot::Bool(yes) => yes,
                    Slot::Int(number, place) => {
                        self.look_at(place);
                        number != 0
                    }
                    _ => return Err("an array without an order".to_owned()),
                };
                if dtype.is_objects() {
                    return self.fill(number, shape, is_fortran, data);
                }
                Object::Array(Arc::new(self.array(dtype, shape, is_fortran, data)?))
            }
            _ => return Err("a state for an object without state".to_owned()),
        };
        self.memory.objects[number as usize] = built;
        Ok(())
    }

    /// An array whose items are the bytes of `data`.
    fn array(&self, dtype: Dtype, shape: Slot, is_fortran: bool, data: Slot) -> Result<Array, String> {
        let items = self.bytes(data).ok_or("an array whose items are no bytes")?;
        if self.is_text(data) {
            // Text that is not UTF-8 was rejected earlier.
            self.look(&items);
        }
        dtype.array(self.shape(shape)?, is_fortran, items)
    }

    /// Makes the object `number` the list of an array's values, or of its rows.
    fn fill(&mut self, number: u32, shape: Slot, is_fortran: bool, items: Slot) -> Result<(), String> {
        let axes = self.shape(shape)?;
        let Some(items) = self.sequence(items) else { return Err("an array of values without a list".to_owned()) };
        let (bytes, count) = (size_of_val(items), items.len() as u64);
        // A single copy is no longer than the list; the number of copies is limited.
        let items = items.to_vec();
        self.room.work(bytes)?;
        let depth = self.depth_around(&items)?;
        let list = match axes[..] {
            [all] if all == count => items,
            [_, 0] if count == 0 => items,
            [rows, columns] if rows.checked_mul(columns) == Some(count) && !is_fortran => {
                let mut list = Vec::new();
                for row in items.chunks(usize::try_from(columns).map_err(|_| "an array of too many columns")?) {
                    self.push_object(Object::List(row.to_vec()), depth)?;
                    list.push(self.pop()?);
                }
                list
            }
            _ => return Err(format!("an array of {count} values and shape {}", by(&axes))),
        };
        self.memory.depths[number as usize] = self.depth_around(&list)?;
        self.memory.objects[number as usize] = Object::List(list);
        Ok(())
    }

    fn scalar(&mut self, dtype: Dtype, item: EncodedRange) -> Result<(), String> {
        if dtype.item_bytes() != item.len() as u64 {
            return Err(format!("a number of {dtype} has {} bytes", item.len()));
        }
        self.room.work(item.len())?;
        self.look(&item);
        let bytes = item.read(self.cursor.bytes);
        if dtype.is_bytes() {
            let bytes = Arc::from(&*bytes);
            return self.push_object(Object::Bytes(bytes), 0);
        }
        if dtype.is_text() {
            let code =
                |code: [u8; 4]| if dtype.is_big_endian() { u32::from_be_bytes(code) } else { u32::from_le_bytes(code) };
            let characters = bytes.as_chunks().0.iter().map(|bytes| char::from_u32(code(*bytes)));
            let text: String = characters.collect::<Option<_>>().ok_or("text that is not Unicode")?;
            return self.push_object(Object::Text(text.into_bytes().into()), 0);
        }
        // Types that Python itself has become Python's types.
        let number = match dtype.number(&bytes).filter(|_| dtype.is_of_python()) {
            Some(Number::Bool(yes)) => Slot::Bool(yes),
            Some(Number::Int(number)) => Slot::Int(number, 0),
            Some(Number::Float(number)) => Slot::Float(number, 0),
            Some(Number::Huge) | None => {
                let array = dtype.array(Vec::new(), false, item)?;
                return self.push_object(Object::Array(Arc::new(array)), 0);
            }
        };
        self.push(number)
    }

    /// Bytes of text whose characters are bytes.
    fn encode(&mut self, text: Slot) -> Result<(), String> {
        let part = self.bytes(text).filter(|_| self.is_text(text)).ok_or("a value that is not text is encoded")?;
        self.room.work(part.len())?;
        let bytes = part.read(self.cursor.bytes);
        let characters = str::from_utf8(&bytes).map_err(|_| "text that is not UTF-8")?.chars();
        let mut count = 0;
        for character in characters.clone() {
            if u8::try_from(character).is_err() {
                return Err(format!("{character:?} in text that stands for bytes"));
            }
            count += 1;
        }
        let object = match part.range() {
            Some(range) => {
                let (start, end) = place(range)?;
                Object::Latin1(start, end, count)
            }
            None => Object::Bytes(characters.filter_map(|character| u8::try_from(character).ok()).collect()),
        };
        self.push_object(object, 0)
    }

    pub(super) fn is_text(&self, slot: Slot) -> bool {
        match slot {
            Slot::Text(..) => true,
            Slot::Object(number) => matches!(self.object(number), Object::Text(_)),
            _ => false,
        }
    }

    /// The bytes of text or bytes.
    pub(super) fn bytes(&self, slot: Slot) -> Option<EncodedRange> {
        match slot {
            Slot::Text(start, end) | Slot::Bytes(start, end) => Some(EncodedRange::Plain(start as usize..end as usize)),
            Slot::Object(number) => match self.object(number) {
                &Object::Latin1(start, end, bytes) => {
                    Some(EncodedRange::Latin1 { range: start as usize..end as usize, bytes: bytes as usize })
                }
                Object::Text(bytes) | Object::Bytes(bytes) => Some(EncodedRange::Owned(Arc::clone(bytes))),
                _ => None,
            },
            _ => None,
        }
    }

    /// A short name.
    pub(super) fn name(&self, slot: Slot) -> Option<Cow<'_, [u8]>> {
        if let Slot::Text(start, end) | Slot::Bytes(start, end) = slot {
            let name = self.cursor.bytes.get(start as usize..end as usize)?;
            self.look(&EncodedRange::Plain(start as usize..end as usize));
            return (name.len() <= MAX_NAME_BYTES).then_some(Cow::Borrowed(name));
        }
        let part = self.bytes(slot).filter(|part| part.len() <= MAX_NAME_BYTES)?;
        Some(Cow::Owned(part.read(self.cursor.bytes).into_owned()))
    }

    fn dtype(&self, slot: Slot) -> Option<Dtype> {
        match slot {
            Slot::Object(number) => match self.object(number) {
                Object::Dtype(dtype) => Some(*dtype),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn shape(&self, slot: Slot) -> Result<Vec<u64>, String> {
        let axes = self.tuple(slot).ok_or("a shape that is no tuple")?;
        if axes.len() > MAX_AXES {
            return Err(format!("an array of {} axes", axes.len()));
        }
        let axis = |axis: &Slot| match axis {
            Slot::Int(axis, place) => {
                self.look_at(*place);
                u64::try_from(*axis).map_err(|_| format!("an axis of length {axis}"))
            }
            _ => Err("a shape that is not of sizes".to_owned()),
        };
        axes.iter().map(axis).collect()
    }

    pub(super) fn tuple(&self, slot: Slot) -> Option<&[Slot]> {
        match slot {
            Slot::Object(number) => match self.object(number) {
                Object::Tuple(start, end) => self.memory.items.get(*start as usize..*end as usize),
                _ => None,
            },
            _ => None,
        }
    }

    fn sequence(&self, slot: Slot) -> Option<&[Slot]> {
        match slot {
            Slot::Object(number) => match self.object(number) {
                Object::List(items) => Some(items),
                _ => self.tuple(slot),
            },
            _ => None,
        }
    }

    /// Writes a value out. Self-containing data exceeds the depth limit.
    pub(super) fn value(&self, slot: Slot) -> Result<Value, String> {
        self.written(slot, 0, &mut Room::for_input(self.cursor.bytes))
    }

    fn written(&self, slot: Slot, depth: usize, room: &mut Room) -> Result<Value, String> {
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        let number = match slot {
            Slot::None => return Ok(Value::None),
            Slot::Bool(yes) => return Ok(Value::Bool(yes)),
            Slot::Int(number, _) => return Ok(Value::Int(number)),
            Slot::Huge => return Ok(Value::Huge),
            Slot::Float(number, _) => return Ok(Value::Float(number)),
            Slot::Text(start, end) => return Ok(Value::Text(EncodedRange::Plain(start as usize..end as usize))),
            Slot::Bytes(start, end) => return Ok(Value::Bytes(EncodedRange::Plain(start as usize..end as usize))),
            Slot::Global(global) => return Err(format!("{global} itself is not plain data")),
            Slot::Object(number) => number,
        };
        Ok(match self.object(number) {
            Object::Tuple(..) => self.list(self.tuple(slot).unwrap_or_default(), depth, room)?,
            Object::List(items) => self.list(items, depth, room)?,
            Object::Map(entries) => {
                room.take(2 * entries.len())?;
                let entry = |at: usize| {
                    let (key, value) = entries[at];
                    Ok((self.written(key, depth + 1, room)?, self.written(value, depth + 1, room)?))
                };
                Value::Map(made(entries.len(), entry)?)
            }
            Object::Text(text) => Value::Text(EncodedRange::Owned(Arc::clone(text))),
            Object::Latin1(..) | Object::Bytes(_) => Value::Bytes(self.bytes(slot).ok_or_else(underflow)?),
            Object::Dtype(dtype) => return Err(format!("the type {dtype} itself is not plain data")),
            Object::Unfilled => return Err("an array without content".to_owned()),
            Object::Array(array) => Value::Array(Arc::clone(array)),
            Object::Foreign(what) => Value::Foreign(Arc::clone(what)),
        })
    }

    fn list(&self, items: &[Slot], depth: usize, room: &mut Room) -> Result<Value, String> {
        room.take(items.len())?;
        made(items.len(), |at| self.written(items[at], depth + 1, room)).map(Value::List)
    }
}
