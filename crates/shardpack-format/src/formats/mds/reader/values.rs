//! Values of samples without an image, and arrays beside an image: form and content by the encoding of the column.
//!
//! Source: mosaicml-streaming 0.13.0, `streaming/base/format/mds/encodings.py`.
//!
//! Holds at all times: a value that does not match its encoding is damaged, and never read as another value.

use super::{
    litdata,
    numbers::{number_recipe, text as number_text},
};
use crate::{
    Error, Result,
    component::{self, Form, MAX_AXES},
    formats::foreign::{Other, Plain, whole},
};

/// The dtypes of streaming's arrays: number and name.
const DTYPES: [(u8, &str); 11] = [
    (8, "uint8"),
    (9, "int8"),
    (16, "uint16"),
    (17, "int16"),
    (18, "float16"),
    (32, "uint32"),
    (33, "int32"),
    (34, "float32"),
    (64, "uint64"),
    (65, "int64"),
    (66, "float64"),
];
/// Recipe of a float stored as text; its content has the fewest digits that identify the float. The bits from [`KIND_BITS`] up hold
/// the length of the text.
const OF_FLOAT_TEXT: u32 = 14;
/// Number of low bits of a recipe that hold no length.
const KIND_BITS: u32 = 5;
/// Maximum length in bytes of a float as text; Python writes at most 24 characters.
const FLOAT_TEXT_BYTES: usize = 64;

/// A parsed value.
#[derive(Debug, PartialEq)]
pub(super) struct Value {
    pub form: Form,
    /// Length of its content in bytes.
    pub bytes: u64,
    /// Length in bytes of the content in the form [`Form::wider`], if other values of the column may have that form.
    pub wider_bytes: Option<u32>,
    /// Offset in the value of the bytes from which the content is made.
    pub start: usize,
    pub recipe: u32,
}

/// Parses the value `bytes` of a column with this encoding; `None` if only streaming can read the encoding.
///
/// # Errors
/// If the value does not match the encoding.
pub(super) fn value(encoding: &str, bytes: &[u8]) -> Result<Option<Value>, String> {
    let damaged = || format!("{} bytes that are no {encoding}", bytes.len());
    let length = bytes.len() as u64;
    let as_it_is = |form| Value { form, bytes: length, wider_bytes: None, start: 0, recipe: 0 };
    let array = |dtype: &str, shape: &[u64], start: usize| {
        let form = Form::array(dtype, shape).ok()?;
        let items = form.items_bytes().filter(|items| *items == length - start as u64)?;
        Some(Value { bytes: form.head_bytes() + items, form, wider_bytes: None, start, recipe: 0 })
    };
    let text = || str::from_utf8(bytes).map_err(|_| damaged());
    if is_array(encoding) {
        let shaped = if litdata::is_array(encoding) { litdata::shaped } else { shaped };
        let found = shaped(encoding, bytes).and_then(|(dtype, shape, start)| array(dtype, &shape, start));
        return found.ok_or_else(damaged).map(Some);
    }
    Ok(Some(match encoding {
        "bytes" => as_it_is(Form::Bytes),
        "str" => text().map(|_| as_it_is(Form::Text))?,
        // A decimal can have digits that no float has.
        "str_decimal" => text().map(|_| as_it_is(Form::Text))?,
        "json" => text().ok().filter(|text| is_json(text)).map(|_| as_it_is(Form::Json)).ok_or_else(damaged)?,
        "str_int" => match whole(bytes) {
            Some(_) => as_it_is(Form::Int),
            None => text().ok().filter(|text| is_long(text)).map(|_| as_it_is(Form::Json)).ok_or_else(damaged)?,
        },
        "str_float" => {
            let content = float_text(bytes).ok_or_else(damaged)?;
            let recipe = OF_FLOAT_TEXT | (bytes.len() as u32) << KIND_BITS;
            Value { recipe, bytes: content.len() as u64, ..as_it_is(Form::Float) }
        }
        "int" | "float64" => {
            let recipe = number_recipe(encoding).ok_or_else(damaged)?;
            let content = number_text(bytes, recipe).map_err(|_| damaged())?;
            let of = |form| Value { bytes: content.len() as u64, recipe, ..as_it_is(form) };
            match *bytes {
                [a, b, c, d, e, f, g, h] if encoding == "float64" => {
                    match Form::of_float(f64::from_le_bytes([a, b, c, d, e, f, g, h])) {
                        Form::Float => {
                            let wider = Form::Float.wider().map(|form| form.head_bytes() as u32 + 8);
                            Value { wider_bytes: wider, ..of(Form::Float) }
                        }
                        _ => array("<f8", &[], 0).ok_or_else(damaged)?,
                    }
                }
                _ => of(Form::Int),
            }
        }
        name => match DTYPES.iter().find(|(_, known)| *known == name) {
            Some((_, name)) => {
                let dtype = component::of_numpy_name(name).unwrap_or_default();
                array(dtype, &[], 0).ok_or_else(damaged)?
            }
            None => return Ok(None),
        },
    }))
}

