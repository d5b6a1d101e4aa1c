//! The fields of samples that are no images: which values of a pickle, msgpack or the like are components, and their
//! content.
//!
//! The content of a field is found again in its value by the numbers that its recipe keeps.

use std::{borrow::Cow, cell::RefCell, ops::Range};

use shardpack_format::{Error, Result, component::Form, field_names, formats::foreign::Label};

use super::{
    super::plain::{Value, content},
    coding::Coding,
};

/// Most items of a list that are fields; a longer list is one field.
const MAX_ITEMS: usize = 64;
/// Field name of the whole value.
const WHOLE: &str = "data";

// How the content of a field is made of its value:
//
//     bit 0 set   bits 1, 2 coding of the value   bits 3 to 10 number of the field   bits 11 to 22 number of the sample
const IS_FIELD: u32 = 1;
const CODING_SHIFT: u32 = 1;
const FIELD_SHIFT: u32 = 3;
const FIELD_BITS: u32 = 8;
const SAMPLE_SHIFT: u32 = FIELD_SHIFT + FIELD_BITS;
const SAMPLE_BITS: u32 = 12;
/// Samples of a value that have numbers there.
pub(super) const MAX_SAMPLES: usize = 1 << SAMPLE_BITS;
/// Longest value in bytes whose parsed form is kept until the next request.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// Codings with fields, by their number in a recipe.
const CODINGS: [Coding; 3] = [Coding::Pickle, Coding::Msgpack, Coding::Arrow];

/// A field of a sample that is no image.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Its name: a key of a map, `x0`, `x1`, … by its place in a list, or `data`.
    pub name: String,
    /// Its number in the sample.
    pub number: usize,
    /// Form and content length of the field; or the reason why the field is no component.
    pub form: std::result::Result<(Form, u64), String>,
    /// Range of the items of an array in the value, if stored unchanged.
    pub place: Option<Range<usize>>,
}

/// The values in a sample with their names, in the order of their numbers.
pub(super) type Named<'v> = Vec<(Cow<'v, str>, &'v Value)>;

