//! Patterns of `--with`: the file of a component, from the folder and the name of an image.
//!
//! `*.txt` is a file beside the image. A pattern with `/` or `{…}` is a path relative to the image's folder, so that images and their masks
//! can be in folders side by side. A path that begins with another name in braces, as `{masks}/*.png`, is in a folder outside the source, which
//! has that name; so do the paths that it gives. `column:NAME` is the path in a column of a list.

/// Stands for the name of the image without its extension, as `{stem}` does.
const STEM: char = '*';

/// Start of the pattern for the paths in a column of a list.
const COLUMN: &str = "column:";

/// Most placeholders of a part of a path: a name can match them in many ways.
const MAX_PLACEHOLDERS: usize = 3;

/// A piece of a part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// As it is.
    Text(String),
    /// `{stem}`: the name of the image without its extension. `{stem-TEXT}`: also without TEXT at its end or start.
    Stem(Option<String>),
    /// `{name}`: the name of the image.
    Name,
    /// `{dir}`: the path of its folder in the source. `{dir-NAME}`: without the folder NAME at its start.
    Dir(Option<String>),
    /// `{parent}`: the name of its folder. `{parent-TEXT}`: without TEXT at its end or start.
    Parent(Option<String>),
    /// `{grandparent}`: the name of the folder above its folder, and `{grandparent-TEXT}`.
    Grandparent(Option<String>),
}

impl Piece {
    /// The pieces of a part of a path; `None` if a brace encloses something else.
    fn parse(part: &str) -> Option<Vec<Self>> {
        let (mut pieces, mut rest) = (Vec::new(), part);
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}')?;
            if !before.is_empty() {
                pieces.push(Self::Text(before.to_owned()));
            }
            pieces.push(match inside {
                "stem" => Self::Stem(None),
                "name" => Self::Name,
                "dir" => Self::Dir(None),
                "parent" => Self::Parent(None),
                "grandparent" => Self::Grandparent(None),
                other => {
                    let (name, text) = other.split_once('-').filter(|(_, text)| !text.is_empty())?;
                    match name {
                        "stem" => Self::Stem(Some(text.to_owned())),
                        "dir" => Self::Dir(Some(text.to_owned())),
                        "parent" => Self::Parent(Some(text.to_owned())),
                        "grandparent" => Self::Grandparent(Some(text.to_owned())),
                        _ => return None,
                    }
                }
            });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Self::Text(rest.to_owned()));
        }
        let is_closed = |piece: &Self| matches!(piece, Self::Text(text) if text.contains('}'));
        (!pieces.iter().any(is_closed)).then_some(pieces)
    }

    fn names_image(&self) -> bool {
        matches!(self, Self::Stem(_) | Self::Name)
    }
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// A file in the folder of the image: the text before and after the stem.
    Beside(String, String),
    /// A path relative to the folder of the image.
    Path(PathPattern),
    /// The path in this column of a list.
    Column(String),
    /// No file: a list has the values, as this value of an option describes it.
    Listed(String),
}

/// See [`Pattern::Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathPattern {
    /// The pattern, with `{stem}` in place of `*`.
    text: String,
    /// Number of `..` at its start.
    up: usize,
    /// The name of the folder outside the source that the path begins with; its first part is this name in braces.
    root: Option<String>,
    /// The parts after `..`, none empty; the last one is the file.
    parts: Vec<Vec<Piece>>,
}

