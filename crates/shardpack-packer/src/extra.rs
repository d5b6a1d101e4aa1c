//! What samples have beside image, name and class: components of their source's own, and their places in a list.
//!
//! Holds at all times: either nothing of a kind, or one of it for every sample, in the order of the listing.

use std::{collections::HashMap, sync::Arc};

use shardpack_format::{Error, Result, component::Form, formats::Beside, sample::Forms};

/// A component that a sample has beside its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Length in bytes; [`Piece::ABSENT`] says that there is none.
    pub bytes: u32,
    /// Number of its form in [`Extra::forms`]; [`Forms::BYTES`] where it is bytes.
    pub form: u32,
    /// Of a file, as [`crate::listing::Entry::stamp`]; of a text, where it starts in the texts.
    pub stamp: i64,
}

impl Piece {
    /// Stands for a component that a sample does not have.
    pub const ABSENT: Self = Self::file(u32::MAX, 0);

    /// One of bytes, of this length and stamp.
    pub const fn file(bytes: u32, stamp: i64) -> Self {
        Self { bytes, form: Forms::BYTES, stamp }
    }

    /// Its length in bytes, if it is there.
    pub fn length(self) -> Option<u32> {
        (self.bytes != u32::MAX).then_some(self.bytes)
    }
}

/// What samples have beside image, name and class.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// The components, in the order of the pieces of a sample.
    pub kinds: Vec<Beside>,
    /// As many for each sample as there are kinds.
    pub pieces: Vec<Piece>,
    /// What the payloads of samples are where they are no files: values.
    pub payload: Option<Beside>,
    /// Numbers of their forms then, one a sample.
    pub payload_forms: Vec<u32>,
    /// The forms of values, each once; listings of one source share them.
    pub forms: Arc<Vec<Form>>,
    /// Texts in any order; listings of one source share them.
    pub texts: Arc<Vec<u8>>,
    /// Numbers that grow as the lines of a list do, one a sample; empty for a source that is none.
    pub lines: Vec<u64>,
}

impl Extra {
    /// Of nothing, where samples have these components.
    pub fn of(kinds: Vec<Beside>) -> Self {
        Self { kinds, ..Self::default() }
    }

    /// What listings of one source share; of no sample.
    pub fn shared(&self) -> Self {
        Self {
            payload: self.payload.clone(),
            texts: Arc::clone(&self.texts),
            forms: Arc::clone(&self.forms),
            ..Self::default()
        }
    }

