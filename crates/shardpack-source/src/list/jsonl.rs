//! Parses lists of JSON objects: one object a line, or one array. Members without a role keep their exact spelling.
//!
//! Holds at all times: the path, label and split members are chosen from the members of all objects. An object without
//! the label counts as an object whose label is null.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    io::Read,
};

use serde::{
    Deserializer as _,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use shardpack_format::{Error, Result};

use super::{
    Columns,
    columns::{MAX_COLUMNS, Roles, path_of},
    csv::MAX_LOOKED,
    json,
    label_value::LabelValue,
    lines,
    members::Members,
    multi_label::classes_of,
    rows::{Row, Rows},
};
use crate::monitor::Monitor;

/// Reads a file with one object a line, in two passes.
///
/// The first pass collects the member names, because the first line may lack some.
pub(super) fn read<R: Read>(open: impl Fn() -> Result<R>, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let each = |take: &mut dyn FnMut(u64, &[u8]) -> Result<()>| {
        lines::each(open()?, monitor, |number, line| {
            let text = line.strip_prefix(json::BOM).filter(|_| number == 1).unwrap_or(line);
            if text.trim_ascii().is_empty() { Ok(()) } else { take(number, text) }
        })
    };
    let mut seen = Seen::default();
    each(&mut |_, text| {
        seen.add(text);
        Ok(())
    })?;
    let mut names = None;
    each(&mut |number, text| add(text, "line", number, &Classes::default(), &seen, &mut names, rows))
}

/// Reads an array of objects.
pub(super) fn read_array(bytes: &[u8], rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let all: Vec<&RawValue> =
        serde_json::from_slice(bytes).map_err(|error| Error::data(format!("not a list of objects: {error}")))?;
    read_objects(&all, &Classes::default(), rows, monitor)
}

/// Reads the first objects of an array whose end may be cut off, at most `most`.
pub(super) fn read_first(bytes: &[u8], most: usize, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let mut all = Vec::new();
    // The error is that of the end.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_seq(First { all: &mut all, most });
    read_objects(&all, &Classes::default(), rows, monitor)
}

/// Collects the first objects of an array.
struct First<'v, 'b> {
    all: &'v mut Vec<&'b RawValue>,
    most: usize,
}

impl<'b> Visitor<'b> for First<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut array: A) -> Result<(), A::Error> {
        while self.all.len() < self.most
            && let Some(object) = array.next_element()?
        {
            self.all.push(object);
        }
        Ok(())
    }
}

/// Information that a list has for all its objects.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// Class names in the order of labels.
    pub names: Vec<String>,
    /// The member of an object with the list of its parts, and the member of a part with its label. Each sample's text
    /// gets the class names of its parts.
    pub of_parts: Option<(&'static str, &'static str)>,
}

/// Reads the objects of an array.
pub(super) fn read_objects(
    all: &[&RawValue],
    classes: &Classes,
    rows: &mut Rows<'_>,
    monitor: &dyn Monitor,
) -> Result<()> {
    let mut seen = Seen::default();
    all.iter().for_each(|object| seen.add(object.get().as_bytes()));
    let mut names = None;
    for (number, object) in (1u64..).zip(all) {
        add(object.get().as_bytes(), "element", number, classes, &seen, &mut names, rows)?;
        if number % 4096 == 0 {
            monitor.check_cancelled()?;
        }
    }
    Ok(())
}

/// Names of the members with a role.
struct Names {
    path: String,
    label: Option<String>,
    class: Option<String>,
    split: Option<String>,
    files: Vec<String>,
    several: Vec<String>,
}