/// Whether values of this encoding are arrays.
pub(super) fn is_array(encoding: &str) -> bool {
    encoding == "ndarray" || encoding.starts_with("ndarray:") || litdata::is_array(encoding)
}

/// Number of bytes from which [`content`] makes the content; `None` for other recipes.
pub(super) fn fetched_bytes(recipe: u32) -> Option<usize> {
    match recipe & ((1 << KIND_BITS) - 1) {
        OF_FLOAT_TEXT => Some((recipe >> KIND_BITS) as usize),
        _ if is_wider_float(recipe) => Some(8),
        _ => None,
    }
}

/// Makes the content from the fetched bytes, as `recipe` describes.
///
/// # Errors
/// If the bytes are damaged.
pub(super) fn content(fetched: &[u8], recipe: u32) -> Result<Vec<u8>> {
    if is_wider_float(recipe) {
        let head = Form::Float.wider().unwrap_or_default().head();
        return Ok([head.as_slice(), fetched].concat());
    }
    float_text(fetched).ok_or_else(|| Error::data(format!("{} bytes that are no float", fetched.len())))
}

/// Whether the recipe makes a float64 into an array without axes.
fn is_wider_float(recipe: u32) -> bool {
    number_recipe("float64").is_some_and(|number| recipe == number | Other::WIDER)
}

/// Dtype and shape of an array, and the offset of its items.
fn shaped<'e>(encoding: &'e str, bytes: &[u8]) -> Option<(&'static str, Vec<u64>, usize)> {
    let mut parts = encoding.split(':').skip(1);
    let (dtype, shape): (Option<&'e str>, Option<&'e str>) = (parts.next(), parts.next());
    let mut start = 0;
    let name = match dtype {
        Some(name) => DTYPES.iter().find(|(_, known)| *known == name)?.1,
        None => {
            start = 1;
            DTYPES.iter().find(|(number, _)| Some(number) == bytes.first())?.1
        }
    };
    let axes = match shape {
        Some(shape) => shape.split(',').map(|axis| axis.parse().ok()).collect::<Option<Vec<u64>>>()?,
        None => {
            let code = *bytes.get(start)?;
            let (count, width) = (usize::from(code >> 2), 1 << (code & 3));
            let axes = bytes.get(start + 1..)?.get(..count.checked_mul(width)?)?;
            start += 1 + axes.len();
            let axis = |axis: &[u8]| {
                let mut wide = [0; 8];
                wide[..width].copy_from_slice(axis);
                u64::from_le_bytes(wide)
            };
            axes.chunks_exact(width).map(axis).collect()
        }
    };
    let dtype = component::of_numpy_name(name)?;
    (parts.next().is_none() && axes.len() <= MAX_AXES).then_some((dtype, axes, start))
}

/// A float as JSON, from the output of Python's `str`.
fn float_text(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(bytes).ok().filter(|text| text.len() <= FLOAT_TEXT_BYTES)?;
    let mut out = Vec::new();
    Plain::Double(text.trim().parse().ok()?).write(&mut out);
    Some(out)
}

