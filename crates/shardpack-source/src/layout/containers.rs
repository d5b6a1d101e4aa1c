//! Detects folders that are containers of files, not classes: `images`, `img_align_celeba`, `part_1` and `part_2`, a folder per day.
//!
//! Such folders would give wrong labels, so `pack` refuses them; `--splits none` declares them to be classes.

use std::{collections::BTreeSet, path::Path};

use shardpack_format::Error;

use super::{
    super::SourceListing,
    help_classes, shown,
    split_names::{Likeness, words},
    splits_of,
};
use crate::Result;

/// Words for files in general. A single class with such a word is a container.
const OF_FILES: [&str; 22] = [
    "data",
    "dataset",
    "datasets",
    "files",
    "frames",
    "image",
    "images",
    "img",
    "imgs",
    "jpeg",
    "jpegimages",
    "jpegs",
    "jpg",
    "jpgs",
    "photo",
    "photos",
    "pics",
    "pictures",
    "png",
    "pngs",
    "samples",
    "thumbnails",
];
/// Words for parts of a large set, in addition to [`OF_FILES`].
const OF_PARTS: [&str; 9] = ["batch", "chunk", "chunks", "dir", "disk", "folder", "part", "parts", "shard"];
/// Years of dates.
const YEARS: std::ops::Range<u32> = 1900..2100;

/// Fails if the class folders are containers of files.
///
/// # Errors
/// The error names the folders.
pub(crate) fn refuse(root: &Path, found: &[SourceListing]) -> Result<()> {
    let of =
        |one: &SourceListing| one.listing.folders().iter().filter_map(|folder| folder.class).collect::<BTreeSet<u32>>();
    let name = |one: &SourceListing, class: &u32| one.listing.classes.get(*class as usize).map(|name| name.to_vec());
    let names: BTreeSet<Vec<u8>> =
        found.iter().flat_map(|one| of(one).iter().filter_map(|class| name(one, class)).collect::<Vec<_>>()).collect();
    let Some(what) = containers(&names.iter().collect::<Vec<_>>()) else { return Ok(()) };
    Err(Error::usage(what).in_file(root).help(format!(
        "--no-labels packs images without labels; a list gives them labels; {}",
        help_classes(&splits_of(found))
    )))
}

/// The problem with class folders of these names, if they are containers.
fn containers(names: &[&Vec<u8>]) -> Option<String> {
    let [first, others @ ..] = names else { return None };
    if others.is_empty() {
        let what = format!("all images would be of one class, {}", shown(&[first]));
        // A split name alone has its own question; other folders may be without images.
        return (has(first, &OF_FILES) || Likeness::classify(first).is_sure()).then_some(what);
    }
    if are_parts(&names.iter().map(|name| name.as_slice()).collect::<Vec<_>>()) {
        return Some(format!("{} are numbered parts, and no classes", shown(names)));
    }
    names.iter().all(|name| is_date(name)).then(|| format!("{} are dates, and no classes", shown(names)))
}

/// Whether one of the words of a name is in `list`.
fn has(name: &[u8], list: &[&str]) -> bool {
    words(name).iter().any(|word| list.contains(&word.as_str()))
}

/// Whether these folders are numbered parts of one set of files: `images_001` and `images_002`.
pub(crate) fn are_parts(names: &[&[u8]]) -> bool {
    let [first, _, ..] = names else { return false };
    let bare = |name: &[u8]| name.iter().filter(|byte| !byte.is_ascii_digit()).copied().collect::<Vec<_>>();
    let are_numbered = names.iter().all(|name| bare(name).len() < name.len() && bare(name) == bare(first));
    are_numbered && (has(first, &OF_FILES) || has(first, &OF_PARTS))
}

/// Whether a name is a day or a month: `2024-01-31`, `20240131`, `2024_01`.
fn is_date(name: &[u8]) -> bool {
    let digits: Vec<u8> = name.iter().filter(|byte| byte.is_ascii_digit()).copied().collect();
    let are_apart = digits.len() < name.len();
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    name.iter().all(|byte| byte.is_ascii_digit() || b"-_.".contains(byte))
        && (digits.len() == 8 || digits.len() == 6 && are_apart)
        && YEARS.contains(&number(&digits[..4]))
        && (1..=12).contains(&number(&digits[4..6]))
        && (digits.len() == 6 || (0..=31).contains(&number(&digits[6..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_only_hold_files_are_no_classes() {
        let rows: [(&[&str], &str); 19] = [
            (&["images"], "of one class, images"),
            (&["img_align_celeba"], "of one class"),
            (&["jpg"], "of one class"),
            (&["obj_train_data"], "of one class"),
            (&["train"], "of one class"),
            (&["cat"], ""),
            (&["cat", "train"], ""),
            (&["HAM10000_images_part_1", "HAM10000_images_part_2"], "numbered parts"),
            (&["images_000", "images_001", "images_002"], "numbered parts"),
            (&["batch-1", "batch-12"], "numbered parts"),
            (&["2024-01-30", "2024-02-01"], "dates"),
            (&["20240130", "20240201"], "dates"),
            (&["2024_01", "2024_02"], "dates"),
            (&["00000000", "00000001"], ""),
            (&["202401", "202402"], ""),
            (&["person_1", "person_2"], ""),
            (&["images of cats", "images of dogs"], ""),
            (&["0", "1", "2"], ""),
            (&["part", "whole"], ""),
        ];
        for (names, expected) in rows {
            let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let what = containers(&names.iter().collect::<Vec<_>>()).unwrap_or_default();
            assert!(what.contains(expected) && what.is_empty() == expected.is_empty(), "{names:?}: {what}");
        }
    }
}
