//! `--classes` and `--class-map`: choose, number and rename classes.
//!
//! A list of classes is a file with one name a line, as torchvision's `classes.txt` and ImageNet's `wnids.txt`,
//! or a JSON list, or a JSON object of names and numbers. A map is a file with `old new` on each line,
//! separated by a tab or comma if names have spaces, or a JSON object. The map is applied before the list.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use shardpack_format::{Error, Result, help, text};

use super::Choice;
use crate::{
    ledger::{Fate, Unpacked, order},
    listing::OwnOrder,
    source::{SourceListing, merge_classes},
};

/// Names of classes in the order of their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassList(Vec<Box<[u8]>>);

/// New names of classes by their old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassMap(HashMap<Box<[u8]>, Box<[u8]>>);

impl ClassList {
    /// Parses a list.
    ///
    /// # Errors
    /// If it is invalid: repeated names, or numbers that are not 0, 1, 2 and so on.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let bytes = utf8(bytes)?;
        let names = match json(bytes)? {
            Some(Json::List(names)) => names.into_iter().map(text).collect::<Result<Vec<_>>>()?,
            Some(Json::Object(numbers)) => numbered(numbers)?,
            None => lines(bytes).map(|(_, line)| line.into()).collect(),
        };
        let mut seen = BTreeSet::new();
        match names.iter().find(|name| !seen.insert(*name)) {
            Some(name) => Err(Error::usage(format!("class {:?} comes twice", text::shown(name)))),
            None if names.is_empty() => Err(Error::usage("names no class")),
            None => Ok(Self(names)),
        }
    }
}

/// The names of `{"name": number}`, or of `{"number": "name"}` and `{"number": ["id", "name"]}`, as in
/// ImageNet's `imagenet_class_index.json`, in order of their numbers.
fn numbered(entries: Vec<(String, Value)>) -> Result<Vec<Box<[u8]>>> {
    let pair = |(key, value): (String, Value)| match (value.as_u64(), key.parse::<u64>()) {
        (Some(number), _) => Ok((number, key.into_bytes().into())),
        (None, Ok(number)) => match value {
            Value::Array(mut names) if !names.is_empty() => Ok((number, text(names.swap_remove(0))?)),
            name => Ok((number, text(name)?)),
        },
        (None, Err(_)) => Err(Error::usage(format!("{key:?} has no number"))),
    };
    let mut pairs: Vec<(u64, Box<[u8]>)> = entries.into_iter().map(pair).collect::<Result<_>>()?;
    pairs.sort();
    match (0..).zip(&pairs).find(|(number, pair)| *number != pair.0) {
        Some((number, _)) => Err(Error::usage(format!("no class has the number {number}, or two have it"))),
        None => Ok(pairs.into_iter().map(|(_, name)| name).collect()),
    }
}

impl ClassMap {
    /// Parses a map.
    ///
    /// # Errors
    /// Names the invalid line, or a class that repeats.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let bytes = utf8(bytes)?;
        let pairs: Vec<(Box<[u8]>, Box<[u8]>)> = match json(bytes)? {
            Some(Json::Object(pairs)) => {
                let pair = |(old, new): (String, Value)| Ok((old.into_bytes().into(), text(new)?));
                pairs.into_iter().map(pair).collect::<Result<_>>()?
            }
            Some(_) => return Err(Error::usage("a map is a JSON object of old and new names")),
            None => lines(bytes).map(|(number, line)| pair(number, line)).collect::<Result<_>>()?,
        };
        let mut map = HashMap::new();
        for (old, new) in pairs {
            if map.insert(old.clone(), new).is_some() {
                return Err(Error::usage(format!("class {:?} comes twice", text::shown(&old))));
            }
        }
        Ok(Self(map))
    }
}

/// The old and the new name in a line.
fn pair(number: usize, line: &[u8]) -> Result<(Box<[u8]>, Box<[u8]>)> {
    let at = |separator: u8| line.iter().position(|byte| *byte == separator);
    let cut = at(b'\t').or_else(|| at(b',')).or_else(|| at(b' '));
    let parts = cut.map(|at| (line[..at].trim_ascii(), line[at + 1..].trim_ascii()));
    match parts {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.into(), new.into())),
        _ => {
            Err(Error::usage(format!("line {number} is not an old and a new name, with a tab, comma or space between")))
        }
    }
}

