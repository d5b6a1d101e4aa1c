//! Values of columns as arrays: `--target age` packs the numbers of a column as `age.npy`, `--target age:float32` chooses their dtype.
//!
//! The values are members of the text of each row, whatever kind of list it is, and are taken out of the text. A value is a number, a truth
//! value, or a list of these, as JSON or as text with blanks between the numbers.
//!
//! Holds at all times: all rows of a column have one dtype, and a number that it cannot hold is refused with its line: int64 if all numbers
//! are whole, bool if all are truth values, else float64. Only a dtype that the user chooses rounds, and only floats.

use std::{borrow::Cow, collections::HashMap};

use shardpack_format::{
    Error, Result,
    component::{Component, Form, Type, item_bytes, of_numpy_name},
    text,
};

use super::{Columns, columns::find, json};
use crate::{
    component_table::Cell,
    options::{OnMissing, Options},
};

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

/// A column whose values are arrays.
#[derive(Debug)]
struct Target {
    column: String,
    /// The dtype of the user.
    dtype: Option<&'static str>,
    /// Name of the member in the text of a row; empty until the columns are known.
    member: String,
    /// Values of all rows end to end, as JSON; an empty value is missing.
    values: Vec<u8>,
    ends: Vec<usize>,
    lines: Vec<u64>,
}

/// The columns of targets, and whether samples may lack values.
#[derive(Debug, Default)]
pub(super) struct Targets(Vec<Target>, bool);

/// The arrays of all rows.
#[derive(Default)]
pub(super) struct TargetArrays {
    pub kinds: Vec<Component>,
    pub forms: Vec<Form>,
    /// For each column the cell of each row.
    cells: Vec<Vec<Cell>>,
    /// What the columns are, for the user.
    pub notes: Vec<String>,
}

/// A parsed value: its numbers as text, and its shape.
struct Parsed<'v> {
    numbers: Vec<&'v str>,
    shape: Vec<u64>,
}

impl Targets {
    /// The columns that the user chooses, or those of a dataset which is compared with the list.
    ///
    /// # Errors
    /// If a dtype is unknown.
    pub fn of(columns: &Columns, options: &Options) -> Result<Self> {
        let of_dataset = options.with.iter().filter(|kind| !super::multi_label::is_of_classes(kind));
        let of_dataset = of_dataset.filter_map(|kind| kind.listed().map(str::to_owned));
        let may_lack = options.on_missing == Some(OnMissing::Empty);
        let said = if columns.targets.is_empty() { of_dataset.collect() } else { columns.targets.clone() };
        said.iter().map(|said| Target::parse(said)).collect::<Result<_>>().map(|all| Self(all, may_lack))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of the columns among `names`. `is_taken` says that a column has another role.
    ///
    /// # Errors
    /// If a column is missing or taken, or is named twice.
    pub fn columns(&mut self, names: &[String], is_taken: impl Fn(usize) -> bool) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        for target in &mut self.0 {
            let at = find(names, &target.column, "--target")?;
            if is_taken(at) || found.contains(&at) {
                return Err(Error::usage(format!(
                    "--target {}: column {:?} has another role",
                    target.column, names[at]
                )));
            }
            target.member.clone_from(&names[at]);
            found.push(at);
        }
        Ok(found)
    }

