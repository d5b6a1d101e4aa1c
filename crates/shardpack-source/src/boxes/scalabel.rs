//! Scalabel: JSON with a list of frames, each with `name` and `labels`, in pixels of the images; BDD100K has its boxes in it.
//!
//! `box2d` is taken as left, top, right and bottom edge; Scalabel's own export to COCO makes boxes of it that are a pixel wider and higher. Labels
//! without it, as lanes are, and crowds are no objects; remarks count them.
//!
//! Specification: <https://doc.scalabel.ai/format.html>.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    described::Extent,
    images::{Collected, Images, what},
    without_mark,
};

#[derive(Deserialize)]
struct Dataset<'a> {
    #[serde(borrow)]
    frames: Vec<&'a RawValue>,
    #[serde(default)]
    config: Option<Config>,
}

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default, rename = "imageSize")]
    size: Option<Size>,
}

#[derive(Clone, Copy, Deserialize)]
struct Size {
    width: u32,
    height: u32,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default, rename = "videoName")]
    video: Option<Cow<'a, str>>,
    #[serde(default)]
    size: Option<Size>,
    #[serde(borrow, default)]
    labels: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Label<'a> {
    #[serde(borrow, default)]
    category: Option<Cow<'a, str>>,
    #[serde(default)]
    box2d: Option<Box2d>,
    #[serde(default)]
    attributes: Option<Attributes>,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(default)]
    crowd: Option<bool>,
}

#[derive(Deserialize)]
struct Box2d {
    x1: f64,
    y1: f64,
    x2: f64,
    y2: f64,
}

/// Parses a file.
///
/// # Errors
/// The reason, if it is no JSON of Scalabel, or has no boxes. A wrong label makes only its image wrong.
pub(super) fn parse(bytes: &[u8]) -> Result<Images, String> {
    let bytes = without_mark(bytes);
    let none = |error| format!("is no list of frames of Scalabel: {error}");
    let Dataset { frames, config } = match bytes.trim_ascii_start().starts_with(b"[") {
        true => Dataset { frames: serde_json::from_slice(bytes).map_err(none)?, config: None },
        false => serde_json::from_slice(bytes).map_err(none)?,
    };
    let config = config.unwrap_or_default();
    let mut images = Collected::default();
    let (mut any_labels, mut any_boxes) = (false, false);
    for (frame, number) in frames.iter().zip(1..) {
        let frame: Frame<'_> =
            serde_json::from_str(frame.get()).map_err(|error| format!("frame {number}: {}", what(&error)))?;
        let name = match &frame.video {
            Some(video) if !frame.name.contains('/') => format!("{video}/{}", frame.name),
            _ => frame.name.into_owned(),
        };
        let size = frame.size.or(config.size);
        let extent = Extent::of(size.map(|size| size.width), size.map(|size| size.height));
        images.begin(&name, extent).map_err(|why| format!("frame {number}: {why}"))?;
        for (label, number) in frame.labels.iter().flatten().zip(1..) {
            any_labels = true;
            let label = match serde_json::from_str::<Label<'_>>(label.get()) {
                Ok(label) => label,
                Err(error) => {
                    images.wrong(format!("label {number}: {}", what(&error)));
                    continue;
                }
            };
            let Some(Box2d { x1, y1, x2, y2 }) = label.box2d else {
                images.remark("labels without box2d, left out");
                continue;
            };
            any_boxes = true;
            if label.attributes.is_some_and(|attributes| attributes.crowd == Some(true)) {
                images.remark("labels of crowds, left out");
                continue;
            }
            match label.category.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
                Some(class) => images.object(&format!("label {number}"), class, [x1, y1, x2, y2]),
                None => images.wrong(format!("label {number}: no category")),
            }
        }
    }
    match any_labels && !any_boxes {
        true => Err("no label has a box2d".to_owned()),
        false => Ok(images.images()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: &str = r#"[
        {"name": "a.jpg", "url": "x", "labels": [
            {"category": "car", "id": "1", "box2d": {"x1": 1, "y1": 2.5, "x2": 30, "y2": 40}, "attributes": {"occluded": false}},
            {"category": "lane", "poly2d": [{"vertices": [[1, 2]]}], "box2d": null},
            {"category": "bus", "box2d": {"x1": 0, "y1": 0, "x2": 1280, "y2": 720}, "attributes": {"crowd": false}},
            {"category": "person", "box2d": {"x1": 0, "y1": 0, "x2": 9, "y2": 9}, "attributes": {"crowd": true}}]},
        {"name": "b.jpg", "labels": null}, {"name": "c.jpg"},
        {"name": "0001.jpg", "videoName": "v1", "labels": [{"box2d": {"x1": 1, "y1": 2, "x2": 3, "y2": 4}}]},
        {"name": "e.jpg", "labels": [{"category": "car", "box2d": {"x1": 1}}]}]"#;

    #[test]
    fn labels_with_boxes_are_objects() {
        let with_size =
            format!(r#"{{"frames": {FRAMES}, "config": {{"imageSize": {{"width": 1280, "height": 720}}}}}}"#);
        for (text, extent) in [(FRAMES, Extent::Unknown), (&with_size, Extent::Pixels([1280, 720]))] {
            let found = parse(text.as_bytes()).unwrap();
            let of = |path: &str| found.described(found.claim("", path).unwrap());
            let one = of("train/a.jpg").unwrap();
            let objects: Vec<_> = one.objects.iter().map(|(class, edges)| (class.name.as_str(), *edges)).collect();
            assert_eq!(objects, [("car", [1.0, 2.5, 30.0, 40.0]), ("bus", [0.0, 0.0, 1280.0, 720.0])]);
            assert_eq!((one.extent, one.remarks.into_values().sum::<u64>()), (extent, 2));
            assert!(of("b.jpg").unwrap().objects.is_empty() && of("c.jpg").unwrap().objects.is_empty());
            assert_eq!(of("v1/0001.jpg").unwrap_err(), "label 1: no category");
            assert_eq!(of("e.jpg").unwrap_err(), "label 1: missing field `y1`");
        }
    }

    #[test]
    fn files_of_another_form_are_errors() {
        for (text, why) in [
            ("", "is no list of frames of Scalabel: EOF while parsing a value at line 1 column 0"),
            ("{}", "is no list of frames of Scalabel: missing field `frames` at line 1 column 2"),
            ("[7]", "frame 1: invalid type: integer `7`, expected struct Frame"),
            (r#"[{"name": " "}]"#, "frame 1: image 1 has no name"),
            (r#"[{"name": "a"}, {"name": "a"}]"#, "frame 2: two images have the name \"a\""),
            (r#"[{"name": "a", "labels": [{"category": "lane"}]}]"#, "no label has a box2d"),
        ] {
            assert_eq!(parse(text.as_bytes()).map(|_| ()).unwrap_err(), why);
        }
    }
}
