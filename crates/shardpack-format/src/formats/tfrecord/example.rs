//! Parses `tf.train.Example` without trust in its bytes: features by key, each with its list of values. Also parses `SequenceExample`:
//! its context has the place of an Example's features on the wire, and its `feature_lists` have their values in steps.
//!
//! Holds at all times: every range found is within the data. `parse` allocates only a small entry for each feature, for at
//! most [`MAX_FEATURES`]. Messages are three deep, and so are the loops.

use std::{collections::BTreeMap, ops::Range};

use super::layout::Fault;
use crate::formats::foreign::Plain;

/// Most features of an example: far more than any writer uses, few enough for memory.
pub(super) const MAX_FEATURES: usize = 4096;

type Result<T> = std::result::Result<T, Fault>;

/// The features of an example.
#[derive(Debug)]
pub(super) struct Example<'a> {
    data: &'a [u8],
    features: BTreeMap<&'a [u8], List>,
}

/// Type of the values of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The feature has no list.
    Nothing,
    Bytes,
    Floats,
    Ints,
}

/// The values of a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) kind: Kind,
    /// Number of values.
    pub(super) values: usize,
    /// Length of the values in bytes: 4 for each float, 8 for each integer, its own length for each value of bytes.
    pub(super) bytes: u64,
    range: Range<usize>,
    /// Range in the data of the value of bytes, if it is the only value.
    only: Option<Range<usize>>,
    /// Steps of a feature in a `SequenceExample`'s `feature_lists`; `None` for a feature of an Example or a context.
    pub(super) steps: Option<Steps>,
}

/// Layout of the values of a feature list in its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    /// Number of steps.
    pub(super) count: usize,
    /// Number of values in each step, if all steps have the same number.
    pub(super) values: Option<usize>,
    /// Length of each value in bytes, if the values are bytes of the same length.
    pub(super) bytes: Option<usize>,
}

/// A value of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Range of the value in the data.
    Bytes(Range<usize>),
    Float(f32),
    Int(i64),
}

impl List {
    /// Range of the list in the data.
    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl<'a> Example<'a> {
    /// Parses `data`, a whole example, and checks every list.
    ///
    /// # Errors
    /// If `data` is not a valid example, or has more than [`MAX_FEATURES`] features.
    pub(super) fn parse(data: &'a [u8]) -> Result<Self> {
        let mut features = BTreeMap::new();
        let mut example = Wire::new(data, 0..data.len());
        while let Some(field) = example.next()? {
            let (range, is_in_steps) = match (field.bytes(1), field.bytes(2)) {
                (Some(range), _) => (range, false),
                (None, Some(range)) => (range, true),
                (None, None) => continue,
            };
            let mut entries = Wire::new(data, range);
            while let Some(field) = entries.next()? {
                let Some(range) = field.bytes(1) else { continue };
                let at = range.start;
                let (key, list) = entry(data, range, is_in_steps)?;
                // If two entries have the same key, the last counts.
                let before = features.insert(key, list);
                if before.is_some_and(|before: List| before.steps.is_some() != is_in_steps) {
                    let key = String::from_utf8_lossy(key);
                    return Err(Fault::new(at, format!("{key:?} is in the context and in the feature_lists")));
                }
                if features.len() > MAX_FEATURES {
                    return Err(Fault::new(at, format!("more than {MAX_FEATURES} features")));
                }
            }
        }
        Ok(Self { data, features })
    }

    pub(super) fn list(&self, key: &[u8]) -> Option<&List> {
        self.features.get(key)
    }

    /// All features in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a [u8], &List)> {
        self.features.iter().map(|(key, list)| (*key, list))
    }

    /// Value `number` of `list`, from 0.
    pub(super) fn value(&self, list: &List, number: usize) -> Option<Value> {
        let mut left = number;
        let mut found = None;
        self.each(list, &mut |value| {
            if left == 0 {
                found = Some(value);
                return false;
            }
            left -= 1;
            true
        });
        found
    }

    /// All values of `list`, in order.
    pub(super) fn values(&self, list: &List) -> Vec<Value> {
        let mut values = Vec::new();
        self.each(list, &mut |value| {
            values.push(value);
            true
        });
        values
    }

