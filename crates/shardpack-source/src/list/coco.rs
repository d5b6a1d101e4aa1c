//! Reads COCO: one JSON file with images, annotations and categories; instances, keypoints or captions.
//!
//! A sample's text is `{"image":…,"annotations":[…],"categories":[…]}`. It holds the objects of the file, to the
//! letter; only the categories that its annotations name are included. Other members of the file are counted.
//!
//! Specification: <https://cocodataset.org/#format-data>.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use shardpack_format::{Error, Result, text};

use super::{
    columns::Roles,
    json,
    label_value::LabelValue,
    rows::{Row, Rows},
};
use crate::{coco_files::last, monitor::Monitor};

/// The member with the category of an annotation, for `--label-column`.
pub(super) const CATEGORY_ID: &str = "category_id";
/// The members of a file that samples are made from.
const MEMBERS: [&str; 3] = ["images", "annotations", "categories"];

struct Top<'a> {
    images: Vec<&'a RawValue>,
    annotations: Vec<&'a RawValue>,
    categories: Vec<&'a RawValue>,
    /// Name and number of elements of each other member.
    others: Vec<(String, u64)>,
}

impl<'de> Deserialize<'de> for Top<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Top<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut lists, mut others): ([Option<Vec<&RawValue>>; 3], _) = Default::default();
                while let Some(name) = map.next_key::<String>()? {
                    match MEMBERS.iter().position(|known| *known == name) {
                        Some(at) if lists[at].is_some() => return Err(A::Error::duplicate_field(MEMBERS[at])),
                        Some(at) => lists[at] = Some(map.next_value()?),
                        None => Vec::push(&mut others, (name, elements(map.next_value()?))),
                    }
                }
                let [images, annotations, categories] = lists;
                let images = images.ok_or_else(|| A::Error::missing_field(MEMBERS[0]))?;
                let (annotations, categories) = (annotations.unwrap_or_default(), categories.unwrap_or_default());
                Ok(Top { images, annotations, categories, others })
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Number of elements of a list; 1 for any other value.
fn elements(raw: &RawValue) -> u64 {
    serde_json::from_str::<Vec<IgnoredAny>>(raw.get()).map_or(1, |list| list.len() as u64)
}

/// An image. Its id is a number or text; ids are compared as they are spelled.
#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, default)]
    file_name: Option<Cow<'a, str>>,
    /// The image's URL at COCO, which LVIS has instead of `file_name`. The last two parts are the folder of the set and
    /// the file.
    #[serde(borrow, default)]
    coco_url: Option<Cow<'a, str>>,
}

impl Image<'_> {
    /// The `file_name`, or the last `parts` parts of the URL.
    fn path(&self, parts: usize) -> Option<&str> {
        let url = || self.coco_url.as_deref().map(|url| last(url, parts));
        self.file_name.as_deref().or_else(url)
    }
}

#[derive(Deserialize)]
struct Annotation<'a> {
    #[serde(borrow)]
    image_id: &'a RawValue,
    #[serde(borrow, default)]
    category_id: Option<&'a RawValue>,
    /// The segments of a panoptic annotation.
    #[serde(borrow, default)]
    segments_info: Vec<Segment<'a>>,
}

#[derive(Deserialize)]
struct Segment<'a> {
    #[serde(borrow, default)]
    category_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Category<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
}

