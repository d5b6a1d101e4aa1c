//! Detects components with positions in images, such as boxes, outlines and masks, and decides how a change that
//! moves pixels changes them.
//!
//! Detection uses names and a few samples of each dataset. A caption beside a changed image stays valid, a box
//! does not.

use std::collections::BTreeSet;

use serde_json::Value;
use shardpack_format::{
    Error, Result,
    component::{self, Component},
    image_header::{Header, Kind},
    npy,
};
use shardpack_imaging::Recipe;

use super::{
    moving::{Array, image_axes},
    roles::{Assigned, BoxForm, Role, Roles, extension, is_array},
};
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

/// Words in names of components that are masks, or images of other levels than colours.
const MASKS: [&str; 8] = ["depth", "mask", "masks", "panoptic", "seg", "segmentation", "segmentations", "trimap"];
/// The same, of images only: arrays with these words may be of another kind.
const MASK_IMAGES: [&str; 6] = ["annotation", "annotations", "instance", "instances", "labels", "semantic"];
/// Last words in names of components that describe objects, and not their positions: `box_labels`.
const DESCRIPTIONS: [&str; 10] =
    ["class", "classes", "id", "ids", "label", "labels", "name", "names", "score", "scores"];
/// Last words in names of arrays of points.
const POINTS: [&str; 5] = ["keypoint", "keypoints", "landmark", "landmarks", "points"];

/// Decides the role of each component that `recipe` has to move; `wanted` are the roles that the user gave.
///
/// # Errors
/// If a component holds positions and its role is unknown, or a role does not fit a component.
pub(super) fn decide(
    source: &dyn Source,
    found: &[SourceListing],
    recipe: Option<&Recipe>,
    wanted: &[(String, Role)],
) -> Result<Roles> {
    let option = match recipe {
        Some(recipe) if recipe.resize.is_some() => "--resize",
        Some(recipe) if recipe.rotate => "--rotate",
        _ if wanted.is_empty() => return Ok(Roles::default()),
        _ => {
            return Err(Error::usage(
                "--role is for components that move with their images: with --resize or --rotate",
            ));
        }
    };
    let mut roles = said(found, wanted).map_err(|error| error.in_file(source.path()))?;
    for one in found {
        if let Some((kind, what)) = of_split(source, one, &mut roles)? {
            let help = match kind {
                kind if kind.is_text() => {
                    "--role json=keep packs the columns of a list as they are; --meta none leaves them out"
                }
                kind if source.is_of_files() && kind.kind().is_none() => {
                    "--role NAME=mask, xyxy, xywh, cxcywh or xy moves it, and NAME=keep does not; or leave it out of --with or \
                     --file-column"
                }
                _ => {
                    "--role NAME=mask, xyxy, xywh, cxcywh or xy moves it, and NAME=keep does not; --components takes those that it \
                     names, or none"
                }
            };
            return Err(Error::usage(format!(
                "{option} changes images but not their component {}, which {what}",
                kind.name()
            ))
            .in_file(source.path())
            .help(help));
        }
    }
    let order = |one: &Assigned| {
        found.iter().find_map(|found| found.listing.components().kinds.iter().position(|kind| kind.name() == one.name))
    };
    roles.0.sort_by_key(order);
    Ok(roles)
}

/// The roles that the user gave.
fn said(found: &[SourceListing], wanted: &[(String, Role)]) -> Result<Roles> {
    let mut roles = Roles::default();
    for (name, role) in wanted {
        let is_it = |kind: &&Component| {
            let stem = kind.name().rsplit_once('.').map_or(kind.name(), |(stem, _)| stem);
            [kind.name(), kind.column(), stem].contains(&name.as_str())
        };
        let all = || found.iter().flat_map(|one| &one.listing.components().kinds);
        let mut names: Vec<&Component> = all().filter(is_it).collect();
        names.dedup_by_key(|kind| kind.name());
        if names.iter().any(|kind| kind.name() == name) {
            names.retain(|kind| kind.name() == name);
        }
        let Some(kind) = names.first().copied() else {
            let there: BTreeSet<&str> = all().map(Component::name).collect();
            let there =
                if there.is_empty() { "none".to_owned() } else { there.into_iter().collect::<Vec<_>>().join(", ") };
            return Err(Error::usage(format!("--role {name}={role}: no component has this name; there are {there}")));
        };
        let wrong = |what: String| Err(Error::usage(format!("--role {name}={role}: {what}")));
        if names.iter().any(|other| other.name() != kind.name()) || roles.of(kind.name()).is_some() {
            return wrong("the name of several components, or given twice".to_owned());
        }
        if kind.conversion().is_some() {
            return wrong(format!("{} is made from its files and the changed image, and needs no role", kind.name()));
        }
        let fits = match role {
            Role::Keep => true,
            Role::Mask => is_array(kind) || is_png(kind),
            Role::Boxes(_) | Role::Points => is_array(kind),
        };
        if !fits {
            let are = if *role == Role::Mask { "no PNG and no array" } else { "no array" };
            return wrong(format!("the component {} is {are}", kind.name()));
        }
        roles.0.push(Assigned { name: kind.name().to_owned(), role: *role, is_said: true, axis: None });
    }
    Ok(roles)
}

