//! COCO: `annotations/instances_train2017.json`, and images in `train2017`, or in `images/train2017`; key points and panoptic masks, too:
//! `annotations/person_keypoints_train2017.json`, `annotations/panoptic_train2017/1.png`. And lists of boxes called as splits, of CSV, too: `train.csv`.

use super::{
    Found, Look,
    counterparts::join,
    on_missing,
    one_file::{COCO, KINDS, Kind},
};

const ANNOTATIONS: &str = "annotations";
const IMAGES: &str = "images";
/// Beginnings of the names of lists with boxes.
const LISTS: [&str; 2] = ["instances_", "person_keypoints_"];
const PANOPTIC: &str = "panoptic_";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let known = LISTS.into_iter().find_map(|before| with_boxes(look, before));
    known.or_else(|| with_names(look)).or_else(|| panoptic(look))
}

/// A list for each split: the folder, and the text before and after the name of the split.
struct Lists<'l> {
    folder: &'l str,
    before: String,
    after: String,
    kind: Kind,
}

/// The layout with lists whose names begin with `before`.
fn with_boxes(look: &Look<'_>, before: &str) -> Option<Found> {
    let lists = Lists { folder: ANNOTATIONS, before: before.to_owned(), after: String::new(), kind: COCO };
    look.files(ANNOTATIONS)
        .stems(COCO.extension)
        .iter()
        .any(|stem| stem.starts_with(before))
        .then(|| lists.found(look))?
}

/// The layout with lists of other names that have the splits: `train.json`, `train_annotations.json`, `train.csv`.
fn with_names(look: &Look<'_>) -> Option<Found> {
    let splits: Vec<String> = [look.folders(""), look.folders(IMAGES)].concat();
    let splits: Vec<String> = splits.into_iter().filter(|name| look.is_split(name)).collect();
    let folders = [ANNOTATIONS, ""].into_iter();
    for (folder, kind) in folders.flat_map(|folder| KINDS.map(|kind| (folder, kind))) {
        let files = look.files(folder);
        let mut stems: Vec<&str> = files.stems(kind.extension).into_iter().collect();
        stems.sort_unstable();
        let taken_apart = stems.iter().find_map(|stem| {
            let (before, after) = splits.iter().find_map(|split| stem.split_once(split.as_str()))?;
            let name = format!("{stem}.{}", kind.extension);
            (kind.is)(&name, &look.start(&join(folder, &name))).then_some((before, after))
        });
        let Some((before, after)) = taken_apart else { continue };
        let lists = Lists { folder, before: before.to_owned(), after: after.to_owned(), kind };
        if let Some(found) = lists.found(look) {
            return Some(found);
        }
    }
    None
}

impl Lists<'_> {
    /// The layout, if a split has its list.
    fn found(&self, look: &Look<'_>) -> Option<Found> {
        let Self { folder, before, after, kind } = self;
        let files = look.files(folder);
        let names = files.stems(kind.extension);
        let sets: Vec<&str> = names
            .into_iter()
            .filter_map(|stem| stem.strip_prefix(before.as_str())?.strip_suffix(after.as_str()))
            .collect();
        let has_list = |name: &&String| sets.iter().any(|set| set == name);
        [(look.folders(""), ""), (look.folders(IMAGES), IMAGES)].into_iter().find_map(|(folders, above)| {
            let is_split = |name: &String| look.is_split(name) && look.has_images(&join(above, name), 0);
            let splits: Vec<String> = folders.into_iter().filter(is_split).collect();
            let (with, without): (Vec<_>, Vec<_>) = splits.iter().partition(has_list);
            let (option, up) = match above.is_empty() {
                // Folders of splits in the source: a list of names makes sources of them, and annotations are outside.
                true => ("{split}".to_owned(), ".."),
                false => (format!("{above}/{{split}}"), "../.."),
            };
            let path = join(folder, &format!("{before}{{parent}}{after}.{}", kind.extension));
            let mut options = vec![("--splits", option)];
            options.extend(kind.options(&format!("{up}/{path}"), without.len() as u64));
            let names: Vec<&str> = without.into_iter().map(String::as_str).collect();
            let lacking = if names.is_empty() { String::new() } else { format!("; {} has none", names.join(", ")) };
            let place = if folder.is_empty() { "beside the splits".to_owned() } else { format!("in {folder}") };
            let what = match kind.with {
                "coco" => format!("a COCO dataset: its lists are {place}{lacking}"),
                _ => format!("splits of images: lists of their boxes are {place}{lacking}"),
            };
            (!with.is_empty())
                .then(|| Found::new(what, options, "packs each image with its boxes and their class numbers"))
        })
    }
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