impl Names {
    /// Chooses the members from those `seen` in all objects; `first` are those of the first object.
    fn choose(seen: &Seen, first: &Members<'_>, rows: &mut Rows<'_>) -> Result<Self> {
        let all = &seen.names;
        let roles = |columns: &Columns| Roles::assign(all, columns, rows.no_labels, rows.splits);
        // Every object has a path, so a member that only some objects have cannot be the path.
        let everywhere = seen.everywhere();
        let said = match rows.columns.path.clone().or_else(|| path_of(&everywhere)) {
            None => first.file(&everywhere, rows)?,
            known => known,
        };
        let columns = Columns { path: said, ..rows.columns.clone() };
        let mut roles = roles(&columns)?.ok_or_else(|| {
            let all = all.iter().take(MAX_COLUMNS).map(String::as_str).collect::<Vec<_>>().join(", ");
            Error::usage(format!("no member with the path of the image: it has {all}"))
                .help("choose one with --path-column NAME")
        })?;
        rows.begin(all, &mut roles)?;
        let name = |at: Option<usize>| at.map(|at| all[at].clone());
        let (label, class, split) = (name(roles.label), name(roles.class), name(roles.split));
        let named = |numbers: &[usize]| numbers.iter().map(|at| all[*at].clone()).collect();
        let (files, several) = (named(&roles.files), named(&roles.several));
        Ok(Self { path: all[roles.path].clone(), label, class, split, files, several })
    }
}

impl Members<'_> {
    /// The first member among `names` whose value is the name of a file.
    ///
    /// # Errors
    /// If a file cannot be looked up.
    fn file(&self, names: &[String], rows: &Rows<'_>) -> Result<Option<String>> {
        for (name, raw) in self.0.iter().filter(|(name, _)| names.iter().any(|own| own == name)).take(MAX_LOOKED) {
            let Ok(path) = serde_json::from_str::<String>(raw.get()) else { continue };
            if rows.is_file(path.as_bytes())? || rows.is_without_extension(path.as_bytes())? {
                return Ok(Some(name.to_string()));
            }
        }
        Ok(None)
    }
}

/// The members of all objects.
#[derive(Default)]
struct Seen {
    /// Member names in the order of their first occurrence.
    names: Vec<String>,
    /// Number of objects with each member, in the order of `names`.
    counts: Vec<u64>,
    numbers: HashMap<String, usize>,
    objects: u64,
}

impl Seen {
    /// Counts the members of an object. Text that is not an object is skipped here and refused when its row is added.
    fn add(&mut self, text: &[u8]) {
        let Ok(Members(members)) = serde_json::from_slice::<Members<'_>>(text) else { return };
        self.objects += 1;
        for (at, (name, _)) in members.iter().enumerate() {
            // Most objects have the same members in the same order.
            let is_next = self.names.get(at).is_some_and(|next| next == name);
            let known = if is_next { Some(at) } else { self.numbers.get(&**name).copied() };
            let number = known.unwrap_or_else(|| {
                self.names.push(name.to_string());
                self.counts.push(0);
                self.numbers.insert(name.to_string(), self.names.len() - 1);
                self.names.len() - 1
            });
            self.counts[number] += 1;
        }
    }

    /// Names of the members that every object has.
    fn everywhere(&self) -> Vec<String> {
        let counted = self.names.iter().zip(&self.counts);
        counted.filter(|(_, count)| **count == self.objects).map(|(name, _)| name.clone()).collect()
    }
}

