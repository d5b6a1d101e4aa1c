//! Classifies arrays by their names: the role of their rows, and their split.

use shardpack_format::{
    field_names::{self, LABELS},
    splits::KNOWN,
};

/// Names of arrays of images, the likeliest first.
pub(crate) const IMAGES: [&str; 13] = [
    "images",
    "image",
    "imgs",
    "img",
    "x",
    "data",
    "features",
    "image_features",
    "jpegs",
    "jpeg",
    "encoded",
    "bytes",
    "pixels",
];
/// The same of names of the images' files.
pub(crate) const FILENAMES: [&str; 8] =
    ["filenames", "filename", "file_names", "file_name", "paths", "path", "names", "keys"];
/// The same of names of the classes, in the order of labels.
pub(crate) const CLASSES: [&str; 5] = ["classes", "class_names", "label_names", "list_classes", "categories"];
/// The same of the axes of images that are stored as pixels end to end.
pub(crate) const SHAPES: [&str; 3] = ["shapes", "shape", "sizes"];
/// The words of a name, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn is_split(word: &str) -> bool {
    KNOWN.contains(&word)
}

/// The split that a path names: `train` of `x_train` and of `train/images`.
pub(crate) fn split(path: &str) -> Option<String> {
    words(path).find(|word| is_split(word))
}

/// Index in `names` of a name that equals the last path component that is no split, or a word in it; smaller is likelier.
pub(crate) fn rank(path: &str, names: &[&str]) -> Option<usize> {
    let words = own_words(path);
    let place = |name: &str| names.iter().position(|known| *known == name);
    let whole = place(&words.join("_")).map(|place| 2 * place);
    whole.or_else(|| words.iter().filter_map(|word| place(word)).min().map(|place| 2 * place + 1))
}

/// Rank of a path among the names of labels. The whole name has to match, words for splits apart.
pub(crate) fn label_rank(path: &str) -> Option<usize> {
    field_names::rank(&own_words(path).join("_"), &LABELS)
}

/// The words of the last part of a path that is not a split, but for splits: `y` of `train_set_y`.
pub(crate) fn own_words(path: &str) -> Vec<String> {
    let own = |part: &str| {
        let is_of_split = part.split('_').any(|word| is_split(&word.to_lowercase()));
        words(part).filter(|word| !(is_split(word) || is_of_split && word == "set")).collect::<Vec<_>>()
    };
    let parts = path.rsplit('/').map(own);
    parts.into_iter().find(|words| !words.is_empty()).unwrap_or_default()
}

/// Whether a path is called like one of `names`, but for splits.
pub(crate) fn is_called(path: &str, names: &[&str]) -> bool {
    names.contains(&own_words(path).join("_").as_str())
}

/// Whether the last word of a path is one of `names`, but for splits.
pub(crate) fn ends_in(path: &str, names: &[&str]) -> bool {
    own_words(path).last().is_some_and(|word| names.contains(&word.as_str()))
}

/// The group that a path is in.
pub(crate) fn group_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_are_for_and_of_which_split() {
        assert!(rank("images", &IMAGES) < rank("image_features", &IMAGES));
        assert_eq!(rank("imgs", &IMAGES), Some(4));
        assert_eq!(rank("a/X_train", &IMAGES), rank("train/x", &IMAGES));
        assert_eq!(rank("images/train", &IMAGES), rank("images", &IMAGES));
        assert_eq!(label_rank("train_set_y"), label_rank("y"));
        assert!(label_rank("Y_train").is_some() && label_rank("train/Label").is_some());
        assert_eq!([label_rank("label_noise"), label_rank("image_labels"), label_rank("train")], [None; 3]);
        assert_eq!(rank("masks", &IMAGES), None);
        assert_eq!(rank("train", &IMAGES), None);
        assert!(ends_in("image_labels", &LABELS) && !ends_in("class_weights", &LABELS));
        assert_eq!(split("x_train").as_deref(), Some("train"));
        assert_eq!(split("val/images").as_deref(), Some("val"));
        assert_eq!(split("constraint"), None);
    }
}
