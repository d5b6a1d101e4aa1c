//! Extra components, gathered over the samples of a batch: arrays of one form as one array, arrays whose first axis differs as one array
//! of all rows, everything else one by one.
//!
//! Holds at all times: there are as many values as samples; the result does not depend on how many were gathered at a time; if the
//! manifest declares the type of an array, the result has the same shape of thing in every batch.

use std::borrow::Cow;

use shardpack_format::component::{Form, Kind, Type};

/// An extra component, for all samples of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the component in the manifest.
    pub name: String,
    /// The values.
    pub values: Values,
}

/// The values of a [`Column`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Every sample has an array of this form: the items of all arrays, one array after the other, in C order.
    Stacked {
        /// dtype as numpy writes it (`<f4`), and the shape of one array.
        form: Form,
        /// The items of all samples, little-endian unless the dtype has another byte order.
        items: Vec<u8>,
    },
    /// Every sample has an array of this dtype, and all have rows of one shape: the items of all rows, in C order.
    Ragged {
        /// dtype as numpy writes it (`<f4`).
        dtype: String,
        /// Shape of one row, which is the shape of an array without its first axis.
        row: Vec<u64>,
        /// The items of all samples, little-endian unless the dtype has another byte order.
        items: Vec<u8>,
        /// Number of the first row of each sample, from 0, and of the end of the last.
        offsets: Vec<u64>,
    },
    /// Unchanged values: a file, text, JSON or `.npy`, as the form states; `None` for samples without the component.
    Each(Vec<Option<(Form, Vec<u8>)>>),
}

/// A value to be added to a column.
pub(crate) enum Value<'s> {
    /// The items of an array, in C order.
    Array(Cow<'s, Form>, Cow<'s, [u8]>),
    /// Any other value, unchanged.
    Content(Form, Vec<u8>),
    /// The sample lacks the component.
    Missing,
}

/// A requested component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Name of the component in the manifest.
    pub name: String,
    /// Its type, if the manifests declare one.
    pub declared: Option<Type>,
}

impl Wanted {
    /// Whether some samples lack the component.
    pub fn is_optional(&self) -> bool {
        self.declared.as_ref().is_some_and(|declared| declared.is_optional)
    }

    /// No values yet.
    pub fn begin(&self) -> Gathered {
        let rows = match self.declared.as_ref().map(|declared| &declared.kind) {
            Some(Kind::Array { dtype: Some(dtype), shape: Some(shape) }) => match &shape[..] {
                [None, row @ ..] => row.iter().copied().collect::<Option<Vec<u64>>>().map(|row| (dtype.clone(), row)),
                _ => None,
            },
            _ => None,
        };
        let so_far = match (self.is_optional(), rows) {
            (true, _) => SoFar::Each(Vec::new()),
            (false, Some((dtype, row))) => SoFar::Ragged { dtype, row, items: Vec::new(), lengths: Vec::new() },
            (false, None) => SoFar::Nothing,
        };
        Gathered { so_far, len: 0 }
    }
}

/// The values of a component for consecutive samples.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    so_far: SoFar,
    len: usize,
}

/// The values so far, in the first of these forms that all of them have.
#[derive(Debug, Default)]
enum SoFar {
    #[default]
    Nothing,
    /// Arrays of one form.
    Stacked {
        form: Form,
        items: Vec<u8>,
    },
    /// Arrays of one dtype whose shapes differ in the first axis at most: the shape of a row, and the rows of each array.
    Ragged {
        dtype: String,
        row: Vec<u64>,
        items: Vec<u8>,
        lengths: Vec<u64>,
    },
    Each(Vec<Option<(Form, Vec<u8>)>>),
}

impl Gathered {
    pub fn push(&mut self, value: Value<'_>) {
        match (value, &mut self.so_far) {
            (Value::Array(form, new), SoFar::Stacked { form: known, items }) if *form == *known => {
                items.extend_from_slice(&new);
            }
            (Value::Array(form, new), SoFar::Ragged { dtype, row, items, lengths })
                if rows(&form) == Some((dtype, row)) =>
            {
                items.extend_from_slice(&new);
                lengths.extend(first_axis(&form));
            }
            (Value::Array(form, items), _) => {
                let (form, items) = (form.into_owned(), items.into_owned());
                return self.append(Self { so_far: SoFar::Stacked { form, items }, len: 1 });
            }
            (Value::Content(form, content), _) => self.each().push(Some((form, content))),
            (Value::Missing, _) => self.each().push(None),
        }
        self.len += 1;
    }