    /// Whether there is nothing to keep of a sample.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.lines.is_empty() && self.payload.is_none()
    }

    /// The pieces of sample `number`.
    pub fn pieces_of(&self, number: u64) -> &[Piece] {
        let start = number as usize * self.kinds.len();
        self.pieces.get(start..start + self.kinds.len()).unwrap_or_default()
    }

    /// The form of the payload of sample `number`, as a number in [`Extra::forms`].
    pub fn payload_form(&self, number: u64) -> u32 {
        self.payload_forms.get(number as usize).copied().unwrap_or(Forms::BYTES)
    }

    /// The forms of the components of sample `number`, of which `beside` are those of its pieces.
    pub fn forms_of<'f>(&'f self, number: u64, beside: &'f [u32]) -> Forms<'f> {
        Forms { all: &self.forms, payload: self.payload_form(number), beside }
    }

    /// A form by its number.
    pub fn form(&self, number: u32) -> &Form {
        self.forms.get(number as usize).unwrap_or(&Form::Bytes)
    }

    /// The text that a piece is.
    pub fn text(&self, piece: Piece) -> &[u8] {
        let bytes = piece.length().unwrap_or(0) as usize;
        usize::try_from(piece.stamp).ok().and_then(|start| self.texts.get(start..start + bytes)).unwrap_or_default()
    }

    /// What decides the bytes of sample `number`: for each component its length, and the text if it is one.
    pub fn content_of(&self, number: u64) -> impl Iterator<Item = (Piece, Option<&[u8]>)> {
        let pieces = self.pieces_of(number).iter().zip(&self.kinds);
        pieces.map(|(piece, kind)| (*piece, kind.is_text().then(|| self.text(*piece))))
    }

    /// The same of the samples with these numbers, in this order.
    pub fn chosen(&self, numbers: &[u64]) -> Self {
        let lines = if self.lines.is_empty() { &[] } else { numbers };
        let of_payloads = if self.payload_forms.is_empty() { &[] } else { numbers };
        Self {
            payload_forms: of_payloads.iter().map(|number| self.payload_forms[*number as usize]).collect(),
            kinds: self.kinds.clone(),
            pieces: numbers.iter().flat_map(|number| self.pieces_of(*number)).copied().collect(),
            lines: lines.iter().map(|number| self.lines[*number as usize]).collect(),
            ..self.shared()
        }
    }

    /// The same of these kinds alone, which are some of its own.
    pub fn only(&self, kinds: &[Beside]) -> Self {
        let is_kept: Vec<bool> = self.kinds.iter().map(|kind| kinds.contains(kind)).collect();
        let of_kept = |(piece, kept): (&Piece, &bool)| kept.then_some(*piece);
        Self {
            kinds: self.kinds.iter().filter(|kind| kinds.contains(kind)).cloned().collect(),
            pieces: self.pieces.iter().zip(is_kept.iter().cycle()).filter_map(of_kept).collect(),
            lines: self.lines.clone(),
            payload_forms: self.payload_forms.clone(),
            ..self.shared()
        }
    }

    /// The same of `samples` samples with all these kinds, its own among them: of the others no sample has one.
    pub fn with(&self, kinds: &[Beside], samples: u64) -> Self {
        let own: Vec<Option<usize>> =
            kinds.iter().map(|kind| self.kinds.iter().position(|own| own.join(kind).is_some())).collect();
        let of_sample = |number| {
            let pieces = self.pieces_of(number);
            own.iter().map(|at| at.and_then(|at| pieces.get(at)).copied().unwrap_or(Piece::ABSENT))
        };
        Self {
            kinds: kinds.to_vec(),
            pieces: (0..samples).flat_map(of_sample).collect(),
            lines: self.lines.clone(),
            payload_forms: self.payload_forms.clone(),
            ..self.shared()
        }
    }

    /// Whether each form is of the type of its component, and of the length of its content.
    fn are_typed(&self) -> bool {
        let fits = |kind: &Beside, form: u32, bytes: u32| match kind.kind() {
            None => form == Forms::BYTES,
            Some(kind) => {
                let form = self.form(form);
                let length = form.items_bytes().map(|items| items + form.head().len() as u64);
                kind.takes(form) && length.is_none_or(|length| length == u64::from(bytes))
            }
        };
        let mut pieces = self.pieces.iter().zip(self.kinds.iter().cycle());
        let is_form = |form: &u32| *form == Forms::BYTES || (*form as usize) < self.forms.len();
        pieces.all(|(piece, kind)| piece.length().is_none_or(|bytes| fits(kind, piece.form, bytes)))
            && self.payload_forms.iter().all(is_form)
    }

    /// Fails where it is not of so many samples, or a text lies outside the texts.
    ///
    /// # Errors
    /// Says so.
    pub fn check(&self, samples: u64) -> Result<()> {
        let fits = |piece: &Piece, kind: &Beside| match (kind.is_text(), piece.length()) {
            (true, Some(bytes)) => {
                let end = u64::try_from(piece.stamp).ok().and_then(|start| start.checked_add(bytes.into()));
                end.is_some_and(|end| end <= self.texts.len() as u64)
            }
            _ => true,
        };
        let right = self.pieces.len() as u64 == samples * self.kinds.len() as u64
            && (self.lines.is_empty() || self.lines.len() as u64 == samples)
            && self.payload_forms.len() as u64 == if self.payload.is_some() { samples } else { 0 }
            && self.pieces.iter().zip(self.kinds.iter().cycle()).all(|(piece, kind)| fits(piece, kind))
            && self.are_typed();
        if right { Ok(()) } else { Err(Error::data("components of the listing are not those of its samples")) }
    }
}

/// Forms that are met, each once.
#[derive(Debug, Default)]
pub struct Interner {
    forms: Vec<Form>,
    numbers: HashMap<Form, u32>,
}

impl Interner {
    /// The number of a form.
    pub fn number(&mut self, form: &Form) -> u32 {
        if let Some(number) = self.numbers.get(form) {
            return *number;
        }
        // No more of them than samples have components, whose places in memory are more than 32 bits can count.
        let number = self.forms.len() as u32;
        self.forms.push(form.clone());
        self.numbers.insert(form.clone(), number);
        number
    }

    /// All so far, by number.
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// All of them, by number.
    pub fn finish(self) -> Arc<Vec<Form>> {
        Arc::new(self.forms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_with_their_samples() {
        let mut extra = Extra::of(vec![Beside::text(), Beside::files("txt").unwrap()]);
        extra.texts = Arc::new(b"{1}{22}".to_vec());
        extra.pieces = [(3, 0), (7, 5), (4, 3), (u32::MAX, 0)].map(|(bytes, stamp)| Piece::file(bytes, stamp)).to_vec();
        extra.check(2).unwrap();
        let swapped = extra.chosen(&[1, 0]);
        let content: Vec<_> = swapped.content_of(0).map(|(piece, text)| (piece.length(), text)).collect();
        assert_eq!(content, [(Some(4), Some(b"{22}".as_slice())), (None, None)]);
        let more = [Beside::files("mask.png").unwrap(), Beside::files("txt").unwrap(), Beside::text()];
        let wider = extra.with(&more, 2);
        wider.check(2).unwrap();
        let lengths: Vec<_> = wider.pieces_of(0).iter().map(|piece| piece.length()).collect();
        assert_eq!(lengths, [None, Some(7), Some(3)]);
        assert!(extra.check(1).is_err() && extra.check(3).is_err());
        extra.pieces[2].stamp = 4;
        assert!(extra.check(2).is_err());
    }
}
