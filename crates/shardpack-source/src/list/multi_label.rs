//! Several classes a row: `--multi-label 'tags:|'` packs a column, and `--multi-label cat..dog` columns of 0 and 1, as the array `multi_hot`,
//! with a 1 for each class of the sample.
//!
//! Holds at all times: the classes are those of all rows, whatever their splits, in the order of their names; class numbers keep their
//! number, and columns their order. A value that cannot be divided into classes is refused with its line.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use shardpack_format::{
    Error, ErrorKind, Result,
    component::{Component, Form},
    size, text,
};

use super::Columns;
use crate::options::Options;

/// Name of the component.
const NAME: &str = "multi_hot";
/// Most classes, and most bytes of different arrays.
const MAX_CLASSES: u64 = 1 << 16;
const MAX_BYTES: u64 = 1 << 30;
/// Separators that are written as a word.
const WORDS: [(&str, u8); 3] = [("comma", b','), ("space", b' '), ("tab", b'\t')];

/// Why lists with a place for each class are refused.
const NO_CLASSES: &str = "--multi-label takes lists of classes, not lists with 0 or 1 for each class";

/// The column with several classes, and the classes of each row.
#[derive(Debug)]
pub(super) struct MultiLabel {
    /// The column, by name or number; the first, if each class has a column.
    column: String,
    /// The last column, if each class has a column.
    last: Option<String>,
    /// Between the classes of a row; `None` if each value is a list.
    separator: Option<u8>,
    /// The value of the option.
    said: String,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Numbers of the classes of all rows end to end, and the end of each row.
    labels: Vec<u32>,
    ends: Vec<usize>,
}

/// The arrays of all rows.
pub(super) struct Arrays {
    pub kind: Component,
    pub form: Form,
    /// Class names in the order of the items.
    pub classes: Vec<String>,
    /// The start of the array of each row in the texts.
    pub starts: Vec<i64>,
    /// Bytes of an array with its head.
    pub bytes: u32,
}

impl MultiLabel {
    /// The column that the user chooses, or that of a dataset which is compared with the list.
    ///
    /// # Errors
    /// If the separator is none.
    pub fn of(columns: &Columns, options: &Options) -> Result<Option<Self>> {
        let of_classes = || options.with.iter().filter(|kind| is_of_classes(kind));
        let of_dataset = || of_classes().find_map(|kind| kind.listed().map(str::to_owned));
        columns.multi_label.clone().or_else(of_dataset).map(|said| Self::parse(&said)).transpose()
    }

    fn parse(said: &str) -> Result<Self> {
        let wrong = |what: &str| Error::usage(format!("--multi-label {said}: {what}"));
        let range = said.split_once("..").filter(|(first, last)| !first.is_empty() && !last.is_empty());
        let (column, separator) = match (range, said.rsplit_once(':')) {
            (Some((first, _)), _) => (first, None),
            (None, None) => (said, None),
            (None, Some((column, word))) => {
                let named = WORDS.iter().find(|(known, _)| *known == word).map(|(_, byte)| *byte);
                let byte = match word.as_bytes() {
                    [byte] if !byte.is_ascii_alphanumeric() => Some(*byte),
                    _ => named,
                };
                (column, Some(byte.ok_or_else(|| wrong("a separator is one character, comma, space or tab"))?))
            }
        };
        if column.is_empty() || said.contains([',', '=']) {
            return Err(wrong("a column has a name without , and =, and the separator , is written comma"));
        }
        let (names, numbers, labels, ends) = Default::default();
        let last = range.map(|(_, last)| last.to_owned());
        Ok(Self { column: column.to_owned(), last, separator, said: said.to_owned(), names, numbers, labels, ends })
    }

