//! Cityscapes: `leftImg8bit/train/bonn/bonn_0_leftImg8bit.png`, and its labels in `gtFine/train/bonn/bonn_0_gtFine_labelIds.png`.

use super::{Found, Look, on_missing};

const IMAGES: &str = "leftImg8bit";
const LABELS: &str = "gtFine";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let (mut all_with, mut all_lacking) = (0, 0);
    for split in look.folders(IMAGES) {
        for city in look.folders(&format!("{IMAGES}/{split}")) {
            let images = look.files(&format!("{IMAGES}/{split}/{city}"));
            let labels = look.files(&format!("{LABELS}/{split}/{city}"));
            let labels = labels.stems("png");
            let has = |image: &&str| {
                image
                    .strip_suffix("_leftImg8bit")
                    .is_some_and(|id| labels.contains(format!("{id}_gtFine_labelIds").as_str()))
            };
            let (images, with) = (images.images(), images.images().iter().filter(|image| has(image)).count());
            all_with += with;
            all_lacking += (images.len() - with) as u64;
        }
    }
    let mut options = vec![
        ("--splits", format!("{IMAGES}/{{split}}")),
        ("--with", "mask=../../../gtFine/{dir-leftImg8bit}/{stem-_leftImg8bit}_gtFine_labelIds.png".to_owned()),
    ];
    options.extend(on_missing(all_lacking));
    let what = format!("Cityscapes: images are in {IMAGES}, labels in {LABELS}");
    (all_with > 0).then(|| Found::new(what, options, "packs each image with its label image"))
}
