//! Splits of images with label files beside them: `train/1.jpg` and `train/1.xml`, as Roboflow exports Pascal VOC.

use super::{Found, Look, annotations, on_missing};

/// Extensions of label files.
const EXTENSIONS: [&str; 3] = ["xml", "json", "txt"];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let splits = look.split_folders()?;
    EXTENSIONS.iter().find_map(|extension| {
        let (mut kind, mut all_lacking) = (None, 0);
        for split in &splits {
            let files = look.files(split);
            let (with, lacking) = files.pairs(&files.stems(extension));
            all_lacking += lacking;
            if with > 0 && kind.is_none() {
                kind = annotations::kind(look, split, &files, extension);
            }
        }
        let mut options = vec![("--splits", splits.join(",")), ("--with", format!("boxes={}:*.{extension}", kind?))];
        options.extend(on_missing(all_lacking));
        let what = format!("splits of images with label files beside them, .{extension}");
        Some(Found::new(what, options, "packs each image with its boxes and their class numbers"))
    })
}
