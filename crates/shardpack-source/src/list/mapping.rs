//! Reads JSON objects whose members are named after files: `{"a.jpg": 3}`, `{"a.jpg": {"label": 3}}`; StyleGAN's `dataset.json`,
//! `{"labels": [["a.png", 3]]}`; and Karpathy's splits of captions, `{"images": [{"filename": "a.jpg", "sentences": […]}]}`.
//!
//! A value that is no object is the label. The members of an object are those of the row.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserializer as _,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use shardpack_format::{Error, Result};

use super::{
    jsonl::{Classes, read_objects},
    members::Members,
    rows::Rows,
};
use crate::{monitor::Monitor, names};

/// Member of StyleGAN's lists.
const LABELS: &str = "labels";
/// Member of Karpathy's lists; and of COCO, whose images have ids.
const IMAGES: &str = "images";
/// Members of its images: the file, and its folder in lists of COCO.
const FILE: &str = "filename";
const FOLDER: &str = "filepath";
/// Members of the images of COCO.
const OF_COCO: [&str; 3] = ["file_name", "coco_url", "id"];
/// Members of a row.
const PATH: &str = "path";

/// Collects the rows of an object, at most `most`.
struct Collect {
    rows: Vec<Box<RawValue>>,
    most: usize,
    /// Members that are not named after files.
    others: u64,
    keys: HashSet<String>,
}

