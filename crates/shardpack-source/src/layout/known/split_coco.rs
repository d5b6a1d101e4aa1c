//! Splits of images with one COCO file: `train/_annotations.coco.json` beside `train/1.jpg`, as Roboflow exports COCO.

use super::{Found, Look};

const FILE: &str = "_annotations.coco.json";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let splits = look.split_folders()?;
    let has = |split: &&String| look.files(split).0.iter().any(|name| name == FILE);
    let (with, without): (Vec<_>, Vec<_>) = splits.iter().partition(has);
    if with.is_empty() {
        return None;
    }
    let names = |splits: Vec<&String>| splits.into_iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let lacking = if without.is_empty() { String::new() } else { format!(", but not in {}", names(without)) };
    let options = vec![("--splits", names(with)), ("--with", format!("boxes=coco:{FILE}"))];
    let what = format!("splits of images with their annotations in {FILE}{lacking}");
    Some(Found::new(what, options, "packs each image with its boxes and their class numbers"))
}
