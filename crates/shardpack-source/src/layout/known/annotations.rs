//! Kinds of files that describe an image, by the first bytes: the options that pack them.

use std::rc::Rc;

use shardpack_format::component::ObjectFile;

use super::{Files, Look, counterparts::join, look::contains};
use crate::boxes;

/// Extensions of texts about an image.
pub(super) const TEXTS: [&str; 4] = ["txt", "json", "xml", "caption"];

/// Most label files that are looked into for an object.
const MAX_EMPTY: usize = 64;
/// Most label files and most lines of each that have to be objects.
const MAX_READ: usize = 8;
const MAX_LINES: usize = 256;
/// A list of class names among label files.
const NAMES: &str = "classes.txt";

/// The value of `--with` for files `PATTERN` with this extension in `folder`, where `PATTERN` is `before` and the name of the image; `name` is
/// the component of files that are not parsed.
pub(super) fn option(look: &Look<'_>, folder: &str, extension: &str, before: &str, name: Option<&str>) -> String {
    match kind(look, folder, &look.files(folder), extension) {
        Some(kind) => format!("boxes={kind}:{before}*.{extension}"),
        None => match name {
            Some(name) => format!("{name}={before}*.{extension}"),
            None => extension.to_owned(),
        },
    }
}

/// The kind of label files with this extension among `files`, those in `folder`; `None` if they are something else.
pub(super) fn kind(look: &Look<'_>, folder: &str, files: &Files, extension: &str) -> Option<&'static str> {
    let first = files.first_of(extension)?;
    let start = look.start(&join(folder, &first));
    let has = |text: &[u8]| contains(&start, text);
    match extension {
        "xml" | "" => has(b"<annotation").then_some("voc"),
        "txt" => match boxes::is_kitti(&first_object(look, folder, files)?) {
            Some(true) => Some("kitti"),
            _ => yolo_in_all(look, folder, files),
        },
        "json" => (has(b"\"shapes\"") || has(b"\"version\"") && has(b"\"flags\"")).then_some("labelme"),
        _ => None,
    }
}

/// The extension of the files that most images among `files` have beside them, and the number of images without.
pub(super) fn beside(files: &Files) -> Option<(&'static str, u64)> {
    TEXTS.into_iter().find_map(|extension| {
        let (with, lacking) = files.pairs(&files.stems(extension));
        (with > 0 && with >= lacking).then_some((extension, lacking))
    })
}

/// The starts of the texts among `files`, those in `folder`, that are neither empty nor lists of class names.
fn objects<'l>(look: &'l Look<'_>, folder: &'l str, files: &'l Files) -> impl Iterator<Item = Rc<[u8]>> + 'l {
    // An image without objects has an empty file.
    let texts = files.0.iter().filter(|name| name.ends_with(".txt") && *name != NAMES).take(MAX_EMPTY);
    texts.map(move |name| look.start(&join(folder, name))).filter(|start| !start.trim_ascii().is_empty())
}

/// The first of [`objects`].
pub(super) fn first_object(look: &Look<'_>, folder: &str, files: &Files) -> Option<Rc<[u8]>> {
    objects(look, folder, files).next()
}

/// The kind of label files of YOLO, if each line of several texts is one of its objects. Other texts may have a line that looks like one.
fn yolo_in_all(look: &Look<'_>, folder: &str, files: &Files) -> Option<&'static str> {
    let starts: Vec<Rc<[u8]>> = objects(look, folder, files).take(MAX_READ).collect();
    let kind = yolo(starts.first()?)?;
    let is_object = |line: &[u8]| match kind {
        "yolo" => boxes::is_line(ObjectFile::Yolo, line) && has_area(line),
        _ => boxes::is_line(ObjectFile::YoloSegments, line),
    };
    // The last line may be cut.
    let lines = |start: &Rc<[u8]>| start.trim_ascii().split(|byte| *byte == b'\n').take(MAX_LINES).all(is_object);
    starts.iter().all(lines).then_some(kind)
}

/// Whether the box of a line has a width and a height, and its center is in the image: a vector of numbers may look like a box.
fn has_area(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line).unwrap_or_default();
    let numbers: Vec<f64> = text.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    let is_share = |number: &f64| (0.0..=1.0).contains(number);
    matches!(numbers[..], [x, y, width, height, ..] if [x, y, width, height].iter().all(is_share) && width > 0.0 && height > 0.0)
}

/// The kind of the label files of YOLO of which one begins so.
pub(super) fn yolo(start: &[u8]) -> Option<&'static str> {
    let line = start.trim_ascii().split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is = |file| boxes::is_line(file, line);
    match (is(ObjectFile::Yolo), is(ObjectFile::YoloSegments)) {
        (true, _) => Some("yolo"),
        (false, true) if is_like_a_pose(line) => None,
        (false, true) => Some("yolo-seg"),
        (false, false) => None,
    }
}

/// Whether a line has a box, and points inside the box: `class x y width height`, and then 2 or 3 numbers for each point.
fn is_like_a_pose(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line).unwrap_or_default();
    let numbers: Vec<f64> = text.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    let Some((&[x, y, width, height], points)) = numbers.split_first_chunk() else { return false };
    let is_inside = |point: &[f64]| {
        let is_unseen = point[..2] == [0.0, 0.0];
        is_unseen || ((point[0] - x).abs() <= width / 2.0 + 1e-3 && (point[1] - y).abs() <= height / 2.0 + 1e-3)
    };
    let fits =
        |axes: usize| points.len() >= axes && points.len().is_multiple_of(axes) && points.chunks(axes).all(is_inside);
    fits(2) || fits(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_with_points_inside_is_a_pose_and_a_polygon_is_none() {
        for (line, is_pose) in [
            ("0 .5 .5 .3 .3 0 0 .553 .583 .4 .6", true),
            ("0 .5 .5 .4 .4 .4 .4 1 .6 .6 2", true),
            ("0 0.1 0.1 0.2 0.1 0.2 0.2", false),
            ("0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5", false),
        ] {
            assert_eq!(is_like_a_pose(line.as_bytes()), is_pose, "{line}");
        }
    }
}
