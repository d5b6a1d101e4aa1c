//! A folder for each image, with masks of the objects in it: `ID/images/ID.png` and `ID/masks/1.png`, as the Data Science Bowl 2018 has them.
//!
//! A component is one file of an image, so the masks are left out.

use super::{Found, Look, MAX_SPLITS, counterparts::join};
use crate::{filter, layout::split_names::Likeness};

const IMAGES: &str = "images";
const MASKS: &str = "masks";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.splits.is_empty() {
        return None;
    }
    // `stage1_train` is a split only beside others.
    let top = look.folders("");
    let are_splits =
        top.len() <= MAX_SPLITS && top.iter().all(|name| Likeness::classify(name.as_bytes()).word().is_some());
    let splits = are_splits.then_some(top);
    let above = splits.clone().unwrap_or_else(|| vec![String::new()]);
    let masks: Vec<bool> = above.iter().map(|folder| of_folder(look, folder)).collect::<Option<_>>()?;
    if !masks.contains(&true) {
        return None;
    }
    let mut options = Vec::new();
    options.extend(splits.map(|splits| ("--splits", splits.join(","))));
    options.push(("--include", format!("*/{}", filter::below(IMAGES))));
    let what = format!(
        "a folder for each image, with several masks of its objects in {MASKS}: a sample has one file of a kind, so only \
         merged masks can be packed"
    );
    Some(Found::new(what, options, "packs each image without its masks"))
}

/// Whether the folders in `above` have masks; `None` if they are no folders of one image each.
fn of_folder(look: &Look<'_>, above: &str) -> Option<bool> {
    let folders = look.folders(above);
    if folders.len() < 2 {
        return None;
    }
    let mut has_several = false;
    for folder in folders.iter().take(MAX_SPLITS) {
        let folder = join(above, folder);
        let inner = look.folders(&folder);
        let is_of_image = inner.iter().any(|name| name == IMAGES)
            && inner.iter().all(|name| name == IMAGES || name == MASKS)
            && look.files(&join(&folder, IMAGES)).images().len() == 1;
        if !is_of_image {
            return None;
        }
        has_several |= inner.iter().any(|name| name == MASKS) && look.files(&join(&folder, MASKS)).images().len() > 1;
    }
    Some(has_several)
}