    /// Passes the values of `list` to `take` until it returns `false`.
    fn each(&self, list: &List, take: &mut dyn FnMut(Value) -> bool) {
        // `parse` has checked the list, so this cannot fail.
        let _ = match list.steps {
            None => each(self.data, list.range.clone(), list.kind, take),
            Some(_) => each_step(self.data, list.range.clone(), &mut |kind, range| {
                let mut goes_on = true;
                each(self.data, range, kind, &mut |value| {
                    goes_on = take(value);
                    goes_on
                })?;
                Ok(goes_on)
            }),
        };
    }

    /// The values of each step of a feature list.
    fn steps(&self, list: &List) -> Vec<Vec<Value>> {
        let mut steps = Vec::new();
        // `parse` has checked the list, so this cannot fail.
        let _ = each_step(self.data, list.range.clone(), &mut |kind, range| {
            let mut values = Vec::new();
            each(self.data, range, kind, &mut |value| {
                values.push(value);
                true
            })?;
            steps.push(values);
            Ok(true)
        });
        steps
    }

    /// The numbers of `list`, little-endian, without gaps. A list of bytes returns nothing, but a feature list of bytes returns its bytes.
    pub(super) fn items(&self, list: &List) -> Vec<u8> {
        let mut items = Vec::with_capacity(usize::try_from(list.bytes).unwrap_or(0));
        self.each(list, &mut |value| {
            match value {
                Value::Bytes(range) if list.steps.is_some() => {
                    items.extend_from_slice(self.data.get(range).unwrap_or_default());
                }
                Value::Float(number) => items.extend_from_slice(&number.to_le_bytes()),
                Value::Int(number) => items.extend_from_slice(&number.to_le_bytes()),
                Value::Bytes(_) => return false,
            }
            true
        });
        items
    }

    /// Range in the data of the numbers of a list of floats, if they are packed in one field.
    pub(super) fn packed_floats(&self, list: &List) -> Option<Range<usize>> {
        if list.kind != Kind::Floats || list.steps.is_some() {
            return None;
        }
        if list.values == 0 {
            return Some(list.range.start..list.range.start);
        }
        let first = Wire::new(self.data, list.range.clone()).next().ok()??.bytes(1)?;
        (first.len() as u64 == list.bytes).then_some(first)
    }

    /// A list as JSON: the value if it is one number, otherwise a list of all values. A feature list is a list with one item for each step:
    /// the value if every step has one, otherwise a list. `None` if a value is bytes that are not text, or if the values or steps exceed
    /// [`Plain::MAX_VALUES`].
    pub(super) fn text(&self, list: &List) -> Option<Vec<u8>> {
        let steps = list.steps.map_or(0, |steps| steps.count);
        if list.values.max(steps) > Plain::MAX_VALUES {
            return None;
        }
        let plain = |value: &Value| {
            Some(match value {
                Value::Bytes(range) => Plain::Text(str::from_utf8(self.data.get(range.clone())?).ok()?),
                Value::Float(number) => Plain::Single(*number),
                Value::Int(number) => Plain::Whole((*number).into()),
            })
        };
        let all = |values: &[Value]| values.iter().map(plain).collect::<Option<Vec<_>>>();
        let mut out = Vec::new();
        if list.steps.is_some_and(|steps| steps.values != Some(1)) {
            out.push(b'[');
            for (number, step) in self.steps(list).iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                Plain::write_list(all(step)?.into_iter(), &mut out);
            }
            out.push(b']');
            return Some(out);
        }
        let values = all(&self.values(list))?;
        match *values {
            [one @ (Plain::Single(_) | Plain::Whole(_))] if list.steps.is_none() => one.write(&mut out),
            _ => Plain::write_list(values.into_iter(), &mut out),
        }
        Some(out)
    }

    /// Range in the data of the only value of a list of bytes; `None` for another type, a list in steps, or another number of values.
    pub(super) fn only_bytes(&self, list: &List) -> Option<Range<usize>> {
        list.only.clone()
    }
}

