//! Detects components with positions in images, such as boxes, outlines and masks. Changes that move pixels
//! would make them wrong.
//!
//! Detection uses names and a few samples of each dataset. A caption beside a changed image stays valid, a box
//! does not.

use serde_json::Value;
use shardpack_format::{
    Error, Result,
    component::{self, Component, Form},
    image_header::{Header, Kind},
};
use shardpack_imaging::Recipe;

use crate::source::{SampleReader, Source, SourceListing};

/// Number of samples that are read from a dataset, evenly spread.
const TRIED: usize = 16;
/// Maximum length of a component that is read.
const MAX_BYTES: u32 = 16 << 20;
/// Words in names of components that hold positions in an image, or its size.
const PLACES: [&str; 33] = [
    "bbox",
    "bboxes",
    "bndbox",
    "box",
    "boxes",
    "contour",
    "contours",
    "depth",
    "encodedpixels",
    "keypoint",
    "keypoints",
    "landmark",
    "landmarks",
    "mask",
    "masks",
    "panoptic",
    "points",
    "polygon",
    "polygons",
    "rle",
    "roi",
    "rois",
    "seg",
    "segmentation",
    "segmentations",
    "segments",
    "trimap",
    "xmax",
    "xmin",
    "xywh",
    "xyxy",
    "ymax",
    "ymin",
];
/// Words before an `x` and a `y` that are not positions in an image: where or how it was taken.
const ELSEWHERE: [&str; 10] = ["dpi", "geo", "gps", "map", "mean", "resolution", "scale", "std", "tile", "utm"];

/// Description of a component that is a position only together with others.
const NUMBER: &str = "is one of several numbers that form a position in an image";

/// Fails if `recipe` moves pixels and a component holds positions.
///
/// # Errors
/// Names the component, and the option that leaves it out.
pub(super) fn refuse(source: &dyn Source, found: &[SourceListing], recipe: Option<&Recipe>) -> Result<()> {
    let option = match recipe {
        Some(recipe) if recipe.resize.is_some() => "--resize",
        Some(recipe) if recipe.rotate => "--rotate",
        _ => return Ok(()),
    };
    for one in found {
        // Boxes of label files are made from the changed image.
        let kinds = || one.listing.components().kinds.iter().filter(|kind| kind.conversion().is_none());
        let by_name = kinds().find_map(|kind| Some((kind, named(kind)?))).or_else(|| {
            let is_text = |kind: &&Component| kind.kind().is_none_or(|kind| kind.kind == component::Kind::Text);
            let numbers: Vec<&Component> = kinds().filter(|kind| !is_text(kind)).collect();
            let place = place_of_several(&numbers.iter().map(|kind| kind.column()).collect::<Vec<_>>())?;
            Some((numbers[place], NUMBER))
        });
        let Some((kind, what)) = (match by_name {
            Some(found) => Some(found),
            None => by_content(source, one)?,
        }) else {
            continue;
        };
        let help = match kind {
            kind if kind.is_text() => {
                "--meta none leaves out the columns of a list; without the option all is packed as it is"
            }
            kind if source.is_of_files() && kind.kind().is_none() => {
                "leave it out of --with or --file-column; without the option all is packed as it is"
            }
            _ => "--components takes those that it names, or none; without the option all is packed as it is",
        };
        return Err(Error::usage(format!(
            "{option} changes images but not their component {}, which {what}",
            kind.name()
        ))
        .in_file(source.path())
        .help(help));
    }
    Ok(())
}

/// Whether the component is a single number of points.
fn is_number_of_points(component: &Component) -> bool {
    let is_single =
        component.kind().is_some_and(|kind| matches!(kind.kind, component::Kind::Int | component::Kind::Float));
    is_single && component.column().to_ascii_lowercase().ends_with("points")
}

/// `points` as a number may be the points of a game.
fn is_count(name: &str, value: &Value) -> bool {
    value.is_number() && name.to_ascii_lowercase().ends_with("points")
}

fn is_place(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphabetic()).any(|word| PLACES.contains(&word))
}

