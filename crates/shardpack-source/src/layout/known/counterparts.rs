//! A folder of images, and folders beside it with files whose names follow from those of the images: `images/1.jpg` and `masks/1_mask.png`,
//! `HR/1.png` and `LR/X4/1x4.png`, `JPEGImages/480p/bear/0.jpg` and `Annotations/480p/bear/0.png`; below splits, too, as in `train/images`.

use std::collections::BTreeSet;

use shardpack_format::{component::Component, shell, size, splits};

use super::{
    Found, Look, annotations, left_out, on_missing,
    relation::{self, Beside},
};
use crate::{
    filter,
    layout::{pairs, split_names::Likeness},
    names,
};

/// Most levels of folders in a folder of images: `480p/bear`.
const MAX_DEPTH: usize = 2;
/// Most folders that are looked into.
const MAX_FOLDERS: usize = 4096;
/// Most bytes of the name of a component that is made from a folder.
const MAX_NAME_BYTES: usize = 24;
/// Most folders beside the images, and most in each.
const MAX_BESIDE: usize = 24;

/// Files that belong to images.
pub(super) struct Companions {
    /// The value of `--with`.
    value: String,
    /// Number of images without.
    lacking: u64,
    /// Number of files that belong to no image, if they are images.
    others: u64,
}

/// Where the images are.
pub(super) struct Images {
    /// For each place of the folder of images, its path and the folder beside which others are: `train/images` and `train`.
    pub places: Vec<(String, String)>,
    /// Folders with images below the places, each with the number of its place; empty for the place itself.
    inner: Vec<(usize, String)>,
    /// Levels of folders below the places.
    depth: usize,
}

impl Images {
    /// The images below these places; `None` if there are none, or folders at several levels have images.
    pub fn find(look: &Look<'_>, places: Vec<(String, String)>) -> Option<Self> {
        let mut level: Vec<(usize, String)> = (0..places.len()).map(|at| (at, String::new())).collect();
        for depth in 0..=MAX_DEPTH {
            let path = |(at, below): &(usize, String)| join(&places[*at].0, below);
            let have = level.iter().filter(|one| !look.files(&path(one)).images().is_empty()).count();
            let deeper = |one: &(usize, String)| -> Vec<(usize, String)> {
                look.folders(&path(one)).into_iter().map(|name| (one.0, join(&one.1, &name))).collect()
            };
            if have > 0 {
                level.retain(|one| !look.files(&path(one)).images().is_empty());
                return Some(Self { places, inner: level, depth });
            }
            level = level.iter().flat_map(deeper).take(MAX_FOLDERS + 1).collect();
            if level.len() > MAX_FOLDERS {
                return None;
            }
        }
        None
    }

    /// The folders with images.
    pub fn folders(&self) -> Vec<String> {
        self.inner.iter().map(|(at, below)| join(&self.places[*at].0, below)).collect()
    }

    /// Whether the place has images.
    pub fn is_in(&self, place: usize) -> bool {
        self.inner.iter().any(|(at, _)| *at == place)
    }

    /// The files in the folders `beside`, one for each place, whose path from the folder above the images is `path` in a pattern.
    pub fn with(&self, look: &Look<'_>, beside: &[String], path: &str, name: &str, by_name: Beside) -> Vec<Companions> {
        if let Some(one) = self.related(look, beside, path, name, by_name) {
            return vec![one];
        }
        // Scales and kinds of files have folders of their own.
        let inner: BTreeSet<String> = beside.iter().flat_map(|folder| look.folders(folder)).collect();
        let of = |inner: String| {
            let folders: Vec<String> = beside.iter().map(|folder| join(folder, &inner)).collect();
            self.related(look, &folders, &join(path, &inner), &component(&inner), by_name)
        };
        inner.into_iter().take(MAX_BESIDE).filter_map(of).collect()
    }