    /// Appends the values of `other`.
    pub fn append(&mut self, mut other: Self) {
        self.so_far = match (std::mem::take(&mut self.so_far), std::mem::take(&mut other.so_far)) {
            (one, SoFar::Nothing) | (SoFar::Nothing, one) => one,
            (SoFar::Stacked { form, mut items }, SoFar::Stacked { form: new, items: more }) if form == new => {
                items.extend(more);
                SoFar::Stacked { form, items }
            }
            (one, new) => match (one.into_ragged(self.len), new.into_ragged(other.len)) {
                (
                    SoFar::Ragged { dtype, row, mut items, mut lengths },
                    SoFar::Ragged { dtype: of_new, row: row_of_new, items: more, lengths: lengths_of_new },
                ) if (&dtype, &row) == (&of_new, &row_of_new) => {
                    items.extend(more);
                    lengths.extend(lengths_of_new);
                    SoFar::Ragged { dtype, row, items, lengths }
                }
                (one, new) => {
                    let (mut one, new) = (one.into_each(self.len), new.into_each(other.len));
                    one.extend(new);
                    SoFar::Each(one)
                }
            },
        };
        self.len += other.len;
    }

    /// The values for a batch.
    pub fn into_values(self) -> Values {
        match self.so_far {
            SoFar::Nothing => Values::Each(Vec::new()),
            SoFar::Stacked { form, items } => Values::Stacked { form, items },
            SoFar::Ragged { dtype, row, items, lengths } => {
                let ends = lengths.iter().scan(0, |end, length| {
                    *end += length;
                    Some(*end)
                });
                let offsets = std::iter::once(0).chain(ends).collect();
                Values::Ragged { dtype, row, items, offsets }
            }
            SoFar::Each(each) => Values::Each(each),
        }
    }

    /// Switches to separate values, for good.
    fn each(&mut self) -> &mut Vec<Option<(Form, Vec<u8>)>> {
        self.so_far = SoFar::Each(std::mem::take(&mut self.so_far).into_each(self.len));
        match &mut self.so_far {
            SoFar::Each(each) => each,
            _ => unreachable!("set in the line above"),
        }
    }
}

impl SoFar {
    /// As rows, if `len` values of this form can be; else unchanged.
    fn into_ragged(self, len: usize) -> Self {
        match self {
            Self::Stacked { form: Form::Array { dtype, shape }, items } if !shape.is_empty() => {
                Self::Ragged { dtype, row: shape[1..].to_vec(), items, lengths: vec![shape[0]; len] }
            }
            other => other,
        }
    }

    /// Each of `len` values alone.
    fn into_each(self, len: usize) -> Vec<Option<(Form, Vec<u8>)>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Each(each) => each,
            Self::Stacked { form, items } => {
                let bytes = items.len() / len.max(1);
                (0..len).map(|at| Some(content(&form, &items[at * bytes..(at + 1) * bytes]))).collect()
            }
            Self::Ragged { dtype, row, items, lengths } => {
                let row_bytes = items.len() / usize::try_from(lengths.iter().sum::<u64>()).unwrap_or(usize::MAX).max(1);
                let mut left = &items[..];
                let each = lengths.into_iter().map(|length| {
                    // The items of all rows are in memory, so their lengths fit.
                    let (own, rest) = left.split_at(length as usize * row_bytes);
                    left = rest;
                    let shape = std::iter::once(length).chain(row.iter().copied()).collect();
                    Some(content(&Form::Array { dtype: dtype.clone(), shape }, own))
                });
                each.collect()
            }
        }
    }
}

/// The content of an array with these items.
fn content(form: &Form, items: &[u8]) -> (Form, Vec<u8>) {
    (form.clone(), [form.head().as_slice(), items].concat())
}

/// The dtype of an array and the shape of its rows, if it has rows.
fn rows(form: &Form) -> Option<(&String, &[u64])> {
    match form {
        Form::Array { dtype, shape } => Some((dtype, shape.get(1..)?)),
        _ => None,
    }
}

