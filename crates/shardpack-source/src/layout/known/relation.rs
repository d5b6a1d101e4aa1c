//! How the names of files follow from the names of images: `1_mask.png` from `1.jpg`.
//!
//! A relation is found from a few images, and holds for nearly all: of the images, or of the files if these are fewer.

use std::collections::{BTreeMap, HashSet};

use super::stem;

/// Images of which names are compared with the names of all files.
const TRIED: usize = 8;
/// Most files whose names are compared one by one.
const MAX_FILES: usize = 20_000;
/// Most relations of which each is compared with all names.
const MAX_SHAPES: usize = 8;
/// Share of the images or files that must match, in percent.
const NEARLY_ALL: u64 = 95;
/// Fewest images whose names differ from those of their files: among a few, any names are alike.
const LEAST: u64 = 2;

/// The images of a folder, without extension, and the names of the files in the folder beside it.
pub(super) type Group = (Vec<String>, Vec<String>);

/// How the name of a file follows from the stem of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    /// Text that the stem loses at its end.
    end: String,
    /// Text that it loses at its start.
    start: String,
    before: String,
    after: String,
    extension: String,
    /// Whether what is left begins with a number, right behind the letters that differ: `low01` and `normal01` (LOL-v2).
    is_before_number: bool,
}

impl Shape {
    fn same(extension: &str) -> Self {
        let none = String::new;
        let extension = extension.to_owned();
        Self { end: none(), start: none(), before: none(), after: none(), extension, is_before_number: false }
    }

    /// The shapes that give `file` for the image `image`, by what both begin or end with.
    fn between(image: &str, file: &str) -> Vec<Self> {
        let (other, extension) = cut_extension(file);
        let same = Self::same(extension);
        let mut shapes = Vec::new();
        let at = cut(image, other, shared(image.chars(), other.chars()));
        if at > 0 {
            shapes.push(Self { end: image[at..].to_owned(), after: other[at..].to_owned(), ..same.clone() });
        }
        let at = cut_at_end(image, other, shared(image.chars().rev(), other.chars().rev()));
        if at > 0 {
            let [start, before] = [image, other].map(|name| name[..name.len() - at].to_owned());
            let has_letters = [&start, &before].iter().all(|text| text.ends_with(char::is_alphabetic));
            let is_before_number =
                has_letters && image[start.len()..].starts_with(|letter: char| letter.is_ascii_digit());
            shapes.push(Self { start, before, is_before_number, ..same });
        }
        shapes.retain(Self::is_pattern);
        shapes
    }

    /// Whether the names of components can have these texts, which are none of patterns.
    fn is_pattern(&self) -> bool {
        let texts = [&self.end, &self.start, &self.before, &self.after, &self.extension];
        !texts.iter().any(|text| text.contains(['{', '}', '*', ',', '=', '/']))
    }

    /// Whether both the removed and the added text contain digits: a few names of other cases fit by chance, `case04_1` and `case09_1`.
    fn is_between_numbers(&self) -> bool {
        let has_digit = |text: &String| text.contains(|letter: char| letter.is_ascii_digit());
        [&self.end, &self.start].into_iter().any(has_digit) && [&self.before, &self.after].into_iter().any(has_digit)
    }

    /// The stem of an image without the texts that it loses.
    fn kept<'i>(&self, image: &'i str) -> Option<&'i str> {
        image.strip_suffix(self.end.as_str())?.strip_prefix(self.start.as_str())
    }

    /// The name of the file of an image.
    fn name(&self, image: &str) -> Option<String> {
        Some(format!("{}{}{}", self.before, self.kept(image)?, self.end_of_name()))
    }

    /// The text after the stem, and the extension.
    fn end_of_name(&self) -> String {
        let dot = if self.extension.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.after, self.extension)
    }

    /// The pattern of `--with`.
    fn pattern(&self) -> String {
        let stem = match (self.end.as_str(), self.start.as_str()) {
            ("", "") if self.before.is_empty() && self.after.is_empty() => "*".to_owned(),
            ("", "") => "{stem}".to_owned(),
            ("", text) | (text, _) => format!("{{stem-{text}}}"),
        };
        format!("{}{stem}{}", self.before, self.end_of_name())
    }
}

/// The name and the extension of a file; a file may have no extension (Stanford Dogs).
fn cut_extension(file: &str) -> (&str, &str) {
    file.rsplit_once('.').unwrap_or((file, ""))
}

