//! Classes of images with masks beside them: `benign/1.png`, `benign/1_mask.png` and `benign/1_mask_1.png`, as BUSI has them.

use super::{Files, Found, Look, MAX_SPLITS, on_missing, split_masks::Masks};

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    if top.len() < 2 || look.split_folders().is_some() {
        return None;
    }
    // Each look is a folder to read, and there may be 100,000 classes.
    let mut first = top.iter().take(MAX_SPLITS).map(|folder| look.files(folder)).filter(|files| !files.0.is_empty());
    let masks = Masks::find(&first.next()?)?;
    let fits = |files: &Files| {
        let (with, lacking) = masks.count(files);
        with > 0 && with >= lacking
    };
    if !first.all(|files| fits(&files)) {
        return None;
    }
    let files: Vec<Files> = top.iter().map(|folder| look.files(folder)).collect();
    let lacking: u64 = files.iter().map(|files| masks.count(files).1).sum();
    let with = masks.with(&files)?;
    let is_optional = masks.is_path() && (lacking > 0 || with.len() > 1);
    let mut options: Vec<_> = with.into_iter().map(|value| ("--with", value)).collect();
    options.extend(on_missing(u64::from(is_optional)));
    let what = format!("classes of images with masks beside them, {}", masks.example());
    Some(Found { has_classes: true, ..Found::new(what, options, "packs each image with its class and masks") })
}
