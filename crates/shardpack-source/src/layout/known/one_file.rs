//! Images in one folder, and one file with their boxes: `images` with `annotations/instances_default.json` (CVAT), `result.json` (Label
//! Studio), `annotations.json` or `labels.json` (FiftyOne), `annotations.xml` (CVAT), `via_region_data.json` (VGG Image Annotator),
//! `_annotations.csv` (Roboflow), in the folder of the images or above.

use std::collections::HashSet;

use shardpack_format::component::Component;

use super::{
    Files, Found, INNER, LAYOUTS, Look, MAX_AROUND, MAX_SPLITS,
    counterparts::{Images, join},
    list_names::is_other,
    look::{READ_BYTES, contains, has_extension},
    on_missing, stem,
};
use crate::{boxes, names};

/// Folders that files with annotations are in, beside the images.
const FOLDERS: [&str; 3] = ["", "annotations", "labels"];
/// Most files of a kind that are looked into.
const MAX_FILES: usize = 64;
/// The table of Roboflow, whose images may have a box each.
const ROBOFLOW: &str = "_annotations.csv";

/// A kind of files with boxes of many images.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub extension: &'static str,
    /// Value of `--with`.
    pub with: &'static str,
    /// Whether the file at a path is one, for images in these folders.
    pub is: fn(&Look<'_>, &str, &[String]) -> bool,
    /// Whether the file leaves out images without boxes.
    lacks_empty: bool,
}

pub(super) const COCO: Kind =
    Kind { extension: "json", with: "coco", is: |look, path, _| is_coco(&look.start(path)), lacks_empty: false };
/// XML of CVAT.
const CVAT: Kind =
    Kind { extension: "xml", with: "cvat", is: |look, path, _| is_cvat(&look.start(path)), lacks_empty: false };
/// JSON of VGG Image Annotator.
const VIA: Kind =
    Kind { extension: "json", with: "via", is: |look, path, _| is_via(&look.start(path)), lacks_empty: true };
/// JSON of Scalabel.
const SCALABEL: Kind = Kind {
    extension: "json",
    with: "scalabel",
    is: |look, path, _| has_all(&look.start(path), &["\"name\"", "\"labels\"", "\"box2d\""]),
    lacks_empty: true,
};
/// Kinds that are recognised by the names in them.
pub(super) const DESCRIBED: [Kind; 4] = [COCO, CVAT, VIA, SCALABEL];
pub(super) const CSV: Kind = Kind { extension: "csv", with: "csv", is: is_csv, lacks_empty: true };

/// Whether a file that begins so is one of VGG Image Annotator; images without regions have attributes of the file.
fn is_via(start: &[u8]) -> bool {
    has_all(start, &["\"filename\"", "\"regions\""])
        && (contains(start, b"\"shape_attributes\"") || contains(start, b"\"file_attributes\""))
}

/// Whether a file that begins so is one of CVAT for images; tracks are of a video.
fn is_cvat(start: &[u8]) -> bool {
    has_all(start, &["<annotations", "<meta"])
        && !contains(start, b"<track")
        && !contains(start, b"<mode>interpolation")
}

/// Whether a file that begins so has all these texts.
fn has_all(start: &[u8], texts: &[&str]) -> bool {
    texts.iter().all(|text| contains(start, text.as_bytes()))
}

impl Kind {
    /// The options for the file at `path`; `lacking` images are in none.
    pub fn options(&self, path: &str, lacking: u64) -> impl Iterator<Item = (&'static str, String)> {
        let with = ("--with", format!("boxes={}:{path}", self.with));
        std::iter::once(with).chain(on_missing(lacking + u64::from(self.lacks_empty)))
    }
}

/// Members of a file of COCO.
const MEMBERS: [&[u8]; 3] = [b"\"images\"", b"\"annotations\"", b"\"categories\""];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    // The only folder is looked at by itself.
    let is_known = |inside: String| {
        let inner = look.within(inside);
        LAYOUTS[..INNER].iter().any(|find| find(&inner).is_some())
    };
    let is_inside = || look.only_folder().is_some_and(is_known);
    let Some(splits) = look.split_folders() else {
        return below(look).filter(|_| look.depth() >= MAX_AROUND || !is_inside()).map(|one| one.found(None));
    };
    let of_split = |split: &String| below(&look.within(join(&look.inside, split)));
    let all: Vec<OneFile> = splits.iter().map(of_split).collect::<Option<_>>()?;
    let first = all.first().cloned()?;
    all.iter().all(|one| *one == first).then(|| first.found(Some(&splits)))
}

/// Where the images and the file are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OneFile {
    /// The folder of the images; empty for the source or the split.
    images: String,
    /// Levels of folders above an image.
    levels: usize,
    /// The option for the folders of the images.
    folders: Option<(&'static str, String)>,
    file: String,
    /// Other files of the kind.
    others: Vec<String>,
    /// [`Kind::with`] of the kind.
    with: &'static str,
}

impl OneFile {
    fn found(&self, splits: Option<&[String]>) -> Found {
        let Self { levels, file, others, with, .. } = self;
        let mut options = Vec::new();
        if let Some(splits) = splits {
            options.push(("--splits", splits.join(",")));
        } else if let Some(option) = &self.folders {
            options.push(option.clone());
        }
        let kind = DESCRIBED.into_iter().find(|kind| kind.with == *with).unwrap_or(CSV);
        options.extend(kind.options(&format!("{}{file}", "../".repeat(*levels)), 0));
        let has_others = !others.is_empty();
        // The images of the other files are not without boxes.
        for (_, value) in options.iter_mut().filter(|(name, _)| has_others && *name == "--on-missing") {
            *value = "skip".to_owned();
        }
        let before = if splits.is_some() { "splits of images" } else { "images" };
        let others = if others.is_empty() { String::new() } else { format!(", and others in {}", others.join(", ")) };
        let what = format!("{before} with their annotations in {file}{others}");
        let result = match has_others {
            true => "packs the images of this file alone, with their boxes and class numbers",
            false => "packs each image with its boxes and their class numbers",
        };
        Found::new(what, options, result)
    }
}