impl Pattern {
    /// Parses a pattern; fails with the reason.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains([',', '=']) {
            return Err("a pattern has no , and no =");
        }
        if let Some(column) = text.strip_prefix(COLUMN) {
            return if column.is_empty() { Err("a column has a name") } else { Ok(Self::Column(column.to_owned())) };
        }
        if text.contains(['/', '{', '}']) {
            return PathPattern::parse(text, true).map(Self::Path);
        }
        match text.split_once(STEM) {
            Some((before, after)) if text.len() > 1 && !after.contains(STEM) => {
                Ok(Self::Beside(before.to_owned(), after.to_owned()))
            }
            _ => Err("a pattern has one *, which stands for the image's name without its extension"),
        }
    }

    /// As [`Pattern::parse`], for a file that may be of many images: the pattern need not name the image.
    pub fn parse_of_many(text: &str) -> Result<Self, &'static str> {
        if text.contains([',', '=']) {
            return Self::parse(text);
        }
        PathPattern::parse(text, false).map(Self::Path)
    }

    /// The extension of its files, if the pattern has one.
    pub fn extension(&self) -> Option<&str> {
        let last = match self {
            Self::Beside(_, after) => after,
            Self::Path(path) => match path.parts.last()?.last()? {
                Piece::Text(text) => text,
                _ => return None,
            },
            Self::Column(_) | Self::Listed(_) => return None,
        };
        last.rsplit_once('.').map(|(_, extension)| extension)
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Beside(before, after) => write!(f, "{before}{STEM}{after}"),
            Self::Path(path) => f.write_str(&path.text),
            Self::Column(column) => write!(f, "{COLUMN}{column}"),
            Self::Listed(said) => f.write_str(said),
        }
    }
}

