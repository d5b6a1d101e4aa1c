//! YOLO: label files in `labels` beside `images`; with splits below them (Ultralytics), above them (Roboflow), or without splits.

use shardpack_format::splits;

use super::{Found, Look, MAX_SPLITS, annotations, look::contains, on_missing};

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
            // Label files without objects may be of any kind.
            let start = annotations::first_object(look, labels, &texts);
            kind = Some(start.map_or(Some("yolo"), |start| annotations::yolo(&start))?);
        }
    }
    Some((kind?, all_lacking))
}