/// The non-empty fields among the fields `named` of a sample, in the order of their numbers.
pub(super) fn fields(named: Named<'_>, input: &[u8]) -> Vec<Field> {
    let of = |(number, (name, value)): (usize, (Cow<'_, str>, &Value))| {
        let form = content::form(value, input).transpose()?;
        let place = match value {
            Value::Array(array) if !array.is_fortran || array.shape.len() < 2 => array.data.range(),
            _ => None,
        };
        Some(Field { name: name.into_owned(), number, form, place })
    };
    named.into_iter().enumerate().filter_map(of).collect()
}

/// The label among the fields `named` of a sample, with its field name. The field is `wanted` or has a label name. In a list
/// without names, the label is whole number `label_number` among the whole numbers.
pub(super) fn label(
    sample: &Value,
    named: &Named<'_>,
    input: &[u8],
    wanted: Option<&str>,
    label_number: usize,
) -> Option<(Label, String)> {
    let of = |value: &Value| match value.as_whole(input) {
        Some(number) => Some(Label::Number(number)),
        None => value.as_text(input).map(|text| Label::Text(text.into_owned().into_bytes())),
    };
    let at = |place: usize| {
        let (name, value) = named.get(place)?;
        of(value).map(|label| (label, name.clone().into_owned()))
    };
    match (wanted, sample) {
        (Some(name), _) => at(named.iter().position(|(known, _)| known == name)?),
        (None, Value::List(_)) => {
            let mut numbers = named.iter().filter(|(_, value)| value.as_whole(input).is_some());
            let (name, value) = numbers.nth(label_number)?;
            of(value).map(|label| (label, name.clone().into_owned()))
        }
        (None, _) => {
            let likely = field_names::ranked(named.iter().map(|(name, _)| &**name), &field_names::LABELS);
            likely.into_iter().find_map(|(place, _)| at(place))
        }
    }
}

/// The recipe of field `field` of sample `sample` in a value; `None` if the numbers do not fit into a recipe.
pub(super) fn recipe(coding: Coding, sample: usize, field: usize) -> Option<u32> {
    let coding = CODINGS.iter().position(|known| *known == coding)? as u32;
    let within = |number: usize, bits: u32| u32::try_from(number).ok().filter(|number| number >> bits == 0);
    let (sample, field) = (within(sample, SAMPLE_BITS)?, within(field, FIELD_BITS)?);
    Some(IS_FIELD | coding << CODING_SHIFT | field << FIELD_SHIFT | sample << SAMPLE_SHIFT)
}

/// A value taken apart, and the bytes that it was made of.
struct CachedValue {
    coding: Coding,
    bytes: Vec<u8>,
    value: Value,
}

thread_local! {
    /// The last parsed value: its other fields are requested next, and maybe its other samples. All bytes are compared to
    /// identify the value.
    static KEPT: RefCell<Option<CachedValue>> = const { RefCell::new(None) };
}

/// Makes the content of a field of the value that was fetched.
///
/// # Errors
/// If the value is corrupt.
pub fn component(fetched: &[u8], recipe: u32) -> Result<Vec<u8>> {
    with_field(fetched, recipe, |field| content::content(field, fetched).map_err(Error::data))
}

/// Applies `make` to the field that `recipe` identifies in the fetched value.
///
/// # Errors
/// If the value is corrupt.
pub(super) fn with_field<T>(fetched: &[u8], recipe: u32, make: impl FnOnce(&Value) -> Result<T>) -> Result<T> {
    let kept = |shift: u32, bits: u32| (recipe >> shift & ((1 << bits) - 1)) as usize;
    let coding = CODINGS.get(kept(CODING_SHIFT, 2)).copied().filter(|_| recipe & IS_FIELD != 0);
    let coding = coding.ok_or_else(|| Error::data("its value has changed since it was listed"))?;
    let (sample, field) = (kept(SAMPLE_SHIFT, SAMPLE_BITS), kept(FIELD_SHIFT, FIELD_BITS));
    let now = match KEPT.take() {
        Some(last) if last.coding == coding && last.bytes == fetched => last,
        last => {
            let mut bytes = last.map(|last| last.bytes).unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(fetched);
            CachedValue { coding, bytes, value: coding.decoded(fetched).map_err(Error::data)? }
        }
    };
    let gone = || Error::data("its value has changed since it was listed");
    let field = samples(&now.value).get(sample).and_then(|sample| field_of(sample, field)).ok_or_else(gone);
    let made = field.and_then(make);
    KEPT.set(Some(now).filter(|now| now.bytes.len() <= MAX_KEPT_BYTES));
    made
}

/// The number of the field of a sample that `wanted` is.
pub(super) fn number_of(sample: &Value, input: &[u8], wanted: &Value) -> Option<usize> {
    named(sample, input).iter().position(|(_, value)| std::ptr::eq(*value, wanted))
}

/// The field with this number of a sample, as [`named`] counts them.
fn field_of(sample: &Value, number: usize) -> Option<&Value> {
    match sample {
        Value::Map(entries) => entries.get(number).map(|(_, value)| value),
        Value::List(items) if are_fields(items) => items.get(number),
        value => (number == 0).then_some(value),
    }
}

/// The samples in a value: the items of a list of lists or maps, or the value itself.
pub(super) fn samples(value: &Value) -> &[Value] {
    let is_sample = |value: &Value| value.items().is_some() || value.entries().is_some();
    match value.items() {
        Some(items) if items.first().is_some_and(is_sample) => items,
        _ => std::slice::from_ref(value),
    }
}

/// Whether the items of a list are fields, and not one value together.
fn are_fields(items: &[Value]) -> bool {
    let is_long = |value: &Value| {
        matches!(value, Value::Bytes(_) | Value::Text(_) | Value::List(_) | Value::Map(_)) || value.has_axes()
    };
    items.len() <= MAX_ITEMS && items.iter().any(is_long)
}

/// The values in a sample with their names.
pub(super) fn named<'v>(sample: &'v Value, input: &'v [u8]) -> Named<'v> {
    match sample {
        Value::Map(entries) => {
            let name = |key: &'v Value| match key {
                Value::Int(number) => number.to_string().into(),
                key => key.as_text(input).unwrap_or(key.kind().into()),
            };
            entries.iter().map(|(key, value)| (name(key), value)).collect()
        }
        Value::List(items) if are_fields(items) => {
            items.iter().enumerate().map(|(place, item)| (format!("x{place}").into(), item)).collect()
        }
        value => vec![(WHOLE.into(), value)],
    }
}
