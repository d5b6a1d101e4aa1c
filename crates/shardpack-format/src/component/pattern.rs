//! Patterns of `--with`: the file of a component, from the folder and the name of an image.
//!
//! `*.txt` is a file beside the image. A pattern with `/` or `{…}` is a path relative to the image's folder, so that images and their masks
//! can be in folders side by side.

/// Stands for the name of the image without its extension, as `{stem}` does.
const STEM: char = '*';
/// Placeholders: the name of the image without its extension, its whole name, the path of its folder in the source, and the name of its folder.
const PLACEHOLDERS: [&str; 4] = ["{stem}", "{name}", DIR, "{parent}"];
const DIR: &str = "{dir}";

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// A file in the folder of the image: the text before and after the stem.
    Beside(String, String),
    /// A path relative to the folder of the image.
    Path(PathPattern),
}

/// See [`Pattern::Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathPattern {
    /// The pattern, with `{stem}` in place of `*`.
    text: String,
    /// Number of `..` at its start.
    up: usize,
    /// The parts after `..`; the last one is the file.
    parts: Vec<String>,
}

impl Pattern {
    /// Parses a pattern; fails with the reason.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains([',', '=']) {
            return Err("a pattern has no , and no =");
        }
        if text.contains(['/', '{', '}']) {
            return PathPattern::parse(text).map(Self::Path);
        }
        match text.split_once(STEM) {
            Some((before, after)) if text.len() > 1 && !after.contains(STEM) => {
                Ok(Self::Beside(before.to_owned(), after.to_owned()))
            }
            _ => Err("a pattern has one *, which stands for the image's name without its extension"),
        }
    }

    /// The extension of its files, if the pattern has one.
    pub fn extension(&self) -> Option<&str> {
        let last = match self {
            Self::Beside(_, after) => after,
            Self::Path(path) => path.parts.last()?,
        };
        last.rsplit_once('.').map(|(_, extension)| extension).filter(|extension| !extension.contains('}'))
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Beside(before, after) => write!(f, "{before}{STEM}{after}"),
            Self::Path(path) => f.write_str(&path.text),
        }
    }
}

