//! Splits of images with one COCO file: `train/_annotations.coco.json` beside `train/1.jpg`, as Roboflow exports COCO; or called as its split,
//! `train/zhiyuan_objv2_train.json` beside `train/patch0/1.jpg`, as in Objects365.

use super::{
    Found, Look,
    coco::{around, form},
    counterparts::join,
    one_file::COCO,
};

const FILE: &str = "_annotations.coco.json";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let splits = look.split_folders()?;
    let (with, without): (Vec<_>, Vec<_>) = splits.iter().partition(|split| look.files(split).has(FILE));
    if with.is_empty() {
        return named(look, &splits);
    }
    let names = |splits: Vec<&String>| splits.into_iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let options = vec![("--splits", names(with)), ("--with", format!("boxes=coco:{FILE}"))];
    Some(found(FILE, &names(without), options))
}

/// The layout with lists that are called as their splits.
fn named(look: &Look<'_>, splits: &[String]) -> Option<Found> {
    // A split with several lists is a question without an answer.
    let list = |split: &String| -> Option<Option<String>> {
        let files = look.files(split);
        let is = |stem: &&&str| {
            around(stem, split).is_some() && (COCO.is)(look, &join(split, &format!("{stem}.{}", COCO.extension)), &[])
        };
        let stems = files.stems(COCO.extension);
        let mut lists = stems.iter().filter(is);
        let first = lists.next().map(|stem| (*stem).to_owned());
        lists.next().is_none().then_some(first)
    };
    let lists: Vec<Option<String>> = splits.iter().map(list).collect::<Option<_>>()?;
    let stems: Vec<&str> = lists.iter().flatten().map(String::as_str).collect();
    let (before, after) = form(&stems, splits)?;
    // Right in the folders of splits, or one below.
    let has_images = |depth| splits.iter().any(|split| look.has_images(split, depth));
    let depth = usize::from(!has_images(0));
    if !has_images(depth) {
        return None;
    }
    let file = |folder: &str| format!("{before}{folder}{after}.{}", COCO.extension);
    let path = format!("{}{}", "../".repeat(depth), file(["{parent}", "{grandparent}"][depth]));
    let without = splits.iter().zip(&lists).filter(|(_, list)| list.is_none()).map(|(split, _)| split.as_str());
    let without = without.collect::<Vec<_>>();
    let mut options = vec![("--splits", "{split}".to_owned())];
    options.extend(COCO.options(&path, without.len() as u64));
    Some(found(&file("SPLIT"), &without.join(","), options))
}

/// The layout with the list `file` in each split but `without`.
fn found(file: &str, without: &str, options: Vec<(&'static str, String)>) -> Found {
    let lacking = if without.is_empty() { String::new() } else { format!(", but not in {without}") };
    let what = format!("splits of images with their annotations in {file}{lacking}");
    Found::new(what, options, "packs each image with its boxes and their class numbers")
}
