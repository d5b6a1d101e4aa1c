//! Detects class folders whose files are pairs by name: images and masks, high and low resolution, images and box
//! files.
//!
//! As classes, masks would become images of a class. Files that are numbered from 0 have equal names in any class. Such
//! folders are pairs only if the folder names are a known pair.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Range,
    path::Path,
};

use shardpack_format::{Error, component::Component, shell};

use super::{
    super::{SourceListing, names::as_path, sample_files, tree::Tree},
    help_classes, shown,
    split_names::words,
    splits_of,
};
use crate::{Result, filter::below_bytes, listing::Listing};

/// Most class folders in a source with pairs.
const MAX_CLASSES: usize = 24;
/// Files to sample from each folder, evenly spread.
const TRIED: u64 = 64;
/// Fewest files for pairs in folders with ordinary class names.
const LEAST: u64 = 8;
/// Share of files that must match, in percent.
const NEARLY_ALL: u64 = 95;

/// Words for companions of images, or for images that have companions. No class has such a name.
const MADE_OF_IMAGES: [&str; 48] = [
    "anno",
    "annot",
    "annotated",
    "annotation",
    "annotations",
    "annots",
    "contour",
    "contours",
    "depth",
    "depths",
    "edges",
    "gt",
    "groundtruth",
    "heatmap",
    "heatmaps",
    "hq",
    "hr",
    "image",
    "images",
    "img",
    "imgs",
    "infrared",
    "input",
    "inputs",
    "jpegimages",
    "label",
    "labeled",
    "labels",
    "lq",
    "lr",
    "mask",
    "masks",
    "matte",
    "mattes",
    "nir",
    "output",
    "outputs",
    "rgb",
    "saliency",
    "seg",
    "segmim",
    "segmentation",
    "segmentations",
    "target",
    "targets",
    "thermal",
    "trimaps",
    "truth",
];
/// Words of [`MADE_OF_IMAGES`] that mean the images themselves.
const IMAGES: [&str; 10] = ["hq", "hr", "image", "images", "img", "imgs", "input", "inputs", "jpegimages", "rgb"];
/// Further words for images, which also stand for files in general.
const OF_IMAGES: [&str; 8] = ["jpeg", "jpg", "original", "originals", "photo", "photos", "png", "stills"];
/// Word pairs in which one side is derived from, or recorded with, the other.
const BEFORE_AND_AFTER: [(&str, &str); 12] = [
    ("left", "right"),
    ("clean", "final"),
    ("rain", "norain"),
    ("photos", "sketches"),
    ("stimuli", "fixations"),
    ("noisy", "clean"),
    ("blur", "sharp"),
    ("blurred", "sharp"),
    ("hazy", "clear"),
    ("rainy", "clear"),
    ("before", "after"),
    ("source", "sketch"),
];
/// Words of pairs that may also be in names of classes: pairs only if the names have nothing else that differs, and there is no other folder.
const OF_TWO: [(&str, &str); 6] =
    [("low", "high"), ("low", "normal"), ("raw", "reference"), ("ir", "vi"), ("ir", "vis"), ("ir", "visible")];

/// The reason for pairs by file name.
const SAME_NAMES: &str = "hold files of the same names: pairs, and no classes";

/// The samples of one class.
struct Class<'l> {
    name: &'l [u8],
    listing: &'l Listing,
    /// Ranges of samples by their folder relative to the class folder.
    folders: BTreeMap<&'l [u8], Range<u64>>,
    count: u64,
}

impl<'l> Class<'l> {
    /// The classes of a listing that have samples.
    fn all(listing: &'l Listing) -> Vec<Self> {
        let mut classes = BTreeMap::<u32, Self>::new();
        for (folder, samples) in listing.folders().iter().zip(listing.samples_by_folder()) {
            let Some(number) = folder.class.filter(|_| !samples.is_empty()) else { continue };
            let name: &[u8] = &listing.classes[number as usize];
            let below = folder.path.strip_prefix(name).unwrap_or_default();
            let class = Self { name, listing, folders: BTreeMap::new(), count: 0 };
            let class = classes.entry(number).or_insert(class);
            class.count += samples.end - samples.start;
            class.folders.insert(below, samples);
        }
        classes.into_values().collect()
    }

