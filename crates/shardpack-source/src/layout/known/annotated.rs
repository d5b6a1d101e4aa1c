//! SegNet's CamVid: masks of `train` in `trainannot`.

use super::{Found, Look, on_missing};

const END: &str = "annot";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let has_masks = |name: &str| top.iter().any(|other| other.strip_suffix(END) == Some(name));
    let are_masks = |name: &str| name.strip_suffix(END).is_some_and(|of| top.iter().any(|other| other == of));
    let splits: Vec<&String> = top.iter().filter(|name| look.is_split(name) && !are_masks(name)).collect();
    let first = splits.iter().find(|name| has_masks(name))?;
    let (mut any, mut all_lacking) = (false, 0);
    for name in &splits {
        let (with, lacking) = look.files(name).pairs(&look.files(&format!("{name}{END}")).stems("png"));
        any |= with > 0;
        all_lacking += lacking;
    }
    let mut options = vec![("--splits", "{split}".to_owned()), ("--with", format!("mask=../{{parent}}{END}/*.png"))];
    options.extend(on_missing(all_lacking));
    let what = format!("splits and their masks: {first}, {first}{END}");
    any.then(|| Found::new(what, options, "packs each image with its mask"))
}
