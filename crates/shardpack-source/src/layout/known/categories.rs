//! COCO lists with one category per image and no boxes: `train2018.json` beside `train_val2018` (iNaturalist), `train/metadata.json` beside
//! `train/images` (Herbarium), `metadata/train_annotations.json` and `train` (iWildCam).

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use shardpack_format::shell;

use super::{
    Found, Look, MAX_BELOW_SPLIT, MAX_SPLITS,
    counterparts::join,
    left_out,
    list_names::{is_train, split_of},
    look::{self, contains, has_extension},
    one_file, stem,
};
use crate::coco_files;

const EXTENSION: &str = "json";
/// Members of the list and of its annotations.
const MEMBERS: [&[u8]; 4] = [b"\"images\"", b"\"annotations\"", b"\"categories\"", b"\"category_id\""];
/// Members of annotations that are about a part of an image, or are texts.
const OTHER_MEMBERS: [&[u8]; 5] =
    [b"\"bbox\"", b"\"segmentation\"", b"\"segments_info\"", b"\"keypoints\"", b"\"caption\""];
/// Most lists that are looked into.
const MAX_LISTS: usize = 16;

/// A list with the folder of its paths.
struct List {
    /// Its path in the source.
    name: String,
    split: Option<String>,
    root: PathBuf,
    /// Whether `pack` finds the root.
    is_found: bool,
    /// Folders of the first level with the first images.
    folders: BTreeSet<String>,
    /// Whether each image has one category, as far as the list is read.
    has_one_each: bool,
}

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if look.tree.listed.is_some() || !look.splits.is_empty() {
        return None;
    }
    let folders: Vec<String> = look.folders("").into_iter().take(MAX_SPLITS).collect();
    let mut lists = Vec::new();
    for folder in std::iter::once("").chain(folders.iter().map(String::as_str)) {
        let files = look.files(folder);
        // A file with the name of an image is about that image.
        let images = files.images();
        let names = files.0.iter().filter(|name| has_extension(name, EXTENSION) && !images.contains(stem(name)));
        lists.extend(names.take(MAX_LISTS).filter_map(|name| List::find(look, folder, name, &folders)));
    }
    lists.sort_by_key(|list| !list.split.as_deref().is_some_and(is_train));
    let splits: BTreeSet<&String> = lists.iter().filter_map(|list| list.split.as_ref()).collect();
    let first = lists.first()?;
    let have_roots = lists.iter().all(|list| list.is_found) || lists.iter().all(|list| list.root == first.root);
    let are_splits = lists.len() > 1 && splits.len() == lists.len() && have_roots;
    let (taken, others) = lists.split_at(if are_splits { lists.len() } else { 1 });
    Some(found(look, taken, others, &folders))
}

impl List {
    /// The list `name` in `folder`, if it has categories of images below one of the `folders` of the source.
    fn find(look: &Look<'_>, folder: &str, name: &str, folders: &[String]) -> Option<Self> {
        let below = join(folder, name);
        let path = look.path(&below);
        if !one_file::begins_as_coco(&look.start(&below)) {
            return None;
        }
        let text = look.pieces(&path);
        let has_others = OTHER_MEMBERS.into_iter().any(|other| contains(&text, other));
        if has_others || !MEMBERS.into_iter().all(|member| contains(&text, member)) {
            return None;
        }
        let names = coco_files::names(&path);
        let has = |root: &Path| names.iter().any(|name| root.join(name).is_file());
        let found =
            coco_files::root(&path, coco_files::folder_of(&path), coco_files::FILE_NAME).ok().filter(|root| has(root));
        let is_found = found.is_some();
        let root = found.or_else(|| folders.iter().map(|folder| look.path(folder)).find(|root| has(root)))?;
        // Class folders are classes as they are.
        if look.are_classes(&root) {
            return None;
        }
        let of_image = |name: &String| {
            let path = root.join(name);
            let below = path.strip_prefix(look.path("")).ok()?;
            below.iter().next()?.to_str().map(str::to_owned)
        };
        let folders = names.iter().filter_map(of_image).collect();
        let split = split_of(look, name, folder).map(|(split, _)| split);
        // Of a long list, not all is read.
        let has_one_each = (text.len() as u64) > look::PIECES * look::READ_BYTES || has_one_category_each(&text);
        Some(Self { name: below, split, root, is_found, folders, has_one_each })
    }
}

/// The command that packs the lists `taken`; `others` have categories, too.
fn found(look: &Look<'_>, taken: &[List], others: &[List], folders: &[String]) -> Found {
    let path = |list: &List| shell::path(look.path(&list.name)).to_string();
    let source = |list: &List| match &list.split {
        Some(split) if taken.len() > 1 => format!("--split {split}={}", path(list)),
        _ => path(list),
    };
    let sources = taken.iter().map(source).collect::<Vec<_>>().join(" ");
    let root = match taken.iter().all(|list| list.is_found) {
        true => String::new(),
        false => format!(" --root {}", shell::path(&taken[0].root)),
    };
    let names = |lists: &[List]| lists.iter().map(|list| list.name.as_str()).collect::<Vec<_>>().join(", ");
    let is_left = |folder: &&String| {
        look.has_images(folder, MAX_BELOW_SPLIT) && !taken.iter().any(|list| list.folders.contains(*folder))
    };
    let left: Vec<String> = folders.iter().filter(is_left).cloned().collect();
    let what = format!("images, and their categories in {}{}", names(taken), left_out(&left));
    let other = match others {
        [] => None,
        [_] => Some(format!("{} has categories, too", names(others))),
        _ => Some(format!("{} have categories, too", names(others))),
    };
    let (label, result) = match taken.iter().all(|list| list.has_one_each) {
        true => (" --label-column category_id", "packs each image with its class, and its annotations as JSON"),
        false => ("", "packs each image with its annotations as JSON"),
    };
    let command = Some(format!("shardpack pack {sources} DST{root}{label}"));
    Found { command, other, ..Found::new(what, Vec::new(), result) }
}

/// Whether each image of a list has one category.
fn has_one_category_each(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Coco<'a> {
        #[serde(borrow)]
        images: Vec<Image<'a>>,
        #[serde(borrow)]
        annotations: Vec<Annotation<'a>>,
    }
    #[derive(Deserialize)]
    struct Image<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Annotation<'a> {
        #[serde(borrow)]
        image_id: &'a RawValue,
        #[serde(borrow)]
        category_id: &'a RawValue,
    }
    let Ok(Coco { images, annotations }) = serde_json::from_slice(text) else { return false };
    let mut categories = HashMap::<&str, &str>::new();
    let mut are_single = true;
    for Annotation { image_id, category_id } in annotations {
        are_single &= *categories.entry(image_id.get()).or_insert(category_id.get()) == category_id.get();
    }
    are_single && images.iter().all(|image| categories.contains_key(image.id.get()))
}
