//! Splits of images with masks beside them: `train/1.jpg` and `train/1_mask.png`, as Roboflow exports masks.

use super::{Found, Look, on_missing};

const END: &str = "_mask";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let splits = look.split_folders()?;
    let (mut all_with, mut all_lacking) = (0, 0);
    for split in &splits {
        let files = look.files(split);
        let masks = files.stems("png");
        let images = files.images();
        let images = images.iter().filter(|image| !(image.ends_with(END) && masks.contains(**image)));
        let have: Vec<bool> = images.map(|image| masks.contains(format!("{image}{END}").as_str())).collect();
        let with = have.iter().filter(|has| **has).count();
        all_with += with;
        all_lacking += (have.len() - with) as u64;
    }
    let mut options = vec![("--splits", splits.join(",")), ("--with", format!("mask=*{END}.png"))];
    options.extend(on_missing(all_lacking));
    let what = format!("splits of images with masks beside them, 1{END}.png for 1.jpg");
    (all_with > 0).then(|| Found::new(what, options, "packs each image with its mask"))
}
