//! Caches pickles that differ only in numbers and items of arrays: from the second on, they are not interpreted again.
//!
//! Small samples are written by one loop, so most of their pickles have the same opcodes, names and shapes at the same bytes.
//! The value of such a pickle follows from an interpreted pickle and from its own numbers.
//!
//! A value built from a template equals the value that interpreting the pickle would give. Only operands of numbers may
//! differ, and bytes that [`Machine`] moved without reading them; everything else must be equal byte for byte.

use std::{cell::RefCell, iter, ops::Range};

use super::{EncodedRange, Machine, Object, Slot, Value};

/// Longest pickle in bytes that is kept as a template.
const LONGEST_BYTES: usize = 8 << 10;
/// Most parts of a pickle that may differ.
const MAX_PARTS: usize = 256;
/// Templates of a thread: lengths of numbers and of arrays are more than one.
const MAX_TEMPLATES: usize = 8;
/// Pickles that none fits, one after the other, until only few more become templates.
const PATIENCE: u32 = 2 * MAX_TEMPLATES as u32;

/// A pickle that was interpreted.
struct Template {
    bytes: Vec<u8>,
    /// Ranges that must be equal in another pickle; sorted.
    fixed: Vec<Range<usize>>,
    value: Value,
    /// Where the operand of each number of `value` lies, in the order in which they are written out; 0 for one that is fixed.
    numbers: Vec<u32>,
}

#[derive(Default)]
struct Templates {
    all: Vec<Template>,
    /// Which one makes room for the next.
    next: usize,
    /// Pickles since the last one that a template fitted.
    misses: u32,
}

thread_local! {
    static TEMPLATES: RefCell<Templates> = RefCell::default();
}

/// The value of a pickle, if a template matches.
pub(super) fn known(bytes: &[u8]) -> Option<Value> {
    TEMPLATES.with_borrow_mut(|templates| {
        let value = templates.all.iter().find_map(|template| template.value(bytes));
        templates.misses = if value.is_some() { 0 } else { templates.misses.saturating_add(1) };
        value
    })
}

/// Keeps the pickle that `machine` has interpreted as a template, if it can be one. It is of `root`, which is `value`.
pub(super) fn keep(machine: &Machine<'_>, root: Slot, value: &Value) {
    TEMPLATES.with_borrow_mut(|templates| {
        // Where pickles are all different, little is to be lost.
        let is_worth_it = templates.misses <= PATIENCE || templates.misses.is_power_of_two();
        let template = if is_worth_it { machine.template(root, value) } else { None };
        if let Some(template) = template {
            match templates.all.get_mut(templates.next) {
                Some(last) => *last = template,
                None => templates.all.push(template),
            }
            templates.next = (templates.next + 1) % MAX_TEMPLATES;
        }
    });
}

impl Template {
    fn value(&self, bytes: &[u8]) -> Option<Value> {
        let is_same = |range: &Range<usize>| bytes.get(range.clone()) == self.bytes.get(range.clone());
        if bytes.len() != self.bytes.len() || !self.fixed.iter().all(is_same) {
            return None;
        }
        made(&self.value, &mut self.numbers.iter(), bytes)
    }
}

/// A copy of `value` with the numbers of the pickle `bytes`.
fn made<'n>(value: &Value, numbers: &mut impl Iterator<Item = &'n u32>, bytes: &[u8]) -> Option<Value> {
    Some(match value {
        Value::Int(_) | Value::Float(_) => match numbers.next()? {
            0 => value.clone(),
            place => number(bytes, *place as usize)?.0,
        },
        Value::List(items) => {
            let items = items.iter().map(|item| made(item, numbers, bytes));
            Value::List(items.collect::<Option<_>>()?)
        }
        Value::Map(entries) => {
            let entry =
                |(key, value): &(Value, Value)| Some((made(key, numbers, bytes)?, made(value, numbers, bytes)?));
            Value::Map(entries.iter().map(entry).collect::<Option<_>>()?)
        }
        other => other.clone(),
    })
}

/// The number whose operand is at `place`, after its opcode, and the length of the operand in bytes.
fn number(bytes: &[u8], place: usize) -> Option<(Value, usize)> {
    let operand = bytes.get(place..)?;
    Some(match bytes.get(place.checked_sub(1)?)? {
        b'K' => (Value::Int((*operand.first()?).into()), 1),
        b'M' => (Value::Int(u16::from_le_bytes(*operand.first_chunk()?).into()), 2),
        b'J' => (Value::Int(i32::from_le_bytes(*operand.first_chunk()?).into()), 4),
        b'G' => (Value::Float(f64::from_be_bytes(*operand.first_chunk()?)), 8),
        _ => return None,
    })
}

impl Machine<'_> {
    /// The interpreted pickle as a template; `None` if the pickle is too long, has too many parts, or bytes that may differ
    /// influenced the result.
    fn template(&self, root: Slot, value: &Value) -> Option<Template> {
        let bytes = self.cursor.bytes;
        if bytes.len() > LONGEST_BYTES || self.has_storage {
            return None;
        }
        let (mut numbers, mut free) = (Vec::new(), Vec::new());
        self.parts(root, &mut numbers, &mut free)?;
        free.sort_unstable_by_key(|range| (range.start, range.end));
        free.dedup();
        let is_looked_at = |range: &Range<usize>| {
            let looked = self.memory.looked.borrow();
            looked.iter().any(|(start, end)| range.start < *end as usize && (*start as usize) < range.end)
        };
        if free.is_sorted_by(|one, next| one.end <= next.start) && !free.iter().any(is_looked_at) {
            let starts = iter::once(0).chain(free.iter().map(|range| range.end));
            let ends = free.iter().map(|range| range.start).chain(iter::once(bytes.len()));
            let fixed = starts.zip(ends).map(|(start, end)| start..end).collect();
            return Some(Template { bytes: bytes.to_vec(), fixed, value: value.clone(), numbers });
        }
        None
    }

    /// Collects the positions of all numbers in `slot`, in the order in which it is written out, and the ranges of the pickle
    /// that may differ; `None` if they are too many.
    fn parts(&self, slot: Slot, numbers: &mut Vec<u32>, free: &mut Vec<Range<usize>>) -> Option<()> {
        if numbers.len() + free.len() > MAX_PARTS {
            return None;
        }
        match slot {
            Slot::Int(_, place) | Slot::Float(_, place) => {
                numbers.push(place);
                if place > 0 {
                    let start = place as usize;
                    free.push(start..start + number(self.cursor.bytes, start)?.1);
                }
            }
            Slot::Bytes(start, end) => free.push(start as usize..end as usize),
            Slot::Object(at) => match self.object(at) {
                Object::Tuple(..) => self.tuple(slot)?.iter().try_for_each(|item| self.parts(*item, numbers, free))?,
                Object::List(items) => items.iter().try_for_each(|item| self.parts(*item, numbers, free))?,
                Object::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                    self.parts(*key, numbers, free)?;
                    self.parts(*value, numbers, free)
                })?,
                Object::Array(array) => match &array.data {
                    EncodedRange::Plain(range) => free.push(range.clone()),
                    EncodedRange::Latin1 { .. } | EncodedRange::Owned(_) => {}
                },
                _ => {}
            },
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