    fn add(&mut self, name: &str) -> Result<()> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                if self.names.len() as u64 == MAX_CLASSES {
                    return Err(Error::data(format!("more than {MAX_CLASSES} classes")));
                }
                self.names.push(name.to_owned());
                let number = self.names.len() as u32 - 1;
                self.numbers.insert(name.to_owned(), number);
                number
            }
        };
        self.labels.push(number);
        Ok(())
    }

    /// Adds the classes in the field of a row.
    fn add_field(&mut self, field: &[u8]) -> Result<()> {
        let content = std::str::from_utf8(field).map_err(|_| Error::data("not UTF-8, which class names have to be"))?;
        let content = content.trim();
        let start = self.labels.len();
        match self.separator {
            _ if content.is_empty() => {}
            _ if content.starts_with('[') => {
                let items = items(content).ok_or_else(|| {
                    Error::data(format!("{} is no list of names or whole numbers", text::shown(content.as_bytes())))
                })?;
                items.iter().try_for_each(|name| self.add(name))?;
            }
            Some(separator) => {
                let names = content.split(char::from(separator)).map(str::trim).filter(|name| !name.is_empty());
                names.map(str::to_owned).collect::<Vec<_>>().iter().try_for_each(|name| self.add(name))?;
            }
            None => {
                let what = format!("{} is no list", text::shown(content.as_bytes()));
                return Err(Error::usage(what).help(format!("--multi-label '{}:|' divides text at bars", self.column)));
            }
        }
        let of_row = &mut self.labels[start..];
        of_row.sort_unstable();
        // [1, 0, 1] has a place for each class.
        let twice = of_row.windows(2).find(|pair| pair[0] == pair[1]).and_then(|pair| self.names.get(pair[0] as usize));
        if let Some(name) = twice.filter(|name| number_of(name).is_some() && self.last.is_none()) {
            let list = text::shown(content.as_bytes());
            return Err(Error::data(format!("class {name} stands twice in {list}: {NO_CLASSES}")));
        }
        self.ends.push(self.labels.len());
        Ok(())
    }

    /// The sorted classes of row `number`, as numbers in the order of their first occurrence.
    pub fn of_row(&self, number: usize) -> &[u32] {
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(number).map_or(&[], |end| &self.labels[start..*end])
    }

    /// The place of each class in the array, and the names in this order.
    fn order(&self) -> Result<(Vec<usize>, Vec<String>)> {
        if self.last.is_some() {
            return Ok(((0..self.names.len()).collect(), self.names.clone()));
        }
        let numbers: Option<Vec<u64>> = self.names.iter().map(|name| number_of(name)).collect();
        match numbers.filter(|numbers| !numbers.is_empty()) {
            Some(numbers) => {
                let most = numbers.iter().max().map_or(0, |most| most.saturating_add(1));
                if most > MAX_CLASSES {
                    let what = format!("class {} of --multi-label: more than {MAX_CLASSES} classes", most - 1);
                    return Err(Error::usage(what));
                }
                let places = numbers.iter().map(|number| *number as usize).collect();
                Ok((places, (0..most).map(|number| number.to_string()).collect()))
            }
            None => {
                let sorted: BTreeSet<&String> = self.names.iter().collect();
                let names: Vec<String> = sorted.into_iter().cloned().collect();
                let place = |name: &String| names.binary_search(name).unwrap_or_default();
                Ok((self.names.iter().map(place).collect(), names))
            }
        }
    }

    /// Appends the arrays of all rows to `texts`. Rows with the same classes share one.
    ///
    /// # Errors
    /// If there is no class, or there are too many.
    pub fn arrays(&self, texts: &mut Vec<u8>) -> Result<Arrays> {
        let (places, classes) = self.order()?;
        let has_all = |number: usize| self.of_row(number).len() == 2;
        if self.last.is_none() && classes == ["0", "1"] && (0..self.ends.len()).all(has_all) {
            return Err(Error::usage(format!(
                "--multi-label {}: each row has the classes 0 and 1: {NO_CLASSES}",
                self.said
            )));
        }
        if classes.is_empty() {
            return Err(Error::usage(format!("--multi-label {}: no row has a class", self.said)));
        }
        let form = Form::array("|u1", &[classes.len() as u64])?;
        let head = form.head();
        let bytes = (head.len() + classes.len()) as u64;
        let (mut starts, mut known) = (Vec::with_capacity(self.ends.len()), HashMap::<&[u32], i64>::new());
        for labels in (0..self.ends.len()).map(|number| self.of_row(number)) {
            if let Some(start) = known.get(labels) {
                starts.push(*start);
                continue;
            }
            if (known.len() as u64 + 1) * bytes > MAX_BYTES {
                return Err(Error::usage(format!(
                    "--multi-label {}: more than {} of different arrays",
                    self.said,
                    size::text(MAX_BYTES)
                )));
            }
            let start = texts.len();
            texts.extend_from_slice(&head);
            texts.resize(start + bytes as usize, 0);
            for label in labels {
                texts[start + head.len() + places[*label as usize]] = 1;
            }
            known.insert(labels, start as i64);
            starts.push(start as i64);
        }
        let kind = Component::of_list_values(NAME, &form, &self.said)?;
        Ok(Arrays { kind, form, classes, starts, bytes: bytes as u32 })
    }

    /// The note on the classes.
    pub fn note(&self, arrays: &Arrays) -> String {
        let without = (0..self.ends.len()).filter(|number| self.of_row(*number).is_empty()).count();
        let rows = size::counted(self.ends.len() as u64, "row");
        let without = if without > 0 { format!(", none in {without}") } else { String::new() };
        let mean = self.labels.len() as f64 / self.ends.len().max(1) as f64;
        format!(
            "targets: {NAME} uint8[{}], a 1 for each class; {mean:.1} classes on average in {rows}{without}",
            arrays.classes.len()
        )
    }
}

