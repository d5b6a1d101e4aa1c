//! Names of lists: those of splits, and those that are not about images to train from: licences, predictions, lists of classes.

use super::{
    super::split_names::{Likeness, words},
    Look, stem,
};

/// Words in names of lists that are not about images to train from.
const OTHERS: [&str; 21] = [
    "checksum",
    "checksums",
    "class",
    "classes",
    "eval",
    "exif",
    "license",
    "log",
    "logs",
    "md",
    "partition",
    "pred",
    "prediction",
    "predictions",
    "readme",
    "requirements",
    "results",
    "sha",
    "submission",
    "sums",
    "trans",
];

/// Extension of lists of captions: `results_20130124.token` (Flickr30k).
const CAPTIONS: &str = ".token";

/// Whether a list of this name is not about images to train from.
pub(super) fn is_other(name: &str) -> bool {
    !name.ends_with(CAPTIONS) && words(stem(name).as_bytes()).iter().any(|word| OTHERS.contains(&word.as_str()))
}

/// The split that a list in `folder` is named after, and the name of the list without the word.
pub(super) fn split_of(look: &Look<'_>, list: &str, folder: &str) -> Option<(String, String)> {
    let own = words(stem(list).as_bytes()).into_iter().find(|word| look.is_split(word));
    let of_folder = || folder.rsplit('/').next().filter(|name| look.is_split(name)).map(str::to_owned);
    match own {
        Some(split) => {
            let form = list.replacen(&split, "", 1);
            Some((split, form))
        }
        None => of_folder().map(|split| (split, list.to_owned())),
    }
}

/// Whether a split is for training.
pub(super) fn is_train(split: &str) -> bool {
    Likeness::classify(split.as_bytes()).word() == Some("train")
}