/// Number of bytes that two names share from one side.
fn shared(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

/// Where the shared start of two names ends: `shared`, or before the word that it cuts.
fn cut(a: &str, b: &str, shared: usize) -> usize {
    let is_word = |at: usize| at == a.len() || at == b.len();
    let next_is_digit = |name: &str| name[shared..].starts_with(|letter: char| letter.is_ascii_digit());
    let last_is_digit = a[..shared].ends_with(|letter: char| letter.is_ascii_digit());
    // `1` is no start of `12`.
    if is_word(shared) {
        return if last_is_digit && (next_is_digit(a) || next_is_digit(b)) { 0 } else { shared };
    }
    a[..shared].rfind(|letter: char| !letter.is_alphanumeric()).unwrap_or(0)
}

/// Number of bytes of the shared end of two names: `shared`, or less if it begins in a word or in a number.
fn cut_at_end(a: &str, b: &str, shared: usize) -> usize {
    let end = &a[a.len() - shared..];
    let is_digit = |letter: char| letter.is_ascii_digit();
    let is_number = |name: &str| name[..name.len() - shared].ends_with(is_digit);
    // `2` is no end of `12`.
    if shared == a.len() || shared == b.len() {
        let begins_in_number = end.starts_with(is_digit) && (is_number(a) || is_number(b));
        return if begins_in_number { 0 } else { shared };
    }
    let is_begin = |(at, letter): (usize, char)| {
        let is_in_number = if at == 0 { is_number(a) || is_number(b) } else { end[..at].ends_with(is_digit) };
        !letter.is_alphanumeric() || is_digit(letter) && !is_in_number
    };
    end.char_indices().find(|one| is_begin(*one)).map_or(0, |(at, _)| shared - at)
}

/// How a folder relates to the images beside it, by the names of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// The two folders are called as a pair, and no other is beside them.
    Pair,
    /// The two folders are called as a pair.
    Known,
    /// Nothing is known about the folder.
    Any,
}

/// A relation that holds.
pub(super) struct Relation {
    /// The name of the file in a pattern of `--with`.
    pub pattern: String,
    pub extension: String,
    /// Number of images without.
    pub lacking: u64,
    /// Number of files with the extension that belong to no image.
    pub others: u64,
}

/// The relation between images and files in these folders, if there is one.
pub(super) fn find(groups: &[Group], beside: Beside) -> Option<Relation> {
    let all: u64 = groups.iter().map(|(images, _)| images.len() as u64).sum();
    let sets: Vec<HashSet<&str>> = groups.iter().map(|(_, files)| files.iter().map(String::as_str).collect()).collect();
    let holds = |shape: &Shape| {
        let is_known = match (shape.is_before_number, shape.is_between_numbers()) {
            (true, _) => beside == Beside::Pair,
            (false, true) => beside != Beside::Any,
            (false, false) => true,
        };
        let of_group = |((images, _), files): (&Group, &HashSet<&str>)| {
            let has = |image: &&String| shape.name(image).is_some_and(|name| files.contains(name.as_str()));
            let with = images.iter().filter(has).count();
            let is_of_shape =
                |file: &&&str| cut_extension(file).1 == shape.extension && file.ends_with(&shape.end_of_name());
            let of_shape = files.iter().filter(is_of_shape).count();
            let least = match (shape.is_before_number, shape.is_between_numbers()) {
                // Names of classes are alike, too: nearly all of both have to fit.
                (true, _) => images.len().max(of_shape),
                // Nearly all images have to be of the case.
                (false, true)
                    if !is_nearly_all(
                        images.iter().filter(|image| shape.kept(image).is_some()).count(),
                        images.len(),
                    ) =>
                {
                    images.len()
                }
                _ => images.len().min(of_shape),
            };
            (with as u64, least.max(with) as u64)
        };
        let (with, least) = groups.iter().zip(&sets).map(of_group).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let is_same = Shape::same(&shape.extension) == *shape;
        let fits = is_known && with > 0 && is_nearly_all(with as usize, least as usize) && (is_same || with >= LEAST);
        fits.then_some(with)
    };
    let mut extensions = BTreeMap::<&str, u64>::new();
    for file in groups.iter().flat_map(|(_, files)| files) {
        *extensions.entry(cut_extension(file).1).or_default() += 1;
    }
    let best = |shapes: &mut dyn Iterator<Item = Shape>| {
        shapes.filter_map(|shape| Some((holds(&shape)?, shape))).max_by_key(|(with, _)| *with)
    };
    let same = best(&mut extensions.keys().take(MAX_SHAPES).map(|extension| Shape::same(extension)));
    let (with, shape) = same.or_else(|| best(&mut different(groups).into_iter()))?;
    let of_extension =
        groups.iter().flat_map(|(_, files)| files).filter(|file| cut_extension(file).1 == shape.extension);
    let others = (of_extension.count() as u64).saturating_sub(with);
    Some(Relation { pattern: shape.pattern(), extension: shape.extension, lacking: all - with, others })
}

/// Whether `some` are nearly all.
fn is_nearly_all(some: usize, all: usize) -> bool {
    some as u64 * 100 >= all as u64 * NEARLY_ALL
}