/// Adds the roles of the components of one split. Returns the first one that holds positions and whose role is unknown, and its meaning.
fn of_split<'f>(
    source: &dyn Source,
    found: &'f SourceListing,
    roles: &mut Roles,
) -> Result<Option<(&'f Component, &'static str)>> {
    // Boxes of label files are made from the changed image.
    let kinds = found.listing.components().kinds.iter().filter(|kind| kind.conversion().is_none());
    let mut others = Vec::new();
    for kind in kinds {
        match (roles.of(kind.name()), by_name(kind), named(kind)) {
            (Some(_), ..) => {}
            (None, Some(role), _) => {
                roles.0.push(Assigned { name: kind.name().to_owned(), role, is_said: false, axis: None });
            }
            (None, None, Some(what)) => return Ok(Some((kind, what))),
            (None, None, None) => others.push(kind),
        }
    }
    let is_text = |kind: &&Component| kind.kind().is_none_or(|kind| kind.kind == component::Kind::Text);
    let numbers: Vec<&Component> = others.into_iter().filter(|kind| !is_text(kind)).collect();
    if let Some(place) = place_of_several(&numbers.iter().map(|kind| kind.column()).collect::<Vec<_>>()) {
        return Ok(Some((numbers[place], NUMBER)));
    }
    by_content(source, found, roles)
}

/// The role of a component by its name and type. Content is compared later.
fn by_name(kind: &Component) -> Option<Role> {
    let words = words(kind);
    let is_mask = words.iter().any(|word| MASKS.contains(&word.as_str()));
    match words.last().map(String::as_str) {
        _ if is_png(kind) => {
            (is_mask || words.iter().any(|word| MASK_IMAGES.contains(&word.as_str()))).then_some(Role::Mask)
        }
        _ if !is_array(kind) => None,
        // As boxes from label files are called, and torchvision's.
        Some("boxes") => Some(Role::Boxes(BoxForm::Xyxy)),
        Some(last) if POINTS.contains(&last) => Some(Role::Points),
        Some(last) if DESCRIPTIONS.contains(&last) => None,
        _ => is_mask.then_some(Role::Mask),
    }
}

/// The words in a component's name, without its extension.
fn words(kind: &Component) -> Vec<String> {
    let lower = kind.column().to_ascii_lowercase();
    let stem = match kind.kind() {
        Some(_) => lower.as_str(),
        None => lower.rsplit_once('.').map_or(lower.as_str(), |(stem, _)| stem),
    };
    let words = stem.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Whether a component is files that are PNG by their name.
fn is_png(kind: &Component) -> bool {
    let is_bytes = kind.kind().is_none_or(|kind| kind.kind == component::Kind::Bytes);
    is_bytes && extension(kind) == Kind::Png.extension()
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
            let is_description = words(kind).last().is_some_and(|last| DESCRIPTIONS.contains(&last.as_str()));
            let is_other = is_number_of_points(kind) || is_description;
            match (is_other, is_place(kind.name())) {
                (true, _) => None,
                (false, true) => Some("has the name of a position in an image"),
                (false, false) => has_rows(kind).then_some("has rows of 2 or 4 numbers, as points and boxes have"),
            }
        }
    }
}

