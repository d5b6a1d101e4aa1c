//! Makes values from the features of an example: form, length and content. Beside an image, only arrays and numbers have a form.
//!
//! A list of numbers is an array, one integer is a number, one float is an array without axes. One value of bytes is text or bytes,
//! and several texts are JSON. [`super::super::writer`] writes `NAME/shape` and `NAME/dtype` beside a feature; both count if they agree
//! with its length. A list of numbers in steps (`SequenceExample`) is an array if all steps have the same count, otherwise JSON. Text in
//! steps is JSON. Other bytes in steps are an array if each step has one value, all of the same length. The form depends on one example
//! alone, so a single value also has its length in the wider form, see [`Form::wider`].
//!
//! Holds at all times: form and length match the content that is later made from the same example.

use std::{collections::BTreeSet, ops::Range};

use super::super::example::{Example, Kind, List, Value};
use crate::{
    component::{self, Form, MAX_AXES},
    formats::foreign::{Other, Plain},
};

/// The dtypes of lists of floats, lists of whole numbers, and bytes in steps, as numpy writes them.
const FLOAT32: &str = "<f4";
const INT64: &str = "<i8";
const BYTES: &str = "|u1";
/// The dtype of a Python float: one number without `NAME/shape`.
const FLOAT64: &str = "<f8";
/// Recipe bit: the recipe makes a value. The number of the feature, from 0, is in the bits above [`Other::WIDER`].
const IS_VALUE: u32 = 1 << 16;
/// Recipe bit: the content of the value is its text, unless [`Other::WIDER`] is set too.
const IS_NUMBER_TEXT: u32 = 1 << 17;

/// A feature as a value.
#[derive(Debug)]
pub(super) struct Feature<'a> {
    pub key: &'a [u8],
    pub form: Form,
    /// Length of the content in bytes.
    pub bytes: u64,
    /// Length in bytes of the content as [`Form::wider`]; `None` if the feature is not a single value.
    pub wider_bytes: Option<u64>,
    /// Range in the data of the content, or of the items of an array, if stored unchanged; `None` if `recipe` makes the content.
    pub place: Option<Range<usize>>,
    /// Recipe of the content.
    pub recipe: u32,
    /// Whether `NAME/shape` determined the form.
    has_shape: bool,
    /// Whether `NAME/dtype` determined the form.
    has_dtype: bool,
}

/// The features of an example, in the order of their keys. `Err` has key and length in bytes of a feature that is no value. Features
/// without a list are omitted, and so are `NAME/shape` and `NAME/dtype` if they determined the form of another feature.
pub(super) fn features<'a>(example: &Example<'a>, data: &[u8]) -> Vec<Result<Feature<'a>, (&'a [u8], u64)>> {
    let found: Vec<_> = (0..)
        .zip(example.iter())
        .filter(|(_, (_, list))| list.kind != Kind::Nothing)
        .map(|(number, (key, list))| feature(example, data, number, key, list).ok_or((key, list.bytes)))
        .collect();
    let told: BTreeSet<Vec<u8>> = found
        .iter()
        .flatten()
        .flat_map(|one| {
            [one.has_shape.then(|| sibling(one.key, "shape")), one.has_dtype.then(|| sibling(one.key, "dtype"))]
        })
        .flatten()
        .collect();
    let key = |one: &Result<Feature<'a>, (&'a [u8], u64)>| match one {
        Ok(feature) => feature.key,
        Err((key, _)) => key,
    };
    match told.is_empty() {
        true => found,
        false => found.into_iter().filter(|one| !told.contains(key(one))).collect(),
    }
}

impl Feature<'_> {
    /// Number of the feature in its example, from 0.
    pub fn number(&self) -> usize {
        (self.recipe & !IS_VALUE) as usize >> 1
    }

    /// The recipe of a single number as text.
    pub fn number_text(&self) -> u32 {
        self.recipe | IS_NUMBER_TEXT
    }
}

