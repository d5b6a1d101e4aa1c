//! Parses pickles of plain data: interprets the opcodes that numbers, text, bytes, containers and numpy arrays need.
//!
//! Nothing is executed, and only the names of [`Global`] resolve. A container is an index into a list of all containers, so
//! shared or self-containing data costs no more than its opcodes until [`Machine::value`] writes it out under limits. As with
//! `pickle.loads`, bytes after the end of a pickle are not read.
//!
//! Specification: `Lib/pickletools.py` of Python 3.11, protocols 0 to 5. Written by: Python 2.7 and 3, numpy 1 and 2.
//!
//! A value that needs any other class is not built: it carries the name of that class. Values beside it are built.
//!
//! Refused: sets, persistent ids but those of a tensor's storage, the extension registry, buffers kept elsewhere, arrays of objects,
//! structures or dates.

mod build;
mod global;
mod template;
mod tensor;
mod text;

use std::{
    cell::{Cell, RefCell},
    mem,
    ops::Range,
    sync::Arc,
};

use self::global::Global;
use super::{Array, EncodedRange, MAX_DEPTH, Room, Value, cursor::Cursor, dtype::Dtype, too_deep};

/// Maximum number of stack values without a mark, which announces a container of any length. Each level has at most its key,
/// its function and its arguments there.
const MAX_UNMARKED: usize = 16 * MAX_DEPTH;

/// Longest pickle in bytes whose memory is kept for the next one.
const KEPT_BYTES: usize = 64 << 10;

/// A value on the stack or in the memo. Places are of 32 bits: there may be many of these.
#[derive(Clone, Copy, Debug)]
enum Slot {
    None,
    Bool(bool),
    /// With the place of its operand behind an opcode of one byte; 0 if it has none.
    Int(i64, u32),
    Huge,
    /// Likewise.
    Float(f64, u32),
    Text(u32, u32),
    Bytes(u32, u32),
    Global(Global),
    /// A number into [`Machine::objects`].
    Object(u32),
}

/// Content shared by slots.
#[derive(Debug)]
enum Object {
    /// Where its items lie in [`Machine::items`].
    Tuple(u32, u32),
    List(Vec<Slot>),
    Map(Vec<(Slot, Slot)>),
    /// Bytes that lie in the input as characters: start, end, length.
    Latin1(u32, u32, u32),
    Text(Arc<[u8]>),
    Bytes(Arc<[u8]>),
    Dtype(Dtype),
    /// An array whose content is still missing.
    Unfilled,
    /// An object that is not plain data and is never built, with the reason.
    Foreign(Arc<str>),
    Array(Arc<Array>),
}

struct Machine<'b> {
    cursor: Cursor<'b>,
    room: Room,
    memory: Memory,
    /// Whether it is one of the pickles that the storage of a tensor is saved as, the only ones with persistent ids.
    is_storage: bool,
    /// The storage from the last persistent id: the type of its items, and their number.
    storage: Option<(Dtype, i64)>,
    /// Whether anything in it is made of storage.
    has_storage: bool,
    /// Where the storage of a key lies, of a pickle of `torch.save`.
    storages: Option<&'b Storages<'b>>,
}

/// Working memory of a machine; cleared and reused to save allocations.
#[derive(Default)]
struct Memory {
    stack: Vec<Slot>,
    /// Length of the stack at each mark.
    marks: Vec<usize>,
    memo: Vec<Option<Slot>>,
    objects: Vec<Object>,
    /// How deep each object is at least: it may have been filled after it was put into another.
    depths: Vec<u8>,
    /// The items of all tuples.
    items: Vec<Slot>,
    /// Buffer for slots taken from the stack.
    taken: Vec<Slot>,
    /// Ranges of numbers and bytes that influenced the result: every [`Slot::Int`], [`Slot::Float`] or [`Slot::Bytes`] that
    /// was read.
    looked: RefCell<Vec<(u32, u32)>>,
}

/// Where the storage of a key lies, and of so many bytes: a range behind the end of the pickle.
pub type Storages<'b> = dyn Fn(&[u8], u64) -> Option<Range<usize>> + 'b;

thread_local! {
    /// That of the last machine: there are many small pickles, and to allocate for each is most of the work.
    static MEMORY: Cell<Memory> = Cell::default();
}