/// Key and list of the entry at `range`, an entry of `feature_lists` if `is_in_steps`.
fn entry(data: &[u8], range: Range<usize>, is_in_steps: bool) -> Result<(&[u8], List)> {
    let (mut key, mut feature) = (None, None);
    let mut fields = Wire::new(data, range.clone());
    while let Some(field) = fields.next()? {
        match (field.number, field.bytes(field.number)) {
            (1, Some(range)) => key = Some(range),
            (2, Some(range)) => once(&mut feature, range.clone(), range.start, "value")?,
            _ => {}
        }
    }
    // A missing field is empty, as in all messages of Protocol Buffers 3.
    let key = &data[key.unwrap_or(range.end..range.end)];
    let feature = feature.unwrap_or(range.end..range.end);
    let list = if is_in_steps { in_steps(data, feature)? } else { in_one(data, feature)? };
    Ok((key, list))
}

/// The kind of a feature, and the range of its list in the data.
fn list_of(data: &[u8], feature: Range<usize>) -> Result<(Kind, Range<usize>)> {
    let end = feature.end;
    let mut lists = Wire::new(data, feature);
    let mut list = None;
    while let Some(field) = lists.next()? {
        let kind = match field.number {
            1 => Kind::Bytes,
            2 => Kind::Floats,
            3 => Kind::Ints,
            _ => continue,
        };
        if let Some(range) = field.bytes(field.number) {
            once(&mut list, (kind, range.clone()), range.start, "list")?;
        }
    }
    Ok(list.unwrap_or((Kind::Nothing, end..end)))
}

/// The list of a feature.
fn in_one(data: &[u8], feature: Range<usize>) -> Result<List> {
    let (kind, range) = list_of(data, feature)?;
    let (mut values, mut bytes, mut last) = (0, 0, None);
    each(data, range.clone(), kind, &mut |value| {
        values += 1;
        bytes += match value {
            Value::Bytes(range) => last.insert(range).len() as u64,
            Value::Float(_) => 4,
            Value::Int(_) => 8,
        };
        true
    })?;
    Ok(List { kind, values, bytes, range, only: last.filter(|_| values == 1), steps: None })
}

/// The values of all steps of a feature list.
fn in_steps(data: &[u8], range: Range<usize>) -> Result<List> {
    let mut list = List { kind: Kind::Nothing, values: 0, bytes: 0, range: range.clone(), only: None, steps: None };
    let (mut count, mut values_each, mut bytes_each) = (0, None, None);
    // `None` before the first, `Some(None)` after two differ.
    let is_like = |each: &mut Option<Option<usize>>, now: usize| match each {
        None => *each = Some(Some(now)),
        Some(before) => *before = before.filter(|before| *before == now),
    };
    each_step(data, range, &mut |kind, range| {
        match (list.kind, kind) {
            (_, Kind::Nothing) => {}
            (Kind::Nothing, kind) => list.kind = kind,
            (one, other) if one != other => {
                return Err(Fault::new(range.start, "a feature list has steps of several types"));
            }
            _ => {}
        }
        let mut values = 0;
        each(data, range, kind, &mut |value| {
            values += 1;
            list.bytes += match value {
                Value::Bytes(range) => {
                    is_like(&mut bytes_each, range.len());
                    range.len() as u64
                }
                Value::Float(_) => 4,
                Value::Int(_) => 8,
            };
            true
        })?;
        (count, list.values) = (count + 1, list.values + values);
        is_like(&mut values_each, values);
        Ok(true)
    })?;
    list.steps = Some(Steps { count, values: values_each.flatten(), bytes: bytes_each.flatten() });
    Ok(list)
}

/// Passes the kind and range of each step's list to `take` until it returns `false`; the feature list is at `range`.
fn each_step(data: &[u8], range: Range<usize>, take: &mut dyn FnMut(Kind, Range<usize>) -> Result<bool>) -> Result<()> {
    let mut steps = Wire::new(data, range);
    while let Some(step) = steps.next()? {
        let Some(feature) = step.bytes(1) else { continue };
        let (kind, range) = list_of(data, feature)?;
        if !take(kind, range)? {
            break;
        }
    }
    Ok(())
}

/// Keeps `found`.
///
/// # Errors
/// If a message has this part twice. Readers merge such parts in different ways, and no writer needs it.
fn once<T>(kept: &mut Option<T>, found: T, at: usize, what: &str) -> Result<()> {
    match kept.replace(found) {
        Some(_) => Err(Fault::new(at, format!("a feature has its {what} twice"))),
        None => Ok(()),
    }
}