    fn related(
        &self,
        look: &Look<'_>,
        beside: &[String],
        path: &str,
        name: &str,
        by_name: Beside,
    ) -> Option<Companions> {
        let group = |(at, below): &(usize, String)| {
            let images = look.files(&join(&self.places[*at].0, below));
            let mut images: Vec<String> = images.images().into_iter().map(str::to_owned).collect();
            images.sort_unstable();
            (images, look.files(&join(&beside[*at], below)).0)
        };
        // Letters of patterns.
        if beside.iter().any(|folder| folder.contains(['{', '}', '*'])) {
            return None;
        }
        let groups: Vec<relation::Group> = self.inner.iter().map(group).collect();
        let found = relation::find(&groups, by_name)?;
        let middle = match self.depth {
            0 => String::new(),
            1 => "{parent}/".to_owned(),
            // Places that differ are splits, from whose folders {dir} counts.
            _ => format!("{{dir-{}}}/", self.places[0].0.rsplit('/').next().unwrap_or_default()),
        };
        let pattern = format!("{}{path}/{middle}{}", "../".repeat(self.depth + 1), found.pattern);
        let kind = self.inner.iter().find_map(|(at, below)| {
            let folder = join(&beside[*at], below);
            annotations::kind(look, &folder, &look.files(&folder), &found.extension)
        });
        let value = match kind {
            Some(kind) => format!("boxes={kind}:{pattern}"),
            None => format!("{name}={pattern}"),
        };
        Component::with(&value).ok()?;
        let are_images = names::is_image(format!("x.{}", found.extension).as_bytes());
        Some(Companions { value, lacking: found.lacking, others: if are_images { found.others } else { 0 } })
    }

    /// Levels of folders below the places.
    pub fn levels(&self) -> usize {
        self.depth
    }

    /// Whether the folders are below the places.
    pub fn is_nested(&self) -> bool {
        self.depth > 0
    }

    /// Names of the first level of folders below the places.
    pub fn first_level(&self) -> Vec<String> {
        let first = |(_, below): &(usize, String)| below.split('/').next().unwrap_or_default().to_owned();
        self.inner.iter().map(first).filter(|name| !name.is_empty()).collect()
    }
}

/// A path of two parts, of which either may be empty.
pub(super) fn join(folder: &str, name: &str) -> String {
    match (folder.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => folder.to_owned(),
        _ => format!("{folder}/{name}"),
    }
}

/// A component name for the files of a folder.
pub(super) fn component(folder: &str) -> String {
    let fit = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    let name: String = folder.chars().map(fit).collect();
    let mut name = name.trim_matches('_');
    // The last words name the content of the files.
    while name.len() > MAX_NAME_BYTES
        && let Some((_, last)) = name.split_once('_')
    {
        name = last;
    }
    pairs::component_of(name)
}

/// The name of a component for the folder `beside` of `images`: without what both names begin with.
fn component_beside(images: &str, beside: &str) -> String {
    let shared = images.bytes().zip(beside.bytes()).take_while(|(a, b)| a == b).count();
    let start = beside.as_bytes()[..shared].iter().rposition(|byte| *byte == b'_').map_or(0, |at| at + 1);
    component(beside.get(start..).unwrap_or(beside))
}

/// Images without a file, and files that belong to no image.
#[derive(Default)]
pub(super) struct Unpaired {
    pub lacking: u64,
    pub files: u64,
}

/// Adds the values of `--with` to `options`, each component once.
pub(super) fn add(options: &mut Vec<(&'static str, String)>, found: Vec<Companions>) -> Unpaired {
    let mut unpaired = Unpaired::default();
    for Companions { value, lacking, others } in found {
        let name = |value: &str| value.split('=').next().map(str::to_owned);
        if !options.iter().any(|(option, other)| *option == "--with" && name(other) == name(&value)) {
            options.push(("--with", value));
            unpaired.lacking += lacking;
            unpaired.files += others;
        }
    }
    unpaired
}

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    // The user who names splits has seen the question, and its answer is that folders below are classes.
    if !look.splits.is_empty() {
        return None;
    }
    match look.split_folders() {
        Some(splits) => below(look, &splits),
        None => below(look, &[String::new()]),
    }
    .map(|(_, found)| found)
}

