//! Values as arrays: parses numbers, truth values and lists of these, and chooses one dtype for all values of a target.
//!
//! A value is JSON, or text with blanks between the numbers, or an array whose items another dtype takes.
//!
//! Holds at all times: all values of a target have one dtype, and a number that it cannot hold is bad: int64 if all numbers are whole, or
//! uint64 if some are beyond it and none is negative,
//! bool if all are truth values, else float64. Only a dtype that the user chooses rounds, and only floats.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use shardpack_format::{
    Error, Result,
    component::{Component, Form, Type, item_bytes, numpy_name, of_numpy_name},
    text,
};

use crate::component_table::Cell;

/// Most axes of a value.
const MAX_AXES: usize = 8;
/// Longest value for a message, in bytes.
const SHOWN_BYTES: usize = 60;
/// Dtypes that a user can choose.
const DTYPES: [&str; 11] =
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"];
/// Values that stand for none.
const MISSING: [&str; 5] = ["", "null", "none", "na", "n/a"];
/// Names of components that readers take for the label, and the name of such a target.
const LABELS: [&str; 2] = ["label", "cls"];
const LABEL: &str = "labels";
/// Extensions of fields that the name of a target does not have.
pub(crate) const EXTENSIONS: [&str; 4] = [".txt", ".json", ".npy", ".cls"];

/// A column or field whose values are arrays.
#[derive(Debug)]
pub(crate) struct Target {
    /// The column or field, as the user names it.
    pub column: String,
    /// The component's name, if the user gives one.
    name: Option<String>,
    /// The dtype of the user.
    dtype: Option<&'static str>,
    /// The column or field as the source names it; empty until it is found.
    pub member: String,
    /// Values end to end, as JSON or text; an empty value is missing.
    values: Vec<u8>,
    ends: Vec<usize>,
}

/// The arrays of a target.
pub(crate) struct Arrays {
    pub component: Component,
    /// The forms of the arrays, which the cells count from the number of the first form.
    pub forms: Vec<Form>,
    /// One for each value; missing and bad values have none.
    pub cells: Vec<Cell>,
    /// The reasons why values cannot be arrays, by number.
    pub bad: BTreeMap<usize, String>,
}

/// A parsed value: its numbers as text, and its shape.
struct Parsed<'v> {
    numbers: Vec<&'v str>,
    shape: Vec<u64>,
}

impl Target {
    /// Parses a value of `--target`: `COLUMN`, `COLUMN:DTYPE` or `NAME=COLUMN:DTYPE`.
    ///
    /// # Errors
    /// If the dtype is unknown, or a name is invalid.
    pub fn parse(said: &str) -> Result<Self> {
        let (name, rest) = said.split_once('=').map_or((None, said), |(name, rest)| (Some(name), rest));
        let (column, dtype) = match rest.rsplit_once(':') {
            Some((column, name)) => match DTYPES.contains(&name) {
                true => (column, of_numpy_name(name)),
                false => {
                    let all = DTYPES.join(", ");
                    return Err(Error::usage(format!("--target {said}: no dtype {name:?}: there are {all}")));
                }
            },
            None => (rest, None),
        };
        if column.is_empty() || column.contains([',', '=']) {
            return Err(Error::usage(format!("--target {said}: a column has a name without , and =")));
        }
        if let Some(name) = name {
            Component::field(name).map_err(|error| Error::usage(format!("--target {said}: {}", error.what())))?;
        }
        let (member, values, ends) = Default::default();
        Ok(Self { column: column.to_owned(), name: name.map(str::to_owned), dtype, member, values, ends })
    }

    /// Whether values need no conversion if they are arrays of this dtype, or of several dtypes for `None`.
    pub fn takes(&self, dtype: Option<&str>) -> bool {
        dtype.is_some_and(|dtype| self.dtype.is_none_or(|wanted| wanted == dtype))
    }

    /// Whether this is the target of `said`, a value of `--target`.
    pub fn is_said(&self, said: &str) -> bool {
        self.said() == said
    }

