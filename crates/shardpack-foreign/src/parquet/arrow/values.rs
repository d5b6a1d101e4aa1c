//! The values of a leaf in a record batch, in the encoding PLAIN of parquet, and its levels, row by row.
//!
//! Holds at all times: each level that a row adds is counted, so that lengths in a file lead to no endless row.

use std::{ops::Range, sync::Arc};

use shardpack_format::memory;

use super::{
    buffers::{Buffer, Layout, Result},
    schema::{Kind, Leaf, Schema, Step, Values},
};

/// Maximum number of levels of a row.
const LISTED_LIMIT: u64 = 1 << 24;
/// Maximum number of entries of a dictionary.
const ENTRIES_LIMIT: u64 = 1 << 22;

/// Runs of equal levels.
#[derive(Default)]
pub(super) struct Levels(Vec<(u8, u32)>);

impl Levels {
    fn push(&mut self, level: u8, count: u64) {
        let count = count as u32;
        match self.0.last_mut() {
            Some((last, before)) if *last == level => *before += count,
            _ if count > 0 => self.0.push((level, count)),
            _ => {}
        }
    }

    /// Appends them in the encoding RLE of parquet: runs of a length and a value of up to 8 bits.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (level, count) in &self.0 {
            let mut head = u64::from(*count) << 1;
            while head >= 0x80 {
                out.push(head as u8 | 0x80);
                head >>= 7;
            }
            out.extend([head as u8, *level]);
        }
    }
}

/// Rows of a leaf.
#[derive(Default)]
pub(super) struct Rows {
    pub rows: u32,
    pub levels: u64,
    pub definitions: Levels,
    pub repetitions: Levels,
    /// The values that are there, except truth values.
    pub plain: Vec<u8>,
    /// Truth values.
    bits: Vec<bool>,
    pub values: u64,
}

impl Rows {
    /// The values as parquet stores them.
    pub fn into_plain(self) -> Vec<u8> {
        if self.bits.is_empty() {
            return self.plain;
        }
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        self.bits.chunks(8).map(byte).collect()
    }

    /// How much memory they take.
    pub fn bytes(&self) -> u64 {
        (self.plain.len() + self.bits.len()) as u64
    }
}

/// The buffers of a step.
struct Opened {
    kind: Kind,
    /// Number of values.
    count: u64,
    /// Bits of the values that are no nulls; `None` if there are no nulls.
    validity: Option<Buffer>,
    /// Offsets, numbers, bits or views.
    first: Option<Buffer>,
    /// Bytes.
    rest: Vec<Buffer>,
    /// Definition level of a null.
    definition: u8,
    /// Repetition level of the items of a list but the first.
    repetition: u8,
}