/// The first of the names that form a position only together: an x and a y, as `x1` and `y1` or `eye_x` and
/// `eye_y`; or a corner and a size, as `x`, `y`, `w` and `h`.
fn place_of_several(names: &[&str]) -> Option<usize> {
    let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let has = |name: &str| lower.iter().any(|one| one == name);
    let is_corner = |x: &str, y: &str| has(x) && has(y) && (has("w") || has("width")) && (has("h") || has("height"));
    let is_place = |name: &String| match name.as_str() {
        "x" => is_corner("x", "y"),
        "left" => is_corner("left", "top") || (has("top") && has("right") && has("bottom")),
        name => {
            !name.split(|c: char| !c.is_ascii_alphabetic()).any(|word| ELSEWHERE.contains(&word)) && has_pair(name, has)
        }
    };
    lower.iter().position(is_place)
}

/// Whether `name` has `x` as a word, or `cx` or `tx`, and the same name with a `y` exists too.
fn has_pair(name: &str, has: impl Fn(&str) -> bool) -> bool {
    let is_letter = |at: usize| name.as_bytes().get(at).is_some_and(u8::is_ascii_alphabetic);
    let is_alone = |at: usize| !is_letter(at + 1) && (at == 0 || !is_letter(at - 1) || name == "cx");
    let mut places = name.match_indices('x').map(|(at, _)| at).filter(|at| name.len() > 1 && is_alone(*at));
    places.any(|at| has(&[&name[..at], "y", &name[at + 1..]].concat()))
}

/// Meaning of a component's name.
fn named(kind: &Component) -> Option<&'static str> {
    let extension = kind.name().rsplit('.').next().unwrap_or_default();
    let is_image = Kind::of_extension(extension).is_some_and(|kind| kind != Kind::Npy);
    match is_image {
        true => Some("is an image too"),
        false => {
            (is_place(kind.name()) && !is_number_of_points(kind)).then_some("has the name of a position in an image")
        }
    }
}

/// Meaning of a component, detected from the content of a few samples.
fn by_content<'f>(source: &dyn Source, found: &'f SourceListing) -> Result<Option<(&'f Component, &'static str)>> {
    let (listing, table) = (&found.listing, found.listing.components());
    if table.is_empty() {
        return Ok(None);
    }
    let Some((numbers, samples)) = source.some(found.split.as_deref(), listing, TRIED)? else { return Ok(None) };
    for number in numbers {
        let mut single: Vec<&Component> = Vec::new();
        for ((which, kind), cell) in table.kinds.iter().enumerate().zip(table.cells_of(number)) {
            let bytes = cell.length().filter(|bytes| *bytes <= MAX_BYTES && kind.conversion().is_none());
            let Some(bytes) = bytes else { continue };
            let mut content = vec![0; bytes as usize];
            // The copy reports unreadable files.
            if samples.read_component(number, which, &mut content).is_err() {
                continue;
            }
            let is_array = match table.form(cell.form) {
                Form::Array { shape, .. } => is_as_large(&*samples, found, number, shape),
                _ => shape_of(&content).is_some_and(|shape| is_as_large(&*samples, found, number, &shape)),
            };
            if is_array {
                return Ok(Some((kind, "is an array as large as the image")));
            }
            if tells_places(&content) {
                return Ok(Some((kind, "holds positions in the images")));
            }
            let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
            if std::str::from_utf8(&content).is_ok_and(is_number) {
                single.push(kind);
            }
        }
        if let Some(place) = place_of_several(&single.iter().map(|kind| kind.column()).collect::<Vec<_>>()) {
            return Ok(Some((single[place], NUMBER)));
        }
    }
    Ok(None)
}

/// Whether two consecutive axes are the height and the width of the image.
fn is_as_large(samples: &dyn SampleReader, found: &SourceListing, number: u64, shape: &[u64]) -> bool {
    if shape.len() < 2 {
        return false;
    }
    let mut image = vec![0; found.listing.entry(number).bytes as usize];
    let header = if samples.read(number, &mut image).is_ok() { Header::parse(&image) } else { Header::NONE };
    let size = [u64::from(header.height), u64::from(header.width)];
    header.width > 0 && shape.windows(2).any(|axes| axes == size)
}

/// The shape in the header of a `.npy` file.
fn shape_of(content: &[u8]) -> Option<Vec<u64>> {
    (Kind::detect(content) == Kind::Npy).then_some(())?;
    let head = String::from_utf8_lossy(&content[..content.len().min(512)]).into_owned();
    let (_, shape) = head.split_once("'shape': (")?;
    let (shape, _) = shape.split_once(')')?;
    shape.split(',').map(str::trim).filter(|axis| !axis.is_empty()).map(|axis| axis.parse().ok()).collect()
}