/// The name of the folders of images, and the layout of the folders in `above`: splits, or the source.
pub(super) fn below(look: &Look<'_>, above: &[String]) -> Option<(String, Found)> {
    let names: BTreeSet<String> = above.iter().flat_map(|folder| look.folders(folder)).collect();
    let bytes: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let a_and_b = [b"A".as_slice(), b"B"];
    let are_a_and_b = names.len() <= 3 && a_and_b.iter().all(|name| bytes.contains(name));
    let called: Vec<[&[u8]; 2]> =
        pairs::called_so(&bytes).into_iter().map(pairs::images_first).chain(are_a_and_b.then_some(a_and_b)).collect();
    let mut images: Vec<String> = called.iter().map(|[images, _]| text(images)).collect();
    images.dedup();
    images.into_iter().find_map(|images| {
        let beside: Vec<String> =
            called.iter().filter(|[a, _]| *a == images.as_bytes()).map(|[_, b]| text(b)).collect();
        let found = beside_images(look, above, &names, &images, &beside)?;
        Some((images, found))
    })
}

/// The layout with the images in folders called `name`, of which `known` are counterparts by their names.
fn beside_images(
    look: &Look<'_>,
    above: &[String],
    names: &BTreeSet<String>,
    name: &str,
    known: &[String],
) -> Option<Found> {
    let images = Images::find(look, above.iter().map(|folder| (join(folder, name), folder.clone())).collect())?;
    let (mut with, mut lacking, mut companions, mut left_files) = (Vec::new(), 0, Vec::new(), Vec::new());
    // Counterparts by name first.
    // Numbered images of one split have no counterparts in another split.
    let word = |folder: &str| Likeness::classify(folder.as_bytes()).word();
    let is_of_another = |other: &str| word(name).zip(word(other)).is_some_and(|(own, other)| own != other);
    let is_split = |other: &str| look.is_split(name) && look.is_split(other);
    let others = names.iter().filter(|other| *other != name && !known.contains(other) && !is_split(other));
    for other in known.iter().chain(others).filter(|other| !is_of_another(other)).take(MAX_BESIDE) {
        let folders: Vec<String> = above.iter().map(|folder| join(folder, other)).collect();
        let by_name = match known.contains(other) {
            true if names.len() == 2 => Beside::Pair,
            true => Beside::Known,
            false => Beside::Any,
        };
        let values = images.with(look, &folders, other, &component_beside(name, other), by_name);
        if !values.is_empty() {
            let unpaired = add(&mut with, values);
            lacking += unpaired.lacking;
            let files = || format!("{} of {other}", size::counted(unpaired.files, "file"));
            left_files.extend((unpaired.files > 0).then(files));
            companions.push(other.as_str());
        }
    }
    companions.iter().find(|one| known.iter().any(|known| known == *one))?;
    let of_splits = !above[0].is_empty();
    let has_images = |other: &&String| {
        let places = above.iter().map(|folder| (join(folder, other), folder.clone())).collect();
        Images::find(look, places).is_some()
    };
    let is_other = |other: &&String| *other != name && !companions.contains(&other.as_str());
    let mut options = Vec::new();
    if of_splits {
        let splits: Vec<&str> = (0..above.len()).filter(|at| images.is_in(*at)).map(|at| above[at].as_str()).collect();
        options.push(("--splits", splits.join(",")));
        let has_others = !left_files.is_empty() || names.iter().filter(is_other).any(|other| has_images(&other));
        options.extend(has_others.then(|| ("--include", filter::below(name))));
    } else {
        options.push(look.folders_option(name, &images.first_level()));
        // A folder that is left is no split, whatever its name (ISIC2018_Task1-2_Training_Input).
        options.extend((is_like_split(name) && options[0].0 != "--splits").then(|| ("--splits", "none".to_owned())));
    }
    let is_plain = look.inside.is_empty() && !of_splits && !images.is_nested() && names.len() == 2;
    if is_plain && with.iter().all(|(_, value)| value.contains("/*.") && !value.starts_with("boxes=")) {
        // The question of class folders with the same files has these options.
        return None;
    }
    options.extend(with);
    options.extend(on_missing(lacking));
    let shown = companions.join(", ");
    let left_folders = names.iter().filter(|other| !of_splits && is_other(other) && has_images(other)).cloned();
    let left_out = left_out(&left_folders.chain(left_files).collect::<Vec<_>>());
    let what = format!("{name}, {shown} hold files of the same names: pairs, and no classes{left_out}");
    let classes = if of_splits { None } else { with_classes(look, name, &images.first_level(), &options) };
    let classes = classes.map_or_else(String::new, |classes| format!("{classes}; "));
    let other = Some(format!("{classes}{}", only_images(look, name, above)));
    Some(Found { other, ..Found::new(what, options, "packs each image with its files") })
}

