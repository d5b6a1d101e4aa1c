//! Images in one folder, and one COCO file: `images` with `annotations/instances_default.json` (CVAT), `result.json` (Label Studio), `annotations.json`
//! or `labels.json` (FiftyOne), in the folder of the images or above.

use super::{
    Found, Look,
    counterparts::{Images, join},
};

/// Folders that files with annotations are in, beside the images.
const FOLDERS: [&str; 3] = ["", "annotations", "labels"];
/// Members of such a file.
const MEMBERS: [&[u8]; 3] = [b"\"images\"", b"\"annotations\"", b"\"categories\""];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let Some(splits) = look.split_folders() else { return below(look).map(|one| one.found(None)) };
    let of_split = |split: &String| below(&Look { inside: join(&look.inside, split), ..*look });
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
}

impl OneFile {
    fn found(&self, splits: Option<&[String]>) -> Found {
        let Self { images, levels, file } = self;
        let mut options = Vec::new();
        if let Some(splits) = splits {
            options.push(("--splits", splits.join(",")));
        } else if !images.is_empty() {
            options.push(("--include", format!("{images}/**")));
        }
        options.push(("--with", format!("boxes=coco:{}{file}", "../".repeat(*levels))));
        let before = if splits.is_some() { "splits of images" } else { "images" };
        let what = format!("{before} with their annotations in {file}");
        Found::new(what, options, "packs each image with its boxes and their class numbers")
    }
}

/// The only file of the folder that is looked at.
fn below(look: &Look<'_>) -> Option<OneFile> {
    let images = folder_of_images(look)?;
    let found = Images::find(look, vec![(images.clone(), String::new())])?;
    let mut files = Vec::new();
    for folder in FOLDERS.iter().copied().chain([images.as_str()].into_iter().filter(|one| !one.is_empty())) {
        let names = look.files(folder).0.into_iter().filter(|name| name.ends_with(".json"));
        files.extend(names.map(|name| join(folder, &name)).filter(|path| is_coco(&look.start(path))));
    }
    let [file] = <[String; 1]>::try_from(files).ok()?;
    let levels = found.levels() + usize::from(!images.is_empty());
    Some(OneFile { images, levels, file })
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
pub(super) fn is_coco(start: &[u8]) -> bool {
    let has = |text: &[u8]| start.windows(text.len()).any(|window| window == text);
    let is_object = start.trim_ascii_start().starts_with(b"{") && MEMBERS.into_iter().any(has);
    is_object && (has(b"\"file_name\"") || has(b"\"bbox\"")) && !has(b"\"segments_info\"") && !has(b"\"caption\"")
}