/// The text without a byte order mark.
fn utf8(bytes: &[u8]) -> Result<&[u8]> {
    match bytes {
        [0xef, 0xbb, 0xbf, text @ ..] => Ok(text),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(Error::usage("written in UTF-16, and names are read as UTF-8")
            .help("iconv -f UTF-16 -t UTF-8 FILE writes it anew")),
        text => Ok(text),
    }
}

/// Lines that are not empty, with their numbers from 1.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    (1..).zip(bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii)).filter(|(_, line)| !line.is_empty())
}

/// A parsed JSON file of names.
enum Json {
    List(Vec<Value>),
    /// In the order of the file; a name may repeat.
    Object(Vec<(String, Value)>),
}

/// The parsed JSON; `None` if the file is plain text.
fn json(bytes: &[u8]) -> Result<Option<Json>> {
    let wrong = |error| Error::usage(format!("not JSON: {error}"));
    match bytes.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(bytes).map(|list| Some(Json::List(list))).map_err(wrong),
        Some(b'{') => {
            let mut from = serde_json::Deserializer::from_slice(bytes);
            let members = from.deserialize_map(Members).and_then(|members| from.end().map(|()| members));
            members.map(|members| Some(Json::Object(members))).map_err(wrong)
        }
        _ => Ok(None),
    }
}

/// The members of an object: a serde map would keep only the last of two members with one name.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

fn text(value: Value) -> Result<Box<[u8]>> {
    match value {
        Value::String(text) => Ok(text.into_bytes().into()),
        other => Err(Error::usage(format!("{other} is no name of a class"))),
    }
}

/// Gives the samples their new classes; samples without a class are left out.
pub(super) fn apply(found: &mut [SourceListing], choice: &Choice) -> Result<()> {
    if choice.class_map.is_none() && choice.classes.is_none() {
        return Ok(());
    }
    // A split without published labels has no classes; all other splits have the same.
    let old = found.iter().map(|one| &one.listing.classes).find(|classes| !classes.is_empty());
    let Some(old) = old.map(Arc::clone) else {
        return Err(Error::usage("--classes or --class-map, and the source has no classes"));
    };
    if let Some((name, [first, second])) = merge_classes::double(&old) {
        let what =
            format!("classes {first} and {second} of the source are both called {:?}", String::from_utf8_lossy(name));
        return Err(Error::usage(what + ": --classes and --class-map identify classes by their names"));
    }
    let map = choice.class_map.as_ref().map(|ClassMap(map)| map);
    let renamed = |name: &[u8]| map.and_then(|map| map.get(name)).map_or_else(|| name.into(), Clone::clone);
    let names: Vec<Box<[u8]>> = old.iter().map(|name| renamed(name)).collect();
    let classes = match &choice.classes {
        Some(ClassList(classes)) => classes.clone(),
        None => sorted(&names),
    };
    let numbers: HashMap<&[u8], u32> = (0..).zip(&classes).map(|(number, name)| (&name[..], number)).collect();
    let numbers: Vec<Option<u32>> = names.iter().map(|name| numbers.get(&name[..]).copied()).collect();
    if choice.classes.is_some() && numbers.iter().all(Option::is_none) {
        let first =
            |names: &[Box<[u8]>]| names.first().map_or_else(String::new, |name| String::from_utf8_lossy(name).into());
        let (classes_of_source, ours, theirs) = (names.len(), first(&names), first(&classes));
        let what = match classes_of_source {
            1 => format!("--classes does not have the class of the source, {ours:?}; its first is {theirs:?}"),
            _ => format!(
                "--classes has none of the {classes_of_source} classes of the source: the first there is {ours:?}, here {theirs:?}"
            ),
        };
        return Err(Error::usage(what).help(help::MAP_CLASSES));
    }
    if let Some(map) = map {
        let lost = map.keys().filter(|name| !old.contains(name)).count();
        if lost > 0
            && let Some(first) = found.first_mut()
        {
            first.notes.push(format!("--class-map: {lost} of its {} classes are not in the source", map.len()));
        }
    }
    let classes = Arc::new(classes);
    for one in found.iter_mut().filter(|one| !one.listing.classes.is_empty()) {
        let class_of = |class: u32| numbers.get(class as usize).copied().flatten();
        let listing = Arc::clone(&one.listing);
        let mut chosen = listing.chosen(&classes, class_of, |_| true);
        // A file keeps its name; a list may name it more than once.
        if matches!(chosen.own_order(), OwnOrder::Places | OwnOrder::Keys) {
            chosen.disambiguate_keys(|place, name| [format!("{place}/").as_bytes(), name].concat())?;
        }
        one.listing = Arc::new(chosen);
        one.unpacked.iter_mut().for_each(|unpacked| unpacked.class = unpacked.class.and_then(class_of));
        one.unpacked.extend((0..listing.len()).filter_map(|number| {
            let class = listing.class(number).filter(|class| class_of(*class).is_none())?;
            let name = String::from_utf8_lossy(&names[class as usize]).into_owned();
            Some(Unpacked {
                path: super::path(&listing, number),
                class: None,
                fate: Fate::Filtered,
                reason: format!("class {name} is not in --classes").into(),
            })
        }));
        one.unpacked.sort_by(order);
    }
    Ok(())
}

