//! Names that people give to fields of labels and classes: one table for columns of lists and parquet, members of JSON, features,
//! keys of maps, columns of MDS and datasets.
//!
//! Holds at all times: a name is matched as a whole, letters in any case; `label_noise` is no label.

/// Names of fields that hold the label, the likeliest first.
pub const LABELS: [&str; 16] = [
    "label",
    "labels",
    "label_id",
    "class_id",
    "category_id",
    "class",
    "cls",
    "category",
    "gt_label",
    "target",
    "targets",
    "class_name",
    "classname",
    "label_name",
    "category_name",
    "y",
];
/// Names whose text can be anything: a translation, a caption.
const SENTENCES: [&str; 3] = ["target", "targets", "y"];
/// Names of fields of text that hold the name of the class alone, beside labels that are numbers.
pub const CLASSES: [&str; 3] = ["class_name", "classname", "class"];

/// The place of `name` among `names`: smaller is likelier.
pub fn rank(name: &str, names: &[&str]) -> Option<usize> {
    let name = name.trim();
    names.iter().position(|known| known.eq_ignore_ascii_case(name))
}

/// Whether fields of this name hold labels.
pub fn is_label(name: &str) -> bool {
    rank(name, &LABELS).is_some()
}

/// Whether text in a field of this name is a class; it has to be one of [`LABELS`].
pub fn is_class_in_words(name: &str) -> bool {
    is_label(name) && rank(name, &SENTENCES).is_none()
}

/// Those of `fields` that are called as `names` say, the likeliest first: each with its place among `fields`. Of two that
/// differ in case alone the first comes first.
pub fn ranked<'f>(fields: impl Iterator<Item = &'f str>, names: &[&str]) -> Vec<(usize, &'f str)> {
    let found = fields.enumerate().filter_map(|(at, field)| Some((rank(field, names)?, at, field)));
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    found.into_iter().map(|(_, at, field)| (at, field)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_words_in_any_case() {
        for name in ["label", "Label", "LABELS", "class_id", "Class_Name", " category ", "y", "Y"] {
            assert!(is_label(name), "{name}");
        }
        for name in ["label_noise", "labels2", "my_label", "width", "yy", "", "classes"] {
            assert!(!is_label(name), "{name}");
        }
        assert!(is_class_in_words("Category") && !is_class_in_words("Target") && !is_class_in_words("caption"));
    }

    #[test]
    fn the_likeliest_comes_first_and_of_equals_the_first() {
        let of = |names: &[&'static str]| ranked(names.iter().copied(), &LABELS);
        assert_eq!(of(&["y", "width", "Label"]), [(2, "Label"), (0, "y")]);
        assert_eq!(of(&["Label", "label"]), [(0, "Label"), (1, "label")]);
        assert_eq!(of(&["category_name", "category_id"]), [(1, "category_id"), (0, "category_name")]);
        assert!(CLASSES.iter().all(|name| is_label(name)));
    }
}
