//! Recognises layouts that many datasets share, by their folders and files, and names the options that pack them.
//!
//! One file for each layout, one line in [`LAYOUTS`], one row in docs/how-to/layouts.md. A layout is recognised by names and a few
//! files; nothing is packed by it without the options.

mod annotated;
mod annotations;
mod anomalies;
mod beside;
mod categories;
mod cityscapes;
mod class_masks;
mod coco;
mod counterparts;
mod imagenet;
mod img2dataset;
mod in_classes;
mod instances;
mod kitti;
mod list_names;
mod list_splits;
pub(crate) mod listed;
mod listed_masks;
mod look;
mod market;
mod one_file;
mod relation;
mod rows;
mod sequences;
mod side_by_side;
mod sound;
mod speech_commands;
mod split_beside;
mod split_classes;
mod split_coco;
mod split_in_name;
mod split_masks;
mod stylegan;
mod transcripts;
mod voc;
mod volumes;
mod wider;
mod yolo;

use shardpack_format::{Error, shell, text};

use crate::{Result, api::SourceListing, names, tree::Tree};
use look::{Files, Look, MAX_BELOW_SPLIT, MAX_SPLITS, ReadFolders, stem};

pub(crate) use listed_masks::{refuse as refuse_masks, refuse_same_names};

/// Layouts in the order in which they are tried.
const LAYOUTS: [Find; 32] = [
    stylegan::find,
    img2dataset::find,
    yolo::find,
    voc::find,
    cityscapes::find,
    annotated::find,
    anomalies::find,
    imagenet::find,
    kitti::find,
    instances::find,
    sequences::find,
    volumes::find,
    market::find,
    categories::find,
    coco::find,
    split_coco::find,
    wider::find,
    split_beside::find,
    split_masks::find,
    class_masks::find,
    split_classes::find,
    side_by_side::find,
    split_in_name::find,
    counterparts::find,
    in_classes::find,
    coco::find_lists,
    one_file::find,
    transcripts::find,
    speech_commands::find,
    sound::find,
    beside::find_labelled,
    beside::find,
];
/// Layouts that are recognised in the only folder of the source: a folder of images with texts may be a class.
const INNER: usize = LAYOUTS.len() - 1;
/// Most folders around a dataset: `VOCdevkit/VOC2012`.
const MAX_AROUND: usize = 2;

