//! COCO: one JSON file with `images`, `annotations` and `categories`, in pixels of the images as displayed.
//!
//! Classes are all categories of the file in the order of their ids, as in Detectron2. Annotations of crowds are left out, as training with
//! Detectron2 and torchvision does, and annotations without `bbox`; remarks count them.
//!
//! Specification: <https://cocodataset.org/#format-data>.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    described::{Class, Described, Extent},
    images::{Images, name_of, what},
    without_mark,
};

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    images: Vec<Image<'a>>,
    // Parsed one by one: a wrong one is of one image.
    #[serde(borrow, default)]
    annotations: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    categories: Vec<Category<'a>>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, default)]
    file_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    coco_url: Option<Cow<'a, str>>,
    #[serde(default)]
    width: Option<u32>,
    #[serde(default)]
    height: Option<u32>,
}

#[derive(Deserialize)]
struct Annotation<'a> {
    #[serde(borrow)]
    image_id: &'a RawValue,
    #[serde(default)]
    category_id: Option<i64>,
    #[serde(default)]
    bbox: Option<Vec<f64>>,
    #[serde(borrow, default)]
    iscrowd: Option<&'a RawValue>,
}

/// The image of an annotation that is wrong otherwise.
#[derive(Deserialize)]
struct ImageOf<'a> {
    #[serde(borrow)]
    image_id: &'a RawValue,
}

#[derive(Deserialize)]
struct Category<'a> {
    id: i64,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Parses a file.
///
/// # Errors
/// The reason, if the file is not COCO, or has no boxes.
pub(super) fn parse(bytes: &[u8]) -> Result<Images, String> {
    let bytes = without_mark(bytes);
    let file: File<'_> = serde_json::from_slice(bytes).map_err(|error| format!("is no COCO: {error}"))?;
    let mut classes = BTreeMap::new();
    for category in &file.categories {
        let class = Class { id: Some(category.id), name: category.name.clone().into_owned() };
        if classes.insert(category.id, Arc::new(class.clone())).is_some_and(|known| *known != class) {
            return Err(format!("two categories have the id {}", category.id));
        }
    }
    let (mut images, mut by_id, mut by_name) = (Vec::new(), HashMap::new(), HashMap::new());
    for (number, image) in file.images.iter().enumerate() {
        if by_id.insert(image.id.get(), number).is_some() {
            return Err(format!("two images have the id {}", image.id));
        }
        let name =
            image.file_name.as_deref().or_else(|| image.coco_url.as_deref().and_then(|url| url.rsplit('/').next()));
        let name = name.ok_or_else(|| format!("image {number}, counted from 0, has no file_name"))?;
        if by_name.insert(name_of(name), number).is_some() {
            return Err(format!("two images have the file_name {:?}", image.file_name.as_deref().unwrap_or_default()));
        }
        let extent = Extent::of(image.width, image.height);
        images.push(Ok(Described { extent, ..Described::default() }));
    }
    let mut remarks = BTreeMap::new();
    let mut has_boxes = file.annotations.is_empty();
    for (number, raw) in file.annotations.iter().enumerate() {
        let annotation = serde_json::from_str::<Annotation<'_>>(raw.get());
        has_boxes |= !annotation.as_ref().is_ok_and(|one| one.bbox.is_none());
        let image_id = match &annotation {
            Ok(annotation) => Some(annotation.image_id),
            Err(_) => serde_json::from_str::<ImageOf<'_>>(raw.get()).ok().map(|one| one.image_id),
        };
        let image = image_id.map(|id| by_id.get(id.get()).copied());
        match (image, annotation) {
            (Some(Some(image)), Ok(annotation)) => add(&mut images[image], &annotation, &classes),
            (Some(Some(image)), Err(error)) => images[image] = Err(wrong(number, &error)),
            (Some(None), _) => {
                *remarks.entry("annotations of images that it does not list".to_owned()).or_default() += 1;
            }
            (None, Ok(_)) => {}
            (None, Err(error)) => return Err(format!("is no COCO: {}", wrong(number, &error))),
        }
    }
    if !has_boxes {
        return Err("no annotation has a bbox".to_owned());
    }
    Ok(Images::new(images, by_name, classes.into_values().collect(), remarks))
}

/// Why annotation `number` is wrong.
fn wrong(number: usize, error: &serde_json::Error) -> String {
    format!("annotation {number}, counted from 0: {}", what(error))
}

