//! Components that samples have in addition to payload, name and class: one table row for each sample of a
//! listing.
//!
//! Holds at all times: each column is empty or has one entry for every sample, in the order of the listing.

use std::{collections::HashMap, sync::Arc};

use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    sample::Forms,
};

/// Bytes before the content in a slot of the texts.
const SLOT_HEAD_BYTES: usize = 4;
/// Bytes of the stamp before the path in the slot of a file that a column names.
const STAMP_BYTES: usize = 8;

/// A component of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Length in bytes; [`Cell::ABSENT`] has the value for a missing component.
    pub bytes: u32,
    /// Number of the form in [`ComponentTable::forms`]; [`Forms::BYTES`] if the component is bytes.
    pub form: u32,
    /// For a file, as [`crate::listing::Entry::stamp`]; for a text, its start in the texts; for an array that is made from a file, the start
    /// of the file's slot in the texts ([`ComponentTable::made_from`]); for a file that a column names, the start of the slot with its path
    /// ([`ComponentTable::named_file`]).
    pub stamp: i64,
}

impl Cell {
    /// Stands for a component that a sample does not have.
    pub const ABSENT: Self = Self::file(u32::MAX, 0);

    /// A component of bytes with this length and stamp.
    pub const fn file(bytes: u32, stamp: i64) -> Self {
        Self { bytes, form: Forms::BYTES, stamp }
    }

    /// Length in bytes; `None` if the component is missing.
    pub fn length(self) -> Option<u32> {
        (self.bytes != u32::MAX).then_some(self.bytes)
    }
}

/// The components of the samples of a listing, one cell for each sample and component.
#[derive(Clone, Debug, Default)]
pub struct ComponentTable {
    /// The components, in the order of the cells of a sample.
    pub kinds: Vec<Component>,
    /// The cells: for each sample as many as there are kinds.
    pub cells: Vec<Cell>,
    /// Component of the payloads, if payloads are values and not files.
    pub payload: Option<Component>,
    /// Form numbers of payloads that are values, one a sample.
    pub payload_forms: Vec<u32>,
    /// The forms of values without duplicates; listings of one source share them.
    pub forms: Arc<Vec<Form>>,
    /// Texts in any order; listings of one source share them.
    pub texts: Arc<Vec<u8>>,
    /// Line numbers in the order of a list, one a sample; empty for a source that is not a list.
    pub lines: Vec<u64>,
}

impl ComponentTable {
    /// An empty table for samples with these components.
    pub fn new(kinds: Vec<Component>) -> Self {
        Self { kinds, ..Self::default() }
    }

    /// A table without samples that has the data which listings of one source share.
    pub fn shared(&self) -> Self {
        Self {
            payload: self.payload.clone(),
            texts: Arc::clone(&self.texts),
            forms: Arc::clone(&self.forms),
            ..Self::default()
        }
    }