/// Whether a component is the array of several classes.
pub(super) fn is_of_classes(kind: &Component) -> bool {
    kind.name().strip_suffix(".npy") == Some(NAME)
}

/// The class number that a name spells.
fn number_of(name: &str) -> Option<u64> {
    name.parse::<u64>().ok().filter(|number| number.to_string() == *name)
}

/// The names and whole numbers in a list, as JSON or Python spells it.
fn items(list: &str) -> Option<Vec<String>> {
    let name = |value: serde_json::Value| match value {
        serde_json::Value::String(name) => Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
        serde_json::Value::Number(number) => number.as_u64().map(|number| number.to_string()),
        _ => None,
    };
    match serde_json::from_str::<Vec<serde_json::Value>>(list) {
        Ok(values) => values.into_iter().map(name).collect(),
        // Names with a quote or a comma in them are not read.
        Err(_) => {
            let inner = list.strip_prefix('[')?.strip_suffix(']')?;
            let quoted = |item: &str| {
                let name = item.trim().strip_prefix('\'')?.strip_suffix('\'')?.trim();
                let is_plain = !name.is_empty() && !name.contains(['\'', '"', '\\']);
                is_plain.then(|| name.to_owned())
            };
            inner.split(',').map(quoted).collect()
        }
    }
}

impl MultiLabel {
    /// The numbers of the columns of classes among `names`. A single one has several classes. `find` finds a column, and `is_taken` says
    /// that a column has another role.
    ///
    /// # Errors
    /// If a column is missing or taken.
    pub fn columns(
        &mut self,
        names: &[String],
        find: impl Fn(&str) -> Result<usize>,
        is_taken: impl Fn(usize) -> bool,
    ) -> Result<Vec<usize>> {
        let wrong = |what: &str| Error::usage(format!("--multi-label {}: {what}", self.said));
        let first = find(&self.column)?;
        let last = self.last.as_deref().map_or(Ok(first), find)?;
        if self.last.is_some() && first >= last {
            return Err(wrong("the second column is not behind the first"));
        }
        let columns: Vec<usize> = (first..=last).collect();
        if let Some(at) = columns.iter().find(|at| is_taken(**at)) {
            return Err(wrong(&format!("column {:?} has another role", names[*at])));
        }
        if self.last.is_some() {
            if columns.len() as u64 > MAX_CLASSES {
                return Err(wrong("too many columns"));
            }
            self.names = columns.iter().map(|at| names[*at].clone()).collect();
            self.numbers = self.names.iter().cloned().zip(0..).collect();
        }
        Ok(columns)
    }

    /// Adds the classes of the next row, which is on line `line`.
    ///
    /// # Errors
    /// If the field has no classes that can be divided. The error names the line.
    pub fn add_row(&mut self, field: &[u8], line: u64) -> Result<()> {
        self.add_field(field).map_err(|error| {
            let what = format!("line {line}, column {:?}: {}", self.column, error.what());
            let what = if error.kind() == ErrorKind::Usage { Error::usage(what) } else { Error::data(what) };
            match error.help_text() {
                Some(help) => what.help(help),
                None => what,
            }
        })
    }
}

