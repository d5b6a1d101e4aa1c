//! Converts values to components: form, content length, and content.
//!
//! Form and length are computed without reading the items of an array.

use shardpack_format::{component::Form, formats::foreign::Plain};

use super::{Array, Value};

/// A NaN as numbers of 64 bits are made of the word for it.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;
/// The dtype of a float of 64 bits.
const FLOAT64: &str = "<f8";

/// Form of a value as a component, and the length of its content in bytes; `None` if the value is null. `input` is the source
/// of the value.
///
/// # Errors
/// The reason why the value is no component: not plain data, lists of arrays, or numbers beyond 64 bits.
pub fn form(value: &Value, input: &[u8]) -> Result<Option<(Form, u64)>, String> {
    let form = match value {
        Value::None => return Ok(None),
        Value::Text(_) => return Ok(Some((Form::Text, text(value, input)?.len() as u64))),
        Value::Bytes(part) => return Ok(Some((Form::Bytes, part.len() as u64))),
        Value::Array(array) => Form::array(&array.dtype, &array.shape).map_err(|error| error.what())?,
        Value::Int(_) => Form::Int,
        // JSON has one NaN.
        Value::Float(number) if number.is_nan() && number.to_bits() != NAN_BITS => {
            Form::Array { dtype: FLOAT64.to_owned(), shape: Vec::new() }
        }
        Value::Float(_) => Form::Float,
        Value::Bool(_) | Value::List(_) | Value::Map(_) => Form::Json,
        Value::Huge => return Err(value.kind().to_owned()),
        Value::Foreign(what) => return Err(what.to_string()),
    };
    let bytes = match form.items_bytes() {
        Some(items) => items + form.head_bytes(),
        None => match value {
            Value::Int(number) => {
                let digits = 1 + number.unsigned_abs().checked_ilog10().unwrap_or(0);
                u64::from(digits) + u64::from(*number < 0)
            }
            value => json(value, input)?.len() as u64,
        },
    };
    Ok(Some((form, bytes)))
}

/// The content of a value; `input` is the source of the value.
///
/// # Errors
/// As [`form`].
pub fn content(value: &Value, input: &[u8]) -> Result<Vec<u8>, String> {
    match value {
        Value::Text(_) => text(value, input),
        Value::Bytes(part) => Ok(part.read(input).into_owned()),
        Value::Array(array) => {
            let form = Form::array(&array.dtype, &array.shape).map_err(|error| error.what())?;
            let mut out = Vec::with_capacity(form.head_bytes() as usize + array.data.len());
            form.write_head(&mut out);
            items(array, input, &mut out);
            Ok(out)
        }
        Value::Float(number) if number.is_nan() && number.to_bits() != NAN_BITS => {
            let mut out = Form::Array { dtype: FLOAT64.to_owned(), shape: Vec::new() }.head();
            out.extend_from_slice(&number.to_le_bytes());
            Ok(out)
        }
        value => json(value, input),
    }
}

/// The bytes of a text, which are UTF-8.
fn text(value: &Value, input: &[u8]) -> Result<Vec<u8>, String> {
    let text = value.as_text(input).ok_or("text that is no UTF-8")?;
    Ok(text.into_owned().into_bytes())
}

/// Appends the items of an array in C's order.
fn items(array: &Array, input: &[u8], out: &mut Vec<u8>) {
    let data = array.data.read(input);
    let count = array.shape.iter().product::<u64>();
    if !array.is_fortran || array.shape.len() < 2 || count == 0 {
        return out.extend_from_slice(&data);
    }
    // As many as there are items: each axis is below their number.
    let item_bytes = data.len() / count as usize;
    let axes: Vec<usize> = array.shape.iter().map(|axis| *axis as usize).collect();
    write_in_c_order(&data, item_bytes, &axes, (0, 1), out);
}

/// Appends in C's order the items of an array in Fortran's order, which begins with item `first` of `data` and whose items along the
/// first of `axes` lie `step` items apart.
pub(crate) fn write_in_c_order(
    data: &[u8],
    item_bytes: usize,
    axes: &[usize],
    (first, step): (usize, usize),
    out: &mut Vec<u8>,
) {
    let steps: Vec<usize> = axes
        .iter()
        .scan(step, |step, axis| {
            let own = *step;
            *step *= axis;
            Some(own)
        })
        .collect();
    let mut place = vec![0; axes.len()];
    for _ in 0..axes.iter().product() {
        let at: usize = first + place.iter().zip(&steps).map(|(place, step)| place * step).sum::<usize>();
        out.extend_from_slice(&data[at * item_bytes..][..item_bytes]);
        for (place, axis) in place.iter_mut().zip(axes).rev() {
            *place += 1;
            if *place < *axis {
                break;
            }
            *place = 0;
        }
    }
}