    /// Whether nearly all sampled files have a file with the same stem and relative folder in `other`.
    fn is_like(&self, other: &Self) -> bool {
        let (step, mut fits, mut tried) = ((self.count / TRIED).max(1), 0, 0);
        let samples =
            self.folders.iter().flat_map(|(below, samples)| samples.clone().map(move |number| (below, number)));
        for (below, number) in samples.step_by(usize::try_from(step).unwrap_or(1)) {
            tried += 1;
            let Some(others) = other.folders.get(below) else { continue };
            fits += u64::from(has_stem(other.listing, others.clone(), stem(self.listing.name(number))));
        }
        fits * 100 >= tried * NEARLY_ALL
    }

    fn stems(&self) -> impl Iterator<Item = &'l [u8]> {
        let listing = self.listing;
        self.folders.values().cloned().flatten().map(move |number| stem(listing.name(number)))
    }

    /// Whether most files have consecutive numbers, with few gaps.
    fn is_numbered(&self) -> bool {
        let mut groups = HashMap::<(&[u8], &[u8]), (u64, u64, u64)>::new();
        for stem in self.stems() {
            let Some(last) = stem.iter().rposition(u8::is_ascii_digit) else { continue };
            let first = stem[..last].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
            let digits = std::str::from_utf8(&stem[first..=last]).unwrap_or_default();
            let Ok(number) = digits.parse::<u64>() else { continue };
            let (count, least, most) = groups.entry((&stem[..first], &stem[last + 1..])).or_insert((0, number, number));
            (*count, *least, *most) = (*count + 1, number.min(*least), number.max(*most));
        }
        // A small group has names that end in a number by chance.
        let groups: Vec<_> = groups.into_values().filter(|(count, ..)| *count > 2).collect();
        let numbered: u64 = groups.iter().map(|(count, ..)| count).sum();
        let room: u64 =
            groups.iter().map(|(_, least, most)| (most - least).saturating_add(1)).fold(0, u64::saturating_add);
        numbered * 2 > self.count && numbered.saturating_mul(10) >= room.saturating_mul(9)
    }
}

/// A name without its last extension.
fn stem(name: &[u8]) -> &[u8] {
    &name[..name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len())]
}

/// Whether one of the samples `numbers`, sorted by name, has this stem.
pub(super) fn has_stem(listing: &Listing, numbers: Range<u64>, wanted: &[u8]) -> bool {
    let start = [wanted, b"."].concat();
    let (mut low, mut high) = (numbers.start, numbers.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if listing.name(middle) < start.as_slice() { low = middle + 1 } else { high = middle }
    }
    let names = (low..numbers.end).map(|number| listing.name(number));
    names.take_while(|name| name.starts_with(&start)).any(|name| stem(name) == wanted)
}

/// The stems under which a file may have a partner: its own, and its own without suffixes such as `_mask` or `x2`.
fn cut(stem: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (1..stem.len()).rev().filter(|at| !stem[*at].is_ascii_alphanumeric() || is_scale(&stem[*at..]));
    std::iter::once(stem).chain(ends.map(|at| &stem[..at]))
}