/// The classes of a row: the field of its only column, or the names of the columns with a 1 as a JSON list.
///
/// # Errors
/// If one of several columns has another value than 0 and 1. The error names the line.
pub(super) fn classes_of<'f>(
    names: &[String],
    columns: &[usize],
    line: u64,
    field: impl Fn(usize) -> Cow<'f, [u8]>,
) -> Result<Cow<'f, [u8]>> {
    match *columns {
        [] => return Ok(Cow::Borrowed(&[])),
        [at] => return Ok(field(at)),
        _ => {}
    }
    let mut found: Vec<&str> = Vec::new();
    for at in columns {
        match field(*at).trim_ascii() {
            b"1" | b"1.0" | b"true" | b"True" => found.push(&names[*at]),
            b"0" | b"0.0" | b"false" | b"False" => {}
            other => {
                let value = text::shown(other).to_string();
                return Err(Error::data(format!("line {line}, column {:?}: {value:?} is neither 0 nor 1", names[*at])));
            }
        }
    }
    Ok(Cow::Owned(serde_json::json!(found).to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &str, fields: &[&str]) -> Result<(Vec<String>, Vec<Vec<u8>>)> {
        let mut several = MultiLabel::parse(said)?;
        fields.iter().try_for_each(|field| several.add_field(field.as_bytes()))?;
        let mut texts = b"before".to_vec();
        let arrays = several.arrays(&mut texts)?;
        let head = arrays.form.head().len();
        let array = |start: &i64| texts[*start as usize + head..*start as usize + arrays.bytes as usize].to_vec();
        Ok((arrays.classes.clone(), arrays.starts.iter().map(array).collect()))
    }

    #[test]
    fn classes_are_in_the_order_of_their_names() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected =
            (names(&["bird", "cat", "dog"]), vec![vec![0, 1, 1], vec![0, 0, 0], vec![1, 0, 0], vec![0, 1, 1]]);
        for (said, fields) in [
            ("tags:|", ["dog|cat", "", " bird ", "cat|dog|cat"]),
            ("tags:space", ["dog  cat", " ", "bird", "cat dog"]),
            ("a:b:comma", ["dog, cat", "", "bird", "cat,,dog"]),
            ("tags", [r#"["dog","cat"]"#, "[]", r#"["bird"]"#, "['cat', 'dog']"]),
            ("tags:;", [r#"["dog","cat"]"#, " ; ", "bird", "cat;dog"]),
        ] {
            assert_eq!(of(said, &fields).unwrap(), expected, "{said}");
        }
        let (classes, arrays) = of("tags", &["[3, 0]", "[1]"]).unwrap();
        assert_eq!((classes, arrays), (names(&["0", "1", "2", "3"]), vec![vec![1, 0, 0, 1], vec![0, 1, 0, 0]]));
        assert_eq!(of("tags", &["[10]", r#"["a"]"#]).unwrap().0, names(&["10", "a"]));
        assert_eq!(of("tags:|", &["null|a"]).unwrap().0, names(&["a", "null"]));
        for (said, field) in [
            ("tags", "dog cat"),
            ("tags", "[1.5]"),
            ("tags", "[-1]"),
            ("tags", "[['a']]"),
            ("tags", "['a, 'b']"),
            ("tags", r#"[""]"#),
            ("tags", ""),
            ("tags:|", "|"),
            ("tags", "[99999999]"),
            ("tags", "[1, 0, 1]"),
            ("tags", "[1, 0]"),
            ("tags", "[18446744073709551615]"),
            ("tags:ab", "a"),
            ("tags:x", "a"),
            ("tags:,", "a"),
            (":|", "a"),
            ("", "[]"),
        ] {
            assert!(of(said, &[field]).is_err(), "{said} {field}");
        }
    }

    #[test]
    fn columns_of_zeros_and_ones_are_a_list_of_their_names() {
        let names = ["path", "b", "a"].map(str::to_owned);
        let of = |columns: &[usize], row: [&'static str; 3]| {
            let found = classes_of(&names, columns, 2, |at| row[at].as_bytes().into());
            found.map(|found| String::from_utf8(found.into_owned()).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(of(&[1, 2], ["x", "1", " 1.0 "]).unwrap(), r#"["b","a"]"#);
        assert_eq!(of(&[1, 2], ["x", "False", "0.0"]).unwrap(), "[]");
        assert_eq!(
            (of(&[], ["x", "1", "1"]).unwrap(), of(&[1], ["x", "a|b", ""]).unwrap()),
            (String::new(), "a|b".to_owned())
        );
        for other in ["", "-1", "2", "null", "0.5"] {
            assert!(of(&[1, 2], ["x", "0", other]).unwrap_err().starts_with("line 2, column \"a\": "), "{other}");
        }
    }
}
