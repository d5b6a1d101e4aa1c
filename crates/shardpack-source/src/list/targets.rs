//! Values of columns as arrays: `--target age` packs the numbers of a column as `age.npy`, `--target age:float32` chooses their dtype.
//!
//! The values are members of the text of each row, whatever kind of list it is, and are taken out of the text. A value that is no array
//! makes its row bad.

use std::borrow::Cow;

use shardpack_format::{
    Error, Result,
    component::{Component, Form, Type},
};

use super::{Columns, columns::find, json};
use crate::{
    component_table::Cell,
    options::{OnMissing, Options},
    target_values::{Arrays, Target},
};

/// The columns of targets.
#[derive(Debug, Default)]
pub(super) struct Targets {
    all: Vec<Target>,
    /// Samples may lack values.
    may_lack: bool,
    /// The last one is the column of labels that are no classes. Samples may lack it.
    has_label: bool,
}

/// The arrays of all rows.
#[derive(Default)]
pub(super) struct TargetArrays {
    pub kinds: Vec<Component>,
    pub forms: Vec<Form>,
    /// Of each column: its name and its arrays.
    columns: Vec<(String, Arrays)>,
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
        said.iter().map(|said| Target::parse(said)).collect::<Result<_>>().map(|all| Self {
            all,
            may_lack,
            has_label: false,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds the column of labels that are numbers and no classes; returns whether it can be a target.
    pub fn add_label(&mut self, column: &str) -> bool {
        let target = Target::parse(column).ok().filter(|target| target.column == column);
        self.has_label = target.is_some();
        self.all.extend(target);
        self.has_label
    }

    /// Whether the labels that [`Targets::add_label`] added are numbers in all rows that have some.
    pub fn has_numeric_labels(&self) -> bool {
        self.has_label && self.all.last().is_some_and(Target::are_arrays)
    }

    /// Whether samples may lack target `at`.
    fn may_lack(&self, at: usize) -> bool {
        self.may_lack || self.has_label && at + 1 == self.all.len()
    }

    /// The numbers of the columns among `names`. `is_taken` says that a column has another role.
    ///
    /// # Errors
    /// If a column is missing or taken, or is named twice.
    pub fn columns(&mut self, names: &[String], is_taken: impl Fn(usize) -> bool) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        for target in &mut self.all {
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
        for (name, raw) in members.iter().filter(|(name, _)| self.all.iter().all(|target| target.member != *name)) {
            others.member(name.as_bytes())?.extend_from_slice(raw.as_bytes());
        }
        others.end();
        for target in &mut self.all {
            target.push(members.iter().find(|(name, _)| *name == target.member).map_or("", |(_, raw)| raw));
        }
        Ok(Cow::Owned(rest))
    }

    /// The values of row `number`, as they are in the list.
    pub fn of_row(&self, number: usize) -> Vec<&str> {
        self.all.iter().map(|target| target.value(number)).collect()
    }

    /// The column without a value in row `number`, if `--on-missing` decides on it.
    pub fn missing(&self, number: usize) -> Option<&str> {
        let is_missing =
            |(at, target): &(usize, &Target)| target.value(number).is_empty() && (self.may_lack || !self.may_lack(*at));
        self.all.iter().enumerate().find(is_missing).map(|(_, target)| target.column.as_str())
    }

    /// Appends the arrays of all rows to `texts`; equal values share one. `first_form` is the number of the first form, `line` gives the
    /// line of a row.
    ///
    /// # Errors
    /// If no row of a column has an array.
    pub fn arrays(&self, texts: &mut Vec<u8>, first_form: u32, line: impl Fn(usize) -> u64) -> Result<TargetArrays> {
        let mut all = TargetArrays::default();
        for (at, target) in self.all.iter().enumerate() {
            let place = |number| format!("line {}, column {:?}", line(number), target.member);
            let mut arrays = target.arrays(texts, first_form + all.forms.len() as u32, place)?;
            let is_lacking = self.may_lack(at) && (0..arrays.cells.len()).any(|number| target.value(number).is_empty());
            if let Some(kind) = arrays.component.kind().cloned().filter(|_| is_lacking) {
                arrays.component = arrays.component.with_kind(Type { is_optional: true, ..kind });
            }
            all.forms.append(&mut arrays.forms);
            all.kinds.push(arrays.component.clone());
            all.columns.push((target.member.clone(), arrays));
        }
        Ok(all)
    }
}

impl TargetArrays {
    /// The cells of row `number`.
    pub fn of_row(&self, number: usize) -> impl Iterator<Item = Cell> {
        self.columns.iter().map(move |(_, arrays)| arrays.cells.get(number).copied().unwrap_or(Cell::ABSENT))
    }

    /// The column with a bad value in row `number`, and the reason.
    pub fn bad(&self, number: usize) -> Option<(&str, &str)> {
        self.columns.iter().find_map(|(column, arrays)| Some((column.as_str(), arrays.bad.get(&number)?.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(said: &str, values: &[&str]) -> Result<(String, Vec<Vec<u8>>)> {
        let mut targets = Targets { all: vec![Target::parse(said)?], may_lack: true, has_label: false };
        targets.columns(&["path".to_owned(), "age".to_owned()], |at| at == 0)?;
        for (number, value) in values.iter().enumerate() {
            let rest = targets.take(format!(r#"{{"a":1,"age":{value}}}"#).as_bytes(), number as u64 + 2)?.into_owned();
            assert_eq!(rest, br#"{"a":1}"#);
        }
        let mut texts = b"before".to_vec();
        let found = targets.arrays(&mut texts, 3, |number| number as u64 + 2)?;
        if let Some((number, (_, what))) = (0..values.len()).find_map(|number| Some((number, found.bad(number)?))) {
            return Err(Error::data(format!("line {}, column \"age\": {what}", number + 2)));
        }
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