impl PathPattern {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let full = text.replace(STEM, PLACEHOLDERS[0]);
        let up = full.split('/').take_while(|part| *part == "..").count();
        let parts: Vec<String> = full.split('/').skip(up).map(str::to_owned).collect();
        if parts.iter().any(|part| ["", ".", ".."].contains(&part.as_str())) {
            return Err(
                "a path in a pattern is relative to the image's folder: it may begin with ../, and has no empty parts, . or .. further on",
            );
        }
        if parts.iter().any(|part| !is_balanced(part)) {
            return Err(
                "a pattern knows {stem}, {name}, {dir} and {parent}: the image's name without and with its extension, the path of its folder in the source, and the name of this folder",
            );
        }
        if !parts.iter().any(|part| part.contains(PLACEHOLDERS[0]) || part.contains(PLACEHOLDERS[1])) {
            return Err("a pattern names the image by *, {stem} or {name}");
        }
        if parts.iter().any(|part| part.contains(DIR) && part != DIR)
            || parts.iter().filter(|part| *part == DIR).count() > 1
        {
            return Err("{dir} is a part of the path by itself, between slashes, and once");
        }
        if up == 0 && parts == ["{name}"] {
            return Err("a pattern gives another file than the image");
        }
        Ok(Self { text: full, up, parts })
    }

    /// The path of the file for the image `name` in `folder`, both in the source; `None` if it leads out of the source.
    pub fn path_of(&self, folder: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let mut at: Vec<&[u8]> = folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let parent = at.last().copied().unwrap_or_default();
        at.truncate(at.len().checked_sub(self.up)?);
        let filled = self.parts.iter().map(|part| filled(part, [super::stem(name), name, folder, parent]));
        let filled: Vec<_> = filled.filter(|part| !part.is_empty()).collect();
        Some(at.into_iter().chain(filled.iter().map(Vec::as_slice)).collect::<Vec<_>>().join(&b'/'))
    }

    /// Whether the file `file` in `folder` can belong to an image: folder and name match the pattern.
    ///
    /// A pattern that names no folder and no file of its own matches files in the image's folder only: `../{stem}.png` may name images.
    pub fn takes(&self, folder: &[u8], file: &[u8]) -> bool {
        let Some((last, folders)) = self.parts.split_last() else { return false };
        let is_open = self.up > 0 && last.contains('{') && !folders.iter().any(|part| has_text(part));
        !is_open && matches(last, file) && self.takes_folder(folders, folder)
    }

    /// Whether `folder` can have files of images: it ends with `folders`, the parts of the pattern before the file.
    fn takes_folder(&self, folders: &[String], folder: &[u8]) -> bool {
        let names: Vec<&[u8]> = folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let are_like =
            |parts: &[String], names: &[&[u8]]| parts.iter().zip(names).all(|(part, name)| matches(part, name));
        let Some(at) = folders.iter().position(|part| part == DIR) else {
            return names.len() >= folders.len() && are_like(folders, &names[names.len() - folders.len()..]);
        };
        let (before, after) = (&folders[..at], &folders[at + 1..]);
        // The folder of the image stands in it as a whole, and without its last `up` names at the start.
        (0..names.len()).any(|start| {
            let Some(image) = names.get(start + before.len()..names.len().saturating_sub(after.len())) else {
                return false;
            };
            let is_start = image.len().checked_sub(self.up).is_some_and(|above| image[..above] == names[..start]);
            is_start && are_like(before, &names[start..]) && are_like(after, &names[names.len() - after.len()..])
        })
    }

    /// Whether the first-level folder `name` of a source has files of this pattern: `masks` of `../masks/{stem}.png`.
    pub fn has_folder(&self, name: &[u8]) -> bool {
        let Some((first, [_, ..])) = self.parts.split_first() else { return false };
        self.up > 0 && has_text(first) && matches(first, name)
    }
}

/// Whether `part` has text that is no placeholder.
fn has_text(part: &str) -> bool {
    !PLACEHOLDERS.iter().fold(part.to_owned(), |part, known| part.replace(known, "")).is_empty()
}

/// Whether braces in `part` only enclose placeholders.
fn is_balanced(part: &str) -> bool {
    !PLACEHOLDERS.iter().fold(part.to_owned(), |part, known| part.replace(known, "")).contains(['{', '}'])
}