    /// Takes the values of a row out of its text, a JSON object, and returns the other members.
    ///
    /// # Errors
    /// If the text is no object.
    pub fn take<'t>(&mut self, object: &'t [u8], line: u64) -> Result<Cow<'t, [u8]>> {
        if self.is_empty() {
            return Ok(Cow::Borrowed(object));
        }
        let members = str::from_utf8(object).ok().and_then(json::members);
        let members = members.ok_or_else(|| Error::data(format!("line {line}: its columns cannot be read")))?;
        let mut rest = Vec::with_capacity(object.len());
        let mut others = json::Object::begin(&mut rest);
        for (name, raw) in members.iter().filter(|(name, _)| self.0.iter().all(|target| target.member != *name)) {
            others.member(name.as_bytes())?.extend_from_slice(raw.as_bytes());
        }
        others.end();
        for target in &mut self.0 {
            let value = members.iter().find(|(name, _)| *name == target.member).map_or("", |(_, raw)| raw);
            let unquoted = unquoted(value);
            if !MISSING.iter().any(|missing| unquoted.trim().eq_ignore_ascii_case(missing)) {
                target.values.extend_from_slice(value.as_bytes());
            }
            target.ends.push(target.values.len());
            target.lines.push(line);
        }
        Ok(Cow::Owned(rest))
    }

    /// The values of row `number`, as they are in the list.
    pub fn of_row(&self, number: usize) -> Vec<&str> {
        self.0.iter().map(|target| target.value(number)).collect()
    }

    /// The columns without a value in row `number`.
    pub fn missing(&self, number: usize) -> Option<&str> {
        self.0.iter().find(|target| target.value(number).is_empty()).map(|target| target.column.as_str())
    }

    /// Appends the arrays of all rows to `texts`; equal values share one. `first_form` is the number of the first form.
    ///
    /// # Errors
    /// If a value is no number, and no list of numbers, or its dtype cannot hold it. The error names the line.
    pub fn arrays(&self, texts: &mut Vec<u8>, first_form: u32) -> Result<TargetArrays> {
        let mut all = TargetArrays::default();
        for target in &self.0 {
            let dtype = target.dtype()?;
            let (cells, kind) = target.arrays(dtype, texts, &mut all.forms, first_form)?;
            let mut kind =
                kind.ok_or_else(|| Error::usage(format!("--target {}: no row has a value", target.column)))?;
            kind.is_optional |= self.1 && cells.contains(&Cell::ABSENT);
            let component = target.component(dtype, kind.clone())?;
            all.notes.push(format!("targets: {} {kind}, column {:?}", component.name(), target.member));
            all.kinds.push(component);
            all.cells.push(cells);
        }
        Ok(all)
    }
}

impl TargetArrays {
    /// The cells of row `number`.
    pub fn of_row(&self, number: usize) -> impl Iterator<Item = Cell> {
        self.cells.iter().map(move |cells| cells.get(number).copied().unwrap_or(Cell::ABSENT))
    }
}

impl Target {
    fn parse(said: &str) -> Result<Self> {
        let (column, dtype) = match said.rsplit_once(':') {
            Some((column, name)) => match DTYPES.contains(&name) {
                true => (column, of_numpy_name(name)),
                false => {
                    let all = DTYPES.join(", ");
                    return Err(Error::usage(format!("--target {said}: no dtype {name:?}: there are {all}")));
                }
            },
            None => (said, None),
        };
        if column.is_empty() || column.contains([',', '=']) {
            return Err(Error::usage(format!("--target {said}: a column has a name without , and =")));
        }
        let (member, values, ends, lines) = Default::default();
        Ok(Self { column: column.to_owned(), dtype, member, values, ends, lines })
    }

    fn value(&self, number: usize) -> &str {
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(number).copied().unwrap_or(start);
        // Members of a JSON object are UTF-8.
        self.values.get(start..end).and_then(|value| str::from_utf8(value).ok()).unwrap_or_default()
    }

    fn wrong(&self, number: usize, what: &str) -> Error {
        let line = self.lines.get(number).copied().unwrap_or_default();
        Error::data(format!("line {line}, column {:?}: {what}", self.member))
    }