    /// Whether the user gives the component a name.
    pub fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// Adds the next value; words for missing values are missing.
    pub fn push(&mut self, value: &str) {
        let plain = unquoted(value);
        if !MISSING.iter().any(|missing| plain.trim().eq_ignore_ascii_case(missing)) {
            self.values.extend_from_slice(value.as_bytes());
        }
        self.ends.push(self.values.len());
    }

    /// Value `number`; empty if it is missing.
    pub fn value(&self, number: usize) -> &str {
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(number).copied().unwrap_or(start);
        // Only text is added.
        self.values.get(start..end).and_then(|value| str::from_utf8(value).ok()).unwrap_or_default()
    }

    /// Whether all values are numbers or lists of numbers, and there are some.
    pub fn are_arrays(&self) -> bool {
        let is_array = |number: usize| Parsed::parse(&unquoted(self.value(number))).is_ok();
        !self.values.is_empty() && (0..self.ends.len()).all(is_array)
    }

    /// The dtype of all values, in numpy's notation; `bad` gets the values without one.
    fn dtype(&self, bad: &mut BTreeMap<usize, String>) -> &'static str {
        let (mut are_truths, mut are_whole, mut are_unsigned) = (true, true, true);
        for number in 0..self.ends.len() {
            let value = unquoted(self.value(number));
            match Parsed::parse(&value) {
                Ok(parsed) => parsed.numbers.iter().for_each(|one| {
                    are_truths &= truth(one).is_some();
                    are_whole &= one.parse::<i64>().is_ok();
                    are_unsigned &= one.parse::<u64>().is_ok();
                }),
                Err(what) => drop(bad.insert(number, what)),
            }
        }
        match (self.dtype, are_truths, are_whole) {
            (Some(dtype), ..) => dtype,
            (None, true, false) => "|b1",
            (None, false, true) => "<i8",
            (None, false, false) if are_unsigned => "<u8",
            (None, ..) => "<f8",
        }
    }

    /// Appends the arrays of all values to `texts`; equal values share one. `first_form` is the number of the first form. `place` names
    /// a value in the error.
    ///
    /// # Errors
    /// If no value is an array.
    pub fn arrays(&self, texts: &mut Vec<u8>, first_form: u32, place: impl Fn(usize) -> String) -> Result<Arrays> {
        let mut bad = BTreeMap::new();
        let dtype = self.dtype(&mut bad);
        let mut made = Made { dtype, known: HashMap::new(), of_shape: HashMap::new(), forms: Vec::new(), kind: None };
        let mut cells = Vec::with_capacity(self.ends.len());
        for number in 0..self.ends.len() {
            let value = self.value(number);
            let cell = match value.is_empty() || bad.contains_key(&number) {
                true => Ok(Cell::ABSENT),
                false => made.cell(value, texts, first_form),
            };
            cells.push(cell.unwrap_or_else(|what| {
                bad.insert(number, what);
                Cell::ABSENT
            }));
        }
        let Some(kind) = made.kind else {
            let what = match bad.first_key_value() {
                Some((number, what)) => format!("no row has a number or a list of numbers; {}: {what}", place(*number)),
                None => "no row has a value".to_owned(),
            };
            return Err(Error::usage(format!("--target {}: {what}", self.column)));
        };
        Ok(Arrays { component: self.component(dtype, kind)?, forms: made.forms, cells, bad })
    }

    /// The component, whose values have this dtype and type.
    fn component(&self, dtype: &str, kind: Type) -> Result<Component> {
        let member = self.name.as_deref().unwrap_or_else(|| stem(self.member.trim()));
        let is_label = LABELS.iter().any(|label| member.eq_ignore_ascii_case(label));
        let name = if is_label { LABEL } else { member };
        Ok(Component::of_list_values(name, &Form::array(dtype, &[])?, &self.said())?.with_kind(kind))
    }

    /// The value of `--target`.
    fn said(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("{name}=")).unwrap_or_default();
        let dtype = self.dtype.and_then(numpy_name).map(|dtype| format!(":{dtype}")).unwrap_or_default();
        format!("{name}{}{dtype}", self.column)
    }
}

