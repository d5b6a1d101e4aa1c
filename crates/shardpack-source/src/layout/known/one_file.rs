//! Images in one folder, and one file with their boxes, of COCO or CSV: `images` with `annotations/instances_default.json` (CVAT), `result.json` (Label
//! Studio), `annotations.json` or `labels.json` (FiftyOne), `_annotations.csv` (Roboflow), in the folder of the images or above.

use super::{
    Found, Look,
    counterparts::{Images, join},
    on_missing,
};
use crate::boxes;

/// Folders that files with annotations are in, beside the images.
const FOLDERS: [&str; 3] = ["", "annotations", "labels"];
/// A kind of files.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub extension: &'static str,
    /// Value of `--with`.
    pub with: &'static str,
    /// Whether a file of this name that begins so is one.
    pub is: fn(&str, &[u8]) -> bool,
    /// Whether an image without boxes is in no file.
    pub lacks_empty: bool,
}

pub(super) const COCO: Kind =
    Kind { extension: "json", with: "coco", is: |_, start| is_coco(start), lacks_empty: false };
const CSV: Kind = Kind {
    extension: "csv",
    with: "csv",
    // As Roboflow calls it.
    is: |name, start| name == "_annotations.csv" || boxes::is_table(start),
    lacks_empty: true,
};
pub(super) const KINDS: [Kind; 2] = [COCO, CSV];

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
    if look.only_folder().is_some_and(|inside| below(&look.within(inside)).is_some()) {
        return None;
    }
    let Some(splits) = look.split_folders() else { return below(look).map(|one| one.found(None)) };
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
    file: String,
    extension: &'static str,
}

impl OneFile {
    fn found(&self, splits: Option<&[String]>) -> Found {
        let Self { images, levels, file, extension } = self;
        let mut options = Vec::new();
        if let Some(splits) = splits {
            options.push(("--splits", splits.join(",")));
        } else if !images.is_empty() {
            options.push(("--include", format!("{images}/**")));
        }
        let kind = KINDS.iter().find(|kind| kind.extension == *extension).unwrap_or(&COCO);
        options.extend(kind.options(&format!("{}{file}", "../".repeat(*levels)), 0));
        let before = if splits.is_some() { "splits of images" } else { "images" };
        let what = format!("{before} with their annotations in {file}");
        Found::new(what, options, "packs each image with its boxes and their class numbers")
    }
}

/// The only file with boxes of the folder that is looked at.
fn below(look: &Look<'_>) -> Option<OneFile> {
    let images = folder_of_images(look)?;
    let found = Images::find(look, vec![(images.clone(), String::new())])?;
    let mut files = Vec::new();
    for folder in FOLDERS.iter().copied().chain([images.as_str()].into_iter().filter(|one| !one.is_empty())) {
        for name in look.files(folder).0 {
            let path = join(folder, &name);
            let has_extension =
                |kind: &&Kind| name.strip_suffix(kind.extension).is_some_and(|stem| stem.ends_with('.'));
            let kind = KINDS.iter().find(has_extension).filter(|kind| (kind.is)(&name, &look.start(&path)));
            files.extend(kind.map(|kind| (path, kind.extension)));
        }
    }
    let [(file, extension)] = <[(String, &str); 1]>::try_from(files).ok()?;
    let levels = found.levels() + usize::from(!images.is_empty());
    Some(OneFile { images, levels, file, extension })
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
    let has = |text: &[u8]| start.windows(text.len()).any(|window| window == text);
    let is_object = start.trim_ascii_start().starts_with(b"{") && MEMBERS.into_iter().any(has);
    is_object && (has(b"\"file_name\"") || has(b"\"bbox\"")) && !has(b"\"segments_info\"") && !has(b"\"caption\"")
}
