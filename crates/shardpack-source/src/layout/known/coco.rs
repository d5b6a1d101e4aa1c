//! COCO: `annotations/instances_train2017.json`, and images in `train2017`, or in `images/train2017`; key points and panoptic masks, too:
//! `annotations/person_keypoints_train2017.json`, `annotations/panoptic_train2017/1.png`.
//!
//! It also recognises lists of other kinds that are named after splits: `train.json`, `train.csv`; `labels/det_20/det_train.json` (BDD100K).

use std::collections::HashSet;

use super::{
    Found, Look, MAX_SPLITS,
    counterparts::join,
    on_missing,
    one_file::{COCO, CSV, DESCRIBED, Kind},
};

const ANNOTATIONS: &str = "annotations";
const IMAGES: &str = "images";
/// Folders of lists with other names.
const LABELS: &str = "labels";
/// Beginnings of the names of lists with boxes.
const LISTS: [&str; 2] = ["instances_", "person_keypoints_"];
const PANOPTIC: &str = "panoptic_";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let known = LISTS.into_iter().find_map(|before| with_boxes(look, before));
    known.or_else(|| with_names(look, COCO)).or_else(|| panoptic(look))
}

/// A list for each split: the folder, and the text before and after the name of the split.
struct Lists {
    folder: String,
    before: String,
    after: String,
    kind: Kind,
}

/// The layout with lists whose names begin with `before`.
fn with_boxes(look: &Look<'_>, before: &str) -> Option<Found> {
    let lists = Lists { folder: ANNOTATIONS.to_owned(), before: before.to_owned(), after: String::new(), kind: COCO };
    look.files(ANNOTATIONS)
        .stems(COCO.extension)
        .iter()
        .any(|stem| stem.starts_with(before))
        .then(|| lists.found(look))?
}

/// The layout with lists of other kinds that are named after splits.
pub(super) fn find_lists(look: &Look<'_>) -> Option<Found> {
    let kinds = DESCRIBED.into_iter().filter(|kind| kind.with != COCO.with).chain([CSV]);
    kinds.into_iter().find_map(|kind| with_names(look, kind))
}

/// Places of folders of splits: names of folders, and the path above them.
fn places(look: &Look<'_>) -> Vec<(Vec<String>, String)> {
    let inner = look.folders(IMAGES).into_iter().take(MAX_SPLITS).map(|name| join(IMAGES, &name));
    let paths = [String::new(), IMAGES.to_owned()].into_iter().chain(inner);
    paths.map(|above| (look.folders(&above), above)).collect()
}

/// The layout with lists of other names that have the splits: `train.json`, `train_annotations.json`, `train.csv`.
fn with_names(look: &Look<'_>, kind: Kind) -> Option<Found> {
    let inner = look.folders(LABELS).into_iter().take(MAX_SPLITS).map(|name| join(LABELS, &name));
    let mut folders = [ANNOTATIONS, "", LABELS].map(str::to_owned).into_iter().chain(inner);
    folders.find_map(|folder| {
        let files = look.files(&folder);
        let mut stems: Vec<&str> = files.stems(kind.extension).into_iter().collect();
        if stems.is_empty() {
            return None;
        }
        let all = places(look)
            .into_iter()
            .flat_map(|(names, above)| names.into_iter().map(move |name| (join(&above, &name), name)));
        let (images, splits): (Vec<String>, Vec<String>) = all.filter(|(_, name)| look.is_split(name)).unzip();
        stems.retain(|stem| splits.iter().any(|split| around(stem, split).is_some()));
        stems.retain(|stem| (kind.is)(look, &join(&folder, &format!("{stem}.{}", kind.extension)), &images));
        stems.sort_unstable();
        let (before, after) = form(&stems, &splits)?;
        Lists { folder: folder.clone(), before: before.to_owned(), after: after.to_owned(), kind }.found(look)
    })
}

/// The texts around the splits in the names of lists. The form with most splits wins; `None` if the list of another split has another form,
/// because that split would have no boxes.
pub(super) fn form<'s>(stems: &[&'s str], splits: &[String]) -> Option<(&'s str, &'s str)> {
    let all = || stems.iter().flat_map(|stem| splits.iter().filter_map(|split| Some((around(stem, split)?, split))));
    let of = |form: (&str, &str)| -> HashSet<&String> { all().filter(|one| one.0 == form).map(|one| one.1).collect() };
    let mut best: Option<((&str, &str), HashSet<&String>)> = None;
    for (form, _) in all() {
        let of_form = of(form);
        if best.as_ref().is_none_or(|(_, most)| most.len() < of_form.len()) {
            best = Some((form, of_form));
        }
    }
    let (form, with) = best?;
    all().all(|(_, split)| with.contains(split)).then_some(form)
}

/// The text around the word `split` in the name of a list.
pub(super) fn around<'s>(stem: &'s str, split: &str) -> Option<(&'s str, &'s str)> {
    let is_end = |next: Option<char>| !next.is_some_and(char::is_alphabetic);
    stem.match_indices(split).find_map(|(at, _)| {
        let (before, after) = (&stem[..at], &stem[at + split.len()..]);
        (is_end(before.chars().next_back()) && is_end(after.chars().next())).then_some((before, after))
    })
}

impl Lists {
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
        places(look).into_iter().find_map(|(folders, above)| {
            let has_images = |name: &String, depth| look.has_images(&join(&above, name), depth);
            let mut splits: Vec<String> = folders.into_iter().filter(|name| look.is_split(name)).collect();
            // Right in the folders of splits, or one below (Objects365).
            let depth = usize::from(!splits.iter().any(|name| has_images(name, 0)));
            splits.retain(|name| has_images(name, depth));
            let folder_of_split = ["{parent}", "{grandparent}"][depth];
            let (with, without): (Vec<_>, Vec<_>) = splits.iter().partition(has_list);
            // Folders of splits in the source: a list of names makes sources of them, and annotations are outside.
            let option = join(&above, "{split}");
            let up = vec![".."; option.split('/').count() + depth].join("/");
            let path = join(folder, &format!("{before}{folder_of_split}{after}.{}", kind.extension));
            let mut options = vec![("--splits", option)];
            options.extend(kind.options(&format!("{up}/{path}"), without.len() as u64));
            let names: Vec<&str> = without.into_iter().map(String::as_str).collect();
            let have = if names.len() == 1 { "has" } else { "have" };
            let lacking = if names.is_empty() { String::new() } else { format!("; {} {have} none", names.join(", ")) };
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