/// The most frequent shapes between a few images and the files of their folder.
fn different(groups: &[Group]) -> Vec<Shape> {
    let mut votes = BTreeMap::<Shape, u64>::new();
    for (images, files) in groups.iter().filter(|(_, files)| !files.is_empty()).take(2) {
        let step = (images.len() / TRIED).max(1);
        for image in images.iter().step_by(step).take(TRIED) {
            for file in files.iter().take(MAX_FILES).filter(|file| stem(file) != image) {
                Shape::between(image, file).into_iter().for_each(|shape| *votes.entry(shape).or_default() += 1);
            }
        }
    }
    let mut votes: Vec<(Shape, u64)> = votes.into_iter().collect();
    // The shorter text explains the same names.
    let length = |shape: &Shape| shape.end.len() + shape.start.len() + shape.before.len() + shape.after.len();
    votes.sort_by_key(|(shape, votes)| (std::cmp::Reverse(*votes), length(shape)));
    votes.into_iter().take(MAX_SHAPES).map(|(shape, _)| shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_follow_from_names_of_images() {
        for (images, files, expected) in [
            (&["1", "2", "12"][..], &["1.png", "2.png", "12.png"][..], Some(("*.png", 0))),
            (&["1", "2", "12"], &["1_mask.gif", "2_mask.gif", "12_mask.gif"], Some(("{stem}_mask.gif", 0))),
            (&["0001", "0002"], &["0001x4.png", "0002x4.png"], Some(("{stem}x4.png", 0))),
            (
                &["21_training", "22_training"],
                &["21_manual1.gif", "22_manual1.gif"],
                Some(("{stem-_training}_manual1.gif", 0)),
            ),
            (&["1_sat", "2_sat", "3_sat"], &["1_mask.png", "2_mask.png"], Some(("{stem-_sat}_mask.png", 1))),
            (&["img_1", "img_2"], &["mask_1.png", "mask_2.png"], Some(("mask{stem-img}.png", 0))),
            (&["a1", "b2"], &["gt_a1.txt", "gt_b2.txt"], Some(("gt_{stem}.txt", 0))),
            (
                &["benign (1)", "benign (2)"],
                &["benign (1)_mask.png", "benign (2)_mask.png"],
                Some(("{stem}_mask.png", 0)),
            ),
            (&["1", "2"], &["2.png", "3.png"], None),
            (&["1", "2", "3"], &["11.png", "12.png", "13.png"], None),
            (&["cat", "dog"], &["tree.png", "bird.png"], None),
            (&["1"], &["1_mask.png"], None),
            (&["a", "b"], &["a_{x}.png", "b_{x}.png"], None),
            (&["ä1", "ä2"], &["ä1é.png", "ä2é.png"], Some(("{stem}é.png", 0))),
            (&["n02_1", "n02_2"], &["n02_1", "n02_2"], Some(("*", 0))),
            (&["n02_1", "n02_2"], &["readme", "n02_3"], None),
        ] {
            let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let found = find(&[(text(images), text(files))], Beside::Any);
            let found = found.as_ref().map(|one| (one.pattern.as_str(), one.lacking));
            assert_eq!(found, expected, "{images:?} {files:?}");
        }
    }

    #[test]
    fn numbers_on_both_sides_need_folders_that_are_called_as_a_pair() {
        use Beside::{Any, Known, Pair};
        let rows: [(&[&str], &[&str], Beside, Option<&str>); 10] = [
            (&["img_1", "img_2"], &["mask_1.png", "mask_2.png"], Any, Some("mask{stem-img}.png")),
            (&["low01", "low02"], &["normal01.png", "normal02.png"], Pair, Some("normal{stem-low}.png")),
            (&["low01", "low02"], &["normal01.png", "normal02.png"], Known, None),
            (&["img1", "img2", "img3"], &["fig1.png", "fig2.png"], Pair, None),
            (&["t1_01", "t1_02"], &["t2_01.png", "t2_02.png"], Known, Some("t2{stem-t1}.png")),
            (&["t1_01", "t1_02", "t1_03"], &["t2_01.png", "t2_02.png"], Known, Some("t2{stem-t1}.png")),
            (&["t1_01", "t1_02"], &["t2_01.png", "t2_02.png"], Any, None),
            (&["case1_1", "case1_2", "case2_1", "case2_2"], &["case9_1.png", "case9_2.png"], Known, None),
            (&["a_L8", "b_L8", "c_L8"], &["a_mask1.png", "b_mask1.png"], Known, Some("{stem-_L8}_mask1.png")),
            (
                &["21_training", "22_training"],
                &["21_manual1.gif", "22_manual1.gif"],
                Any,
                Some("{stem-_training}_manual1.gif"),
            ),
        ];
        for (images, files, beside, expected) in rows {
            let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let found = find(&[(text(images), text(files))], beside).map(|one| one.pattern);
            assert_eq!(found.as_deref(), expected, "{images:?} {files:?} {beside:?}");
        }
    }
}