/// The arrays made so far.
struct Made<'v> {
    dtype: &'static str,
    known: HashMap<&'v str, Cell>,
    of_shape: HashMap<Vec<u64>, u32>,
    forms: Vec<Form>,
    kind: Option<Type>,
}

impl<'v> Made<'v> {
    /// The cell of a value, whose array is appended to `texts`, or the reason why there is none.
    fn cell(&mut self, value: &'v str, texts: &mut Vec<u8>, first_form: u32) -> Result<Cell, String> {
        if let Some(cell) = self.known.get(value) {
            return Ok(*cell);
        }
        let plain = unquoted(value);
        let parsed = Parsed::parse(&plain)?;
        let form = Form::array(self.dtype, &parsed.shape).map_err(|error| error.what())?;
        let start = texts.len();
        texts.extend_from_slice(&form.head());
        let pushed = parsed.numbers.iter().try_for_each(|one| push(one, self.dtype, texts));
        let bytes = pushed.and_then(|()| u32::try_from(texts.len() - start).map_err(|_| "more than 4 GiB".to_owned()));
        let bytes = bytes.inspect_err(|_| texts.truncate(start))?;
        let number = match self.of_shape.get(&parsed.shape) {
            Some(number) => *number,
            None => {
                let of_form = Type::from_form(&form);
                self.kind = match self.kind.take() {
                    // Arrays of one dtype have a common type.
                    Some(kind) => kind.clone().join(of_form).or(Some(kind)),
                    None => Some(of_form),
                };
                let number = first_form + self.forms.len() as u32;
                self.forms.push(form);
                self.of_shape.insert(parsed.shape, number);
                number
            }
        };
        let cell = Cell { bytes, form: number, stamp: start as i64 };
        self.known.insert(value, cell);
        Ok(cell)
    }
}

/// A field's name without the extension of values.
pub(crate) fn stem(field: &str) -> &str {
    let known = EXTENSIONS.iter().find_map(|extension| field.strip_suffix(extension));
    known.filter(|stem| !stem.is_empty()).unwrap_or(field)
}

/// The items of an array as text for [`Target::push`]; `None` if they are no numbers that a dtype of a target takes.
pub(crate) fn array_text(form: &Form, items: &[u8]) -> Option<String> {
    let Form::Array { dtype, shape } = form else { return None };
    let width = item_bytes(dtype)? as usize;
    let mut out = String::new();
    if items.is_empty() {
        return Some("[]".to_owned());
    }
    // Items below one entry of each axis.
    let below: Vec<usize> =
        (0..shape.len()).map(|axis| shape[axis..].iter().map(|length| *length as usize).product()).collect();
    for (at, item) in items.chunks_exact(width).enumerate() {
        if at > 0 {
            out.push(',');
        }
        below.iter().filter(|items| at.is_multiple_of(**items)).for_each(|_| out.push('['));
        let mut item = item.to_vec();
        if dtype.starts_with('>') {
            item.reverse();
        }
        write_item(dtype.get(1..)?, &item, &mut out)?;
        below.iter().filter(|items| (at + 1).is_multiple_of(**items)).for_each(|_| out.push(']'));
    }
    Some(out)
}

/// Appends one item, in little-endian order, of a dtype without its byte order.
fn write_item(dtype: &str, item: &[u8], out: &mut String) -> Option<()> {
    let written = match dtype {
        "b1" => write!(out, "{}", *item.first()? != 0),
        "f4" => write!(out, "{}", f32::from_le_bytes(item.try_into().ok()?)),
        "f8" => write!(out, "{}", f64::from_le_bytes(item.try_into().ok()?)),
        dtype if dtype.starts_with(['i', 'u']) => {
            let is_negative = dtype.starts_with('i') && item.last()? & 0x80 != 0;
            let mut wide = [if is_negative { 0xff } else { 0 }; 16];
            wide.get_mut(..item.len())?.copy_from_slice(item);
            write!(out, "{}", i128::from_le_bytes(wide))
        }
        _ => return None,
    };
    written.ok()
}

