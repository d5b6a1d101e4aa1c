//! Classes of images with masks beside them: `benign/1.png`, `benign/1_mask.png` and `benign/1_mask_1.png`, as BUSI has them; or in folders of
//! the classes, as in `apple/apple_1/1_crop.png` and `1_maskcrop.png` (RGB-D Object).

use super::{Files, Found, Look, MAX_SPLITS, counterparts::join, split_masks::Masks};

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    if top.len() < 2 || look.split_folders().is_some() {
        return None;
    }
    // Each look is a folder to read, and there may be 100,000 classes.
    let mut first =
        top.iter().take(MAX_SPLITS).map(|folder| of_class(look, folder)).filter(|files| !files.0.is_empty());
    let mut all = Masks::find(&first.next()?);
    for files in first {
        all.retain(|masks| masks.fits(&files));
    }
    if all.is_empty() {
        return None;
    }
    let files: Vec<Files> = top.iter().map(|folder| of_class(look, folder)).collect();
    let options = Masks::options(&all, &files)?;
    let what = format!("classes of images with masks beside them, {}", Masks::examples(&all));
    Some(Found { has_classes: true, ..Found::new(what, options, "packs each image with its class and masks") })
}

/// The files in the folder of a class, or in the first folder below it.
fn of_class(look: &Look<'_>, folder: &str) -> Files {
    let files = look.files(folder);
    match look.folders(folder).first().filter(|_| files.0.is_empty()) {
        Some(inner) => look.files(&join(folder, inner)),
        None => files,
    }
}
