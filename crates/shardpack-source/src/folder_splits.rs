//! Splits by a folder inside a source: `--splits 'images/{split}'` for `images/train/1.jpg` and `images/val/2.jpg`.

use std::fmt;

use shardpack_format::{Error, Result, splits};

use super::names;

/// Stands for the name of the split.
const SPLIT: &str = "{split}";

/// Folders whose names are splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderSplits {
    /// The pattern.
    text: String,
    /// The parts of the path above `{split}`; `*` is any name.
    above: Vec<String>,
    /// The text around `{split}` in its part.
    around: (String, String),
}

impl FolderSplits {
    /// Whether `text` is a pattern, and no list of names.
    pub fn is_pattern(text: &str) -> bool {
        text.contains('{')
    }

    /// Parses a path with `{split}` in its last part.
    ///
    /// # Errors
    /// If the pattern is invalid.
    pub fn new(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::usage(format!("--splits {text:?}: {what}"));
        let parts: Vec<&str> = text.split('/').collect();
        let Some((last, above)) = parts.split_last() else { return Err(wrong("an empty pattern")) };
        if parts.iter().any(|part| ["", ".", ".."].contains(part)) {
            return Err(wrong("a pattern is a path in the source, without empty parts, . or .."));
        }
        let around = last.split_once(SPLIT).filter(|_| above.iter().all(|part| !part.contains(['{', '}'])));
        let Some((before, after)) =
            around.filter(|(before, after)| ![before, after].iter().any(|text| text.contains(['{', '}', '*'])))
        else {
            return Err(wrong("the last folder of a pattern has {split} once, as in images/{split}"));
        };
        if above.iter().any(|part| part.contains('*') && *part != "*") {
            return Err(wrong("* stands for a whole folder"));
        }
        let above = above.iter().map(|part| (*part).to_owned()).collect();
        Ok(Self { text: text.to_owned(), above, around: (before.to_owned(), after.to_owned()) })
    }

    /// The split of the file at `path` in the source; `None` if the pattern matches none of its folders, or the name can be no split's.
    pub fn split_of<'p>(&self, path: &'p [u8]) -> Option<&'p str> {
        let name = std::str::from_utf8(self.name_in(names::cut(path).0)?).ok()?;
        splits::check_name(name).is_ok().then_some(name)
    }

    /// The name that stands for `{split}` in the path of a folder, whether a split can have it or not.
    pub fn name_in<'p>(&self, folder: &'p [u8]) -> Option<&'p [u8]> {
        let mut parts = folder.split(|byte| *byte == b'/');
        let matches = |part: &String| parts.next().is_some_and(|name| is_like(part, name));
        self.above.iter().all(matches).then(|| self.inside(parts.next()?)).flatten()
    }

    /// Whether a folder at `path` is above a split, or a split: if it cannot be read, images of splits may be missing.
    pub fn may_hold_splits(&self, path: &[u8]) -> bool {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let is_above = parts.iter().zip(&self.above).all(|(name, part)| is_like(part, name));
        is_above
            && parts
                .get(self.above.len())
                .is_none_or(|name| parts.len() == self.above.len() + 1 && self.inside(name).is_some())
    }

    /// The name of the split in the name of its folder.
    fn inside<'p>(&self, name: &'p [u8]) -> Option<&'p [u8]> {
        let (before, after) = &self.around;
        let name = name.strip_prefix(before.as_bytes())?.strip_suffix(after.as_bytes())?;
        Some(name).filter(|name| !name.is_empty())
    }
}

/// Whether a folder is called as this part of a pattern.
fn is_like(part: &str, name: &[u8]) -> bool {
    part == "*" || part.as_bytes() == name
}

impl fmt::Display for FolderSplits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_folder_may_hold_splits() {
        let splits = FolderSplits::new("*/images/{split}_set").unwrap();
        for (path, may) in [
            ("", true),
            ("a", true),
            ("a/images", true),
            ("a/images/val_set", true),
            ("a/labels", false),
            ("a/images/val", false),
            ("a/images/val_set/1.jpg", false),
        ] {
            assert_eq!(splits.may_hold_splits(path.as_bytes()), may, "{path}");
        }
    }

    #[test]
    fn a_folder_in_the_path_is_the_split() {
        for (pattern, path, split) in [
            ("images/{split}", "images/train/1.jpg", Some("train")),
            ("images/{split}", "images/train/a/1.jpg", Some("train")),
            ("images/{split}", "images/1.jpg", None),
            ("images/{split}", "labels/train/1.jpg", None),
            ("{split}", "val/1.jpg", Some("val")),
            ("*/{split}", "left/val/aachen/1.png", Some("val")),
            ("data/{split}_images", "data/train_images/1.png", Some("train")),
            ("data/{split}_images", "data/_images/1.png", None),
            ("data/{split}", "data/a b/1.png", None),
        ] {
            assert_eq!(FolderSplits::new(pattern).unwrap().split_of(path.as_bytes()), split, "{pattern} {path}");
        }
        for wrong in [
            "",
            "images",
            "/{split}",
            "a//{split}",
            "../{split}",
            "{split}/x",
            "{split}{split}",
            "a*/{split}",
            "{x}",
            "a/{split",
        ] {
            assert!(FolderSplits::new(wrong).is_err(), "{wrong}");
        }
    }
}