    /// Whether the table has no column.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.lines.is_empty() && self.payload.is_none()
    }

    /// The cells of sample `number`.
    pub fn cells_of(&self, number: u64) -> &[Cell] {
        let start = number as usize * self.kinds.len();
        self.cells.get(start..start + self.kinds.len()).unwrap_or_default()
    }

    /// The form of the payload of sample `number`, as a number in [`ComponentTable::forms`].
    pub fn payload_form(&self, number: u64) -> u32 {
        self.payload_forms.get(number as usize).copied().unwrap_or(Forms::BYTES)
    }

    /// The forms of sample `number` and its components; `components` are the forms of its cells.
    pub fn forms_of<'f>(&'f self, number: u64, components: &'f [u32]) -> Forms<'f> {
        Forms { all: &self.forms, payload: self.payload_form(number), components }
    }

    /// A form by its number.
    pub fn form(&self, number: u32) -> &Form {
        self.forms.get(number as usize).unwrap_or(&Form::Bytes)
    }

    /// The text of a cell.
    pub fn text(&self, cell: Cell) -> &[u8] {
        let bytes = cell.length().unwrap_or(0) as usize;
        usize::try_from(cell.stamp).ok().and_then(|start| self.texts.get(start..start + bytes)).unwrap_or_default()
    }

    /// Copies the text of a cell over the whole of `out`.
    ///
    /// # Errors
    /// The reason, if the text has another length.
    pub fn copy_text(&self, cell: Cell, out: &mut [u8]) -> Result<(), String> {
        let text = self.text(cell);
        if text.len() != out.len() {
            let (now, then) = (text.len(), out.len());
            return Err(format!("changed since it was planned: a text of {now} bytes, {then} in the plan"));
        }
        out.copy_from_slice(text);
        Ok(())
    }

    /// Appends the slot of a file that arrays are made from: its length in 4 bytes, little-endian, and its content.
    ///
    /// # Errors
    /// If the file is longer than 4 GiB.
    pub fn push_slot(texts: &mut Vec<u8>, file: &[u8]) -> Result<i64> {
        let start = texts.len() as i64;
        let length = u32::try_from(file.len()).map_err(|_| Error::data("a file of more than 4 GiB"))?;
        texts.extend_from_slice(&length.to_le_bytes());
        texts.extend_from_slice(file);
        Ok(start)
    }

    /// The slot at `start` in the texts, with its length; `None` if there is none.
    fn slot(&self, start: i64) -> Option<&[u8]> {
        let rest = self.texts.get(usize::try_from(start).ok()?..)?;
        let (length, _) = rest.split_first_chunk::<SLOT_HEAD_BYTES>()?;
        rest.get(..SLOT_HEAD_BYTES.checked_add(u32::from_le_bytes(*length) as usize)?)
    }

    /// The file that the array in `cell` is made from.
    pub fn made_from(&self, cell: Cell) -> Option<&[u8]> {
        self.slot(cell.stamp)?.get(SLOT_HEAD_BYTES..)
    }

    /// Appends the slot of a file that a column names: its stamp and its path.
    ///
    /// # Errors
    /// If the path is longer than 4 GiB.
    pub fn push_named_file(texts: &mut Vec<u8>, path: &[u8], stamp: i64) -> Result<i64> {
        Self::push_slot(texts, &[&stamp.to_le_bytes(), path].concat())
    }

    /// The path in the source and the stamp of the file that a column names.
    pub fn named_file(&self, cell: Cell) -> Option<(&[u8], i64)> {
        let (stamp, path) = self.made_from(cell)?.split_first_chunk::<STAMP_BYTES>()?;
        (!path.is_empty()).then_some((path, i64::from_le_bytes(*stamp)))
    }

    /// The data that decides the bytes of sample `number`: each component's length, and its text if it is a text. For arrays that are made
    /// from a file, the first one has the slot of the file, and the others of the same slot have nothing. A file that a column names has its
    /// slot.
    pub fn content_of(&self, number: u64) -> impl Iterator<Item = (Cell, Option<&[u8]>)> {
        let mut last = None;
        self.cells_of(number).iter().zip(&self.kinds).map(move |(cell, kind)| {
            let content = match kind.has_slot() {
                false => kind.is_in_list().then(|| self.text(*cell)),
                true if cell.length().is_none() || last.replace(cell.stamp) == Some(cell.stamp) => Some(&[][..]),
                true => Some(self.slot(cell.stamp).unwrap_or_default()),
            };
            (*cell, content)
        })
    }

    /// The rows of the samples with these numbers, in this order.
    pub fn chosen(&self, numbers: &[u64]) -> Self {
        let lines = if self.lines.is_empty() { &[] } else { numbers };
        let of_payloads = if self.payload_forms.is_empty() { &[] } else { numbers };
        Self {
            payload_forms: of_payloads.iter().map(|number| self.payload_forms[*number as usize]).collect(),
            kinds: self.kinds.clone(),
            cells: numbers.iter().flat_map(|number| self.cells_of(*number)).copied().collect(),
            lines: lines.iter().map(|number| self.lines[*number as usize]).collect(),
            ..self.shared()
        }
    }

    /// The columns of these kinds, which the table must have.
    pub fn only(&self, kinds: &[Component]) -> Self {
        let is_kept: Vec<bool> = self.kinds.iter().map(|kind| kinds.contains(kind)).collect();
        let of_kept = |(cell, kept): (&Cell, &bool)| kept.then_some(*cell);
        Self {
            kinds: self.kinds.iter().filter(|kind| kinds.contains(kind)).cloned().collect(),
            cells: self.cells.iter().zip(is_kept.iter().cycle()).filter_map(of_kept).collect(),
            lines: self.lines.clone(),
            payload_forms: self.payload_forms.clone(),
            ..self.shared()
        }
    }

    /// The table for `samples` samples with all these kinds, its own among them. No sample has a component of
    /// the new kinds.
    pub fn with(&self, kinds: &[Component], samples: u64) -> Self {
        let own: Vec<Option<usize>> =
            kinds.iter().map(|kind| self.kinds.iter().position(|own| own.join(kind).is_some())).collect();
        let of_sample = |number| {
            let cells = self.cells_of(number);
            own.iter().map(|at| at.and_then(|at| cells.get(at)).copied().unwrap_or(Cell::ABSENT))
        };
        Self {
            kinds: kinds.to_vec(),
            cells: (0..samples).flat_map(of_sample).collect(),
            lines: self.lines.clone(),
            payload_forms: self.payload_forms.clone(),
            ..self.shared()
        }
    }

    /// Whether each form has the type of its component and the length of its content.
    fn are_typed(&self) -> bool {
        let fits = |kind: &Component, form: u32, bytes: u32| match kind.kind() {
            None => form == Forms::BYTES,
            Some(kind) => {
                let form = self.form(form);
                let length = form.items_bytes().map(|items| items + form.head().len() as u64);
                kind.takes(form) && length.is_none_or(|length| length == u64::from(bytes))
            }
        };
        let mut cells = self.cells.iter().zip(self.kinds.iter().cycle());
        let is_form = |form: &u32| *form == Forms::BYTES || (*form as usize) < self.forms.len();
        cells.all(|(cell, kind)| cell.length().is_none_or(|bytes| fits(kind, cell.form, bytes)))
            && self.payload_forms.iter().all(is_form)
    }

    /// Fails if the table does not have this many samples, or a text lies outside the texts.
    ///
    /// # Errors
    /// If so.
    pub fn check(&self, samples: u64) -> Result<()> {
        let fits = |cell: &Cell, kind: &Component| match (kind.is_in_list(), cell.length()) {
            (true, Some(bytes)) => {
                let end = u64::try_from(cell.stamp).ok().and_then(|start| start.checked_add(bytes.into()));
                end.is_some_and(|end| end <= self.texts.len() as u64)
            }
            (false, Some(_)) if kind.file_column().is_some() => self.named_file(*cell).is_some(),
            (false, Some(_)) if kind.conversion().is_some() => self.slot(cell.stamp).is_some(),
            _ => true,
        };
        let right = self.cells.len() as u64 == samples * self.kinds.len() as u64
            && (self.lines.is_empty() || self.lines.len() as u64 == samples)
            && self.payload_forms.len() as u64 == if self.payload.is_some() { samples } else { 0 }
            && self.cells.iter().zip(self.kinds.iter().cycle()).all(|(cell, kind)| fits(cell, kind))
            && self.are_typed();
        if right { Ok(()) } else { Err(Error::data("components of the listing are not those of its samples")) }
    }
}

