//! Lists the groups and datasets of a file and classifies them by name.

use std::collections::BTreeSet;

use hdf5_reader::{Hdf5File, group::Group};
use shardpack_format::{
    Error, Result,
    field_names::{self, LABELS},
    splits::KNOWN,
};

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
/// The same of names of the images' files.
pub(super) const FILENAMES: [&str; 8] =
    ["filenames", "filename", "file_names", "file_name", "paths", "path", "names", "keys"];
/// The same of names of the classes, in the order of labels.
pub(super) const CLASSES: [&str; 5] = ["classes", "class_names", "label_names", "list_classes", "categories"];
/// The same of the axes of images that are stored as pixels end to end.
pub(super) const SHAPES: [&str; 3] = ["shapes", "shape", "sizes"];
/// Groups of a MATLAB 7.3 file without variables: they hold the targets of references from cells and objects.
const MATLABS: [&str; 2] = ["#refs#", "#subsystem#"];
/// How deep groups may be nested.
const MAX_DEPTH: usize = 16;

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

/// All groups with datasets, and all empty groups, each once.
///
/// # Errors
/// If the file is corrupt, or groups are nested too deep.
pub(super) fn list(file: &Hdf5File) -> Result<Vec<Members>> {
    let mut found = Vec::new();
    each_group(file, &mut |path, _, groups, datasets| {
        if !datasets.is_empty() || groups.is_empty() && !path.is_empty() {
            found.push(Members { group: path.to_owned(), datasets: datasets.to_vec() });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Callback for each group: its path, and the names of the groups and of the datasets directly in it.
pub(super) type Look<'l> = &'l mut dyn FnMut(&str, &Group, &[String], &[String]) -> Result<()>;

/// Shows `look` each group once, by path.
///
/// # Errors
/// If the file is corrupt, or groups are nested too deep; and when `look` fails.
pub(super) fn each_group(file: &Hdf5File, look: Look<'_>) -> Result<()> {
    let mut seen = BTreeSet::new();
    // The next one last.
    let mut rest = vec![(String::new(), 0, file.root_group().map_err(open::to_error)?)];
    while let Some((path, depth, group)) = rest.pop() {
        // A link may lead back.
        if !seen.insert(group.address()) {
            continue;
        }
        if depth > MAX_DEPTH {
            return Err(Error::data(format!("groups in groups, {depth} deep, as at {path}")));
        }
        let (mut groups, mut datasets) = group.member_names().map_err(|error| match open::child(&error) {
            Some((child, what)) => Error::data(format!("dataset {}: {what}", join(&path, &child))),
            None => open::to_error(error)
                .help("groups of more than about 20000 members, as h5py writes them with libver=\"latest\", are not read: write it without"),
        })?;
        groups.retain(|name| depth > 0 || !MATLABS.contains(&name.as_str()));
        groups.sort_unstable();
        datasets.sort_unstable();
        look(&path, &group, &groups, &datasets)?;
        for name in groups.into_iter().rev() {
            let inner = group.group(&name).map_err(open::to_error)?;
            rest.push((join(&path, &name), depth + 1, inner));
        }
    }
    Ok(())
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

/// Index in `names` of a name that equals the last path component that is no split, or a word in it; smaller is likelier.
pub(super) fn rank(path: &str, names: &[&str]) -> Option<usize> {
    let words = own_words(path);
    let place = |name: &str| names.iter().position(|known| *known == name);
    let whole = place(&words.join("_")).map(|place| 2 * place);
    whole.or_else(|| words.iter().filter_map(|word| place(word)).min().map(|place| 2 * place + 1))
}

/// Rank of a path among the names of labels. The whole name has to match, words for splits apart.
pub(super) fn label_rank(path: &str) -> Option<usize> {
    field_names::rank(&own_words(path).join("_"), &LABELS)
}

/// The words of the last part of a path that is not a split, but for splits: `y` of `train_set_y`.
pub(super) fn own_words(path: &str) -> Vec<String> {
    let own = |part: &str| {
        let is_of_split = part.split('_').any(|word| is_split(&word.to_lowercase()));
        words(part).filter(|word| !(is_split(word) || is_of_split && word == "set")).collect::<Vec<_>>()
    };
    let parts = path.rsplit('/').map(own);
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