/// Whether text is a whole number in canonical form; the caller has excluded numbers of 64 bits.
fn is_long(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.starts_with('0') && !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Whether text is JSON as Python writes it, with `NaN` and `Infinity`.
fn is_json(text: &str) -> bool {
    let is = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    is(text) || ["NaN", "Infinity"].iter().any(|word| text.contains(word)) && is(&without_words(text))
}

/// The text with `NaN` and `Infinity` outside of strings replaced by zeros.
fn without_words(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let (mut is_string, mut is_escaped) = (false, false);
    while let Some(next) = rest.chars().next() {
        let word = ["NaN", "Infinity"].into_iter().find(|word| !is_string && rest.starts_with(word));
        match word {
            Some(_) => out.push('0'),
            None => out.push(next),
        }
        is_string ^= next == '"' && !is_escaped;
        is_escaped = is_string && next == '\\' && !is_escaped;
        rest = &rest[word.map_or(next.len_utf8(), str::len)..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form and the content of a value.
    fn check(encoding: &str, bytes: &[u8]) -> (String, Vec<u8>) {
        let Value { form, bytes: length, start, recipe, wider_bytes } = value(encoding, bytes).unwrap().unwrap();
        let content = match (recipe, fetched_bytes(recipe)) {
            (0, _) => [form.head().as_slice(), &bytes[start..]].concat(),
            (_, Some(fetched)) => content(&bytes[start..start + fetched], recipe).unwrap(),
            (_, None) => number_text(&bytes[start..], recipe).unwrap(),
        };
        assert_eq!(content.len() as u64, length, "{encoding}");
        if let Some(length) = wider_bytes {
            let wider = super::content(bytes, recipe | Other::WIDER).unwrap();
            assert_eq!(wider.len() as u64, u64::from(length), "{encoding}");
            assert_eq!(fetched_bytes(recipe | Other::WIDER), Some(8));
            assert_eq!(wider, [form.wider().unwrap().head().as_slice(), bytes].concat());
        }
        (form.to_string(), content)
    }

    fn is(encoding: &str, bytes: &[u8], form: &str, expected: &[u8]) {
        let (found, content) = check(encoding, bytes);
        assert_eq!((found.as_str(), &content[content.len() - expected.len()..]), (form, expected), "{encoding}");
    }

    #[test]
    fn values_are_what_their_encoding_says() {
        is("int", &(-7i64).to_le_bytes(), "int", b"-7");
        is("float64", &0.1f64.to_le_bytes(), "float", b"0.1");
        let nan = f64::from_bits(0x7ff8_0000_0000_0001).to_le_bytes();
        is("float64", &nan, "<f8[]", &nan);
        is("uint8", &[200], "|u1[]", &[200]);
        is("float16", &[1, 2], "<f2[]", &[1, 2]);
        is("int64", &[1, 2, 3, 4, 5, 6, 7, 8], "<i8[]", &[1, 2, 3, 4, 5, 6, 7, 8]);
        is("str", "\u{e9}".as_bytes(), "text", "\u{e9}".as_bytes());
        is("str_int", b"-12", "int", b"-12");
        is("str_int", b"100000000000000000000", "json", b"100000000000000000000");
        is("str_float", b"1e-07", "float", b"1e-7");
        is("str_float", b"nan", "float", b"NaN");
        is("str_float", b"-inf", "float", b"-Infinity");
        is("str_decimal", b"1.50", "text", b"1.50");
        is("bytes", b"", "bytes", b"");
        for json in ["{\"a\": [1, NaN, -Infinity]}", "\"NaN\\\" {\"", "1.5", "[Infinity, \"Infinity\"]"] {
            is("json", json.as_bytes(), "json", json.as_bytes());
        }
        is("ndarray:int16:2,1", &[1, 2, 3, 4], "<i2[2x1]", &[1, 2, 3, 4]);
        is("ndarray:int16", &[2 << 2, 2, 1, 1, 2, 3, 4], "<i2[2x1]", &[1, 2, 3, 4]);
        is("ndarray", &[8, 1 << 2 | 1, 3, 0, 7, 8, 9], "|u1[3]", &[7, 8, 9]);
        assert_eq!(value("pkl", b"x"), Ok(None));
        assert_eq!(value("of another version", b"x"), Ok(None));
    }

    #[test]
    fn what_is_none_of_its_encoding_is_damaged() {
        let cases: [(&str, &[u8]); 19] = [
            ("int", b"1234567"),
            ("float64", b""),
            ("uint8", b""),
            ("int32", b"12345"),
            ("str", b"\xff"),
            ("str_int", b"1.5"),
            ("str_int", b"007"),
            ("str_int", b"-"),
            ("str_float", b"one"),
            ("json", b"{\"a\": NaN"),
            ("json", b"NaNa"),
            ("json", b""),
            ("ndarray:int16:2,1", b"123"),
            ("ndarray:int16:2,x", b"1234"),
            ("ndarray:int7", b"1234"),
            ("ndarray:int16", &[2 << 2, 2, 1, 1, 2, 3]),
            ("ndarray:int16", &[2 << 2, 2]),
            ("ndarray", &[7, 1 << 2, 1, 1]),
            ("ndarray", b""),
        ];
        for (encoding, bytes) in cases {
            let what = value(encoding, bytes).unwrap_err();
            assert_eq!(what, format!("{} bytes that are no {encoding}", bytes.len()));
        }
        // A shape of 2^63 and more.
        let huge = [&[65, 2 << 2 | 3][..], &[0xff; 16]].concat();
        assert!(value("ndarray", &huge).is_err());
    }
}
