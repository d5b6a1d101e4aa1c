//! Splits arrays along their first axis, and into single values.
//!
//! Items are ranges in the input, not copies; an array without bytes has no parts.

use super::{
    Array, EncodedRange, Value,
    dtype::{Dtype, Number},
};

/// Most parts that an array is taken into.
const MAX_ITEMS: u64 = 1 << 18;

impl Array {
    /// The arrays along the first axis; `input` is the source of the array.
    ///
    /// # Errors
    /// If the parts are not contiguous, or are too many.
    pub fn rows(&self, input: &[u8]) -> Result<Vec<Self>, String> {
        let Some((count, shape)) = self.shape.split_first() else { return Err("an array without axes".to_owned()) };
        if self.is_fortran && self.shape.len() > 1 {
            return Err("an array in Fortran's order, so that none of its images lies in one piece".to_owned());
        }
        if self.data.is_empty() || *count > MAX_ITEMS {
            return Err(format!("an array of {count} images and {} bytes", self.data.len()));
        }
        // Neither is 0, for the length of the data is that of the shape.
        let (count, row_bytes) = (*count as usize, self.data.len() / *count as usize);
        let parts = self.data.parts(input, count, row_bytes)?;
        let row = |data| Self { dtype: self.dtype.clone(), shape: shape.to_vec(), is_fortran: false, data };
        Ok(parts.into_iter().map(row).collect())
    }

    /// The number in an array without axes; `None` if the array has axes, or no number of at most 64 bits.
    pub fn scalar(&self, input: &[u8]) -> Option<Value> {
        let dtype = Dtype::parse(self.dtype.as_bytes()).ok().filter(|_| self.shape.is_empty())?;
        dtype.number(&self.data.read(input)).map(Number::into)
    }

    /// The numbers of an array of one axis, or of one column.
    pub fn numbers(&self, input: &[u8]) -> Option<Vec<Value>> {
        let is_flat = matches!(self.shape[..], [_] | [_, 1]);
        let dtype = Dtype::parse(self.dtype.as_bytes()).ok().filter(|_| is_flat && self.shape[0] <= MAX_ITEMS)?;
        let data = self.data.read(input);
        let item_bytes = usize::try_from(dtype.item_bytes()).ok().filter(|bytes| *bytes > 0)?;
        data.chunks_exact(item_bytes).map(|item| dtype.number(item).map(Number::into)).collect()
    }
}

impl EncodedRange {
    /// The `count` parts of `bytes` bytes each.
    fn parts(&self, input: &[u8], count: usize, bytes: usize) -> Result<Vec<Self>, String> {
        match self {
            Self::Plain(range) => Ok((0..count)
                .map(|number| range.start + number * bytes)
                .map(|at| Self::Plain(at..at + bytes))
                .collect()),
            Self::Latin1 { range, .. } => {
                let mut parts = Vec::with_capacity(count);
                let text = input.get(range.clone()).unwrap_or_default();
                // The second byte of a character is 10cdefgh, and begins none.
                let mut starts = (0..text.len()).filter(|at| text[*at] & 0xc0 != 0x80).step_by(bytes);
                let mut start = starts.next().unwrap_or(text.len());
                for _ in 0..count {
                    let end = starts.next().unwrap_or(text.len());
                    parts.push(Self::Latin1 { range: range.start + start..range.start + end, bytes });
                    start = end;
                }
                Ok(parts)
            }
            Self::Owned(_) => Err("an array whose bytes are escaped, as in pickles of protocol 0".to_owned()),
        }
    }

    /// The first bytes, at most `bytes`; `input` is the source of the array.
    pub fn first(&self, input: &[u8], bytes: usize) -> Vec<u8> {
        let short = match self {
            Self::Plain(range) => Self::Plain(range.start..range.end.min(range.start.saturating_add(bytes))),
            // A byte is a character of one or two.
            Self::Latin1 { range, .. } => {
                let range = range.start..range.end.min(range.start.saturating_add(2 * bytes));
                Self::Latin1 { range, bytes: 2 * bytes }
            }
            Self::Owned(_) => self.clone(),
        };
        let mut first = short.read(input).into_owned();
        first.truncate(bytes);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[u64], data: EncodedRange) -> Array {
        Array { dtype: "|u1".to_owned(), shape: shape.to_vec(), is_fortran: false, data }
    }

    #[test]
    fn rows_lie_where_the_array_does() {
        let rows = array(&[3, 2, 1], EncodedRange::Plain(1..7)).rows(b"x123456").unwrap();
        assert_eq!(rows.iter().map(|row| row.data.range().unwrap()).collect::<Vec<_>>(), [1..3, 3..5, 5..7]);
        assert!(rows.iter().all(|row| row.shape == [2, 1]));
        let input = "x\u{80}1\u{ff}23\u{90}".as_bytes();
        let rows = array(&[3, 2], EncodedRange::Latin1 { range: 1..input.len(), bytes: 6 }).rows(input).unwrap();
        let read: Vec<_> = rows.iter().map(|row| row.data.read(input).into_owned()).collect();
        assert_eq!(read, [vec![0x80, b'1'], vec![0xff, b'2'], vec![b'3', 0x90]]);
    }

    #[test]
    fn what_has_no_rows_is_refused() {
        let fortran = Array { is_fortran: true, ..array(&[2, 2], EncodedRange::Plain(0..4)) };
        let owned = array(&[2, 1], EncodedRange::Owned([1, 2].into()));
        let empty = array(&[1 << 60, 0], EncodedRange::Plain(0..0));
        let many = array(&[MAX_ITEMS + 1], EncodedRange::Plain(0..MAX_ITEMS as usize + 1));
        for array in [fortran, owned, empty, many, array(&[], EncodedRange::Plain(0..1))] {
            array.rows(&[0; 4]).expect_err("rows");
        }
    }

    #[test]
    fn first_bytes_are_those_of_the_whole() {
        let input = "\u{ff}\u{d8}\u{ff}abc".as_bytes();
        let latin1 = EncodedRange::Latin1 { range: 0..input.len(), bytes: 6 };
        assert_eq!(latin1.first(input, 3), [0xff, 0xd8, 0xff]);
        assert_eq!(latin1.first(input, 4), [0xff, 0xd8, 0xff, b'a']);
        assert_eq!(EncodedRange::Plain(1..6).first(b"012345", 2), b"12");
    }
}