/// Collects distinct forms.
#[derive(Debug, Default)]
pub struct Interner {
    forms: Vec<Form>,
    numbers: HashMap<Form, u32>,
}

impl Interner {
    /// One that has these forms already.
    pub fn of(forms: &[Form]) -> Self {
        let numbers = forms.iter().cloned().zip(0..).collect();
        Self { forms: forms.to_vec(), numbers }
    }

    /// The number of a form.
    pub fn number(&mut self, form: &Form) -> u32 {
        if let Some(number) = self.numbers.get(form) {
            return *number;
        }
        // There are at most as many forms as components of samples, which fit memory and so 32 bits.
        let number = self.forms.len() as u32;
        self.forms.push(form.clone());
        self.numbers.insert(form.clone(), number);
        number
    }

    /// All forms so far, by number.
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// All forms, by number.
    pub fn finish(self) -> Arc<Vec<Form>> {
        Arc::new(self.forms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_with_their_samples() {
        let mut components = ComponentTable::new(vec![Component::text(), Component::files("txt").unwrap()]);
        components.texts = Arc::new(b"{1}{22}".to_vec());
        components.cells =
            [(3, 0), (7, 5), (4, 3), (u32::MAX, 0)].map(|(bytes, stamp)| Cell::file(bytes, stamp)).to_vec();
        components.check(2).unwrap();
        let swapped = components.chosen(&[1, 0]);
        let content: Vec<_> = swapped.content_of(0).map(|(cell, text)| (cell.length(), text)).collect();
        assert_eq!(content, [(Some(4), Some(b"{22}".as_slice())), (None, None)]);
        let more = [Component::files("mask.png").unwrap(), Component::files("txt").unwrap(), Component::text()];
        let wider = components.with(&more, 2);
        wider.check(2).unwrap();
        let lengths: Vec<_> = wider.cells_of(0).iter().map(|cell| cell.length()).collect();
        assert_eq!(lengths, [None, Some(7), Some(3)]);
        assert!(components.check(1).is_err() && components.check(3).is_err());
        components.cells[2].stamp = 4;
        assert!(components.check(2).is_err());
    }

    #[test]
    fn files_of_a_column_have_their_path_and_stamp() {
        let mut texts = b"{}".to_vec();
        let starts = [("m/0.png", 7), ("", 8)]
            .map(|(path, stamp)| ComponentTable::push_named_file(&mut texts, path.as_bytes(), stamp).unwrap());
        let mut table = ComponentTable::new(vec![Component::column_files("mask.png", "mask").unwrap()]);
        table.cells = vec![Cell::file(5, starts[0]), Cell::ABSENT];
        table.texts = Arc::new(texts);
        table.check(2).unwrap();
        assert_eq!(table.named_file(table.cells[0]), Some((&b"m/0.png"[..], 7)));
        let content = |number| table.content_of(number).map(|(_, slot)| slot.map(<[u8]>::len)).collect::<Vec<_>>();
        assert_eq!((content(0), content(1)), (vec![Some(4 + 8 + 7)], vec![Some(0)]));
        for wrong in [0, starts[1], i64::MAX, -1] {
            table.cells[1] = Cell::file(5, wrong);
            assert!(table.check(2).is_err(), "{wrong}");
        }
    }
}