/// Whether `end` is a scale suffix such as `x4`.
fn is_scale(end: &[u8]) -> bool {
    matches!(end, [b'x', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}

/// Whether nearly all stems of the smaller set match the larger set, with or without suffixes.
pub(crate) fn are_same(a: &HashSet<&[u8]>, b: &HashSet<&[u8]>) -> bool {
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let bare: HashSet<&[u8]> = many.iter().flat_map(|stem| cut(stem)).collect();
    let fits = few.iter().filter(|stem| cut(stem).any(|cut| many.contains(cut)) || bare.contains(*stem)).count();
    !few.is_empty() && fits as u64 * 100 >= few.len() as u64 * NEARLY_ALL
}

/// Whether two folder names are a known pair.
fn are_called_so(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (words(a), words(b));
    // `mask` and `no_mask` or `nomask` are classes.
    let has =
        |words: &[String], word: &str| words.iter().any(|own| own == word || own.strip_prefix("no") == Some(word));
    let made = |one: &[String], other: &[String]| {
        one.iter().any(|word| MADE_OF_IMAGES.contains(&word.as_str()) && !has(other, word))
    };
    let both =
        |(before, after): &(&str, &str)| (has(&a, before) && has(&b, after)) || (has(&b, before) && has(&a, after));
    made(&a, &b) || made(&b, &a) || BEFORE_AND_AFTER.iter().any(both) || are_numbered_views(&a, &b)
}

/// Whether the only two folders have these names, which are a known pair.
fn are_called_as_two(a: &[u8], b: &[u8]) -> bool {
    let [a, b] = [a, b].map(words);
    let without = |words: &[String], word: &str| -> Option<Vec<String>> {
        let at = words.iter().position(|own| own == word)?;
        Some([&words[..at], &words[at + 1..]].concat())
    };
    let is = |(one, other): &(&str, &str)| without(&a, one).is_some_and(|rest| Some(rest) == without(&b, other));
    OF_TWO.iter().any(|(one, other)| is(&(one, other)) || is(&(other, one)))
}

/// Whether one folder name means images and the other masks, labels or similar. File names are not compared.
pub(crate) fn are_images_and_more(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (words(a), words(b));
    let is_image = |word: &String| IMAGES.contains(&word.as_str()) || OF_IMAGES.contains(&word.as_str());
    let is_more = |word: &String| MADE_OF_IMAGES.contains(&word.as_str()) && !is_image(word);
    let fit = |images: &[String], more: &[String]| {
        images.iter().any(is_image) && !images.iter().any(is_more) && more.iter().any(is_more)
    };
    fit(&a, &b) || fit(&b, &a)
}

/// Whether two image folders differ in a number only: KITTI's `image_2` and `image_3`, or `images` and `images_256`.
fn are_numbered_views(a: &[String], b: &[String]) -> bool {
    !a.is_empty() && a == b && a.iter().all(|word| MADE_OF_IMAGES.contains(&word.as_str()))
}

/// Whether a folder name is a known half of a pair: images, masks or similar.
pub(crate) fn is_half(name: &[u8]) -> bool {
    words(name).iter().any(|word| MADE_OF_IMAGES.contains(&word.as_str()))
}

/// All known pairs among a few folder names; empty for more than [`MAX_CLASSES`] names.
pub(crate) fn called_so<'n>(names: &[&'n [u8]]) -> Vec<[&'n [u8]; 2]> {
    if names.len() > MAX_CLASSES {
        return Vec::new();
    }
    let two = names.iter().enumerate().flat_map(|(at, a)| names[at + 1..].iter().map(move |b| [*a, *b]));
    two.filter(|[a, b]| are_called_so(a, b) || names.len() == 2 && are_called_as_two(a, b)).collect()
}

/// Fails if the files of two classes are pairs by name.
///
/// # Errors
/// The error names the folders and the options that pack one of them.
pub(crate) fn refuse(tree: Tree<'_>, found: &[SourceListing]) -> Result<()> {
    for one in found.iter().filter(|one| one.listing.classes.len() <= MAX_CLASSES) {
        let classes = Class::all(&one.listing);
        // The folders of CycleGAN and pix2pix.
        let begin = one.listing.classes.iter().map(|name| &name[..]).take(2);
        let are_a_and_b = one.listing.classes.len() <= 3 && begin.eq([b"A".as_slice(), b"B"]);
        for (at, a) in classes.iter().enumerate() {
            for b in &classes[at + 1..] {
                let are_two = classes.len() == 2 && are_called_as_two(a.name, b.name);
                let is_pair = if are_a_and_b || are_two || are_called_so(a.name, b.name) {
                    are_same(&a.stems().collect(), &b.stems().collect())
                } else {
                    let (few, many) = (a.count.min(b.count), a.count.max(b.count));
                    few >= LEAST && few * 100 >= many * NEARLY_ALL && a.is_like(b) && b.is_like(a) && !a.is_numbered()
                };
                if is_pair {
                    return Err(pair(tree, found, one, [a.name, b.name], SAME_NAMES));
                }
                if classes.len() == 2 && are_images_and_more(a.name, b.name) {
                    let what = "are named like images and their counterparts: pairs, and no classes";
                    return Err(pair(tree, found, one, [a.name, b.name], what));
                }
            }
        }
        if let Some((class, name)) = with_texts(tree, one, &classes) {
            return Err(pair(tree, found, one, [class, name], SAME_NAMES));
        }
    }
    Ok(())
}