impl PathPattern {
    fn parse(text: &str, must_name: bool) -> Result<Self, &'static str> {
        let full = text.replace(STEM, "{stem}");
        let up = full.split('/').take_while(|part| *part == "..").count();
        let parts: Vec<&str> = full.split('/').skip(up).collect();
        if parts.iter().any(|part| ["", ".", ".."].contains(part)) {
            return Err(
                "a path in a pattern is relative to the image's folder: it may begin with ../, and has no empty parts, . or .. further on",
            );
        }
        let root = root_in(&parts).filter(|_| up == 0);
        let piece = |(at, part): (usize, &str)| match (at, &root) {
            (0, Some(_)) => Some(vec![Piece::Text(part.to_owned())]),
            _ => Piece::parse(part),
        };
        let parts = parts.iter().copied().enumerate().map(piece).collect::<Option<Vec<_>>>().ok_or(
            "a pattern knows {stem}, {name}, {dir}, {parent} and {grandparent}: the image's name without and with its extension, the path of its folder in the source, the name of this folder, and of the folder above it; and {stem-TEXT} and {parent-TEXT}, without TEXT at the end or start, and {dir-NAME}, the path without the folder NAME at its start",
        )?;
        if must_name && !parts.iter().flatten().any(Piece::names_image) {
            return Err("a pattern names the image by *, {stem} or {name}");
        }
        if parts
            .iter()
            .any(|part| part.iter().filter(|piece| !matches!(piece, Piece::Text(_))).count() > MAX_PLACEHOLDERS)
        {
            return Err("a folder or file in a pattern has at most 3 placeholders");
        }
        let is_dir = |part: &&Vec<Piece>| part.iter().any(|piece| matches!(piece, Piece::Dir(_)));
        if parts.iter().filter(is_dir).any(|part| part.len() > 1) || parts.iter().filter(is_dir).count() > 1 {
            return Err("{dir} is a part of the path by itself, between slashes, and once");
        }
        if up == 0 && parts == [vec![Piece::Name]] {
            return Err("a pattern gives another file than the image");
        }
        Ok(Self { text: full, up, root, parts })
    }

    /// The name of the folder outside the source that has its files.
    pub fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// The path of the file for the image `name` in `folder`, both in the source; `None` if it leads out of the source, or the
    /// image has not the text of `{stem-TEXT}`, `{parent-TEXT}` or `{dir-NAME}`, or no folder is above its folder.
    pub fn path_of(&self, folder: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let mut at: Vec<&[u8]> = folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let parent = at.last().copied().unwrap_or_default();
        let grandparent = at.len().checked_sub(2).map(|above| at[above]);
        let kept = if self.root.is_some() { 0 } else { at.len().checked_sub(self.up)? };
        at.truncate(kept);
        let filled = self
            .parts
            .iter()
            .map(|part| filled(part, name, folder, (parent, grandparent)))
            .collect::<Option<Vec<_>>>()?;
        let filled = filled.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Some(at.into_iter().chain(filled.iter().map(Vec::as_slice)).collect::<Vec<_>>().join(&b'/'))
    }

    /// Whether the file `file` in `folder` can belong to an image: folder and name match the pattern.
    ///
    /// A pattern that names no folder and no file of its own matches files in the image's folder only: `../{stem}.png` may name images.
    pub fn takes(&self, folder: &[u8], file: &[u8]) -> bool {
        let Some((last, folders)) = self.parts.split_last() else { return false };
        let is_plain = |part: &Vec<Piece>| part.iter().all(|piece| matches!(piece, Piece::Text(_)));
        let is_open = self.up > 0 && !is_plain(last) && !folders.iter().any(|part| has_text(part));
        !is_open && matches(last, file) && self.takes_folder(folders, folder)
    }

    /// Whether `folder` can have files of images: it ends with `folders`, the parts of the pattern before the file.
    fn takes_folder(&self, folders: &[Vec<Piece>], folder: &[u8]) -> bool {
        let names: Vec<&[u8]> = folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let are_like =
            |parts: &[Vec<Piece>], names: &[&[u8]]| parts.iter().zip(names).all(|(part, name)| matches(part, name));
        let is_dir = |part: &Vec<Piece>| matches!(part[..], [Piece::Dir(_)]);
        let Some(at) = folders.iter().position(is_dir) else {
            let is_long = if self.root.is_some() { names.len() == folders.len() } else { names.len() >= folders.len() };
            return is_long && are_like(folders, &names[names.len() - folders.len()..]);
        };
        let [Piece::Dir(cut)] = &folders[at][..] else { return false };
        let (before, after) = (&folders[..at], &folders[at + 1..]);
        if self.root.is_some() {
            let is_long = names.len() >= before.len() + after.len();
            return is_long && are_like(before, &names) && are_like(after, &names[names.len() - after.len()..]);
        }
        // The folder of the image stands in it as a whole, and without its last `up` names at the start.
        (0..names.len()).any(|start| {
            let Some(image) = names.get(start + before.len()..names.len().saturating_sub(after.len())) else {
                return false;
            };
            let image: Vec<&[u8]> = cut.iter().map(|cut| cut.as_bytes()).chain(image.iter().copied()).collect();
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

/// The name in braces that is the whole first part of a path, and no placeholder.
fn root_in(parts: &[&str]) -> Option<String> {
    let [first, _, ..] = parts else { return None };
    let name = first.strip_prefix('{')?.strip_suffix('}')?;
    let is_name = is_root_name(name) && Piece::parse(first).is_none();
    is_name.then(|| name.to_owned())
}

/// Whether a folder outside the source can have this name in patterns.
pub(super) fn is_root_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_cut = |placeholder: &str| name.strip_prefix(placeholder).is_some_and(|rest| rest.starts_with('-'));
    let is_placeholder = Piece::parse(&format!("{{{name}}}")).is_some()
        || ["stem", "dir", "parent", "grandparent"].into_iter().any(is_cut);
    !name.is_empty() && name.bytes().all(is_fine) && !is_placeholder
}

/// Whether `part` has text that is no placeholder.
fn has_text(part: &[Piece]) -> bool {
    part.iter().any(|piece| matches!(piece, Piece::Text(_)))
}

/// `part` with the values of its placeholders for the image `name` in `folder`, whose name is `parent`, in `grandparent`; `None` if a name has
/// no such text.
fn filled(
    part: &[Piece],
    name: &[u8],
    folder: &[u8],
    (parent, grandparent): (&[u8], Option<&[u8]>),
) -> Option<Vec<u8>> {
    let stem = super::stem(name);
    let values = part.iter().map(|piece| match piece {
        Piece::Text(text) => Some(text.as_bytes()),
        Piece::Stem(cut) => without(stem, cut.as_ref()),
        Piece::Parent(cut) => without(parent, cut.as_ref()),
        Piece::Grandparent(cut) => without(grandparent?, cut.as_ref()),
        Piece::Name => Some(name),
        Piece::Dir(None) => Some(folder),
        Piece::Dir(Some(cut)) => match folder.strip_prefix(cut.as_bytes())? {
            [b'/', rest @ ..] => Some(rest),
            rest => Some(rest).filter(|rest| rest.is_empty()),
        },
    });
    values.collect::<Option<Vec<_>>>().map(|values| values.concat())
}

/// `name` without the text `cut` at its end or start; `None` if it has no such text.
fn without<'n>(name: &'n [u8], cut: Option<&String>) -> Option<&'n [u8]> {
    let Some(cut) = cut else { return Some(name) };
    name.strip_suffix(cut.as_bytes()).or_else(|| name.strip_prefix(cut.as_bytes()))
}

