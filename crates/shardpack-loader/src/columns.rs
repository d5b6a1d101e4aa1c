//! Extra components, gathered over the samples of a batch: arrays of one form as one array, everything else one by one.
//!
//! Holds at all times: there are as many values as samples; the result does not depend on how many were gathered at a time.

use std::borrow::Cow;

use shardpack_format::component::Form;

use crate::batch::Values;

/// A value to be added to a column.
pub(crate) enum Value<'s> {
    /// The items of an array, in C order.
    Array(Cow<'s, Form>, Cow<'s, [u8]>),
    /// Any other value, unchanged.
    Content(Form, Vec<u8>),
    /// The sample lacks the component.
    Missing,
}

/// The values of a component for consecutive samples.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The common form while all values are arrays of one form: then `items` has the items, otherwise `each` has the values.
    form: Option<Form>,
    items: Vec<u8>,
    each: Vec<Option<(Form, Vec<u8>)>>,
    len: usize,
}

impl Gathered {
    pub fn push(&mut self, value: Value<'_>) {
        match (value, &self.form) {
            (Value::Array(form, items), known)
                if known.as_ref() == Some(&*form) || known.is_none() && self.each.is_empty() =>
            {
                self.items.extend_from_slice(&items);
                self.form.get_or_insert_with(|| form.into_owned());
            }
            (Value::Array(form, items), _) => {
                let content = [form.head().as_slice(), &items].concat();
                self.each().push(Some((form.into_owned(), content)));
            }
            (Value::Content(form, content), _) => self.each().push(Some((form, content))),
            (Value::Missing, _) => self.each().push(None),
        }
        self.len += 1;
    }

    /// Appends the values of `other`.
    pub fn append(&mut self, mut other: Self) {
        if self.len == 0 {
            *self = other;
            return;
        }
        if other.len > 0 {
            match self.form.is_some() && self.form == other.form {
                true => self.items.append(&mut other.items),
                false => self.each().append(other.each()),
            }
        }
        self.len += other.len;
    }

    /// The values for a batch.
    pub fn into_values(self) -> Values {
        match self.form {
            Some(form) => Values::Stacked { form, items: self.items },
            None => Values::Each(self.each),
        }
    }

    /// Switches to separate values, for good.
    fn each(&mut self) -> &mut Vec<Option<(Form, Vec<u8>)>> {
        if let Some(form) = self.form.take() {
            let (head, items) = (form.head(), std::mem::take(&mut self.items));
            let bytes = items.len() / self.len.max(1);
            let content = |at: usize| [head.as_slice(), &items[at * bytes..(at + 1) * bytes]].concat();
            self.each = (0..self.len).map(|at| Some((form.clone(), content(at)))).collect();
        }
        &mut self.each
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
    fn arrays_of_one_form_are_stacked_and_all_else_stays_however_it_is_gathered() {
        let kinds = [
            Some(array(&[2], 7)),
            Some(array(&[3], 8)),
            Some(array(&[0], 9)),
            Some((Form::Text, b"a cat".to_vec())),
            None,
        ];
        for first in 0..5 {
            for second in 0..5 {
                for third in 0..5 {
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
}