/// Whether JSON has a member with the name of a position, or XML is in VOC format.
fn tells_places(content: &[u8]) -> bool {
    fn has(value: &Value) -> bool {
        match value {
            Value::Object(members) => {
                let there = members.iter().filter(|(_, value)| !value.is_null());
                let numbers = there.clone().filter(|(_, value)| value.is_number() || value.is_array());
                let names: Vec<&str> = numbers.map(|(name, _)| name.as_str()).collect();
                there.clone().any(|(name, value)| is_place(name) && !is_count(name, value))
                    || place_of_several(&names).is_some()
                    || members.values().any(has)
            }
            Value::Array(values) => values.iter().any(has),
            // A JSON document inside a text column.
            Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
                serde_json::from_str(text).is_ok_and(|value: Value| !value.is_string() && has(&value))
            }
            _ => false,
        }
    }
    match content.trim_ascii_start().first() {
        Some(b'{' | b'[' | b'"') => serde_json::from_slice(content).is_ok_and(|value| has(&value)),
        Some(b'<') => {
            [b"<bndbox".as_slice(), b"<polygon"].iter().any(|tag| content.windows(tag.len()).any(|at| at == *tag))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_where_something_is_is_told_from_what_does_not() {
        for content in [
            r#"{"annotations":[{"bbox":[1,2,3,4]}]}"#,
            r#"{"objects": {"xmin": 3}}"#,
            r#"{"shapes": [{"label": "c", "points": [[1, 2], [3, 4]]}]}"#,
            r#""{\"bbox\": [1, 2, 3, 4]}""#,
            r#"{"text": "[{\"BBox\": [1]}]"}"#,
            r#"{"Width": 32, "Roi.X1": 1}"#,
            r#"{"EncodedPixels": "1 3 5 7"}"#,
            r#"{"x1": 1, "y1": 1, "x2": 3, "y2": 4}"#,
            r#"{"x": 1, "y": 1, "w": 3, "h": 4}"#,
            r#"{"objects": {"X": [1], "Y": [1], "Width": [3], "Height": [4]}}"#,
            r#"{"lefteye_x": 1, "lefteye_y": 2}"#,
            r#"{"center_x": 1, "center_y": 2}"#,
            r#"{"x_min": 1, "y_min": 2}"#,
            r#"{"left": 1, "top": 2, "right": 3, "bottom": 4}"#,
            "[{\"gt_boxes\": [[0, 0, 1, 1]]}]",
            "<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>",
        ] {
            assert!(tells_places(content.as_bytes()), "{content}");
        }
        for content in [
            r#"{"caption":"a box of masks"}"#,
            "a box",
            "[1, 2]",
            "<p>box</p>",
            "{\"bbox\": null}",
            "{",
            "",
            r#"{"x": 1, "y": 2}"#,
            r#"{"width": 32, "height": 24, "w": 1, "h": 2, "x": 3}"#,
            r#"{"points": 12, "total_points": 3}"#,
            r#"{"label_x": "cat", "label_y": "dog"}"#,
            r#"{"gps_x": 1.5, "gps_y": 2.5, "max": 1, "may": 2}"#,
        ] {
            assert!(!tells_places(content.as_bytes()), "{content}");
        }
        let names =
            [("mask.png", true), ("png", true), ("boxes", true), ("depth.npy", true), ("txt", false), ("json", false)];
        for (name, expected) in names {
            assert_eq!(named(&Component::field(name).unwrap()).is_some(), expected, "{name}");
        }
    }

    #[test]
    fn the_shape_of_an_array_is_in_its_head() {
        let head = |shape: &str| {
            format!("\u{93}NUMPY\u{1}\0\u{76}\0{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}")
        };
        let latin = |text: String| text.chars().map(|c| c as u8).collect::<Vec<_>>();
        for (shape, expected) in [("(3, 4)", Some(vec![3, 4])), ("(7,)", Some(vec![7])), ("()", Some(vec![]))] {
            assert_eq!(shape_of(&latin(head(shape))), expected);
        }
        assert_eq!(shape_of(b"no array"), None);
    }
}