/// Adds an annotation to its image. The first wrong one makes the image wrong.
fn add(image: &mut Result<Described, String>, annotation: &Annotation<'_>, classes: &BTreeMap<i64, Arc<Class>>) {
    let Ok(described) = image else { return };
    if annotation.iscrowd.is_some_and(|crowd| !matches!(crowd.get(), "0" | "false" | "null")) {
        described.remark("annotations of crowds, left out");
        return;
    }
    let Some(edges) = annotation.bbox.as_deref().filter(|edges| !edges.is_empty()) else {
        described.remark("annotations without bbox, left out");
        return;
    };
    let id = annotation.category_id;
    let class = id.and_then(|id| classes.get(&id)).ok_or_else(|| match id {
        Some(id) => format!("an annotation of category {id}, and no category has this id"),
        None => "an annotation without category_id".to_owned(),
    });
    let added = class.and_then(|class| match *edges {
        [left, top, width, height] => described.push(class, [left, top, left + width, top + height]),
        _ => Err(format!("a bbox of {} numbers, and it has 4", edges.len())),
    });
    if let Err(why) = added {
        *image = Err(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATEGORIES: &str = r#"[{"id": 18, "name": "dog"}, {"id": 1, "name": "cat"}, {"id": 3, "name": "cat"}]"#;

    fn of(images: &str, annotations: &str) -> Result<Images, String> {
        let text = format!(
            r#"{{"info": {{}}, "images": [{images}], "annotations": [{annotations}], "categories": {CATEGORIES}}}"#
        );
        parse(text.as_bytes())
    }

    const IMAGES: &str = r#"{"id": 7, "file_name": "a.jpg", "width": 200, "height": 100}, {"id": "x", "file_name": "./b/a.jpg"},
        {"id": 8, "file_name": "c.jpg"}, {"id": 9, "coco_url": "http://x/train2017/d.jpg"}"#;

    #[test]
    fn annotations_are_objects_of_images_by_the_end_of_their_path() {
        let found = of(
            IMAGES,
            r#"{"image_id": 7, "category_id": 18, "bbox": [10, 20, 30.5, 40], "iscrowd": 0, "area": 1},
            {"image_id": "x", "category_id": 1, "bbox": [1, 2, 3, 4]},
            {"image_id": 7, "category_id": 1, "bbox": [0, 0, 200, 100], "iscrowd": 1},
            {"image_id": 7, "category_id": 1, "bbox": []},
            {"image_id": 8, "category_id": 5, "bbox": [1, 2, 3, 4]},
            {"image_id": 99, "category_id": 1, "bbox": [1, 2, 3, 4]}"#,
        )
        .unwrap();
        assert_eq!(found.classes.iter().map(|class| class.id).collect::<Vec<_>>(), [Some(1), Some(3), Some(18)]);
        let one = found.described(found.claim("", "train/a.jpg").unwrap()).unwrap();
        assert_eq!(one.objects, [(Arc::new(Class { id: Some(18), name: "dog".to_owned() }), [10.0, 20.0, 40.5, 60.0])]);
        assert_eq!((one.extent, one.remarks.len()), (Extent::Pixels([200, 100]), 2));
        let other = found.claim("", "train/b/a.jpg").unwrap();
        assert_eq!(found.described(other).unwrap().objects.len(), 1);
        assert!(found.described(found.claim("", "c.jpg").unwrap()).unwrap_err().contains("category 5"));
        assert_eq!((found.unclaimed(), found.remarks.values().sum::<u64>()), (1, 1));
        assert!(found.claim("", "d.jpg").is_some());
    }

    #[test]
    fn an_annotation_of_a_wrong_type_makes_its_image_wrong() {
        let images = r#"{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}"#;
        for odd in [r#""bbox": "x""#, r#""category_id": "1", "bbox": [1, 2, 3, 4]"#] {
            let annotations =
                format!(r#"{{"image_id": 2, "category_id": 1, "bbox": [1, 2, 3, 4]}}, {{"image_id": 1, {odd}}}"#);
            let found = of(images, &annotations).unwrap();
            let image = |name: &str| found.described(found.claim("", name).unwrap());
            assert!(image("a.jpg").unwrap_err().starts_with("annotation 1, counted from 0: invalid type"));
            assert_eq!(image("b.jpg").unwrap().objects.len(), 1);
        }
    }

    #[test]
    fn files_that_are_not_coco_are_errors() {
        for (images, annotations, why) in [
            (r#"{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}"#, "", "two images have the id 1"),
            (r#"{"id": 1, "file_name": "a"}, {"id": 2, "file_name": "a"}"#, "", "two images have the file_name \"a\""),
            (r#"{"id": 1}"#, "", "has no file_name"),
            (r#"{"id": 1, "file_name": "a"}"#, r#"{"image_id": 1, "caption": "a cat"}"#, "no annotation has a bbox"),
            (r#"{"id": 1, "file_name": "a"}"#, r#"{"bbox": [1, 2, 3, 4]}"#, "is no COCO: annotation 0, counted from 0"),
            (r#"{"id": 1, "file_name": "a"}"#, r#"7"#, "is no COCO: annotation 0, counted from 0"),
        ] {
            let error = of(images, annotations).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        for bytes in [&b"{}"[..], b"[]", b"", b"\xff"] {
            assert!(parse(bytes).is_err());
        }
        let twice = br#"{"images": [], "categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}"#;
        assert!(parse(twice).unwrap_err().contains("two categories have the id 1"));
    }
}