/// Whether a component is arrays of float with rows of two or four numbers.
fn has_rows(kind: &Component) -> bool {
    match kind.kind().map(|declared| &declared.kind) {
        Some(component::Kind::Array { dtype: Some(dtype), shape: Some(shape) }) => {
            dtype.starts_with("<f") && matches!(&shape[..], [_, .., Some(2 | 4)])
        }
        _ => false,
    }
}

/// A component whose content in a few samples holds positions, and whose role is unknown; its meaning. Sets the axes of masks that are
/// arrays.
fn by_content<'f>(
    source: &dyn Source,
    found: &'f SourceListing,
    roles: &mut Roles,
) -> Result<Option<(&'f Component, &'static str)>> {
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
            let size = || size_of(&*samples, found, number).filter(|(width, _)| *width > 0);
            if let Some(assigned) = roles.0.iter_mut().find(|one| one.name == kind.name()) {
                // The change reports arrays that are damaged.
                if let Ok(array) = Array::parse(&content)
                    && let Some(size) = size()
                    && let Some(what) = contradiction(assigned, &array, size)
                {
                    return Ok(Some((kind, what)));
                }
                continue;
            }
            let shape = npy::read_head(&content).map(|head| head.shape).unwrap_or_default();
            if shape.len() > 1 && size().is_some_and(|size| !image_axes(&shape, size).is_empty()) {
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

/// Why the content of a component is not that of the role that its name has; sets the axis of a mask.
fn contradiction(assigned: &mut Assigned, array: &Array<'_>, size: (u32, u32)) -> Option<&'static str> {
    let (length, numbers) = (array.shape.last().copied().unwrap_or(0) as usize, array.numbers());
    let rows = |numbers: &[f64]| numbers.chunks_exact(length.max(1)).map(<[f64]>::to_vec).collect::<Vec<_>>();
    let are_fractions = |rows: &[Vec<f64>], numbers: usize| {
        let mut all = rows.iter().flat_map(|row| &row[..numbers]);
        all.clone().all(|number| (0.0..=1.0).contains(number)) && all.any(|number| *number > 0.0)
    };
    match (assigned.role, numbers) {
        (Role::Mask, _) => {
            if let [axis] = image_axes(&array.shape, size)[..] {
                assigned.axis.get_or_insert(axis);
            }
            (!assigned.is_said && array.shape.len() < 2).then_some("has the name of a mask, and one axis")
        }
        _ if assigned.is_said || array.items.is_empty() => None,
        (Role::Boxes(_), Some(numbers)) if length == 4 => {
            let (rows, [width, height]) = (rows(&numbers), [size.0, size.1].map(f64::from));
            if are_fractions(&rows, 4) {
                return Some("has the name of boxes, and fractions of the image");
            }
            let is_within = |row: &Vec<f64>| {
                (-1.0..=row[2]).contains(&row[0])
                    && (-1.0..=row[3]).contains(&row[1])
                    && row[2] <= width + 1.0
                    && row[3] <= height + 1.0
            };
            (!rows.iter().all(is_within)).then_some("has the name of boxes, and not their edges in pixels of the image")
        }
        (Role::Boxes(_), _) => Some("has the name of boxes, and is not float32[n,4]"),
        (Role::Points, Some(numbers)) if length == 2 || (length == 3 && !assigned.name.starts_with("points")) => {
            are_fractions(&rows(&numbers), 2).then_some("has the name of points, and fractions of the image")
        }
        _ => Some("has the name of points, and is not float32[n,2]"),
    }
}

/// Width and height of an image, from its header; 0 if the header has none.
fn size_of(samples: &dyn SampleReader, found: &SourceListing, number: u64) -> Option<(u32, u32)> {
    let mut image = vec![0; found.listing.entry(number).bytes as usize];
    let header = if samples.read(number, &mut image).is_ok() { Header::parse(&image) } else { Header::NONE };
    Some((header.width, header.height))
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
    use shardpack_format::component::Form;

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
        let names = [
            ("mask.png", true),
            ("png", true),
            ("boxes", true),
            ("depth.npy", true),
            ("txt", false),
            ("json", false),
            ("box_labels.npy", false),
            ("box_scores.json", false),
        ];
        for (name, expected) in names {
            assert_eq!(named(&Component::field(name).unwrap()).is_some(), expected, "{name}");
        }
    }

    #[test]
    fn rows_of_numbers_without_a_known_name_need_a_role() {
        let has = |text: &str| named(&Component::try_from(text.to_owned()).unwrap()).is_some();
        for text in ["pts.npy:<f4[?x2]", "kps.npy:<f8[?x4]", "joints.npy:<f4[?x17x2]", "quad.npy:<f4[4x2]"] {
            assert!(has(text), "{text}");
        }
        for text in ["vector.npy:<f4[4]", "ids.npy:<i8[?x2]", "scores.npy:<f4[?x4]", "spectrum.npy:<f4[?x80]"] {
            assert!(!has(text), "{text}");
        }
    }

    #[test]
    fn names_and_types_have_roles() {
        let of = |text: &str| by_name(&Component::try_from(text.to_owned()).unwrap()).map(|role| role.to_string());
        for (text, role) in [
            ("mask.png=*_mask.png", Some("mask")),
            ("mask.png:bytes", Some("mask")),
            ("trimap.png=*.trimap.png", Some("mask")),
            ("labels.png=*.labels.png", Some("mask")),
            ("mask.jpg=*.mask.jpg", None),
            ("lr.png=*.lr.png", None),
            ("png=*.png", None),
            ("depth.npy:<f4[?x?]", Some("mask")),
            ("labels.npy:<i8[?]", None),
            ("depth.npy=*.depth.npy", Some("mask")),
            ("boxes.npy:<f4[?x4]", Some("xyxy")),
            ("gt_boxes.npy:<f4[?x4]", Some("xyxy")),
            ("box_labels.npy:<i8[?]", None),
            ("mask_labels.npy:<i8[?]", None),
            ("bbox.npy:<f4[?x4]", None),
            ("boxes.json:json", None),
            ("keypoints.npy:<f4[?x3]", Some("xy")),
            ("keypoints.json:json", None),
            ("num_keypoints.json:int", None),
        ] {
            assert_eq!(of(text).as_deref(), role, "{text}");
        }
    }

    #[test]
    fn content_can_contradict_the_name_of_an_array() {
        let array = |shape: &[u64], numbers: &[f32]| {
            let mut content = Form::array("<f4", shape).unwrap().head();
            content.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            content
        };
        let check = |role, is_said, content: &[u8]| {
            let mut assigned = Assigned { name: "keypoints.npy".to_owned(), role, is_said, axis: None };
            let what = contradiction(&mut assigned, &Array::parse(content).unwrap(), (40, 30));
            (what.is_some(), assigned.axis)
        };
        let boxes = Role::Boxes(BoxForm::Xyxy);
        for (numbers, is_wrong) in [
            (&[1.0, 2.0, 30.0, 20.0][..], false),
            (&[0.0; 4], false),
            (&[0.5, 0.0, 1.0, 0.25], true),
            (&[20.0, 20.0, 5.0, 5.0], true),
            (&[1.0, 2.0, 30.0, 40.0], true),
            (&[1.0, 2.0, 30.0, 20.0, 3.0, 4.0, 2.0, 9.0], true),
            (&[f32::NAN, 2.0, 30.0, 20.0], true),
        ] {
            let content = array(&[numbers.len() as u64 / 4, 4], numbers);
            assert_eq!(check(boxes, false, &content), (is_wrong, None), "{numbers:?}");
            assert_eq!(check(boxes, true, &content), (false, None));
        }
        assert_eq!(check(boxes, false, &array(&[0], &[])), (false, None));
        assert_eq!(check(boxes, false, &array(&[1, 5], &[2.0; 5])), (true, None));
        for (length, is_wrong) in [(2, false), (3, false), (4, true)] {
            assert_eq!(check(Role::Points, false, &array(&[1, length], &vec![9.0; length as usize])), (is_wrong, None));
        }
        assert!(check(Role::Points, false, &array(&[1, 2], &[0.5, 0.5])).0);
        assert_eq!(check(Role::Mask, false, &array(&[30, 40], &[0.0; 1200])), (false, Some(0)));
        assert_eq!(check(Role::Mask, false, &array(&[2, 30, 40], &[0.0; 2400])), (false, Some(1)));
        assert_eq!(check(Role::Mask, false, &array(&[40, 30], &[0.0; 1200])), (false, None));
        assert!(check(Role::Mask, false, &array(&[30], &[0.0; 30])).0);
    }
}
