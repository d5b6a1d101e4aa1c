//! YOLO: label files in `labels` beside `images`; with splits below them (Ultralytics), above them (Roboflow), or without splits.

use shardpack_format::{component::ObjectFile, image_header::SNIFF_BYTES, splits};

use super::{Files, Found, Look, on_missing};
use crate::boxes;

const IMAGES: &str = "images";
const LABELS: &str = "labels";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let has_both = |names: &[String]| [IMAGES, LABELS].iter().all(|name| names.iter().any(|own| own == name));
    let result = "packs each image with its boxes and their class numbers";
    let what = "a YOLO dataset: its label files are in labels, beside images".to_owned();
    let found = |mut options: Vec<(&'static str, String)>, kind: &str, pattern: &str, lacking| {
        options.push(("--with", format!("boxes={kind}:{pattern}")));
        options.extend(on_missing(lacking));
        Some(Found { what: what.clone(), options, result })
    };
    if has_both(&top) {
        if let Some((kind, lacking)) = labelled(look, &[(IMAGES.to_owned(), LABELS.to_owned())]) {
            return found(vec![("--include", format!("{IMAGES}/**"))], kind, "../labels/*.txt", lacking);
        }
        let inner = look.common_folders(IMAGES, LABELS);
        let pairs: Vec<_> = inner.iter().map(|name| (format!("{IMAGES}/{name}"), format!("{LABELS}/{name}"))).collect();
        let (kind, lacking) = labelled(look, &pairs)?;
        return found(vec![("--splits", format!("{IMAGES}/{{split}}"))], kind, "../../labels/{parent}/*.txt", lacking);
    }
    // Each look is a folder to read, and there may be 100,000 classes.
    let is_split = |name: &String| splits::KNOWN.contains(&name.as_str());
    let parted: Vec<String> = top.into_iter().filter(is_split).filter(|name| has_both(&look.folders(name))).collect();
    let pairs: Vec<_> = parted.iter().map(|name| (format!("{name}/{IMAGES}"), format!("{name}/{LABELS}"))).collect();
    let (kind, lacking) = labelled(look, &pairs)?;
    found(vec![("--splits", parted.join(","))], kind, "../labels/*.txt", lacking)
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
    let is = |file| boxes::parse(file, line).is_ok();
    match (is(ObjectFile::Yolo), is(ObjectFile::YoloSegments)) {
        (true, _) => Some("yolo"),
        (false, true) => Some("yolo-seg"),
        // At a URL, only the first bytes are known.
        (false, false) if !start.contains(&b'\n') && is_cut(line) => Some("yolo"),
        (false, false) => None,
    }
}

/// Whether `line` may be the start of a longer line of an object: numbers only.
fn is_cut(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line).unwrap_or_default();
    line.len() >= SNIFF_BYTES - 1 && text.split_whitespace().all(|word| word.parse::<f64>().is_ok())
}
