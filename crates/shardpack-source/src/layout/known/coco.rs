//! COCO: `annotations/instances_train2017.json`, and images in `train2017`, or in `images/train2017`.

use super::{Found, Look, on_missing};

const ANNOTATIONS: &str = "annotations";
const IMAGES: &str = "images";
const BEFORE: &str = "instances_";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let files = look.files(ANNOTATIONS);
    let sets: Vec<&str> = files.stems("json").into_iter().filter_map(|stem| stem.strip_prefix(BEFORE)).collect();
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
        let files = format!("boxes=coco:{up}/{ANNOTATIONS}/{BEFORE}{{parent}}.json");
        let mut options = vec![("--splits", option), ("--with", files)];
        options.extend(on_missing(without.len() as u64));
        let names: Vec<&str> = without.into_iter().map(String::as_str).collect();
        let lacking = if names.is_empty() { String::new() } else { format!("; {} has none", names.join(", ")) };
        let what = format!("a COCO dataset: its lists are in {ANNOTATIONS}{lacking}");
        (!with.is_empty()).then(|| Found::new(what, options, "packs each image with its boxes and their class numbers"))
    })
}