/// Fails if images without classes are in two folders that are called as pairs: masks would be images.
///
/// # Errors
/// The error names the folders and the option that packs one of them.
pub(crate) fn refuse_folders(tree: Tree<'_>, found: &[SourceListing]) -> Result<()> {
    let folders = found.iter().flat_map(|one| one.listing.folders());
    let first = |path: &[u8]| path.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let names: BTreeSet<Vec<u8>> = folders.map(|folder| first(&folder.path)).filter(|name| !name.is_empty()).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let Some([a, b]) = called_so(&names).into_iter().next() else { return Ok(()) };
    let [images, beside] = images_first([a, b]);
    let what = format!("{} are named like images and their counterparts", shown(&[&images.to_vec(), &beside.to_vec()]));
    let one = shell::word(as_path(&below_bytes(images)));
    Err(Error::usage(what).in_file(tree.root).help(format!("--include {one} packs only these images")))
}

/// A class without images whose files have the names of another class's images, for example boxes or outlines. Returns
/// the class with images first.
fn with_texts<'l>(tree: Tree<'_>, found: &'l SourceListing, classes: &[Class<'l>]) -> Option<(&'l [u8], &'l [u8])> {
    // A class that the user excluded needs no question, and unreadable folders are already reported.
    let told: BTreeSet<Option<u32>> = found.unpacked.iter().map(|unpacked| unpacked.class).collect();
    let is_told =
        |name: &[u8]| found.unpacked.iter().any(|one| one.path.rsplit(|byte| *byte == b'/').next() == Some(name));
    let numbered = (0u32..).zip(found.listing.classes.iter().map(|name| &name[..]));
    let mut empty = numbered.filter(|(number, name)| {
        !told.contains(&Some(*number)) && !is_told(name) && !classes.iter().any(|class| class.name == *name)
    });
    let of_split = found.split.as_ref().map_or_else(|| tree.root.to_path_buf(), |split| tree.root.join(split));
    empty.find_map(|(_, name)| {
        let files = sample_files::files_in(tree, &of_split.join(as_path(name)));
        let files: HashSet<&[u8]> = files.iter().map(|name| stem(name)).collect();
        let is_like = |class: &&Class<'_>| !files.is_empty() && are_same(&class.stems().collect(), &files);
        classes.iter().find(is_like).map(|class| (class.name, name))
    })
}

/// The names of two folders of pairs, that of the images first.
pub(super) fn images_first([a, b]: [&[u8]; 2]) -> [&[u8]; 2] {
    let are_images = |name: &[u8]| words(name).iter().any(|word| IMAGES.contains(&word.as_str()));
    let are_more = |name: &[u8]| is_half(name) && !are_images(name);
    match are_images(a) || are_images(b) {
        true if are_images(a) => [a, b],
        true => [b, a],
        // `Ground Truth` and `Original`.
        false if are_more(a) && !are_more(b) => [b, a],
        false => [a, b],
    }
}

/// The name of the component whose files are in `folder`: `mask` for `masks`.
pub(super) fn component_of(folder: &str) -> String {
    // `Ground Truth`: a component's name has no blanks.
    let fit = |letter: char| if letter.is_alphanumeric() || letter == '.' { letter } else { '_' };
    let name: String = folder.to_lowercase().chars().map(fit).collect();
    name.strip_suffix('s').filter(|name| !name.ends_with('s')).unwrap_or(&name).to_owned()
}

fn pair(tree: Tree<'_>, all: &[SourceListing], found: &SourceListing, names: [&[u8]; 2], what: &str) -> Error {
    let [a, b] = images_first(names).map(<[u8]>::to_vec);
    let folder = found.split.as_ref().map_or_else(|| tree.root.to_path_buf(), |split| tree.root.join(split));
    let with = if what == SAME_NAMES { with(tree, &folder, found, [&a, &b]) } else { None };
    let with =
        with.map(|with| format!("--no-labels --with {with} packs each image with its file; ")).unwrap_or_default();
    Error::usage(format!("{} {what}", shown(&[&a, &b]))).in_file(folder).help(format!(
        "{with}--no-labels --include {} packs only these; {}",
        shell::word(as_path(&below_bytes(&a))),
        help_classes(&splits_of(all))
    ))
}