/// Whether `name` is `part` with any values of its placeholders, which are not empty.
fn matches(part: &[Piece], name: &[u8]) -> bool {
    let (text, rest) = match part {
        [] => return name.is_empty(),
        [Piece::Text(text), rest @ ..] => (text.as_bytes(), rest),
        // At least one byte is the value of the placeholder.
        [_, rest @ ..] => return (1..=name.len()).any(|at| matches(rest, &name[at..])),
    };
    name.strip_prefix(text).is_some_and(|name| matches(rest, name))
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
        let rows: [(&str, &str, &str, Option<&str>); 20] = [
            ("../../{grandparent-2017}/*.xml", "a/train2017/b", "1.jpg", Some("a/train/1.xml")),
            ("../{grandparent}/*.xml", "b", "1.jpg", None),
            ("../{parent-_images}_masks/*.png", "a/train_images", "1.jpg", Some("a/train_masks/1.png")),
            ("../{parent-A}B/*.png", "train", "1.jpg", None),
            ("{masks}/{parent}/*.png", "a/cat", "1.jpg", Some("{masks}/cat/1.png")),
            ("{m-2}/{dir}/{name}.xml", "a/b", "1.jpg", Some("{m-2}/a/b/1.jpg.xml")),
            ("{masks}/*.png", "", "1.jpg", Some("{masks}/1.png")),
            ("../../m/{dir-images}/*.png", "imagesets/a", "1.jpg", None),
            (
                "../../../gtFine/{dir-leftImg8bit}/{stem-_leftImg8bit}_gtFine_labelIds.png",
                "leftImg8bit/val/bonn",
                "bonn_0_leftImg8bit.png",
                Some("gtFine/val/bonn/bonn_0_gtFine_labelIds.png"),
            ),
            ("../m/mask_{stem-img_}.png", "i", "img_7.jpg", Some("m/mask_7.png")),
            ("../m/mask_{stem-img_}.png", "i", "x_7.jpg", None),
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
            "{x}/a.png",
            "../{x}/*.png",
            "{x y}/*.png",
            "{stem-}/*.png",
            "a/{x}/*.png",
            "{stem.png",
            "../{dir}.png",
            "*/",
            "*a*",
            "a,*",
            "../{stem-}.png",
            "../x}/*.png",
            "../{stem}}.png",
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
            ("{masks}/{parent}/*.png", "{masks}/cat", "1.png", true),
            ("{masks}/{parent}/*.png", "{masks}/a/cat", "1.png", false),
            ("{masks}/{dir}/*.png", "{masks}/a/cat", "1.png", true),
            ("{masks}/{dir}/*.png", "{masks}", "1.png", true),
            ("{masks}/*.png", "masks", "1.png", false),
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
            ("../../../gtFine/{dir-leftImg8bit}/{stem-_x}_y.png", "gtFine/val/bonn", "1_y.png", true),
            ("../../../gtFine/{dir-leftImg8bit}/{stem-_x}_y.png", "gtCoarse/val/bonn", "1_y.png", false),
            ("../m/mask_{stem-img_}.png", "m", "mask_7.png", true),
            ("../m/mask_{stem-img_}.png", "m", "7.png", false),
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
