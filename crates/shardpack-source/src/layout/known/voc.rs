//! Pascal VOC: `JPEGImages`, `Annotations`, `SegmentationClass`.

use super::{Found, Look, annotations, on_missing};

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let has = |name: &str| top.iter().any(|own| own == name);
    if !has("JPEGImages") {
        return None;
    }
    let images = look.files("JPEGImages");
    let mut options = vec![("--include", "JPEGImages/**".to_owned())];
    let mut all_lacking = 0;
    for (folder, name, extension) in [("Annotations", "annotation", "xml"), ("SegmentationClass", "mask", "png")] {
        let (with, lacking) = images.pairs(&look.files(folder).stems(extension));
        if with > 0 {
            let before = format!("../{folder}/");
            options.push(("--with", annotations::option(look, folder, extension, &before, Some(name))));
            all_lacking += lacking;
        }
    }
    options.extend(on_missing(all_lacking));
    let what = "a Pascal VOC dataset: images are in JPEGImages, and more files in folders beside it".to_owned();
    let is_any = options.iter().any(|(name, _)| *name == "--with");
    is_any.then(|| Found::new(what, options, "packs each image with these files"))
}