/// Passes the values of a list to `take` until it returns `false`.
fn each(data: &[u8], range: Range<usize>, kind: Kind, take: &mut dyn FnMut(Value) -> bool) -> Result<()> {
    let mut fields = Wire::new(data, range);
    while let Some(field) = fields.next()? {
        if field.number != 1 {
            continue;
        }
        let goes_on = match (kind, field.content) {
            (Kind::Bytes, Content::Bytes(range)) => take(Value::Bytes(range)),
            // Packed, as writers store numbers.
            (Kind::Ints, Content::Bytes(range)) => {
                let (mut numbers, mut goes_on) = (Wire::new(data, range), true);
                while goes_on && numbers.at < numbers.end {
                    goes_on = take(Value::Int(numbers.varint()?.cast_signed()));
                }
                goes_on
            }
            (Kind::Floats, Content::Bytes(range)) => {
                let (floats, rest) = data[range.clone()].as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(Fault::new(range.start, format!("floats in {} bytes", range.len())));
                }
                floats.iter().all(|float| take(Value::Float(f32::from_le_bytes(*float))))
            }
            // Unpacked, which readers accept too.
            (Kind::Ints, Content::Varint(number)) => take(Value::Int(number.cast_signed())),
            (Kind::Floats, Content::Fixed32(bytes)) => take(Value::Float(f32::from_le_bytes(bytes))),
            // A field whose type does not match its number is an unknown field.
            _ => true,
        };
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// A field of a message.
struct Field {
    number: u64,
    content: Content,
}

enum Content {
    Varint(u64),
    Fixed64,
    Bytes(Range<usize>),
    Fixed32([u8; 4]),
}

impl Field {
    /// Range of the content in the data, if the field has this number and is length-delimited.
    fn bytes(&self, number: u64) -> Option<Range<usize>> {
        match &self.content {
            Content::Bytes(range) if self.number == number => Some(range.clone()),
            _ => None,
        }
    }
}

/// A cursor over the fields of a message.
struct Wire<'a> {
    data: &'a [u8],
    at: usize,
    /// Never beyond the data.
    end: usize,
}

impl<'a> Wire<'a> {
    fn new(data: &'a [u8], range: Range<usize>) -> Self {
        Self { data, at: range.start, end: range.end }
    }