/// The value of `--with` that packs the files in `beside` with the images of the same names in `images`; `None` if their names differ by more
/// than the extension.
fn with(tree: Tree<'_>, folder: &Path, found: &SourceListing, [images, beside]: [&[u8]; 2]) -> Option<String> {
    let listing = &found.listing;
    let image = (0..listing.len()).find(|number| listing.folder(*number).path[..] == *images)?;
    let stem = stem(listing.name(image));
    let files = sample_files::files_right_in(tree, &folder.join(as_path(beside)));
    let file = files.iter().find(|file| self::stem(file) == stem)?;
    let (beside, extension) = (str::from_utf8(beside).ok()?, str::from_utf8(file.get(stem.len()..)?).ok()?);
    let text = format!("{}=../{beside}/*{extension}", component_of(beside));
    Component::files(&text).ok()?;
    let names: HashSet<&[u8]> = files.iter().map(|file| self::stem(file)).collect();
    let mut images = (0..listing.len()).filter(|number| listing.folder(*number).path[..] == *images);
    let is_lacking = images.any(|number| !names.contains(self::stem(listing.name(number))));
    Some(format!("{}{}", shell::word(text), if is_lacking { " --on-missing empty" } else { "" }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::listing::{Folder, FolderSamples};

    /// A source with these files in two folders.
    fn found(names: [&str; 2], files: [&[String]; 2]) -> SourceListing {
        let classes = Arc::new(names.map(|name| name.as_bytes().into()).to_vec());
        let folder = |class: usize| {
            let mut samples = FolderSamples::default();
            files[class].iter().for_each(|file| samples.push(file.as_bytes(), 1, 0, 0));
            (Folder { path: names[class].as_bytes().into(), class: Some(class as u32) }, samples)
        };
        SourceListing {
            listing: Arc::new(Listing::new(classes, vec![folder(0), folder(1)])),
            ..SourceListing::default()
        }
    }

    fn is_asked(names: [&str; 2], files: [&[String]; 2]) -> bool {
        let tree = Tree { root: Path::new("src"), listed: None };
        refuse(tree, &[found(names, files)]).is_err()
    }

    fn named(count: u64, name: impl Fn(u64) -> String) -> Vec<String> {
        (0..count).map(name).collect()
    }

    #[test]
    fn files_of_the_same_names_are_pairs_unless_they_are_numbered() {
        let counted = named(100, |n| format!("img_{n:04}.jpg"));
        let ids = named(100, |n| format!("2007_{:06}.jpg", n * n));
        let letters = named(20, |n| format!("{}.jpg", (b'a' + n as u8) as char));
        let masks = named(100, |n| format!("img_{n:04}_mask.png"));
        let scaled = named(100, |n| format!("img_{n:04}x4.png"));
        let rows: [(&str, [&str; 2], [&[String]; 2], bool); 21] = [
            ("two views", ["image_2", "image_3"], [&counted, &counted], true),
            ("left and right", ["left", "right"], [&counted, &counted], true),
            ("numbered classes", ["person_2", "person_3"], [&counted, &counted], false),
            ("numbered", ["cat", "dog"], [&counted, &counted], false),
            ("numbered, called so", ["images", "masks"], [&counted, &counted], true),
            ("with something behind", ["images", "masks"], [&counted, &masks], true),
            ("with something behind, in the first", ["HR", "LR"], [&counted, &scaled], true),
            ("classes with one word", ["mask", "no_mask"], [&counted, &counted], false),
            ("ids", ["cat", "dog"], [&ids, &ids], true),
            ("letters", ["cat", "dog"], [&letters, &letters], true),
            ("few", ["cat", "dog"], [&letters[..7], &letters[..7]], false),
            ("ids, of which one has half", ["cat", "dog"], [&ids, &ids[..50]], false),
            ("masks of half of them", ["JPEGImages", "SegmentationClass"], [&ids, &ids[..50]], true),
            ("others", ["cat", "dog"], [&ids, &counted], false),
            ("other files", ["images", "labels"], [&ids, &counted], true),
            ("other files, called as classes", ["real", "labels"], [&ids, &counted], false),
            ("joined to one word", ["mask", "nomask"], [&counted, &counted], false),
            ("two domains", ["A", "B"], [&counted, &counted], true),
            ("two letters", ["a", "b"], [&counted, &counted], false),
            ("before and after", ["sharp", "blur"], [&counted, &counted], true),
            ("all but a few", ["cat", "dog"], [&ids, &ids[2..]], true),
        ];
        for (row, names, files, expected) in rows {
            assert_eq!(is_asked(names, files), expected, "{row}");
        }
    }
}