/// The names without duplicates, with numbers in them sorted by value.
fn sorted(names: &[Box<[u8]>]) -> Vec<Box<[u8]>> {
    let number = |name: &[u8]| std::str::from_utf8(name).ok()?.parse::<u64>().ok();
    let mut sorted = names.to_vec();
    match names.iter().all(|name| number(name).is_some()) {
        true => sorted.sort_by_key(|name| (number(name), name.clone())),
        false => sorted.sort(),
    }
    sorted.dedup();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &ClassList) -> Vec<&str> {
        list.0.iter().map(|name| std::str::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn a_list_is_text_or_json() {
        let rows: [(&str, &[&str]); 8] = [
            ("\u{feff}b\r\na\r\n", &["b", "a"]),
            ("\u{feff}[\"b\", \"a\"]", &["b", "a"]),
            ("b\na\r\n\n", &["b", "a"]),
            ("a class with spaces\nb", &["a class with spaces", "b"]),
            (r#"["b", "a"]"#, &["b", "a"]),
            (r#"{"a": 1, "b": 0}"#, &["b", "a"]),
            (r#"{"0": "b", "1": "a"}"#, &["b", "a"]),
            (r#"{"10": ["k"], "0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}"#, &[]),
        ];
        for (file, expected) in rows {
            match ClassList::read(file.as_bytes()) {
                Ok(list) => assert_eq!(names(&list), expected, "{file}"),
                Err(error) => {
                    assert!(expected.is_empty(), "{file}: {error}");
                    assert_eq!(error.what(), "no class has the number 2, or two have it");
                }
            }
        }
        assert!(ClassList::read(b"\xff\xfeb\0").unwrap_err().what().contains("UTF-16"));
        for wrong in ["", "a\nb\na", "[1]", "{\"a\": \"x\"}", "[", "{\"a\": 0, \"b\": 0}", "{\"a\": 0, \"a\": 1}"] {
            assert!(ClassList::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_map_has_a_line_for_each_class() {
        let map = |file: &str| ClassMap::read(file.as_bytes()).map(|map| map.0);
        let expected: HashMap<Box<[u8]>, Box<[u8]>> =
            [("a b", "c"), ("d", "e f")].into_iter().map(|(a, b)| (a.as_bytes().into(), b.as_bytes().into())).collect();
        for file in ["\u{feff}a b\tc\nd\te f\n", "a b\tc\nd\te f\n", "a b,c\r\nd, e f", r#"{"a b": "c", "d": "e f"}"#] {
            assert_eq!(map(file).unwrap(), expected, "{file}");
        }
        assert_eq!(map("d e f").unwrap().values().next().unwrap()[..], b"e f"[..]);
        for wrong in ["a", "a\t", "a b\na c", "[]", "{\"a\": 1}", "{\"a\": \"x\", \"a\": \"y\"}"] {
            assert!(map(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_sorted_by_their_value() {
        let of = |names: &[&str]| sorted(&names.iter().map(|name| name.as_bytes().into()).collect::<Vec<_>>());
        let texts =
            |names: Vec<Box<[u8]>>| names.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect::<Vec<_>>();
        assert_eq!(texts(of(&["10", "9", "10"])), ["9", "10"]);
        assert_eq!(texts(of(&["10", "9", "x"])), ["10", "9", "x"]);
    }
}
