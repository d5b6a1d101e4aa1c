//! Pascal VOC: `JPEGImages`, `Annotations`, `SegmentationClass`.

use shardpack_format::shell;

use super::{Found, Look, annotations, on_missing};

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
    const SETS: &str = "ImageSets/Main";
    if look.tree.listed.is_some() {
        return None;
    }
    let lists = look.files(SETS);
    let names = lists.stems("txt");
    let given = ["train", "val", "test"].into_iter().filter(|name| names.contains(name));
    let path = |below: &str| shell::path(look.path(below)).to_string();
    let lists: Vec<String> =
        given.map(|name| format!("--split {name}={}", path(&format!("{SETS}/{name}.txt")))).collect();
    if lists.len() < 2 {
        return None;
    }
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
    Some(format!("shardpack pack {} DST {} packs the splits of {SETS}", lists.join(" "), words.join(" ")))
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