    fn next(&mut self) -> Result<Option<Field>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        let tag = self.varint()?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        if number == 0 || u32::try_from(tag).is_err() {
            return Err(Fault::new(start, format!("field number {number}")));
        }
        let content = match wire_type {
            0 => Content::Varint(self.varint()?),
            1 => self.take(8).map(|_| Content::Fixed64)?,
            2 => {
                let bytes = self.varint()?;
                Content::Bytes(self.take(bytes)?)
            }
            5 => {
                let range = self.take(4)?;
                let bytes = self.data.get(range).and_then(|bytes| bytes.first_chunk().copied());
                Content::Fixed32(bytes.ok_or_else(|| Fault::new(start, "a cut number"))?)
            }
            other => return Err(Fault::new(start, format!("wire type {other}"))),
        };
        Ok(Some(Field { number, content }))
    }

    fn take(&mut self, bytes: u64) -> Result<Range<usize>> {
        let left = self.end - self.at;
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= left => {
                let start = self.at;
                self.at += bytes;
                Ok(start..self.at)
            }
            _ => Err(Fault::new(self.at, format!("a field of {bytes} bytes, {left} are left"))),
        }
    }

    fn varint(&mut self) -> Result<u64> {
        let (start, mut number) = (self.at, 0);
        for (place, byte) in self.data[self.at..self.end].iter().take(10).enumerate() {
            // The bits of the tenth byte beyond 64 are dropped, as in the readers of Protocol Buffers.
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.at = start + place + 1;
                return Ok(number);
            }
        }
        let what = if self.end - start < 10 { "a cut varint" } else { "a varint of more than 10 bytes" };
        Err(Fault::new(start, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(tag: u8, content: &[u8]) -> Vec<u8> {
        assert!(content.len() < 128);
        [&[tag, content.len() as u8], content].concat()
    }

    fn example(features: &[(&[u8], &[u8])]) -> Vec<u8> {
        let entries: Vec<u8> = features
            .iter()
            .flat_map(|(key, feature)| field(0x0a, &[field(0x0a, key), field(0x12, feature)].concat()))
            .collect();
        field(0x0a, &entries)
    }

    fn values(feature: &[u8]) -> Vec<Value> {
        let data = example(&[(b"k", feature)]);
        let example = Example::parse(&data).unwrap();
        let list = example.list(b"k").unwrap();
        let values: Vec<_> = (0..).map_while(|number| example.value(list, number)).collect();
        assert_eq!(values.len(), list.values);
        values
    }

    #[test]
    fn integers_are_read_packed_and_one_by_one() {
        let minus_one = [&[0xff; 9][..], &[1]].concat();
        let packed = field(0x1a, &field(0x0a, &[&[5, 0x80, 1], &minus_one[..]].concat()));
        assert_eq!(values(&packed), [Value::Int(5), Value::Int(128), Value::Int(-1)]);
        let single = field(0x1a, &[&[8, 5, 8, 0x80, 1, 8], &minus_one[..]].concat());
        assert_eq!(values(&single), values(&packed));
        let longer_than_need_be = field(0x1a, &field(0x0a, &[0x85, 0x80, 0x80, 0x80, 0]));
        assert_eq!(values(&longer_than_need_be), [Value::Int(5)]);
    }

    #[test]
    fn floats_are_read_packed_and_one_by_one() {
        let packed = field(0x12, &field(0x0a, &[1.5f32.to_le_bytes(), 2f32.to_le_bytes()].concat()));
        assert_eq!(values(&packed), [Value::Float(1.5), Value::Float(2.0)]);
        let single = field(0x12, &[&[0x0d][..], &1.5f32.to_le_bytes(), &[0x0d], &2f32.to_le_bytes()].concat());
        assert_eq!(values(&single), values(&packed));
        assert!(Example::parse(&example(&[(b"k", &field(0x12, &field(0x0a, b"odd")))])).is_err());
    }

    #[test]
    fn the_last_of_two_entries_counts_and_unknown_fields_do_not() {
        let (one, two) = (field(0x1a, &field(0x0a, &[1])), field(0x1a, &field(0x0a, &[2])));
        let unknown = [0x20, 7, 0x29, 0, 0, 0, 0, 0, 0, 0, 0, 0x32, 1, 0, 0x3d, 0, 0, 0, 0];
        let data = [&unknown[..], &example(&[(b"k", &one), (b"k", &[&unknown, &two[..]].concat())])].concat();
        let example = Example::parse(&data).unwrap();
        assert_eq!(example.value(example.list(b"k").unwrap(), 0), Some(Value::Int(2)));
        assert_eq!(example.iter().count(), 1);
    }

    #[test]
    fn what_no_message_holds_is_refused() {
        let twice = [field(0x1a, &field(0x0a, &[1])), field(0x0a, &field(0x0a, b"x"))].concat();
        let rows: [(&str, &[u8]); 6] = [
            ("length beyond the end", &[0x0a, 5, 0]),
            ("length of 2^63", &[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
            ("field number 0", &[2, 0]),
            ("group", &[0x0b, 0x0c]),
            ("varint of 11 bytes", &[8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]),
            ("two lists", &example(&[(b"k", &twice)])),
        ];
        for (name, data) in rows {
            assert!(Example::parse(data).is_err(), "{name}");
        }
    }

    #[test]
    fn too_many_features_are_refused_and_one_repeated_is_not() {
        let many = |count: u16, same: bool| {
            let entries: Vec<u8> = (0..count)
                .flat_map(|number| field(0x0a, &field(0x0a, &if same { 0 } else { number }.to_le_bytes())))
                .collect();
            // Features may come in several parts, which are merged.
            entries.chunks(60).flat_map(|entries| field(0x0a, entries)).collect::<Vec<u8>>()
        };
        assert_eq!(Example::parse(&many(4096, false)).unwrap().iter().count(), 4096);
        assert!(Example::parse(&many(4097, false)).is_err());
        assert_eq!(Example::parse(&many(5000, true)).unwrap().iter().count(), 1);
    }

    proptest! {
        #[test]
        fn random_bytes_are_read_without_harm(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0x12), Just(0x1a), 0u8..16], 0..60),
        ) {
            if let Ok(example) = Example::parse(&bytes) {
                for (_, list) in example.iter() {
                    prop_assert!(example.value(list, list.values).is_none());
                    for number in 0..list.values {
                        prop_assert!(example.value(list, number).is_some());
                    }
                }
            }
        }
    }
}