/// Adds an object as a row. The role of each member follows from `seen`.
fn add(
    text: &[u8],
    what: &str,
    number: u64,
    classes: &Classes,
    seen: &Seen,
    names: &mut Option<Names>,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let wrong = |why: String| Error::data(format!("{what} {number}: {why}"));
    let members: Members<'_> =
        serde_json::from_slice(text).map_err(|error| wrong(format!("not an object: {error}")))?;
    let mut own = HashSet::with_capacity(members.0.len());
    if let Some((name, _)) = members.0.iter().find(|(name, _)| !own.insert(name)) {
        return Err(wrong(format!("member {name:?} stands twice")));
    }
    let names = match names {
        Some(names) => names,
        None => names.insert(Names::choose(seen, &members, rows)?),
    };
    let Members(members) = members;
    let raw = |name: &str| members.iter().find(|(own, _)| own == name).map(|(_, raw)| *raw);
    let string = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    let of = |name: &Option<String>| name.as_deref().and_then(raw);
    let path = raw(&names.path).and_then(string).ok_or_else(|| wrong(format!("no path in {:?}", names.path)))?;
    let mut text = Vec::new();
    if rows.wants_text {
        let mut object = json::Object::begin(&mut text);
        let own = [Some(&names.path), names.label.as_ref(), names.split.as_ref()];
        let own = || own.into_iter().flatten().chain(&names.files).chain(&names.several);
        for (name, raw) in members.iter().filter(|(name, _)| !own().any(|own| own == name)) {
            json::compact(raw.get(), object.member(name.as_bytes())?);
        }
        if let Some((parts, label)) = classes.of_parts
            && raw("classes").is_none()
        {
            let parts = raw(parts)
                .and_then(|raw| serde_json::from_str::<Vec<BTreeMap<String, serde_json::Value>>>(raw.get()).ok());
            let labels = parts.iter().flatten().filter_map(|part| usize::try_from(part.get(label)?.as_u64()?).ok());
            let named: BTreeMap<usize, &String> =
                labels.filter_map(|label| Some((label, classes.names.get(label)?))).collect();
            if !named.is_empty() {
                let mut called = json::Object::begin(object.member(b"classes")?);
                for (label, name) in named {
                    json::string(name.as_bytes(), called.member(label.to_string().as_bytes())?)?;
                }
                called.end();
            }
        }
        object.end();
    }
    let file = |name: &String| match raw(name).map(|raw| serde_json::from_str::<Option<String>>(raw.get())) {
        None => Ok(String::new()),
        Some(Ok(path)) => Ok(path.unwrap_or_default()),
        Some(Err(_)) => Err(wrong(format!("{name:?} is no path, and --file-column names it"))),
    };
    let files = names.files.iter().map(file).collect::<Result<Vec<String>>>()?;
    let value = |at: usize| {
        let raw = raw(&names.several[at]).filter(|raw| raw.get() != "null");
        let text =
            raw.map(|raw| string(raw).map_or(Cow::Borrowed(raw.get().as_bytes()), |text| text.into_bytes().into()));
        text.unwrap_or_default()
    };
    let several: Vec<usize> = (0..names.several.len()).collect();
    let several = classes_of(&names.several, &several, number, value)?;
    if rows.looks_for_files() {
        let is_looked_at = |name: &str| *name != names.path && !names.files.iter().any(|own| own == name);
        let texts: Vec<(&str, String)> = members
            .iter()
            .filter(|(name, _)| is_looked_at(name))
            .filter_map(|(name, raw)| Some((&**name, string(raw)?)))
            .collect();
        rows.look_for_files(path.as_bytes(), texts.iter().map(|(name, text)| (*name, text.as_bytes())))?;
    }
    let (class, split) = (of(&names.class).and_then(string), of(&names.split).and_then(string));
    rows.add(&Row {
        line: number,
        path: path.as_bytes(),
        label: of(&names.label).map(|raw| label(raw.get())).unwrap_or_default(),
        class: class.as_ref().map(String::as_bytes),
        split: names.split.as_ref().map(|_| split.as_ref().map_or(&[][..], String::as_bytes)),
        several: &several,
        files: &files.iter().map(String::as_bytes).collect::<Vec<_>>(),
        text: &text,
    })
}

/// The label value of a JSON value.
fn label(raw: &str) -> LabelValue {
    match serde_json::from_str::<serde_json::Value>(raw) {
        Ok(serde_json::Value::Null) => LabelValue::default(),
        Ok(serde_json::Value::String(text)) => LabelValue::of_text(text.as_bytes()),
        Ok(serde_json::Value::Number(_)) => LabelValue::of_number(raw),
        _ => LabelValue::Unfit("a value that is neither a number nor text".to_owned()),
    }
}