/// Help with the command that packs the folders `inner` of `images` as classes, with the files of `options`: `Images/n02085620-Chihuahua` and
/// `Annotation/n02085620-Chihuahua` (Stanford Dogs). `None` if they are splits, or files are not in folders of their names.
pub(super) fn with_classes(
    look: &Look<'_>,
    images: &str,
    inner: &[String],
    options: &[(&'static str, String)],
) -> Option<String> {
    let has_letter = |name: &String| name.contains(|letter: char| letter.is_alphabetic());
    if inner.iter().collect::<BTreeSet<_>>().len() < 2
        || inner.iter().any(|name| is_like_split(name) || pairs::is_half(name.as_bytes()) || !has_letter(name))
    {
        return None;
    }
    let mut roots = BTreeSet::new();
    let mut with = String::new();
    for (name, value) in options.iter().filter(|(name, _)| ["--with", "--on-missing"].contains(name)) {
        let value = match value.split_once("../../") {
            Some((before, path)) => {
                let (folder, path) = path.split_once("/{parent}/")?;
                let root = component(folder);
                let value = format!("{before}{{{root}}}/{{parent}}/{path}");
                roots.insert(format!("--extra-root {root}={}", shell::path(look.path(folder))));
                value
            }
            None if *name == "--with" => return None,
            None => value.clone(),
        };
        with.push_str(&format!(" {name} {}", shell::word(value)));
    }
    let roots = roots.into_iter().collect::<Vec<_>>().join(" ");
    let images = shell::path(look.path(images));
    Some(format!("shardpack pack {images} DST {roots}{with} packs them with the folders as classes"))
}

/// Whether a folder has a split word in its name, so that its splits are a question.
fn is_like_split(name: &str) -> bool {
    Likeness::classify(name.as_bytes()).word().is_some()
}

/// Help with the options that pack only the images, and all folders as classes of splits.
fn only_images(look: &Look<'_>, name: &str, above: &[String]) -> String {
    let include = shell::word(filter::below(name));
    let before = match look.inside.is_empty() {
        true => String::new(),
        false => format!("shardpack pack {} DST ", shell::path(look.path(""))),
    };
    if above[0].is_empty() {
        let none = if is_like_split(name) { " --splits none" } else { "" };
        return format!("{before}--no-labels --include {include}{none} packs only these");
    }
    let are_known = above.iter().all(|split| splits::KNOWN.contains(&split.as_str()));
    let splits = format!("--splits {}", above.join(","));
    let given = if are_known { String::new() } else { format!("{splits} ") };
    format!(
        "{before}--no-labels {given}--include {include} packs only these; {before}{splits} packs them as classes of these splits"
    )
}
