//! Counterparts in each class folder: `COVID/images/1.png` and `COVID/masks/1.png`, as the COVID-19 Radiography Database has them; and in each
//! folder of a dataset, as in VisDrone and DUTS.

use std::collections::BTreeSet;

use super::{
    Found, Look, MAX_SPLITS,
    counterparts::{below, join},
    voc,
};
use crate::{filter, layout::split_names::Likeness};

/// Most class folders: each is looked into.
const MAX_CLASSES: usize = 4096;
/// Levels of folders in a class folder that are looked into for images.
const LEVELS: usize = 2;

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.splits.is_empty() {
        return None;
    }
    match look.split_folders() {
        Some(splits) => below_splits(look, &splits),
        None => of_folder(look),
    }
}

/// The layout of classes below splits, as in COVID-QU-Ex: `Train/COVID-19/images` and `Train/COVID-19/lung masks`.
fn below_splits(look: &Look<'_>, splits: &[String]) -> Option<Found> {
    let of_split =
        |split: &String| of_folder(&look.within(join(&look.inside, split))).filter(|found| found.has_classes);
    let found: Vec<Found> = splits.iter().map(of_split).collect::<Option<_>>()?;
    let is_of = |option: &(&str, String)| option.0 != "--on-missing";
    let own = |found: &Found| -> Vec<_> { found.options.iter().filter(|option| is_of(option)).cloned().collect() };
    let first = own(&found[0]);
    if !found.iter().all(|one| own(one) == first) {
        return None;
    }
    let is_missing = found.iter().any(|one| one.options.len() > first.len());
    let options = std::iter::once(("--splits", splits.join(","))).chain(first);
    let options = options.chain(super::on_missing(u64::from(is_missing))).collect();
    let first = found.into_iter().next()?;
    Some(Found { what: format!("splits with {}", first.what), options, other: None, ..first })
}

/// The layout of one folder with classes, or with folders that are no splits by their names alone.
fn of_folder(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    if !(2..=MAX_CLASSES).contains(&top.len()) || !look.files("").images().is_empty() || look.split_folders().is_some()
    {
        return None;
    }
    let has_several = |folder: &&String| look.folders(folder).len() > 1;
    // Years of Pascal VOC have a question of their own.
    let is_year = |folder: &String| voc::find(&look.within(join(&look.inside, folder))).is_some();
    let some: Vec<&String> = top.iter().take(MAX_SPLITS).filter(has_several).collect();
    if some.len() < 2 || some.iter().any(|folder| is_year(folder)) {
        return None;
    }
    let places: Vec<String> = top.iter().filter(has_several).cloned().collect();
    let named = |place: &String, images: &str| look.has_images(&join(place, images), LEVELS);
    match below(look, &places) {
        Some((images, found))
            if places.iter().all(|place| named(place, &images) || !look.has_images(place, LEVELS)) =>
        {
            as_splits(look, &top).or_else(|| as_classes(look, &top, &places, &images, &found))
        }
        _ => own_names(look, &top),
    }
}

/// The layout of folders that are called as different splits: `VisDrone2019-DET-train` and `VisDrone2019-DET-val`.
fn as_splits(look: &Look<'_>, top: &[String]) -> Option<Found> {
    let words: BTreeSet<_> = top.iter().map(|name| Likeness::classify(name.as_bytes()).word()).collect();
    let with_images: Vec<String> = top.iter().filter(|name| look.has_images(name, LEVELS)).cloned().collect();
    let are_splits = top.len() <= MAX_SPLITS && words.len() > 1 && !words.contains(&None);
    Some(below(look, &with_images).filter(|_| are_splits)?.1)
}

/// The layout of classes: `places` have the images in a folder `images`, and files for them beside it.
fn as_classes(look: &Look<'_>, top: &[String], places: &[String], images: &str, found: &Found) -> Option<Found> {
    let values: Vec<&String> =
        found.options.iter().filter(|(name, _)| *name == "--with").map(|(_, value)| value).collect();
    // Among a few images, numbers in names match by chance.
    if Likeness::classify(images.as_bytes()).is_sure() || !values.iter().all(|value| has_plain_name(value)) {
        return None;
    }
    // Classes without counterparts may have their images elsewhere.
    let has_others = top.iter().any(|name| !places.contains(name) && look.has_images(name, LEVELS));
    let mut options = Vec::new();
    if has_others {
        let folders: BTreeSet<&str> =
            values.iter().filter_map(|value| value.split_once("../")?.1.split('/').next()).collect();
        options.extend(folders.iter().map(|folder| ("--exclude", format!("*/{}", filter::below(folder)))));
    } else {
        options.push(("--include", format!("*/{}", filter::below(images))));
    }
    let is_missing = has_others || found.options.iter().any(|(name, _)| *name == "--on-missing");
    options.extend(values.into_iter().map(|value| ("--with", value.clone())));
    options.extend(super::on_missing(u64::from(is_missing)));
    let what = format!("class folders that have {images} and other files of the same names in them");
    let other = Some("add --no-labels to pack them without classes".to_owned());
    Some(Found { other, has_classes: true, ..Found::new(what, options, "packs each image with its class and files") })
}

/// Whether the name of the file in a value of `--with` is that of the image, with a text without numbers.
fn has_plain_name(value: &str) -> bool {
    let path = value.split_once('=').map_or(value, |(_, path)| path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let text = name.rsplit_once('.').map_or(name, |(name, _)| name);
    !path.contains("{stem-") && !path.contains("{dir-") && !text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The layout of folders with pairs of their own names: `DUTS-TE/DUTS-TE-Image` and `DUTS-TR/DUTS-TR-Image`.
fn own_names(look: &Look<'_>, top: &[String]) -> Option<Found> {
    let each: Option<Vec<_>> =
        top.iter().take(MAX_SPLITS).map(|folder| below(look, std::slice::from_ref(folder))).collect();
    let (_, found) = each?.swap_remove(0);
    let what = format!("pairs in each folder: {}", found.what);
    let result = "packs the first folder alone: the others have other names";
    Some(Found { what, result, other: None, ..found })
}