impl<'v> Parsed<'v> {
    /// Parses a value; no numbers if it is empty.
    fn parse(value: &'v str) -> Result<Self, String> {
        let shown = || text::shown(&value.as_bytes()[..value.len().min(SHOWN_BYTES)]).to_string();
        let mut found = Self { numbers: Vec::new(), shape: Vec::new() };
        let value = value.trim();
        if value.starts_with('[') {
            let rest =
                found.list(value, 0).ok_or_else(|| format!("{:?} is no list of numbers of one shape", shown()))?;
            return if rest.trim().is_empty() {
                Ok(found)
            } else {
                Err(format!("{:?} is more than one list", shown()))
            };
        }
        found.numbers = value.split_ascii_whitespace().collect();
        if found.numbers.len() > 1 {
            found.shape.push(found.numbers.len() as u64);
        }
        match found.numbers.iter().all(|one| is_number(one)) {
            true => Ok(found),
            false => Err(format!("{:?} is no number, and no list of numbers", shown())),
        }
    }

    /// Reads a list at the start of `rest`, on axis `axis`; returns the text behind the list.
    fn list(&mut self, rest: &'v str, axis: usize) -> Option<&'v str> {
        let mut rest = rest.trim_start().strip_prefix('[')?.trim_start();
        if axis == MAX_AXES {
            return None;
        }
        let is_first = self.shape.len() == axis;
        if is_first {
            self.shape.push(0);
        }
        let mut count = 0;
        while !rest.starts_with(']') {
            if count > 0 {
                rest = rest.strip_prefix(',')?.trim_start();
            }
            if rest.starts_with('[') {
                // Numbers are on the last axis alone.
                if count > 0 && self.shape.len() == axis + 1 {
                    return None;
                }
                rest = self.list(rest, axis + 1)?;
            } else {
                let end = rest.find([',', ']', '['])?;
                let (one, behind) = rest.split_at(end);
                if !is_number(one.trim_end()) || self.shape.len() > axis + 1 {
                    return None;
                }
                self.numbers.push(one.trim_end());
                rest = behind;
            }
            rest = rest.trim_start();
            count += 1;
        }
        let is_same = is_first || self.shape.get(axis) == Some(&count);
        *self.shape.get_mut(axis)? = count;
        is_same.then(|| rest.strip_prefix(']'))?
    }
}

/// The text of a JSON string without escapes in it; other values as they are.
fn unquoted(value: &str) -> Cow<'_, str> {
    match value.starts_with('"') {
        true => serde_json::from_str::<String>(value).map_or(Cow::Borrowed(value), Cow::Owned),
        false => Cow::Borrowed(value),
    }
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" => Some(true),
        "false" | "False" => Some(false),
        _ => None,
    }
}

/// The dtype as a user writes it.
fn shown(dtype: &str) -> &str {
    numpy_name(dtype).unwrap_or(dtype)
}

/// Whether text spells a number or a truth value.
fn is_number(text: &str) -> bool {
    truth(text).is_some() || text.parse::<f64>().is_ok()
}