/// The content that `recipe` makes from an example; `None` if the example has no such value.
pub(super) fn content(example: &Example<'_>, data: &[u8], recipe: u32) -> Option<Vec<u8>> {
    let number = (recipe & !(IS_VALUE | IS_NUMBER_TEXT)) >> 1;
    let (key, list) = example.iter().nth(number as usize)?;
    if recipe & (IS_NUMBER_TEXT | Other::WIDER) == IS_NUMBER_TEXT {
        return example.text(list);
    }
    let found = feature(example, data, number, key, list)?;
    let form = match recipe & Other::WIDER {
        0 => found.form.clone(),
        _ => found.form.wider().filter(|_| found.wider_bytes.is_some())?,
    };
    let only = || example.only_bytes(list).and_then(|range| data.get(range));
    let mut out = Vec::new();
    match &form {
        Form::Array { .. } => {
            out = form.head();
            match only() {
                Some(items) => out.extend_from_slice(items),
                None => out.extend_from_slice(&example.items(list)),
            }
        }
        Form::Int => number_of(example, list)?.write(&mut out),
        Form::Float => Plain::Double(double(only()?)?).write(&mut out),
        Form::Text | Form::Bytes => out.extend_from_slice(only()?),
        Form::Json => out = json(example, data, list)?,
    }
    Some(out)
}

/// Whether `NAME/dtype` declares the feature `key` as an array or a number, and its length agrees.
pub(super) fn is_declared(example: &Example<'_>, data: &[u8], key: &[u8]) -> bool {
    let is = |list: &List| feature(example, data, 0, key, list).is_some_and(|found| found.has_dtype);
    has(example, key, "dtype") && example.list(key).is_some_and(is)
}

/// Whether a recipe makes a value.
pub(super) fn is_of_value(recipe: u32) -> bool {
    recipe & IS_VALUE != 0
}

fn feature<'a>(example: &Example<'a>, data: &[u8], number: u32, key: &'a [u8], list: &List) -> Option<Feature<'a>> {
    let shape = example.list(&sibling(key, "shape")).and_then(|list| shape(example, list));
    let (mut has_shape, mut has_dtype) = (false, false);
    let (mut is_single, mut place) = (false, None);
    let form = match (list.kind, example.only_bytes(list)) {
        (Kind::Nothing, _) => return None,
        _ if list.steps.is_some() => of_steps(example, data, list)?,
        (Kind::Floats | Kind::Ints, _) => {
            let dtype = if list.kind == Kind::Ints { INT64 } else { FLOAT32 };
            place = example.packed_floats(list);
            let is_of = |form: &Form| form.items_bytes() == Some(list.bytes);
            match shape.and_then(|shape| Form::array(dtype, &shape).ok()).filter(is_of) {
                Some(form) => {
                    has_shape = true;
                    form
                }
                None if list.values == 1 => {
                    is_single = true;
                    match list.kind {
                        Kind::Ints => Form::Int,
                        _ => Form::array(dtype, &[]).ok()?,
                    }
                }
                None => Form::array(dtype, &[list.values as u64]).ok()?,
            }
        }
        (Kind::Bytes, Some(range)) => {
            let bytes = data.get(range.clone())?;
            let dtype = example.list(&sibling(key, "dtype")).and_then(|list| dtype(example, data, list));
            let array = dtype.zip(shape).and_then(|(dtype, shape)| Form::array(dtype, &shape).ok());
            let number = double(bytes).filter(|_| dtype == Some(FLOAT64) && !has(example, key, "shape"));
            place = Some(range);
            if let Some(form) = array.filter(|form| form.items_bytes() == Some(bytes.len() as u64)) {
                (has_shape, has_dtype) = (true, true);
                form
            } else if let Some(number) = number {
                let form = Form::of_float(number);
                (has_dtype, is_single) = (true, form == Form::Float);
                form
            } else if is_text(bytes) {
                is_single = true;
                Form::Text
            } else {
                Form::Bytes
            }
        }
        (Kind::Bytes, None) => Form::Json,
    };
    let length = |form: &Form| match form.items_bytes() {
        Some(items) => Some(items + form.head_bytes()),
        None => Some(match form {
            Form::Text | Form::Bytes => list.bytes,
            Form::Json => json(example, data, list)?.len() as u64,
            _ => {
                let mut out = Vec::new();
                match form {
                    Form::Int => number_of(example, list)?,
                    _ => Plain::Double(double(data.get(example.only_bytes(list)?)?)?),
                }
                .write(&mut out);
                out.len() as u64
            }
        }),
    };
    let bytes = length(&form)?;
    let wider_bytes = match form.wider() {
        Some(wider) if is_single => Some(length(&wider)?),
        _ => None,
    };
    // The caller may want a single value in its wider form, which only a recipe makes.
    let place = place.filter(|_| !is_single);
    Some(Feature { key, form, bytes, wider_bytes, place, recipe: IS_VALUE | number << 1, has_shape, has_dtype })
}

