//! What lies beside images and says where things are in them: boxes, outlines, masks. Changes that move pixels would leave it behind.
//!
//! Told by names, and by a few samples of each dataset: a caption beside an image may be changed with it, a box may not.

use serde_json::Value;
use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    image_header::{Header, Kind},
};
use shardpack_imaging::Recipe;

use crate::source::{Found, Origin, Source};

/// Samples of a dataset that are looked into, evenly spread.
const TRIED: u64 = 16;
/// Longest component that is looked into.
const MOST_BYTES: u32 = 16 << 20;
/// Words in names of components that hold positions in an image, or have its size.
const PLACES: [&str; 27] = [
    "bbox",
    "bboxes",
    "bndbox",
    "box",
    "boxes",
    "contour",
    "contours",
    "depth",
    "keypoint",
    "keypoints",
    "landmarks",
    "mask",
    "masks",
    "panoptic",
    "polygon",
    "polygons",
    "rle",
    "seg",
    "segmentation",
    "segmentations",
    "segments",
    "trimap",
    "xmax",
    "xmin",
    "xyxy",
    "ymax",
    "ymin",
];

/// Fails where `recipe` moves pixels and a component tells where they were.
///
/// # Errors
/// Names the component, and how it is left out.
pub(super) fn refuse(source: &Origin, found: &[Found], recipe: Option<&Recipe>) -> Result<()> {
    let option = match recipe {
        Some(recipe) if recipe.resize.is_some() => "--resize",
        Some(recipe) if recipe.rotate => "--rotate",
        _ => return Ok(()),
    };
    for one in found {
        let kinds = &one.listing.components().kinds;
        let by_name = kinds.iter().find_map(|kind| Some((kind, named(kind)?)));
        let Some((kind, what)) = (match by_name {
            Some(found) => Some(found),
            None => by_content(source, one)?,
        }) else {
            continue;
        };
        let help = match kind {
            kind if kind.is_text() => {
                "--meta none leaves behind what a list says; without the option all is packed as it is"
            }
            kind if source.is_of_files() && kind.kind().is_none() => {
                "leave it out of --with; without the option all is packed as it is"
            }
            _ => "--components takes those that it names, or none; without the option all is packed as it is",
        };
        return Err(Error::usage(format!(
            "{option} changes images, and not the component {} beside them, which {what}",
            kind.name()
        ))
        .in_file(source.path())
        .help(help));
    }
    Ok(())
}

fn is_place(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphabetic()).any(|word| PLACES.contains(&word))
}

/// Meaning of a component's name.
fn named(kind: &Component) -> Option<&'static str> {
    let extension = kind.name().rsplit('.').next().unwrap_or_default();
    let is_image = Kind::of_extension(extension).is_some_and(|kind| kind != Kind::Npy);
    match is_image {
        true => Some("is an image too"),
        false => is_place(kind.name()).then_some("is called like what says where something is in an image"),
    }
}

/// What a few samples say.
fn by_content<'f>(source: &Origin, found: &'f Found) -> Result<Option<(&'f Component, &'static str)>> {
    let (listing, table) = (&found.listing, found.listing.components());
    if table.is_empty() {
        return Ok(None);
    }
    let Some(samples) = source.peeker(found.split.as_deref(), listing)? else { return Ok(None) };
    let step = (listing.len() / TRIED).max(1);
    for number in (0..listing.len()).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        for ((which, kind), cell) in table.kinds.iter().enumerate().zip(table.cells_of(number)) {
            let Some(bytes) = cell.length().filter(|bytes| *bytes <= MOST_BYTES) else { continue };
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
                return Ok(Some((kind, "says where things are in them")));
            }
        }
    }
    Ok(None)
}

/// Whether two axes that follow each other are the height and the width of the image.
fn is_as_large(samples: &dyn Source, found: &Found, number: u64, shape: &[u64]) -> bool {
    if shape.len() < 2 {
        return false;
    }
    let mut image = vec![0; found.listing.entry(number).bytes as usize];
    let header = if samples.read(number, &mut image).is_ok() { Header::of(&image) } else { Header::NONE };
    let size = [u64::from(header.height), u64::from(header.width)];
    header.width > 0 && shape.windows(2).any(|axes| axes == size)
}

/// The shape of an array as numpy writes it.
fn shape_of(content: &[u8]) -> Option<Vec<u64>> {
    (Kind::of(content) == Kind::Npy).then_some(())?;
    let head = String::from_utf8_lossy(&content[..content.len().min(512)]).into_owned();
    let (_, shape) = head.split_once("'shape': (")?;
    let (shape, _) = shape.split_once(')')?;
    shape.split(',').map(str::trim).filter(|axis| !axis.is_empty()).map(|axis| axis.parse().ok()).collect()
}

/// Whether JSON has a member that is called like a place, or XML is of VOC's kind.
fn tells_places(content: &[u8]) -> bool {
    fn has(value: &Value) -> bool {
        match value {
            Value::Object(members) => {
                members.iter().any(|(name, value)| (is_place(name) && !value.is_null()) || has(value))
            }
            Value::Array(values) => values.iter().any(has),
            _ => false,
        }
    }
    match content.trim_ascii_start().first() {
        Some(b'{' | b'[') => serde_json::from_slice(content).is_ok_and(|value| has(&value)),
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
            "[{\"gt_boxes\": [[0, 0, 1, 1]]}]",
            "<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>",
        ] {
            assert!(tells_places(content.as_bytes()), "{content}");
        }
        for content in [r#"{"caption":"a box of masks"}"#, "a box", "[1, 2]", "<p>box</p>", "{\"bbox\": null}", "{", ""]
        {
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