/// Appends a number in this dtype.
///
/// # Errors
/// If the dtype cannot hold the number.
fn push(number: &str, dtype: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let no = || format!("{number} does not fit {}", shown(dtype));
    if dtype == "|b1" {
        let value = truth(number).map(u8::from).or_else(|| number.parse::<u8>().ok().filter(|bit| *bit <= 1));
        out.push(value.ok_or_else(no)?);
        return Ok(());
    }
    if let Some(width) = dtype.strip_prefix("<f") {
        let value: f64 = number.parse().map_err(|_| no())?;
        let stored = if width == "4" { f64::from(value as f32) } else { value };
        if number.parse::<i128>().is_ok_and(|whole| stored as i128 != whole) {
            return Err(format!("{number} is a whole number that {} cannot hold", shown(dtype)));
        }
        // Only `inf` itself is infinite.
        if stored.is_infinite() && !number.to_ascii_lowercase().contains("inf") {
            return Err(no());
        }
        match width {
            "4" => out.extend_from_slice(&(value as f32).to_le_bytes()),
            _ => out.extend_from_slice(&value.to_le_bytes()),
        }
        return Ok(());
    }
    let bytes = item_bytes(dtype).ok_or_else(no)? as usize;
    // Tables write whole numbers beside missing ones as `1.0`.
    let of_float = || number.parse::<f64>().ok().filter(|value| value.fract() == 0.0 && value.abs() < 1e15);
    let value: i128 = number.parse().ok().or_else(|| of_float().map(|value| value as i128)).ok_or_else(no)?;
    let bits = 8 * bytes as u32;
    let range = match dtype.as_bytes().get(1) {
        Some(b'u') => 0..1i128 << bits,
        _ => -(1i128 << (bits - 1))..1i128 << (bits - 1),
    };
    if !range.contains(&value) {
        return Err(no());
    }
    out.extend_from_slice(&value.to_le_bytes()[..bytes]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_arrays_are_text_of_their_shape() {
        for (dtype, shape, items, expected) in [
            ("<f4", &[][..], 0.1f32.to_le_bytes().to_vec(), "0.1"),
            (">i2", &[2], vec![0, 1, 0xff, 0xff], "[1,-1]"),
            ("|u1", &[2, 2], vec![1, 2, 3, 255], "[[1,2],[3,255]]"),
            ("|b1", &[1], vec![1], "[true]"),
            ("<f8", &[0, 4], vec![], "[]"),
        ] {
            let form = Form::array(dtype, shape).unwrap();
            assert_eq!(array_text(&form, &items).as_deref(), Some(expected));
        }
        assert_eq!(array_text(&Form::array("<f2", &[1]).unwrap(), &[0, 0]), None);
        assert_eq!(array_text(&Form::Text, b"1"), None);
    }

    #[test]
    fn bad_values_have_a_reason_and_leave_the_others() {
        let mut target = Target::parse("n=age:uint8").unwrap();
        target.member = "age".to_owned();
        ["1", "x", "256", "", "2"].iter().for_each(|value| target.push(value));
        let mut texts = Vec::new();
        let arrays = target.arrays(&mut texts, 0, |number| format!("row {number}")).unwrap();
        assert_eq!(arrays.component.to_string(), "n.npy=list:|u1[]:n=age:uint8");
        assert_eq!(arrays.bad.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(arrays.cells.iter().filter(|cell| cell.length().is_some()).count(), 2);
        assert_eq!(texts.len(), 2 * (arrays.forms[0].head().len() + 1));
    }

    #[test]
    fn numbers_beyond_int64_are_uint64() {
        for (values, dtype, bad) in [
            (["1", "9223372036854775808"], "<u8", 0),
            (["[1, 18446744073709551615]", "[2, 3]"], "<u8", 0),
            (["1", "9223372036854775807"], "<i8", 0),
            (["1.5", "1"], "<f8", 0),
            // No dtype has both.
            (["-1", "9223372036854775809"], "<f8", 1),
        ] {
            let mut target = Target::parse("n").unwrap();
            target.member = "n".to_owned();
            values.iter().for_each(|value| target.push(value));
            let arrays = target.arrays(&mut Vec::new(), 0, |number| format!("row {number}")).unwrap();
            let is_dtype = |form: &Form| matches!(form, Form::Array { dtype: own, .. } if own == dtype);
            assert!(arrays.forms.iter().all(is_dtype) && arrays.bad.len() == bad, "{values:?}");
        }
    }

    #[test]
    fn names_of_targets_are_valid() {
        for (said, what) in [
            ("=age", "--target =age"),
            ("a=b=c", "a column has a name without , and ="),
            ("cls=age", "the component cls is the label"),
            ("a=age:int128", "no dtype"),
        ] {
            let error = Target::parse(said).unwrap_err().to_string();
            assert!(error.contains(what), "{said}: {error}");
        }
        assert_eq!((stem("age.txt"), stem("age"), stem(".txt"), stem("a.b")), ("age", "age", ".txt", "a.b"));
    }
}
