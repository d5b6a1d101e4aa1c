//! Extra components, gathered over the samples of a batch: arrays of one form as one array, arrays whose first axis differs as one array
//! of all rows, everything else one by one.
//!
//! Holds at all times: there are as many values as samples; the result does not depend on how many were gathered at a time; if the
//! manifest declares the type of an array, the result has the same shape of thing in every batch.

use std::borrow::Cow;

use shardpack_format::component::{Form, Kind, Type};

use crate::roles::Role;

/// An extra component, for all samples of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the component in the manifest.
    pub name: String,
    /// The view that it follows, from 0.
    pub view: usize,
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
    /// Its number among the requested components.
    pub component: usize,
    /// The view that it follows.
    pub view: usize,
    /// Its type, if the manifests declare one; with a role, the type after the cut.
    pub declared: Option<Type>,
    /// Its relation to the image.
    pub role: Option<Role>,
}

impl Wanted {
    /// Whether some samples lack the component.
    pub fn is_optional(&self) -> bool {
        self.declared.as_ref().is_some_and(|declared| declared.is_optional)
    }

    /// No values yet.
    pub fn begin(&self) -> Gathered {
        let each = || Some(Values::Each(Vec::new()));
        let values = match self.declared.as_ref().map(|declared| &declared.kind) {
            _ if self.is_optional() => each(),
            Some(Kind::Array { dtype: Some(dtype), shape: Some(shape) }) => match &shape[..] {
                [None, row @ ..] if let Some(row) = row.iter().copied().collect::<Option<Vec<u64>>>() => {
                    Some(Values::Ragged { dtype: dtype.clone(), row, items: Vec::new(), offsets: vec![0] })
                }
                shape if shape.contains(&None) => each(),
                _ => None,
            },
            // Arrays without a common form.
            Some(Kind::Array { .. }) => each(),
            _ => None,
        };
        Gathered { values, len: 0 }
    }
}

/// The values of a component for consecutive samples.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// In the first form of [`Values`] that all of them have; `None` before the first.
    values: Option<Values>,
    len: usize,
}

impl Gathered {
    pub fn push(&mut self, value: Value<'_>) {
        match (value, &mut self.values) {
            (Value::Array(form, new), Some(Values::Stacked { form: known, items })) if *form == *known => {
                items.extend_from_slice(&new);
            }
            (Value::Array(form, new), Some(Values::Ragged { dtype, row, items, offsets }))
                if rows(&form) == Some((dtype, row)) =>
            {
                items.extend_from_slice(&new);
                offsets.extend(first_axis(&form).map(|length| offsets[offsets.len() - 1] + length));
            }
            (Value::Array(form, items), _) => {
                let (form, items) = (form.into_owned(), items.into_owned());
                return self.append(Self { values: Some(Values::Stacked { form, items }), len: 1 });
            }
            (Value::Content(form, content), _) => self.each().push(Some((form, content))),
            (Value::Missing, _) => self.each().push(None),
        }
        self.len += 1;
    }

    /// Appends the values of `other`.
    pub fn append(&mut self, other: Self) {
        self.values = match (self.values.take(), other.values) {
            (one, None) | (None, one) => one,
            (Some(Values::Stacked { form, mut items }), Some(Values::Stacked { form: new, items: more }))
                if form == new =>
            {
                items.extend(more);
                Some(Values::Stacked { form, items })
            }
            (Some(one), Some(new)) => Some(match (ragged(one, self.len), ragged(new, other.len)) {
                (
                    Values::Ragged { dtype, row, mut items, mut offsets },
                    Values::Ragged { dtype: of_new, row: row_of_new, items: more, offsets: new },
                ) if (&dtype, &row) == (&of_new, &row_of_new) => {
                    let end = offsets[offsets.len() - 1];
                    items.extend(more);
                    offsets.extend(new.iter().skip(1).map(|offset| end + offset));
                    Values::Ragged { dtype, row, items, offsets }
                }
                (one, new) => {
                    let mut each = each(one, self.len);
                    each.extend(self::each(new, other.len));
                    Values::Each(each)
                }
            }),
        };
        self.len += other.len;
    }

    /// The values for a batch.
    pub fn into_values(self) -> Values {
        self.values.unwrap_or_else(|| Values::Each(Vec::new()))
    }

    /// Switches to separate values, for good.
    fn each(&mut self) -> &mut Vec<Option<(Form, Vec<u8>)>> {
        let all = self.values.take().map_or_else(Vec::new, |values| each(values, self.len));
        match self.values.insert(Values::Each(all)) {
            Values::Each(each) => each,
            _ => unreachable!("inserted in the line above"),
        }
    }
}

/// The values of `len` samples as rows, if they can be; else unchanged.
fn ragged(values: Values, len: usize) -> Values {
    match values {
        Values::Stacked { form: Form::Array { dtype, shape }, items } if !shape.is_empty() => {
            let offsets = (0..=len as u64).map(|at| at * shape[0]).collect();
            Values::Ragged { dtype, row: shape[1..].to_vec(), items, offsets }
        }
        other => other,
    }
}

/// The value of each of `len` samples alone.
fn each(values: Values, len: usize) -> Vec<Option<(Form, Vec<u8>)>> {
    match values {
        Values::Each(each) => each,
        Values::Stacked { form, items } => {
            let bytes = items.len() / len.max(1);
            (0..len).map(|at| Some(content(&form, &items[at * bytes..(at + 1) * bytes]))).collect()
        }
        Values::Ragged { dtype, row, items, offsets } => {
            // The items of all rows are in memory, so their numbers fit.
            let row_bytes = items.len() / (offsets[offsets.len() - 1] as usize).max(1);
            let each = offsets.windows(2).map(|of| {
                let shape = std::iter::once(of[1] - of[0]).chain(row.iter().copied()).collect();
                let form = Form::Array { dtype: dtype.clone(), shape };
                Some(content(&form, &items[of[0] as usize * row_bytes..of[1] as usize * row_bytes]))
            });
            each.collect()
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
            component: 0,
            view: 0,
            declared: declared.map(|text| text.parse().unwrap()),
            role: None,
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
        // Arrays without a common form are separate in every batch, whatever they happen to be there.
        for declared in ["<u2[2x?]", "<u2", "array[?]", "array"] {
            assert!(
                matches!(values(Some(declared), &[&[2, 4], &[2, 4]]), Values::Each(each) if each.len() == 2),
                "{declared}"
            );
        }
        // An array that contradicts the declared type stays as it is.
        assert!(matches!(values(Some("<u2[?x4]"), &[&[2, 4], &[2, 3]]), Values::Each(each) if each.len() == 2));
        assert!(wanted(Some("<u2[2]?")).is_optional() && !wanted(Some("<u2[2]")).is_optional());
    }
}