/// An annotation with the numbers of its image and its categories.
struct ImageAnnotation<'a> {
    image: u32,
    raw: &'a RawValue,
    categories: Vec<u32>,
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8], rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let top: Top<'_> = serde_json::from_slice(bytes).map_err(|error| {
        Error::data(format!("neither a list of objects nor COCO, which is an object with images: {error}"))
    })?;
    let wrong = |what: &str, number: usize, error: serde_json::Error| {
        Error::data(format!("{what} {number}, counted from 0: {error}"))
    };
    let mut numbers: HashMap<&str, u32> = HashMap::with_capacity(top.images.len());
    let mut images = Vec::with_capacity(top.images.len());
    for (number, raw) in top.images.iter().enumerate() {
        let image: Image<'_> = serde_json::from_str(raw.get()).map_err(|error| wrong("image", number, error))?;
        if numbers.insert(image.id.get(), number as u32).is_some() {
            return Err(Error::data(format!("two images have the id {}", image.id)));
        }
        images.push(image);
    }
    let wants_labels = rows.columns.label.is_some() && !rows.no_labels;
    let (mut categories, mut names): (HashMap<&str, u32>, _) = (HashMap::new(), Vec::new());
    for (number, raw) in top.categories.iter().enumerate() {
        let category: Category<'_> =
            serde_json::from_str(raw.get()).map_err(|error| wrong("category", number, error))?;
        let first = *categories.entry(category.id.get()).or_insert(number as u32);
        if top.categories[first as usize].get() != raw.get() {
            return Err(Error::data(format!("two categories have the id {}", category.id)));
        }
        let name = category.name.map(|name| name.into_owned().into_bytes()).filter(|name| !name.is_empty());
        if wants_labels && name.is_none() {
            return Err(Error::data(format!("category {number}, counted from 0, has no name")));
        }
        names.push(name.unwrap_or_default());
    }
    let (mut found, mut strange) = (Vec::with_capacity(top.annotations.len()), 0u64);
    for (number, raw) in top.annotations.iter().enumerate() {
        let annotation: Annotation<'_> =
            serde_json::from_str(raw.get()).map_err(|error| wrong("annotation", number, error))?;
        let of_segments = annotation.segments_info.iter().filter_map(|segment| segment.category_id);
        let named = annotation.category_id.into_iter().chain(of_segments);
        let categories = named.filter_map(|id| categories.get(id.get()).copied()).collect();
        match numbers.get(annotation.image_id.get()) {
            Some(image) => found.push(ImageAnnotation { image: *image, raw, categories }),
            None => strange += 1,
        }
        if number % 4096 == 0 {
            monitor.check_cancelled()?;
        }
    }
    // The sort is stable: annotations of one image stay in file order.
    found.sort_by_key(|found| found.image);
    let columns = ["file_name", "image, annotations, categories", CATEGORY_ID].map(str::to_owned);
    match wants_labels {
        true => {
            rows.begin(&columns, &mut Roles { label: Some(2), ..Roles::default() })?;
            // A category that the file has twice has the number of the first.
            let mut seen = HashSet::new();
            let firsts = names.iter().zip(&top.categories).filter(|(_, raw)| seen.insert(raw.get()));
            rows.known = firsts.map(|(name, _)| name.clone()).collect();
        }
        false => rows.begin(&columns[..2], &mut Roles::default())?,
    }
    rows.ignore("annotation of an image that the file does not list", strange);
    for (name, elements) in &top.others {
        rows.ignore(&format!("member {} of the file", text::shown(name.as_bytes())), *elements);
    }
    let parts = match images.iter().find(|image| image.file_name.is_none()).and_then(|image| image.path(2)) {
        Some(path) if !rows.is_file(path.as_bytes())? => 1,
        _ => 2,
    };
    let (mut rest, mut text) = (found.as_slice(), Vec::new());
    for (number, image) in images.iter().enumerate() {
        let count = rest.partition_point(|found| found.image as usize <= number);
        let (own, others) = rest.split_at(count);
        rest = others;
        text.clear();
        if rows.wants_text {
            let mut object = json::Object::begin(&mut text);
            json::compact(top.images[number].get(), object.member(b"image")?);
            list(own.iter().map(|found| found.raw), object.member(b"annotations")?);
            let named: BTreeSet<u32> = own.iter().flat_map(|found| found.categories.iter().copied()).collect();
            if !named.is_empty() {
                let named = named.into_iter().map(|number| top.categories[number as usize]);
                list(named, object.member(b"categories")?);
            }
            object.end();
        }
        let path = image.path(parts).ok_or_else(|| {
            Error::data(format!("image {number}, counted from 0, has neither file_name nor coco_url"))
        })?;
        let label = match wants_labels {
            true => category_of(own, path, &names)?,
            false => LabelValue::default(),
        };
        rows.add(&Row {
            line: number as u64 + 1,
            path: path.as_bytes(),
            label,
            class: None,
            split: None,
            files: &[],
            several: &[],
            text: &text,
        })?;
    }
    Ok(())
}

/// The category of an image with these annotations: its name, if all annotations have the same.
///
/// # Errors
/// If they have several categories: an image has one label.
fn category_of(own: &[ImageAnnotation<'_>], path: &str, names: &[Vec<u8>]) -> Result<LabelValue> {
    let mut named = own.iter().flat_map(|found| found.categories.iter().copied()).collect::<BTreeSet<_>>().into_iter();
    match (named.next(), named.next()) {
        (None, _) => {
            let why = if own.is_empty() {
                "it has no annotations"
            } else {
                "none of its annotations has a category of the file"
            };
            Ok(LabelValue::Unlabelled(why))
        }
        (Some(one), None) => Ok(LabelValue::Text(names[one as usize].clone())),
        (Some(one), Some(other)) => {
            let name = |number: u32| text::shown(&names[number as usize]).to_string();
            let what = format!("image {path} has several categories, {} and {}", name(one), name(other));
            Err(Error::usage(format!("--label-column {CATEGORY_ID}: {what}"))
                .help("without --label-column, the annotations of an image are in its component json"))
        }
    }
}

fn list<'a>(values: impl Iterator<Item = &'a RawValue>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (number, value) in values.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        json::compact(value.get(), out);
    }
    out.push(b']');
}
