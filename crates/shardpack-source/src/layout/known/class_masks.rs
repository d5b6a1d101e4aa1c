//! Classes of images with masks beside them: `benign/1.png`, `benign/1_mask.png` and `benign/1_mask_1.png`, as BUSI has them; or in folders of
//! the classes, as in `apple/apple_1/1_crop.png` and `1_maskcrop.png` (RGB-D Object).

use super::{Files, Found, Look, MAX_SPLITS, counterparts::join, on_missing, split_masks::Masks};

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    if top.len() < 2 || look.split_folders().is_some() {
        return None;
    }
    // Each look is a folder to read, and there may be 100,000 classes.
    let first: Vec<Files> = top.iter().take(MAX_SPLITS).flat_map(|folder| of_class(look, folder)).collect();
    let mut all: Vec<Masks> = Vec::new();
    for masks in first.iter().flat_map(Masks::find) {
        let is_of_most = first.iter().filter(|files| masks.fits(files)).count() * 2 > first.len();
        if is_of_most && all.iter().all(|other| other.text != masks.text) {
            all.push(masks);
        }
    }
    if all.is_empty() {
        return None;
    }
    let files: Vec<Files> = top.iter().flat_map(|folder| of_class(look, folder)).collect();
    let mut options = Masks::options(&all, &files)?;
    // Of folders in classes, only some are looked into.
    let is_optional = options.iter().any(|(name, _)| *name == "--on-missing");
    let is_nested = top.iter().take(MAX_SPLITS).any(|folder| look.files(folder).0.is_empty());
    options.extend(on_missing(u64::from(is_nested && !is_optional)));
    let what = format!("classes of images with masks beside them, {}", Masks::examples(&all));
    Some(Found { has_classes: true, ..Found::new(what, options, "packs each image with its class and masks") })
}

/// The files in the folder of a class, or in the folders below it.
fn of_class(look: &Look<'_>, folder: &str) -> Vec<Files> {
    let files = look.files(folder);
    if !files.0.is_empty() {
        return vec![files];
    }
    let inner = look.folders(folder).into_iter().take(MAX_SPLITS).map(|inner| look.files(&join(folder, &inner)));
    inner.filter(|files| !files.0.is_empty()).collect()
}