impl Collect {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.most
    }

    fn add<E: serde::de::Error>(&mut self, key: &str, value: &RawValue) -> std::result::Result<(), E> {
        let text = value.get();
        let key = serde_json::to_string(key).map_err(E::custom)?;
        let row = match text.strip_prefix('{') {
            Some(_) if has_path(text) => text.to_owned(),
            Some(rest) if rest.trim_start().starts_with('}') => format!("{{\"{PATH}\":{key}}}"),
            Some(rest) => format!("{{\"{PATH}\":{key},{rest}"),
            None => format!("{{\"{PATH}\":{key},\"label\":{text}}}"),
        };
        self.rows.push(RawValue::from_string(row).map_err(E::custom)?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for &mut Collect {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of files")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while !self.is_full()
            && let Some(key) = map.next_key::<Cow<'de, str>>()?
        {
            if is_file(&key) {
                if !self.keys.insert(key.clone().into_owned()) {
                    return Err(serde::de::Error::custom(format!("member {key:?} stands twice")));
                }
                self.add(&key, map.next_value()?)?;
            } else if key == LABELS || key == IMAGES {
                let is_of_images = key == IMAGES;
                map.next_value_seed(Elements(&mut *self, is_of_images))?;
            } else {
                self.others += 1;
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// StyleGAN's pairs of a path and a label; or Karpathy's images, if the flag is set.
struct Elements<'c>(&'c mut Collect, bool);

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pairs of a path and a label, or images with sentences")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> std::result::Result<(), A::Error> {
        let mut others = 0;
        while !self.0.is_full()
            && let Some(element) = pairs.next_element::<&RawValue>()?
        {
            match (self.1, serde_json::from_str::<(Cow<'_, str>, &RawValue)>(element.get())) {
                (false, Ok((path, label))) if is_file(&path) => self.0.add(&path, label)?,
                (true, _) if let Some(row) = captioned(element.get()) => self.0.rows.push(row),
                _ => others += 1,
            }
        }
        // Other members of this name are counted as one.
        self.0.others += if self.1 { others } else { others.min(1) };
        Ok(())
    }

    // A member of this name may have another value.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        self.0.others += 1;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<(), E> {
        self.0.others += 1;
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> std::result::Result<(), E> {
        self.visit_unit()
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> std::result::Result<(), E> {
        self.visit_unit()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> std::result::Result<(), E> {
        self.visit_unit()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> std::result::Result<(), E> {
        self.visit_unit()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> std::result::Result<(), E> {
        self.visit_unit()
    }
}

/// Whether an object has a path of its own: a text.
fn has_path(object: &str) -> bool {
    let is_path = |(name, value): &(Cow<'_, str>, &RawValue)| name == PATH && value.get().starts_with('"');
    serde_json::from_str::<Members<'_>>(object).is_ok_and(|Members(all)| all.iter().any(is_path))
}

/// The row of an image of Karpathy's lists, whose path has the folder; `None` if the object is no such image.
fn captioned(object: &str) -> Option<Box<RawValue>> {
    let Members(all): Members<'_> = serde_json::from_str(object).ok()?;
    if all.iter().any(|(name, _)| OF_COCO.contains(&name.as_ref())) {
        return None;
    }
    let text = |wanted: &str| {
        let (_, value) = all.iter().find(|(name, _)| name == wanted)?;
        serde_json::from_str::<String>(value.get()).ok()
    };
    let file = text(FILE)?;
    let row = match text(FOLDER) {
        None => object.to_owned(),
        Some(_) if has_path(object) => object.to_owned(),
        Some(folder) => {
            let path = serde_json::to_string(&format!("{folder}/{file}")).ok()?;
            format!("{{\"{PATH}\":{path},{}", object.trim_start().strip_prefix('{')?)
        }
    };
    RawValue::from_string(row).ok()
}

fn is_file(name: &str) -> bool {
    names::is_image(name.as_bytes()) || names::is_sound(name.as_bytes())
}

/// Whether a JSON file that begins so has members named after files, or StyleGAN's labels.
pub(super) fn is(start: &[u8]) -> bool {
    // The start may cut the object.
    !collect(start, 1).0.rows.is_empty()
}

/// The rows before the first error, and the error.
fn collect(bytes: &[u8], most: usize) -> (Collect, serde_json::Result<()>) {
    let mut all = Collect { rows: Vec::new(), most, others: 0, keys: HashSet::new() };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = deserializer.deserialize_map(&mut all).and_then(|()| deserializer.end());
    (all, read)
}

/// Reads a whole file.
///
/// # Errors
/// If it is damaged, or a row is wrong.
pub(super) fn read(bytes: &[u8], rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let (all, read) = collect(bytes, usize::MAX);
    read.map_err(|error| {
        Error::data(format!("neither COCO nor an object whose members are named after files: {error}"))
    })?;
    if all.others > 0 {
        rows.note(format!("members of the list that are not named after files are left out: {}", all.others));
    }
    add(&all, rows, monitor)
}

/// Reads the first rows of a file whose end may be cut off, at most `most`.
pub(super) fn read_first(bytes: &[u8], most: usize, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    // The error is that of the end.
    add(&collect(bytes, most).0, rows, monitor)
}

fn add(all: &Collect, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let all: Vec<&RawValue> = all.rows.iter().map(|row| &**row).collect();
    read_objects(&all, &Classes::default(), rows, monitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_members_and_pairs() {
        for (text, expected, others) in [
            (
                r#"{"a.jpg": 3, "b.PNG": "x"}"#,
                &[r#"{"path":"a.jpg","label":3}"#, r#"{"path":"b.PNG","label":"x"}"#][..],
                0,
            ),
            (r#"{"version": [1], "a/\"b.jpg": { "label": 1.50 }}"#, &[r#"{"path":"a/\"b.jpg", "label": 1.50 }"#], 1),
            (r#"{"a.jpg": {}, "b.wav": {"path": "c.wav"}}"#, &[r#"{"path":"a.jpg"}"#, r#"{"path": "c.wav"}"#], 0),
            (
                r#"{"labels": [["0/a.png", 6], ["0/b.png", [0, 1]]]}"#,
                &[r#"{"path":"0/a.png","label":6}"#, r#"{"path":"0/b.png","label":[0, 1]}"#],
                0,
            ),
            (
                r#"{"images": [{"filename": "a.jpg", "sentences": [{"raw": "A dog."}]}], "dataset": "x"}"#,
                &[r#"{"filename": "a.jpg", "sentences": [{"raw": "A dog."}]}"#],
                1,
            ),
            (
                r#"{"images": [{"filepath": "val2014", "filename": "a.jpg"}, {"filename": "b.jpg"}, {}, 7]}"#,
                &[r#"{"path":"val2014/a.jpg","filepath": "val2014", "filename": "a.jpg"}"#, r#"{"filename": "b.jpg"}"#],
                2,
            ),
        ] {
            let (all, read) = collect(text.as_bytes(), usize::MAX);
            assert!(read.is_ok() && is(text.as_bytes()), "{text}: {read:?}");
            assert_eq!(all.rows.iter().map(|row| row.get()).collect::<Vec<_>>(), expected);
            assert_eq!(all.others, others, "{text}");
            // Each start has the first rows, or none.
            for cut in 0..text.len() {
                let (all, read) = collect(&text.as_bytes()[..cut], usize::MAX);
                assert!(
                    read.is_err() && expected.starts_with(&all.rows.iter().map(|row| row.get()).collect::<Vec<_>>())
                );
            }
        }
        let (all, read) =
            collect(br#"{"a.jpg": 0, "labels": ["cat", "dog"], "b.jpg": 1, "x": {"labels": 5}}"#, usize::MAX);
        assert!(read.is_ok() && (all.rows.len(), all.others) == (2, 2), "{read:?}");
        let (_, read) = collect(br#"{"a.jpg": 0, "a.jpg": 1}"#, usize::MAX);
        assert!(read.unwrap_err().to_string().starts_with("member \"a.jpg\" stands twice"));
        for text in [
            "{}",
            "[]",
            "",
            "7",
            r#"{"images": [], "annotations": []}"#,
            r#"{"images": [{"id": 1, "file_name": "a.jpg", "filename": "a.jpg"}], "annotations": []}"#,
            // Images with ids have annotations.
            r#"{"images": [{"id": 1, "filename": "a.jpg"}], "annotations": [{"image_id": 1}]}"#,
            r#"{"labels": null}"#,
            r#"{"labels": ["a.png"]}"#,
        ] {
            assert!(!is(text.as_bytes()), "{text}");
        }
    }
}
