//! Lists of JSON objects: one a line, or in one list. Members that have no other place keep the letters they have.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt,
    io::Read,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use shardpack_format::{Error, Result};

use super::{
    columns::Roles,
    csv::MOST_COLUMNS,
    json,
    label_value::LabelValue,
    lines,
    rows::{Row, Rows},
};
use crate::monitor::Monitor;

/// The members of an object, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<Name<'de>>()? {
                    if members.len() == MOST_COLUMNS {
                        return Err(serde::de::Error::custom(format!("more than {MOST_COLUMNS} members")));
                    }
                    members.push((name.0, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Text that is borrowed where it can be.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a file with an object on each line.
pub(super) fn read(input: impl Read, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let mut roles = None;
    lines::each(input, monitor, |number, line| {
        let text = line.strip_prefix(json::BOM).filter(|_| number == 1).unwrap_or(line);
        match text.trim_ascii().is_empty() {
            true => Ok(()),
            false => add(text, "line", number, &Classes::default(), &mut roles, rows),
        }
    })
}

/// Reads a list of objects.
pub(super) fn read_array(bytes: &[u8], rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let all: Vec<&RawValue> =
        serde_json::from_slice(bytes).map_err(|error| Error::data(format!("not a list of objects: {error}")))?;
    read_objects(&all, &Classes::default(), rows, monitor)
}

/// What a list says of all its objects.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// Names of the classes in the order of labels.
    pub names: Vec<String>,
    /// The member of an object with the list of its parts, and that of a part with its label: each sample tells what these are called.
    pub of_parts: Option<(&'static str, &'static str)>,
}

/// Reads objects that stand in a list.
pub(super) fn read_objects(
    all: &[&RawValue],
    classes: &Classes,
    rows: &mut Rows<'_>,
    monitor: &dyn Monitor,
) -> Result<()> {
    let mut roles = None;
    for (number, object) in (1u64..).zip(all) {
        add(object.get().as_bytes(), "element", number, classes, &mut roles, rows)?;
        if number % 4096 == 0 {
            monitor.go_on()?;
        }
    }
    Ok(())
}

/// Names of the members that have a place of their own.
struct Names {
    path: String,
    label: Option<String>,
    class: Option<String>,
    split: Option<String>,
}

/// Adds an object; the first decides what members are for.
fn add(
    text: &[u8],
    what: &str,
    number: u64,
    classes: &Classes,
    names: &mut Option<Names>,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let wrong = |why: String| Error::data(format!("{what} {number}: {why}"));
    let Members(members) = serde_json::from_slice(text).map_err(|error| wrong(format!("not an object: {error}")))?;
    let mut seen = HashSet::with_capacity(members.len());
    if let Some((name, _)) = members.iter().find(|(name, _)| !seen.insert(name)) {
        return Err(wrong(format!("member {name:?} stands twice")));
    }
    let names = match names {
        Some(names) => names,
        None => {
            let all: Vec<String> = members.iter().map(|(name, _)| name.to_string()).collect();
            let roles = Roles::of(&all, rows.columns, rows.no_labels, rows.splits)?.ok_or_else(|| {
                Error::usage(format!("no member with the path of the image: it has {}", all.join(", ")))
                    .help("--path-column NAME says which")
            })?;
            rows.begin(&all, &roles);
            let name = |at: Option<usize>| at.map(|at| all[at].clone());
            let (label, class, split) = (name(roles.label), name(roles.class), name(roles.split));
            names.insert(Names { path: all[roles.path].clone(), label, class, split })
        }
    };
    let raw = |name: &str| members.iter().find(|(own, _)| own == name).map(|(_, raw)| *raw);
    let string = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    let of = |name: &Option<String>| name.as_deref().and_then(raw);
    let path = raw(&names.path).and_then(string).ok_or_else(|| wrong(format!("no path in {:?}", names.path)))?;
    let mut text = Vec::new();
    if rows.wants_text {
        let mut object = json::Object::begin(&mut text);
        let own = [Some(&names.path), names.label.as_ref(), names.split.as_ref()];
        for (name, raw) in members.iter().filter(|(name, _)| !own.iter().flatten().any(|own| *own == name)) {
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
    let (class, split) = (of(&names.class).and_then(string), of(&names.split).and_then(string));
    rows.add(&Row {
        line: number,
        path: path.as_bytes(),
        label: of(&names.label).map(|raw| label(raw.get())).unwrap_or_default(),
        class: class.as_ref().map(String::as_bytes),
        split: names.split.as_ref().map(|_| split.as_ref().map_or(&[][..], String::as_bytes)),
        text: &text,
    })
}

/// What a value of JSON says as a label.
fn label(raw: &str) -> LabelValue {
    match serde_json::from_str::<serde_json::Value>(raw) {
        Ok(serde_json::Value::Null) => LabelValue::default(),
        Ok(serde_json::Value::String(text)) => LabelValue::of_text(text.as_bytes()),
        Ok(serde_json::Value::Number(_)) => LabelValue::of_number(raw),
        _ => LabelValue::Unfit("a value that is neither a number nor text".to_owned()),
    }
}
