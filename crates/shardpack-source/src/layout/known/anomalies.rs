//! Images of flaws with masks in a folder of their own: `train/good`, `test/broken_large` and `ground_truth/broken_large/000_mask.png`, as MVTec AD
//! has them; and folders of such datasets.

use shardpack_format::shell;

use super::{Found, Look, counterparts::join, stem};

const MASKS: &str = "ground_truth";
/// `validation` is in MVTec LOCO AD.
const SPLITS: [&str; 3] = ["train", "test", "validation"];
/// Most datasets side by side.
const MAX_DATASETS: usize = 64;
/// Ends of the names of masks.
const MASK_ENDS: [&str; 2] = ["_mask", ""];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    one(look).or_else(|| several(look))
}

/// The layout of folders that each are a dataset: `bottle/train/good` and `cable/train/good`.
fn several(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let of_folder = |name: &String| one(&look.within(join(&look.inside, name)));
    if !(2..=MAX_DATASETS).contains(&top.len()) {
        return None;
    }
    let found: Vec<Found> = top.iter().map(of_folder).collect::<Option<_>>()?;
    let first = found.into_iter().next()?;
    let what = format!("{} datasets in folders, {} the first, each with {}", top.len(), top[0], first.what);
    let result = "packs the first; pack each other folder into a DST of its own";
    Some(Found { what, result, ..first })
}

/// The layout of one dataset.
fn one(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let is_known = |name: &String| name == MASKS || SPLITS.contains(&name.as_str());
    let has = |name: &str| top.iter().any(|one| one == name);
    if !top.iter().all(is_known) || ![MASKS, SPLITS[0], SPLITS[1]].into_iter().all(has) || !look.splits.is_empty() {
        return None;
    }
    let flaws: Vec<(String, Vec<String>)> =
        look.folders(MASKS).into_iter().map(|flaw| (flaw.clone(), look.files(&join(MASKS, &flaw)).0)).collect();
    let masks: Vec<&String> = flaws.iter().flat_map(|(_, masks)| masks).collect();
    let of_images = |end: &&&str| {
        flaws.iter().all(|(flaw, masks)| {
            let images = look.files(&format!("test/{flaw}"));
            let images = images.images();
            masks.iter().all(|mask| stem(mask).strip_suffix(**end).is_some_and(|image| images.contains(image)))
        })
    };
    let end = MASK_ENDS.iter().find(of_images)?;
    let (_, extension) = masks.first()?.rsplit_once('.')?;
    if masks.iter().any(|mask| !mask.ends_with(&format!(".{extension}"))) {
        return None;
    }
    let path = |name: &str| shell::path(look.path(name));
    let with = shell::word(format!("mask={{masks}}/{{parent}}/{{stem}}{end}.{extension}"));
    let splits: Vec<String> =
        SPLITS.iter().filter(|split| has(split)).map(|split| format!("--split {split}={}", path(split))).collect();
    let command = format!(
        "shardpack pack {} --extra-root masks={} --with {with} --on-missing empty DST",
        splits.join(" "),
        path(MASKS)
    );
    let what = format!("splits of classes, with masks of the test images in {MASKS}");
    let found = Found::new(what, Vec::new(), "packs each image with its class, and its mask if it has one");
    Some(Found { command: Some(command), ..found })
}
