//! What samples have beside image, name and class: components of their source's own, and their places in a list.
//!
//! Holds at all times: either nothing of a kind, or one of it for every sample, in the order of the listing.

use std::sync::Arc;

use shardpack_format::{Error, Result, formats::Beside};

/// A component that a sample has beside its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Length in bytes; [`Piece::ABSENT`] says that there is none.
    pub bytes: u32,
    /// Of a file, as [`crate::listing::Entry::stamp`]; of a text, where it starts in the texts.
    pub stamp: i64,
}

impl Piece {
    /// Stands for a component that a sample does not have.
    pub const ABSENT: Self = Self { bytes: u32::MAX, stamp: 0 };

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

    /// Whether there is nothing to keep of a sample.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.lines.is_empty()
    }

    /// The pieces of sample `number`.
    pub fn pieces_of(&self, number: u64) -> &[Piece] {
        let start = number as usize * self.kinds.len();
        self.pieces.get(start..start + self.kinds.len()).unwrap_or_default()
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
        Self {
            kinds: self.kinds.clone(),
            pieces: numbers.iter().flat_map(|number| self.pieces_of(*number)).copied().collect(),
            texts: Arc::clone(&self.texts),
            lines: lines.iter().map(|number| self.lines[*number as usize]).collect(),
        }
    }

    /// The same of these kinds alone, which are some of its own.
    pub fn only(&self, kinds: &[Beside]) -> Self {
        let is_kept: Vec<bool> = self.kinds.iter().map(|kind| kinds.contains(kind)).collect();
        let of_kept = |(piece, kept): (&Piece, &bool)| kept.then_some(*piece);
        Self {
            kinds: self.kinds.iter().filter(|kind| kinds.contains(kind)).cloned().collect(),
            pieces: self.pieces.iter().zip(is_kept.iter().cycle()).filter_map(of_kept).collect(),
            texts: Arc::clone(&self.texts),
            lines: self.lines.clone(),
        }
    }

    /// The same of `samples` samples with all these kinds, its own among them: of the others no sample has one.
    pub fn with(&self, kinds: &[Beside], samples: u64) -> Self {
        let own: Vec<Option<usize>> = kinds.iter().map(|kind| self.kinds.iter().position(|own| own == kind)).collect();
        let of_sample = |number| {
            let pieces = self.pieces_of(number);
            own.iter().map(|at| at.and_then(|at| pieces.get(at)).copied().unwrap_or(Piece::ABSENT))
        };
        Self {
            kinds: kinds.to_vec(),
            pieces: (0..samples).flat_map(of_sample).collect(),
            texts: Arc::clone(&self.texts),
            lines: self.lines.clone(),
        }
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
            && self.pieces.iter().zip(self.kinds.iter().cycle()).all(|(piece, kind)| fits(piece, kind));
        if right { Ok(()) } else { Err(Error::data("components of the listing are not those of its samples")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_with_their_samples() {
        let mut extra = Extra::of(vec![Beside::text(), Beside::files("txt").unwrap()]);
        extra.texts = Arc::new(b"{1}{22}".to_vec());
        extra.pieces = [(3, 0), (7, 5), (4, 3), (u32::MAX, 0)].map(|(bytes, stamp)| Piece { bytes, stamp }).to_vec();
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