impl Opened {
    fn open(layout: &Layout<'_>, step: &Step, definition: u8, repetition: u8) -> Result<Self> {
        let (count, nulls) = layout.node(step.node)?;
        let is_null = step.kind == Kind::Values(Values::Null);
        let validity = if nulls > 0 && !is_null { Some(layout.buffer(step, 0)?) } else { None };
        let first = match step.kind {
            Kind::Struct | Kind::Fixed(_) | Kind::Values(Values::Null) => None,
            _ => Some(layout.buffer(step, 1)?),
        };
        let rest = match step.kind {
            Kind::Values(Values::Bytes { .. }) => vec![layout.buffer(step, 2)?],
            Kind::Values(Values::Views) => {
                (0..layout.views(step)?).map(|number| layout.buffer(step, 2 + number)).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        Ok(Self { kind: step.kind, count, validity, first, rest, definition, repetition })
    }

    fn first(&mut self) -> Result<&mut Buffer> {
        self.first.as_mut().ok_or_else(|| "no buffer of values".into())
    }

    /// Offsets `number` and the one after it.
    fn span(&mut self, number: u64, is_wide: bool) -> Result<Range<u64>> {
        let bytes = if is_wide { 8 } else { 4 };
        let first = self.first()?;
        let (start, end) = (first.number(number, bytes)?, first.number(number + 1, bytes)?);
        match start <= end {
            true => Ok(start..end),
            false => Err(format!("offsets {start} and {end}").into()),
        }
    }

    /// Appends values `range` to `out`.
    fn write(&mut self, values: Values, range: Range<u64>, out: &mut Rows) -> Result<()> {
        let count = range.end - range.start;
        out.values += count;
        match values {
            Values::Null => {}
            Values::Bool => {
                for number in range {
                    out.bits.push(self.first()?.bit(number)?);
                }
            }
            Values::Plain(bytes) => {
                let at = range.start.checked_mul(bytes).zip(count.checked_mul(bytes));
                let (at, length) = at.ok_or("a number beyond its buffer")?;
                self.first()?.copy(at, length, &mut out.plain)?;
            }
            Values::Narrow { bytes, is_signed } => {
                for number in range {
                    let value = self.first()?.number(number, bytes)? as u32;
                    let spare = 32 - 8 * bytes as u32;
                    let value = if is_signed { (value << spare).cast_signed() >> spare } else { value.cast_signed() };
                    out.plain.extend_from_slice(&value.to_le_bytes());
                }
            }
            Values::Bytes { is_wide } => {
                for number in range {
                    let Range { start, end } = self.span(number, is_wide)?;
                    let data = self.rest.first_mut().ok_or("no buffer of bytes")?;
                    write_bytes(data, start, end - start, &mut out.plain)?;
                }
            }
            Values::Views => {
                for number in range {
                    self.write_view(number, &mut out.plain)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the value of a view: its length, then up to 12 bytes, or 4 bytes and a place.
    fn write_view(&mut self, number: u64, out: &mut Vec<u8>) -> Result<()> {
        let at = number.checked_mul(16).ok_or("a view beyond its buffer")?;
        let view = self.first()?.get(at, 16)?;
        let number =
            |at: usize| view.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes);
        let (bytes, buffer, offset) = (number(0), number(8), number(12));
        if bytes <= 12 {
            out.extend_from_slice(&bytes.to_le_bytes());
            out.extend_from_slice(&view[4..4 + bytes as usize]);
            return Ok(());
        }
        let data = self.rest.get_mut(buffer as usize).ok_or_else(|| format!("a view of buffer {buffer}"))?;
        write_bytes(data, offset.into(), bytes.into(), out)
    }
}

/// Appends bytes behind their length.
fn write_bytes(data: &mut Buffer, at: u64, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(bytes).ok().filter(|length| *length <= i32::MAX as u32);
    let length = length.ok_or("a value of 2 GiB or more")?;
    out.extend_from_slice(&length.to_le_bytes());
    data.copy(at, bytes, out)
}

/// The entries of a dictionary.
#[derive(Default)]
pub(super) struct Entries {
    /// Encoded entries, one after the other.
    plain: Vec<u8>,
    /// End of each in `plain`; `None` for a null.
    ends: Vec<(u64, bool)>,
}

impl Entries {
    /// Appends the entries of a batch with one field of `values`.
    pub fn add(&mut self, layout: &Layout<'_>, values: Values) -> Result<()> {
        let step = Step { node: 0, buffer: 0, views: 0, kind: Kind::Values(values) };
        let mut opened = Opened::open(layout, &step, 0, 0)?;
        if self.ends.len() as u64 + opened.count.min(1 << 32) > ENTRIES_LIMIT {
            return Err(format!("a dictionary of more than {ENTRIES_LIMIT} entries, which is not read").into());
        }
        let mut rows = Rows { plain: std::mem::take(&mut self.plain), ..Rows::default() };
        for number in 0..opened.count {
            let is_there = opened.validity.as_mut().map_or(Ok(true), |validity| validity.bit(number))?;
            if is_there {
                opened.write(values, number..number + 1, &mut rows)?;
                memory::admit(rows.bytes())?;
            }
            self.ends.push((rows.bytes(), is_there));
        }
        self.plain = rows.plain;
        Ok(())
    }

    /// The encoded entry; `None` if it is null.
    fn get(&self, number: u64) -> Result<Option<&[u8]>> {
        let number = usize::try_from(number).ok();
        let found = number.and_then(|number| Some((number, self.ends.get(number)?)));
        let (number, (end, is_there)) = found.ok_or("the number of an entry that its dictionary has not")?;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(end, _)| *end);
        Ok(self.plain.get(start as usize..*end as usize).filter(|_| *is_there))
    }
}

/// A leaf in a record batch.
pub(super) struct Column {
    steps: Vec<Opened>,
    entries: Option<Arc<Entries>>,
}

impl Column {
    /// Opens the buffers of `leaf` in a batch of `rows` rows.
    pub fn open(
        layout: &Layout<'_>,
        schema: &Schema,
        leaf: &Leaf,
        rows: u64,
        entries: Option<Arc<Entries>>,
    ) -> Result<Self> {
        layout.check(schema)?;
        let (mut definition, mut repetition) = (0, 0);
        let mut steps = Vec::with_capacity(leaf.steps.len());
        for step in &leaf.steps {
            let is_list = matches!(step.kind, Kind::List { .. } | Kind::Fixed(_));
            repetition += u8::from(is_list);
            steps.push(Opened::open(layout, step, definition, repetition)?);
            definition += 1 + u8::from(is_list);
        }
        match steps.first() {
            Some(step) if step.count == rows => Ok(Self { steps, entries }),
            step => Err(format!("{} values, expected {rows}", step.map_or(0, |step| step.count)).into()),
        }
    }

    /// Appends row `number`.
    pub fn row(&mut self, number: u64, out: &mut Rows) -> Result<()> {
        let most = out.levels + LISTED_LIMIT;
        let mut walk = Walk { entries: self.entries.as_deref(), most, out };
        walk.values(&mut self.steps, number..number + 1, (0, 0))?;
        out.rows += 1;
        Ok(())
    }
}

/// Writes the levels and values of a row.
struct Walk<'w> {
    entries: Option<&'w Entries>,
    /// How many levels there may be after the row.
    most: u64,
    out: &'w mut Rows,
}

impl Walk<'_> {
    /// Adds `count` levels: the first has the first of these repetition levels, the others have the second.
    fn levels(&mut self, definition: u8, count: u64, (first, others): (u8, u8)) -> Result<()> {
        if count > self.most - self.out.levels {
            return Err(format!("a list of more than {LISTED_LIMIT} values, which is not read").into());
        }
        memory::admit(self.out.bytes())?;
        self.out.levels += count;
        self.out.definitions.push(definition, count);
        self.out.repetitions.push(first, count.min(1));
        self.out.repetitions.push(others, count.saturating_sub(1));
        Ok(())
    }

    /// Writes values `range` of the first of `steps`, with these repetition levels.
    fn values(&mut self, steps: &mut [Opened], range: Range<u64>, repetitions: (u8, u8)) -> Result<()> {
        let Some((step, inner)) = steps.split_first_mut() else { return Ok(()) };
        if range.end > step.count {
            return Err(format!("value {} of {}", range.end, step.count).into());
        }
        let is_simple = step.validity.is_none()
            && matches!(
                step.kind,
                Kind::Struct | Kind::Values(Values::Plain(_) | Values::Narrow { .. } | Values::Bool)
            );
        if is_simple {
            return self.valid(step, inner, range, repetitions);
        }
        let (mut first, others) = repetitions;
        for number in range {
            let is_there = match (&mut step.validity, step.kind) {
                (_, Kind::Values(Values::Null)) => false,
                (Some(validity), _) => validity.bit(number)?,
                (None, _) => true,
            };
            match is_there {
                true => self.valid(step, inner, number..number + 1, (first, others))?,
                false => self.levels(step.definition, 1, (first, others))?,
            }
            first = others;
        }
        Ok(())
    }

    /// Writes values `range` of `step`, none of which is null; only simple ones are several.
    fn valid(
        &mut self,
        step: &mut Opened,
        inner: &mut [Opened],
        range: Range<u64>,
        repetitions: (u8, u8),
    ) -> Result<()> {
        let (definition, number) = (step.definition + 1, range.start);
        let items = match step.kind {
            Kind::Struct => return self.values(inner, range, repetitions),
            Kind::Values(values) => {
                self.levels(definition, range.end - range.start, repetitions)?;
                return step.write(values, range, self.out);
            }
            Kind::Dictionary { index, .. } => {
                let bytes = match index {
                    Values::Plain(bytes) | Values::Narrow { bytes, .. } => bytes,
                    _ => 0,
                };
                let entry = step.first()?.number(number, bytes)?;
                let entry = self.entries.ok_or("a dictionary that is missing")?.get(entry)?;
                if let Some(entry) = entry {
                    self.out.plain.extend_from_slice(entry);
                    self.out.values += 1;
                }
                return self.levels(step.definition + u8::from(entry.is_some()), 1, repetitions);
            }
            Kind::List { is_wide } => step.span(number, is_wide)?,
            Kind::Fixed(items) => {
                let start = number.checked_mul(items).ok_or("a list beyond its values")?;
                start..start.checked_add(items).ok_or("a list beyond its values")?
            }
        };
        match items.is_empty() {
            true => self.levels(definition, 1, repetitions),
            false => self.values(inner, items, (repetitions.0, step.repetition)),
        }
    }
}
