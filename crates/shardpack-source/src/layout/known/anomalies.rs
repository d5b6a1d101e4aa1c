//! Images of flaws with masks in a folder of their own: `train/good`, `test/broken_large` and `ground_truth/broken_large/000_mask.png`, as MVTec AD
//! has them.

use shardpack_format::shell;

use super::{Found, Look, counterparts::join, stem};

const MASKS: &str = "ground_truth";
const SPLITS: [&str; 2] = ["train", "test"];
/// Ends of the names of masks.
const ENDS: [&str; 2] = ["_mask", ""];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let is_known =
        top.len() == SPLITS.len() + 1 && [MASKS].iter().chain(&SPLITS).all(|name| top.iter().any(|one| one == name));
    if !is_known || !look.splits.is_empty() || look.tree.listed.is_some() {
        return None;
    }
    let (flaw, masks) = look.folders(MASKS).into_iter().find_map(|flaw| {
        let masks = look.files(&join(MASKS, &flaw)).0;
        (!masks.is_empty()).then_some((flaw, masks))
    })?;
    let images = look.files(&format!("test/{flaw}"));
    let of_image = |end: &&str| {
        masks.iter().all(|mask| stem(mask).strip_suffix(*end).is_some_and(|image| images.images().contains(image)))
    };
    let end = ENDS.iter().find(|end| of_image(end))?;
    let (_, extension) = masks.first()?.rsplit_once('.')?;
    let path = |name: &str| shell::path(look.path(name));
    let with = shell::word(format!("mask={{masks}}/{{parent}}/{{stem}}{end}.{extension}"));
    let command = format!(
        "shardpack pack --split train={} --split test={} --extra-root masks={} --with {with} --on-missing empty DST",
        path("train"),
        path("test"),
        path(MASKS)
    );
    let what = format!("splits of classes, with masks of the test images in {MASKS}");
    let found = Found::new(what, Vec::new(), "packs each image with its class, and its mask if it has one");
    Some(Found { command: Some(command), ..found })
}