/// A number, a list or a map as lossless JSON.
fn json(value: &Value, input: &[u8]) -> Result<Vec<u8>, String> {
    // Enough for any number.
    let mut out = Vec::with_capacity(32);
    write(value, input, &mut out)?;
    Ok(out)
}

fn write(value: &Value, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    match value {
        Value::None => Plain::Null.write(out),
        Value::Bool(yes) => Plain::Bool(*yes).write(out),
        Value::Int(number) => Plain::Whole((*number).into()).write(out),
        Value::Float(number) if number.is_nan() && number.to_bits() != NAN_BITS => {
            return Err("a list with a NaN whose bits JSON cannot express".to_owned());
        }
        Value::Float(number) => Plain::Double(*number).write(out),
        Value::Text(_) => Plain::Text(&String::from_utf8_lossy(&text(value, input)?)).write(out),
        Value::List(items) => {
            out.push(b'[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                write(item, input, out)?;
            }
            out.push(b']');
        }
        Value::Map(entries) => {
            out.push(b'{');
            // Of one key the last one counts.
            let is_last = |at: usize| !entries[at + 1..].iter().any(|(key, _)| *key == entries[at].0);
            let kept = (0..entries.len()).filter(|at| is_last(*at));
            for (number, at) in kept.enumerate() {
                let (key, value) = &entries[at];
                if number > 0 {
                    out.push(b',');
                }
                match key {
                    Value::Text(_) => write(key, input, out)?,
                    key => return Err(format!("a nested map whose keys are {}", key.kind())),
                }
                out.push(b':');
                write(value, input, out)?;
            }
            out.push(b'}');
        }
        Value::Array(array) if let Some(number) = array.scalar(input) => write(&number, input, out)?,
        Value::Huge | Value::Bytes(_) | Value::Array(_) | Value::Foreign(_) => {
            return Err(format!("{} within a list or a map", value.kind()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{super::EncodedRange, *};

    fn array(dtype: &str, shape: &[u64], is_fortran: bool, bytes: &[u8]) -> Value {
        let data = EncodedRange::Owned(bytes.into());
        Value::Array(Arc::new(Array { dtype: dtype.to_owned(), shape: shape.to_vec(), is_fortran, data }))
    }

    fn text(text: &str) -> Value {
        Value::Text(EncodedRange::Owned(text.as_bytes().into()))
    }

    fn check(value: &Value, form_text: &str) -> Vec<u8> {
        let (form, bytes) = form(value, b"").unwrap().unwrap();
        let content = content(value, b"").unwrap();
        assert_eq!((form.to_string().as_str(), content.len() as u64), (form_text, bytes));
        content
    }

    #[test]
    fn values_are_components_of_their_kind() {
        assert_eq!(check(&Value::Int(-7), "int"), b"-7");
        assert_eq!(check(&Value::Float(0.1), "float"), b"0.1");
        assert_eq!(check(&Value::Float(f64::from_bits(NAN_BITS)), "float"), b"NaN");
        assert_eq!(check(&Value::Bool(true), "json"), b"true");
        assert_eq!(check(&text("a\u{e9}"), "text"), "a\u{e9}".as_bytes());
        let list = Value::List(vec![Value::None, Value::Float(1.0), text("x\"")]);
        assert_eq!(check(&list, "json"), b"[null,1.0,\"x\\\"\"]");
        let map = Value::Map(vec![(text("a"), Value::Int(1)), (text("b"), list), (text("a"), Value::Int(2))]);
        assert_eq!(check(&map, "json"), b"{\"b\":[null,1.0,\"x\\\"\"],\"a\":2}");
        let other_nan = f64::from_bits(NAN_BITS | 5);
        assert_eq!(check(&Value::Float(other_nan), "<f8[]")[128..], other_nan.to_le_bytes());
        assert_eq!(form(&Value::None, b""), Ok(None));
        for value in [Value::Huge, Value::List(vec![array("|u1", &[1], false, b"1")]), Value::List(vec![Value::Huge])] {
            assert!(form(&value, b"").is_err());
        }
    }

    #[test]
    fn arrays_are_in_the_order_of_c() {
        assert_eq!(check(&array("|u1", &[2, 3], false, b"123456"), "|u1[2x3]")[128..], *b"123456");
        assert_eq!(check(&array("|u1", &[2, 3], true, b"142536"), "|u1[2x3]")[128..], *b"123456");
        let cube: Vec<u8> = (0..24).flat_map(|at| [at, 0]).collect();
        let content = check(&array("<i2", &[2, 3, 4], true, &cube), "<i2[2x3x4]");
        // Item (i, j, k) lies at i + 2 j + 6 k.
        let expected = (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| i + 2 * j + 6 * k)));
        assert_eq!(content[128..].iter().step_by(2).copied().collect::<Vec<u8>>(), expected.collect::<Vec<u8>>());
        assert_eq!(check(&array("<f4", &[0, 2], true, b""), "<f4[0x2]").len(), 128);
    }
}
