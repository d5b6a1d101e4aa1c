//! Detects split words in folder names: `training_set`, `seg_train`, `train2017`, `testA`, `fold_1`.
//!
//! Only whole words match; words end at non-letters and before capitals. The other words decide the certainty: `images`
//! goes with sets of files, `bullet` with trains.

use shardpack_format::splits::KNOWN;

/// Split words and their meaning.
const SPLIT_WORDS: [(&str, &str); 18] = [
    ("train", "train"),
    ("training", "train"),
    ("trainval", "train"),
    ("val", "val"),
    ("valid", "val"),
    ("validate", "val"),
    ("validation", "val"),
    ("minival", "val"),
    ("dev", "dev"),
    ("development", "dev"),
    ("eval", "eval"),
    ("evaluation", "eval"),
    ("test", "test"),
    ("tests", "test"),
    ("testing", "test"),
    ("holdout", "test"),
    ("fold", "fold"),
    ("folds", "fold"),
];

/// Words for sets of files and for their content.
const SET_WORDS: [&str; 55] = [
    "all",
    "annot",
    "annotation",
    "annotations",
    "annots",
    "aug",
    "augmented",
    "balanced",
    "class",
    "classes",
    "clean",
    "crop",
    "cropped",
    "crops",
    "data",
    "dataset",
    "depth",
    "dir",
    "files",
    "final",
    "folder",
    "full",
    "gt",
    "hr",
    "image",
    "images",
    "img",
    "imgs",
    "input",
    "jpeg",
    "jpg",
    "label",
    "labels",
    "large",
    "lr",
    "mask",
    "masks",
    "mini",
    "new",
    "orig",
    "original",
    "part",
    "photos",
    "png",
    "raw",
    "resized",
    "rgb",
    "sample",
    "samples",
    "seg",
    "segmentation",
    "set",
    "small",
    "split",
    "target",
];

/// How closely a folder name resembles a split name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// No split word.
    Other,
    /// A split word beside unrelated words, as in `bullet_train`.
    Part(&'static str),
    /// A split word alone or beside words for sets of files, as in `train_images`.
    Set(&'static str),
    /// A known split name, in any case.
    Exact(&'static str),
}

impl Likeness {
    /// Classifies the folder name `name`.
    pub fn classify(name: &[u8]) -> Self {
        let words = words(name);
        let Some(split) = words.iter().find_map(|word| split_of(word)) else { return Self::Other };
        if KNOWN.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name)) {
            return Self::Exact(split);
        }
        let is_of_sets =
            |word: &String| word.len() == 1 || SET_WORDS.contains(&word.as_str()) || split_of(word).is_some();
        // A fold has a number.
        let is_whole = split != "fold" || name.iter().any(u8::is_ascii_digit);
        if is_whole && words.iter().all(is_of_sets) { Self::Set(split) } else { Self::Part(split) }
    }

    /// Whether the name can only mean a split or a set of files.
    pub fn is_sure(self) -> bool {
        matches!(self, Self::Exact(_) | Self::Set(_))
    }

    /// The meaning of the split word.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Other => None,
            Self::Part(word) | Self::Set(word) | Self::Exact(word) => Some(word),
        }
    }
}

/// The words of a name, in lower case.
pub(super) fn words(name: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, byte) in name.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| name[before]);
        let next = name.get(at + 1);
        let begins = byte.is_ascii_uppercase()
            && (before.is_some_and(|before| before.is_ascii_lowercase())
                || before.is_some_and(|before| before.is_ascii_uppercase())
                    && next.is_some_and(u8::is_ascii_lowercase));
        if (begins || !byte.is_ascii_alphabetic()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if byte.is_ascii_alphabetic() {
            word.push(byte.to_ascii_lowercase() as char);
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// The meaning of a split word, also if it is joined to a word for sets: `trainannot`, `segtrain`.
fn split_of(word: &str) -> Option<&'static str> {
    let rest_is_of_sets = |rest: Option<&str>| rest.is_some_and(|rest| rest.is_empty() || SET_WORDS.contains(&rest));
    let is = |split: &str| rest_is_of_sets(word.strip_prefix(split)) || rest_is_of_sets(word.strip_suffix(split));
    SPLIT_WORDS.iter().find(|(split, _)| is(split)).map(|(_, means)| *means)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_told_by_the_words_of_a_name() {
        use Likeness::{Exact, Other, Part, Set};
        let rows = [
            (Exact("train"), &["train", "Train", "training"][..]),
            (Exact("val"), &["val", "VALID", "validation", "minival"]),
            (
                Set("train"),
                &["training_set", "seg_train", "train2017", "trainA", "train_images", "trainannot", "segtrain"],
            ),
            (Set("train"), &["TrainSet", "X_train", "trainval", "train-256", "images_train2017", "RGBTrain", "trainB"]),
            (Set("test"), &["test_set", "testA", "test1", "tests", "holdout", "Test Images", "testdata"]),
            (Set("val"), &["val2017", "valid_512", "valannot"]),
            (Set("fold"), &["fold1", "Fold_02", "fold-3-of-5"][..2]),
            (Part("train"), &["bullet_train", "train station", "freightTrain", "training_shoes"]),
            (Part("test"), &["test_tube", "pregnancy-test"]),
            (Part("fold"), &["fold", "folds"]),
            (
                Other,
                &[
                    "trainer",
                    "contest",
                    "testament",
                    "valley",
                    "devil",
                    "evaluate",
                    "cat",
                    "",
                    "7",
                    "invalid",
                    "folder",
                ],
            ),
        ];
        for (expected, names) in rows {
            for name in names {
                assert_eq!(Likeness::classify(name.as_bytes()), expected, "{name}");
            }
        }
    }

    #[test]
    fn words_end_at_what_is_no_letter_and_where_capitals_begin() {
        for (name, expected) in [
            ("JPEGImages", &["jpeg", "images"][..]),
            ("SegmentationClass", &["segmentation", "class"]),
            ("leftImg8bit", &["left", "img", "bit"]),
            ("gt_Fine-2", &["gt", "fine"]),
            ("HR", &["hr"]),
        ] {
            assert_eq!(words(name.as_bytes()), expected, "{name}");
        }
    }
}