type Find = fn(&Look<'_>) -> Option<Found>;

/// A recognised layout.
struct Found {
    /// Its name and its folders, for the message.
    what: String,
    /// The options that pack it, apart from `--no-labels`.
    options: Vec<(&'static str, String)>,
    /// Whether its folders are classes.
    has_classes: bool,
    /// The result of the options, as the end of a sentence.
    result: &'static str,
    /// The command that packs it, if it is no options for the source.
    command: Option<String>,
    /// Another command, with its result.
    other: Option<String>,
}

impl Found {
    fn new(what: String, options: Vec<(&'static str, String)>, result: &'static str) -> Self {
        Self { what, options, result, has_classes: false, command: None, other: None }
    }

    /// The options, or the command.
    fn usage(&self) -> String {
        let options: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{name} {}", shell::word(value))).collect();
        let labels = (!self.has_classes).then(|| "--no-labels".to_owned());
        let options = || labels.into_iter().chain(options).collect::<Vec<_>>().join(" ");
        self.command.clone().unwrap_or_else(options)
    }
}

/// Fails if samples are rows of arrays, and not files.
///
/// # Errors
/// The error names the arrays.
pub(crate) fn refuse_rows(tree: Tree<'_>) -> Result<()> {
    rows::refuse(&Look::new(tree, &[], &ReadFolders::default()))
}

/// Fails if the tree has a known layout; `splits` are folders that the user calls splits.
///
/// # Errors
/// The error names the layout and the options that pack it.
pub(crate) fn ask(tree: Tree<'_>, splits: &[String]) -> Result<()> {
    let read = ReadFolders::default();
    let mut look = Look::new(tree, splits, &read);
    for around in 0..=MAX_AROUND {
        let layouts = if around == 0 { &LAYOUTS[..] } else { &LAYOUTS[..INNER] };
        if let Some(found) = layouts.iter().find_map(|find| find(&look)) {
            return Err(look.question(&found));
        }
        let Some(inner) = look.only_folder() else { break };
        look.inside = inner;
    }
    // Years of Pascal VOC side by side: no class is called so inside.
    let inside = |folder: &String| match look.inside.is_empty() {
        true => folder.clone(),
        false => format!("{}/{folder}", look.inside),
    };
    let year = |folder: &String| voc::find(&look.within(inside(folder)));
    let folders: Vec<String> = look.folders("").into_iter().take(MAX_SPLITS).collect();
    let years: Vec<(&String, Found)> = folders.iter().filter_map(|folder| Some((folder, year(folder)?))).collect();
    match voc::all(&years) {
        None => Ok(()),
        Some(found) => Err(look.question(&found)),
    }
}

/// A note on files of the same names as images that are not packed, with the option that packs them.
pub(crate) fn note_texts(tree: Tree<'_>, found: &[SourceListing]) -> Option<String> {
    let count = |extension: &str| {
        let reason = names::other_reason(format!("x.{extension}").as_bytes());
        found.iter().map(|one| one.ignored.get(&reason).copied().unwrap_or(0)).sum::<u64>()
    };
    let images: u64 = found.iter().map(|one| one.listing.len()).sum();
    if annotations::TEXTS.iter().all(|extension| count(extension) * 2 < images.max(1)) {
        return None;
    }
    let one = found.iter().find(|one| !one.listing.is_empty())?;
    let folder = String::from_utf8(one.listing.folder(0).path.to_vec()).ok()?;
    let folder = format!("{}{folder}", one.prefix());
    let read = ReadFolders::default();
    let look = Look::new(tree, &[], &read);
    let (extension, _) = annotations::beside(&look.files(&folder))?;
    let with = annotations::option(&look, &folder, extension, "", None);
    // A text may be missing, a file with boxes is an error.
    let on_missing = if with.contains('=') && count(extension) < images { " --on-missing empty" } else { "" };
    Some(format!(
        "{} .{extension} files are not packed, and have the names of images: --with {}{on_missing} packs them",
        count(extension),
        shell::word(with)
    ))
}

impl Look<'_> {
    /// The error for a tree of this layout.
    fn question(&self, found: &Found) -> Error {
        let empty = self.without_images(&found.options);
        let what = match self.inside.is_empty() {
            true => found.what.clone(),
            false => format!("{} has {}", text::shown(self.inside.as_bytes()), found.what),
        };
        let before = match (&found.command, self.inside.is_empty()) {
            (Some(_), _) if self.tree.listed.is_some() => {
                "the command needs a folder of this machine: copy or unpack it there; then ".to_owned()
            }
            (None, false) => format!("shardpack pack {} DST ", shell::path(self.path(""))),
            _ => String::new(),
        };
        let other = found.other.as_ref().map_or_else(String::new, |other| format!("{other}; "));
        Error::usage(format!("{what}{empty}")).in_file(self.tree.root).help(format!(
            "{before}{} {}; {other}--splits none packs all folders as classes",
            found.usage(),
            found.result
        ))
    }

    /// The end of a sentence on splits without images, which `options` leave out; empty if there are none.
    fn without_images(&self, options: &[(&'static str, String)]) -> String {
        let are_listed = |(name, value): &(&str, String)| *name == "--splits" && !value.contains('{');
        // Of sounds, no folder has images.
        if !options.iter().any(are_listed) || options.iter().any(|(name, _)| *name == "--files") {
            return String::new();
        }
        let top = self.folders("");
        let is_empty = |name: &&String| self.is_split(name) && !self.has_images(name, MAX_BELOW_SPLIT);
        let empty: Vec<&str> = top.iter().take(MAX_SPLITS).filter(is_empty).map(String::as_str).collect();
        match empty.is_empty() {
            true => String::new(),
            false => format!("; no images are in {}", empty.join(", ")),
        }
    }
}

/// The end of a sentence on folders that are not packed; empty if there are none.
fn left_out(folders: &[String]) -> String {
    if folders.is_empty() { String::new() } else { format!("; it leaves out {}", folders.join(", ")) }
}

/// `--on-missing empty`, if images lack a file.
fn on_missing(lacking: u64) -> Option<(&'static str, String)> {
    (lacking > 0).then(|| ("--on-missing", "empty".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The help for a tree of these files, each with its content.
    fn help(files: &[(&str, &str)]) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        ask(Tree { root: root.path(), listed: None }, &[]).err().and_then(|error| error.help_text().map(str::to_owned))
    }

    #[test]
    fn layouts_are_recognised_in_the_only_folder() {
        let xml = "<annotation>";
        for (files, give) in [
            (&["a/images/1.jpg", "a/labels/1.txt"][..], Some(("a", "--include 'images/**' --with 'boxes=yolo:"))),
            (
                &["VOCdevkit/VOC2012/JPEGImages/1.jpg", "VOCdevkit/VOC2012/Annotations/1.xml", "readme.txt"],
                Some(("VOCdevkit/VOC2012", "--include 'JPEGImages/**' --with 'annotation=")),
            ),
            // A class, a folder too deep, and images outside.
            (&["cat/1.jpg", "cat/1.caption"], None),
            (&["a/b/c/images/1.jpg", "a/b/c/labels/1.txt"], None),
            (&["a/images/1.jpg", "a/labels/1.txt", "1.jpg"], None),
            (&["a/images/1.jpg", "a/labels/1.txt", "b/1.jpg"], None),
        ] {
            let found = help(
                &files
                    .iter()
                    .map(|name| (*name, if name.ends_with("xml") { "" } else { "0 .5 .5 .1 .1" }))
                    .collect::<Vec<_>>(),
            );
            match (&found, give) {
                (None, None) => {}
                (Some(found), Some((folder, options))) => {
                    let (before, after) = found.split_once(" DST ").unwrap();
                    let is_given = before.starts_with("shardpack pack /") && before.ends_with(&format!("/{folder}"));
                    assert!(is_given && after.contains(options), "{files:?}: {found}");
                }
                _ => panic!("{files:?}: {found:?}"),
            }
        }
        let classes = help(&[("train/1.jpg", ""), ("train/_classes.csv", "filename, a\n1.jpg, 1\n")]).unwrap();
        assert!(classes.starts_with("shardpack pack --split train=/"), "{classes}");
        let years = [
            "VOC2007/JPEGImages/1.jpg",
            "VOC2007/Annotations/1.xml",
            "VOC2012/JPEGImages/2.jpg",
            "VOC2012/Annotations/2.xml",
        ];
        let years = help(&years.map(|name| (name, if name.ends_with("xml") { "<annotation>" } else { "" }))).unwrap();
        assert!(
            years.starts_with("--no-labels --include '*/JPEGImages/**' --with 'boxes=voc:../Annotations/*.xml' packs"),
            "{years}"
        );
        assert!(help(&[("a/train/1.jpg", ""), ("a/train/1.xml", xml)]).unwrap().contains("boxes=voc:*.xml"));
    }

    #[test]
    fn layouts_are_recognised_by_folders_and_files() {
        let of = |files: &[&str], content: &str| help(&files.iter().map(|name| (*name, content)).collect::<Vec<_>>());
        let boxes = "0 0.5 0.5 0.1 0.1";
        for (files, content, options) in [
            (
                &["images/train/1.jpg", "images/val/2.jpg", "labels/train/1.txt", "labels/val/2.txt"][..],
                boxes,
                Some("--splits 'images/{split}' --with 'boxes=yolo:../../labels/{parent}/*.txt'"),
            ),
            (
                &[
                    "train/images/1.jpg",
                    "train/images/3.jpg",
                    "train/labels/1.txt",
                    "valid/images/2.jpg",
                    "valid/labels/2.txt",
                ],
                boxes,
                Some("--splits train,valid --with 'boxes=yolo:../labels/*.txt' --on-missing empty"),
            ),
            (
                &["images/1.jpg", "labels/1.txt"],
                "0 0.1 0.1 0.2 0.1 0.2 0.2",
                Some("--include 'images/**' --with 'boxes=yolo-seg:../labels/*.txt'"),
            ),
            (&["images/1.jpg", "labels/1.txt"], "a text", None),
            (
                &["JPEGImages/1.jpg", "Annotations/1.xml", "SegmentationClass/1.png"],
                "",
                Some(
                    "--include 'JPEGImages/**' --with 'annotation=../Annotations/*.xml' --with 'mask=../SegmentationClass/*.png'",
                ),
            ),
            (
                &["train/1.png", "trainannot/1.png", "val/2.png", "valannot/2.png"],
                "",
                Some("--splits '{split}' --with 'mask=../{parent}annot/*.png'"),
            ),
            (
                &[
                    "images/training/1.jpg",
                    "annotations/training/1.png",
                    "images/validation/2.jpg",
                    "annotations/validation/2.png",
                ],
                "",
                Some("--splits 'images/{split}' --with 'annotation=../../annotations/{parent}/*.png'"),
            ),
            (
                &["leftImg8bit/train/bonn/a_leftImg8bit.png", "gtFine/train/bonn/a_gtFine_labelIds.png"],
                "",
                Some(
                    "--splits 'leftImg8bit/{split}' --with 'mask=../../../gtFine/{dir-leftImg8bit}/{stem-_leftImg8bit}_gtFine_labelIds.png'",
                ),
            ),
            (&["1.jpg", "1.txt", "2.jpg", "2.txt"], "", Some("--with txt")),
            (&["1.jpg", "1.json", "2.jpg"], "", Some("--with json")),
            (
                &["1.jpg", "1.json", "2.jpg"],
                "{\"version\": \"5.0.1\", \"flags\": {}, \"shapes\": []}",
                Some("--with 'boxes=labelme:*.json' --on-missing empty"),
            ),
            (&["1.jpg", "1.xml"], "<?xml version=\"1.0\"?>\n<annotation>", Some("--with 'boxes=voc:*.xml'")),
            (
                &["JPEGImages/1.jpg", "Annotations/1.xml"],
                "<annotation>",
                Some("--include 'JPEGImages/**' --with 'boxes=voc:../Annotations/*.xml'"),
            ),
            (
                &["train/1.jpg", "train/1.xml", "valid/2.jpg", "valid/2.xml", "valid/3.jpg"],
                "<annotation>",
                Some("--splits train,valid --with 'boxes=voc:*.xml' --on-missing empty"),
            ),
            (&["train/1.jpg", "train/1.xml"], "<html>", None),
            (
                &["train/1.jpg", "train/_annotations.coco.json", "test/2.jpg", "test/_annotations.coco.json"],
                "",
                Some("--splits test,train --with boxes=coco:_annotations.coco.json"),
            ),
            (
                &["train/1.jpg", "train/1_mask.png", "train/_classes.csv", "valid/2.png", "valid/2_mask.png"],
                "",
                Some("--splits train,valid --with 'mask=*_mask.png'"),
            ),
            (&["cat/1.jpg", "cat/1.xml"], "<annotation>", Some("--with 'boxes=voc:*.xml'")),
            (&["cat/1.jpg", "cat/1.xml", "dog/2.jpg", "dog/2.xml"], "<annotation>", None),
            (&["1.jpg", "1.txt", "classes.txt"], boxes, Some("--with 'boxes=yolo:*.txt'")),
            (
                &["train/1.jpg", "train/_annotations.csv", "valid/2.jpg", "valid/_annotations.csv"],
                "filename,xmin,ymin,xmax,ymax,class",
                Some("--splits train,valid --with boxes=csv:_annotations.csv --on-missing empty"),
            ),
            (
                &["train/1.jpg", "test/2.jpg", "train.csv", "sample_submission.csv"],
                "image_id,bbox\n1,\"[1, 2, 3, 4]\"\n1,\"[1, 2, 3, 5]\"\n",
                Some("--splits '{split}' --with 'boxes=csv:../{parent}.csv' --on-missing empty"),
            ),
            // The list of a split has another form of name.
            (
                &["train/1.jpg", "validation/2.jpg", "oid-train-bbox.csv", "validation-bbox.csv"],
                "image_id,bbox\n1,\"[1, 2, 3, 4]\"\n1,\"[1, 2, 3, 5]\"\n",
                None,
            ),
            (
                &["train/1.jpg", "validation/2.jpg", "train-bbox.csv", "validation-bbox.csv", "test.csv"],
                "image_id,bbox\n1,\"[1, 2, 3, 4]\"\n1,\"[1, 2, 3, 5]\"\n",
                Some("--splits '{split}' --with 'boxes=csv:../{parent}-bbox.csv' --on-missing empty"),
            ),
            // Of other images, and of predictions.
            (&["imgs/1.jpg", "boxes.csv"], "image,x,y,w,h\n7,1,2,3,4\n7,1,2,3,5\n", None),
            (&["imgs/1.jpg", "predictions.csv"], "image,x,y,w,h\n1,1,2,3,4\n1,1,2,3,5\n", None),
            (
                &["imgs/1.jpg", "boxes.csv"],
                "image,x,y,w,h\n1,1,2,3,4\n1,1,2,3,5\n",
                Some("--include 'imgs/**' --with boxes=csv:../boxes.csv --on-missing empty"),
            ),
            (
                &["train2017/1.jpg", "val2017/2.jpg", "test2017/3.jpg", "annotations/instances_val2017.json"],
                "",
                Some(
                    "--splits '{split}' --with 'boxes=coco:../annotations/instances_{parent}.json' --on-missing empty",
                ),
            ),
            (
                &[
                    "images/train/1.jpg",
                    "images/val/2.jpg",
                    "annotations/instances_train.json",
                    "annotations/instances_val.json",
                ],
                "",
                Some("--splits 'images/{split}' --with 'boxes=coco:../../annotations/instances_{parent}.json'"),
            ),
            (&["cat/1.jpg", "dog/1.jpg"], "", None),
            (&["train/cat/1.jpg", "val/cat/1.jpg"], "", None),
            (&["1.jpg", "readme.txt"], "", None),
        ] {
            let found = of(files, content);
            let expected = options.map(|options| format!("--no-labels {options} packs"));
            match (&found, &expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => assert!(found.starts_with(expected.as_str()), "{files:?}: {found}"),
                _ => panic!("{files:?}: {found:?}"),
            }
        }
    }
}