/// Reads a pickle of any protocol.
///
/// # Errors
/// If the pickle is corrupt, or needs an object that is not plain data; the message names the object.
pub fn pickle(bytes: &[u8]) -> Result<Value, String> {
    if u32::try_from(bytes.len()).is_err() {
        return Err("a pickle of 4 GiB or more".to_owned());
    }
    match template::known(bytes) {
        Some(value) => Ok(value),
        None => interpreted(bytes),
    }
}

/// Reads the pickle of a file of `torch.save`: items of its tensors are ranges that `storages` returns, or within those. Also returns
/// the length of the pickle.
///
/// # Errors
/// As [`pickle`].
pub fn torch_pickle(bytes: &[u8], storages: &Storages<'_>) -> Result<(Value, usize), String> {
    if u32::try_from(bytes.len()).is_err() {
        return Err("a pickle of 4 GiB or more".to_owned());
    }
    let mut machine = Machine { storages: Some(storages), ..Machine::new(bytes) };
    let (_, value) = machine.whole(bytes)?;
    Ok((value, machine.cursor.at))
}

/// The same without a look at other pickles.
fn interpreted(bytes: &[u8]) -> Result<Value, String> {
    let mut machine = Machine::new(bytes);
    let value = machine.whole(bytes).map(|(root, value)| {
        template::keep(&machine, root, &value);
        value
    });
    if bytes.len() <= KEPT_BYTES {
        machine.keep_memory();
    }
    value
}