/// The file with boxes of the folder that is looked at: the only one with members of a kind, or the CSV with the shortest name.
fn below(look: &Look<'_>) -> Option<OneFile> {
    let images = folder_of_images(look)?;
    let found = Images::find(look, vec![(images.clone(), String::new())])?;
    let in_folders = found.folders();
    let image_files: Vec<Files> = in_folders.iter().take(MAX_SPLITS).map(|folder| look.files(folder)).collect();
    // A file with the name of an image is about that image.
    let images_of_files: HashSet<&str> = image_files.iter().flat_map(Files::images).collect();
    let mut paths = Vec::new();
    for folder in FOLDERS.iter().copied().chain([images.as_str()].into_iter().filter(|one| !one.is_empty())) {
        let files = look.files(folder);
        let others = files.0.iter().filter(|name| !images_of_files.contains(stem(name)));
        paths.extend(others.map(|name| join(folder, name)));
    }
    let levels = found.levels() + usize::from(!images.is_empty());
    let of_kind = |kind: &Kind| -> Vec<String> {
        let has_extension = |path: &&String| has_extension(path, kind.extension);
        let paths =
            paths.iter().filter(has_extension).take(MAX_FILES).filter(|path| (kind.is)(look, path, &in_folders));
        paths.cloned().collect()
    };
    let folders = (!images.is_empty()).then(|| look.folders_option(&images, &found.first_level()));
    let one = |file: String, others: Vec<String>, with| {
        let path = Component::with(&format!("boxes={with}:{file}"));
        path.is_ok().then_some(OneFile { images, levels, folders, file, others, with })
    };
    let described = DESCRIBED.iter().flat_map(|kind| of_kind(kind).into_iter().map(|file| (file, kind.with)));
    let mut described: Vec<(String, &'static str)> = described.collect();
    if described.len() == 1 {
        return described.pop().and_then(|(file, with)| one(file, Vec::new(), with));
    }
    let mut of_csv = of_kind(&CSV);
    of_csv.sort_by_key(String::len);
    let is_clear = described.is_empty() && !of_csv.is_empty() && !lists_classes(look, &paths, &in_folders);
    is_clear.then(|| one(of_csv.remove(0), of_csv, CSV.with))?
}

/// Whether the file at `path` is a table of boxes of images in `folders`.
fn is_csv(look: &Look<'_>, path: &str, folders: &[String]) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let start = look.start(path);
    let Some(names) = (!is_other(name)).then(|| boxes::images_of_table(&start)).flatten() else {
        return false;
    };
    let files: Vec<Files> = folders.iter().take(MAX_SPLITS).map(|folder| look.files(folder)).collect();
    let own: HashSet<&str> =
        files.iter().flat_map(|files| &files.0).flat_map(|name| [name.as_str(), stem(name)]).collect();
    let is_image = |name: &String| own.contains(name.rsplit('/').next().unwrap_or(name));
    let is_known = name == ROBOFLOW && names.len() < 2;
    // A folder may have few of the images of a long file (train-annotations-bbox.csv of Open Images).
    let is_long = start.len() as u64 == READ_BYTES && (name.contains("box") || name.contains("annotation"));
    let names_images = is_long || names.iter().any(is_image);
    is_known || names_images && (name == ROBOFLOW || boxes::has_repeated(&names))
}

/// Whether a CSV without boxes names images in `folders`: a list of their classes, which is the better question.
fn lists_classes(look: &Look<'_>, paths: &[String], folders: &[String]) -> bool {
    let images: HashSet<String> = folders
        .iter()
        .take(MAX_SPLITS)
        .flat_map(|folder| look.files(folder).0)
        .filter(|name| names::is_image(name.as_bytes()))
        .collect();
    let names_images = |path: &&String| {
        let start = look.start(path);
        let mut words = start.split(|byte| b"\"\n\r\t,;| /".contains(byte));
        let is_image = |word: &[u8]| str::from_utf8(word).is_ok_and(|word| images.contains(word));
        boxes::images_of_table(&start).is_none() && words.any(is_image)
    };
    let is_list = |path: &&String| has_extension(path, CSV.extension) && !is_other(path);
    paths.iter().filter(is_list).take(MAX_FILES).any(|path| names_images(&path))
}

/// The only folder with images; empty if they are right in the source.
fn folder_of_images(look: &Look<'_>) -> Option<String> {
    if !look.files("").images().is_empty() {
        return look.folders("").is_empty().then(String::new);
    }
    let top = look.folders("");
    let mut with_images = top.into_iter().filter(|name| look.has_images(name, 1));
    with_images.next().filter(|_| with_images.next().is_none())
}

/// Whether a file that begins so is one of COCO with boxes. The first bytes may end in the first list.
fn is_coco(start: &[u8]) -> bool {
    let has = |text: &[u8]| contains(start, text);
    let has_images = has(b"\"file_name\"") || has(b"\"bbox\"");
    begins_as_coco(start) && has_images && !has(b"\"segments_info\"") && !has(b"\"caption\"")
}

/// Whether a file that begins so is one of COCO.
pub(super) fn begins_as_coco(start: &[u8]) -> bool {
    start.trim_ascii_start().starts_with(b"{") && MEMBERS.into_iter().any(|member| contains(start, member))
}
