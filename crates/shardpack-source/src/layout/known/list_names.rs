//! Names of lists that are not about images to train from: licences, predictions, lists of classes.

use super::{super::split_names::words, stem};

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
