//! Splits by a folder inside a source: `--splits 'images/{split}'` for `images/train/1.jpg` and `images/val/2.jpg`.

use std::fmt;

use shardpack_format::{Error, Result, splits};

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
        let name = std::str::from_utf8(self.name_of(path)?).ok()?;
        splits::check_name(name).is_ok().then_some(name)
    }

    /// The name that stands for `{split}` in `path`, whether a split can have it or not.
    pub fn name_of<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let mut parts = path.split(|byte| *byte == b'/');
        let matches = |part: &String| parts.next().is_some_and(|name| part == "*" || part.as_bytes() == name);
        if !self.above.iter().all(matches) {
            return None;
        }
        let name = parts.next()?;
        // The last part is the file.
        parts.next()?;
        let name = name.strip_prefix(self.around.0.as_bytes())?.strip_suffix(self.around.1.as_bytes())?;
        Some(name).filter(|name| !name.is_empty())
    }
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
