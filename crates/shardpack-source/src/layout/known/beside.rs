//! Images in one folder, each with a text of its name beside it: captions (CLIP), LabelMe, VOC in one folder.

use super::{Found, Look, annotations, on_missing};

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