/// The number of rows of an array.
fn first_axis(form: &Form) -> Option<u64> {
    match form {
        Form::Array { shape, .. } => shape.first().copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[u64], byte: u8) -> (Form, Vec<u8>) {
        let form = Form::array("<u2", shape).unwrap();
        let items = vec![byte; form.items_bytes().unwrap() as usize];
        (form, items)
    }

    fn gathered(values: &[Option<(Form, Vec<u8>)>]) -> Gathered {
        let mut all = Gathered::default();
        for value in values {
            all.push(match value {
                Some((form @ Form::Array { .. }, items)) => Value::Array(Cow::Borrowed(form), items.into()),
                Some((form, content)) => Value::Content(form.clone(), content.clone()),
                None => Value::Missing,
            });
        }
        all
    }

    /// A simple reference implementation.
    fn expected(values: &[Option<(Form, Vec<u8>)>]) -> Values {
        match values {
            [Some((first @ Form::Array { .. }, _)), ..]
                if values.iter().all(|value| value.as_ref().is_some_and(|(form, _)| form == first)) =>
            {
                let items = values.iter().flatten().flat_map(|(_, items)| items.clone()).collect();
                Values::Stacked { form: first.clone(), items }
            }
            [Some((Form::Array { dtype, shape: first }, _)), ..]
                if !first.is_empty()
                    && values.iter().all(|value| match value {
                        Some((Form::Array { dtype: other, shape }, _)) => {
                            dtype == other && shape.get(1..) == Some(&first[1..])
                        }
                        _ => false,
                    }) =>
            {
                let mut offsets = vec![0];
                for (form, _) in values.iter().flatten() {
                    offsets.push(offsets[offsets.len() - 1] + first_axis(form).unwrap());
                }
                let items = values.iter().flatten().flat_map(|(_, items)| items.clone()).collect();
                Values::Ragged { dtype: dtype.clone(), row: first[1..].to_vec(), items, offsets }
            }
            _ => Values::Each(
                values
                    .iter()
                    .map(|value| {
                        value.as_ref().map(|(form, bytes)| (form.clone(), [form.head(), bytes.clone()].concat()))
                    })
                    .collect(),
            ),
        }
    }

    #[test]
    fn arrays_are_stacked_or_ragged_and_all_else_stays_however_it_is_gathered() {
        let kinds = [
            Some(array(&[2], 7)),
            Some(array(&[3], 8)),
            Some(array(&[0], 9)),
            Some(array(&[2, 2], 10)),
            Some(array(&[], 11)),
            Some((Form::Text, b"a cat".to_vec())),
            None,
        ];
        for first in 0..7 {
            for second in 0..7 {
                for third in 0..7 {
                    let values = [first, first, second, third].map(|kind| kinds[kind].clone());
                    assert_eq!(gathered(&values).into_values(), expected(&values));
                    for cut in 0..=4 {
                        let mut parts = gathered(&values[..cut]);
                        parts.append(gathered(&values[cut..]));
                        assert_eq!((parts.len, parts.into_values()), (4, expected(&values)), "{cut}");
                    }
                }
            }
        }
        assert_eq!(Gathered::default().into_values(), Values::Each(Vec::new()));
    }

    #[test]
    fn a_declared_type_decides_for_every_batch() {
        let wanted = |declared: Option<&str>| Wanted {
            name: "x.npy".to_owned(),
            declared: declared.map(|text| text.parse().unwrap()),
        };
        let values = |declared: Option<&str>, shapes: &[&[u64]]| {
            let mut all = wanted(declared).begin();
            for shape in shapes {
                let (form, items) = array(shape, 1);
                all.push(Value::Array(Cow::Owned(form), items.into()));
            }
            all.into_values()
        };
        let ragged = |values: Values| match values {
            Values::Ragged { dtype, row, items, offsets } => (dtype, row, items.len(), offsets),
            other => panic!("{other:?}"),
        };
        let of = |row: &[u64], bytes, offsets: &[u64]| ("<u2".to_owned(), row.to_vec(), bytes, offsets.to_vec());
        assert_eq!(ragged(values(Some("<u2[?x4]"), &[&[2, 4], &[2, 4]])), of(&[4], 32, &[0, 2, 4]));
        assert_eq!(ragged(values(Some("<u2[?]"), &[])), of(&[], 0, &[0]));
        assert_eq!(ragged(values(Some("<u2[?x0]"), &[&[3, 0]])), of(&[0], 0, &[0, 3]));
        assert!(matches!(values(Some("<u2[2x4]"), &[&[2, 4], &[2, 4]]), Values::Stacked { .. }));
        assert!(matches!(values(Some("<u2[2]?"), &[&[2], &[2]]), Values::Each(each) if each.len() == 2));
        // An array that contradicts the declared type stays as it is.
        assert!(matches!(values(Some("<u2[?x4]"), &[&[2, 4], &[2, 3]]), Values::Each(each) if each.len() == 2));
        assert!(wanted(Some("<u2[2]?")).is_optional() && !wanted(Some("<u2[2]")).is_optional());
    }
}
