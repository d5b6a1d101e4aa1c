//! Images in one folder, each with a text of its name beside it: captions (CLIP), LabelMe, VOC in one folder; label files of YOLO (LabelImg),
//! also in the only folder of the source (`obj_train_data`, as CVAT exports them).

use super::{Found, Look, annotations, on_missing};

/// Label files beside the images of the only folder. A folder of images with other texts may be a class.
pub(super) fn find_labelled(look: &Look<'_>) -> Option<Found> {
    let folder = look.folders("").into_iter().next().filter(|_| look.only_folder().is_some())?;
    let files = look.files(&folder);
    let (extension, lacking) = annotations::beside(&files).filter(|_| look.folders(&folder).is_empty())?;
    let kind = annotations::kind(look, &folder, &files, extension)?;
    let mut options = vec![("--with", format!("boxes={kind}:*.{extension}"))];
    options.extend(on_missing(lacking));
    let what = format!("images in {folder}, with label files of the same names, .{extension}");
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
