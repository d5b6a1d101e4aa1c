//! SegNet's CamVid: masks of `train` in `trainannot`.

use super::{Found, Look, on_missing};

const END: &str = "annot";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let pairs: Vec<&String> = top.iter().filter(|name| top.contains(&format!("{name}{END}"))).collect();
    let (mut any, mut all_lacking) = (false, 0);
    for name in &pairs {
        let (with, lacking) = look.files(name).pairs(&look.files(&format!("{name}{END}")).stems("png"));
        any |= with > 0;
        all_lacking += lacking;
    }
    let mut options = vec![("--splits", "{split}".to_owned()), ("--with", format!("mask=../{{parent}}{END}/*.png"))];
    options.extend(on_missing(all_lacking));
    let what = format!("splits and their masks: {0}, {0}{END}", pairs.first()?);
    any.then_some(Found { what, options, result: "packs each image with its mask" })
}