    /// The dtype of all values, in numpy's notation.
    fn dtype(&self) -> Result<&'static str> {
        if let Some(dtype) = self.dtype {
            return Ok(dtype);
        }
        let (mut are_truths, mut are_whole) = (true, true);
        for number in 0..self.ends.len() {
            let value = unquoted(self.value(number));
            let parsed = Parsed::parse(&value).map_err(|what| self.wrong(number, &what))?;
            for one in parsed.numbers {
                are_truths &= truth(one).is_some();
                are_whole &= one.parse::<i64>().is_ok();
            }
        }
        Ok(match (are_truths, are_whole) {
            (true, false) => "|b1",
            (false, true) => "<i8",
            _ => "<f8",
        })
    }

    /// Appends the arrays of all rows to `texts` and their forms to `forms`; returns the cells and the common type.
    fn arrays(
        &self,
        dtype: &str,
        texts: &mut Vec<u8>,
        forms: &mut Vec<Form>,
        first_form: u32,
    ) -> Result<(Vec<Cell>, Option<Type>)> {
        let (mut known, mut of_shape) = (HashMap::<&str, Cell>::new(), HashMap::<Vec<u64>, u32>::new());
        let (mut cells, mut kind) = (Vec::with_capacity(self.ends.len()), None::<Type>);
        for number in 0..self.ends.len() {
            let value = self.value(number);
            if let Some(cell) = known.get(value) {
                cells.push(*cell);
                continue;
            }
            if value.is_empty() {
                cells.push(Cell::ABSENT);
                continue;
            }
            let wrong = |what: String| self.wrong(number, &what);
            let unquoted = unquoted(value);
            let parsed = Parsed::parse(&unquoted).map_err(wrong)?;
            let form = Form::array(dtype, &parsed.shape)?;
            let start = texts.len();
            texts.extend_from_slice(&form.head());
            parsed.numbers.iter().try_for_each(|one| push(one, dtype, texts)).map_err(wrong)?;
            let bytes = u32::try_from(texts.len() - start).map_err(|_| wrong("more than 4 GiB".to_owned()))?;
            let form_number = match of_shape.get(&parsed.shape) {
                Some(form) => *form,
                None => {
                    let of_form = Type::from_form(&form);
                    let joined = kind.take().map_or(Some(of_form.clone()), |kind| kind.join(of_form));
                    kind =
                        Some(joined.ok_or_else(|| wrong("another number of axes than in the rows before".to_owned()))?);
                    forms.push(form);
                    let form = first_form + forms.len() as u32 - 1;
                    of_shape.insert(parsed.shape, form);
                    form
                }
            };
            let cell = Cell { bytes, form: form_number, stamp: start as i64 };
            known.insert(value, cell);
            cells.push(cell);
        }
        Ok((cells, kind))
    }

    fn component(&self, dtype: &str, kind: Type) -> Result<Component> {
        let is_label = LABELS.iter().any(|label| self.member.trim().eq_ignore_ascii_case(label));
        let name = if is_label { LABEL } else { self.member.trim() };
        let said = match self.dtype.and_then(shardpack_format::component::numpy_name) {
            Some(dtype) => format!("{}:{dtype}", self.column),
            None => self.column.clone(),
        };
        Ok(Component::of_list_values(name, &Form::array(dtype, &[])?, &said)?.with_kind(kind))
    }
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
    shardpack_format::component::numpy_name(dtype).unwrap_or(dtype)
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

    fn arrays(said: &str, values: &[&str]) -> Result<(String, Vec<Vec<u8>>)> {
        let mut targets = Targets(vec![Target::parse(said)?], true);
        targets.columns(&["path".to_owned(), "age".to_owned()], |at| at == 0)?;
        for (number, value) in values.iter().enumerate() {
            let rest = targets.take(format!(r#"{{"a":1,"age":{value}}}"#).as_bytes(), number as u64 + 2)?.into_owned();
            assert_eq!(rest, br#"{"a":1}"#);
        }
        let mut texts = b"before".to_vec();
        let found = targets.arrays(&mut texts, 3)?;
        let content = |number: usize| {
            let cell = found.of_row(number).next().unwrap();
            let Some(bytes) = cell.length() else { return Vec::new() };
            let form = &found.forms[cell.form as usize - 3];
            let start = cell.stamp as usize;
            texts[start + form.head().len()..start + bytes as usize].to_vec()
        };
        Ok((found.kinds[0].to_string(), (0..values.len()).map(content).collect()))
    }

    fn bytes<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| bytes(*value)).collect()
    }

    #[test]
    fn the_values_of_a_column_decide_their_dtype() {
        let (kind, all) = arrays("age", &["1", "-2", "\"3\"", "\" \"", "1"]).unwrap();
        assert_eq!(kind, "age.npy=list:<i8[]?:age");
        let one = bytes(&[1i64], i64::to_le_bytes);
        assert_eq!(
            all,
            [one.clone(), bytes(&[-2i64], i64::to_le_bytes), bytes(&[3i64], i64::to_le_bytes), vec![], one]
        );
        let (kind, all) = arrays("AGE", &["1", "0.5", "1e-3", "\"nan\""]).unwrap();
        assert_eq!(kind, "age.npy=list:<f8[]:AGE");
        assert_eq!(all[..3], [1.0, 0.5, 1e-3].map(|value: f64| value.to_le_bytes().to_vec()));
        assert_eq!(
            arrays("age", &["true", "\"False\""]).unwrap(),
            ("age.npy=list:|b1[]:age".to_owned(), vec![vec![1], vec![0]])
        );
        let (kind, all) = arrays("age:float32", &["1", "0.1"]).unwrap();
        assert_eq!(kind, "age.npy=list:<f4[]:age:float32");
        assert_eq!(all, [1f32, 0.1].map(|value| value.to_le_bytes().to_vec()));
        let (kind, all) = arrays("2:uint8", &["255", "7.0"]).unwrap();
        assert_eq!((kind.as_str(), all), ("age.npy=list:|u1[]:2:uint8", vec![vec![255], vec![7]]));
    }

    #[test]
    fn lists_are_arrays_of_their_shape() {
        let (kind, all) = arrays("age", &["[1, 2.5]", "\"3 4\"", "\"[5,6]\""]).unwrap();
        assert_eq!(kind, "age.npy=list:<f8[2]:age");
        assert_eq!(all[1], bytes(&[3.0f64, 4.0], f64::to_le_bytes));
        let (kind, all) = arrays("age", &["[[1,2],[3,4]]", "[[5,6]]", "[]"]).unwrap();
        assert_eq!((kind.as_str(), all[2].clone()), ("age.npy=list:<i8:age", vec![]));
        let (kind, all) = arrays("age", &["[[1,2],[3,4]]", "[[5,6]]"]).unwrap();
        assert_eq!((kind.as_str(), all[1].clone()), ("age.npy=list:<i8[?x2]:age", bytes(&[5i64, 6], i64::to_le_bytes)));
        assert_eq!(arrays("age", &["[1,2,3]", "[]"]).unwrap().0, "age.npy=list:<i8[?]:age");
    }

    #[test]
    fn what_no_array_holds_is_refused_with_its_line() {
        for (said, values, what) in [
            ("age", &["1", "\"x\""][..], "line 3, column \"age\": \"x\" is no number"),
            ("age", &["{\"a\":1}"], "is no number"),
            ("age", &["[1,[2]]"], "is no list of numbers of one shape"),
            ("age", &["[[1],[2,3]]"], "is no list of numbers of one shape"),
            ("age", &["[1,\"x\"]"], "is no list of numbers of one shape"),
            ("age", &["\"[1] [2]\""], "is more than one list"),
            (
                "age",
                &["0.5", "9007199254740993"],
                "line 3, column \"age\": 9007199254740993 is a whole number that float64 cannot hold",
            ),
            ("age:uint8", &["256"], "256 does not fit uint8"),
            ("age:int64", &["0.5"], "0.5 does not fit int64"),
            ("age:float32", &["1e39"], "1e39 does not fit float32"),
            ("age:float32", &["16777217"], "16777217 is a whole number that float32 cannot hold"),
            ("age", &["1e400"], "1e400 does not fit float64"),
            ("age:int128", &["1"], "no dtype \"int128\""),
            ("age", &["null"], "no row has a value"),
            ("b", &["1"], "--target b: no such column: it has path, age"),
            ("path", &["1"], "column \"path\" has another role"),
        ] {
            let error = arrays(said, values).unwrap_err().to_string();
            assert!(error.contains(what), "{said} {values:?}: {error}");
        }
    }
}
