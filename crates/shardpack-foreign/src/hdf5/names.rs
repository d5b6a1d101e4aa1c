//! What a file has, by name: its groups and datasets, and what their names say of what they are for.

use std::collections::BTreeSet;

use hdf5_reader::Hdf5File;
use shardpack_format::{Error, Result, splits::KNOWN};

use super::open;

/// Names of datasets of images, the likeliest first.
pub(super) const IMAGES: [&str; 13] = [
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
/// The same of labels.
pub(super) const LABELS: [&str; 10] =
    ["labels", "label", "targets", "target", "y", "class", "cls", "class_id", "category", "classes"];
/// The same of names of the images' files.
pub(super) const FILENAMES: [&str; 8] =
    ["filenames", "filename", "file_names", "file_name", "paths", "path", "names", "keys"];
/// The same of names of the classes, in the order of labels.
pub(super) const CLASSES: [&str; 5] = ["classes", "class_names", "label_names", "list_classes", "categories"];
/// The same of the axes of images that are stored as pixels end to end.
pub(super) const SHAPES: [&str; 3] = ["shapes", "shape", "sizes"];
/// How deep groups may be nested.
const MOST_DEPTH: usize = 16;

/// A group, and the names of the datasets right in it.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// Empty for the root; else without a slash at either end.
    pub group: String,
    /// In the order of names.
    pub datasets: Vec<String>,
}

impl Members {
    /// The path of a member.
    pub fn path(&self, name: &str) -> String {
        join(&self.group, name)
    }
}

pub(super) fn join(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// All groups that have datasets or nothing in them, each once.
///
/// # Errors
/// When the file is damaged, or groups are nested too deep.
pub(super) fn list(file: &Hdf5File) -> Result<Vec<Members>> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    // The next one last.
    let mut rest = vec![(String::new(), 0, file.root_group().map_err(open::told)?)];
    while let Some((path, depth, group)) = rest.pop() {
        // A link may lead back.
        if !seen.insert(group.address()) {
            continue;
        }
        if depth > MOST_DEPTH {
            return Err(Error::data(format!("groups in groups, {depth} deep, as at {path}")));
        }
        let (mut groups, mut datasets) = group.member_names().map_err(|error| {
            open::told(error)
                .help("groups of more than about 20000 members, as h5py writes them with libver=\"latest\", are not read: write it without")
        })?;
        groups.sort_unstable();
        datasets.sort_unstable();
        let is_empty = groups.is_empty() && !path.is_empty();
        for name in groups.into_iter().rev() {
            let inner = group.group(&name).map_err(open::told)?;
            rest.push((join(&path, &name), depth + 1, inner));
        }
        if !datasets.is_empty() || is_empty {
            found.push(Members { group: path, datasets });
        }
    }
    Ok(found)
}

/// The words of a name, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn is_split(word: &str) -> bool {
    KNOWN.contains(&word)
}

/// The split that a path names: `train` of `x_train` and of `train/images`.
pub(super) fn split(path: &str) -> Option<String> {
    words(path).find(|word| is_split(word))
}

/// The place of a path among `names`, one of which is its last part that is not a split, or is a word of it; smaller is
/// likelier.
pub(super) fn rank(path: &str, names: &[&str]) -> Option<usize> {
    let words = own_words(path);
    let place = |name: &str| names.iter().position(|known| *known == name);
    let whole = place(&words.join("_")).map(|place| 2 * place);
    whole.or_else(|| words.iter().filter_map(|word| place(word)).min().map(|place| 2 * place + 1))
}

/// The words of the last part of a path that is not a split, but for splits.
pub(super) fn own_words(path: &str) -> Vec<String> {
    let parts = path.rsplit('/').map(|part| words(part).filter(|word| !is_split(word)).collect::<Vec<_>>());
    parts.into_iter().find(|words| !words.is_empty()).unwrap_or_default()
}

/// Whether a path is called like one of `names`, but for splits.
pub(super) fn is_called(path: &str, names: &[&str]) -> bool {
    names.contains(&own_words(path).join("_").as_str())
}

/// Whether the last word of a path is one of `names`, but for splits.
pub(super) fn ends_in(path: &str, names: &[&str]) -> bool {
    own_words(path).last().is_some_and(|word| names.contains(&word.as_str()))
}

/// The group that a path is in.
pub(super) fn group_of(path: &str) -> &str {
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
        assert!(rank("train_set_y", &LABELS).is_some());
        assert_eq!(rank("masks", &IMAGES), None);
        assert_eq!(rank("train", &IMAGES), None);
        assert!(is_called("train/labels", &LABELS) && is_called("y_train", &LABELS));
        assert!(ends_in("image_labels", &LABELS) && !is_called("image_labels", &LABELS));
        assert!(!ends_in("class_weights", &LABELS));
        assert_eq!(split("x_train").as_deref(), Some("train"));
        assert_eq!(split("val/images").as_deref(), Some("val"));
        assert_eq!(split("constraint"), None);
    }
}