/// Form of a feature list; `None` for bytes that are not text, if they differ in length or a step does not have one value.
fn of_steps(example: &Example<'_>, data: &[u8], list: &List) -> Option<Form> {
    let steps = list.steps?;
    let array = |dtype: &str, last: usize| {
        let shape = [steps.count as u64, last as u64];
        Form::array(dtype, &shape[..if last == 1 { 1 } else { 2 }]).ok()
    };
    let is_words = |value: Value| match value {
        Value::Bytes(range) => data.get(range).is_some_and(is_text),
        Value::Float(_) | Value::Int(_) => true,
    };
    match (list.kind, steps.values, steps.bytes) {
        (Kind::Ints, Some(values), _) => array(INT64, values),
        (Kind::Floats, Some(values), _) => array(FLOAT32, values),
        _ if example.values(list).into_iter().all(is_words) => Some(Form::Json),
        (Kind::Bytes, Some(1), Some(bytes)) => Form::array(BYTES, &[steps.count as u64, bytes as u64]).ok(),
        _ => None,
    }
}

/// Key of the feature that has the shape or dtype of the feature `key`.
fn sibling(key: &[u8], what: &str) -> Vec<u8> {
    [key, b"/", what.as_bytes()].concat()
}

fn has(example: &Example<'_>, key: &[u8], what: &str) -> bool {
    example.list(&sibling(key, what)).is_some()
}

/// Lengths of axes: integers, at most [`MAX_AXES`].
fn shape(example: &Example<'_>, list: &List) -> Option<Vec<u64>> {
    if list.kind != Kind::Ints || list.values > MAX_AXES {
        return None;
    }
    let axis = |value: Value| match value {
        Value::Int(axis) => u64::try_from(axis).ok(),
        Value::Bytes(_) | Value::Float(_) => None,
    };
    example.values(list).into_iter().map(axis).collect()
}

/// A dtype as numpy's `dtype` accepts it: `float64`, `>f8`.
fn dtype<'d>(example: &Example<'_>, data: &'d [u8], list: &List) -> Option<&'d str> {
    let text = str::from_utf8(data.get(example.only_bytes(list)?)?).ok()?;
    match component::of_numpy_name(text) {
        Some(dtype) => Some(dtype),
        None => component::item_bytes(text).map(|_| text),
    }
}

fn number_of(example: &Example<'_>, list: &List) -> Option<Plain<'static>> {
    match example.value(list, 0)? {
        Value::Int(number) => Some(Plain::Whole(number.into())),
        Value::Bytes(_) | Value::Float(_) => None,
    }
}

fn double(bytes: &[u8]) -> Option<f64> {
    bytes.as_array().map(|bytes| f64::from_le_bytes(*bytes))
}

/// Whether bytes are text: UTF-8 without ASCII control characters, except tab and line breaks.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r');
    !bytes.iter().any(|byte| is_control(*byte)) && str::from_utf8(bytes).is_ok()
}

/// The values of a list as JSON; for a list in steps, see [`Example::text`].
fn json(example: &Example<'_>, data: &[u8], list: &List) -> Option<Vec<u8>> {
    if list.steps.is_some() { example.text(list) } else { texts(example, data, list) }
}

/// Texts as a JSON list; `None` if a value is not text, or the list has more than [`Plain::MAX_VALUES`].
fn texts(example: &Example<'_>, data: &[u8], list: &List) -> Option<Vec<u8>> {
    if list.values > Plain::MAX_VALUES {
        return None;
    }
    let text = |value: Value| match value {
        Value::Bytes(range) => str::from_utf8(data.get(range)?).ok().map(Plain::Text),
        Value::Float(_) | Value::Int(_) => None,
    };
    let texts = example.values(list).into_iter().map(text).collect::<Option<Vec<_>>>()?;
    let mut out = Vec::new();
    Plain::write_list(texts.into_iter(), &mut out);
    Some(out)
}