impl<'b> Machine<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        let (cursor, room) = (Cursor::new(bytes), Room::for_input(bytes));
        Self {
            cursor,
            room,
            memory: MEMORY.take(),
            is_storage: false,
            storage: None,
            has_storage: false,
            storages: None,
        }
    }

    /// Runs the whole pickle `bytes`, and writes out the result.
    fn whole(&mut self, bytes: &[u8]) -> Result<(Slot, Value), String> {
        let root = self.run().map_err(|what| format!("pickle, {what}"))?;
        if bytes.len() > KEPT_BYTES {
            // Writing the value out needs as much memory again.
            (self.memory.stack, self.memory.memo) = (Vec::new(), Vec::new());
        }
        match self.value(root).map_err(|what| format!("pickle: {what}"))? {
            Value::Foreign(what) => Err(format!("pickle, {what}")),
            value => Ok((root, value)),
        }
    }

    /// Keeps the memory for the next machine, empty.
    fn keep_memory(self) {
        let mut memory = self.memory;
        memory.stack.clear();
        memory.marks.clear();
        memory.memo.clear();
        memory.objects.clear();
        memory.depths.clear();
        memory.items.clear();
        memory.taken.clear();
        memory.looked.get_mut().clear();
        MEMORY.set(memory);
    }

    /// Runs the whole pickle; [`Machine::value`] writes out the result.
    fn run(&mut self) -> Result<Slot, String> {
        let mut start = 0;
        loop {
            match self.step() {
                Ok(None) => start = self.cursor.at,
                Ok(Some(root)) => return Ok(root),
                Err(what) => return Err(format!("byte {start}: {what}")),
            }
        }
    }

    /// Runs one opcode; returns the result at the end of the pickle.
    #[expect(clippy::too_many_lines, reason = "a table: one arm for each opcode")]
    fn step(&mut self) -> Result<Option<Slot>, String> {
        let opcode = self.cursor.byte()?;
        match opcode {
            0x80 => match self.cursor.byte()? {
                0..=5 => {}
                protocol => return Err(format!("protocol {protocol}, the last one known is 5")),
            },
            // FRAME: the content of the frame is read in sequence.
            0x95 => {
                let bytes = u64::from_le_bytes(self.cursor.array()?);
                let start = self.cursor.at;
                self.cursor.range(bytes)?;
                self.cursor.at = start;
            }
            b'.' => {
                let root = self.pop()?;
                if !self.memory.stack.is_empty() || !self.memory.marks.is_empty() {
                    return Err("it ends in the middle of a value".to_owned());
                }
                return Ok(Some(root));
            }

            b'N' => self.push(Slot::None)?,
            0x88 => self.push(Slot::Bool(true))?,
            0x89 => self.push(Slot::Bool(false))?,
            b'I' => {
                let number = match self.cursor.line()? {
                    b"00" => Slot::Bool(false),
                    b"01" => Slot::Bool(true),
                    line => text::int(line)?,
                };
                self.push(number)?;
            }
            b'J' => {
                let (place, number) = (self.cursor.at as u32, i32::from_le_bytes(self.cursor.array()?));
                self.push(Slot::Int(number.into(), place))?;
            }
            b'K' | b'M' => {
                let (place, number) = (self.cursor.at as u32, self.length(opcode)?.cast_signed());
                self.push(Slot::Int(number, place))?;
            }
            b'L' => {
                let line = self.cursor.line()?;
                self.push(text::int(line.strip_suffix(b"L").unwrap_or(line))?)?;
            }
            0x8a | 0x8b => {
                let bytes = self.length(opcode)?;
                let number = text::long(self.cursor.slice(bytes)?);
                self.push(number)?;
            }
            b'F' => {
                let number = text::float(self.cursor.line()?)?;
                self.push(Slot::Float(number, 0))?;
            }
            b'G' => {
                let (place, number) = (self.cursor.at as u32, f64::from_be_bytes(self.cursor.array()?));
                self.push(Slot::Float(number, place))?;
            }

            // BINBYTES …, BYTEARRAY8; BINSTRING: a Python 2 string is bytes.
            b'B' | b'C' | 0x8e | 0x96 | b'T' | b'U' => {
                let bytes = self.length(opcode)?;
                let (start, end) = place(self.cursor.range(bytes)?)?;
                self.push(Slot::Bytes(start, end))?;
            }
            b'X' | 0x8c | 0x8d => {
                let bytes = self.length(opcode)?;
                let range = self.cursor.range(bytes)?;
                str::from_utf8(&self.cursor.bytes[range.clone()]).map_err(|_| "text that is not UTF-8")?;
                let (start, end) = place(range)?;
                self.push(Slot::Text(start, end))?;
            }
            b'S' => {
                let bytes = text::string(self.cursor.line()?)?;
                self.push_object(Object::Bytes(bytes.into()), 0)?;
            }
            b'V' => {
                let text = text::unicode(self.cursor.line()?)?;
                self.push_object(Object::Text(text.into_bytes().into()), 0)?;
            }

            b')' => self.push_object(Object::Tuple(0, 0), 0)?,
            b']' => self.push_object(Object::List(Vec::new()), 0)?,
            b'}' => self.push_object(Object::Map(Vec::new()), 0)?,
            0x85..=0x87 => {
                let items = self.split(self.memory.stack.len().wrapping_sub(usize::from(opcode - 0x84)))?;
                self.push_tuple(items)?;
            }
            b't' | b'l' | b'd' => {
                let items = self.marked()?;
                match opcode {
                    b't' => self.push_tuple(items)?,
                    b'l' => {
                        let depth = self.depth_around(&items)?;
                        self.push_object(Object::List(items), depth)?;
                    }
                    _ => {
                        self.push_object(Object::Map(Vec::new()), 0)?;
                        self.extend(items)?;
                    }
                }
            }
            b'a' | b'e' | b's' | b'u' => {
                let count = if opcode == b'a' { 1 } else { 2 };
                let items = match opcode {
                    b'a' | b's' => self.split(self.memory.stack.len().wrapping_sub(count))?,
                    _ => self.marked()?,
                };
                let Slot::Object(number) = self.top()? else { return Err(no_container()) };
                if let Object::Foreign(_) = self.object(number) {
                    return Ok(None);
                }
                // APPEND is for lists, SETITEM for dicts.
                match (opcode, self.object(number)) {
                    (b'a' | b'e', Object::List(_)) | (b's' | b'u', Object::Map(_)) => self.extend(items)?,
                    _ => return Err(no_container()),
                }
            }

            b'(' => {
                // Each container that is not yet whole has a mark, its key or its arguments may have another.
                if self.memory.marks.len() >= 4 * MAX_DEPTH {
                    return Err(too_deep());
                }
                self.memory.marks.push(self.memory.stack.len());
            }
            b'0' => match self.memory.marks.pop_if(|mark| *mark == self.memory.stack.len()) {
                Some(_) => {}
                None => drop(self.pop()?),
            },
            b'1' => drop(self.marked()?),
            b'2' => {
                let top = self.top()?;
                self.push(top)?;
            }

            b'p' | b'q' | b'r' | 0x94 => {
                let number = match opcode {
                    b'p' => text::number(self.cursor.line()?)?,
                    0x94 => self.memory.memo.len(),
                    _ => self.memo_number(opcode)?,
                };
                let top = self.top()?;
                // Numbers are given one after the other, and each takes an opcode.
                if number >= self.memory.memo.len().max(self.cursor.bytes.len()) {
                    return Err(format!("number {number} in a memo of {}", self.memory.memo.len()));
                }
                if number >= self.memory.memo.len() {
                    self.memory.memo.resize(number + 1, None);
                }
                self.memory.memo[number] = Some(top);
            }
            b'g' | b'h' | b'j' => {
                let number = match opcode {
                    b'g' => text::number(self.cursor.line()?)?,
                    _ => self.memo_number(opcode)?,
                };
                let value = self.memory.memo.get(number).copied().flatten();
                self.push(value.ok_or_else(|| format!("number {number} is not in the memo"))?)?;
            }

            b'c' | b'i' => {
                let start = self.cursor.at - 1;
                let (module, name) = (self.cursor.line()?, self.cursor.line()?);
                let global = Global::from_name(module, name);
                if opcode == b'i' {
                    return Err(global.err().unwrap_or_else(|| "opcode INST, which is not plain data".to_owned()));
                }
                self.push_global(global, start)?;
            }
            0x93 => {
                let start = self.cursor.at - 1;
                let (name, module) = (self.pop()?, self.pop()?);
                let (Some(name), Some(module)) = (self.bytes(name), self.bytes(module)) else {
                    return Err("STACK_GLOBAL without names".to_owned());
                };
                let input = self.cursor.bytes;
                self.room.work(name.len().saturating_add(module.len()))?;
                self.look(&name);
                self.look(&module);
                let global = Global::from_name(&module.read(input), &name.read(input));
                self.push_global(global, start)?;
            }
            b'R' | 0x81 => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                self.reduce(function, arguments)?;
            }
            b'b' => {
                let state = self.pop()?;
                let object = self.top()?;
                self.build(object, state)?;
            }
            b'Q' if self.is_storage => self.storage_id()?,
            b'Q' if let Some(storages) = self.storages => self.outer_storage(storages)?,
            other => return Err(refused(other)),
        }
        Ok(None)
    }

    /// Pushes the class named at byte `start`, or the reason why it is unsupported; values built from it are left out.
    fn push_global(&mut self, global: Result<Global, String>, start: usize) -> Result<(), String> {
        match global {
            Ok(global) => self.push(Slot::Global(global)),
            // Of a tensor's storage there is nothing else to be read.
            Err(what) if self.is_storage => Err(what),
            Err(what) => {
                let what = format!("byte {start}: {what}");
                self.room.work(what.len())?;
                self.push_object(Object::Foreign(what.into()), 0)
            }
        }
    }

    /// A length or a number that follows an opcode.
    fn length(&mut self, opcode: u8) -> Result<u64, String> {
        Ok(match opcode {
            b'C' | b'U' | b'K' | 0x8a | 0x8c | b'q' | b'h' => self.cursor.byte()?.into(),
            b'M' => u16::from_le_bytes(self.cursor.array()?).into(),
            b'B' | b'X' | b'r' | b'j' => u32::from_le_bytes(self.cursor.array()?).into(),
            b'T' | 0x8b => {
                let length = i32::from_le_bytes(self.cursor.array()?);
                length.try_into().map_err(|_| format!("a length of {length}"))?
            }
            _ => u64::from_le_bytes(self.cursor.array()?),
        })
    }

    fn memo_number(&mut self, opcode: u8) -> Result<usize, String> {
        let number = self.length(opcode)?;
        usize::try_from(number).map_err(|_| format!("number {number} is not in the memo"))
    }

    /// Index of the last mark; slots below the mark must not be popped.
    fn floor(&self) -> usize {
        self.memory.marks.last().copied().unwrap_or(0)
    }

    fn push(&mut self, slot: Slot) -> Result<(), String> {
        if self.memory.marks.is_empty() && self.memory.stack.len() >= MAX_UNMARKED {
            return Err(too_deep());
        }
        self.memory.stack.push(slot);
        Ok(())
    }

    fn push_object(&mut self, object: Object, depth: u8) -> Result<(), String> {
        let number = u32::try_from(self.memory.objects.len()).map_err(|_| "too many values")?;
        self.memory.objects.push(object);
        self.memory.depths.push(depth);
        self.push(Slot::Object(number))
    }

    fn push_tuple(&mut self, items: Vec<Slot>) -> Result<(), String> {
        let depth = self.depth_around(&items)?;
        let start = self.memory.items.len();
        self.memory.items.extend_from_slice(&items);
        self.memory.taken = items;
        let (start, end) = place(start..self.memory.items.len())?;
        self.push_object(Object::Tuple(start, end), depth)
    }

    /// How deep a container of these is.
    fn depth_around(&self, items: &[Slot]) -> Result<u8, String> {
        let depth = |slot: &Slot| match slot {
            Slot::Object(number) => self.memory.depths[*number as usize] + 1,
            _ => 0,
        };
        let depth = items.iter().map(depth).max().unwrap_or(0);
        if usize::from(depth) >= MAX_DEPTH { Err(too_deep()) } else { Ok(depth) }
    }

    /// Puts items into the list or the map on top of the stack.
    fn extend(&mut self, items: Vec<Slot>) -> Result<(), String> {
        let depth = self.depth_around(&items)?;
        let Slot::Object(number) = self.top()? else { return Err(no_container()) };
        match &mut self.memory.objects[number as usize] {
            Object::List(list) => list.extend_from_slice(&items),
            Object::Map(map) => {
                let (pairs, rest) = items.as_chunks();
                if !rest.is_empty() {
                    return Err("a key without a value".to_owned());
                }
                map.extend(pairs.iter().map(|[key, value]| (*key, *value)));
            }
            _ => return Err(no_container()),
        }
        let known = &mut self.memory.depths[number as usize];
        *known = depth.max(*known);
        self.memory.taken = items;
        Ok(())
    }

    /// Records that the result depends on these bytes.
    fn look(&self, part: &EncodedRange) {
        if let EncodedRange::Plain(range) = part {
            // Below 4 GiB, as the whole pickle is.
            self.memory.looked.borrow_mut().push((range.start as u32, range.end as u32));
        }
    }

    /// Records that the result depends on the number whose operand is at `place`.
    fn look_at(&self, place: u32) {
        self.memory.looked.borrow_mut().push((place, place + 1));
    }

    fn object(&self, number: u32) -> &Object {
        &self.memory.objects[number as usize]
    }

    fn top(&self) -> Result<Slot, String> {
        self.memory.stack.get(self.floor()..).and_then(|values| values.last()).copied().ok_or_else(underflow)
    }

    fn pop(&mut self) -> Result<Slot, String> {
        let top = self.top()?;
        self.memory.stack.pop();
        Ok(top)
    }

    /// Pops the slots from `at` on.
    fn split(&mut self, at: usize) -> Result<Vec<Slot>, String> {
        match at {
            at if at >= self.floor() && at <= self.memory.stack.len() => Ok(self.take(at)),
            _ => Err(underflow()),
        }
    }

    /// Pops the slots from `at` on; `at` is within the stack.
    fn take(&mut self, at: usize) -> Vec<Slot> {
        let mut items = mem::take(&mut self.memory.taken);
        items.clear();
        items.extend(self.memory.stack.drain(at..));
        items
    }

    /// Pops the slots above the last mark, and the mark.
    fn marked(&mut self) -> Result<Vec<Slot>, String> {
        let at = self.memory.marks.pop().ok_or("there is no mark")?;
        Ok(self.take(at))
    }
}

fn place(range: Range<usize>) -> Result<(u32, u32), String> {
    let place = |at: usize| u32::try_from(at).map_err(|_| "a pickle of 4 GiB or more".to_owned());
    Ok((place(range.start)?, place(range.end)?))
}

fn underflow() -> String {
    "a value is missing on the stack".to_owned()
}

fn no_container() -> String {
    "values are added to an object that is not a container".to_owned()
}

fn refused(opcode: u8) -> String {
    let name = match opcode {
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        b'o' => "OBJ",
        0x92 => "NEWOBJ_EX",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        _ => return format!("{opcode:#04x} is no opcode"),
    };
    format!("opcode {name}, which is not plain data")
}

#[cfg(test)]
mod tests;
