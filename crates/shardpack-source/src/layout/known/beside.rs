//! Images in one folder, each with a text of its name beside it: captions (CLIP), LabelMe, VOC in one folder.

use super::{Found, Look};

/// Extensions of texts about an image.
const TEXTS: [&str; 4] = ["txt", "json", "xml", "caption"];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.folders("").is_empty() {
        return None;
    }
    let files = look.files("");
    let with = |extension: &&str| files.pairs(&files.stems(extension));
    let extension = TEXTS.iter().find(|extension| {
        let (with, lacking) = with(extension);
        with > 0 && with >= lacking
    })?;
    let what = format!("images directly in this folder, with .{extension} files of the same names");
    Some(Found { what, options: vec![("--with", (*extension).to_owned())], result: "packs each image with its file" })
}
