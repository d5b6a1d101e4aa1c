//! COCO: `annotations/instances_train2017.json`, and images in `train2017`, or in `images/train2017`; key points and panoptic masks, too:
//! `annotations/person_keypoints_train2017.json`, `annotations/panoptic_train2017/1.png`.

use super::{Found, Look, on_missing};

const ANNOTATIONS: &str = "annotations";
const IMAGES: &str = "images";
/// Beginnings of the names of lists with boxes.
const LISTS: [&str; 2] = ["instances_", "person_keypoints_"];
const PANOPTIC: &str = "panoptic_";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    LISTS.into_iter().find_map(|before| with_boxes(look, before)).or_else(|| panoptic(look))
}

/// The layout with lists whose names begin with `before`.
fn with_boxes(look: &Look<'_>, before: &str) -> Option<Found> {
    let files = look.files(ANNOTATIONS);
    let sets: Vec<&str> = files.stems("json").into_iter().filter_map(|stem| stem.strip_prefix(before)).collect();
    if sets.is_empty() {
        return None;
    }
    let has_list = |name: &&String| sets.iter().any(|set| set == name);
    [(look.folders(""), ""), (look.folders(IMAGES), IMAGES)].into_iter().find_map(|(folders, above)| {
        let splits: Vec<String> = folders.into_iter().filter(|name| look.is_split(name)).collect();
        let (with, without): (Vec<_>, Vec<_>) = splits.iter().partition(has_list);
        let (option, up) = match above.is_empty() {
            // Folders of splits in the source: a list of names makes sources of them, and annotations are outside.
            true => ("{split}".to_owned(), ".."),
            false => (format!("{above}/{{split}}"), "../.."),
        };
        let files = format!("boxes=coco:{up}/{ANNOTATIONS}/{before}{{parent}}.json");
        let mut options = vec![("--splits", option), ("--with", files)];
        options.extend(on_missing(without.len() as u64));
        let names: Vec<&str> = without.into_iter().map(String::as_str).collect();
        let lacking = if names.is_empty() { String::new() } else { format!("; {} has none", names.join(", ")) };
        let what = format!("a COCO dataset: its lists are in {ANNOTATIONS}{lacking}");
        (!with.is_empty()).then(|| Found::new(what, options, "packs each image with its boxes and their class numbers"))
    })
}

/// The layout with masks of things and stuff, and no boxes.
fn panoptic(look: &Look<'_>) -> Option<Found> {
    let sets = look.folders(ANNOTATIONS);
    let sets: Vec<&str> = sets.iter().filter_map(|name| name.strip_prefix(PANOPTIC)).collect();
    let splits: Vec<String> = look.folders("").into_iter().filter(|name| look.is_split(name)).collect();
    let (mut any, mut all_lacking) = (false, 0);
    for split in splits.iter().filter(|_| !sets.is_empty()) {
        let masks = look.files(&format!("{ANNOTATIONS}/{PANOPTIC}{split}"));
        let (with, lacking) = look.files(split).pairs(&masks.stems("png"));
        any |= with > 0;
        all_lacking += lacking;
    }
    let path = format!("panoptic=../{ANNOTATIONS}/{PANOPTIC}{{parent}}/*.png");
    let mut options = vec![("--splits", "{split}".to_owned()), ("--with", path)];
    options.extend(on_missing(all_lacking));
    let what = format!("a COCO dataset: its masks are in {ANNOTATIONS}");
    any.then(|| Found::new(what, options, "packs each image with its mask"))
}
