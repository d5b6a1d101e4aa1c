//! YOLO: label files in `labels` beside `images`; with splits below them (Ultralytics), above them (Roboflow), or without splits.

use shardpack_format::{component::ObjectFile, splits};

use super::{Files, Found, Look, MAX_SPLITS, look::contains, on_missing};
use crate::boxes;

const IMAGES: &str = "images";
const LABELS: &str = "labels";
/// Member of `data.yaml` for datasets of poses.
const KEY_POINTS: &[u8] = b"kpt_shape";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let has_both = |names: &[String]| [IMAGES, LABELS].iter().all(|name| names.iter().any(|own| own == name));
    let result = "packs each image with its boxes and their class numbers";
    let what = "a YOLO dataset: its label files are in labels, beside images".to_owned();
    let found = |mut options: Vec<(&'static str, String)>, kind: &str, pattern: &str, lacking| {
        options.push(("--with", format!("boxes={kind}:{pattern}")));
        options.extend(on_missing(lacking));
        Some(Found::new(what.clone(), options, result))
    };
    if is_of_poses(look) {
        return None;
    }
    if has_both(&top) {
        if let Some((kind, lacking)) = labelled(look, &[(IMAGES.to_owned(), LABELS.to_owned())]) {
            return found(vec![("--include", format!("{IMAGES}/**"))], kind, "../labels/*.txt", lacking);
        }
        let inner = look.folders(IMAGES);
        let pairs: Vec<_> = inner.iter().map(|name| (format!("{IMAGES}/{name}"), format!("{LABELS}/{name}"))).collect();
        let (kind, lacking) = labelled(look, &pairs)?;
        return found(vec![look.folders_option(IMAGES, &inner)], kind, "../../labels/{parent}/*.txt", lacking);
    }
    // Each look is a folder to read, and there may be 100,000 classes.
    let is_looked_at = |name: &String| top.len() <= MAX_SPLITS || look.is_split(name);
    let parted: Vec<String> = top
        .iter()
        .filter(|name| is_looked_at(name) && has_both(&look.folders(name)) && look.has_images(name, 1))
        .cloned()
        .collect();
    let are_splits =
        parted.iter().any(|name| look.is_split(name)) && parted.iter().all(|name| splits::check_name(name).is_ok());
    let pairs: Vec<_> = parted.iter().map(|name| (format!("{name}/{IMAGES}"), format!("{name}/{LABELS}"))).collect();
    let (kind, lacking) = labelled(look, &pairs).filter(|_| are_splits)?;
    found(vec![("--splits", parted.join(","))], kind, "../labels/*.txt", lacking)
}

/// Whether a description of the dataset names the shape of key points. Their lines begin with a box and look like polygons.
fn is_of_poses(look: &Look<'_>) -> bool {
    let files = look.files("");
    let mut descriptions = files.0.iter().filter(|name| name.ends_with(".yaml") || name.ends_with(".yml"));
    descriptions.any(|name| contains(&look.start(name), KEY_POINTS))
}

/// The kind of the label files in these pairs of folders, images and labels, and the number of images without a file; `None` if no image
/// has one, or the first is no label file.
fn labelled(look: &Look<'_>, pairs: &[(String, String)]) -> Option<(&'static str, u64)> {
    let (mut kind, mut all_lacking) = (None, 0);
    for (images, labels) in pairs {
        let (files, texts) = (look.files(images), look.files(labels));
        let (with, lacking) = files.pairs(&texts.stems("txt"));
        all_lacking += lacking;
        if with > 0 && kind.is_none() {
            kind = Some(kind_of(look, labels, &texts)?);
        }
    }
    Some((kind?, all_lacking))
}

/// The kind of the label files in `folder`, by the first that has an object.
fn kind_of(look: &Look<'_>, folder: &str, files: &Files) -> Option<&'static str> {
    let texts = files.0.iter().filter(|name| name.ends_with(".txt") && *name != "classes.txt");
    let starts = texts.take(64).map(|name| look.start(&format!("{folder}/{name}")));
    let Some(start) = starts.into_iter().find(|start| !start.trim_ascii().is_empty()) else { return Some("yolo") };
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