/// `part` with the values of the placeholders.
fn filled(part: &str, values: [&[u8]; 4]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), part);
    while let Some(at) = rest.find('{') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let known = PLACEHOLDERS.iter().zip(values).find(|(known, _)| rest[at..].starts_with(**known));
        let Some((known, value)) = known else { break };
        out.extend_from_slice(value);
        rest = &rest[at + known.len()..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// Whether `name` is `part` with any values of its placeholders, which are not empty.
fn matches(part: &str, name: &[u8]) -> bool {
    let mut fixed = vec![String::new()];
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('{') {
        if let Some(last) = fixed.last_mut() {
            last.push_str(before);
        }
        fixed.push(String::new());
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    if let Some(last) = fixed.last_mut() {
        last.push_str(rest);
    }
    let [first, middle @ .., last] = fixed.as_slice() else { return name == part.as_bytes() };
    let Some(mut inside) = name.strip_prefix(first.as_bytes()).and_then(|rest| rest.strip_suffix(last.as_bytes()))
    else {
        return false;
    };
    for fixed in middle {
        // At least one byte is the value of the placeholder before.
        let found = (1..=inside.len()).find(|at| inside[*at..].starts_with(fixed.as_bytes()));
        let Some(at) = found else { return false };
        inside = &inside[at + fixed.len()..];
    }
    !inside.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> PathPattern {
        match Pattern::parse(text) {
            Ok(Pattern::Path(path)) => path,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_pattern_gives_the_file_of_an_image() {
        let rows: [(&str, &str, &str, Option<&str>); 9] = [
            ("../masks/{stem}.png", "images", "1.jpg", Some("masks/1.png")),
            ("../masks/*.png", "a/images", "1.b.jpg", Some("a/masks/1.b.png")),
            ("../../labels/{parent}/{stem}.txt", "images/train", "1.jpg", Some("labels/train/1.txt")),
            ("../meta/{name}.json", "images", "1.jpg", Some("meta/1.jpg.json")),
            ("../../masks/{dir}/{stem}_m.png", "a/b", "1.jpg", Some("masks/a/b/1_m.png")),
            ("{name}.txt", "images", "1.jpg", Some("images/1.jpg.txt")),
            ("texts/{stem}.txt", "", "1.jpg", Some("texts/1.txt")),
            ("../masks/{stem}.png", "", "1.jpg", None),
            ("../../masks/{stem}/{stem}.png", "a/b", "x", Some("masks/x/x.png")),
        ];
        for (pattern, folder, name, expected) in rows {
            let found = path(pattern).path_of(folder.as_bytes(), name.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{pattern}");
            assert_eq!(Pattern::parse(pattern).unwrap().to_string(), pattern.replace('*', "{stem}"));
        }
        for wrong in [
            "",
            "x",
            "*",
            "a/b.png",
            "/m/*.png",
            "a//*.png",
            "a/../*.png",
            "./*.png",
            "{x}.png",
            "{stem.png",
            "../{dir}.png",
            "*/",
            "*a*",
            "a,*",
        ] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_known_as_a_companion_by_its_folder_and_name() {
        let rows = [
            ("../masks/{stem}.png", "masks", "1.png", true),
            ("../masks/{stem}.png", "a/masks", "1.png", true),
            ("../masks/{stem}.png", "images", "1.png", false),
            ("../masks/{stem}.png", "masks", "1.jpg", false),
            ("../masks/{stem}.png", "masks", ".png", false),
            ("../../labels/{parent}/{stem}.txt", "labels/train", "1.txt", true),
            ("../../labels/{parent}/{stem}.txt", "images/train", "1.txt", false),
            ("../{stem}.png", "images", "1.png", false),
            ("{name}.txt", "images", "1.jpg.txt", true),
            ("../../masks/{dir}/{stem}.png", "masks/a/b", "1.png", true),
            ("../../masks/{dir}/{stem}.png", "a/b", "1.png", false),
            ("../../masks/{dir}/{stem}.png", "other/a/b", "1.png", false),
            ("../masks/{dir}/{stem}.png", "masks/images", "1.png", true),
            ("../masks/{dir}/{stem}.png", "images", "1.png", false),
            ("../masks/{dir}/{stem}.png", "a/masks/a/b", "1.png", true),
            ("../masks/{dir}/{stem}.png", "b/masks/a/b", "1.png", false),
            ("masks/{dir}/x/{stem}.png", "a/masks/a/x", "1.png", true),
            ("../{parent}_masks/{stem}.png", "x_masks", "1.png", true),
            ("../{parent}_masks/{stem}.png", "x", "1.png", false),
            ("../{stem}/mask.png", "1", "mask.png", true),
            ("../m/{stem}_{parent}.png", "m", "1_x.png", true),
            ("../m/{stem}_{parent}.png", "m", "1_.png", false),
        ];
        for (pattern, folder, file, expected) in rows {
            assert_eq!(path(pattern).takes(folder.as_bytes(), file.as_bytes()), expected, "{pattern} {folder}/{file}");
        }
        for (pattern, folder, expected) in [
            ("../masks/{stem}.png", "masks", true),
            ("../masks/{stem}.png", "images", false),
            ("../../labels/{parent}/{stem}.txt", "labels", true),
            ("../{parent}_masks/{stem}.png", "x_masks", true),
            ("../{stem}.png", "x", false),
            ("../{parent}/{stem}.png", "x", false),
            ("m/{stem}.png", "m", false),
        ] {
            assert_eq!(path(pattern).has_folder(folder.as_bytes()), expected, "{pattern} {folder}");
        }
    }
}
