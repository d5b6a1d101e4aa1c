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
    let mut options = vec![("--splits", splits.join(",")), ("--with", format!("boxes=coco:{FILE}"))];
    options.extend(super::on_missing(without.len() as u64));
    let what = format!("splits of images, each with their annotations in {FILE}");
    Some(Found::new(what, options, "packs each image with its boxes and their class numbers"))
}
