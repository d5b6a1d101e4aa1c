//! Images in one folder, each with a text of its name beside it: captions (CLIP), LabelMe, VOC in one folder; label files of YOLO (LabelImg),
//! also in the only folder of the source (`obj_train_data`, as CVAT exports them).

use super::{Found, Look, annotations, counterparts::join, on_missing};

/// Files in the source that name classes of objects.
const NAMES: [&str; 2] = [".names", ".data"];
/// Most folders of images, and levels of them: `obj_train_data/video/1.jpg`.
const MAX_FOLDERS: usize = 1024;
const MAX_LEVELS: usize = 3;

/// Label files beside the images of the only folder, or of several folders below if the source has names of objects. A folder of images with other texts
/// may be a class.
pub(super) fn find_labelled(look: &Look<'_>) -> Option<Found> {
    let top = look.only_folder().and(look.folders("").into_iter().next())?;
    let has_names = look.files("").0.iter().any(|file| NAMES.iter().any(|end| file.ends_with(end)));
    let mut folders = vec![top.clone()];
    for _ in 0..if has_names { MAX_LEVELS } else { 0 } {
        if folders.iter().any(|folder| !look.files(folder).images().is_empty()) || folders.len() > MAX_FOLDERS {
            break;
        }
        folders = folders
            .iter()
            .flat_map(|folder| look.folders(folder).into_iter().map(|name| join(folder, &name)))
            .collect();
    }
    folders.retain(|folder| !look.files(folder).images().is_empty());
    if folders.iter().any(|folder| !look.folders(folder).is_empty()) {
        return None;
    }
    let mut all_lacking = 0;
    let mut extension = None;
    for folder in &folders {
        let (own, lacking) = annotations::beside(&look.files(folder))?;
        all_lacking += lacking;
        (*extension.get_or_insert(own) == own).then_some(())?;
    }
    let (first, extension) = (folders.first()?, extension?);
    let kind = annotations::kind(look, first, &look.files(first), extension)?;
    let mut options = vec![("--with", format!("boxes={kind}:*.{extension}"))];
    options.extend(on_missing(all_lacking));
    let what = format!("images in {top}, with label files of the same names, .{extension}");
    Some(Found::new(what, options, "packs each image with its boxes and their class numbers"))
}

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.folders("").is_empty() {
        return None;
    }
    let files = look.files("");
    let (extension, lacking) = annotations::beside(&files)?;
    let what = format!("images directly in this folder, with .{extension} files of the same names");
    let with = annotations::option(look, "", extension, "", None);
    let mut options = vec![("--with", with.clone())];
    // A caption may be missing, a file with boxes is an error.
    options.extend(on_missing(lacking).filter(|_| with.contains('=')));
    Some(Found::new(what, options, "packs each image with its file"))
}
