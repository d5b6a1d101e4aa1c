//! Pascal VOC: `JPEGImages`, `Annotations`, `SegmentationClass`.

use shardpack_format::{shell, size, text};

use super::{Found, Look, annotations, on_missing};

/// The folder of the lists of images, one for each split.
const SETS: &str = "ImageSets/Main";
/// Lists of splits; `trainval` has the images of two.
const SPLITS: [&str; 3] = ["train", "val", "test"];
/// Bytes of a list at most; longer ones are not looked at.
const MAX_LIST_BYTES: u64 = 16 << 20;

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let has = |name: &str| top.iter().any(|own| own == name);
    if !has("JPEGImages") {
        return None;
    }
    let images = look.files("JPEGImages");
    let mut options = vec![("--include", "JPEGImages/**".to_owned())];
    let mut all_lacking = 0;
    for (folder, name, extension) in [("Annotations", "annotation", "xml"), ("SegmentationClass", "mask", "png")] {
        let (with, lacking) = images.pairs(&look.files(folder).stems(extension));
        if with > 0 {
            let before = format!("../{folder}/");
            options.push(("--with", annotations::option(look, folder, extension, &before, Some(name))));
            all_lacking += lacking;
        }
    }
    options.extend(on_missing(all_lacking));
    let what = "a Pascal VOC dataset: images are in JPEGImages, and more files in folders beside it".to_owned();
    let is_any = options.iter().any(|(name, _)| *name == "--with");
    let other = splits(look, &options);
    is_any.then(|| Found { other, ..Found::new(what, options, "packs each image with these files") })
}

/// The command that packs the splits of `ImageSets/Main`, which are lists of images; files are in folders outside that of the images.
fn splits(look: &Look<'_>, options: &[(&'static str, String)]) -> Option<String> {
    if look.tree.listed.is_some() {
        return None;
    }
    let lists = Lists::find(look)?;
    if let Some(id) = lists.unreadable {
        return Some(format!(
            "{SETS} has the id {}: lists of ids can have no blanks, dots and commas in them, so it packs no splits",
            text::shown(id.as_bytes())
        ));
    }
    let path = |below: &str| shell::path(look.path(below)).to_string();
    let parts: Vec<String> =
        lists.used.iter().map(|name| format!("--split {name}={}", path(&format!("{SETS}/{name}.txt")))).collect();
    let mut words = vec![format!("--root {} --no-labels", path("JPEGImages"))];
    for (name, value) in options.iter().filter(|(name, _)| *name != "--include") {
        // `boxes=voc:../Annotations/*.xml`: the folder gets a name.
        match value.split_once("../").and_then(|(before, rest)| Some((before, rest.split_once('/')?))) {
            Some((before, (folder, file))) => {
                words.push(format!("--extra-root {folder}={}", path(folder)));
                words.push(format!("{name} {}", shell::word(format!("{before}{{{folder}}}/{file}"))));
            }
            None => words.push(format!("{name} {}", shell::word(value))),
        }
    }
    if lists.without_image > 0 {
        words.push("--on-bad skip".to_owned());
    }
    let mut notes = Vec::new();
    if !lists.empty.is_empty() {
        let name = if lists.empty.len() == 1 { "names" } else { "name" };
        notes.push(format!("without {}, which {name} no image of JPEGImages", lists.empty.join(", ")));
    }
    if lists.without_image > 0 {
        notes.push(format!(
            "without {} that {} no image",
            size::counted(lists.without_image, "id"),
            if lists.without_image == 1 { "has" } else { "have" }
        ));
    }
    let notes: String = notes.iter().map(|note| format!(", {note}")).collect();
    Some(format!("shardpack pack {} DST {} packs the splits of {SETS}{notes}", parts.join(" "), words.join(" ")))
}

/// The lists of splits.
#[derive(Default)]
struct Lists {
    /// Names of the splits whose lists have ids.
    used: Vec<&'static str>,
    /// Names of the files without the id of an image.
    empty: Vec<String>,
    /// An id that a list without columns and extensions cannot have.
    unreadable: Option<String>,
    /// Number of ids whose image is missing.
    without_image: u64,
}

impl Lists {
    /// The lists of at least two splits, one of them with an image.
    fn find(look: &Look<'_>) -> Option<Self> {
        let files = look.files(SETS);
        let (names, images) = (files.stems("txt"), look.files("JPEGImages"));
        let (images, mut lists) = (images.images(), Self::default());
        for name in SPLITS.into_iter().filter(|name| names.contains(name)) {
            let content = look.read(&look.path(&format!("{SETS}/{name}.txt")), MAX_LIST_BYTES + 1);
            if content.len() as u64 > MAX_LIST_BYTES {
                return None;
            }
            let content = String::from_utf8(content).ok()?;
            let ids: Vec<&str> = content.lines().map(str::trim).filter(|id| !id.is_empty()).collect();
            let lacking = ids.iter().filter(|id| !images.contains(**id)).count();
            // A split without any image cannot be packed.
            match ids.len() == lacking && !ids.iter().any(|id| !is_plain(id)) {
                true => lists.empty.push(format!("{name}.txt")),
                false => lists.used.push(name),
            }
            lists.without_image += if ids.len() == lacking { 0 } else { lacking as u64 };
            if let Some(id) = ids.iter().find(|id| !is_plain(id)) {
                lists.unreadable.get_or_insert((*id).to_owned());
            }
        }
        (lists.used.len() + lists.empty.len() >= 2 && !lists.used.is_empty()).then_some(lists)
    }
}

/// Whether a line of a list is an id: no field of several, and no name with an extension.
fn is_plain(id: &str) -> bool {
    id.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '(' | ')'))
}

/// The options for several datasets side by side: the years of `VOCdevkit`, each by the name of its folder.
pub(super) fn all(years: &[(&String, Found)]) -> Option<Found> {
    let (_, first) = years.first()?;
    let mut options: Vec<(&'static str, String)> = Vec::new();
    for option in years.iter().flat_map(|(_, year)| &year.options) {
        let option = if option.0 == "--include" { ("--include", format!("*/{}", option.1)) } else { option.clone() };
        if !options.contains(&option) {
            options.push(option);
        }
    }
    options.sort_by_key(|(name, _)| *name == "--on-missing");
    let names: Vec<&str> = years.iter().map(|(folder, _)| folder.as_str()).collect();
    let what = format!(
        "Pascal VOC datasets in {}: images are in JPEGImages, and more files in folders beside it",
        names.join(", ")
    );
    Some(Found::new(what, options, first.result))
}
